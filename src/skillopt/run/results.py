"""What an evaluation gives: means, comparisons, what its folder keeps, and looks at a run's test split."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeAlias

from skillopt.errors import RunConflict
from skillopt.evaluation.compare import Comparison, by_task, compare_rows
from skillopt.evaluation.significance import significance
from skillopt.events import Row
from skillopt.files import write_json, write_text
from skillopt.run.assembly import OpenRun
from skillopt.run.job import Job, tasks_digest
from skillopt.runs.database import Database
from skillopt.runs.exports import public_rows
from skillopt.runs.log import DATABASE
from skillopt.runs.notes import EvalRecord, MeasuredSkill, note_eval, read_eval_records
from skillopt.runs.reader import read_figures
from skillopt.runs.tail import task_digests
from skillopt.tasks.task import SPLITS, Split

Compared: TypeAlias = Literal["hard", "soft"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """One skill with one target on one split. The task is the unit: of several draws its mean counts."""

    target: str
    target_digest: str
    """Of all that can change what the target does."""
    skill: str
    digest: str
    """Of what the target gets, the text and an agent's files: the same under every name."""
    split: Split
    repeats: int
    rows: tuple[Row, ...] = field(repr=False)
    why: str = ""
    """Why it is not complete; the rows are then those that were in when it was stopped."""

    @property
    def hard(self) -> float | None:
        """The mean over the tasks; None where nothing was measured."""
        return self._mean("hard")

    @property
    def soft(self) -> float | None:
        return self._mean("soft")

    @property
    def n(self) -> int:
        """Tasks with a measurement."""
        return len(by_task(self.rows, attrgetter("hard")))

    @property
    def invalid(self) -> int:
        """Rows without one."""
        return sum(row.invalid is not None for row in self.rows)

    def _mean(self, metric: Compared) -> float | None:
        values = by_task(self.rows, attrgetter(metric)).values()
        return fmean(values) if values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Versus:
    """One skill against another with the same target, on the tasks of a split that both were measured on."""

    target: str
    skill: str
    against: str
    split: Split
    repeats: int
    metric: Compared
    comparison: Comparison | None
    """From `against` to `skill`; None where too much was lost."""
    why: str = ""
    """Why there is no comparison."""
    left_out: tuple[str, ...] = ()
    """Tasks without a measurement on either side."""


def comparisons(
    results: Sequence[Evaluated], against: str | None, *, graded: bool | None, decided: Collection[Split] = ()
) -> list[Versus]:
    """Every other skill against that one, target by target and split by split: on hard, and on soft too where
    the scorer gives partial credit.

    `graded` None means that the scores themselves tell. A task with an invalid row on either side is left out
    by name; with more than 10 % of them there is no comparison. Where `against` is None or missing, there is
    nothing to compare with. Of `decided` splits, by which a skill was chosen, no gain is proven.
    """
    rivals = {(one.target_digest, one.split): one for one in results if one.skill == against}
    is_graded = tells_grades(graded, (row for one in results for row in one.rows))
    metrics: tuple[Compared, ...] = ("hard", "soft") if is_graded else ("hard",)
    return [
        _versus(one, rivals[one.target_digest, one.split], metric, is_decided=one.split in decided)
        for one in results
        if one.skill != against and (one.target_digest, one.split) in rivals
        for metric in metrics
    ]


def tells_grades(graded: bool | None, rows: Iterable[Row]) -> bool:
    """Whether a scorer gives partial credit: as the benchmark says, else as the scores tell."""
    if graded is not None:
        return graded
    return any(row.soft is not None and 0 < row.soft < 1 for row in rows)


def _versus(one: Evaluated, rival: Evaluated, metric: Compared, *, is_decided: bool) -> Versus:
    found = compare_rows(rival.rows, one.rows, attrgetter(metric), split=one.split)
    compared = found.comparison
    if compared is not None and is_decided:
        compared = replace(compared, significance=significance(compared.delta, None))
    return Versus(
        target=one.target,
        skill=one.skill,
        against=rival.skill,
        split=one.split,
        repeats=one.repeats,
        metric=metric,
        comparison=compared,
        why=found.why,
        left_out=found.left_out,
    )


_ABOUT = ("target", "target_digest", "skill", "digest", "split")
_PAIR = ("target_digest", "skill", "digest", "against", "against_digest", "split", "repeats", "metric")
"""What identifies a comparison."""


def write_results(
    opened: OpenRun, results: Sequence[Evaluated], compared: Sequence[Versus], missing: Sequence[Evaluated]
) -> None:
    """Add evaluations and comparisons to the folder, and say what could not be measured."""
    job, notes, folder = opened.job, opened.run.database, opened.folder
    scrub = job.scrubber.scrub_json
    digests = {(one.target, one.skill): one.digest for one in results}
    targets = {one.target: one.target_digest for one in results}
    now = [scrub(_summary(one)) for one in results]
    evaluations = _merged(
        notes, "eval/evaluations", now, ("target_digest", "skill", "digest", "split", "repeats")
    )
    pairs = []
    for pair in compared:
        of, against = digests[pair.target, pair.skill], digests[pair.target, pair.against]
        about = {"target_digest": targets[pair.target], "digest": of, "against_digest": against}
        pairs.append(scrub({**asdict(pair), **about}))
    versus = _merged(notes, "eval/comparisons", pairs, _PAIR)
    for one in results:
        about = {name: getattr(one, name) for name in _ABOUT}
        about["scorer"] = job.benchmark.scorer_version
        told = public_rows(one.rows, notes, {task.id: task for task in job.splits.of(one.split)})
        rows = [
            scrub({**about, **line, **({} if row.seconds is None else {"seconds": row.seconds})})
            for row, line in zip(one.rows, told, strict=True)
        ]
        _merged(notes, _block(one.target_digest, one.digest, one.split), rows, ("task", "draw"))
    blocks = dict.fromkeys(
        _block(entry["target_digest"], entry["digest"], entry["split"]) for entry in evaluations
    )
    lines = [json.dumps(row) for block in blocks for row in _noted(notes, block)]
    write_text(folder / "results.jsonl", "".join(line + "\n" for line in lines))
    whole = {
        **({} if missing else _public_figures(results)),
        "evaluations": evaluations,
        "comparisons": versus,
        "missing": list(map(missing_cell, missing)),
        "spending": opened.spending(),
    }
    write_json(folder / "eval_summary.json", scrub(whole))


def missing_cell(one: Evaluated) -> dict[str, str]:
    """What could not be measured, for programs."""
    return {name: getattr(one, name) for name in ("target", "skill", "split", "why")}


def _block(target: str, digest: str, split: str) -> str:
    return f"eval/rows/{target}/{digest}/{split}"


def _summary(one: Evaluated) -> dict[str, Any]:
    figures = {"n_items": one.n, "hard": one.hard, "soft": one.soft, "invalid": one.invalid}
    return {**{name: getattr(one, name) for name in _ABOUT}, "repeats": one.repeats, **figures}


def _public_figures(results: Sequence[Evaluated]) -> dict[str, Any]:
    """The figures of one skill with one target, which is what the public layout has: the first pair's, over
    all splits that were looked at.
    """
    if not results:
        return {}
    first = results[0]
    same = [one for one in results if (one.target, one.skill) == (first.target, first.skill)]
    figures = _summary(replace(first, rows=tuple(row for one in same for row in one.rows)))
    return figures | ({"split": "all"} if len(same) > 1 else {})


def _merged(
    notes: Database, name: str, new: Iterable[Mapping[str, Any]], keys: Sequence[str]
) -> list[dict[str, Any]]:
    entries = {tuple(entry[key] for key in keys): entry for entry in _noted(notes, name)}
    entries |= {tuple(entry[key] for key in keys): dict(entry) for entry in new}
    notes.note(name, json.dumps(list(entries.values())))
    return list(entries.values())


def _noted(notes: Database, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = notes.noted_as(json.loads, name) or []
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A look at a run's test split. `look` is its number where it is noted, `why` says why it is not."""

    run: Path
    look: int | None
    why: str = ""


def looks_of(folder: Path) -> int:
    """How often the test split of a run was looked at: by the run itself, and by noted evaluations."""
    return len(read_figures(folder).fold.tests) + len(read_eval_records(folder))


def sealed_splits(job: Job, run: Path) -> list[Split]:
    """Which splits of the job hold the test tasks of that run, by content; none without a training run."""
    started = read_figures(run).fold.started
    count = 0 if started is None else started.counts.get("test", 0)
    if not count:
        return []
    sealed = task_digests(run / DATABASE).get("test", "")
    # The run may have taken fewer tasks of the same list than this job, or more (evaluation.test_env_num).
    return [
        split
        for split in SPLITS
        if sealed in (tasks_digest(one[:count]) for one in (job.splits.of(split), job.benchmark.tasks(split)))
    ]


def decided_splits(job: Job, runs: Iterable[Path]) -> set[Split]:
    """The splits of a job that hold tasks by which one of the runs chose its skill."""
    told = {task_digests(run / DATABASE).get(split) for run in runs for split in ("train", "val")}
    return {split for split in SPLITS if tasks_digest(job.splits.of(split)) in told}


def note_in(run: Path, job: Job, evaluations: Sequence[Evaluated]) -> Noted | None:
    """Note in a run's folder that its test tasks were looked at; None where they were not.

    The same measurement again is the same look. A run that is at work is left alone.
    """
    sealed = set(sealed_splits(job, run))
    shown = [one for one in evaluations if one.split in sealed]
    if not shown:
        return None
    seen = [
        MeasuredSkill.model_validate({name: getattr(one, name) for name in MeasuredSkill.model_fields})
        for one in shown
    ]
    look = EvalRecord(tasks=max(one.n for one in shown), seen=seen)
    try:
        note_eval(run, EvalRecord.model_validate(job.scrubber.scrub_json(look.model_dump())))
    except RunConflict as error:
        return Noted(run=run, look=None, why=f"{error} This look at its test split is not noted in it.")
    except OSError as error:
        why = f"This look at its test split is not noted in {run}: {error.strerror or error}."
        return Noted(run=run, look=None, why=why)
    return Noted(run=run, look=looks_of(run))
