"""Which task is train, val or test, that no task is in two of them, and the folds of a cross-fitted run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import cycle, islice

from skillopt.errors import ConfigError, TaskError, UnknownName
from skillopt.tasks.task import SPLITS, Split, Task

ALIASES: dict[str, Split] = {
    "train": "train",
    "val": "val",
    "valid_seen": "val",
    "selection": "val",
    "test": "test",
    "valid_unseen": "test",
}
"""Every public name of a split."""
_IN_ROWS: dict[str, Split] = {
    **ALIASES,
    **{"training": "train", "validation": "val", "valid": "val", "dev": "val", "testing": "test"},
}
"""What else a row may call its split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits:
    """Three disjoint lists of tasks, checked when made.

    Disjoint is meant by content: the same question under two ids is one task, and in two splits it would
    leak. Inside *one* split equal content is allowed - public data has such rows, and they do no harm there -
    but ids are unique everywhere. Train and val must hold something; test may be empty: no claim then.
    """

    train: tuple[Task, ...]
    val: tuple[Task, ...]
    test: tuple[Task, ...] = ()
    bad_rows: tuple[str, ...] = ()
    """What is wrong with each row that gave no task."""

    def __post_init__(self) -> None:
        _check_overlaps(self)
        _check_ids(task for split in SPLITS for task in self.of(split))
        for name, tasks, purpose in (("train", self.train, "learn from"), ("val", self.val, "decide with")):
            if not tasks:
                raise TaskError(
                    f"The {name} split is empty: nothing to {purpose}. Add tasks, or change env.split_ratio."
                )

    def of(self, split: Split) -> tuple[Task, ...]:
        """The tasks of one split, in their fixed order."""
        return {"train": self.train, "val": self.val, "test": self.test}[split]

    @property
    def all(self) -> tuple[Task, ...]:
        return self.train + self.val + self.test

    def limited(self, limit: int) -> Splits:
        """The first `limit` tasks of each split; 0 is all of them."""
        if limit == 0:
            return self
        return replace(self, train=self.train[:limit], val=self.val[:limit], test=self.test[:limit])


def canonical_split(name: str) -> Split:
    """The split a public name means; any other name is an error, never a default."""
    if name not in ALIASES:
        raise UnknownName("split", name, ALIASES)
    return ALIASES[name]


def parse_ratio(ratio: str) -> tuple[Fraction, Fraction, Fraction]:
    """The weights of train, val and test in `2:1:7`."""
    try:
        weights = tuple(Fraction(part.strip()) for part in ratio.split(":"))
    except (ValueError, ZeroDivisionError):
        weights = ()
    if len(weights) != 3 or min(weights) < 0 or not (weights[0] and weights[1]):
        raise ConfigError(
            f"env.split_ratio {ratio!r} is not three weights train:val:test such as 2:1:7 (only the last may"
            " be 0). Write three numbers."
        )
    return weights[0], weights[1], weights[2]


def ratio_split(tasks: Sequence[Task], ratio: str, seed: int) -> Splits:
    """Split by weight after a `Random(seed)` shuffle.

    Counts come by largest remainder, ties to the bigger weight. Tasks with equal content stay together, so a
    repeated row can move a boundary by the number of its copies but never land on both sides.
    """
    _check_ids(tasks)
    order = _by_content(tasks)
    random.Random(seed).shuffle(order)

    train_end, val_end, _ = _boundaries(len(tasks), parse_ratio(ratio))
    parts: dict[Split, list[Task]] = {"train": [], "val": [], "test": []}
    placed = 0
    for group in order:
        parts["train" if placed < train_end else "val" if placed < val_end else "test"].extend(group)
        placed += len(group)
    return Splits(train=tuple(parts["train"]), val=tuple(parts["val"]), test=tuple(parts["test"]))


def names_splits(tasks: Sequence[Task], field: str) -> bool:
    """Whether the rows say their split themselves: all in this field, and not all the same."""
    said = [_said_split(task, field) for task in tasks]
    return None not in said and len(set(said)) > 1


def field_split(tasks: Sequence[Task], field: str, ratio: str, seed: int) -> Splits:
    """Split as each row says in this field. Where none is val, train is divided into both by its weights."""
    parts: dict[Split, list[Task]] = {"train": [], "val": [], "test": []}
    for task in tasks:
        split = _said_split(task, field)
        if split is None:
            raise task.error(
                f"has {task.data.get(field)!r} as its {field}, which is none of {', '.join(_IN_ROWS)}."
                " Correct it, or set env.split_ratio to divide all tasks anew."
            )
        parts[split].append(task)
    if not parts["val"]:
        train, val, _ = parse_ratio(ratio)
        taught = ratio_split(parts["train"], f"{train}:{val}:0", seed)
        parts["train"], parts["val"] = list(taught.train), list(taught.val)
    return Splits(train=tuple(parts["train"]), val=tuple(parts["val"]), test=tuple(parts["test"]))


def _said_split(task: Task, field: str) -> Split | None:
    said = task.data.get(field)
    return _IN_ROWS.get(said.strip().lower()) if isinstance(said, str) else None


def _boundaries(total: int, weights: Sequence[Fraction]) -> list[int]:
    shares = [total * weight / sum(weights) for weight in weights]
    counts = [int(share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda i: (counts[i] - shares[i], -weights[i]))
    for index in by_remainder[: total - sum(counts)]:
        counts[index] += 1
    return [sum(counts[: index + 1]) for index in range(len(counts))]


def repeated(ids: Iterable[str]) -> list[str]:
    """The ids that come more than once."""
    return [id for id, count in Counter(ids).items() if count > 1]


def listed(names: Sequence[str], most: int = 20) -> str:
    """The first of many names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def format_bad_rows(bad: Sequence[str], most: int = 5) -> str:
    """The rows that gave no task, by name."""
    more = f" And {len(bad) - most} more." if len(bad) > most else ""
    are = "row could not be used and is" if len(bad) == 1 else "rows could not be used and are"
    return f"{len(bad)} {are} left out: {' '.join(bad[:most])}{more}"


def _check_ids(tasks: Iterable[Task]) -> None:
    if twice := repeated(task.id for task in tasks):
        are = "task id is" if len(twice) == 1 else "task ids are"
        raise TaskError(
            f"{len(twice)} {are} used more than once: {listed(twice)}. Give every task its own id."
        )


def _check_overlaps(splits: Splits) -> None:
    home: dict[str, tuple[Split, Task]] = {}
    overlaps: dict[str, None] = {}
    for split in SPLITS:
        for task in splits.of(split):
            first_split, first = home.setdefault(task.content_hash, (split, task))
            if first_split != split:
                overlaps[f"{first.id} ({first_split}) = {task.id} ({split})"] = None
    if overlaps:
        are = "task is" if len(overlaps) == 1 else "tasks are"
        raise TaskError(
            f"{len(overlaps)} {are} in two splits by content: {listed(list(overlaps))}. "
            "Keep each question in one split, or let env.split_ratio divide one file."
        )


FEWEST, MANY = 10, 60
"""From how many tasks on they are cross-fitted by default, and from how many on one split says enough."""
FOLDS = 5
_PART = 5
"""Val tasks that a round should have; fewer than five decide nothing that is called verified."""
_MOST_PARTS = 4
_MOST_ROUNDS = 6
_TAKEN = 120
"""Tasks that all rounds together take, about: so few and many tasks cost about as many calls."""


def divided(tasks: Sequence[Task], parts: int) -> list[tuple[Task, ...]]:
    """Parts of nearly equal size; tasks with equal content stay together."""
    groups = _by_content(tasks)
    return [tuple(task for group in groups[at::parts] for task in group) for at in range(parts)]


def _by_content(tasks: Sequence[Task]) -> list[list[Task]]:
    """Tasks with equal content together, in order of the first of them."""
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.content_hash, []).append(task)
    return list(groups.values())


def rounds_for(total: int) -> int:
    """Rounds of training with so many tasks: few tasks need several, many would only cost more."""
    return max(1, min(_MOST_ROUNDS, _TAKEN // max(1, total), 2 * _parts(total)))


def _parts(total: int) -> int:
    return max(2, min(_MOST_PARTS, total // _PART))


def in_rounds(tasks: Sequence[Task], rounds: int, test: Sequence[Task] = ()) -> tuple[Splits, ...]:
    """The splits of each round: another part of the tasks is val, the rest is train, and the next round goes
    on from the best skill, so that every change is judged by tasks that it was not learned from.

    When every task was val once, the tasks are divided anew: a rule that two tasks of one part share can be
    learned from one and judged by the other only then. `test` is sealed until the last round is over.
    """
    parts = divided(tasks, _parts(len(tasks)))
    parts += divided([task for part in parts for task in part], len(parts))
    return tuple(
        Splits(
            train=tuple(task for task in tasks if task not in val),
            val=val,
            test=tuple(test) if number == rounds else (),
        )
        for number, val in enumerate(islice(cycle(parts), rounds), 1)
    )


def in_folds(tasks: Sequence[Task], folds: int, rounds: int) -> list[tuple[Splits, ...]]:
    """Each fold trains with the tasks of the others, in as many rounds, and keeps its own for the test."""
    parts = divided(tasks, folds)
    return [
        in_rounds([task for other in parts if other is not part for task in other], rounds, part)
        for part in parts
    ]
