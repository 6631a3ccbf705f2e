"""Folds a run's events into changes and versions, one event after the other, so that a report and a live view
read a run alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from skillopt.events import (
    Checkpoint,
    EpochEnded,
    Event,
    Judged,
    Reflected,
    RowFact,
    RunStarted,
    StageClosed,
    TestMeasured,
    Updated,
)
from skillopt.events.records import EpochRecord, ReopenedRecord, StepRecord
from skillopt.events.state import Metric, State
from skillopt.gate.decision import value
from skillopt.gate.gate import STAGE
from skillopt.runs.proposals import edit_fact, study
from skillopt.runs.values import Cell, Change, Mark, Version
from skillopt.skill.diff import unified
from skillopt.skill.store import Skills
from skillopt.tasks.rollout import Score

LONGEST_DETAIL = 400
"""Error texts are cut here; the log holds them in full."""


class Fold:
    """Reads events in order; what a checkpoint closes becomes a change, what a reopened one takes back is
    gone.
    """

    def __init__(self, skills: Skills, weight: float = 0.5) -> None:
        """`weight` is that of the soft score where the gate reads a mixed one."""
        self.weight = weight
        self._skills = skills
        self.metric: Metric = "hard"
        self.started: RunStarted | None = None
        self.state: State | None = None
        """The state at the last checkpoint."""
        self.looks: list[TestMeasured] = []
        self.open: list[Event] = []
        """Decided facts since the last checkpoint."""
        self.taken_back = 0
        self._kept: list[tuple[Change | None, Version | None]] = []

    @property
    def changes(self) -> list[Change]:
        """Steps and slow updates that are closed, in order."""
        return [change for change, _ in self._kept if change is not None]

    @property
    def versions(self) -> list[Version]:
        """The seed and every candidate that was measured on val, in order."""
        return [version for _, version in self._kept if version is not None]

    @property
    def seed(self) -> Version | None:
        """The seed as the baseline measured it."""
        return self._kept[0][1] if self._kept else None

    @property
    def under_way(self) -> str:
        """The place whose stages closed without a checkpoint yet."""
        return next((str(event.place) for event in self.open if isinstance(event, StageClosed)), "")

    def take(self, event: Event) -> None:
        """Read the next event; live ones decide nothing and are passed over."""
        if isinstance(event, RunStarted):
            self.started = self.started or event
        elif isinstance(event, TestMeasured):
            self.looks.append(event)
        if not isinstance(event, Checkpoint):
            if event.id is not None:
                self.open.append(event)
            return
        self.metric = event.state.metric
        record = event.record
        if isinstance(record, ReopenedRecord):
            first = record.from_step
            before = len(self.changes)
            self._kept = [kept for kept in self._kept if kept[0] is None or kept[0].at < first]
            self.taken_back += before - len(self.changes)
        elif event.kind == "baseline":
            seed = self.rendered(event.state.seed)
            score = event.state.baseline_score
            version = self._version("seed", "the seed skill", "baseline", 0.0, seed, score)
            self._kept.append((None, version))
        elif isinstance(record, (StepRecord, EpochRecord)):
            change = (
                self._step(event.state, record)
                if isinstance(record, StepRecord)
                else self._epoch(event.state)
            )
            if change is not None:
                text = self._candidate(change.text)
                version = self._version(
                    change.short, change.name, change.action, change.at, text, change.candidate
                )
                self._kept.append((change, version))
        self.state = event.state
        self.open = []

    def _step(self, after: State, record: StepRecord) -> Change:
        judged = self._judged()
        rollouts = [
            row
            for one in self.open
            if isinstance(one, StageClosed) and one.stage == "rollout"
            for row in one.rows
        ]
        scored = [worth for row in rollouts if (worth := worth_of(row, self.metric, self.weight)) is not None]
        updated = next((one for one in self.open if isinstance(one, Updated)), None)
        patches = [patch for one in self.open if isinstance(one, Reflected) for patch in one.patches]
        return Change(
            name=f"step {record.step}",
            short=str(record.step),
            at=float(record.step),
            step=record.step,
            epoch=record.epoch,
            action=record.action,
            why=record.why,
            train=float(sum(scored, Fraction(0)) / len(scored)) if scored else None,
            train_rows=len(scored),
            limit=record.edit_budget,
            edits=[edit_fact(one, record) for one in (updated.outcomes if updated is not None else ())],
            studies=[study(patch) for patch in patches],
            notes=[note for patch in patches for note in patch.notes],
            tried=self._tried(updated, after),
            candidates=record.candidates,
            **self._verdict(judged, after),
        )

    def _epoch(self, after: State) -> Change | None:
        """The slow update of an epoch, where one was proposed."""
        ended = next((one for one in self.open if isinstance(one, EpochEnded)), None)
        if ended is None or ended.slow_update.why is None:
            return None
        told, step = ended.slow_update, after.step
        return Change(
            name=f"slow update of epoch {ended.epoch}",
            short=f"E{ended.epoch}",
            at=step + 0.5,
            step=step,
            epoch=ended.epoch,
            action=told.action,
            why=ended.slow_update.why,
            text=told.slow_update_content or "",
            **self._verdict(self._judged(), after),
        )

    def _tried(self, updated: Updated | None, after: State) -> str:
        """What a rewrite that was not taken would have changed: its proposals do not say that."""
        if updated is None or updated.rewrite is None:
            return ""
        before = self._before()
        if self.rendered(after.skill) != before:
            return ""
        return unified(before, self.rendered(updated.skill), "before", "candidate")

    def _before(self) -> str:
        assert self.state is not None, "a change comes after the baseline"
        return self.rendered(self.state.skill)

    def rendered(self, digest: str) -> str:
        """The text of a skill that the log names, as the target gets it."""
        return self._skills.get(digest).rendered

    def _judged(self) -> Judged | None:
        """The verdict that counts: that of the candidate which was accepted, else the first."""
        verdicts = [one for one in self.open if isinstance(one, Judged)]
        return next((one for one in verdicts if one.action == "accept"), verdicts[0] if verdicts else None)

    def _verdict(self, judged: Judged | None, after: State) -> dict[str, Any]:
        rows = [
            (one, row)
            for one in self.open
            if isinstance(one, StageClosed)
            for row in one.rows
            if row.invalid is not None
        ]
        lost = [(f"{row.task} ({one.stage})", str(row.invalid), cut(row.detail)) for one, row in rows]
        before, now = self._before(), self.rendered(after.skill)
        return {
            "candidate": None if judged is None else judged.candidate,
            "bound": None if judged is None else judged.bound,
            "incumbent": None if judged is None else judged.incumbent,
            "policy": "" if judged is None else judged.policy,
            "decided_by": "" if judged is None else judged.decided_by,
            "rows_used": 0 if judged is None else judged.rows_used,
            "rows_total": 0 if judged is None else judged.rows_total,
            "verified": judged is None or judged.verified,
            "score": after.score,
            "invalid": lost,
            "diff": unified(before, now, "before", "after") if before != now else "",
        }

    def _candidate(self, guidance: str) -> str:
        """The rendered text that the verdict was about; empty where the log does not hold it."""
        judged = self._judged()
        if judged is None:
            return ""
        updated = next(
            (one for one in self.open if isinstance(one, Updated) and one.place == judged.place), None
        )
        if updated is not None:
            return self.rendered(updated.skill)
        if not guidance or self.state is None:
            return ""
        return self._skills.get(self.state.skill).with_region("slow_update", guidance).rendered

    def _version(
        self, short: str, name: str, action: str, at: float, text: str, score: float | None
    ) -> Version | None:
        judged = self._judged()
        stages = [one for one in self.open if isinstance(one, StageClosed) and one.stage == STAGE]
        closed = next((one for one in stages if judged is None or one.place == judged.place), None)
        if closed is None:
            return None
        by_task: dict[str, list[RowFact]] = {}
        for row in closed.rows:
            by_task.setdefault(row.task, []).append(row)
        cells = {
            task: self._cell(rows[0]) if len(rows) == 1 else self._cell_of(rows)
            for task, rows in by_task.items()
        }
        return Version(short=short, name=name, action=action, cells=cells, at=at, text=text, score=score)

    def _cell(self, row: RowFact) -> Cell:
        """The common case of one draw, which a run has thousands of."""
        if row.invalid is not None or row.hard is None or row.soft is None or row.rollout is None:
            return self._cell_of([row])
        mark, note = _marked(row.hard, row.soft, self.metric, self.weight)
        return Cell(mark=mark, note=row.failure or note, rollouts=((row.rollout, row.attempt),))

    def _cell_of(self, rows: Sequence[RowFact]) -> Cell:
        keys = tuple((row.rollout, row.attempt) for row in rows if row.rollout is not None)
        lost = [row for row in rows if row.invalid is not None]
        if lost:
            return Cell(
                mark="invalid",
                note="; ".join(f"{row.invalid}: {cut(row.detail)}" for row in lost),
                rollouts=keys,
            )
        values = [worth_of(row, self.metric, self.weight) or Fraction(0) for row in rows]
        mark, note = _mark(sum(values, Fraction(0)) / len(values))
        failures = "; ".join(dict.fromkeys(row.failure for row in rows if row.failure))
        return Cell(mark=mark, note=failures or note, rollouts=keys)


def worth_of(row: RowFact, metric: Metric, weight: float) -> Fraction | None:
    """What a row is worth to the gate; None for a row that could not be measured."""
    return None if row.hard is None or row.soft is None else _worth(row.hard, row.soft, metric, weight)


@lru_cache(maxsize=4096)
def _worth(hard: float, soft: float, metric: Metric, weight: float) -> Fraction:
    return value(Score(hard=hard, soft=soft), metric, weight)


@lru_cache(maxsize=4096)
def _marked(hard: float, soft: float, metric: Metric, weight: float) -> tuple[Mark, str]:
    return _mark(_worth(hard, soft, metric, weight))


def _mark(mean: Fraction) -> tuple[Mark, str]:
    """How a task went by the mean of its draws, and what there is to say of it."""
    mark: Mark = "pass" if mean >= 1 else "fail" if mean <= 0 else "partial"
    return mark, f"{float(mean):.3f}" if mark == "partial" else ""


def cut(text: str) -> str:
    """An error text as long as a person may want to read."""
    return text if len(text) <= LONGEST_DETAIL else f"{text[:LONGEST_DETAIL]} ..."
