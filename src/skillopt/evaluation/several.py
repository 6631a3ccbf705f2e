"""One skill measured with several targets, as if they were one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from skillopt.aio import together
from skillopt.evaluation.runner import Evaluator, Row
from skillopt.models.port import UNBOUNDED
from skillopt.place import Place
from skillopt.tasks.rollout import Rollout, Scored


class SeveralTargets(Evaluator):
    """An evaluator whose rows go to several targets.

    The draws of a task go to the targets in turn: draw 0 to the first, draw 1 to the second, and so on. So a
    gate or a test with as many draws as there are targets measures each of them on every task, and the task
    stays the unit of a comparison. A task that is `assigned` goes to its one target in every draw.
    """

    def __init__(self, targets: Mapping[str, Evaluator], assigned: Mapping[str, int]) -> None:
        self._targets = tuple(targets.items())
        self._assigned = assigned
        widths = [one.workers for one in targets.values()]
        first = next(iter(targets.values()))
        self.workers = UNBOUNDED if UNBOUNDED in widths else max(widths)
        self.slots, self.rollouts = first.slots, first.rollouts

    def key(self, skill: str, row: Row) -> str:
        """See `Evaluator`."""
        _, target, own = self._of(row)
        return target.key(skill, own)

    def stored(self, skill: str, row: Row) -> Scored | None:
        """See `Evaluator`."""
        name, target, own = self._of(row)
        found = target.stored(skill, own)
        return None if found is None else replace(found, draw=row.draw, target=name)

    def known(self, skill: str, row: Row, stage: Place | None) -> Rollout | None:
        """See `Evaluator`."""
        name, target, own = self._of(row)
        found = target.known(skill, own, stage)
        return None if found is None else replace(found, draw=row.draw, target=name)

    async def measure(self, skill: str, row: Row, **how: Any) -> Rollout:
        """See `Evaluator`."""
        name, target, own = self._of(row)
        return replace(await target.measure(skill, own, **how), draw=row.draw, target=name)

    def works_on(self, task: asyncio.Future[Rollout]) -> bool:
        """See `Evaluator`."""
        return any(target.works_on(task) for _, target in self._targets)

    async def drain(self) -> None:
        """See `Evaluator`."""
        await together(*(target.drain() for _, target in self._targets))

    def _of(self, row: Row) -> tuple[str, Evaluator, Row]:
        index = self._assigned.get(row.task.id)
        if index is not None:
            return (*self._targets[index], row)
        draw, index = divmod(row.draw, len(self._targets))
        return (*self._targets[index], replace(row, draw=draw))
