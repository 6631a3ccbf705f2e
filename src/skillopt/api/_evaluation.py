"""Measures skills on splits, compares them in pairs, and keeps what every evaluation in a folder has shown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeAlias

from skillopt.build import Job, Lab
from skillopt.errors import UsageError
from skillopt.evaluate.compare import Comparison, compare
from skillopt.evaluate.runner import MOST_LOST, fact, rows_of
from skillopt.events import RowFact, Sink
from skillopt.files import write_json, write_text
from skillopt.models._limits import Retry
from skillopt.skill.document import Document
from skillopt.store.database import Database
from skillopt.tasks.splits import canonical_split
from skillopt.tasks.task import SPLITS, Split
from skillopt.together import together

Compared: TypeAlias = Literal["hard", "soft"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """One skill on one split. The task is the unit: of several draws its mean counts."""

    skill: str
    digest: str
    """Of the text that the target gets: the same under every name."""
    split: Split
    repeats: int
    hard: float | None
    soft: float | None
    n: int
    """Tasks with a measurement."""
    invalid: int
    """Rows without one."""
    rows: tuple[RowFact, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Versus:
    """One skill against another on the tasks of a split that both were measured on."""

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


async def evaluate(
    job: Job,
    skills: Mapping[str, Document],
    splits: Sequence[Split],
    folder: Path,
    *,
    against: str | None = None,
    repeats: int = 1,
    sinks: Sequence[Sink] = (),
    retry: Retry | None = None,
) -> list[Evaluated]:
    """Measure skills on splits; what was measured before in this folder (or the shared cache) is not paid again.

    Rollouts are keyed by the skill's text, so one folder may serve any number of skills. `against` names the one of `skills` that
    `eval_summary.json` compares the others with; `repeats` is the number of draws per task.
    """
    identity = job.identity()
    kept = {"kind": "eval", "target": identity["model"]["target"], "env": identity["env"], "tasks": identity["tasks"]}
    results: list[Evaluated] = []
    async with Lab(job, folder, kept, sinks=sinks, retry=retry) as lab:
        try:
            running = [
                (
                    name,
                    split,
                    lab.evaluator.start(
                        skill.rendered, rows_of(job.splits.of(split), repeats), stage="eval", place=f"{name}/{split}", resumes=False
                    ),
                )
                for name, skill in skills.items()
                for split in splits
            ]
            closed = await together(*(evaluation.close() for _, _, evaluation in running))
            for (name, split, _), outcomes in zip(running, closed, strict=True):
                rows = tuple(fact(outcome) for outcome in outcomes)
                results.append(_evaluated(name, skills[name].digest, split, repeats, rows))
        finally:
            await lab.drain()
        compared = comparisons(results, against, graded=job.benchmark.graded) if against is not None else []
        _write(folder, lab, job, results, compared)
    return results


def comparisons(results: Sequence[Evaluated], against: str, *, graded: bool | None) -> list[Versus]:
    """Every other skill against that one, split by split: on hard, and on soft too where the scorer gives partial credit.

    `graded` None means that the scores themselves tell. A task with an invalid row on either side is left out by name; with more than
    10 % of them there is no comparison.
    """
    rivals = {one.split: one for one in results if one.skill == against}
    if graded is None:
        graded = any(row.soft is not None and 0 < row.soft < 1 for one in results for row in one.rows)
    metrics: tuple[Compared, ...] = ("hard", "soft") if graded else ("hard",)
    return [_versus(one, rivals[one.split], metric) for one in results if one.skill != against for metric in metrics]


def eval_splits(name: str, job: Job) -> list[Split]:
    """The splits that `--split` names; `all` is every one that has tasks."""
    if name == "all":
        return [split for split in SPLITS if job.splits.of(split)]
    split = canonical_split(name)
    if not job.splits.of(split):
        raise UsageError(f"The {split} split of {job.benchmark.name!r} is empty.")
    return [split]


def _evaluated(skill: str, digest: str, split: Split, repeats: int, rows: tuple[RowFact, ...]) -> Evaluated:
    hard, soft = (list(_by_task(rows, metric).values()) for metric in ("hard", "soft"))
    return Evaluated(
        skill=skill,
        digest=digest,
        split=split,
        repeats=repeats,
        hard=_mean(hard),
        soft=_mean(soft),
        n=len(hard),
        invalid=sum(row.invalid is not None for row in rows),
        rows=rows,
    )


def _versus(one: Evaluated, rival: Evaluated, metric: Compared) -> Versus:
    names = {row.task for row in one.rows}
    lost = sorted({row.task for row in (*one.rows, *rival.rows) if row.invalid is not None})
    why, comparison = "", None
    if Fraction(len(lost), len(names)) > MOST_LOST:
        why = f"{len(lost)} of {len(names)} {one.split} tasks could not be measured: {', '.join(lost)}"
    else:
        before, after = (
            {task: value for task, value in _by_task(arm.rows, metric).items() if task not in set(lost)} for arm in (rival, one)
        )
        comparison = compare(before, after)
    return Versus(
        skill=one.skill,
        against=rival.skill,
        split=one.split,
        repeats=one.repeats,
        metric=metric,
        comparison=comparison,
        why=why,
        left_out=tuple(lost),
    )


def _by_task(rows: Iterable[RowFact], metric: Compared) -> dict[str, float]:
    """Each task's mean over the draws that were measured."""
    draws: dict[str, list[float]] = {}
    for row in rows:
        value = row.hard if metric == "hard" else row.soft
        if value is not None:
            draws.setdefault(row.task, []).append(value)
    return {task: math.fsum(values) / len(values) for task, values in draws.items()}


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


# What a folder knows lies in run.db, and both files are written from there: a later evaluation in the same folder adds to them.
# A new row takes the place of the same row (skill's text, split, task, draw); everything else stays.


def _write(folder: Path, lab: Lab, job: Job, results: Sequence[Evaluated], compared: Sequence[Versus]) -> None:
    notes, scrub = lab.run.database, job.scrubber.scrub_json
    digests = {one.skill: one.digest for one in results}
    now = [scrub(_summary(one)) for one in results]
    evaluations = _merged(notes, "eval/evaluations", now, ("skill", "digest", "split", "repeats"))
    pairs = [scrub({**asdict(one), "digest": digests[one.skill], "against_digest": digests[one.against]}) for one in compared]
    versus = _merged(notes, "eval/comparisons", pairs, ("skill", "digest", "against", "against_digest", "split", "repeats", "metric"))
    for one in results:
        about = {"skill": one.skill, "digest": one.digest, "split": one.split, "scorer": job.benchmark.scorer_version}
        rows = [scrub({**about, **row.model_dump(exclude_none=True)}) for row in one.rows]
        _merged(notes, f"eval/rows/{one.digest}/{one.split}", rows, ("task", "draw"))
    blocks = dict.fromkeys((entry["digest"], entry["split"]) for entry in evaluations)
    lines = [json.dumps(row) for digest, split in blocks for row in _noted(notes, f"eval/rows/{digest}/{split}")]
    write_text(folder / "results.jsonl", "".join(line + "\n" for line in lines))
    # The public layout is one evaluation's figures; several at once have no single one.
    whole = {**(now[0] if len(now) == 1 else {}), "evaluations": evaluations, "comparisons": versus, "spending": lab.spending()}
    write_json(folder / "eval_summary.json", scrub(whole))


def _summary(one: Evaluated) -> dict[str, Any]:
    return {
        "skill": one.skill,
        "digest": one.digest,
        "split": one.split,
        "repeats": one.repeats,
        "n_items": one.n,
        "hard": one.hard,
        "soft": one.soft,
        "invalid": one.invalid,
    }


def _merged(notes: Database, name: str, new: Iterable[Mapping[str, Any]], keys: Sequence[str]) -> list[dict[str, Any]]:
    entries = {tuple(entry[key] for key in keys): entry for entry in _noted(notes, name)}
    entries |= {tuple(entry[key] for key in keys): dict(entry) for entry in new}
    notes.note(name, json.dumps(list(entries.values())))
    return list(entries.values())


def _noted(notes: Database, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(notes.noted(name) or "[]")
    return found
