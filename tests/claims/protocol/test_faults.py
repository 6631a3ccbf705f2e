"""Faults of the public system that must not occur here (section 8.A), one by one under the number they have
there.

Tested with the benchmark they are about: A10 to A12, and of A14 the DocVQA split. The SearchQA review turn of
A14 does not exist here, and an agent's answer is read from its events, never from a raw trace. What is about
configuration (of A8, A13, A14, and A16) is tested there; the list in README.md names every test of a fault.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from claims._product import (
    SEED_SKILL,
    Checkpoint,
    Database,
    Document,
    Judged,
    LoopbackProvider,
    Misbehaviour,
    ProviderDown,
    RunConflict,
    Score,
    StageClosed,
    StageOpened,
    WorldBenchmark,
    WorldRules,
    WorldSettings,
    api,
    apply,
    compare,
    open_run,
    parse_edit,
    world_answers,
)
from claims.protocol._told import (
    BAD,
    GOOD,
    LEARNING,
    QUICK,
    Told,
    case_of,
    edits,
    job_of,
    root_of,
    rule,
    run,
    stage_of,
)
from train._world import train

POOR, RICH = Document(SEED_SKILL), Document(SEED_SKILL + "".join(f"- {text}\n" for text in GOOD))
NOTHING = {"analyst_failure": lambda call: edits(), "analyst_success": lambda call: edits()}


def after_step(number: int):
    return lambda event: (
        isinstance(event, Checkpoint) and event.kind == "step" and event.record.step == number
    )


# A1: the rollout cache ignores the skill


async def test_a1_a_second_skill_in_the_same_folder_gets_its_own_score(folder):
    told = Told(folder)
    async with LoopbackProvider(told.answer) as provider:
        job = job_of(provider)
        (poor,) = await api.evaluate(job, {"skill": POOR}, ["test"], folder, retry=QUICK)
        paid = provider.calls
        (rich,) = await api.evaluate(job, {"skill": RICH}, ["test"], folder, retry=QUICK)
        assert provider.calls == 2 * paid == 10
    assert poor.hard < rich.hard == 1.0


@pytest.mark.slow
async def test_a1_a_longer_run_never_inherits_the_test_of_a_shorter_one(folder):
    """Publicly more epochs in the same folder report the old test score for the new skill. Ours is another
    run: refused there, and with the first run's rollouts as cache it pays for exactly the test rows of the
    skill that is new.
    """
    first = await run(folder, LEARNING, train__num_epochs=1, env__val_cases=24)
    with pytest.raises(RunConflict, match=r"train\.num_epochs: 1 there, 2 now"):
        await run(folder, LEARNING, train__num_epochs=2, env__val_cases=24)
    longer = await run(
        folder.parent / "longer",
        LEARNING,
        train__num_epochs=2,
        env__val_cases=24,
        cache__path=str(folder / "run.db"),
    )
    assert longer.result.best_skill != first.result.best_skill
    tested = [call for call in longer.asked("rollout") if case_of(call).startswith("W006")]
    assert len(tested) == 5 and all(longer.result.best_skill.strip() in call.text for call in tested)
    assert longer.summary["baseline_test_hard"] == first.summary["baseline_test_hard"]


async def test_a1_exactly_the_rows_that_are_asked_for_come_back(folder):
    shared = {"cache__path": str(folder.parent / "shared.db")}
    async with LoopbackProvider(Told(folder).answer) as provider:
        for count in (4, 1):
            job = job_of(provider, {**shared, "evaluation__sel_env_num": count})
            (found,) = await api.evaluate(
                job, {"skill": POOR}, ["val"], folder.parent / str(count), retry=QUICK
            )
            assert [row.task for row in found.rows] == [f"W00300{number}" for number in range(count)]
        assert provider.calls == 4


# A2: infrastructure failures are scored as wrong answers and cached


@pytest.mark.slow
async def test_a2_an_outage_during_the_gate_rejects_nothing_and_leaves_no_zero(folder):
    is_down = True

    def outage(call):
        is_candidate = (
            stage_of(call) == "rollout" and case_of(call).startswith("W003") and GOOD[0] in call.text
        )
        return Misbehaviour.status(503) if is_down and is_candidate else None

    settings = {"env__val_cases": 24, "train__num_epochs": 1, "evaluation__eval_test": False}
    with pytest.raises(ProviderDown, match="No score was made of it"):
        await run(folder, LEARNING, behave=outage, **settings)
    assert [event["type"] for event in _log(folder) if event["type"] == "judged"] == []
    is_down = False
    told = await run(folder, LEARNING, behave=outage, **settings)
    undisturbed = await run(folder.parent / "undisturbed", LEARNING, **settings)
    assert told.steps[0]["action"] == "accept_new_best"
    assert [record["candidate_gate_score"] for record in told.steps] == [
        record["candidate_gate_score"] for record in undisturbed.steps
    ]


def _log(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


# A3: an optimizer outage is a silent run without edits


async def test_a3_an_optimizer_outage_stops_the_run_and_burns_no_step(folder):
    told, settings = Told(folder), {"evaluation__eval_test": False}

    def down(call):
        return None if stage_of(call) == "rollout" else Misbehaviour.status(503)

    async with (
        LoopbackProvider(told.answer, behave=down) as provider,
        open_run(job_of(provider, settings), folder, retry=QUICK) as opened,
    ):
        with pytest.raises(ProviderDown, match="The optimizer could not be asked"):
            await api.train(opened)
    assert json.loads((folder / "history.json").read_text()) == []
    assert len([call for call in told.asked("rollout") if case_of(call) < "W003"]) <= 8, (
        "no more than the first batch is paid"
    )


# A4: a score of 0.0 breaks resuming


async def test_a4_a_run_whose_score_is_zero_goes_on_where_it_stopped(folder):
    world = world_answers(WorldRules(noise=0.0, harm=0.0))

    def rollout(call):
        return world(call) if any(text in call.text for text in GOOD) else "<answer>unknown</answer>"

    def analyst(call):
        return edits(*[rule(text) for text in ([BAD[0]] if root_of(call) == "e1/s1" else GOOD[:4])])

    script = {"rollout": rollout, "analyst_failure": analyst, "analyst_success": lambda call: edits()}
    first = await run(folder, script, until=after_step(1))
    assert (first.states("baseline")[0].score, first.steps[0]["action"]) == (0.0, "reject")
    second = await run(folder, script)
    again = [
        call
        for call in second.asked("rollout")
        if case_of(call).startswith("W003") and not any(text in call.text for text in GOOD)
    ]
    opened = [str(event.place) for event in second.of(StageOpened) if event.stage != "test"]
    assert again == [] and opened[0] == "e1/s2", "neither the baseline nor the first step is taken up again"
    assert [record["step"] for record in second.steps] == [1, 2, 3, 4]
    assert (second.summary["baseline_selection_hard"], second.summary["baseline_gate_score"]) == (0.0, 0.0)
    told_of = second.asked("analyst_failure", "e1/s2")
    assert told_of and all("Step 1: rejected" in call.text and BAD[0] in call.text for call in told_of), (
        "the memory survives the stop"
    )


# A5: the incumbent's score is stale


@pytest.mark.slow
def test_a5_every_score_of_a_state_was_measured_on_exactly_its_text(folder):
    """Guidance without a gate and notes in the appendix are the two ways by which untested text publicly gets
    the old text's score.
    """
    settings = {
        "optimizer__slow_update_gate_with_selection": False,
        "optimizer__use_skill_aware_reflection": True,
    }
    told = train(
        folder, **settings, model__optimizer="world:harm=0.6", train__num_epochs=4, env__val_cases=24
    )
    seed = told.of(Checkpoint)[0].state
    measured = {told.skill(seed.seed).digest: seed.baseline_score}
    for event in told.of(Judged):
        if event.candidate is not None:
            measured[event.skill] = event.candidate
    taken = 0
    for event in told.of(Checkpoint):
        for name, score in (("skill", "score"), ("best", "best_score")):
            skill = told.skill(getattr(event.state, name))
            assert getattr(event.state, score) == measured[skill.digest], event.id
        taken += event.kind == "epoch" and event.state.skill != event.state.best
    assert taken, "one slow update should have been taken although it is not the best skill"


# A6: the gate has no statistics


@pytest.mark.slow
async def test_a6_what_the_gate_saw_is_kept_row_by_row_and_can_be_tested_in_pairs(folder):
    """Publicly only means are kept. With `paired` an accept is one that chance explains in fewer than `alpha`
    of the cases.
    """
    told = await run(
        folder,
        LEARNING,
        gate__policy="paired",
        gate__alpha=0.05,
        env__val_cases=60,
        train__num_epochs=2,
        evaluation__eval_test=False,
    )
    rows = {
        str(event.place): {row.task: row.hard for row in event.rows}
        for event in told.of(StageClosed)
        if event.stage == "selection"
    }
    incumbent, seen = rows["baseline"], set()
    for verdict in told.of(Judged):
        candidate = rows[str(verdict.place)] if verdict.rows_used else {}
        if len(candidate) == len(incumbent):
            compared = compare(incumbent, candidate)
            is_better = compared.delta > 0 and compared.p / 2 <= 0.05
            assert (verdict.action == "accept") == is_better
            seen.add(verdict.action)
        if verdict.action == "accept":
            incumbent = candidate
    assert "accept" in seen
    assert any(
        verdict.action == "reject" and verdict.bound > verdict.incumbent for verdict in told.of(Judged)
    ), "something better that may be chance should have been rejected"


# A7: candidates that change nothing are measured again and accepted on noise


async def test_a7_a_candidate_that_changes_nothing_is_neither_measured_nor_accepted(folder):
    lost = {"op": "replace", "target": "- no such line", "content": "- other"}
    script = {
        "analyst_failure": lambda call: edits(lost),
        "analyst_success": lambda call: edits(lost),
        "repair": lambda call: '{"edits": []}',
    }
    told = await run(folder, script, rules=WorldRules(noise=0.4, harm=0.0))
    assert [record["action"] for record in told.steps] == ["unchanged"] * 4
    assert all(verdict.rows_used == 0 and verdict.candidate is None for verdict in told.of(Judged))
    assert len([call for call in told.asked("rollout") if case_of(call).startswith("W003")]) == 12


# A8: knobs of the learning rate


async def test_a8_a_decision_of_zero_applies_nothing_and_spends_no_ranking_call(folder):
    script = {**LEARNING, "lr_autonomous": lambda call: '{"learning_rate": 0}'}
    told = await run(folder, script, optimizer__lr_control_mode="autonomous", train__num_epochs=1)
    assert [
        (record["action"], record["edit_budget"], record["edit_states"].get("applied", 0))
        for record in told.steps
    ] == [("unchanged", 0, 0)] * 2
    assert not told.asked("ranking") and len(told.asked("lr_autonomous")) == 2


@pytest.mark.slow
async def test_a8_skipped_steps_do_not_shift_the_schedule_stopped_or_not(folder):
    plan = {
        "train__batch_size": 1,
        "env__train_cases": 4,
        "train__num_epochs": 2,
        "evaluation__eval_test": False,
    }
    whole = await run(folder.parent / "whole", NOTHING, **plan)
    await run(folder, NOTHING, until=after_step(3), **plan)
    stopped = await run(folder, NOTHING, **plan)
    assert [record["edit_budget"] for record in whole.steps] == [4, 4, 3, 3, 3, 2, 2, 2]
    assert [record["edit_budget"] for record in stopped.steps] == [4, 4, 3, 3, 3, 2, 2, 2]


# A9: protected regions can be bypassed, edits land elsewhere

GUARDED = Document("# A\n\n- one\n<!-- SLOW_UPDATE_START -->\nkeep\n<!-- SLOW_UPDATE_END -->\n- two\n- two\n")


@pytest.mark.parametrize(
    ("patch", "states"),
    [
        ([{"op": "delete", "target": "- one\n<!-- SLOW_UPDATE_START -->\nkeep"}], ["protected"]),
        (
            [
                {
                    "op": "replace",
                    "target": "- one\n<!-- SLOW_UPDATE_START -->\nkeep\n<!-- SLOW",
                    "content": "x",
                }
            ],
            ["protected"],
        ),
        ([{"op": "insert_after", "target": "- three", "content": "- new"}], ["unmatched"]),
        ([{"op": "replace", "target": "- two", "content": "- new"}], ["ambiguous"]),
        ([{"op": "append", "content": "a\n<!-- SLOW_UPDATE_END -->\nb"}], ["invalid"]),
        ([{"op": "rewrite", "content": "x"}], ["invalid"]),
    ],
)
def test_a9_an_edit_that_cannot_be_placed_changes_nothing_and_says_why(patch, states):
    applied = apply([parse_edit(edit, f"e{n}") for n, edit in enumerate(patch)], GUARDED)
    assert [outcome.state for outcome in applied.outcomes] == states and all(
        outcome.reason for outcome in applied.outcomes
    )
    assert applied.document.text == GUARDED.text


def test_a9_a_later_edit_cannot_aim_at_what_an_earlier_one_wrote():
    chain = [
        {"op": "replace", "target": "- one", "content": "- 1"},
        {"op": "replace", "target": "- 1", "content": "- 2"},
    ]
    applied = apply([parse_edit(edit, f"e{n}") for n, edit in enumerate(chain)], GUARDED)
    assert [outcome.state for outcome in applied.outcomes] == [
        "applied",
        "unmatched",
    ] and "- 1\n" in applied.document.text


# A13: holes in the routing of backends


async def test_a13_each_role_asks_its_own_model_under_its_own_cap(folder):
    """Publicly some backends cut what the optimizer may write to 8,000 tokens, and one sends its calls to the
    target's model.
    """
    told = Told(folder)
    async with LoopbackProvider(told.answer) as provider:
        models = {role: f"compatible:the-{role}@{provider.base_url}" for role in ("target", "optimizer")}
        settings = {f"model__{role}": name for role, name in models.items()} | {
            "model__target__max_tokens": 99,
            "model__optimizer__max_tokens": 16_384,
        }
        settings |= {"optimizer__skill_update_mode": "rewrite_from_suggestions", "train__num_epochs": 1}
        async with open_run(job_of(provider, settings), folder, retry=QUICK) as opened:
            await api.train(opened)
    sent = {
        (
            stage_of(call),
            call.body["model"],
            call.body.get("max_tokens") or call.body.get("max_completion_tokens"),
        )
        for call in told.calls
    }
    assert ("rollout", "the-target", 99) in sent and ("rewrite", "the-optimizer", 64_000) in sent
    assert {model for stage, model, _ in sent if stage == "rollout"} == {"the-target"}
    assert {(model, cap) for stage, model, cap in sent if stage.startswith("analyst")} == {
        ("the-optimizer", 16_384)
    }


# A14: what is missing or misspelled means something else


async def test_a14_all_splits_are_measured_each_by_itself(folder):
    """Publicly the splits are added up before they are run, which not every benchmark can do."""
    async with LoopbackProvider(Told(folder).answer) as provider:
        job = job_of(provider)
        found = await api.evaluate(job, {"skill": POOR}, api.eval_splits("all", job), folder, retry=QUICK)
    assert [(one.split, len(one.rows)) for one in found] == [("train", 16), ("val", 12), ("test", 5)]


# A15: reports


class Graded(WorldBenchmark):
    """Wrong answers are worth a quarter."""

    async def score(self, task, trajectory):
        right = await super().score(task, trajectory)
        return Score(hard=right.hard, soft=max(right.soft, 0.25))


@pytest.mark.slow
async def test_a15_hard_is_hard_whatever_the_gate_reads(folder):
    """Publicly best_selection_hard is the gate's number."""
    cases = WorldSettings(train_cases=16, val_cases=24, test_cases=8)
    told = await run(
        folder,
        LEARNING,
        benchmark=Graded(cases),
        evaluation__gate_metric="mixed",
        evaluation__gate_mixed_weight=0.5,
    )
    accepted = [event for event in told.of(Judged) if event.action == "accept"]
    rows = next(
        event.rows
        for event in told.of(StageClosed)
        if event.stage == "selection" and event.place == accepted[-1].place
    )
    hard, soft = (
        Fraction(str(sum(getattr(row, name) for row in rows))) / len(rows) for name in ("hard", "soft")
    )
    summary = told.summary
    assert (
        summary["best_selection_hard"] == float(hard) < summary["best_gate_score"] == float((hard + soft) / 2)
    )
    assert summary["best_selection_soft"] == pytest.approx(float(soft))


async def test_a15_skipped_steps_record_their_tokens_and_are_counted(folder):
    told = await run(folder, NOTHING, train__num_epochs=1)
    for record in told.steps:
        assert record["tokens"]["rollout"]["calls"] == 8 and record["tokens"]["analyst"]["prompt_tokens"] > 0
    assert (told.summary["total_steps"], told.summary["total_skips"]) == (2, 2)


@pytest.mark.slow
async def test_a15_time_and_tokens_are_those_of_all_sessions(folder):
    first = await run(folder, LEARNING, until=after_step(1))
    database = Database(folder / "run.db")
    assert 0.0 < float(database.noted("seconds") or 0.0) < 1000.0
    database.note("seconds", "1000.0")
    database.shut()
    second = await run(folder, LEARNING)
    assert second.summary["total_wall_time_s"] > 1000.0
    assert second.summary["spending"]["calls"] == len(first.calls) + len(second.calls)


async def test_a15_a_failure_pattern_is_told_in_the_words_of_the_analyst_who_saw_it(folder):
    """Publicly the n-th pattern of all analysts is pinned to the n-th group of failures, whatever they have
    to do with each other.
    """

    def analyst(call):
        said = json.loads(edits(rule(BAD[0])))
        return json.dumps(
            {
                **said,
                "failure_summary": [
                    {"failure_type": "unit", "count": 2, "description": f"seen at {call.place}"}
                ],
            }
        )

    told = await run(
        folder, {"analyst_failure": analyst, "analyst_success": lambda call: edits()}, train__num_epochs=1
    )
    (entry,) = [
        entry
        for event in told.of(Checkpoint)
        for entry in event.remembered
        if (entry.step, entry.action) == (1, "rejected")
    ]
    places = sorted(call.place for call in told.asked("analyst_failure", "e1/s1"))
    assert list(entry.patterns) == [f"unit: seen at {place}" for place in places]
