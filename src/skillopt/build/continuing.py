"""A run that goes on from the best skill of an earlier one, in a folder of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from skillopt.build.correcting import is_earlier
from skillopt.build.evaluation import seed_of
from skillopt.build.job import Job, tasks_digest
from skillopt.errors import ConfigError
from skillopt.files import write_text
from skillopt.runs.answers import stored_tasks
from skillopt.runs.log import DATABASE
from skillopt.runs.looks import LOOKS, Look, MeasuredSkill, read_looks
from skillopt.runs.reader import read_figures
from skillopt.runs.stored import task_digests


def continued(job: Job, run: Path) -> Job:
    """The job with the best skill of `run` to start from, its seed to compare with, its rollouts to reuse.

    Raises `ConfigError` where a task that the run learned from would be a test task.
    """
    seed = seed_of(run)
    if job.folds or job.listing is not None:
        what = "tasks are cross-fitted" if job.folds else "a description is trained"
        remedy = "Set train.folds to 1" if job.folds else "Start from the skill itself"
        raise ConfigError(
            f"--from {run}: its best skill has seen tasks that would judge it, as {what}. {remedy}, or train"
            " anew with other settings: skillopt train --config RUN."
        )
    reader = read_figures(run)
    state = reader.fold.result
    assert state is not None, "its seed was read"
    if not _has_same_test(job, run):
        learned = {one.question for one in stored_tasks(run) if one.split != "test"}
        twice = [task.id for task in job.splits.test if job.scrubber.scrub(task.prompt) in learned]
        if twice:
            raise ConfigError(
                f"--from {run}: it learned from {len(twice)} of the tasks that would be test tasks, as from"
                f" {twice[0]!r}. Divide the tasks as it did, or set evaluation.eval_test to false."
            )
    start = None if state.best == state.seed else reader.skills.get(state.best)
    return replace(job, seed=seed, start=start, reuses=(run,))


def carry_looks(job: Job, folder: Path) -> None:
    """Note in a new run's folder how often its test tasks were looked at by the runs it goes on from."""
    for run in job.reuses:
        # Of a run that was put aside every look counts: its tasks were corrected, and are not new.
        is_known = is_earlier(run, folder) or _has_same_test(job, run)
        if (folder / LOOKS).is_file() or not is_known:
            continue
        fold = read_figures(run).fold
        target = "" if fold.started is None else fold.started.target
        own = [
            Look(
                time=event.time,
                tasks=len(event.rows["seed"]),
                seen=[
                    MeasuredSkill(target=target, target_digest="", skill=name, digest=digest, repeats=1)
                    for name, digest in event.skills.items()
                ],
            )
            for event in fold.looks
        ]
        noted = [*own, *read_looks(run)]
        write_text(folder / LOOKS, "".join(f"{one.model_dump_json()}\n" for one in noted))


def _has_same_test(job: Job, run: Path) -> bool:
    return bool(job.splits.test) and task_digests(run / DATABASE).get("test") == tasks_digest(job.splits.test)
