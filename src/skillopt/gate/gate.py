"""Measures a candidate against an incumbent, no further than the verdict needs, and says why."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice
from typing import Literal

from skillopt.errors import ProviderDown, RunConflict
from skillopt.evaluation.breaker import MOST_LOST, Breaker
from skillopt.evaluation.runner import Evaluator, Row, stage_closed
from skillopt.events import Judged, StageOpened
from skillopt.events.state import Metric
from skillopt.gate.constraints import Constraints, Effort, Ruled, effort_of
from skillopt.gate.decision import Case, Limits, Reader, RowId, value
from skillopt.gate.policies import POLICIES
from skillopt.gate.strict import Strict
from skillopt.place import Place
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
    """All its draws, also those that only a confirmation reads: its score is the mean of them all."""
    hard: float
    soft: float
    effort: Mapping[RowId, Effort] = field(default_factory=dict)
    """What each row took, where constraints want to know."""

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
    """Rows of the reading that decided: with `confirm`, the first draws or all."""
    verified: bool
    decided_by: str = ""
    """The part of the policy that fixed it; empty where nothing was measured."""
    skill: str = ""
    """Digest of the candidate's rendered text, where it came to measuring."""
    refused: bool = False
    """True for a candidate that may not be taken even where no gate decides."""


class Gate:
    """The one door through which the skill changes.

    `rows` is what an incumbent is measured on. With the policy `confirm` that is more than a candidate is
    read on at first: every task has further draws, which the seed gets with the baseline and a candidate when
    its first draws would be accepted. So every incumbent has the same draws, whenever a run was stopped.
    While the gate is off no policy decides; verdicts say what `strict` would have done.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        rows: Sequence[Row],
        *,
        metric: Metric | None,
        weight: float,
        is_on: bool = True,
        policy: str = "strict",
        alpha: float = 0.05,
        max_chars: int = 0,
        confirm_draws: int = 0,
        seed_chars: int = 0,
        constraints: Constraints | None = None,
    ) -> None:
        self.evaluator = evaluator
        self.constraints = constraints or Constraints()
        self.is_on = is_on
        self.policy = policy if is_on else "strict"
        self.limits = Limits(
            alpha=alpha, max_chars=max_chars, confirm_draws=confirm_draws, seed_chars=seed_chars
        )
        self._reader = POLICIES.get(policy) if is_on else Strict
        draws = 1 + max((row.draw for row in rows), default=0)
        self._further = self.limits.further_draws(draws) if self.policy == "confirm" else 0
        again = [
            replace(row, draw=draws + number)
            for row in rows
            if row.draw == 0
            for number in range(self._further)
        ]
        self.rows = {(row.task.id, row.draw): row for row in (*rows, *again)}
        self.metric: Metric = metric or "hard"
        self._is_settled = metric is not None
        self.weight = weight
        self.verified = self._is_verified()

    def leave_out(self, tasks: Sequence[str]) -> None:
        """Tasks that could not be measured at baseline take no part in any verdict of this run."""
        self.rows = {row: what for row, what in self.rows.items() if row[0] not in set(tasks)}
        self.verified = self._is_verified()

    def _is_verified(self) -> bool:
        return len({task for task, _ in self.rows}) >= SMALLEST_VERIFIED

    def measured(self, skill: str, outcomes: Sequence[Rollout]) -> Measured:
        """The gate's view of a complete set of rows; every one must be scored."""
        values = {
            (row.task_id, row.draw): value(row.score, self.metric, self.weight)
            for row in outcomes
            if isinstance(row, Scored)
        }
        mean = means(outcomes)
        effort = {(row.task_id, row.draw): effort_of(row) for row in outcomes if isinstance(row, Scored)}
        return Measured(
            skill=skill, values=values, hard=mean.hard or 0.0, soft=mean.soft or 0.0, effort=effort
        )

    def remembered(self, skill: str) -> Measured:
        """An incumbent again, from stored rows alone; it was measured in full when it was accepted."""
        outcomes = [self.evaluator.stored(skill, row) for row in self.rows.values()]
        if any(outcome is None for outcome in outcomes):
            raise RunConflict(
                "The measured rows of the current skill are not in the run's database: it is not the one this"
                " log was written with. Put the right run.db back, or start a new run in another folder."
            )
        return self.measured(skill, [outcome for outcome in outcomes if outcome is not None])

    async def baseline(self, skill: str, place: Place) -> tuple[Measured, tuple[Rollout, ...], list[str]]:
        """Measure the first skill in full. Tasks that cannot be measured leave the gate by name, at most a
        tenth of them.

        Where no metric was given, these rows settle it: partial credit without a pass mark is read as soft,
        everything else as hard.
        """
        evaluation = self.evaluator.start(skill, list(self.rows.values()), stage=STAGE, place=place)
        outcomes = await evaluation.close(check=_check_losses)
        lost = _lost(outcomes)
        self.leave_out(lost)
        if not self._is_settled and _gives_partial_credit(outcomes):
            self.metric = "soft"
        self.evaluator.emit(stage_closed(place, STAGE, outcomes))
        return self.measured(skill, [row for row in outcomes if row.task_id not in set(lost)]), outcomes, lost

    def refuse(self, why: str, incumbent: float | None, place: Place, by: str) -> Verdict:
        """A candidate that is not worth measuring and may not be taken, gate or no gate."""
        return self.without_measuring("reject", why, incumbent, place, refused_by=by)

    def without_measuring(
        self, action: Action, why: str, incumbent: float | None, place: Place, *, refused_by: str = ""
    ) -> Verdict:
        """A verdict that needs no rows: nothing changed, or there is no candidate to measure."""
        verdict = Verdict(
            action=action,
            why=why,
            incumbent=incumbent,
            candidate=None,
            bound=None,
            rows=(),
            rows_total=len(self.rows),
            verified=self.verified,
            decided_by=refused_by,
            refused=bool(refused_by),
        )
        self.evaluator.emit(self.event(place, verdict))
        return verdict

    def objection_to_all(self, incumbent: Measured) -> str:
        """Why no candidate, however good and short, could be accepted against that incumbent; empty where one
        could.
        """
        case = Case.of(incumbent.values, further=self._further, limits=self.limits)
        reader = self._reader(case)
        if reader.ruling is not None:
            return f"gate.policy {self.policy}: {reader.why}"
        return self.constraints.objection_to_all(incumbent.effort)

    async def judge(self, skill: str, incumbent: Measured, place: Place, *, in_full: bool = False) -> Verdict:
        """Decide on a candidate. Reads rows in order, up to `workers` ahead, and stops sending when the
        verdict is fixed.

        With `in_full`, and while the gate is off, every row is measured whatever the verdict.
        """
        case = Case.of(
            incumbent.values,
            further=self._further,
            limits=self.limits,
            chars=len(skill),
            incumbent_chars=len(incumbent.skill),
        )
        reader = self._reader(case)
        outcomes: list[Rollout] = []
        for reading in (case.rows[: case.first], case.rows[case.first :]):
            is_wanted = reader.ruling is None or in_full or not self.is_on
            if reading and is_wanted:
                await self._read(
                    skill, reading, place, reader, outcomes, to_the_end=in_full or not self.is_on
                )
        read = [self.rows[row] for row in case.rows[: len(outcomes)]]
        self.evaluator.close_invalid(skill, place.at(STAGE), zip(read, outcomes, strict=True))
        return self._close(skill, incumbent, place, tuple(outcomes), reader)

    async def _read(
        self,
        skill: str,
        reading: Sequence[RowId],
        place: Place,
        reader: Reader,
        outcomes: list[Rollout],
        *,
        to_the_end: bool,
    ) -> None:
        """Measure the rows of one reading until the ruling is fixed; they are added to
        `outcomes` in order.
        """
        breaker = Breaker(STAGE, len(reading))
        self.evaluator.emit(StageOpened(place=place, stage=STAGE, total=len(reading)))
        unsent = iter(reading)
        ahead: deque[asyncio.Task[Rollout]] = deque()
        try:
            while reader.ruling is None or to_the_end:
                for row in islice(unsent, self.evaluator.workers - len(ahead)):
                    ahead.append(asyncio.ensure_future(self._row(skill, self.rows[row], place, breaker)))
                if not ahead:
                    break
                outcomes.append(await ahead.popleft())
                reader.read(self._value(outcomes[-1]))
            breaker.close(may_stay_open=True)
        finally:
            for task in ahead:
                task.cancel()  # withdraws what was not sent; what was sent is stored, in no record
                task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _row(self, skill: str, row: Row, place: Place, breaker: Breaker) -> Rollout:
        outcome = await self.evaluator.measure(skill, row, stage=STAGE, place=place)
        if isinstance(outcome, Invalid):  # once more before it may leave the verdict open
            outcome = await self.evaluator.measure(
                skill, row, stage=STAGE, place=place, after=outcome.attempt
            )
        breaker.note(outcome)
        return outcome

    def _close(
        self, skill: str, incumbent: Measured, place: Place, outcomes: tuple[Rollout, ...], reader: Reader
    ) -> Verdict:
        lost = [f"{one.task_id} ({one.kind})" for one in outcomes if isinstance(one, Invalid)]
        complete = len(outcomes) == len(incumbent.values) and not lost
        candidate = self.measured(skill, outcomes) if complete else None
        ruled = Ruled(ruling=reader.ruling or "inconclusive", why=reader.why, by=reader.decided_by)
        if candidate is not None and self.is_on:  # while the gate is off no constraint decides either
            ruled = self.constraints.apply(ruled, incumbent.effort, candidate.effort)
        bound, why = None, ruled.why
        if ruled.ruling == "reject" and ruled.by != "length":
            bound = float(reader.upper / reader.total) if candidate is None else candidate.score
        elif ruled.ruling == "inconclusive":
            why = f"{ruled.why}: {', '.join(lost)}"
        self.evaluator.emit(stage_closed(place, STAGE, outcomes))
        verdict = Verdict(
            action=ruled.ruling,
            why=why,
            incumbent=incumbent.score,
            candidate=candidate,
            bound=bound,
            rows=outcomes,
            rows_total=max(reader.total, len(outcomes)),
            verified=self.verified,
            decided_by=ruled.by or "",
            skill=digest(skill),
        )
        self.evaluator.emit(self.event(place, verdict))
        return verdict

    def event(self, place: Place, verdict: Verdict) -> Judged:
        """The verdict as the log tells it."""
        return Judged(
            id=str(place.at("verdict")),
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
            policy=self.policy,
            decided_by=verdict.decided_by,
            skill=verdict.skill,
        )

    def _value(self, outcome: Rollout) -> Fraction | None:
        return value(outcome.score, self.metric, self.weight) if isinstance(outcome, Scored) else None


def digest(skill: str) -> str:
    """The name of a rendered text in the log."""
    return hashlib.sha256(skill.encode()).hexdigest()


def _gives_partial_credit(outcomes: Sequence[Rollout]) -> bool:
    scores = [row.score for row in outcomes if isinstance(row, Scored) and row.trajectory.failure is None]
    without_mark = all(score.hard == float(score.soft >= 1.0) for score in scores)
    return without_mark and any(0.0 < score.soft < 1.0 for score in scores)


def _lost(outcomes: Sequence[Rollout]) -> list[str]:
    return sorted({row.task_id for row in outcomes if isinstance(row, Invalid)})


def _check_losses(outcomes: Sequence[Rollout]) -> None:
    lost, tasks = _lost(outcomes), {row.task_id for row in outcomes}
    if Fraction(len(lost), len(tasks)) > MOST_LOST:
        causes = sorted(
            {f"  {row.task_id}: {row.kind}: {row.detail}" for row in outcomes if isinstance(row, Invalid)}
        )
        raise ProviderDown(
            f"{len(lost)} of {len(tasks)} val tasks could not be measured with the seed skill, more than a"
            " tenth:\n"
            + "\n".join(causes[:20])
            + "\nNo score was made of it. Remove the cause and run the same command again; replies cut at our"
            " cap need a larger env.max_completion_tokens, which makes it another run, in a folder of its"
            " own."
        )
