"""Trains a skill in an open run to the end, or prunes what a run has learned, and says what came of it."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillopt.benchmarks import benchmarks
from skillopt.config.keys import flat
from skillopt.config.schema import Config
from skillopt.evaluation.compare import Comparison
from skillopt.events import Notice, RunStarted
from skillopt.events.records import StepRecord
from skillopt.events.state import State
from skillopt.files import write_json
from skillopt.gate.gate import SkillMeasurement
from skillopt.run.assembly import OpenRun, own_cache
from skillopt.run.continuing import carry_looks
from skillopt.run.job import Job
from skillopt.run.tracking import tracked
from skillopt.run.trainer import trainer_of
from skillopt.runs.answers import TASKS, write_tasks
from skillopt.runs.exports import Exports
from skillopt.skill.document import Document
from skillopt.skill.folder import copy_skill
from skillopt.skill.spec import file_violations, violations
from skillopt.train.claim import TrainingEnd, claim, summary
from skillopt.train.trainer import Trainer

if TYPE_CHECKING:
    from skillopt.train.sealed_test import PooledRows

_OF_PAPER = (
    *("train.batch_size", "train.accumulation", "gradient.merge_batch_size", "gradient.failure_only"),
    *("optimizer.learning_rate", "optimizer.min_learning_rate", "optimizer.lr_scheduler"),
    *("optimizer.lr_control_mode", "optimizer.salvage"),
)
"""Settings that only the published loop reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What training gave. `status` is "finished", or "budget" when the budget ended it first."""

    best_skill: str
    """The text of the best skill, as it is written to `best_skill.md`."""
    best_files: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The other files that were trained, by path, as they are written to `best_skill/`."""
    folder: Path
    status: str
    claim: str
    """One sentence that says no more than was measured."""
    test: Comparison | None
    """Best against seed on the sealed test split; None where it was not measured."""
    summary: Mapping[str, Any] = field(repr=False)
    """What `summary.json` holds."""
    steps: Sequence[StepRecord] = field(repr=False)
    """What `history.json` holds: one record for each step."""
    state: State = field(repr=False)
    """Where training ended."""
    seed_on_val: SkillMeasurement = field(repr=False)
    best_on_val: SkillMeasurement = field(repr=False)


async def train(opened: OpenRun) -> Result:
    """Train to the end of the plan or the budget, and write the exports and `summary.json`.

    Whatever stops it, calls already sent are waited for and kept.
    """
    job = opened.job
    write_json(opened.folder / "config.json", job.scrubber.scrub_json(_public_config(job)))
    keeps = job.config.store.tasks
    if keeps:
        write_tasks(opened.folder / TASKS, job.splits, job.scrubber)
    carry_looks(job, opened.folder)
    exports = Exports(
        opened.run,
        job.splits.all if keeps else (),
        predictions=job.config.output.predictions,
        whole=job.whole,
    )
    exports.catch_up()
    opened.run.watch(exports, facts_only=True)
    with tracked(opened):
        trainer = trainer_of(opened, partial(_pooled_rows, opened) if job.division.folds else None)
        _announce(opened, trainer)
        try:
            trainer.start = await _earlier_rounds(opened)
            fitted = await trainer.fit(opened.job.skill)
        finally:
            await trainer.ahead.withdraw()
            await trainer.test.withdraw()
            await opened.drain()
    if fitted.ended_early:  # an open step may have handed something over
        exports.write_best(fitted.state.best)
    return _result(opened, trainer, fitted)


async def _pooled_rows(opened: OpenRun) -> PooledRows:
    from skillopt.run.crossfit import pooled_rows

    return await pooled_rows(opened, train)


async def _earlier_rounds(opened: OpenRun) -> Document | None:
    """The skill that the last round starts from, where there are earlier ones."""
    if not (opened.job.division.earlier or opened.job.division.folds):
        return opened.job.start
    from skillopt.run.crossfit import earlier_rounds

    return await earlier_rounds(opened, train)


def _public_config(job: Job) -> dict[str, Any]:
    """The configuration in the flat public form, with what follows from it and the tasks."""
    plan = job.plan
    batches = math.ceil(len(plan.train) / job.config.train.batch_size)
    return {
        **flat(job.settings),
        "eval_test": job.config.evaluation.eval_test is not False,
        "batches_per_epoch": batches,
        "steps_per_epoch": plan.steps_per_epoch,
        **dict.fromkeys(("train_size", "samples_per_epoch"), len(plan.train)),
    }


def _result(opened: OpenRun, trainer: Trainer, fitted: TrainingEnd) -> Result:
    job, state, skills = opened.job, fitted.state, opened.run.skills
    seed_skill, best_skill = skills.get(state.seed), skills.get(state.best)
    status = "budget" if fitted.ended_early else "finished"
    sentence = claim(
        fitted.report,
        changed=best_skill.rendered != seed_skill.rendered,
        simulated=job.simulated,
        verified=trainer.gate.verified,
        ungated=trainer.ungated,
    )
    seed, best, steps = trainer.measured(seed_skill), trainer.measured(best_skill), opened.run.steps()
    final = None if state.score is None else trainer.measured(skills.get(state.skill))
    about = {"config": _public_config(job), "status": status, "claim": sentence, "simulated": job.simulated}
    figures = summary(
        fitted,
        steps,
        about=about,
        measured={"seed": seed, "best": best, "final": final},
        gate=trainer.gate,
        ungated=trainer.ungated,
        spending=opened.spending(),
        seconds=opened.elapsed(),
    )
    if fitted.stopped:
        figures["stopped_because"] = fitted.stopped
    if fitted.ended_early:
        figures["ended_early"] = fitted.ended_early
    write_json(opened.folder / "summary.json", job.scrubber.scrub_json(figures))
    carry_folder(job, best_skill, opened.folder)
    return Result(
        best_skill=job.whole(best_skill.rendered_text),
        best_files=best_skill.files,
        folder=opened.folder,
        status=status,
        claim=sentence,
        test=fitted.report.comparison,
        summary=figures,
        steps=steps,
        state=state,
        seed_on_val=seed,
        best_on_val=best,
    )


def carry_folder(job: Job, best: Document, folder: Path) -> None:
    """Write a skill folder with its references and scripts, so that it can be used as it is."""
    if job.seed.folder is not None:
        whole = folder / "best_skill" / job.seed.name
        shutil.rmtree(whole, ignore_errors=True)
        copy_skill(job.seed, job.whole(best.rendered), whole)


def _announce(opened: OpenRun, trainer: Trainer) -> None:
    job = opened.job
    opened.run.emit(
        RunStarted(
            id="run",
            identity=opened.run.identity,
            benchmark=job.benchmark.name,
            target=job.target_name,
            optimizer=job.config.model.optimizer.name,
            simulated=job.simulated,
            steps=trainer.plan.total_steps,
            counts={split: len(job.splits.of(split)) for split in ("train", "val", "test")},
        )
    )
    if job.bad_rows:
        opened.run.emit(Notice(text=job.bad_rows, level="warning"))
    if job.world_trouble:
        opened.run.emit(Notice(text=job.world_trouble, level="warning"))
    for text in _notes(opened, trainer):
        opened.run.emit(Notice(text=text))


def _notes(opened: OpenRun, trainer: Trainer) -> list[str]:
    """What the reader of the run should know before it starts."""
    job, evaluation = opened.job, opened.job.config.evaluation
    notes = []
    if job.division.folds:
        from skillopt.run.crossfit import format_plan

        notes.append(format_plan(job))
    if job.seed.seedless:
        notes.append(f"{job.seed.path} is empty: a start without a seed.")
    if job.listing is not None:
        from skillopt.run.description import format_listed_beside

        notes.append(format_listed_beside(job.listing))
    if job.skill.frontmatter:
        folder = None if job.seed.folder is None else job.seed.folder.resolve().name
        notes += [
            f"The skill breaks a rule of the Agent Skills format, kept as it is: {one.message}"
            for one in violations(job.skill.text, folder)
            if one.severity == "error"
        ]
    if job.config.train.train_size > len(job.splits.train):
        notes.append(
            f"train.train_size is {job.config.train.train_size}; the train split has"
            f" {len(job.splits.train)} tasks, all of which are taken."
        )
    if job.config.train.strategy == "proof" and (unread := [key for key in _OF_PAPER if _is_set(job, key)]):
        notes.append(
            f"The strategy proof does not read {', '.join(unread)}; train.strategy=paper, the published loop,"
            " does."
        )
    if job.config.cache.path is None and (cache := own_cache(job)) is not None:
        notes.append(f"Rollouts are shared with other runs through {cache}; cache.shared=false asks anew.")
    if job.skill.files:
        paths = {*job.skill.files, *job.seed.others()}
        notes += [one.message for one in file_violations(job.skill.text, paths)]
    if job.repeats > 1 and evaluation.repeats is None:
        notes.append(
            f"{len(job.splits.val)} val tasks are few: the gate draws each of them {job.repeats} times."
        )
    if not trainer.gate.verified:
        notes.append("Fewer than 5 val tasks: verdicts of this run are marked unverified.")
    if not evaluation.use_gate:
        notes.append("The gate is off: every candidate is taken without proof, and every report says so.")
    elif trainer.ungated:
        notes.append(
            "Slow updates are taken without a gate and measured afterwards, and every report says so."
        )
    return notes


def _is_set(job: Job, key: str) -> bool:
    """Whether a setting is another than the usual one of the benchmark."""
    name = job.config.env.name
    usual = benchmarks.get(name).defaults if name in benchmarks.names() else {}
    return bool(attrgetter(key)(job.config) != usual.get(key, attrgetter(key)(Config())))
