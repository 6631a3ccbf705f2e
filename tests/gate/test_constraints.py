"""Constraints: a better skill that costs too much is refused by what its stored rollouts took, the same after
any stop.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from _loopback import Answer, Call, LoopbackProvider, world_answers
from claims.promises._runs import events_of, in_world, make_job, quick_folder, run
from cli._commands import run as command
from skillopt.events import Checkpoint, Event, Judged, StageClosed
from skillopt.gate.constraints import Constraints, Effort, GateRuling
from skillopt.models.world.rules import FAMILIES, WorldRules
from skillopt.run import Job

ACCEPT = GateRuling(ruling="accept", why="0.9 > 0.5 on all 2 rows", by="score")
ROWS = (("a", 0), ("b", 0))
SMALL = (
    *(
        "env.train_cases=12",
        "env.val_cases=10",
        "env.test_cases=4",
        "train.batch_size=6",
        "train.num_epochs=2",
    ),
    *(
        "gradient.minibatch_size=3",
        "evaluation.repeats=1",
        "optimizer.use_slow_update=false",
        "optimizer.use_meta_skill=false",
    ),
)


def took(*each: int | float | None, noun: str = "tokens") -> dict[tuple[str, int], Effort]:
    return {row: Effort(**{noun: one}) for row, one in zip(ROWS, each, strict=True)}


def job_of(*options: str, model: str = "world:seed=3") -> Job:
    return make_job(in_world(model, *SMALL, *options))


@pytest.fixture
def quick() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


@pytest.mark.parametrize(
    ("share", "after", "ruling"),
    [(0.1, 110, "accept"), (0.1, 111, "reject"), (0.0, 100, "accept"), (0.0, 101, "reject")],
)
def test_exactly_the_allowed_share_is_allowed(share: float, after: int, ruling: str) -> None:
    for noun in ("tokens", "latency"):
        limits = Constraints(**{noun: share})
        unit = "tokens" if noun == "tokens" else "seconds"
        ruled = limits.apply(ACCEPT, took(40, 60, noun=unit), took(after - 60, 60, noun=unit))
        assert (ruled.ruling, ruled.by) == (ruling, noun if ruling == "reject" else "score")
        assert ruled.why.startswith(ACCEPT.why) and unit in ruled.why


def test_the_reason_names_both_figures_and_the_key() -> None:
    ruled = Constraints(tokens=0.2).apply(ACCEPT, took(400, 600), took(900, 900))
    assert (
        ruled.why
        == "0.9 > 0.5 on all 2 rows, but it takes 900 tokens a row against 500: at most 20 % more are allowed"
        " (gate.max_tokens_increase)"
    )


def test_a_candidate_that_is_not_better_is_never_saved_by_being_cheap() -> None:
    for ruling in ("reject", "inconclusive"):
        ruled = GateRuling(ruling=ruling, why="not better", by="score")
        assert Constraints(tokens=0.0, latency=0.0).apply(ruled, took(100, 100), took(1, 1)) == ruled


def test_what_nobody_counted_is_rejected_or_allowed_by_rule_and_said_either_way() -> None:
    before, after = took(100, None), took(90, 90)
    refused = Constraints(tokens=0.5).apply(ACCEPT, before, after)
    assert (refused.ruling, refused.by) == ("reject", "tokens")
    assert (
        "cannot be checked: 1 of 2 rows do not say their tokens" in refused.why
        and "unknown_effort" in refused.why
    )
    allowed = Constraints(tokens=0.5, unknown="allow").apply(ACCEPT, before, after)
    assert allowed.ruling == "accept" and "1 of 2 rows do not say, and are allowed" in allowed.why
    dear = Constraints(tokens=0.5, unknown="allow").apply(ACCEPT, before, took(200, 1))
    assert dear.ruling == "reject", "what is known still counts"
    nothing = Constraints(latency=0.5, unknown="allow").apply(ACCEPT, {}, took(1, 1))
    assert nothing.ruling == "accept" and "gate.max_latency_increase could not be checked" in nothing.why


def test_an_incumbent_that_says_nothing_ends_training_before_it_is_paid() -> None:
    assert (
        Constraints(tokens=0.5)
        .objection_to_all(took(1, None))
        .startswith("gate.max_tokens_increase cannot be checked: 1 of 2 rows")
    )
    assert Constraints(tokens=0.5, unknown="allow").objection_to_all(took(1, None)) == ""
    assert Constraints().objection_to_all(took(None, None)) == ""


def judged(folder: Path) -> list[Judged]:
    return [event for event in events_of(folder) if isinstance(event, Judged)]


@pytest.mark.slow
async def test_a_skill_may_not_get_longer_where_no_further_token_is_allowed(quick: Path) -> None:
    free, bound = quick / "free", quick / "bound"
    await run(job_of(), free)
    await run(job_of("gate.max_tokens_increase=0"), bound)
    assert "accept" in {event.action for event in judged(free)}
    stopped = [event for event in judged(bound) if event.decided_by == "tokens"]
    assert stopped and all(
        event.action == "reject" and event.candidate > event.incumbent for event in stopped
    )
    assert "accept" not in {event.action for event in judged(bound)}
    told = [
        entry.why for event in events_of(bound) if isinstance(event, Checkpoint) for entry in event.remembered
    ]
    assert any("gate.max_tokens_increase" in why for why in told), "the optimizer is told why"


@pytest.mark.slow
async def test_a_wide_limit_changes_no_verdict(quick: Path) -> None:
    await run(job_of(), quick / "free")
    await run(job_of("gate.max_tokens_increase=9"), quick / "bound")
    told = [
        [(str(event.place), event.action, event.candidate) for event in judged(quick / name)]
        for name in ("free", "bound")
    ]
    assert told[0] == told[1]


async def test_with_the_gate_off_no_constraint_decides(quick: Path) -> None:
    await run(job_of("gate.max_tokens_increase=0", "evaluation.use_gate=false"), quick)
    assert "tokens" not in {event.decided_by for event in judged(quick)}


class Halt(Exception):
    """A watcher that breaks."""


RULES = [rule for pair in FAMILIES.values() for rule in pair]


async def test_a_verdict_on_latency_rests_on_stored_seconds_also_when_the_provider_has_become_quick(
    tmp_path: Path,
) -> None:
    slow = True

    def latency(call: Call) -> float:
        return (
            0.4
            if slow and (call.place or "").startswith("rollout/") and any(rule in call.text for rule in RULES)
            else 0.0
        )

    def halt(event: Event) -> None:
        if isinstance(event, StageClosed) and event.stage == "selection" and str(event.place) != "baseline":
            raise Halt

    answers = world_answers(WorldRules(harm=0.0, noise=0.0))
    async with LoopbackProvider(answers, latency=latency) as provider:
        better = (
            "train.num_epochs=1",
            "train.batch_size=12",
            "optimizer.learning_rate=8",
            "env.world_seed=1",
        )
        job = job_of("gate.max_latency_increase=1", *better, model=f"compatible:m@{provider.base_url}")
        with pytest.raises(Halt):
            await run(job, tmp_path, sinks=[halt])
        slow, before = False, len(provider.log)
        await run(job, tmp_path)
        first = [one.place for one in provider.log[before:] if (one.place or "").startswith("rollout/")]
    verdicts = [event for event in judged(tmp_path) if str(event.place) == "e1/s1"]
    assert [(event.action, event.decided_by) for event in verdicts] == [("reject", "latency")], verdicts
    assert re.search(r"it takes 0\.[4-9]\d seconds a row against", verdicts[0].why)
    rows = {
        str(event.place): event.rows
        for event in events_of(tmp_path)
        if isinstance(event, StageClosed) and event.stage == "selection"
    }
    assert all(row.seconds >= 0.4 for row in rows["e1/s1"])
    with_rules = {row.rollout for row in rows["e1/s1"]}
    assert not [place for place in first if any(key in place for key in with_rules)], (
        "nothing is measured again"
    )
    assert command("runs", "explain", str(tmp_path), "1").code == 0


async def test_answers_without_usage_stop_a_limited_run_at_once_and_say_why(tmp_path: Path) -> None:
    def answer(call: Call) -> Answer:
        return Answer(text=str(world_answers()(call)), reports_usage=False)

    async with LoopbackProvider(answer) as provider:
        job = job_of("gate.max_tokens_increase=0.5", model=f"compatible:m@{provider.base_url}")
        result = await run(job, tmp_path)
        asked = [one.place for one in provider.log if not (one.place or "").startswith("rollout/")]
    assert "gate.max_tokens_increase cannot be checked" in result.summary["stopped_because"]
    assert not asked, "no optimizer call was paid for candidates that could not pass"


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [("gate.max_tokens_increase=0.02",), ("gate.max_tokens_increase=0.02", "gate.policy=confirm")]
)
def test_explain_finds_constrained_verdicts_again(tmp_path: Path, options: tuple[str, ...]) -> None:
    asyncio.run(run(job_of(*options), tmp_path))
    for event in judged(tmp_path):
        name = f"{event.place.step}/c{event.place.candidate}"
        ran = command("runs", "explain", str(tmp_path), name, "--json")
        assert ran.code == 0, ran.out
    assert {event.decided_by for event in judged(tmp_path)} & {"tokens"}
