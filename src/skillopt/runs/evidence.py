"""What stands behind a run's figures: question and answers by task and skill, and the trials of its edits."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict

from skillopt.errors import UsageError
from skillopt.events import (
    Aggregated,
    Blamed,
    HandedOver,
    Judged,
    Proved,
    Pruned,
    Row,
    StageClosed,
    TestMeasured,
    Updated,
)
from skillopt.events.place import START, Place
from skillopt.events.records import CandidateRecord, StepRecord
from skillopt.events.state import Metric
from skillopt.files import write_text
from skillopt.gate.decision import worth_of, worths_of
from skillopt.gate.gate import STAGE
from skillopt.redact import Scrubber
from skillopt.runs.database import Database
from skillopt.runs.fold import LogSection
from skillopt.runs.log import DATABASE, read_sections
from skillopt.runs.reader import RunReader
from skillopt.skill.edits import Outcome
from skillopt.skill.store import Skills
from skillopt.tasks.rollout import Score
from skillopt.tasks.splits import Splits
from skillopt.tasks.task import SPLITS, Split
from skillopt.train.trials import is_fixed

TASKS = "tasks.jsonl"
_SPLIT_OF: Mapping[str, Split] = {STAGE: "val", "rollout": "train"}
SHARED = "rollouts.db"
"""In a cross-fitted run, what its parts need not pay twice."""


class StoredTask(BaseModel):
    """A line of `tasks.jsonl`: what was asked, and what the scorer compares the answer with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    split: Split
    kind: str = ""
    question: str
    expected: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnswer:
    """What the target answered once, and what that was worth. None is unknown, or not measured."""

    draw: int
    text: str | None
    hard: float | None
    soft: float | None
    feedback: str
    """What the scorer said; of a row without a measurement why there is none."""
    failure: str | None
    """The target's own fault: refusal, empty, length, turns."""
    invalid: str | None
    tokens: int | None
    seconds: float | None
    target: str | None
    """Whose answer it is, where a skill is trained for several targets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredTask:
    """A task that was measured. `question` is None where the run keeps no tasks (`store.tasks: false`)."""

    id: str
    split: Split
    kind: str
    question: str | None
    expected: Any
    answers: Mapping[str, Sequence[GivenAnswer]]
    """By the digest of a skill as the target got it, one answer a draw; the latest measurement counts."""

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAnswers:
    """The answers of a run, train first, then val, then test where it was opened."""

    seed: str
    """Digest of the seed; its answers stand under it, as those of the best skill under `best`."""
    best: str
    folds: int
    """Where the tasks were cross-fitted: the test answers under `best` are those of the folds' own skills."""
    tasks: Sequence[AnsweredTask]


def write_tasks(path: Path, splits: Splits, scrubber: Scrubber) -> None:
    """Keep what is asked and expected beside the log, without credentials."""
    stored = [
        StoredTask(id=task.id, split=split, kind=task.kind, question=task.prompt, expected=task.reference)
        for split in SPLITS
        for task in splits.of(split)
    ]
    lines = [
        json.dumps(scrubber.scrub_json(one.model_dump()), ensure_ascii=False, default=str) for one in stored
    ]
    write_text(path, "".join(line + "\n" for line in lines), durable=False)


def read_answers(
    run: RunReader, *, tasks: Collection[str] = (), skills: Collection[str] | None = None
) -> RunAnswers:
    """What was answered in a run, as far as its log tells; of an unopened test that is nothing.

    `tasks` are ids, none is all; `skills` are digests, unset is seed and best.
    """
    state = run.fold.result
    if state is None:
        raise UsageError(f"{run.folder} holds no baseline yet, so nothing was answered in it.")
    seed, best = run.skills.get(state.seed).digest, run.skills.get(state.best).digest
    wanted = {seed, best} if skills is None else set(skills)
    sections = read_sections(run.folder)
    found: dict[tuple[Split, str], dict[str, dict[tuple[int, str], Row]]] = {}
    measured = [*sections.kept, sections.open_section, *sections.kept_of_handover]
    for split, skill, row in measured_rows(measured, run.skills):
        if skill in wanted and (not tasks or row.task in tasks):
            draws = found.setdefault((split, row.task), {}).setdefault(skill, {})
            draws[row.draw, row.target or ""] = row
    known = {one.id: one for one in stored_tasks(run.folder)}
    rows = [row for skills_of in found.values() for draws in skills_of.values() for row in draws.values()]
    texts, scores = _answered(run.folder, [row.rollout for row in rows if row.rollout is not None])

    def answer(row: Row) -> GivenAnswer:
        at = (row.rollout or "", row.attempt)
        said = [one.feedback for one in scores.get(at, ()) if one.hard == row.hard]
        names = ("draw", "hard", "soft", "failure", "invalid", "tokens", "seconds", "target")
        about: dict[str, Any] = {name: getattr(row, name) for name in names}
        return GivenAnswer(**about, text=texts.get(at), feedback=said[-1] if said else row.detail)

    told = []
    for split, id in sorted(found, key=lambda one: SPLITS.index(one[0])):
        task = known.get(id)
        told.append(
            AnsweredTask(
                id=id,
                split=split,
                kind="" if task is None else task.kind,
                question=None if task is None else task.question,
                expected=None if task is None else task.expected,
                answers={
                    skill: [answer(row) for _, row in sorted(draws.items())]
                    for skill, draws in found[split, id].items()
                },
            )
        )
    folds = sections.looks[-1].folds if sections.looks else 0
    return RunAnswers(seed=seed, best=best, folds=folds, tasks=told)


def measured_rows(sections: Iterable[LogSection], skills: Skills) -> Iterator[tuple[Split, str, Row]]:
    """Every measured row with its split and the digest of the skill it was measured with."""
    for section in sections:
        before, after = section.before, section.after
        judged = {one.place: one.skill for one in section.of(Judged)}
        for closed in section.of(StageClosed):
            if before is not None:
                skill = (
                    judged.get(closed.place, "") if closed.stage == STAGE else skills.get(before.skill).digest
                )
            elif after is not None:  # the baseline
                skill = skills.get(after.skill if closed.place == START else after.seed).digest
            else:
                continue
            if closed.stage in _SPLIT_OF and closed.place.arm != "older":
                yield from ((_SPLIT_OF[closed.stage], skill, row) for row in closed.rows)
        better: list[HandedOver | Pruned] = [*section.of(HandedOver), *section.of(Pruned)]
        for one in better:
            yield from (("val", skills.get(one.skill).digest, row) for row in one.rows)
        for look in section.of(TestMeasured):
            for name, rows in look.rows.items():
                yield from (("test", look.skills[name], row) for row in rows)


def stored_tasks(folder: Path) -> list[StoredTask]:
    """The tasks of a run; none where it keeps none."""
    path = folder / TASKS
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        return [StoredTask.model_validate_json(line) for line in lines]
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}. Run the same training command again to write it."
        ) from error


def _answered(
    folder: Path, rollouts: Sequence[str]
) -> tuple[dict[tuple[str, int], str], dict[tuple[str, int], list[Score]]]:
    """Text and scores of stored rollouts; those of the folds of a cross-fitted run lie in a shared file."""
    texts: dict[tuple[str, int], str] = {}
    scores: dict[tuple[str, int], list[Score]] = {}
    for path in (folder / SHARED, folder / DATABASE):
        if not path.is_file():
            continue
        with Database.reading(path) as database:
            texts |= {at: answer.text for at, answer in database.answers(rollouts).items()}
            scores |= database.scores(rollouts)
    return texts, scores


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundVerdict:
    """A verdict, and the log up to the end of the section it stands in."""

    judged: Judged
    sections: Sequence[LogSection]

    @property
    def section(self) -> LogSection:
        """What was decided together with it."""
        return self.sections[-1]

    @property
    def candidates(self) -> Sequence[CandidateRecord]:
        """What the step tried; nothing until it is closed."""
        record = None if self.section.closed_by is None else self.section.closed_by.record
        return record.candidates if isinstance(record, StepRecord) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EditProof:
    """How one edit of a step of `proof` ended, and what the log stores of its trials."""

    outcome: Outcome
    lane: str
    look: str
    tried_on: Sequence[str]
    """Failed train tasks on which it was tried alone, or in a set where it never was."""
    fixed: Sequence[str]
    """Of a chosen edit what the record says; of another one the tasks that every trial of it alone
    fixed and that never came right by themselves."""
    joined_into: str | None
    stands_for: Sequence[str]
    chosen: bool
    verdicts: Mapping[str, str]
    """The action on each candidate that it was in."""
    blamed: Sequence[str]
    """`control` or `blame`, where it was found guilty."""
    pruned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProof:
    """What is stored of the edits of a step of `proof`, the chosen ones first."""

    noise: float
    trials: int
    edits: Sequence[EditProof]

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        edits = [one.outcome.as_json() | asdict(one) for one in self.edits]
        for each in edits:
            each.pop("outcome")
        return {"noise": self.noise, "trials": self.trials, "edits": edits}


def stored_proof(run: RunReader, found: FoundVerdict) -> StepProof | None:
    """The proof of the verdict's step; None where no edit was tried before the gate."""
    section, metric = found.section, cast(Metric, found.judged.metric)
    proved = section.of(Proved)
    if not proved:
        return None
    weight = float(run.config["evaluation"]["gate_mixed_weight"])
    trials = [trial for one in proved for trial in one.trials]
    rollouts = [row for one in section.of(StageClosed) if one.stage == "rollout" for row in one.rows]
    before: dict[str, Fraction] = {}
    for (task, _), worth in worths_of(rollouts, metric, weight).items():
        before[task] = min(worth, before.get(task, worth))
    families: dict[str, list[str]] = {}
    for event in section.of(Aggregated):
        for ids in (*event.joined, *event.copies):
            family = list(dict.fromkeys(each for id in ids for each in families.get(id, [id])))
            families |= dict.fromkeys(family, family)

    def comes_right(row: Row) -> bool:
        worth = worth_of(row, metric, weight)
        return worth is not None and is_fixed(before.get(row.task, worth), worth)

    by_themselves = {row.task for one in trials if not one.edits for row in one.rows if comes_right(row)}

    def proof_of(one: Outcome) -> EditProof:
        alone = [row for trial in trials if trial.edits == [one.id] for row in trial.rows]
        tried = alone or [row for trial in trials if one.id in trial.edits for row in trial.rows]
        tasks = list(dict.fromkeys(row.task for row in tried))
        still_open = by_themselves | {row.task for row in tried if not alone or not comes_right(row)}
        family, (lane, look) = families.get(one.id, [one.id]), _look_of(one.id)
        joined_into = family[0] if one.state == "merged" else None
        guilty = {event.stage for event in section.of(Blamed) if one.id in event.guilty}
        return EditProof(
            outcome=one,
            lane=lane,
            look=look,
            tried_on=tasks,
            fixed=list(one.edit.evidence.get("fixed") or [task for task in tasks if task not in still_open]),
            joined_into=joined_into,
            stands_for=[] if joined_into else [id for id in family if id != one.id],
            chosen="fixed" in one.edit.evidence,
            verdicts={f"c{each.id}": each.action for each in found.candidates if one.id in each.edits},
            blamed=[stage for stage in ("control", "blame") if stage in guilty],
            pruned="prune" in guilty,
        )

    outcomes = {one.id: one for event in section.of(Updated) for one in event.outcomes}
    edits = [proof_of(one) for one in outcomes.values()]
    edits.sort(key=lambda one: (one.outcome.state != "applied", not one.chosen))
    return StepProof(noise=proved[0].noise, trials=len(trials), edits=edits)


def _look_of(id: str) -> tuple[str, str]:
    """Lane and look of an edit: `0#2`, `0-2#1` for the second look, `again-0-1#0` after a control."""
    lane, *more = Place.parse(id).item.split("-")
    if lane == "again" and len(more) == 2:
        return more[1], f"after control {more[0]}"
    return lane, more[0] if more else "1"
