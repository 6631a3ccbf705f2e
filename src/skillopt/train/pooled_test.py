"""The test of a cross-fitted run: every task judged by a skill that never saw it, pooled over the folds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from skillopt.events import Row, TestMeasured
from skillopt.events.step import Step
from skillopt.skill.document import Document
from skillopt.train.claim import TestReport, report_of
from skillopt.train.sealed_test import SealedTest


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
