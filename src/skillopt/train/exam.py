"""The sealed test: when it may be measured, what is set aside to pay for it, and the one claim it supports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from skillopt.evaluate.compare import Comparison, compare
from skillopt.evaluate.runner import Evaluation, Evaluator, Row, fact
from skillopt.events import Notice, TestMeasured
from skillopt.ledger import TEST_STAGE, Amount, Ledger
from skillopt.messages import Usage
from skillopt.models._prices import Price, cost
from skillopt.skill.document import Document
from skillopt.tasks.rollout import Invalid, Rollout, Scored
from skillopt.together import together

MARGIN = Fraction(13, 10)
LARGEST_LOSS = Fraction(1, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the test showed, or why it shows nothing."""

    measured: bool
    why: str = ""
    look: int = 0
    comparison: Comparison | None = None
    scores: Mapping[str, Mapping[str, float]] | None = None
    """Per skill (seed, best, final): hard and soft mean over all scored rows."""
    left_out: tuple[str, ...] = ()


class Exam:
    """Measures seed and best (and the last skill where it differs) on the test split, at the end or in idle slots."""

    def __init__(self, evaluator: Evaluator, rows: Sequence[Row], ledger: Ledger, *, price: Price | None, max_tokens: int) -> None:
        self.rows = tuple(rows)
        self._evaluator = evaluator
        self._ledger = ledger
        self._price = price
        self._max_tokens = max_tokens
        self._early: Evaluation | None = None
        self.refused = "" if self.rows else "there is no test split, or eval_test is off"

    def estimate(self, baseline: Sequence[Rollout]) -> dict[str, Any]:
        """What both tests will need: twice the rows at the baseline's mean cost, 30 % on top, plus one full reservation."""
        used = [row.trajectory for row in baseline if isinstance(row, Scored)]
        known = [one.usage for one in used if one.usage is not None]
        if not self.rows or not used or not known:
            return {}
        planned = 2 * len(self.rows)
        mean_in = Fraction(sum(one.input_tokens for one in known), len(known))
        mean_out = Fraction(sum(one.output_tokens for one in known), len(known))
        worst = Usage(input_tokens=math.ceil(MARGIN * max(one.input_tokens for one in known)), output_tokens=self._max_tokens)
        calls = Fraction(sum(one.calls for one in used), len(used))
        tokens = math.ceil(planned * (mean_in + mean_out) * MARGIN) + worst.total
        usd = None
        if self._price is not None:
            total = sum((cost(one, self._price) for one in known), Fraction(0))
            usd = planned * total / len(known) * MARGIN + cost(worst, self._price)
        return {"calls": math.ceil(planned * calls * MARGIN) + 1, "tokens": tokens, "usd": None if usd is None else str(usd)}

    def provide(self, set_aside: Mapping[str, Any]) -> None:
        """Reserve the test's share of the budget, or refuse the test before training if it would take more than half."""
        if not self.rows or not set_aside or not self._ledger.budget.is_limited:
            return
        usd = set_aside["usd"]
        amount = Amount(calls=set_aside["calls"], tokens=set_aside["tokens"], usd=None if usd is None else Fraction(usd))
        if self._ledger.budget.holds(amount + amount):
            self._ledger.set_aside_for_test(amount)
            return
        dollars = "" if amount.usd is None else f", ${float(2 * amount.usd):.2f}"
        self.refused = (
            f"the test would take more than half of the budget ({self._ledger.budget.describe()}); "
            f"it needs a budget of {2 * amount.calls:,} calls, {2 * amount.tokens:,} tokens{dollars}"
        )
        self._evaluator.emit(Notice(text=f"Test will not be measured: {self.refused}.", level="warning"))

    def start_early(self, seed: Document) -> None:
        """The seed's test fills idle slots; nobody sees a row of it before the end."""
        if not self.refused and self._early is None:
            self._early = self._evaluator.start(seed.rendered, self.rows, stage=TEST_STAGE, place="test/seed", background=True)

    async def measure(self, skills: Mapping[str, Document], position: str, *, look: int) -> Report:
        """Open the seal: all skills side by side on all test rows. `position` says where in the run, `look` how often it was opened."""
        if self.refused:
            return Report(measured=False, why=self.refused)
        await self.withdraw()
        self._ledger.open_for_test()
        texts = {name: skill.rendered for name, skill in skills.items()}
        running = {
            text: self._evaluator.start(text, self.rows, stage=TEST_STAGE, place=f"{position}/{name}") for name, text in texts.items()
        }
        results = dict(zip(running, await together(*(one.close() for one in running.values())), strict=True))
        outcomes = {name: results[text] for name, text in texts.items()}
        self._evaluator.emit(
            TestMeasured(
                id=position,
                look=look,
                skills={name: skill.digest for name, skill in skills.items()},
                rows={name: [fact(row) for row in rows] for name, rows in outcomes.items()},
            )
        )
        return self._report(outcomes, look)

    async def withdraw(self) -> None:
        """End the early work: what was sent arrives and is kept, the rest is asked for later."""
        if self._early is not None:
            early, self._early = self._early, None
            early.cancel()
            await early.settle()

    def _report(self, outcomes: Mapping[str, Sequence[Rollout]], look: int) -> Report:
        lost = sorted({row.task_id for rows in (outcomes["seed"], outcomes["best"]) for row in rows if isinstance(row, Invalid)})
        scores = {name: _means(rows) for name, rows in outcomes.items()}
        if Fraction(len(lost), len(self.rows)) > LARGEST_LOSS:
            why = f"{len(lost)} of {len(self.rows)} test tasks could not be measured: {', '.join(lost)}"
            return Report(measured=False, why=why, look=look, left_out=tuple(lost))
        values = {name: {row.task_id: row.score.hard for row in outcomes[name] if isinstance(row, Scored)} for name in ("seed", "best")}
        kept = {name: {task: value for task, value in rows.items() if task not in set(lost)} for name, rows in values.items()}
        return Report(measured=True, look=look, comparison=compare(kept["seed"], kept["best"]), scores=scores, left_out=tuple(lost))


def claim(report: Report, *, changed: bool, simulated: bool, verified: bool) -> str:
    """One sentence that says no more than was measured."""
    if not report.measured or report.comparison is None:
        sentence = f"Test was not measured: {report.why}."
    elif not changed:
        sentence = (
            f"No better skill was found: the best skill is the seed, {report.comparison.before:.3f} on {report.comparison.n} test tasks."
        )
    else:
        c = report.comparison
        word = "better than" if c.delta > 0 else "worse than" if c.delta < 0 else "as good as"
        low, high = c.interval
        sure = "" if c.p < 0.05 else " This difference can be chance."
        sentence = (
            f"The trained skill is {word} the seed on {c.n} sealed test tasks: {c.before:.3f} to {c.after:.3f}, "
            f"{c.delta:+.3f} (95 % interval {low:+.3f} to {high:+.3f}, p = {c.p:.2g}, {c.test}).{sure}"
        )
    if not verified:
        sentence += " Fewer than 5 val tasks decided along the way: unverified."
    if report.look > 1:
        sentence += f" This was look {report.look} at the test split."
    return ("Simulated: " if simulated else "") + sentence


def report_json(report: Report) -> dict[str, Any]:
    """The report as `summary.json` holds it."""
    return asdict(report)


def _means(rows: Sequence[Rollout]) -> dict[str, float]:
    scored = [row.score for row in rows if isinstance(row, Scored)]
    n = max(1, len(scored))
    return {"hard": sum(one.hard for one in scored) / n, "soft": sum(one.soft for one in scored) / n, "n": float(len(scored))}
