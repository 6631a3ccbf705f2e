"""A step owns its events: they can be held back, committed in order, or dropped."""

from __future__ import annotations

from skillopt.events import Event, Notice
from skillopt.events.place import Place
from skillopt.events.step import Outbox, Step
from skillopt.skill.document import Document
from steps import step_at


def fact(name: str) -> Notice:
    return Notice(id=name, text=name)


def test_facts_are_held_until_they_are_committed_and_live_events_never_are() -> None:
    heard: list[Event] = []
    outbox = Outbox(heard.append, holds=True)
    for event in (fact("a"), Notice(text="live"), fact("b")):
        outbox(event)
    assert [event.id for event in heard] == [None]
    outbox.commit()
    outbox(fact("c"))
    assert [event.id for event in heard] == [None, "a", "b", "c"]


def test_what_is_dropped_was_never_said() -> None:
    heard: list[Event] = []
    outbox = Outbox(heard.append, holds=True)
    outbox(fact("a"))
    outbox.drop()
    outbox.commit()
    assert not heard


def test_a_part_of_a_step_that_is_held_commits_into_the_step() -> None:
    heard: list[Event] = []
    step = Step(place=Place.of_step(1, 1), emit=Outbox(heard.append, holds=True), skill=Document("# Skill\n"))
    first, second = (step.at(step.place.part(candidate=number), holds=True) for number in (1, 2))
    second.emit(fact("second"))
    first.emit(fact("first"))
    for part in (first, second):
        part.emit.commit()
    assert not heard, "the step itself is not decided yet"
    step.emit.commit()
    assert [event.id for event in heard] == ["first", "second"]


async def test_parts_share_tokens_and_timing_with_their_step() -> None:
    async def work() -> str:
        return "done"

    step = step_at("e1/s1")
    part = step.at(step.place.part(candidate=1))
    assert await part.timed("evaluate", work()) == "done"
    part.tokens.add("analyst_failure", 1, None)
    part.tokens.add("analyst_success", 2, None)
    assert set(step.timing) == {"evaluate"} and step.tokens.as_record()["analyst"].calls == 3
