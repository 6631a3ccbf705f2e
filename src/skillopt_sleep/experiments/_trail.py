"""Follows one edit through the log of a run: where it was proposed, on which rows it was measured, and
whether it was kept out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skillopt.events import Checkpoint, Event, Judged, Reflected, StageClosed, Updated
from skillopt.place import Place
from skillopt.skill.store import Skills


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """What the log says of a step in which the edit was proposed."""

    night: int
    step: int
    place: str
    """The step's name in the log."""
    action: str
    """The gate's verdict on the step's candidate."""
    rows: int
    """Val rows on which the candidate was really measured."""
    passed: int
    """Those of them that it passed."""
    rows_total: int
    metric: str
    """What the gate read."""
    incumbent: float | None
    candidate: float | None
    """The candidate's score, or the most it could have reached when the gate stopped."""
    is_bound: bool
    why: str
    taken: bool
    """Whether it stood in the skill after the step."""

    @property
    def is_measured(self) -> bool:
        """The candidate with the edit was asked real rows."""
        return self.rows > 0

    @property
    def is_rejected(self) -> bool:
        """It was measured, the gate said no, and the skill went on without it."""
        return self.is_measured and self.action == "reject" and not self.taken


def trails(events: Sequence[Event], skills: Skills, edit: str, night: int) -> list[Trail]:
    """One trail for each step whose analysts proposed the edit, by the events with an id alone."""
    updates = {event.place: event for event in events if isinstance(event, Updated)}
    verdicts = {event.place: event for event in events if isinstance(event, Judged)}
    rows = {
        event.place: event.rows
        for event in events
        if isinstance(event, StageClosed) and event.stage == "selection"
    }
    closed = {
        Place.parse(event.id or "").root: event
        for event in events
        if isinstance(event, Checkpoint) and event.kind == "step"
    }
    found = []
    for place in _proposed(events, edit):
        verdict, end = verdicts.get(place), closed.get(place)
        if verdict is None or end is None:
            continue  # a step that was opened again: its later take has a place of its own
        update = updates.get(place)
        is_about = (
            update is not None and edit in skills.get(update.skill).text and verdict.skill == update.digest
        )
        measured = rows.get(place, []) if is_about else []
        found.append(
            Trail(
                night=night,
                step=place.step,
                place=str(place),
                action=verdict.action,
                rows=len(measured),
                passed=sum(row.hard == 1 for row in measured),
                rows_total=verdict.rows_total,
                metric=verdict.metric,
                incumbent=verdict.incumbent,
                candidate=verdict.bound if verdict.candidate is None else verdict.candidate,
                is_bound=verdict.candidate is None,
                why=verdict.why,
                taken=edit in skills.get(end.state.skill).text,
            )
        )
    return found


def _proposed(events: Iterable[Event], edit: str) -> list[Place]:
    return [
        event.place
        for event in events
        if isinstance(event, Reflected)
        and any(edit in str(one.get("content", "")) for patch in event.patches for one in patch.edits)
    ]
