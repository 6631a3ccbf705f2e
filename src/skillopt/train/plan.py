"""Which tasks are run when: seeded epochs, batches and samples, the learning rate of each step, and the first
batch ahead of its turn.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from skillopt.evaluation.runner import PlannedRow, rows_of
from skillopt.evaluation.stage import Evaluation
from skillopt.events import Arrived, Event, Sink
from skillopt.events.place import Place
from skillopt.events.state import State
from skillopt.events.step import Outbox, Step
from skillopt.gate.gate import Gate, SkillMeasurement
from skillopt.skill.document import Document
from skillopt.tasks.task import Task

Schedule: TypeAlias = Callable[[int, int, int, int], int]
"""(step from 1, total steps, largest, smallest) to the limit of that step."""


def constant(step: int, total: int, largest: int, smallest: int) -> int:
    """Always the largest."""
    return largest


def linear(step: int, total: int, largest: int, smallest: int) -> int:
    """Straight down to the smallest."""
    if total <= 1:
        return largest
    share = min(step, total) / total
    return max(smallest, round(largest + (smallest - largest) * share))


def cosine(step: int, total: int, largest: int, smallest: int) -> int:
    """Half a cosine down to the smallest; the paper's default."""
    if total <= 1:
        return largest
    share = min(step, total) / total
    return max(smallest, round(smallest + 0.5 * (largest - smallest) * (1 + math.cos(math.pi * share))))


SCHEDULES: Mapping[str, Schedule] = {"constant": constant, "linear": linear, "cosine": cosine}


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


class EarlyBatch:
    """One batch under the skill that it will start from. Its rows take only slots that nobody waits for, and
    nothing of them is told before their step begins: the step takes over what is under way and finds what is
    stored, so that its facts are the same as without.
    """

    def __init__(self, gate: Gate, *, is_on: bool) -> None:
        self._gate = gate
        self._is_on = is_on
        self._running: Evaluation | None = None
        self._skill = ""

    def beside_baseline(self, sink: Sink, batch: Batch | None, skill: Document) -> Sink:
        """A sink for the baseline of a skill. It starts the first batch once enough val rows failed for a
        candidate to win whatever the others come to: a run that cannot begin pays for no batch.
        """
        failed: list[Fraction] = []

        def hear(event: Event) -> None:
            sink(event)
            if not self._is_on or batch is None or self._running is not None:
                return
            if isinstance(event, Arrived) and event.hard is not None and event.hard < 1:
                failed.append(Fraction(event.hard))
                rest = [Fraction(1)] * (len(self._gate.rows) - len(failed))
                values = dict(zip(self._gate.rows, failed + rest, strict=True))
                if not self._gate.objection_to_all(
                    SkillMeasurement(skill=skill.rendered, values=values, hard=0.0, soft=0.0)
                ):
                    self.start(batch, skill)

        return hear

    def start(self, batch: Batch, skill: Document) -> None:
        """Fill empty slots with a batch from now on."""
        step = Step(place=batch.place, emit=Outbox(_ignore), skill=skill)
        self._skill = skill.rendered
        self._running = Evaluation(
            self._gate.evaluator, step, self._skill, batch.rows, stage="rollout", in_empty_slots=True
        )

    def rollouts(self, step: Step, batch: Batch) -> Evaluation:
        """The rollouts of a step whose turn it is."""
        running, self._running = self._running, None
        skill = step.skill.rendered
        begun = None if running is None else running.hand_over()
        if skill != self._skill:
            begun = None
        return Evaluation(self._gate.evaluator, step, skill, batch.rows, stage="rollout", begun=begun)

    async def withdraw(self) -> None:
        """Send nothing further, and wait for what was sent."""
        if self._running is not None:
            running, self._running = self._running, None
            running.cancel()
            await running.settle()


def _ignore(event: Event) -> None:
    """Drop an event of work ahead of its turn: the step emits it again when its turn comes."""
