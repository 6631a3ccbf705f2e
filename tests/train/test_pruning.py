"""Idle lines are left out of a skill, needed ones stay and say which tasks need them, and test takes no part."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from claims.promises._runs import events_of, in_world, make_job, run
from skillopt.errors import BudgetSpent, ConfigError
from skillopt.events import Checkpoint, Pruned
from skillopt.events.place import PRUNING
from skillopt.events.step import Outbox, Step
from skillopt.models.world.rules import SEED_SKILL, USELESS, needs_of
from skillopt.run import open_run
from skillopt.run.trainer import gate_of
from skillopt.runs.reader import read_view
from skillopt.skill.document import Document
from skillopt.train.pruning import ORIGIN, PrunedSkill, Pruner

CASES = ("env.train_cases=24", "env.val_cases=20", "env.test_cases=6", "evaluation.repeats=1")
NEEDED = "Read a table from its header row, never by position."
HARM = "Drop the units to save space."
"""It breaks every case about units and tables, so that the line above looks idle beside it."""


def pruned(folder: Path, lines: str, *options: str) -> PrunedSkill:
    """A skill with these lines behind the seed's, pruned on a target without noise unless told."""
    job = make_job([*in_world("world:noise=0"), *CASES, *options])

    async def work() -> PrunedSkill:
        async with open_run(job, folder, {"kind": "prune"}) as opened:
            step = Step(place=PRUNING, emit=Outbox(opened.run.emit), skill=Document(SEED_SKILL + lines))
            gate = gate_of(job, opened.evaluator)
            return await Pruner(gate, job.splits.train).prune(step, Document(SEED_SKILL))

    return asyncio.run(work())


@pytest.mark.slow
def test_a_line_stays_iff_a_task_needs_it(tmp_path: Path) -> None:
    found = pruned(tmp_path / "run", f"- {USELESS[0]}\n- {NEEDED}\n- {HARM}\n\nGood luck.\n")
    assert found.document.text.strip() == f"{SEED_SKILL}- {NEEDED}"
    assert [(line.text, line.removed) for line in found.lines] == [
        (f"- {NEEDED}", False),
        (f"- {HARM}", True),
        (f"- {USELESS[0]}", True),
        ("Good luck.", True),
    ]
    needed, harmful, useless, _ = found.lines
    assert needed.val > 0 > harmful.val and useless.val == 0 and found.score > found.before
    assert needed.needed and all(needs_of(case) == {NEEDED} for case in needed.needed)


def test_of_two_lines_that_stand_for_each_other_one_stays(tmp_path: Path) -> None:
    found = pruned(tmp_path / "run", f"- {NEEDED}\n- As I said: {NEEDED}\n- {USELESS[1]}\n")
    assert [line.removed for line in found.lines].count(True) == 2 and NEEDED in found.document.text
    assert [line.needed for line in found.lines] == [[], [], []], "neither is needed beside the other"


@pytest.mark.slow
def test_luck_is_no_need(tmp_path: Path) -> None:
    lines = "".join(f"- {line}\n" for line in USELESS)
    found = pruned(tmp_path / "run", lines, *in_world("world:noise=0.1,seed=1"))
    worse = [line for line in found.lines if line.val > 0]
    assert worse and sum(line.removed for line in found.lines) >= 3
    assert found.score >= found.before, "and val is never worse than before"


def test_what_was_measured_is_not_paid_again_and_a_budget_stops_between_rows(tmp_path: Path) -> None:
    lines = f"- {NEEDED}\n- {USELESS[0]}\n"
    with pytest.raises(BudgetSpent):
        pruned(tmp_path / "run", lines, "budget=60 calls")
    first = pruned(tmp_path / "run", lines)
    again = pruned(tmp_path / "run", lines, "budget=1 call")
    assert again == first


@pytest.mark.slow
async def test_a_run_that_prunes_ends_with_the_pruned_skill_and_goes_on_from_it(tmp_path: Path) -> None:
    cases = ("env.train_cases=40", "env.val_cases=20", "env.test_cases=10", "train.batch_size=20")
    job = make_job([*in_world("world:seed=1"), *cases, "train.num_epochs=3", "optimizer.prune=true"])
    ended = await run(job, tmp_path / "run")
    events = list(events_of(tmp_path / "run"))
    (told,) = [event for event in events if isinstance(event, Pruned)]
    out = [line.text for line in told.lines if line.removed]
    before = [event for event in events if isinstance(event, Checkpoint)][-2].state
    assert out and not [line for line in out if line in ended.best_skill]
    assert (ended.state.best_origin, ended.state.best) == (ORIGIN, told.skill) != (ORIGIN, before.best)
    assert ended.best_on_val.score == told.score >= before.best_score
    sealed = {task.id for task in job.splits.test}
    assert not sealed & {task for line in told.lines for task in line.needed}
    facts = read_view(tmp_path / "run")
    assert facts.best_origin == ORIGIN and facts.best_skill == ended.best_skill
    again = await run(job, tmp_path / "run")
    assert again.best_skill == ended.best_skill and again.summary["spending"] == ended.summary["spending"]


def test_pruning_without_a_gate_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"optimizer\.prune asks the gate"):
        make_job([*in_world(), "optimizer.prune=true", "evaluation.use_gate=false"])
