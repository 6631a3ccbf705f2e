"""How few tasks are divided so that each one teaches and each one judges, never the same skill."""

from __future__ import annotations

from collections.abc import Sequence

from skillopt.tasks.splits import Splits
from skillopt.tasks.task import Task

FEWEST, MANY = 10, 60
"""From how many tasks on they are cross-fitted unless told, and from how many on one split says enough."""
FOLDS = 5
_PART = 5
"""Val tasks that a round should have; fewer than five decide nothing that is called verified."""
_MOST_PARTS = 4
_MOST_ROUNDS = 3


def divided(tasks: Sequence[Task], parts: int) -> list[tuple[Task, ...]]:
    """Parts of nearly equal size; tasks with equal content stay together."""
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.content_hash, []).append(task)
    found: list[list[Task]] = [[] for _ in range(parts)]
    for number, group in enumerate(groups.values()):
        found[number % parts] += group
    return [tuple(part) for part in found]


def rounds_for(total: int) -> int:
    """Rounds of training with so many tasks: few tasks need several, many would only cost more."""
    return max(1, min(_MOST_ROUNDS, MANY // max(1, total), total // _PART))


def in_rounds(tasks: Sequence[Task], rounds: int, test: Sequence[Task] = ()) -> tuple[Splits, ...]:
    """The splits of each round: another part of the tasks is val, the rest is train, and the next round goes
    on from the best skill, so that every change is judged by tasks that it was not learned from.

    `test` is sealed until the last round is over.
    """
    parts = divided(tasks, max(2, rounds, min(_MOST_PARTS, len(tasks) // _PART)))
    last = rounds - 1
    return tuple(
        Splits(
            train=tuple(task for other in parts if other is not parts[number] for task in other),
            val=parts[number],
            test=tuple(test) if number == last else (),
        )
        for number in range(rounds)
    )


def in_folds(tasks: Sequence[Task], folds: int, rounds: int) -> list[tuple[Splits, ...]]:
    """Each fold trains with the tasks of the others, in as many rounds, and keeps its own for the test."""
    parts = divided(tasks, folds)
    return [
        in_rounds([task for other in parts if other is not part for task in other], rounds, part)
        for part in parts
    ]
