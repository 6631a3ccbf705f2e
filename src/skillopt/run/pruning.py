"""Leaves out of a run's best skill what does not pay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from skillopt.config.load import Resolved
from skillopt.errors import UsageError
from skillopt.events import Notice, Sink
from skillopt.events.place import PRUNING
from skillopt.events.step import Outbox, Step
from skillopt.files import write_text
from skillopt.run.addresses import at_kept, kept_addresses
from skillopt.run.assembly import open_run
from skillopt.run.evaluation import target_only
from skillopt.run.job import Job
from skillopt.run.preparation import prepare
from skillopt.run.trainer import gate_of
from skillopt.run.training import carry_folder
from skillopt.runs.log import DATABASE
from skillopt.runs.reader import read_figures
from skillopt.train.pruning import PrunedSkill, Pruner


def pruning_job(resolved: Resolved, run: Path) -> Job:
    """The job of a run, for its target alone; its rollouts are those of the run."""
    config, alone = resolved.config, target_only(resolved)
    same_tasks = {"train": config.train, "cache.path": config.cache.path or run / DATABASE}
    job = prepare(replace(alone, config=alone.config.having(same_tasks)))
    job = at_kept(job, kept_addresses([("target", job.target)], run / "pruned", {}, runs=[run]))
    # The last round's tasks, where they are cross-fitted.
    return replace(job, division=replace(job.division, earlier=(), folds=()))


async def prune_run(job: Job, run: Path, folder: Path, *, sinks: Sequence[Sink] = ()) -> PrunedSkill:
    """Remove the learned lines that no task needs from the run's best skill, and write the shorter skill to
    `folder`. A call that was stopped continues when it is repeated.
    """
    figures = read_figures(run)
    state = figures.fold.state
    if state is None or state.best == state.seed:
        raise UsageError(
            f"{run} has learned nothing: its best skill is the seed, and there is no line to prune."
        )
    best, seed = figures.skills.get(state.best), figures.skills.get(state.seed)
    identity = {**job.identity(), "kind": "prune", "best": best.digest}
    async with open_run(job, folder, identity, sinks=sinks) as opened:
        if changed := job.division.changed:
            opened.run.emit(Notice(text=changed, level="warning"))
        gate = gate_of(job, opened.evaluator)
        gate.metric = state.metric
        gate.leave_out(state.left_out)
        step = Step(place=PRUNING, emit=Outbox(opened.run.emit), skill=best)
        try:
            found = await Pruner(gate, job.splits.train).prune(step, seed)
        finally:
            await opened.drain()
    write_text(folder / "best_skill.md", job.whole(found.document.rendered_text))
    carry_folder(job, found.document, folder)
    return found
