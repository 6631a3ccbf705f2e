"""What nights remember: tasks that decide add up, nothing is paid without news, refused edits are told."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from _loopback import Call, LoopbackProvider
from night._nights import HARM, NOW, RULE, Person, clock, scripted
from night._reader import mine
from night._sessions import briefs
from skillopt_sleep import NightResult, NightSettings, Roles, run_night
from skillopt_sleep.tasks import MIN_VAL, balanced


async def night(
    person: Person, provider: LoopbackProvider, after: int = 0, **settings: object
) -> NightResult:
    model = f"compatible:m@{provider.base_url}"
    roles = Roles(target=model, optimizer=model)

    def now() -> datetime:
        return clock() + timedelta(days=after)

    return await run_night(person.around(**settings), roles, environ={}, now=now)


def sessions(person: Person, numbers: range) -> None:
    """Let these sessions be the only ones that are read."""
    path = person.home / ".skillopt-sleep" / "sessions" / "talks.jsonl"
    path.write_text("".join(person.lines(numbers)), encoding="utf-8")


@pytest.mark.slow
async def test_ten_tasks_over_three_nights_show_a_gain(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write(sessions=0)
    held = []
    async with LoopbackProvider(scripted()) as provider:
        for after, numbers in enumerate((range(4), range(4, 7))):
            sessions(person, numbers)
            ended = await night(person, provider, after)
            (target,) = ended.plan.targets
            assert not target.ended.judgement.verified, "nothing was found yet"
            held.append({task.id for task in target.tasks if task.split == "val"})
    async with LoopbackProvider(scripted(RULE)) as provider:
        sessions(person, range(7, 10))
        ended = await night(person, provider, 2)
    (target,) = ended.plan.targets
    held.append({task.id for task in target.tasks if task.split == "val"})
    assert ended.proposal is not None and target.ended.judgement.verified
    assert len(held[0]) == 2 and len(held[1]) == MIN_VAL and held[0] < held[1] <= held[2]
    assert len(target.tasks) == 10, "what was learned from comes again too"


@pytest.mark.slow
async def test_a_night_without_news_asks_nobody(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write()
    asked: list[Call] = []

    def answer(call: Call) -> str:
        asked.append(call)
        return scripted(RULE)(call)

    async with LoopbackProvider(answer) as provider:
        first = await night(person, provider)
        paid = len(asked)
        second = await night(person, provider, 1)
        assert paid and len(asked) == paid
        assert (second.proposal, second.plan.number) == (None, 1) and second.plan.cost.tokens == 0
        assert second.plan.outcome.endswith("no news since night 1, so nobody was asked")
        (kept,) = person.around().kept.ended(5)
        assert first.proposal is not None and kept.proposal == first.proposal.id
        lines = person.home / ".skillopt-sleep" / "sessions" / "talks.jsonl"
        said = lines.read_text().replace("Gladly.", "Gladly indeed.")
        lines.write_text(said)
        assert (await night(person, provider, 1)).plan.number == 1, "the same turns are no news"
        more = [
            line.replace('"s19"', '"new"').replace("elephants", "lions")
            for line in person.lines(range(19, 20))
        ]
        lines.write_text(said + "".join(more))
        assert (await night(person, provider, 1)).plan.number == 2 and len(asked) > paid


@pytest.mark.slow
async def test_other_settings_are_news(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write(sessions=6)
    async with LoopbackProvider(scripted(RULE)) as provider:
        assert (await night(person, provider)).plan.number == 1
        assert (await night(person, provider, 1, edit_budget=2)).plan.number == 2


@pytest.mark.slow
async def test_what_held_out_tasks_refused_is_told_to_the_optimizer_of_the_next_night(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write(sessions=12)
    told: list[str] = []

    def answer(call: Call) -> str:
        told.extend([call.text] if "analyst" in (call.place or "") else [])
        return scripted(HARM)(call)

    async with LoopbackProvider(answer) as provider:
        first = await night(person, provider)
        assert first.proposal is None and first.plan.targets[0].ended.refused == (HARM,)
        assert not any("answers were no better with it" in text for text in told)
        told.clear()
        sessions(person, range(16))
        await night(person, provider, 1)
    assert told and all("answers were no better with it" in text and HARM in text for text in told)


@pytest.mark.parametrize(("count", "others"), [(1, 0), (2, 0), (4, 0), (3, 4), (10, 0), (40, 0)])
def test_where_few_decide_new_requests_are_shared_out_and_pinned_ones_stay(count: int, others: int) -> None:
    settings = NightSettings()
    forms = [f"write a brief on subject {number}" for number in range(count)]
    made = balanced(forms, {forms[0]: "train"}, ["train"] * others, settings)
    assert made[forms[0]] == "train" and len(made) == count
    decide = sum(split == "val" for split in made.values())
    assert decide >= min(MIN_VAL, (count + others) // 2, count - 1)
    assert made == balanced(reversed(forms), {forms[0]: "train"}, ["train"] * others, settings)


async def test_what_decided_once_decides_ever_after() -> None:
    first = await mine(briefs(6))
    later = await mine(briefs(20), remembered=first.tasks)
    now = {task.id: task.split for task in later.tasks}
    assert all(now[task.id] == task.split for task in first.tasks)
    assert NOW and sum(task.split == "val" for task in first.tasks) == MIN_VAL
