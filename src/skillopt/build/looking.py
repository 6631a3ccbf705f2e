"""Decides whether an evaluation was a look at the sealed test of a training run, and notes it there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt.build.comparison import Evaluated
from skillopt.build.job import Job, tasks_digest
from skillopt.errors import RunConflict
from skillopt.runs.database import task_digests
from skillopt.runs.log import DATABASE
from skillopt.runs.looks import Look, MeasuredSkill, note_look, read_looks
from skillopt.runs.reader import read_figures
from skillopt.tasks.task import SPLITS, Split


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A look at a run's test split. `look` is its number where it is noted, `why` says why it is not."""

    run: Path
    look: int | None
    why: str = ""


def looks_of(folder: Path) -> int:
    """How often the test split of a run was looked at: by the run itself, and by noted evaluations."""
    return len(read_figures(folder).fold.looks) + len(read_looks(folder))


def sealed_splits(job: Job, run: Path) -> list[Split]:
    """Which splits of the job hold the test tasks of that run, by content; none without a training run."""
    started = read_figures(run).fold.started
    count = 0 if started is None else started.counts.get("test", 0)
    if not count:
        return []
    sealed = task_digests(run / DATABASE).get("test")
    # The run may have taken fewer tasks of the same list than this job, or more (evaluation.test_env_num).
    return [split for split in SPLITS if tasks_digest(job.benchmark.tasks(split)[:count]) == sealed]


def note_in(run: Path, job: Job, evaluations: Sequence[Evaluated]) -> Noted | None:
    """Note in a run's folder that its test tasks were looked at; None where they were not.

    The same measurement again is the same look. A run that is at work is left alone: nothing is written into
    its folder.
    """
    sealed = set(sealed_splits(job, run))
    shown = [one for one in evaluations if one.split in sealed]
    if not shown:
        return None
    seen = [
        MeasuredSkill.model_validate({name: getattr(one, name) for name in MeasuredSkill.model_fields})
        for one in shown
    ]
    look = Look(tasks=max(one.n for one in shown), seen=seen)
    try:
        note_look(run, Look.model_validate(job.scrubber.scrub_json(look.model_dump())))
    except RunConflict as error:
        return Noted(run=run, look=None, why=f"{error} This look at its test split is not noted in it.")
    except OSError as error:
        why = f"This look at its test split is not noted in {run}: {error.strerror or error}."
        return Noted(run=run, look=None, why=why)
    return Noted(run=run, look=looks_of(run))
