"""Walks a batch while its rollouts come in, and hands every full minibatch to whoever studies it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from skillopt.evaluation.stage import Evaluation
from skillopt.events import Minibatch
from skillopt.models.reading import Unusable
from skillopt.process.waiting import together
from skillopt.skill.edits import Edit
from skillopt.tasks.rollout import Rollout, Scored
from skillopt.tasks.task import Task

T = TypeVar("T")
Side = Literal["failure", "success"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedTask:
    """A task with its scored rollouts, the best first; several where a step runs each task repeatedly."""

    task: Task
    tries: tuple[Scored, ...]

    @property
    def side(self) -> Side:
        """Whose it is: a task that failed in any try is studied as a failure."""
        return "success" if self.tries[-1].score.passed else "failure"

    @property
    def differs(self) -> bool:
        """Whether its tries were scored differently: only then there is something to compare."""
        return len({_worth(attempt) for attempt in self.tries}) > 1


def minibatch_of(failed: Sequence[TriedTask], edits: Sequence[Edit] | Unusable) -> Minibatch:
    """What was proposed for the failures of a lane, or why nothing was."""
    tasks = tuple(tries.task.id for tries in failed)
    if isinstance(edits, Unusable):
        return Minibatch(kind="failure", index=0, tasks=tasks, dropped=str(edits))
    return Minibatch(kind="failure", index=0, tasks=tasks, edits=tuple(edits))


async def in_minibatches(
    rollouts: Evaluation,
    side: Side,
    study: Callable[[int, list[TriedTask]], Awaitable[T]],
    *,
    size: int,
    seed: int,
    joins_last: bool = False,
    group: Callable[[list[TriedTask], int], list[list[TriedTask]]] | None = None,
) -> list[T]:
    """Walk the tasks in a shuffled order that is fixed before the first row is in; every full minibatch is
    studied at once.

    Invalid rows are skipped, the last minibatch may be short; with `joins_last` one of less than half the
    size is studied with its neighbour, which waits for it. With `group` all rows are awaited, and it says
    which are studied together. A study that fails ends the walk without waiting for more rows.
    """
    order = _by_task(rollouts)
    random.Random(seed).shuffle(order)
    studies: list[asyncio.Future[T]] = []
    held: list[list[TriedTask]] = []
    chunk: list[TriedTask] = []

    def begin(most_held: int) -> None:
        while len(held) > most_held:
            studies.append(asyncio.ensure_future(study(len(studies), held.pop(0))))

    try:
        for rows in order:
            tries = [await _unless_failed(rollouts.arriving(row), studies) for row in rows]
            studied = _as_studied(rollouts.rows[rows[0]].task, tries)
            chunk += [studied] if studied is not None and studied.side == side else []
            if group is None and len(chunk) == size:
                held.append(chunk)
                chunk = []
                begin(1 if joins_last else 0)
        if group is not None:
            held += group(chunk, size)
        elif chunk and joins_last and held and 2 * len(chunk) < size:
            held[-1] += chunk
        elif chunk:
            held.append(chunk)
        begin(0)
        return await together(*studies)
    except BaseException:  # whatever ends the walk, also Ctrl-C: its studies must not go on spending
        for one in studies:
            one.cancel()
        await asyncio.gather(*studies, return_exceptions=True)
        raise


async def all_studied(rollouts: Evaluation) -> list[TriedTask]:
    """The tasks of a batch in planned order when all rows are in, without those that were not measured."""
    studied: list[TriedTask | None] = []
    for rows in _by_task(rollouts):
        tries = [await rollouts.arriving(row) for row in rows]
        studied.append(_as_studied(rollouts.rows[rows[0]].task, tries))
    return [item for item in studied if item is not None]


def _as_studied(task: Task, tries: Sequence[Rollout]) -> TriedTask | None:
    scored = sorted((attempt for attempt in tries if isinstance(attempt, Scored)), key=_worth, reverse=True)
    return TriedTask(task=task, tries=tuple(scored)) if scored else None


def _by_task(rollouts: Evaluation) -> list[list[int]]:
    """The numbers of the rows, those of one task together, in planned order."""
    numbers: dict[str, list[int]] = {}
    for number, row in enumerate(rollouts.rows):
        numbers.setdefault(row.task.id, []).append(number)
    return list(numbers.values())


def _worth(rollout: Scored) -> tuple[float, float]:
    return rollout.score.hard, rollout.score.soft


async def _unless_failed(
    arriving: asyncio.Future[Rollout], studies: Sequence[asyncio.Future[Any]]
) -> Rollout:
    """The rollout when it is in, or the failure of a study if that comes first."""
    while not arriving.done():
        awaited: list[asyncio.Future[Any]] = [arriving, *(study for study in studies if not study.done())]
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        for study in studies:
            if study.done():
                study.result()
    return arriving.result()
