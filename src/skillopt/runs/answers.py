"""Questions and answers of a run by task and skill: what was asked, what the target answered, what that was
worth.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from skillopt.errors import UsageError
from skillopt.events import HandedOver, Judged, Pruned, Row, StageClosed, TestMeasured
from skillopt.events.place import START
from skillopt.files import write_text
from skillopt.gate.gate import STAGE
from skillopt.redact import Scrubber
from skillopt.runs.database import Database
from skillopt.runs.fold import LogSection
from skillopt.runs.log import DATABASE, read_sections
from skillopt.runs.reader import RunReader
from skillopt.skill.store import Skills
from skillopt.tasks.rollout import Score
from skillopt.tasks.splits import Splits
from skillopt.tasks.task import SPLITS, Split

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
class Answer:
    """What the target answered once, beside the measured row; None is unknown."""

    row: Row
    text: str | None
    feedback: str
    """What the scorer said; of a row without a measurement why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredTask:
    """A task that was measured. `stored` is None where the run keeps no tasks (`store.tasks: false`)."""

    id: str
    split: Split
    stored: StoredTask | None
    answers: Mapping[str, Sequence[Answer]]
    """By the digest of a skill as the target got it, one answer a draw; the latest measurement counts."""

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        left_out = ("task", "attempt", "rollout", "detail")
        answers = {
            skill: [
                {key: value for key, value in asdict(one.row).items() if key not in left_out}
                | {"text": one.text, "feedback": one.feedback}
                for one in draws
            ]
            for skill, draws in self.answers.items()
        }
        task = self.stored or StoredTask(id=self.id, split=self.split, question="")
        question = None if self.stored is None else task.question
        about = {"kind": task.kind, "question": question, "expected": task.expected}
        return {"id": self.id, "split": self.split, **about, "answers": answers}


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
        json.dumps(scrubber.scrub_json(task.model_dump()), ensure_ascii=False, default=str) for task in stored
    ]
    write_text(path, "".join(line + "\n" for line in lines), durable=False)


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
    known = {task.id: task for task in stored_tasks(run.folder)}
    rows = [row for by_skill in found.values() for draws in by_skill.values() for row in draws.values()]
    texts, scores = _answered(run.folder, [row.rollout for row in rows if row.rollout is not None])

    def answer(row: Row) -> Answer:
        at = (row.rollout or "", row.attempt)
        remarks = [score.feedback for score in scores.get(at, ()) if score.hard == row.hard]
        return Answer(row=row, text=texts.get(at), feedback=remarks[-1] if remarks else row.detail)

    answered = [
        AnsweredTask(
            id=id,
            split=split,
            stored=known.get(id),
            answers={
                skill: [answer(row) for _, row in sorted(draws.items())]
                for skill, draws in found[split, id].items()
            },
        )
        for split, id in sorted(found, key=lambda key: SPLITS.index(key[0]))
    ]
    folds = sections.tests[-1].folds if sections.tests else 0
    return RunAnswers(seed=seed, best=best, folds=folds, tasks=answered)


def measured_rows(sections: Iterable[LogSection], skills: Skills) -> Iterator[tuple[Split, str, Row]]:
    """Every measured row with its split and the digest of the skill it was measured with."""
    for section in sections:
        before, after = section.before, section.after
        judged = {verdict.place: verdict.skill for verdict in section.of(Judged)}
        for closed in section.of(StageClosed):
            if before is not None and closed.stage == STAGE:
                skill = judged.get(closed.place, "")
            elif before is not None:
                skill = skills.get(before.skill).digest
            elif after is not None:  # the baseline
                skill = skills.get(after.skill if closed.place == START else after.seed).digest
            else:
                continue
            if closed.stage in _SPLIT_OF and closed.place.arm != "older":
                yield from ((_SPLIT_OF[closed.stage], skill, row) for row in closed.rows)
        better: list[HandedOver | Pruned] = [*section.of(HandedOver), *section.of(Pruned)]
        for event in better:
            yield from (("val", skills.get(event.skill).digest, row) for row in event.rows)
        for opened in section.of(TestMeasured):
            for name, rows in opened.rows.items():
                yield from (("test", opened.skills[name], row) for row in rows)


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
