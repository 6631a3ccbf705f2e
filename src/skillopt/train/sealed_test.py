"""The sealed test: when it may be measured, what is set aside to pay for it, and its cross-fitted form."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skillopt.evaluation.runner import Evaluator, PlannedRow
from skillopt.evaluation.stage import Evaluation, logged_row
from skillopt.events import Notice, Row, Sink, TestMeasured
from skillopt.events.state import TestShare
from skillopt.events.step import Step
from skillopt.gate.gate import STAGE, Gate
from skillopt.harnesses import reservation
from skillopt.messages import Usage
from skillopt.money import MARGIN, TEST_STAGE, Amount, Budget, Ledger, Price, cost
from skillopt.process.waiting import together
from skillopt.skill.document import Document
from skillopt.tasks.rollout import Rollout, Scored
from skillopt.train.claim import TestReport, report_of

CLOSED = (
    "no better skill was found, so the sealed test stays closed ('skillopt eval RUN --split test' opens it)"
)


class SealedTest:
    """Measures seed, best and, with the gate off, the last skill on test: at the end or in idle slots."""

    def __init__(
        self,
        evaluator: Evaluator,
        rows: Sequence[PlannedRow],
        ledger: Ledger,
        gate: Gate,
        *,
        price: Price | None,
        max_tokens: int,
        least_cap: int,
        skills: int = 2,
        allowance: Budget | None = None,
        always: bool = False,
    ) -> None:
        """What is compared is the number that `gate` decides on.

        `least_cap` is the output that a call sets aside where a budget leaves no more. `skills` is how many
        are tested. A rollout that is paid as a whole, inside an agent, may use its `allowance`. With `always`
        the test is opened also where no skill but the seed would be tested.
        """
        self.rows = tuple(rows)
        self._evaluator = evaluator
        self._ledger = ledger
        self._gate = gate
        self._price, self._allowance = price, allowance
        self._max_tokens, self._least_cap = max_tokens, least_cap
        self._always = always
        self._planned = skills * len(self.rows)
        self._early: Evaluation | None = None
        self._early_step: Step | None = None
        self._has_given_way = False
        self.refused = "" if self.rows else "there is no test split, or eval_test is off"
        """Why there will be no test; empty where there will."""
        self.is_too_dear = False
        self._needed: tuple[Amount, float] = (Amount(), 0.0)
        """What a test that is too dear would take: money and seconds."""

    def estimate(self, baseline: Sequence[Rollout]) -> TestShare | None:
        """What the tests will need, by the baseline's rows."""
        return self._share(baseline, self._planned) if self.rows else None

    def estimate_gate(self, baseline: Sequence[Rollout]) -> TestShare | None:
        """What one more reading of the whole of val will need, by the baseline's rows."""
        return self._share(baseline, len(baseline))

    def _share(self, baseline: Sequence[Rollout], planned_rows: int) -> TestShare | None:
        """So many rows at the baseline's mean cost, 30 % on top, plus one reservation.

        Where the provider reports no usage, what the baseline was charged stands in for it.
        """
        used = [row.trajectory for row in baseline if isinstance(row, Scored)]
        if not used:
            return None
        known = [trajectory.usage for trajectory in used if trajectory.usage is not None] or [
            self._charged(len(used))
        ]
        calls = Fraction(sum(trajectory.calls for trajectory in used), len(used))
        tokens = Fraction(sum(usage.total for usage in known), len(known))
        mean = self._dollars(known, len(used))
        # Draws with equal answers are judged once, so judging is counted per answer and not per row.
        judged = self._judged(
            planned_rows,
            len({(row.task_id, row.trajectory.answer) for row in baseline if isinstance(row, Scored)}),
        )
        planned = Amount(
            calls=math.ceil(planned_rows * calls * MARGIN),
            tokens=math.ceil(planned_rows * tokens * MARGIN),
            usd=None if mean is None else planned_rows * mean * MARGIN,
        )
        whole = planned + self._full(known, max(trajectory.calls for trajectory in used), mean) + judged
        return TestShare(
            calls=whole.calls,
            tokens=whole.tokens,
            usd=None if whole.usd is None else str(whole.usd),
            seconds=round(float(self._ledger.elapsed() / len(baseline) * planned_rows * MARGIN), 3),
        )

    def _full(self, known: Sequence[Usage], calls: int, mean: Fraction | None) -> Amount:
        """One reservation: of a call with the longest answer so far, or of a rollout paid as a whole."""
        if self._allowance is not None:
            most = max(known, key=lambda one: one.total)
            usd = mean if self._price is None else cost(most, self._price)
            return reservation(
                self._allowance,
                Amount(calls=calls, tokens=most.total, usd=usd),
                self._price,
            )
        longest = math.ceil(MARGIN * max(usage.output_tokens for usage in known))
        worst = Usage(
            input_tokens=math.ceil(MARGIN * max(usage.input_tokens for usage in known)),
            output_tokens=min(self._max_tokens, max(self._least_cap, longest)),
        )
        return Amount(
            calls=1,
            tokens=worst.total,
            usd=None if self._price is None else cost(worst, self._price),
        )

    def _dollars(self, known: Sequence[Usage], rollouts: int) -> Fraction | None:
        """What a rollout of the baseline cost on average; None where no price and no agent's figure tells."""
        if self._price is not None:
            return sum((cost(usage, self._price) for usage in known), Fraction(0)) / len(known)
        if self._allowance is None:
            return None
        paid = self._ledger.account.total(STAGE, "target").usd
        return paid / rollouts if paid else self._allowance.usd

    def _judged(self, rows: int, answers: int) -> Amount:
        """What judging so many rows will cost, by what it did for the baseline; nothing without a judge."""
        return self._ledger.account.total(STAGE, "judge").amount.times(Fraction(rows, answers) * MARGIN)

    def _charged(self, rollouts: int) -> Usage:
        paid = self._ledger.account.total(STAGE, "target")
        mean = math.ceil(Fraction(paid.tokens, rollouts))
        return Usage(
            input_tokens=max(0, mean - self._max_tokens),
            output_tokens=min(mean, self._max_tokens),
        )

    def provide(self, share: TestShare | None, seed: Document) -> None:
        """Reserve the test's share of the budget, or refuse the test before training if it would take more
        than half.

        Rows of the seed that are measured already need no share.
        """
        if not self.rows or share is None or not self._ledger.budget.is_limited or self._has_given_way:
            return
        amount, seconds = _amount(share), share.seconds
        in_time = self._ledger.budget.seconds is None or 2 * seconds <= self._ledger.budget.seconds
        if self._ledger.budget.holds(amount + amount) and in_time:
            text = seed.rendered
            measured = sum(self._evaluator.stored(text, row) is not None for row in self.rows)
            left = Fraction(self._planned - measured, self._planned)
            self._ledger.set_aside_for_test(amount.times(left), seconds * float(left))
            return
        dollars = "" if amount.usd is None else f", ${float(2 * amount.usd):.2f}"
        self.refused = (
            f"the test would take more than half of the budget ({self._ledger.budget.describe()}); it needs a"
            f" budget of {2 * amount.calls:,} calls, {2 * amount.tokens:,} tokens{dollars},"
            f" {2 * seconds / 60:.4g} minutes"
        )
        self.is_too_dear, self._needed = True, (amount, seconds)

    def gives_way(self, emit: Sink) -> bool:
        """Leave the share of a test that would stay closed to training; False where there is none."""
        if self._always or self._has_given_way or self.refused or not self._ledger.budget.is_limited:
            return False
        self._has_given_way = True
        self._ledger.set_aside_for_test(Amount())
        emit(Notice(text="Nothing better was found yet: what was set aside for the test goes into training."))
        return True

    def provide_gate(self, share: TestShare | None) -> None:
        """Reserve a last gate's share of the budget where that is at most a quarter of it; no minutes."""
        if share is not None and self._ledger.budget.holds(_amount(share).times(Fraction(4))):
            self._ledger.set_aside_for_gate(_amount(share))

    def start_early(self, step: Step, *, is_found: bool) -> None:
        """The seed's test fills idle slots; nobody sees a row of it before the end. It waits until a better
        skill is found, unless it is opened without.
        """
        self._early_step = step
        if not self.refused and self._early is None and (is_found or self._always):
            self._early = self._run(step, step.skill, background=True)

    def expect(self) -> None:
        """Train tasks have proven an edit, which mostly passes: without a budget the seed's test begins."""
        if self._early_step is not None and not self._ledger.budget.is_limited:
            self.start_early(self._early_step, is_found=True)

    async def measure(self, step: Step, skills: Mapping[str, Document], *, look: int) -> TestReport:
        """Open the seal: all skills side by side on all test rows. `look` says how often it was opened.

        Where training found nothing it stays closed. A test that was too dear is opened all the same where
        training found something and left enough.
        """
        await self.withdraw()
        is_found = len({skill.rendered for skill in skills.values()}) > 1
        if self.is_too_dear and is_found and self._ledger.leaves(*self._needed):
            self.refused, self.is_too_dear = "", False
        if not (self.refused or is_found or self._always):
            return TestReport(measured=False, why=CLOSED)
        if self.refused:
            return TestReport(measured=False, why=self.refused)
        self._ledger.open_for_test()
        name_of: dict[str, str] = {}
        for name, skill in skills.items():
            name_of.setdefault(skill.rendered, name)  # equal skills are measured once
        running = [self._run(step.at(step.place.part(name=name)), skills[name]) for name in name_of.values()]
        results = dict(
            zip(name_of, await together(*(evaluation.close() for evaluation in running)), strict=True)
        )
        outcomes = {name: results[skill.rendered] for name, skill in skills.items()}
        measured = TestMeasured(
            id=str(step.place),
            look=look,
            kinds={row.task.id: row.task.kind for row in self.rows if row.task.kind},
            skills={name: skill.digest for name, skill in skills.items()},
            rows={name: [logged_row(row) for row in rows] for name, rows in outcomes.items()},
        )
        step.emit(measured)
        return report_of(measured, self._gate.metric, self._gate.weight)

    def _run(self, step: Step, skill: Document, *, background: bool = False) -> Evaluation:
        return Evaluation(
            self._evaluator,
            step,
            skill.rendered,
            self.rows,
            stage=TEST_STAGE,
            background=background,
            tells_rows=False,
        )

    async def withdraw(self) -> None:
        """End the early work: what was sent arrives and is kept, the rest is asked for later."""
        if self._early is not None:
            early, self._early = self._early, None
            early.cancel()
            await early.settle()


def _amount(share: TestShare) -> Amount:
    usd = None if share.usd is None else Fraction(share.usd)
    return Amount(calls=share.calls, tokens=share.tokens, usd=usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledRows:
    """The rows of all folds: the seed, and each fold's own skill, on the tasks that it never saw."""

    folds: int
    draws: int
    """How often each task was asked; a row is the middle one of a task's draws."""
    seed: list[Row]
    best: list[Row]
    kinds: Mapping[str, str]


class PooledTest(SealedTest):
    """Trains the folds when the seal would be opened, and pools what their own sealed tests showed."""

    def __init__(self, folds: Callable[[], Awaitable[PooledRows]], *sealed: Any, **cost: Any) -> None:
        """`folds` trains and tests them; all else is that of a sealed test, which has no rows of its own."""
        super().__init__(*sealed, **cost)
        self.refused = ""
        self._folds = folds

    def start_early(self, step: Step, *, is_found: bool) -> None:
        """Nothing: the folds measure the seed."""

    async def measure(self, step: Step, skills: Mapping[str, Document], *, look: int) -> TestReport:
        """Train and test the folds, and compare seed and trained skills over all tasks."""
        self._ledger.open_for_test()
        pooled = await self._folds()
        measured = TestMeasured(
            id=str(step.place),
            look=look,
            folds=pooled.folds,
            draws=pooled.draws,
            kinds=dict(pooled.kinds),
            skills={name: skills[name].digest for name in ("seed", "best")},
            rows={"seed": pooled.seed, "best": pooled.best},
        )
        step.emit(measured)
        return report_of(measured, self._gate.metric, self._gate.weight)
