"""Measures a candidate against an incumbent, no further than the verdict needs, and says why."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from skillopt.errors import ProviderDown, RunConflict
from skillopt.evaluate.runner import MOST_LOST, Breaker, Evaluator, Row, stage_closed
from skillopt.events import Judged, StageOpened
from skillopt.gate.decision import POLICIES, Metric, RowId, Ruling, reading_order, value
from skillopt.tasks.rollout import Invalid, Rollout, Scored, means

Action = Literal["accept", "reject", "inconclusive", "unchanged"]
STAGE = "selection"
SMALLEST_VERIFIED = 5
"""Val tasks below which verdicts are marked unverified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A skill with all of its gate rows: what an incumbent is."""

    skill: str
    """Rendered text."""
    values: Mapping[RowId, Fraction]
    hard: float
    soft: float

    @property
    def total(self) -> Fraction:
        return sum(self.values.values(), Fraction(0))

    @property
    def score(self) -> float:
        return float(self.total / len(self.values)) if self.values else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the gate said, with everything needed to recompute it."""

    action: Action
    why: str
    incumbent: float | None
    candidate: Measured | None
    """Complete measurement; None for a candidate that was not fully measured."""
    bound: float | None
    rows: tuple[Rollout, ...]
    rows_total: int
    verified: bool


class Gate:
    """The one door through which the skill changes."""

    def __init__(
        self,
        evaluator: Evaluator,
        rows: Sequence[Row],
        *,
        metric: Metric | None,
        weight: float,
        is_on: bool = True,
        policy: str = "strict",
    ) -> None:
        self.evaluator = evaluator
        self.rows = {(row.task.id, row.draw): row for row in rows}
        self.metric: Metric = metric or "hard"
        self._is_settled = metric is not None
        self.weight = weight
        self.is_on = is_on
        self.policy = policy
        self.verified = self._is_verified()

    def leave_out(self, tasks: Sequence[str]) -> None:
        """Tasks that could not be measured at baseline take no part in any verdict of this run."""
        self.rows = {row: what for row, what in self.rows.items() if row[0] not in set(tasks)}
        self.verified = self._is_verified()

    def _is_verified(self) -> bool:
        return len({task for task, _ in self.rows}) >= SMALLEST_VERIFIED

    def measured(self, skill: str, outcomes: Sequence[Rollout]) -> Measured:
        """The gate's view of a complete set of rows; every one must be scored."""
        values = {(row.task_id, row.draw): value(row.score, self.metric, self.weight) for row in outcomes if isinstance(row, Scored)}
        mean = means(outcomes)
        return Measured(skill=skill, values=values, hard=mean.hard or 0.0, soft=mean.soft or 0.0)

    def remembered(self, skill: str) -> Measured:
        """An incumbent again, from stored rows alone; it was measured in full when it was accepted."""
        outcomes = [self.evaluator.stored(skill, row) for row in self.rows.values()]
        if any(outcome is None for outcome in outcomes):
            raise RunConflict(
                "The measured rows of the current skill are not in the run's database: it is not the one this log was written with. "
                "Put the right run.db back, or start a new run in another folder."
            )
        return self.measured(skill, [outcome for outcome in outcomes if outcome is not None])

    async def baseline(self, skill: str, place: str) -> tuple[Measured, tuple[Rollout, ...], list[str]]:
        """Measure the first skill in full. Tasks that cannot be measured leave the gate by name, at most a tenth of them.

        Where no metric was given, these rows settle it: partial credit without a pass mark is read as soft, everything else as hard.
        """
        evaluation = self.evaluator.start(skill, list(self.rows.values()), stage=STAGE, place=place)
        outcomes = await evaluation.close(check=_check_losses)
        lost = _lost(outcomes)
        self.leave_out(lost)
        if not self._is_settled and _gives_partial_credit(outcomes):
            self.metric = "soft"
        self.evaluator.emit(stage_closed(place, STAGE, outcomes))
        return self.measured(skill, [row for row in outcomes if row.task_id not in set(lost)]), outcomes, lost

    def without_measuring(self, action: Action, why: str, incumbent: float | None, place: str) -> Verdict:
        """A verdict that needs no rows: nothing changed, or there is no candidate to measure."""
        verdict = self._verdict(action, why, incumbent, None, (), None)
        self.evaluator.emit(self.event(place, verdict))
        return verdict

    async def judge(self, skill: str, incumbent: Measured, place: str) -> Verdict:
        """Decide on a candidate. Reads rows in order, up to `workers` ahead, and stops sending when the verdict is fixed."""
        order = reading_order(incumbent.values)
        breaker = Breaker(STAGE, len(order))
        self.evaluator.emit(StageOpened(place=place, stage=STAGE, total=len(order)))
        outcomes: list[Rollout] = []
        reader = POLICIES[self.policy]([incumbent.values[row] for row in order])
        ahead: deque[asyncio.Task[Rollout]] = deque()
        try:
            while reader.ruling is None or not self.is_on:
                while len(ahead) < self.evaluator.workers and len(outcomes) + len(ahead) < len(order):
                    row = self.rows[order[len(outcomes) + len(ahead)]]
                    ahead.append(asyncio.ensure_future(self._row(skill, row, place, breaker)))
                if not ahead:
                    break
                outcomes.append(await ahead.popleft())
                reader.read(self._value(outcomes[-1]))
            breaker.close(may_stay_open=True)
        finally:
            for task in ahead:
                task.cancel()  # withdraws what was not sent; what was sent arrives and is stored, in no record
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
        read = [self.rows[row] for row in order[: len(outcomes)]]
        self.evaluator.close_invalid(skill, f"{place}/{STAGE}", zip(read, outcomes, strict=True))
        return self._close(skill, incumbent, place, tuple(outcomes), reader.ruling)

    async def _row(self, skill: str, row: Row, place: str, breaker: Breaker) -> Rollout:
        outcome = await self.evaluator.measure(skill, row, stage=STAGE, place=place)
        if isinstance(outcome, Invalid):  # once more before it may leave the verdict open
            outcome = await self.evaluator.measure(skill, row, stage=STAGE, place=place, after=outcome.attempt)
        breaker.note(outcome)
        return outcome

    def _close(self, skill: str, incumbent: Measured, place: str, outcomes: tuple[Rollout, ...], ruling: Ruling | None) -> Verdict:
        total = len(incumbent.values)
        complete = len(outcomes) == total and not any(isinstance(outcome, Invalid) for outcome in outcomes)
        candidate = self.measured(skill, outcomes) if complete else None
        bound = None
        if ruling == "accept" and candidate is not None:
            why = f"{candidate.score:.4f} > {incumbent.score:.4f} on all {total} rows"
        elif ruling == "reject":
            missing = total - len(outcomes)
            upper = sum((1 if (v := self._value(one)) is None else v for one in outcomes), Fraction(missing))
            bound = float(upper / total)
            why = f"not better than {incumbent.score:.4f}: at most {bound:.4f} after {len(outcomes)} of {total} rows"
        else:
            lost = [f"{one.task_id} ({one.kind})" for one in outcomes if isinstance(one, Invalid)]
            why = f"{len(lost)} rows could not be measured and could decide: {', '.join(lost)}"
        self.evaluator.emit(stage_closed(place, STAGE, outcomes))
        verdict = self._verdict(ruling or "inconclusive", why, incumbent.score, candidate, outcomes, bound)
        self.evaluator.emit(self.event(place, verdict))
        return verdict

    def event(self, place: str, verdict: Verdict) -> Judged:
        """The verdict as the log tells it."""
        return Judged(
            id=f"{place}/verdict",
            place=place,
            action=verdict.action,
            metric=self.metric,
            incumbent=verdict.incumbent,
            candidate=None if verdict.candidate is None else verdict.candidate.score,
            bound=verdict.bound,
            rows_used=len(verdict.rows),
            rows_total=verdict.rows_total,
            verified=verdict.verified,
            why=verdict.why,
        )

    def _value(self, outcome: Rollout) -> Fraction | None:
        return value(outcome.score, self.metric, self.weight) if isinstance(outcome, Scored) else None

    def _verdict(
        self, action: Action, why: str, incumbent: float | None, candidate: Measured | None, rows: tuple[Rollout, ...], bound: float | None
    ) -> Verdict:
        return Verdict(
            action=action,
            why=why,
            incumbent=incumbent,
            candidate=candidate,
            bound=bound,
            rows=rows,
            rows_total=len(self.rows),
            verified=self.verified,
        )


def _gives_partial_credit(outcomes: Sequence[Rollout]) -> bool:
    scores = [row.score for row in outcomes if isinstance(row, Scored) and row.trajectory.failure is None]
    without_mark = all(score.hard == float(score.soft >= 1.0) for score in scores)
    return without_mark and any(0.0 < score.soft < 1.0 for score in scores)


def _lost(outcomes: Sequence[Rollout]) -> list[str]:
    return sorted({row.task_id for row in outcomes if isinstance(row, Invalid)})


def _check_losses(outcomes: Sequence[Rollout]) -> None:
    lost, tasks = _lost(outcomes), {row.task_id for row in outcomes}
    if Fraction(len(lost), len(tasks)) > MOST_LOST:
        causes = sorted({f"  {row.task_id}: {row.kind}: {row.detail}" for row in outcomes if isinstance(row, Invalid)})
        raise ProviderDown(
            f"{len(lost)} of {len(tasks)} val tasks could not be measured with the seed skill, more than a tenth:\n"
            + "\n".join(causes[:20])
            + "\nNo score was made of it. Remove the cause and run the same command again; replies cut at our cap need a larger "
            "env.max_completion_tokens, which makes it another run, in a folder of its own."
        )
