"""Measures a candidate against an incumbent, no further than the verdict needs, and says why."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Literal

from skillopt.config.schema import EvaluationConfig, GateConfig
from skillopt.errors import ProviderDown, RunConflict
from skillopt.evaluation.first_answers import check_answers
from skillopt.evaluation.runner import Evaluator, PlannedRow
from skillopt.evaluation.stage import Evaluation, broken_code, too_many_lost
from skillopt.events import Answered, Judged, Notice
from skillopt.events.state import Metric
from skillopt.events.step import Step
from skillopt.gate.constraints import Constraints, Effort, GateRuling, effort_of, too_long
from skillopt.gate.decision import Case, PolicyReader, RowId, value
from skillopt.gate.policies import POLICIES
from skillopt.money import GATE_STAGE
from skillopt.tasks.rollout import Invalid, Rollout, Scored, means
from skillopt.tasks.scorers import as_text
from skillopt.tasks.task import Task

Action = Literal["accept", "reject", "inconclusive", "unchanged"]
STAGE, RULE = GATE_STAGE, "rule"
FIRST_ANSWERS = 3
"""Answers to the baseline that are logged as they come."""
_LOGGED_FIELDS = (
    *("action", "why", "incumbent", "bound", "rows_total"),
    *("verified", "decided_by", "skill", "over"),
)
"""What the log says of a verdict under the same name."""
SMALLEST_VERIFIED = 5
"""Val tasks below which verdicts are marked unverified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillMeasurement:
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
    """The gate's decision, with everything needed to recompute it."""

    action: Action
    why: str
    incumbent: float | None
    candidate: SkillMeasurement | None = None
    """Complete measurement; None for a candidate that was not fully measured."""
    bound: float | None = None
    rows: tuple[Rollout, ...] = ()
    rows_total: int
    """Rows of the reading that decided: with `confirm`, the first draws or all."""
    verified: bool
    decided_by: str = ""
    """The part of the policy that fixed it; empty where nothing was measured."""
    skill: str = ""
    """Digest of the candidate's rendered text, where it came to measuring."""
    policy: str = ""
    """The one that decided, where it came to measuring."""
    over: str = ""
    """Digest of the accepted candidate of the same step that it was measured against, if it was."""
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
        rows: Sequence[PlannedRow],
        settings: GateConfig | None = None,
        evaluation: EvaluationConfig | None = None,
        *,
        seed_chars: int = 0,
        targets: int = 1,
        rule: Callable[[str], str] | None = None,
    ) -> None:
        """`seed_chars` is the length of the seed's rendered text, and `rule` says why a text may be no
        candidate at all, or nothing.
        """
        self.evaluator = evaluator
        self._settings = settings or GateConfig()
        self._evaluation = evaluation or EvaluationConfig()
        self._seed_chars = seed_chars
        self._rule = rule
        self._constraints = Constraints.of(self._settings, targets) if self.is_on else Constraints()
        self.policy = self._settings.policy if self.is_on else "strict"
        self._reader = POLICIES.get(self.policy)
        draws = 1 + max((row.draw for row in rows), default=0)
        self._further = (self._settings.confirm_draws or draws) if self.policy == "confirm" else 0
        again = [replace(row, draw=draws + n) for row in rows if row.draw == 0 for n in range(self._further)]
        self.rows = {(row.task.id, row.draw): row for row in (*rows, *again)}
        self.metric: Metric = self._evaluation.gate_metric or "hard"
        self.verified = self._is_verified()

    @property
    def is_on(self) -> bool:
        """Whether it decides; else every candidate is taken and only measured."""
        return self._evaluation.use_gate

    @property
    def weight(self) -> float:
        """Of the soft score in a mixed one."""
        return self._evaluation.gate_mixed_weight

    def leave_out(self, tasks: Sequence[str]) -> None:
        """Tasks that could not be measured at baseline take no part in any verdict of this run."""
        self.rows = {row: what for row, what in self.rows.items() if row[0] not in set(tasks)}
        self.verified = self._is_verified()

    def _is_verified(self) -> bool:
        return len({task for task, _ in self.rows}) >= SMALLEST_VERIFIED

    def worths(self, outcomes: Sequence[Rollout]) -> dict[RowId, Fraction]:
        """What the metric says of the rows that could be measured."""
        return {
            (row.task_id, row.draw): value(row.score, self.metric, self.weight)
            for row in outcomes
            if isinstance(row, Scored)
        }

    def measured(self, skill: str, outcomes: Sequence[Rollout]) -> SkillMeasurement:
        """The gate's view of a complete set of rows; every one must be scored."""
        values = self.worths(outcomes)
        mean = means(outcomes)
        effort = {(row.task_id, row.draw): effort_of(row) for row in outcomes if isinstance(row, Scored)}
        return SkillMeasurement(
            skill=skill, values=values, hard=mean.hard or 0.0, soft=mean.soft or 0.0, effort=effort
        )

    def remembered(self, skill: str) -> SkillMeasurement:
        """An incumbent again, from stored rows alone; it was measured in full when it was accepted."""
        outcomes = [self.evaluator.stored(skill, row) for row in self.rows.values()]
        if any(outcome is None for outcome in outcomes):
            raise RunConflict(
                "The measured rows of the current skill are not in the run's database: it is not the one this"
                " log was written with. Put the right run.db back, or start a new run in another folder."
            )
        return self.measured(skill, [outcome for outcome in outcomes if outcome is not None])

    async def baseline(
        self, step: Step, *, is_start: bool = True
    ) -> tuple[SkillMeasurement, tuple[Rollout, ...], list[str]]:
        """Measure the first skill in full. Tasks that cannot be measured leave the gate by name, at most a
        tenth of them. Of the skill that training starts from the answers are checked too.

        Without a given metric these rows settle it: partial credit without a pass mark is soft, else hard.
        """
        skill = step.skill.rendered
        rows = list(self.rows.values())
        evaluation = Evaluation(self.evaluator, step, skill, rows, stage=STAGE)
        for index in [at for at, row in enumerate(rows) if row.draw == 0][:FIRST_ANSWERS]:
            evaluation.arriving(index).add_done_callback(partial(_emit_answer, step, rows[index].task))
        outcomes = await evaluation.close(check=_check_losses)
        if is_start and self._evaluation.check_baseline:
            answered = [(self.rows[row.task_id, row.draw].task, row) for row in outcomes]
            if warning := check_answers(answered):
                step.emit(Notice(text=warning, level="warning"))
        lost = _lost(outcomes)
        self.leave_out(lost)
        if self._evaluation.gate_metric is None and _gives_partial_credit(outcomes):
            self.metric = "soft"
        return self.measured(skill, [row for row in outcomes if row.task_id not in set(lost)]), outcomes, lost

    def refuse(self, step: Step, why: str, incumbent: float | None, by: str) -> Verdict:
        """A candidate that is not worth measuring and may not be taken, gate or no gate."""
        return self.without_measuring(step, "reject", why, incumbent, refused_by=by)

    def without_measuring(
        self, step: Step, action: Action, why: str, incumbent: float | None, *, refused_by: str = ""
    ) -> Verdict:
        """A verdict that needs no rows: nothing changed, or there is no candidate to measure."""
        verdict = Verdict(
            action=action,
            why=why,
            incumbent=incumbent,
            rows_total=len(self.rows),
            verified=self.verified,
            decided_by=refused_by,
            refused=bool(refused_by),
        )
        return self._logged(step, verdict)

    def objection_to_all(self, incumbent: SkillMeasurement) -> str:
        """Why no candidate, however good and short, could be accepted against that incumbent; or nothing."""
        case = Case.of(
            incumbent.values, further=self._further, settings=self._settings, seed_chars=self._seed_chars
        )
        reader = self._reader(case)
        if reader.ruling is not None:
            return f"gate.policy {self.policy}: {reader.why}"
        return self._constraints.objection_to_all(incumbent.effort)

    async def judge(
        self,
        step: Step,
        skill: str,
        incumbent: SkillMeasurement,
        *,
        in_full: bool = False,
        over: bool = False,
        policy: str = "",
    ) -> Verdict:
        """Decide on a candidate. Reads rows in order, up to `workers` ahead, and stops sending when the
        verdict is fixed.

        With `in_full`, and while the gate is off, every row is measured whatever the verdict. With `over` the
        incumbent is a candidate that this step accepted. `policy` is another than its own.
        """
        if self._rule is not None and (broken := self._rule(skill)):
            return self.refuse(step, f"refused before measuring: {broken}", incumbent.score, by=RULE)
        policy = policy or self.policy
        case = Case.of(
            incumbent.values,
            further=self._further if policy == "confirm" else 0,
            settings=self._settings,
            seed_chars=self._seed_chars,
            chars=len(skill),
            incumbent_chars=len(incumbent.skill),
        )
        reader: PolicyReader = POLICIES.get(policy)(case)
        to_the_end = in_full or not self.is_on
        rows = [self.rows[row] for row in case.rows]
        stage = Evaluation(
            self.evaluator,
            step,
            skill,
            rows[: case.first] if reader.ruling is None or to_the_end else (),
            stage=STAGE,
            ahead=self.evaluator.workers,
            tries=2,  # a row is asked once more before it may leave the verdict open
        )
        try:
            fits = await self._read(stage, reader, case, to_the_end)
            if fits and case.first < len(rows) and (reader.ruling is None or to_the_end):
                stage.extend(rows[case.first :])
                await self._read(stage, reader, case, to_the_end)
            outcomes = stage.conclude()
        finally:
            stage.cancel()
        return self._conclude(step, skill, incumbent, outcomes, reader, policy=policy, over=over)

    async def _read(self, stage: Evaluation, reader: PolicyReader, case: Case, to_the_end: bool) -> bool:
        """Read until the ruling is fixed; False where a row shows a candidate that the target cannot take."""
        while reader.ruling is None or to_the_end:
            outcome = await stage.next()
            if outcome is None:
                break
            if isinstance(outcome, Invalid) and outcome.kind == "too_long":
                return False
            worth = None
            if isinstance(outcome, Scored):
                worth = value(outcome.score, self.metric, self.weight)
            reader.read(case.counted((outcome.task_id, outcome.draw), worth))
        return True

    def _conclude(
        self,
        step: Step,
        skill: str,
        incumbent: SkillMeasurement,
        outcomes: tuple[Rollout, ...],
        reader: PolicyReader,
        *,
        policy: str,
        over: bool,
    ) -> Verdict:
        lost = [f"{outcome.task_id} ({outcome.kind})" for outcome in outcomes if isinstance(outcome, Invalid)]
        complete = len(outcomes) == len(incumbent.values) and not lost
        candidate = self.measured(skill, outcomes) if complete else None
        ruled = GateRuling(ruling=reader.ruling or "inconclusive", why=reader.why, by=reader.decided_by)
        unfit = [
            outcome for outcome in outcomes if isinstance(outcome, Invalid) and outcome.kind == "too_long"
        ]
        if unfit:
            ruled = too_long(unfit[0].task_id, unfit[0].detail)
        if candidate is not None:
            ruled = self._constraints.apply(ruled, incumbent.effort, candidate.effort)
            ruled = self._constraints.none_worse(ruled, incumbent.values, candidate.values)
        bound, why = None, ruled.why
        if ruled.ruling == "reject" and ruled.by not in ("length", "window"):
            bound = float(reader.upper / reader.total) if candidate is None else candidate.score
        elif ruled.ruling == "inconclusive":
            why = f"{ruled.why}: {', '.join(lost)}"
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
            policy=policy,
            over=digest(incumbent.skill) if over else "",
            refused=bool(unfit),
        )
        return self._logged(step, verdict)

    def _logged(self, step: Step, verdict: Verdict) -> Verdict:
        """The verdict, after it was logged."""
        event = Judged(
            id=str(step.place.at("verdict")),
            place=step.place,
            metric=self.metric,
            candidate=None if verdict.candidate is None else verdict.candidate.score,
            rows_used=len(verdict.rows),
            policy=verdict.policy or self.policy,
            **{name: getattr(verdict, name) for name in _LOGGED_FIELDS},
        )
        step.emit(event)
        return verdict


def digest(skill: str) -> str:
    """The name of a rendered text in the log."""
    return hashlib.sha256(skill.encode()).hexdigest()


def _emit_answer(step: Step, task: Task, arrived: asyncio.Future[Rollout]) -> None:
    """Log how a task was answered, if it was."""
    row = None if arrived.cancelled() or arrived.exception() is not None else arrived.result()
    if isinstance(row, Scored):
        trajectory = row.trajectory
        step.emit(
            Answered(
                task=task.id,
                prompt=task.prompt,
                answer=trajectory.answer or f"(none: {trajectory.failure or 'empty'})",
                expected="" if task.reference is None else as_text(task.reference),
                hard=row.score.hard,
                feedback=row.score.feedback,
            )
        )


def _gives_partial_credit(outcomes: Sequence[Rollout]) -> bool:
    scores = [row.score for row in outcomes if isinstance(row, Scored) and row.trajectory.failure is None]
    without_mark = all(score.hard == float(score.soft >= 1.0) for score in scores)
    return without_mark and any(0.0 < score.soft < 1.0 for score in scores)


def _lost(outcomes: Sequence[Rollout]) -> list[str]:
    return sorted({row.task_id for row in outcomes if isinstance(row, Invalid)})


def _check_losses(outcomes: Sequence[Rollout]) -> None:
    lost, tasks = _lost(outcomes), {row.task_id for row in outcomes}
    if too_many_lost(lost, tasks):
        invalid = [row for row in outcomes if isinstance(row, Invalid)]
        if own := broken_code(invalid, f"{len(outcomes)} val rows with the seed skill"):
            raise own
        causes = sorted({f"  {row.task_id}: {row.kind}: {row.detail}" for row in invalid})
        raise ProviderDown(
            f"{len(lost)} of {len(tasks)} val tasks could not be measured with the seed skill, more than a"
            " tenth:\n"
            + "\n".join(causes[:20])
            + "\nNo score was made of it. Remove the cause and run the same command again; replies cut at our"
            " cap need a larger env.max_completion_tokens, which makes it another run, in a folder of its"
            " own."
        )
