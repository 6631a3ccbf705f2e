"""The strategy `proof`: what it chooses is a function of what was measured, and it measures before it chooses."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from _loopback import Call, LoopbackProvider, Misbehaviour, world_answers
from claims.promises._runs import assert_same_run, events_of, in_world, make_job, run
from skillopt.errors import BudgetSpent, ConfigError, ProviderDown
from skillopt.evaluation.runner import PlannedRow
from skillopt.events import (
    Aggregated,
    Blamed,
    Checkpoint,
    Judged,
    Proved,
    Reflected,
    Selected,
    StageClosed,
    Updated,
)
from skillopt.models.world.rules import HARMFUL, needs_of
from skillopt.skill.edits import Edit
from skillopt.tasks.task import Task
from skillopt.train.strategies._choice import cover
from skillopt.train.strategies._lanes import ProvenEdits, without_copies, wording
from skillopt.train.trials import (
    MANY,
    Blame,
    EditTrial,
    blame,
    edits_to_drop,
    fewest_beyond_chance,
    is_broken,
    is_fixed,
    parts_of,
    rows_fixed_without,
)
from train._world import Trained, train

TESTS = Path(__file__).parents[1]
SMALL = ("env.train_cases=16", "env.val_cases=12", "env.test_cases=6", "train.num_epochs=1")
PROOF = (*SMALL, "train.strategy=proof", "evaluation.repeats=1")


def edit(id: str, content: str = "", **about: object) -> Edit:
    return Edit(op="append", content=content or f"- rule {id}", id=id, evidence=about)


def proven(id: str, *fixed: str, content: str = "") -> ProvenEdits:
    return ProvenEdits(edits=(edit(id, content),), fixed=fixed)


# What is chosen: pure functions.


def test_a_cover_takes_most_newly_fixed_tasks_first_and_nothing_that_adds_none():
    many, same, rest = proven("a", "1", "2", "3"), proven("b", "2", "3"), proven("c", "3", "4")
    assert cover([same, rest, many]) == [many, rest]
    assert cover([same, many], covered=("1", "2", "3")) == []


@pytest.mark.parametrize(
    "other",
    [
        "- Round to two decimals",
        "* round to TWO decimals.",
        "1. Round  to two\tdecimals!",
        "> Round to two decimals",
    ],
)
def test_copies_that_differ_in_form_alone_are_one_with_their_evidence_added_up(other):
    (one,) = without_copies(
        [proven("a", "1", content="- Round to two decimals."), proven("b", "2", "3", content=other)]
    )
    assert (one.id, set(one.fixed), [copy.id for copy in one.copies]) == ("b", {"1", "2", "3"}, ["a"])


def test_other_words_are_other_rules():
    assert wording(edit("a", "- Round to two decimals.")) != wording(edit("b", "- Round to three decimals."))
    assert len(without_copies([proven("a", "1"), proven("b", "1")])) == 2


def test_the_place_of_an_insertion_makes_no_other_rule_but_another_target_does():
    assert wording(Edit(op="append", content="- X y")) == wording(
        Edit(op="insert_after", target="T", content="- X y")
    )
    assert wording(Edit(op="replace", target="A", content="B")) != wording(
        Edit(op="replace", target="C", content="B")
    )


def test_thirds_are_in_order_and_hold_everything():
    edits = [edit(str(number)) for number in range(7)]
    assert [one for part in parts_of(edits, MANY) for one in part] == edits
    assert [len(part) for part in parts_of(edits[:2], MANY)] == [1, 1]


@pytest.mark.parametrize(
    ("noise", "rows", "least"), [(0, 12, 1), (0.1, 12, 4), (0.3, 12, 7), (0.3, 1, 2), (0.04, 1, 1)]
)
def test_under_noise_more_rows_must_change_than_accident_changes(noise, rows, least):
    assert fewest_beyond_chance(noise, rows) == least


def test_a_row_is_fixed_or_broken_by_half_of_what_there_is_to_gain_or_lose():
    half, third = Fraction(1, 2), Fraction(1, 3)
    assert (
        is_fixed(Fraction(0), Fraction(1))
        and is_fixed(third, Fraction(2, 3))
        and not is_fixed(half, Fraction(7, 10))
    )
    assert (
        is_broken(Fraction(1), Fraction(0))
        and not is_broken(Fraction(1), Fraction(2, 3))
        and not is_broken(half, half)
    )


def test_what_only_the_published_loop_can_do_is_refused_before_anything_is_paid():
    with pytest.raises(ConfigError, match=r"proof writes no notes.* set train.strategy to paper"):
        make_job(in_world("world", *PROOF, "optimizer.use_skill_aware_reflection=true"))


def test_whole_skills_are_not_asked_for_in_the_form_for_small_models():
    mode = "optimizer.skill_update_mode=full_rewrite_minibatch"
    with pytest.raises(ConfigError, match=r"prompts small asks for one rule, .* or the prompts to standard"):
        make_job(in_world("world", *PROOF, mode, "model.optimizer.prompts=small"))
    assert not make_job(in_world("world", *PROOF, mode, "model.optimizer.context_window=4000")).asks_small


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["full_rewrite_minibatch", "rewrite_from_suggestions"])
def test_a_rewrite_is_split_into_edits_that_are_tried_chosen_and_kept_like_any_other(tmp_path, mode):
    trained = train(
        tmp_path / "run", train__strategy="proof", train__num_epochs=1, optimizer__skill_update_mode=mode
    )
    edits = [edit for one in trained.of(Reflected) for patch in one.patches for edit in patch.edits]
    assert edits and {edit.op for edit in edits} <= {"append", "insert_after", "replace", "delete"}
    assert all(edit.content.count("\n- ") == 0 for edit in edits)  # one rule each
    tried = [trial for one in trained.of(Proved) for trial in one.trials]
    assert any(len(trial.edits) == 1 for trial in tried)
    (record,) = trained.json("history.json")
    assert record["action"] == "accept_new_best" and record["edit_states"]["applied"] > 4
    assert not set(HARMFUL) & {line.removeprefix("- ") for line in trained.result.best_skill.splitlines()}
    assert ("rewrite" in {stage for stage, _, _ in trained.replies()}) == (mode != "full_rewrite_minibatch")
    named = any(edit.evidence.get("tasks") for edit in edits)
    assert named == (mode == "full_rewrite_minibatch")


@pytest.mark.slow
def test_without_a_gate_proof_trains_too(tmp_path):
    trained = train(
        tmp_path / "run", train__strategy="proof", evaluation__use_gate=False, train__num_epochs=1
    )
    assert "The gate was off" in (trained.folder / "summary.json").read_text()


# Who is guilty: on a world in which edits named "bad" break rows.


class Truth:
    """Stands for trials: each edit breaks the rows its content names, and `freed` rows come right without it."""

    def __init__(self, breaks: dict[str, set[str]], flaky: Sequence[str] = ()) -> None:
        self.breaks, self.flaky, self.rows = breaks, set(flaky), 0

    async def run(self, edits: Sequence[Edit], rows: Sequence[PlannedRow]) -> EditTrial:
        self.rows += len(rows)
        return EditTrial(edits=tuple(edits), rows=tuple(row.task.id for row in rows))  # type: ignore[arg-type]

    async def each(self, groups, rows):
        return [await self.run(group, rows) for group in groups]

    def worths(self, trial):
        broken = set.union(set(), *(self.breaks.get(one.id, set()) for one in trial.edits)) | self.flaky
        return {(task, 0): Fraction(task not in broken) for task in trial.rows}


def rows_named(*names: str) -> dict[tuple[str, int], PlannedRow]:
    return {(name, 0): PlannedRow(task=Task(id=name, prompt=name)) for name in names}


@pytest.mark.parametrize("broken", [("1", "2", "3"), tuple("123456789")], ids=["by thirds", "one by one"])
async def test_blame_finds_the_edits_that_break_by_themselves_and_no_other(broken):
    edits = [edit(name) for name in "abcdefgh"]
    truth = Truth({"c": set(broken[:2]), "g": set(broken[2:])})
    rows = rows_named(*broken)
    found = await blame(truth, edits, rows, dict.fromkeys(rows, Fraction(1)))  # type: ignore[arg-type]
    assert set(found.guilty) == {"c", "g"}
    assert truth.rows <= len(edits) * len(broken)


async def test_a_row_that_every_part_breaks_speaks_against_nobody():
    rows = rows_named("1", "2", "3")
    truth = Truth({"b": {"1"}}, flaky=["2", "3"])
    found = await blame(truth, [edit(name) for name in "abc"], rows, dict.fromkeys(rows, Fraction(1)))  # type: ignore[arg-type]
    assert found.guilty == {"b": [("1", 0)]}


async def test_pruning_finds_the_weak_edit_without_which_a_row_comes_right():
    rows = rows_named("1", "2")
    edits = [edit(name) for name in "abcde"]
    found = await rows_fixed_without(
        Truth({"d": {"1"}, "a": {"2"}}), edits, edits[1:], rows, dict.fromkeys(rows, Fraction(0))
    )  # type: ignore[arg-type]
    assert set(found.guilty) == {"d"}, "a breaks a row too, but was proven well"


def test_an_edit_that_fixes_more_than_it_breaks_stays():
    found = Blame(guilty={"a": [("1", 0)], "b": [("1", 0), ("2", 0)]}, rows={("1", 0), ("2", 0)})
    assert edits_to_drop(found, {"a": 3, "b": 1}, [("1", 0), ("2", 0)]) == ["b"]
    assert edits_to_drop(found, {"a": 3, "b": 5}, [("1", 0), ("2", 0)], scale=3) == ["a", "b"]


# Whole runs on the simulated world.


@pytest.fixture(scope="module")
def proved(tmp_path_factory) -> Trained:
    folder = tmp_path_factory.mktemp("proof") / "run"
    return train(folder, train__strategy="proof", model__optimizer="world:harm=0.9,seed=5")


@pytest.mark.slow
def test_every_edit_that_is_chosen_fixed_a_train_task_in_a_trial(proved):
    passed = {
        (id, row.task)
        for event in proved.of(Proved)
        for trial in event.trials
        for id in trial.edits
        for row in trial.rows
        if row.hard
    }
    chosen = [one for event in proved.of(Updated) for one in event.outcomes if one.state == "applied"]
    assert chosen
    joined = {ids[0]: ids for event in proved.of(Aggregated) for ids in event.joined}
    for one in chosen:
        wordings = joined.get(one.id, [one.id])
        assert any((id, task) in passed for id in wordings for task in one.edit.evidence["fixed"]), one


def test_proof_uses_train_tasks_alone_and_blame_rows_reach_no_prompt(proved):
    val = {
        row.task for event in proved.of(StageClosed) if str(event.place) == "baseline" for row in event.rows
    }
    tried = {row.task for event in proved.of(Proved) for trial in event.trials for row in trial.rows}
    control = {
        row.task
        for event in proved.of(Blamed)
        if event.stage == "control"
        for t in event.trials
        for row in t.rows
    }
    assert tried and not (tried | control) & val
    assert not [
        task
        for event in proved.of(Reflected)
        for patch in event.patches
        for task in patch.tasks
        if task in val
    ]


def test_harmful_rules_are_proposed_and_none_is_kept(proved):
    proposed = [edit for event in proved.of(Reflected) for patch in event.patches for edit in patch.edits]
    assert any(rule in edit.content for edit in proposed for rule in HARMFUL)
    assert not [rule for rule in HARMFUL if rule in proved.result.best_skill]
    assert proved.json("summary.json")["test_hard"] > proved.json("summary.json")["baseline_test_hard"] + 0.3


def test_what_breaks_passed_tasks_is_out_before_the_gate(proved):
    guilty = {id for event in proved.of(Blamed) if event.stage == "control" for id in event.guilty}
    first = next(event for event in proved.of(Updated) if not event.place.candidate)
    assert guilty, "the optimizer of this run proposes a harmful rule nearly every time"
    assert not guilty & {one.id for one in first.outcomes if one.state == "applied"}
    assert guilty <= {
        one.id for event in proved.of(Updated) for one in event.outcomes if one.state == "harmful"
    }


@pytest.mark.slow
def test_no_failure_is_shown_twice_to_one_analyst(tmp_path):
    """Also where edits overreach and their tasks, some of which had two looks, are studied once more."""
    trained = train(
        tmp_path / "run",
        train__strategy="proof",
        train__num_epochs=2,
        env__train_cases=60,
        model__optimizer="world:harm=1.0,seed=4",
        model__target="world:noise=0.15,seed=4",
    )
    patches = [patch for event in trained.of(Reflected) for patch in event.patches]
    assert len(trained.of(Reflected)) > 1
    assert [patch.tasks for patch in patches if len(set(patch.tasks)) < len(patch.tasks)] == []


def test_no_line_of_the_best_skill_comes_twice(proved):
    lines = [line for line in proved.result.best_skill.splitlines() if line.startswith("- ")]
    assert len(lines) == len(set(lines))


def test_each_step_ends_every_proposal_in_one_state(proved):
    for event in proved.of(Updated):
        ids = [one.id for one in event.outcomes]
        assert len(ids) == len(set(ids))
    told = {one.id for event in proved.of(Updated) for one in event.outcomes}
    asked = {f"{event.place}" for event in proved.of(Reflected)}
    assert told and asked


def test_rejected_candidates_are_measured_against_what_they_would_replace(proved):
    digests = {event.digest for event in proved.of(Updated)}
    assert all(event.over in digests for event in proved.of(Judged) if event.over)
    assert all(event.policy == "strict" for event in proved.of(Judged) if event.over)


@pytest.mark.slow
async def test_an_outage_while_edits_are_tried_is_no_score_and_the_run_goes_on(tmp_path):
    state = {"down": False, "armed": False}

    def behave(call: Call) -> Misbehaviour | None:
        if state["armed"] and "analyst_proof" in (call.place or ""):
            state["down"] = True
        return (
            Misbehaviour.status(401) if state["down"] and (call.place or "").startswith("rollout/") else None
        )

    async with LoopbackProvider(world_answers(), behave=behave) as provider:
        options = in_world(f"compatible:m@{provider.base_url}", *PROOF)
        await run(make_job(options), tmp_path / "undisturbed")
        state["armed"] = True
        with pytest.raises(ProviderDown):
            await run(make_job(options), tmp_path / "run")
        state.update(down=False, armed=False)
        await run(make_job(options), tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "undisturbed")


@pytest.mark.slow
@pytest.mark.parametrize("limit", [40, 90, 150])
async def test_a_budget_holds_and_a_larger_one_ends_where_none_would(limit, tmp_path):
    async with LoopbackProvider(world_answers()) as provider:
        options = in_world(f"compatible:m@{provider.base_url}", *PROOF)
        with contextlib.suppress(BudgetSpent):
            await run(make_job((*options, f"budget.calls={limit}")), tmp_path / "run")
        assert provider.calls <= limit
        await run(make_job((*options, "budget.calls=5000")), tmp_path / "run")
        await run(make_job((*options, "budget.calls=5000")), tmp_path / "ample")
    assert (tmp_path / "run" / "best_skill.md").read_bytes() == (
        tmp_path / "ample" / "best_skill.md"
    ).read_bytes()


def test_the_rules_a_lane_names_are_those_its_tasks_need(proved):
    """The simulated optimizer names tasks; a trial alone uses no other."""
    selected = [edit for event in proved.of(Selected) for edit in event.edits]
    right = [
        edit
        for edit in selected
        for task in edit.evidence["fixed"]
        if edit.content.strip("- ") in needs_of(task)
    ]
    assert len(right) >= len(selected) / 2


@pytest.mark.slow
def test_a_run_is_the_same_whatever_order_python_gives_to_sets(tmp_path: Path) -> None:
    folders = [tmp_path / seed for seed in "12"]
    for folder in folders:
        program = (
            "import asyncio, pathlib, sys; from claims.promises._runs import in_world, make_job, run;"
            "job = make_job(in_world('world', *sys.argv[2:]));"
            "asyncio.run(run(job, pathlib.Path(sys.argv[1])))"
        )
        options = ("env.train_cases=24", "env.val_cases=20", "gradient.minibatch_size=3", *PROOF[2:])
        subprocess.run(
            [sys.executable, "-c", program, str(folder), *options],
            env={**os.environ, "PYTHONHASHSEED": folder.name, "PYTHONPATH": str(TESTS)},
            check=True,
        )
    shared = [event.state.settled for event in events_of(folders[0]) if isinstance(event, Checkpoint)]
    assert len(shared[-1]) > 20  # so few are left that many were settled together
    assert_same_run(*folders)
