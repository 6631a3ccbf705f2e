"""Promise 1 and 2 under outages: never a score, never a burnt step, nothing paid lost, and the undisturbed
result in the end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from claims._product import (
    Answer,
    Call,
    Checkpoint,
    Document,
    Event,
    Judged,
    Misbehaviour,
    Notice,
    ProviderDown,
    Reflected,
    Retry,
    SkillOptError,
    StageClosed,
    UnusableReplies,
    api,
    world_answers,
)
from claims.promises._providers import (
    QUIET,
    SEED_TEXT,
    STAGES,
    Outage,
    asked,
    at,
    case_of,
    hash_of,
    on,
    options,
    provider_of,
    quiet_run,
    repeated,
    stage_of,
    train,
)
from claims.promises._runs import (
    QUICK,
    assert_same_run,
    committed,
    events_of,
    facts,
    history,
    make_job,
    summary,
    verdicts,
)

IMPATIENT = ("model.target.timeout=0.3", "model.optimizer.timeout=0.3")
QUOTA = {
    "error": {
        "message": "You exceeded your current quota",
        "type": "insufficient_quota",
        "code": "insufficient_quota",
    }
}
LOGIN = {
    "401": (Misbehaviour.status(401), "HTTP 401"),
    "403": (Misbehaviour.status(403), "HTTP 403"),
    "quota": (Misbehaviour.status(429, body=QUOTA), "quota or credit"),
}
PASSING = {
    "429": (Misbehaviour.status(429), "HTTP 429"),
    "429 with retry-after": (Misbehaviour.status(429, retry_after=0.02), "HTTP 429"),
    "500": (Misbehaviour.status(500), "HTTP 500"),
    "529": (Misbehaviour.status(529), "HTTP 529"),
    "reset": (Misbehaviour.reset(), "connection failed"),
    "garbage": (Misbehaviour.garbage(), "not well-formed"),
    "half": (Misbehaviour.half(), "connection failed"),
    "odd": (Misbehaviour.odd(), "not well-formed"),
    "hang": (Misbehaviour.hang(), "0.3 s"),
}
ILLS = {**LOGIN, **PASSING}
# Every ill at a stage of its own, and one of them at every stage.
FOREVER = sorted(
    {(ill, STAGES[(3 * n) % len(STAGES)]) for n, ill in enumerate(ILLS)}
    | {("500", stage) for stage in STAGES}
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nothing happened to."""
    return quiet_run(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("ill", "stage"), FOREVER)
async def test_an_outage_is_never_a_score_and_the_same_command_goes_on_to_the_undisturbed_result(
    ill: str, stage: str, tmp_path: Path, undisturbed: Path
) -> None:
    wrong, cause = ILLS[ill]
    outage = Outage(wrong, at(stage))
    async with provider_of(outage) as provider:
        with pytest.raises(ProviderDown) as down:
            await train(provider, tmp_path, *IMPATIENT)
        assert outage.hits
        assert down.value.exit_code == 3
        assert cause in str(down.value)
        # no zero, no extra step, nothing made up
        assert facts(tmp_path) == facts(undisturbed)[: len(facts(tmp_path))]
        kept, sent = committed(tmp_path), provider.calls
        assert outage.spared <= kept  # every answer that was given is there
        outage.over = True
        await train(provider, tmp_path, *IMPATIENT)
        assert not repeated(asked(provider, since=sent), kept)
    assert_same_run(tmp_path, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("ill", PASSING)
async def test_what_passes_is_survived_with_the_undisturbed_result(
    ill: str, tmp_path: Path, undisturbed: Path
) -> None:
    share = 8 if ill == "hang" else 2  # of the questions meet it, the first time they are asked
    outage = Outage(PASSING[ill][0], lambda call: call.attempt == 0 and hash_of(call) % share == 0)
    async with provider_of(outage) as provider:
        result, _ = await train(provider, tmp_path, *IMPATIENT)
    assert result.status == "finished"
    assert outage.hits >= 10
    assert_same_run(tmp_path, undisturbed)


@pytest.mark.parametrize("retry_after", [None, 0.05])
async def test_a_storm_of_429_that_passes_is_survived(
    retry_after: float | None, tmp_path: Path, undisturbed: Path
) -> None:
    since: list[float] = []

    def storms(call: Call) -> bool:
        """For a while at the start, and again in the middle of the run."""
        if call.index == 0 or (len(since) == 1 and call.index > 80):
            since.append(time.monotonic())
        return time.monotonic() - since[-1] < 0.3

    outage = Outage(Misbehaviour.status(429, retry_after=retry_after), storms)
    async with provider_of(outage) as provider:
        await train(
            provider, tmp_path, retry=Retry(attempts=12, seconds=20, first_delay=0.02, longest_delay=0.2)
        )
    assert len(since) == 2
    assert outage.hits > 10
    assert_same_run(tmp_path, undisturbed)


async def test_every_cause_is_named(tmp_path: Path) -> None:
    ills = [Misbehaviour.status(500), Misbehaviour.reset(), Misbehaviour.garbage()]
    outage = Outage(lambda call: ills[int(case_of(call)[-1]) % 3], at("rollout"))
    async with provider_of(outage) as provider:
        # one at a time, so that the causes are those of the rows read first
        with pytest.raises(ProviderDown, match="Stage 'rollout'") as down:
            await train(provider, tmp_path, "env.workers=24", retry=Retry(attempts=1))
    named = [
        cause for cause in ("HTTP 500", "connection failed", "not well-formed") if cause in str(down.value)
    ]
    # two rows of sixteen are more than a tenth: the stage is given up with both causes
    assert len(named) == 2


async def test_a_dead_login_stops_at_once(tmp_path: Path) -> None:
    async with provider_of(Outage(Misbehaviour.status(401), lambda call: True)) as provider:
        with pytest.raises(ProviderDown, match="refuses the login"):
            await train(provider, tmp_path, "env.workers=4")
        assert provider.calls <= 4


@pytest.mark.slow
async def test_a_run_outlives_one_outage_after_another(tmp_path: Path, undisturbed: Path) -> None:
    outage = Outage(Misbehaviour.status(500), lambda call: True)
    async with provider_of(outage) as provider:
        for stage in (*STAGES, None):
            outage.strikes = at(stage) if stage else lambda call: False
            kept, sent = committed(tmp_path), provider.calls
            if stage is None:
                await train(provider, tmp_path)
            else:
                with pytest.raises(ProviderDown):
                    await train(provider, tmp_path)
            assert not repeated(asked(provider, since=sent), kept)
    assert_same_run(tmp_path, undisturbed)


@pytest.mark.slow
async def test_when_one_test_arm_is_lost_the_other_stops_too_and_keeps_what_it_paid(
    tmp_path: Path, undisturbed: Path
) -> None:
    best = (undisturbed / "best_skill.md").read_text(encoding="utf-8").strip()
    outage = Outage(Misbehaviour.status(500), lambda call: stage_of(call) == "test" and best in call.text)
    async with provider_of(outage, latency=lambda call: 0.02) as provider:
        with pytest.raises(ProviderDown):
            await train(provider, tmp_path, "env.workers=3", retry=Retry(attempts=1))
        calls = provider.calls
        await asyncio.sleep(0.1)
        assert provider.calls == calls  # nothing goes on behind a run that has stopped
        assert outage.spared <= committed(tmp_path)
        outage.over = True
        await train(provider, tmp_path)
    assert_same_run(tmp_path, undisturbed)


async def test_when_one_evaluation_is_lost_the_others_stop_too_and_keep_what_they_paid(
    tmp_path: Path,
) -> None:
    skills = {"good": Document("# Good\n"), "bad": Document("# Bad\n")}
    outage = Outage(Misbehaviour.status(500), lambda call: "# Bad" in call.text)
    async with provider_of(outage, latency=lambda call: 0.02) as provider:
        job = make_job(options(provider, "env.workers=3"))
        with pytest.raises(ProviderDown):
            await api.evaluate(job, skills, ["train", "val", "test"], tmp_path, retry=Retry(attempts=1))
        calls = provider.calls
        await asyncio.sleep(0.1)
        assert provider.calls == calls
        kept = committed(tmp_path)
        assert outage.spared <= kept
        outage.over = True
        results = await api.evaluate(job, skills, ["train", "val", "test"], tmp_path, retry=QUICK)
        assert not repeated(asked(provider, since=calls), kept)
    assert {(one.skill, one.n, one.invalid) for one in results} == {
        (name, n, 0) for name in skills for n in (16, 12)
    }


@pytest.mark.slow
async def test_an_endpoint_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with provider_of() as provider:
        with pytest.raises(ProviderDown, match=r"http://127\.0\.0\.1:9"):
            await train(provider, tmp_path, "model.optimizer=compatible:m@http://127.0.0.1:9/v1")
        kept, sent = committed(tmp_path), provider.calls
        await train(provider, tmp_path)
        assert not repeated(asked(provider, since=sent), kept)


# Rows that stay lost while the rest is well


@pytest.mark.slow
async def test_a_pair_with_a_lost_arm_is_left_out_of_the_test_by_name_and_stays_so(tmp_path: Path) -> None:
    outage = Outage(
        Misbehaviour.status(500), lambda call: case_of(call) == "W006002" and SEED_TEXT not in call.text
    )
    async with provider_of(outage) as provider:
        result, _ = await train(provider, tmp_path)
        assert result.test is not None
        assert result.test.n == 11
        assert result.summary["test"]["left_out"] == ("W006002",)
        outage.over = True
        calls = provider.calls
        again, _ = await train(provider, tmp_path)  # finished: nothing is left to ask
        assert provider.calls == calls
    assert again.test == result.test


async def test_with_more_than_a_tenth_of_the_pairs_lost_the_test_is_not_measured(tmp_path: Path) -> None:
    async with provider_of(answer=cut(on("W006002", "W006003"))) as provider:
        result, _ = await train(provider, tmp_path)
    assert result.status == "finished"
    assert result.test is None
    assert result.summary["test_hard"] is None
    assert "2 of 12 test tasks could not be measured: W006002, W006003" in result.claim


@pytest.mark.slow
async def test_a_few_lost_train_rows_are_left_out_of_reflection_and_counted(tmp_path: Path) -> None:
    async with provider_of(Outage(Misbehaviour.status(500), on("W000003"))) as provider:
        await train(provider, tmp_path)
    for step in history(tmp_path):
        assert step["rollout_invalid"] == {"unavailable": 1}
        assert step["rollout_n"] == 15
    rows = [
        row
        for event in events_of(tmp_path)
        if isinstance(event, StageClosed)
        for row in event.rows
        if row.task == "W000003"
    ]
    assert rows
    assert all(row.hard is None and row.invalid == "unavailable" and "HTTP 500" in row.detail for row in rows)
    seen = {
        task
        for event in events_of(tmp_path)
        if isinstance(event, Reflected)
        for patch in event.patches
        for task in patch.tasks
    }
    assert len(seen) == 15
    assert "W000003" not in seen


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["merge", "gate"])
async def test_a_row_that_was_decided_to_be_lost_stays_so_when_the_step_is_taken_up_again(
    stage: str, tmp_path: Path
) -> None:
    lost = Outage(Misbehaviour.status(500), on("W000003"))
    async with provider_of(lost) as provider:
        await train(provider, tmp_path / "plain", "train.num_epochs=1")
        lost.strikes = lambda call: case_of(call) == "W000003" or stage_of(call) == stage
        with pytest.raises(ProviderDown):
            await train(provider, tmp_path / "stopped", "train.num_epochs=1")
        assert any(fact["id"] == "e1/s1/rollout" for fact in facts(tmp_path / "stopped"))
        lost.over = True  # the row could be measured now, but the stage closed without it
        kept, sent = committed(tmp_path / "stopped"), provider.calls
        await train(provider, tmp_path / "stopped", "train.num_epochs=1")
        assert not repeated(asked(provider, since=sent), kept)
    assert_same_run(tmp_path / "stopped", tmp_path / "plain")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "cases"),
    [("rollout", ("W000003", "W000007")), ("gate", ("W003002", "W003004")), ("test", ("W006001", "W006005"))],
)
async def test_more_than_a_tenth_lost_to_an_outage_stops_the_stage(
    stage: str, cases: tuple[str, str], tmp_path: Path, undisturbed: Path
) -> None:
    outage = Outage(Misbehaviour.reset(), lambda call: stage_of(call) == stage and case_of(call) in cases)
    async with provider_of(outage) as provider:
        with pytest.raises(ProviderDown, match=r"2 of 1[26] rows were lost"):
            await train(provider, tmp_path)
        assert facts(tmp_path) == facts(undisturbed)[: len(facts(tmp_path))]
        outage.over = True
        await train(provider, tmp_path)
    assert_same_run(tmp_path, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["true", "false"])
async def test_a_candidate_that_the_target_cannot_take_is_rejected_with_its_reason(
    gate: str, tmp_path: Path
) -> None:
    body = {
        "error": {
            "code": "context_length_exceeded",
            "message": "This model's maximum context length is 512 tokens.",
        }
    }
    outage = Outage(Misbehaviour.status(400, body=body), lambda call: stage_of(call) == "gate")
    options = ("train.num_epochs=1", f"evaluation.use_gate={gate}")
    async with provider_of(outage) as provider:
        await train(provider, tmp_path, *options)
        sent = provider.calls
        await train(provider, tmp_path, *options)
        assert provider.calls == sent, "the run is finished"
    rejected = [
        event for event in events_of(tmp_path) if isinstance(event, Judged) and event.decided_by == "window"
    ]
    assert rejected and all(event.action == "reject" for event in rejected)
    assert all("maximum context length" in event.why for event in rejected)
    assert all(event.rows_used == 1 for event in rejected), "no further row could save it"
    checkpoints = [event for event in events_of(tmp_path) if isinstance(event, Checkpoint)]
    assert checkpoints[-1].state.finished
    assert {event.state.skill for event in checkpoints} == {checkpoints[0].state.seed}


async def test_a_gate_row_that_stays_lost_is_asked_once_more_and_leaves_the_verdict_open(
    tmp_path: Path,
) -> None:
    outage = Outage(
        Misbehaviour.status(500), lambda call: stage_of(call) == "gate" and case_of(call) == "W003004"
    )
    async with provider_of(outage) as provider:
        await train(provider, tmp_path, "train.num_epochs=1", retry=Retry(attempts=1))
        asked_for = [entry.place for entry in provider.log if entry.status == 500]
    (step,) = history(tmp_path)
    assert step["action"] == "inconclusive"
    assert "W003004 (unavailable)" in step["why"]
    assert step["candidate_gate_score"] is None
    assert [place.rsplit("/", 1)[0].rsplit(".", 1)[1] for place in asked_for if place] == ["0", "1"]
    (closed,) = [
        event
        for event in events_of(tmp_path)
        if isinstance(event, StageClosed) and str(event.place) == "e1/s1" and event.stage != "rollout"
    ]
    (row,) = [row for row in closed.rows if row.invalid]
    assert (row.task, row.attempt, row.hard) == ("W003004", 1, None)
    (checkpoint,) = [
        event for event in events_of(tmp_path) if isinstance(event, Checkpoint) and event.kind == "step"
    ]
    assert checkpoint.remembered == []  # nothing was judged
    assert checkpoint.state.skill == checkpoint.state.seed


async def test_a_lost_gate_row_that_cannot_decide_leaves_a_reject_a_reject(tmp_path: Path) -> None:
    outage = Outage(
        Misbehaviour.status(500), lambda call: stage_of(call) == "gate" and case_of(call) == "W003004"
    )

    def worse(call: Call) -> str:
        said = world_answers(QUIET)(call)
        return "<answer>unknown</answer>" if stage_of(call) == "gate" else said

    async with provider_of(outage, answer=worse) as provider:
        await train(provider, tmp_path, "train.num_epochs=1", retry=Retry(attempts=1))
    assert [step["action"] for step in history(tmp_path)] == ["reject"]


@pytest.mark.slow
async def test_a_gate_row_that_comes_back_when_asked_once_more_counts(
    tmp_path: Path, undisturbed: Path
) -> None:
    outage = Outage(
        Misbehaviour.status(500),
        lambda call: stage_of(call) == "gate" and case_of(call) == "W003004" and ".0/" in (call.place or ""),
    )
    async with provider_of(outage) as provider:
        await train(provider, tmp_path, retry=Retry(attempts=1))
    assert outage.hits
    assert verdicts(tmp_path) == verdicts(undisturbed)
    assert (tmp_path / "best_skill.md").read_bytes() == (undisturbed / "best_skill.md").read_bytes()


async def test_a_val_task_lost_at_baseline_leaves_the_gate_by_name(tmp_path: Path) -> None:
    events: list[Event] = []
    outage = Outage(
        Misbehaviour.status(500), lambda call: stage_of(call) == "baseline" and case_of(call) == "W003004"
    )
    async with provider_of(outage) as provider:
        await train(provider, tmp_path, retry=Retry(attempts=1), sinks=[events.append])
    assert summary(tmp_path)["val_tasks_left_out"] == ["W003004"]
    assert any(isinstance(event, Notice) and "W003004" in event.text for event in events)
    assert {verdict["rows_total"] for verdict in verdicts(tmp_path)} == {11}
    judged = {
        row.task
        for event in events_of(tmp_path)
        if isinstance(event, StageClosed) and event.stage == "selection" and str(event.place) != "baseline"
        for row in event.rows
    }
    assert "W003004" not in judged


def cut(cases: Callable[[Call], bool]) -> Callable[[Call], str | Answer]:
    """The quiet world, but its replies to some rollouts run into the cap we set."""
    return lambda call: Answer(text="x" * 1000) if cases(call) else world_answers(QUIET)(call)


async def test_more_than_a_tenth_of_val_lost_at_baseline_stops_the_run(tmp_path: Path) -> None:
    async with provider_of(answer=cut(on("W003001", "W003002"))) as provider:
        for _ in range(2):
            with pytest.raises(ProviderDown, match="2 of 12 val tasks") as down:
                await train(provider, tmp_path)
    assert "W003001: truncated" in str(down.value)
    assert "W003002: truncated" in str(down.value)
    assert [fact["id"] for fact in facts(tmp_path)] == ["run"]


async def test_a_reply_cut_by_our_own_cap_is_no_score(tmp_path: Path) -> None:
    async with provider_of(answer=cut(on("W000003"))) as provider:
        await train(provider, tmp_path, "train.num_epochs=1")
    (step,) = history(tmp_path)
    assert step["rollout_invalid"] == {"truncated": 1}
    assert step["rollout_failures"] == {}


async def test_a_reply_cut_at_nobody_knows_whose_limit_is_asked_again_when_the_run_goes_on(
    tmp_path: Path,
) -> None:
    is_broken = True

    def answer(call: Call) -> str | Answer:
        if is_broken and call.text and (call.place or "").startswith("rollout/"):
            return Answer(text="x" * 20, finish="length", reports_usage=False)
        return world_answers(QUIET)(call)

    async with provider_of(answer=answer) as provider:
        with pytest.raises(ProviderDown, match="after 20 characters and reports no usage"):
            await train(provider, tmp_path / "run", "train.num_epochs=1")
        is_broken = False
        await train(provider, tmp_path / "run", "train.num_epochs=1")
        await train(provider, tmp_path / "undisturbed", "train.num_epochs=1")
    assert verdicts(tmp_path / "run") == verdicts(tmp_path / "undisturbed")


OWN_FAULTS = {
    "length": Answer(text="x" * 40, finish="length"),
    "refusal": Answer(text="I would rather not.", finish="refusal"),
    "empty": Answer(text="  \n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", OWN_FAULTS)
async def test_what_the_target_does_wrong_is_a_zero_with_its_name(fault: str, tmp_path: Path) -> None:
    # many: the target's own faults are no outage
    cases = (
        "W000003",
        "W000004",
        "W000005",
        "W000006",
        "W000007",
    )
    async with provider_of(
        answer=lambda call: OWN_FAULTS[fault] if on(*cases)(call) else world_answers(QUIET)(call)
    ) as provider:
        await train(provider, tmp_path, "train.num_epochs=1")
    (step,) = history(tmp_path)
    assert step["rollout_failures"] == {fault: 5}
    assert step["rollout_invalid"] == {}
    rows = [
        row
        for event in events_of(tmp_path)
        if isinstance(event, StageClosed) and event.stage == "rollout"
        for row in event.rows
    ]
    assert {(row.task, row.hard) for row in rows if row.failure == fault} == {(case, 0.0) for case in cases}


# Optimizer replies that cannot be read


class Mumbling:
    """The quiet world, whose optimizer answers some calls with something that is no JSON."""

    def __init__(self, mumbles: Callable[[Call], bool]) -> None:
        self.mumbles = mumbles
        self.heard: list[str] = []
        self._world = world_answers(QUIET)

    def __call__(self, call: Call) -> str:
        if stage_of(call) in ("rollout", "baseline", "gate", "test") or not self.mumbles(call):
            return self._world(call)
        self.heard.append(call.place or "")
        return "Certainly! Here are my {thoughts}."


async def test_one_unreadable_reply_is_asked_again_and_the_second_is_used(tmp_path: Path) -> None:
    mumbling = Mumbling(lambda call: (call.place or "").endswith("analyst_failure/0/a0"))
    async with provider_of(answer=mumbling) as provider:
        await train(provider, tmp_path, "train.num_epochs=1")
        assert "e1/s1/analyst_failure/0/a1" in {entry.place for entry in provider.log}
    (step,) = history(tmp_path)
    assert step["n_minibatches_dropped"] == 0
    assert mumbling.heard == ["e1/s1/analyst_failure/0/a0"]


async def test_twice_unreadable_is_dropped_and_counted(tmp_path: Path) -> None:
    mumbling = Mumbling(lambda call: "/analyst_failure/0/" in (call.place or ""))
    async with provider_of(answer=mumbling) as provider:
        await train(provider, tmp_path, "train.num_epochs=1")
    (step,) = history(tmp_path)
    assert mumbling.heard == ["e1/s1/analyst_failure/0/a0", "e1/s1/analyst_failure/0/a1"]
    assert step["n_minibatches_dropped"] == 1
    assert step["action"] in ("accept_new_best", "reject")  # judged, on what the other analysts proposed
    (reflected,) = [event for event in events_of(tmp_path) if isinstance(event, Reflected)]
    assert [patch.dropped is not None for patch in reflected.patches] == [True] + [False] * (
        len(reflected.patches) - 1
    )


async def test_more_than_half_dropped_makes_one_step_inconclusive_and_the_run_goes_on(tmp_path: Path) -> None:
    mumbling = Mumbling(lambda call: (call.place or "").startswith("e1/s1/analyst"))
    async with provider_of(answer=mumbling) as provider:
        result, _ = await train(provider, tmp_path)
    assert result.status == "finished"
    first, second = history(tmp_path)
    assert first["action"] == "inconclusive"
    assert first["n_minibatches_dropped"] == first["n_minibatches"]
    assert first["candidate_gate_score"] is None
    assert second["action"] in ("accept_new_best", "reject")


@pytest.mark.parametrize("ends", ["train.strategy=proof", "train.patience=1"])
async def test_a_lost_step_is_no_proof_that_nothing_helps(ends: str, tmp_path: Path) -> None:
    """A pass that brought nothing ends training; one whose replies could not be read brought no news."""
    mumbling = Mumbling(lambda call: "analyst" in (call.place or ""))
    async with provider_of(answer=mumbling) as provider:
        with pytest.raises(UnusableReplies):
            await train(provider, tmp_path, ends, "train.num_epochs=3")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "lost", "taken"),
    [
        (16, (1, 2), {"e1/s1.1", "e2/s2.1"}),
        (8, (2, 3), {"e1/s2.1", "e2/s3.1"}),
        (8, (1, 2), {"e1/s1.1", "e1/s2.1"}),
    ],
)
async def test_two_lost_steps_in_a_row_stop_the_run_and_both_are_asked_again(
    batch: int, lost: tuple[int, int], taken: set[str], tmp_path: Path
) -> None:
    mumbling = Mumbling(lambda call: any(f"/s{step}/analyst" in (call.place or "") for step in lost))
    async with provider_of(answer=mumbling) as provider:
        with pytest.raises(UnusableReplies) as stop:
            await train(provider, tmp_path, f"train.batch_size={batch}")
        assert stop.value.exit_code == 3
        assert "no JSON object" in str(stop.value)
        assert [step["step"] for step in history(tmp_path)] == list(range(1, lost[0]))
        rollouts = {place for place in committed(tmp_path) if place[0].startswith("rollout/")}
        sent = provider.calls
        mumbling.mumbles = lambda call: False
        result, _ = await train(provider, tmp_path, f"train.batch_size={batch}")
        again = asked(provider, since=sent)
    assert result.status == "finished"
    places = {"/".join((place or "").split("/")[:2]) for place, _ in again if "/analyst" in (place or "")}
    assert taken <= places
    assert not repeated(again, rollouts)
    assert [step["step"] for step in history(tmp_path)] == list(range(1, 2 * 16 // batch + 1))
    assert "inconclusive" not in {step["action"] for step in history(tmp_path)}
    ends = [
        event.state.epoch
        for event in events_of(tmp_path)
        if isinstance(event, Checkpoint) and event.kind == "epoch"
    ]
    assert ends[-2:] == [1, 2]  # the end of an epoch that was opened again is closed again, in the log too


async def test_an_unreadable_merge_falls_back_to_the_edits_themselves(tmp_path: Path) -> None:
    mumbling = Mumbling(lambda call: stage_of(call) in ("merge", "ranking"))
    async with provider_of(answer=mumbling) as provider:
        await train(provider, tmp_path, "train.num_epochs=1")
    (step,) = history(tmp_path)
    assert mumbling.heard
    assert step["edit_states"]["applied"] <= step["edit_budget"]
    assert step["edit_apply_summary"]["total"] == sum(step["edit_states"].values())


async def test_stops_are_errors_with_a_remedy(tmp_path: Path) -> None:
    async with provider_of(Outage(Misbehaviour.status(500), lambda call: True)) as provider:
        with pytest.raises(SkillOptError, match=r"(?i)run the same command again"):
            await train(provider, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("code", [400, 404])
async def test_requests_that_are_refused_after_the_baseline_burn_no_step_and_the_run_goes_on_when_they_are_mended(
    code: int, tmp_path: Path
) -> None:
    """Not an outage, but as bad: the run stops instead of closing empty steps."""
    async with provider_of() as provider:
        undisturbed, _ = await train(provider, tmp_path / "undisturbed")
    async with provider_of(
        Outage(Misbehaviour.status(code), lambda call: stage_of(call) == "rollout")
    ) as provider:
        with pytest.raises(ProviderDown, match=r"rows were lost"):
            await train(provider, tmp_path / "run")
    assert history(tmp_path / "run") == []
    async with provider_of() as provider:
        mended, _ = await train(provider, tmp_path / "run")
    assert mended.best_skill == undisturbed.best_skill
    assert verdicts(tmp_path / "run") == verdicts(tmp_path / "undisturbed")
