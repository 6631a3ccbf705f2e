"""What a night's held-out rows show is tested exactly, said in words, and judged again by later nights."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from _loopback import LoopbackProvider
from night._nights import LEARNT, RULE, SKILL, Person, clock, scripted
from night._sessions import SUBJECTS
from night.test_memory import night, sessions
from skillopt.errors import UsageError
from skillopt_sleep.judgement import Judgement, TaskScores
from skillopt_sleep.training import chance_of


def rows(better: int, worse: int = 0, same: int = 0, telling: bool = True) -> tuple[TaskScores, ...]:
    moved = [(0.0, 1.0)] * better + [(1.0, 0.0)] * worse + [(0.0, 0.0)] * same
    return tuple(
        TaskScores(task=f"{telling}{place}", before=before, after=after, telling=telling)
        for place, (before, after) in enumerate(moved)
    )


@pytest.mark.parametrize(
    ("pairs", "tried", "is_shown"),
    [
        (rows(1, same=4), 1, False),
        (rows(1, same=6), 1, False),
        (rows(4), 1, False),
        (rows(5), 1, True),
        (rows(5), 2, False),
        (rows(8), 2, True),
        (rows(6, 2), 1, False),
        (rows(5) + rows(5, telling=False), 1, True),
        (rows(2) + rows(20, telling=False), 1, False),
        (rows(20, telling=False), 1, False),
    ],
)
def test_a_gain_counts_as_shown_only_where_chance_would_seldom_do_as_well(
    pairs: tuple[TaskScores, ...], tried: int, is_shown: bool
) -> None:
    p = chance_of(pairs, tried)
    assert (p is not None and p < 0.05) is is_shown


def test_of_texts_that_help_nobody_hardly_any_is_called_shown() -> None:
    rng = random.Random(7)
    better = shown = 0
    for _ in range(400):
        chances = [rng.random() for _ in range(8)]
        seed, *texts = ([float(rng.random() < chance) for chance in chances] for _ in range(5))
        best = max(texts, key=sum)
        if sum(best) > sum(seed):
            pairs = tuple(
                TaskScores(task=str(place), before=before, after=after)
                for place, (before, after) in enumerate(zip(seed, best, strict=True))
            )
            better += 1
            shown += (chance_of(pairs, len(texts)) or 1.0) < 0.05
    assert (better, shown) == (257, 0)


def test_the_finding_says_how_many_and_whether_it_could_be_chance() -> None:
    def said(pairs: tuple[TaskScores, ...], **more: object) -> str:
        return Judgement.model_validate(
            {"action": "accept", "verified": False, "why": "", "pairs": pairs} | more
        ).finding

    assert said(rows(1, 1, 5), p=0.5) == ("no better: better on 1 of 7 held-out tasks, worse on 1 (p = 0.5)")
    assert said(rows(8), p=0.0039) == "real: better on 8 of 8 held-out tasks (p = 0.0039)"
    assert said(rows(5), p=0.0625, tried=2) == (
        "could be chance: better on 5 of 5 held-out tasks (p = 0.062, 2 tries)"
    )
    assert said(rows(2) + rows(3, telling=False), p=0.25).endswith(
        "; those measured by form alone, 3, count for nothing"
    )
    assert said(()) == "not proven yet: not measured"
    assert said(rows(2)) == "not proven yet: better on 2 of 2 held-out tasks (not tested)"


@pytest.mark.slow
async def test_one_better_task_of_many_is_proposed_and_could_be_chance(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write()
    async with LoopbackProvider(scripted()) as provider:
        held = next(
            task.prompt
            for task in (await night(person, provider)).plan.targets[0].tasks
            if task.split == "val"
        )
    hard = [subject for subject in SUBJECTS if subject in held]
    learn = [subject for subject in SUBJECTS if subject not in held]

    def answer(call):  # type: ignore[no-untyped-def]
        # Only this one request gets better; the others fail with every skill.
        stuck = any(subject in call.text for subject in learn) and (call.place or "").startswith("rollout/")
        return "It is about nothing." if stuck else scripted(RULE, hard=hard)(call)

    other = Person(tmp_path / "other").write()
    async with LoopbackProvider(answer) as provider:
        ended = await night(other, provider)
    assert ended.proposal is not None
    judged = ended.proposal.targets[0].judgement
    assert not judged.verified and judged.finding == (
        "could be chance: better on 1 of 8 held-out tasks (p = 0.28)"
    )
    with pytest.raises(UsageError, match=r"is not shown to help\. .*--edit 1\.$"):
        other.around().adoption(clock).adopt()
    other.around().adoption(clock).adopt(edits=[1])
    assert other.skill.read_text() == LEARNT, "who wants it may have it"


@pytest.mark.slow
async def test_what_nobody_decided_on_is_measured_again_with_later_tasks_and_may_be_shown(
    tmp_path: Path,
) -> None:
    person = Person(tmp_path / "home").write(sessions=0)
    sessions(person, range(4))
    async with LoopbackProvider(scripted(RULE)) as provider:
        first = await night(person, provider)
    assert first.proposal is not None and not first.proposal.targets[0].judgement.verified
    sessions(person, range(4, 20))
    async with LoopbackProvider(scripted()) as provider:  # nobody proposes anything this time
        second = await night(person, provider, 1)
    assert second.proposal is not None
    (target,) = second.proposal.targets
    assert target.text([edit.id for edit in target.edits]) == LEARNT
    assert target.judgement.verified and "measured again" in target.judgement.why
    assert target.judgement.tried == 2, "a second look is a second chance to be wrong"
    assert target.judgement.example is not None and RULE in [
        evidence.edit["content"] for edit in target.edits for evidence in edit.evidence
    ]
    assert any("night 1 proposed waits for you" in note for note in second.proposal.notes)
    states = {one.id: one.state for one in person.around().adoption(clock).status().proposals}
    assert states == {first.proposal.id: "replaced", second.proposal.id: "pending"}


@pytest.mark.slow
async def test_what_was_decided_on_or_was_made_for_another_text_is_not_taken_up(tmp_path: Path) -> None:
    for name in ("discarded", "edited"):
        person = Person(tmp_path / name).write(sessions=0)
        sessions(person, range(4))
        async with LoopbackProvider(scripted(RULE)) as provider:
            await night(person, provider)
        if name == "discarded":
            person.around().adoption(clock).discard()
        else:
            person.skill.write_text(SKILL + "- Mine.\n")
        sessions(person, range(4, 10))
        async with LoopbackProvider(scripted()) as provider:
            second = await night(person, provider, 1)
        assert second.proposal is None and second.plan.targets[0].carried is None


@pytest.mark.slow
async def test_an_earlier_proposal_that_tonights_tasks_do_not_bear_out_is_not_proposed_again(
    tmp_path: Path,
) -> None:
    person = Person(tmp_path / "home").write(sessions=0)
    sessions(person, range(4))
    async with LoopbackProvider(scripted(RULE)) as provider:
        await night(person, provider)
    (person.around().kept.rollouts).unlink()  # another model answers tonight
    sessions(person, range(4, 10))
    async with LoopbackProvider(scripted(hard=())) as provider:
        second = await night(person, provider, 1)
    (target,) = second.plan.targets
    assert target.carried is not None and second.proposal is None
    assert "no better on tonight's held-out tasks" in target.ended.judgement.why
