"""The gate's arithmetic, exact and pure: what a row is worth, the reading order, what a policy reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from skillopt.config.schema import GateConfig
from skillopt.tasks.rollout import Score

if TYPE_CHECKING:
    from skillopt.events import Row
    from skillopt.events.state import Metric

RowId: TypeAlias = tuple[str, int]
"""Task id and draw."""
Ruling = Literal["accept", "reject", "inconclusive"]
Clause: TypeAlias = str
"""The part of a policy that fixed its ruling, or the constraint that overruled it; an accept names what the
policy asks for beyond a better score. Ours are score, regression, chance, length, confirmation, lost rows,
indecisive, tokens, latency, targets and window (a row shows that the target cannot take the candidate).
"""

SHORTEST_CAP = 4_000
"""Characters that `size_capped` leaves to every skill, however short its seed."""


def value(score: Score, metric: Metric, weight: float) -> Fraction:
    """What a score is worth to the gate, exactly; `mixed` is (1 - w) * hard + w * soft."""
    return _worth(score.hard, score.soft, metric, weight)


def worth_of(row: Row, metric: Metric, weight: float) -> Fraction | None:
    """What a row of the log is worth to the gate; None for one that could not be measured."""
    return None if row.hard is None or row.soft is None else _worth(row.hard, row.soft, metric, weight)


def worths_of(rows: Iterable[Row], metric: Metric, weight: float) -> dict[RowId, Fraction]:
    """What the rows of the log are worth that could be measured."""
    worths = {(row.task, row.draw): worth_of(row, metric, weight) for row in rows}
    return {row: worth for row, worth in worths.items() if worth is not None}


@lru_cache(maxsize=4096)
def _worth(hard: float, soft: float, metric: Metric, weight: float) -> Fraction:
    """The same few scores come thousands of times."""
    if metric == "hard":
        return Fraction(hard)
    if metric == "soft":
        return Fraction(soft)
    share = Fraction(str(weight))
    return (1 - share) * Fraction(hard) + share * Fraction(soft)


def reading_order(incumbent: Mapping[RowId, Fraction]) -> list[RowId]:
    """The incumbent's worst rows first: where a candidate must win, and a hopeless one shows soonest."""
    return sorted(incumbent, key=lambda row: (incumbent[row], row))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is known before the candidate's first row: rows in reading order, and the incumbent's values."""

    rows: tuple[RowId, ...]
    bar: tuple[Fraction, ...]
    first: int
    """How many rows the first reading takes; the rest is asked for only if the policy wants it then."""
    settings: GateConfig
    seed_chars: int = 0
    """Length of the seed's rendered text."""
    chars: int = 0
    """Length of the candidate's rendered text."""
    incumbent_chars: int = 0

    @classmethod
    def of(
        cls,
        incumbent: Mapping[RowId, Fraction],
        *,
        further: int = 0,
        settings: GateConfig | None = None,
        seed_chars: int = 0,
        chars: int = 0,
        incumbent_chars: int = 0,
    ) -> Case:
        """Put the incumbent's rows in order. The last `further` draws of every task are kept for a second
        reading.

        With such draws a row's bar is the mean of all draws of its task: the incumbent was chosen for its
        first ones, which flatter it.
        """
        bars = _task_means(incumbent) if further else incumbent
        first_draws = 1 + max((draw for _, draw in incumbent), default=0) - further
        first = reading_order({row: bar for row, bar in bars.items() if row[1] < first_draws})
        rest = reading_order({row: bar for row, bar in bars.items() if row[1] >= first_draws})
        order = (*first, *rest)
        bar = tuple(bars[row] for row in order)
        return cls(
            rows=order,
            bar=bar,
            first=len(first),
            settings=settings or GateConfig(),
            seed_chars=seed_chars,
            chars=chars,
            incumbent_chars=incumbent_chars,
        )

    @property
    def cap(self) -> int:
        """Most characters a skill may have: as set, else twice the seed and never below 4,000."""
        return self.settings.max_chars or max(SHORTEST_CAP, 2 * self.seed_chars)

    def counted(self, row: RowId, worth: Fraction | None) -> Fraction | None:
        """What the candidate's row counts: no more than the incumbent's where its task has a veto alone."""
        if worth is None or row[0] not in self.settings.veto_only:
            return worth
        return min(worth, self.bar[self.rows.index(row)])


class PolicyReader(Protocol):
    """A policy at work: it reads the candidate's rows in order, None for a missing one, until it rules."""

    ruling: Ruling | None
    decided_by: Clause | None
    why: str
    """The ruling in words, for people and the optimizer."""
    bar: Fraction
    """I: the incumbent's sum on the `total` rows of this reading."""
    upper: Fraction
    """U: the candidate's sum on them with every missing and unread row counted in full."""
    total: int

    def read(self, row: Fraction | None) -> Ruling | None:
        """Take in the next row; the ruling, or None while it is open."""
        ...


def _task_means(values: Mapping[RowId, Fraction]) -> dict[RowId, Fraction]:
    by_task: dict[str, list[Fraction]] = {}
    for (task, _), value in values.items():
        by_task.setdefault(task, []).append(value)
    return {row: sum(by_task[row[0]], Fraction(0)) / len(by_task[row[0]]) for row in values}
