"""The longer view: a night compares today's skill with the one before the oldest adopted night, and its
guidance passes the gate.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from _loopback import Call, LoopbackProvider
from night._nights import LEARNT, RULE, SKILL, Person, scripted
from night._sessions import BAD, SUBJECTS, good
from night.test_night import Ear, desk, night
from skillopt.errors import Interrupted
from skillopt.events import EpochEnded, Judged, StageClosed
from skillopt.skill.document import Document
from skillopt_sleep import NightResult
from skillopt_sleep.job import benchmark_of
from skillopt_sleep.plan import NightPlan

GUIDE = "- Before you send a brief, look for the section on risks once more."
LATER = SUBJECTS[12:]
"""Subjects of the second night: with them the rule alone is not enough."""


def learning(guidance: str = GUIDE, seen: list[tuple[str, str]] | None = None) -> Callable[[Call], str]:
    """A simulated model that needs the rule, for later subjects also the guidance; its slow
    update says this.
    """

    def answer(call: Call) -> str:
        place = call.place or ""
        if seen is not None:
            seen.append((place, call.text))
        if "/slow_update/" in place:
            return json.dumps(
                {"reasoning": "the later briefs still miss it", "slow_update_content": guidance}
            )
        if place.startswith("rollout/") and any(subject in call.text for subject in LATER):
            asked = next((subject for subject in SUBJECTS if subject in call.text), "it is so")
            return good(asked) if RULE in call.text and GUIDE in call.text else BAD
        return scripted(RULE)(call)

    return answer


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "home").write(sessions=12)


def days_later(person: Person) -> None:
    talks = person.home / ".skillopt-sleep" / "sessions" / "talks.jsonl"
    talks.write_text("".join(person.lines(range(12, 20))))


SETTINGS = {"llm_mine": False, "lookback_hours": 0, "val_fraction": 0.4}
UNHEDGED = {"model.target.hedge": "off", "model.optimizer.hedge": "off"}
"""On a busy machine a call can be slow enough to be sent twice on purpose."""


async def two_nights(
    person: Person, provider: LoopbackProvider, ear: Ear | None = None, **settings: object
) -> NightResult:
    first = await night(person, provider, **SETTINGS)
    assert first.proposal is not None
    desk(person).adopt(edits=[1])
    days_later(person)
    return await night(person, provider, ear, **{**SETTINGS, **settings})


@pytest.mark.slow
async def test_guidance_of_the_longer_view_is_gated_proposed_adopted_and_undone(person: Person) -> None:
    ear = Ear()
    seen: list[tuple[str, str]] = []
    async with LoopbackProvider(learning(seen=seen)) as provider:
        ended = await two_nights(person, provider, ear)
    (target,) = ended.plan.targets
    assert target.earlier is not None and (
        target.earlier.night,
        target.earlier.nights_ago,
        target.earlier.text,
    ) == (1, 1, SKILL)
    (view,) = [event for event in ear.heard if isinstance(event, EpochEnded)]
    assert view.slow_update.action == "accept_new_best" and {pair.category for pair in view.pairs} == {
        "improved"
    }
    (verdict,) = [event for event in ear.heard if isinstance(event, Judged) and str(event.place) == "e1/end"]
    assert verdict.action == "accept"
    assert ended.proposal is not None
    (target,) = ended.proposal.targets
    (change,) = target.edits
    assert change.evidence[0].edit == {"op": "slow_update", "content": GUIDE} and change.evidence[0].why
    assert any(
        "slow update, compared with the text before night 1: accept_new_best" in note
        for note in ended.proposal.notes
    )
    (asked,) = [text for place, text in seen if "/slow_update/" in place]
    assert "# Skill 1 night ago" in asked and "night after night" in asked
    desk(person).adopt(edits=[edit.id for edit in ended.proposal.edits])
    live = person.skill.read_text()
    assert (
        live.startswith(LEARNT)
        and Document(live).region("slow_update") == GUIDE
        and Document(live).rendered.endswith(f"{GUIDE}\n")
    )
    desk(person).undo(ended.proposal.id)
    assert person.skill.read_text() == LEARNT


@pytest.mark.slow
async def test_the_comparison_uses_train_tasks_of_earlier_nights_and_no_held_out_one(person: Person) -> None:
    ear = Ear()
    async with LoopbackProvider(learning()) as provider:
        ended = await two_nights(person, provider, ear)
    first = NightPlan.load(person.around().home.project(person.project).night(1)).targets[0]
    compared = {
        row.task
        for event in ear.heard
        if isinstance(event, StageClosed) and "/end/" in str(event.place)
        for row in event.rows
    }
    assert compared and compared <= {task.id for task in first.tasks if task.split == "train"}
    assert not compared & {
        task.id for target in (first, *ended.plan.targets) for task in target.tasks if task.split != "train"
    }


@pytest.mark.slow
async def test_guidance_that_does_not_help_is_rejected_and_the_night_says_so(person: Person) -> None:
    async with LoopbackProvider(learning("- Be nice.")) as provider:
        ended = await two_nights(person, provider)
    assert ended.proposal is None and person.skill.read_text() == LEARNT
    assert any(
        "slow update, compared with the text before night 1: reject" in note for note in ended.plan.notes
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "decide", ["undo", *(pytest.param(name, marks=pytest.mark.real) for name in ("nothing", "discard"))]
)
async def test_without_an_adopted_night_there_is_no_slow_update_and_the_night_says_why(
    person: Person, decide: str
) -> None:
    seen: list[tuple[str, str]] = []
    async with LoopbackProvider(learning(seen=seen)) as provider:
        await night(person, provider, **SETTINGS)
        if decide == "discard":
            desk(person).discard()
        elif decide == "undo":
            desk(person).adopt(edits=[1])
            desk(person).undo()
        days_later(person)
        ended = await night(person, provider, **SETTINGS)
    assert ended.plan.targets[0].earlier is None and not [
        place for place, _ in seen if "/slow_update/" in place
    ]
    assert any(
        "no slow update: nothing of the last 5 nights was adopted" in note for note in ended.plan.notes
    )


@pytest.mark.slow
async def test_a_window_of_nights_is_kept_and_none_switches_it_off(person: Person) -> None:
    async with LoopbackProvider(learning("")) as provider:
        await two_nights(person, provider, slow_update_nights=1)
        third = await night(person, provider, **SETTINGS, slow_update_nights=1, edit_budget=3)
        fourth = await night(person, provider, **SETTINGS, slow_update_nights=3)
        off = await night(person, provider, **SETTINGS, slow_update_nights=0)
    assert third.plan.targets[0].earlier is None, "the adopted night is two nights ago"
    assert fourth.plan.targets[0].earlier is not None and fourth.plan.targets[0].earlier.nights_ago == 3
    assert off.plan.targets[0].earlier is None and not [
        note for note in off.plan.notes if "slow update" in note
    ]


@pytest.mark.slow
@pytest.mark.parametrize("events", [9, *(pytest.param(number, marks=pytest.mark.real) for number in (4, 12))])
async def test_a_night_with_a_longer_view_is_the_same_after_a_stop_and_pays_nothing_twice(
    person: Person, events: int
) -> None:
    async with LoopbackProvider(learning()) as provider:
        with pytest.raises(Interrupted):
            await two_nights(person, provider, Ear(stop_after=events), options=UNHEDGED)
        ended = await night(person, provider, **SETTINGS, options=UNHEDGED)
        sent = [
            (one.place, one.draw)
            for one in provider.log
            if (one.place or "").startswith(("rollout/", "e1/end"))
        ]
    assert (
        ended.resumed and ended.proposal is not None and GUIDE in (ended.proposal.targets[0].text({1}) or "")
    )
    assert len(sent) == len(set(sent))


@pytest.mark.slow
async def test_a_memory_file_keeps_its_guidance_in_our_block(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write(sessions=12, skill=False, skills=())
    memory = person.project / "CLAUDE.md"
    memory.write_text("# House rules\n\nBe kind.\n")
    async with LoopbackProvider(learning()) as provider:
        await night(person, provider, **SETTINGS, evolve_memory=True)
        desk(person).adopt(edits=[1])
        talks = person.home / ".skillopt-sleep" / "sessions" / "talks.jsonl"
        talks.write_text("".join(person.lines(range(12, 20), ())))
        ended = await night(person, provider, **SETTINGS, evolve_memory=True)
    assert ended.proposal is not None
    desk(person).adopt(edits=[edit.id for edit in ended.proposal.edits])
    assert memory.read_text().startswith("# House rules\n\nBe kind.\n") and GUIDE in memory.read_text()


@pytest.mark.slow
async def test_what_the_person_wants_is_told_to_the_longer_view_too(
    person: Person, snapshot: SnapshotAssertion
) -> None:
    async with LoopbackProvider(learning()) as provider:
        ended = await two_nights(person, provider, preferences="Never use tables.")
    prompts = benchmark_of(ended.plan.targets[0], ended.plan.advice).prompts
    assert (
        "- Never use tables." in prompts["slow_update"] and "agreed to adding this" in prompts["slow_update"]
    )
    assert prompts["slow_update"] == snapshot
