"""Random cases for the gate: an incumbent's rows, what a candidate's attempts give, and how the rows are
read.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from gate._rules import Found, RowId, Values
from gate._tables import Table
from skillopt.gate.decision import value
from skillopt.tasks.rollout import Score

SOFT = (0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.9, 1.0)


@dataclass(frozen=True)
class RandomCase:
    """One table and how it is read."""

    incumbent: Mapping[RowId, Score]
    cells: Mapping[RowId, tuple[Score | None, Score | None]]
    metric: str
    weight: float
    ahead: int
    rng: random.Random

    @property
    def bars(self) -> Values:
        return {row: value(score, self.metric, self.weight) for row, score in self.incumbent.items()}

    @property
    def final(self) -> Found:
        """What each of the candidate's rows comes to after its second attempt."""
        kept = {
            row: next((cell for cell in cells if cell is not None), None) for row, cells in self.cells.items()
        }
        return {
            row: None if cell is None else value(cell, self.metric, self.weight) for row, cell in kept.items()
        }

    @property
    def reading(self) -> dict[str, object]:
        return {"metric": self.metric, "weight": self.weight, "ahead": self.ahead}

    def table(self) -> Table:
        return Table(self.cells, self.rng)


def random_case(
    seed: int, *, most_tasks: int = 14, draws: int | None = None, shifts: tuple[float, ...] = ()
) -> RandomCase:
    """A case of its own for every seed. `draws` is the same for all tasks, or up to four for each."""
    rng = random.Random(seed)
    tasks = [f"t{number:02d}" for number in range(rng.randint(1, most_tasks))]
    rows = [(task, draw) for task in tasks for draw in range(draws or rng.randint(1, 4))]
    good = rng.random()
    incumbent = {row: _score(rng, good) for row in rows}
    broken = rng.choice((0.0, 0.0, 0.1, 0.3))
    shift = rng.choice(shifts or (-0.3, -0.05, 0.0, 0.05, 0.3))

    def attempt() -> Score | None:
        return None if rng.random() < broken else _score(rng, good + shift)

    cells = {row: (attempt(), attempt()) for row in rows}
    metric, weight = rng.choice(("hard", "soft", "mixed")), rng.choice((0.25, 0.5, 0.9))
    return RandomCase(incumbent, cells, metric, weight, rng.randint(1, 50), rng)


def _score(rng: random.Random, good: float) -> Score:
    return Score(hard=float(rng.random() < good), soft=rng.choice(SOFT))
