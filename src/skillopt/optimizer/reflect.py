"""Stage 2, the backward pass: analysts study minibatches of failures and successes and propose edits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from skillopt.evaluation.stage import Evaluation
from skillopt.events import Minibatch, Reflected
from skillopt.events.step import Step
from skillopt.optimizer.ask import OptimizerModel, section, studied_section
from skillopt.optimizer.minibatches import Side, TriedTask, all_studied, in_minibatches, minibatch_of
from skillopt.optimizer.proposers.port import Evidence, Proposer
from skillopt.optimizer.replies import FailureAnalysis, Payload, SuccessAnalysis, Unusable, analysis_of
from skillopt.process.waiting import together
from skillopt.skill.edits import Patch
from skillopt.tasks.rollout import Rollout


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """All minibatches of a step, failures first, with the rollouts they came from."""

    rollouts: tuple[Rollout, ...] = ()
    minibatches: tuple[Minibatch, ...] = ()

    @property
    def is_inconclusive(self) -> bool:
        """More than half of the analysts gave nothing that can be read."""
        return sum(minibatch.dropped is not None for minibatch in self.minibatches) * 2 > len(
            self.minibatches
        )

    def edits(self, kind: Side) -> list[Patch]:
        return [
            minibatch.edits for minibatch in self.minibatches if minibatch.kind == kind and minibatch.edits
        ]

    def notes(self) -> list[str]:
        """Every note of the step, in planned order."""
        return [note for minibatch in self.minibatches for note in minibatch.notes]

    def troubles(self) -> list[str]:
        """Why minibatches were dropped, each reason once."""
        return sorted({minibatch.dropped for minibatch in self.minibatches if minibatch.dropped})

    def patterns(self) -> list[str]:
        """The analysts' failure patterns, in words."""
        failures = [
            pattern
            for minibatch in self.minibatches
            if minibatch.kind == "failure"
            for pattern in minibatch.summary
        ]
        return [
            f"{pattern.get('failure_type', '')}: {pattern.get('description', '')}".strip(": ")
            for pattern in failures
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflector:
    """Starts each analyst as soon as the rollouts of its minibatch are in."""

    model: OptimizerModel
    payload: type[Payload]
    minibatch_size: int
    limit: int | None
    """The most proposals one analyst may make; None is no limit."""
    failure_only: bool
    notes_from: tuple[Side, ...] = ()
    """The analysts who may write notes."""
    contrasts: bool = False
    """Whether a task was run several times, so that its best try is shown against its worst."""

    async def reflect(self, step: Step, rollouts: Evaluation) -> Reflection:
        """Reflect on a batch while it is still running, and wait for all of it."""
        fixed = self.model.background(step, self.payload.shown(step.skill))
        kinds: tuple[Side, ...] = ("failure",) if self.failure_only else ("failure", "success")
        walks = together(
            *(
                in_minibatches(
                    rollouts,
                    kind,
                    partial(self._analyse, step, kind, fixed),
                    size=self.minibatch_size,
                    seed=step.seed + at,
                )
                for at, kind in enumerate(kinds)
            )
        )
        results: list[Any] = await together(rollouts.close(), walks)
        outcomes, groups = results
        minibatches = tuple(minibatch for group in groups for minibatch in group)
        step.emit(Reflected(id=str(step.place.at("reflect")), place=step.place, patches=minibatches))
        return Reflection(rollouts=outcomes, minibatches=minibatches)

    async def _analyse(
        self, step: Step, kind: Side, fixed: str, index: int, chunk: list[TriedTask]
    ) -> Minibatch:
        stage = f"analyst_{kind}"
        shown = "tasks" if self.contrasts else "rollouts"
        limit = section("Limit", f"{self._limit_sentence()} You are shown {len(chunk)} {shown}.")
        room = self.model.room(fixed + limit, stage)
        evidence = studied_section(f"Rollouts ({kind})", chunk, room, contrasts=self.contrasts)
        tasks = tuple(tries.task.id for tries in chunk)
        contrasted = tuple(tries.task.id for tries in chunk if tries.differs)
        shape = analysis_of(self.payload, kind, notes=kind in self.notes_from)
        reply = await self.model.ask(step, stage, str(index), fixed + limit + evidence, shape)
        if isinstance(reply, Unusable):
            return Minibatch(kind=kind, index=index, tasks=tasks, dropped=str(reply), contrasted=contrasted)
        summary: list[Any] = []
        if isinstance(reply, FailureAnalysis):
            summary = [pattern.model_dump() for pattern in reply.failure_summary]
        elif isinstance(reply, SuccessAnalysis):
            summary = list(reply.success_patterns)
        edits = reply.patch.edits_at(
            step.place.at(stage, str(index)),
            self.limit if self.payload.IS_LIMITED else 1,
            support_count=max(1, len(chunk)),
            source_type=kind,
        )
        notes = reply.notes if kind in self.notes_from else ()
        return Minibatch(
            kind=kind,
            index=index,
            tasks=tasks,
            edits=edits,
            summary=tuple(summary),
            notes=tuple(note.strip() for note in notes if note.strip()),
            contrasted=contrasted,
        )

    def _limit_sentence(self) -> str:
        if not self.payload.IS_LIMITED:
            return f"Write exactly one {self.payload.NOUN}."
        if self.limit is None:
            return f"Propose as many {self.payload.NOUN}s as are needed."
        return f"Propose at most {self.limit} {self.payload.NOUN}s."


@dataclass(frozen=True, kw_only=True)
class WholeBatch:
    """The batch of one step for one proposer, who takes the place of analysts: stage 2 of `paper`, and the
    lanes of `proof`.
    """

    varies: ClassVar[bool] = False
    """Whether another look asks another question, also where nothing new is known."""
    proposer: Proposer
    rollouts: Evaluation
    failure_only: bool
    limit: int | None = None
    """How many edits the step may take."""

    async def reflect(self, step: Step) -> Reflection:
        """Wait for the batch, and ask once."""
        found: list[Any] = await together(self.rollouts.close(), all_studied(self.rollouts))
        failed = [tries for tries in found[1] if tries.side == "failure"]
        asks = failed or (found[1] and not self.failure_only)
        looks = (await self.study(step, "0", Evidence(failed=tuple(failed))),) if asks else ()
        step.emit(Reflected(id=str(step.place.at("reflect")), place=step.place, patches=looks))
        return Reflection(rollouts=found[0], minibatches=looks)

    async def study(self, step: Step, item: str, evidence: Evidence) -> Minibatch:
        """Edits for these failures, beside everything that passed."""
        failed = evidence.failed
        everything = [] if self.failure_only else await all_studied(self.rollouts)
        passed = tuple(tries for tries in everything if tries.side == "success")
        try:
            edits = await self.proposer.propose(
                step, item, replace(evidence, passed=passed, limit=self.limit)
            )
        except Unusable as error:
            return minibatch_of(failed, error)
        support = {"support_count": max(1, len(failed)), "source_type": "failure"}
        return minibatch_of(failed, [replace(edit, evidence={**support, **edit.evidence}) for edit in edits])
