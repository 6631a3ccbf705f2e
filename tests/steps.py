"""A step for a test: at some place, from some skill, reporting to a list."""

from __future__ import annotations

from typing import Any

from skillopt.events import Event
from skillopt.events.place import Place
from skillopt.events.step import Outbox, Step
from skillopt.skill.document import Document


def step_at(place: str = "e1/s1", events: list[Event] | None = None, **about: Any) -> Step:
    """A step there; what it reports is added to `events`."""
    about = {"skill": Document("# Skill\n"), **about}
    return Step(
        place=Place.parse(place), emit=Outbox([].append if events is None else events.append), **about
    )
