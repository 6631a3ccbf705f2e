"""Stage 2, the backward pass: analysts study minibatches of failures and successes and propose edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from skillopt.evaluation.stage import Evaluation
from skillopt.events import PatchFact, Reflected
from skillopt.events.step import Step
from skillopt.optimizer.ask import OptimizerModel
from skillopt.optimizer.forms import Form
from skillopt.optimizer.minibatches import Side, Studied, in_minibatches
from skillopt.optimizer.render import section, studied_section
from skillopt.optimizer.replies import FailureAnalysis, SuccessAnalysis, Unusable
from skillopt.process.waiting import together
from skillopt.skill.edits import Proposal
from skillopt.tasks.rollout import Rollout


@dataclass(frozen=True, slots=True, kw_only=True)
class Minibatch:
    """What one analyst made of its rollouts; `dropped` says why there is nothing."""

    kind: Side
    index: int
    tasks: tuple[str, ...]
    edits: tuple[Proposal, ...] = ()
    summary: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    """Reminders for the appendix, where skill-aware reflection is on."""
    dropped: str | None = None
    contrasted: tuple[str, ...] = ()
    """Those of its tasks whose tries went differently, so that the best was shown against the worst."""

    @classmethod
    def of_lane(cls, failed: Sequence[Studied], edits: Sequence[Proposal] | Unusable) -> Minibatch:
        """What was proposed for the failures of a lane, or why nothing was."""
        tasks = tuple(one.task.id for one in failed)
        if isinstance(edits, Unusable):
            return cls(kind="failure", index=0, tasks=tasks, dropped=str(edits))
        return cls(kind="failure", index=0, tasks=tasks, edits=tuple(edits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """All minibatches of a step, failures first, with the rollouts they came from."""

    rollouts: tuple[Rollout, ...]
    minibatches: tuple[Minibatch, ...]

    @property
    def is_inconclusive(self) -> bool:
        """More than half of the analysts gave nothing that can be read."""
        return sum(one.dropped is not None for one in self.minibatches) * 2 > len(self.minibatches)

    def edits(self, kind: Side) -> list[tuple[Proposal, ...]]:
        return [one.edits for one in self.minibatches if one.kind == kind and one.edits]

    def notes(self) -> list[str]:
        """Every note of the step, in planned order."""
        return [note for one in self.minibatches for note in one.notes]

    def troubles(self) -> list[str]:
        """Why minibatches were dropped, each reason once."""
        return sorted({one.dropped for one in self.minibatches if one.dropped})

    def patterns(self) -> list[str]:
        """The analysts' failure patterns, in words."""
        found = [pattern for one in self.minibatches if one.kind == "failure" for pattern in one.summary]
        return [
            f"{pattern.get('failure_type', '')}: {pattern.get('description', '')}".strip(": ")
            for pattern in found
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflector:
    """Starts each analyst as soon as the rollouts of its minibatch are in."""

    model: OptimizerModel
    form: Form
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
        fixed = self.model.background(step, self.form.shown(step.skill))
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
        minibatches = tuple(one for group in groups for one in group)
        patches = [patch_fact(one) for one in minibatches]
        step.emit(Reflected(id=str(step.place.at("reflect")), place=step.place, patches=patches))
        return Reflection(rollouts=outcomes, minibatches=minibatches)

    async def _analyse(
        self, step: Step, kind: Side, fixed: str, index: int, chunk: list[Studied]
    ) -> Minibatch:
        stage = f"analyst_{kind}"
        shown = "tasks" if self.contrasts else "rollouts"
        limit = section("Limit", f"{self._told()} You are shown {len(chunk)} {shown}.")
        room = self.model.room(fixed + limit, stage)
        evidence = studied_section(f"Rollouts ({kind})", chunk, room, contrasts=self.contrasts)
        tasks = tuple(one.task.id for one in chunk)
        contrasted = tuple(one.task.id for one in chunk if one.differs)
        shape = self.form.shape(kind, notes=kind in self.notes_from)
        reply = await self.model.ask(step, stage, str(index), fixed + limit + evidence, shape)
        if isinstance(reply, Unusable):
            return Minibatch(kind=kind, index=index, tasks=tasks, dropped=str(reply), contrasted=contrasted)
        told: list[Any] = []
        if isinstance(reply, FailureAnalysis):
            told = [pattern.model_dump() for pattern in reply.failure_summary]
        elif isinstance(reply, SuccessAnalysis):
            told = list(reply.success_patterns)
        support = {"support_count": max(1, len(chunk)), "source_type": kind}
        edits = tuple(
            self.form.read(
                {**support, **edit} if isinstance(edit, dict) else edit,
                str(step.place.at(stage, str(index), number=at)),
            )
            for at, edit in enumerate(reply.patch.items[: self.limit if self.form.limited else 1])
        )
        notes = reply.notes if kind in self.notes_from else ()
        return Minibatch(
            kind=kind,
            index=index,
            tasks=tasks,
            edits=edits,
            summary=tuple(told),
            notes=tuple(note.strip() for note in notes if note.strip()),
            contrasted=contrasted,
        )

    def _told(self) -> str:
        if not self.form.limited:
            return f"Write exactly one {self.form.noun}."
        if self.limit is None:
            return f"Propose as many {self.form.noun}s as are needed."
        return f"Propose at most {self.limit} {self.form.noun}s."


def patch_fact(one: Minibatch, index: int | None = None) -> PatchFact:
    """A reflection as the log tells it, under another number if one is given."""
    return PatchFact(
        kind=one.kind,
        index=one.index if index is None else index,
        tasks=list(one.tasks),
        edits=[edit.as_json() for edit in one.edits],
        summary=list(one.summary),
        notes=list(one.notes),
        dropped=one.dropped,
        contrasted=list(one.contrasted),
    )
