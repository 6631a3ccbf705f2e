"""Decides which tasks are seen when: seeded epochs, batches and samples, the same in equal runs."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skillopt.evaluation.runner import PlannedRow, rows_of
from skillopt.events.place import Place
from skillopt.events.state import State
from skillopt.tasks.task import Task
from skillopt.train.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The tasks of one step; `place` names it in every record, one taken up again has a later take."""

    epoch: int
    step: int
    step_in_epoch: int
    seed: int
    rows: tuple[PlannedRow, ...]
    limit: int
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The public plan: shuffle by `seed + epoch * 1000`, consecutive slices, batch seed one above each."""

    train: Sequence[Task]
    epochs: int
    batch_size: int
    seed: int
    schedule: Schedule
    largest_limit: int
    smallest_limit: int
    slow_samples: int = 20
    patience: int = 0
    """Steps without an accepted change after which it is enough; 0 is never."""
    draws: int = 1
    """How often a step runs each of its tasks."""
    past: Sequence[Task] = ()
    """Tasks of earlier runs, for the first look back of a run that goes on from them."""

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(len(self.train) / self.batch_size)

    @property
    def total_steps(self) -> int:
        return self.epochs * self.steps_per_epoch

    def epochs_left(self, state: State) -> Iterator[int]:
        """Epochs whose end has not been closed, counted from 1."""
        return iter(range(state.epoch + 1, self.epochs + 1))

    def batches_left(self, epoch: int, state: State | None) -> Iterator[Batch]:
        """The steps of an epoch that are not closed yet; None is a run that has not begun."""
        left = None if state is None or state.remaining is None else set(state.remaining)
        order = [task for task in self.train if left is None or task.id in left]
        random.Random(self.seed + epoch * 1000).shuffle(order)
        for index in range(math.ceil(len(order) / self.batch_size)):
            step = (epoch - 1) * self.steps_per_epoch + index + 1
            if state is not None and step <= state.step:
                continue
            take = 0 if state is None else state.takes.get(step, 0)
            yield Batch(
                epoch=epoch,
                step=step,
                step_in_epoch=index + 1,
                seed=self.seed + epoch * 1000 + index + 1,
                rows=tuple(
                    rows_of(order[index * self.batch_size : (index + 1) * self.batch_size], self.draws)
                ),
                limit=self.schedule(step, self.total_steps, self.largest_limit, self.smallest_limit),
                place=Place.of_step(epoch, step, take),
            )

    @property
    def first_batch(self) -> Batch | None:
        """What a run begins with."""
        return next(self.batches_left(1, None), None)

    def remaining(self, settled: Sequence[str]) -> tuple[str, ...] | None:
        """The tasks of the next epoch where some need no further study; None is all."""
        done = set(settled)
        return tuple(task.id for task in self.train if task.id not in done) if done else None

    def end_place(self, epoch: int, state: State) -> Place:
        """The name of an epoch's end in every record; a later take when one of its steps was opened again."""
        last = epoch * self.steps_per_epoch
        take = max(state.takes.get(step, 0) for step in range(last - self.steps_per_epoch + 1, last + 1))
        return Place.end_of(epoch, take)

    def slow_samples_of(self, epoch: int) -> Iterator[list[Task]]:
        """The training tasks that the slow update compares skills on, by samples in one seeded order."""
        order = list(self.past if self.past and epoch == 1 else self.train)
        random.Random(self.seed + epoch * 2000).shuffle(order)
        for at in range(0, len(order), self.slow_samples):
            yield order[at : at + self.slow_samples]
