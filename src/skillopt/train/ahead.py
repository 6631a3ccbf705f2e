"""Rollouts before their turn: slots that would stand empty run the batch that comes next."""

from __future__ import annotations

from fractions import Fraction

from skillopt.evaluation.stage import Evaluation
from skillopt.events import Arrived, Event, Sink
from skillopt.events.step import Outbox, Step
from skillopt.gate.gate import Gate, Measured
from skillopt.skill.document import Document
from skillopt.train.plan import Batch


class Ahead:
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
                    Measured(skill=skill.rendered, values=values, hard=0.0, soft=0.0)
                ):
                    self.start(batch, skill)

        return hear

    def start(self, batch: Batch, skill: Document) -> None:
        """Fill empty slots with a batch from now on."""
        step = Step(place=batch.place, emit=Outbox(_nobody_hears), skill=skill)
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


def _nobody_hears(event: Event) -> None:
    """What happens before its turn is told by the step."""
