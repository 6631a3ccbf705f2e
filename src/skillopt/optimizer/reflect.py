"""Stage 2, the backward pass: analysts study minibatches of failures and successes and propose edits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from skillopt.aio import together
from skillopt.evaluation.stage import Evaluation
from skillopt.events import PatchFact, Reflected
from skillopt.optimizer._ask import OptimizerModel
from skillopt.optimizer._render import (
    contrasts_section,
    memory_section,
    rollouts_section,
    section,
    skill_section,
)
from skillopt.optimizer._replies import FailureAnalysis, SuccessAnalysis, Unusable
from skillopt.optimizer.forms import Form
from skillopt.skill.edits import Proposal
from skillopt.step import Step
from skillopt.tasks.rollout import Rollout, Scored
from skillopt.tasks.task import Task

Side = Literal["failure", "success"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Studied:
    """A task with what it came to: its scored rollouts, the best first; several where a step runs each task
    more than once.
    """

    task: Task
    tries: tuple[Scored, ...]

    @property
    def side(self) -> Side:
        """Whose it is: a task that failed in any try is studied as a failure."""
        return "success" if self.tries[-1].score.passed else "failure"

    @property
    def differs(self) -> bool:
        """Whether its tries were scored differently: only then there is something to compare."""
        return len({_worth(one) for one in self.tries}) > 1


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


class Reflector:
    """Starts each analyst as soon as the rollouts of its minibatch are in."""

    def __init__(
        self,
        model: OptimizerModel,
        form: Form,
        *,
        minibatch_size: int,
        limit: int | None,
        failure_only: bool,
        notes_from: Sequence[Side] = (),
        contrasts: bool = False,
    ) -> None:
        """`limit` is the most proposals one analyst may make, None is no limit; `notes_from` are the analysts
        who may write notes.

        With `contrasts` a task was run several times, and its best try is shown against its worst.
        """
        self._model = model
        self._form = form
        self._notes_from = frozenset(notes_from)
        self._contrasts = contrasts
        self._size = minibatch_size
        self._limit = limit if form.limited else 1
        self._failure_only = failure_only

    async def reflect(self, step: Step, rollouts: Evaluation) -> Reflection:
        """Reflect on a batch while it is still running, and wait for all of it."""
        fixed = (
            skill_section(step.skill.text)
            + section("Advice from earlier epochs", step.meta_skill)
            + memory_section(step.memory, self._model.memory_room)
        )
        kinds: tuple[Side, ...] = ("failure",) if self._failure_only else ("failure", "success")
        walks = together(
            *(self._walk(step, kind, step.seed + at, fixed, rollouts) for at, kind in enumerate(kinds))
        )
        outcomes, groups = await _both(rollouts.close(), walks)
        minibatches = tuple(one for group in groups for one in group)
        patches = [_fact(one) for one in minibatches]
        step.emit(Reflected(id=str(step.place.at("reflect")), place=step.place, patches=patches))
        return Reflection(rollouts=outcomes, minibatches=minibatches)

    async def _walk(
        self, step: Step, kind: Side, seed: int, fixed: str, rollouts: Evaluation
    ) -> list[Minibatch]:
        """Walk the tasks in a shuffled order that is fixed before the first row is in; every full minibatch
        gets its analyst at once.

        Invalid rows are skipped, the last minibatch may be short. An analyst that fails ends the walk without
        waiting for more rows.
        """
        order = _by_task(rollouts)
        random.Random(seed).shuffle(order)
        analysts: list[asyncio.Task[Minibatch]] = []
        chunk: list[Studied] = []

        def study() -> None:
            analysts.append(
                asyncio.ensure_future(self._analyse(step, kind, len(analysts), fixed, list(chunk)))
            )
            chunk.clear()

        try:
            for rows in order:
                tries = [await _unless_failed(rollouts.arriving(row), analysts) for row in rows]
                scored = sorted((one for one in tries if isinstance(one, Scored)), key=_worth, reverse=True)
                if (
                    scored
                    and (studied := Studied(task=rollouts.rows[rows[0]].task, tries=tuple(scored))).side
                    == kind
                ):
                    chunk.append(studied)
                if len(chunk) == self._size:
                    study()
            if chunk:
                study()
            return await together(*analysts)
        except BaseException:  # whatever ends the walk, also Ctrl-C: its analysts must not go on spending
            for analyst in analysts:
                analyst.cancel()
            await asyncio.gather(*analysts, return_exceptions=True)
            raise

    async def _analyse(
        self, step: Step, kind: Side, index: int, fixed: str, chunk: list[Studied]
    ) -> Minibatch:
        stage = f"analyst_{kind}"
        several = self._contrasts
        limit = section(
            "Limit", f"{self._told()} You are shown {len(chunk)} {'tasks' if several else 'rollouts'}."
        )
        room, title = self._model.room(fixed + limit, stage), f"Rollouts ({kind})"
        if several:
            evidence = contrasts_section(title, [(one.task, one.tries, one.differs) for one in chunk], room)
        else:
            evidence = rollouts_section(title, [(one.task, one.tries[0]) for one in chunk], room)
        tasks = tuple(one.task.id for one in chunk)
        contrasted = tuple(one.task.id for one in chunk if one.differs)
        shape = self._form.shape(kind, notes=kind in self._notes_from)
        reply = await self._model.ask(step, stage, str(index), fixed + limit + evidence, shape)
        if isinstance(reply, Unusable):
            return Minibatch(kind=kind, index=index, tasks=tasks, dropped=str(reply), contrasted=contrasted)
        told: list[Any] = []
        if isinstance(reply, FailureAnalysis):
            told = [pattern.model_dump() for pattern in reply.failure_summary]
        elif isinstance(reply, SuccessAnalysis):
            told = list(reply.success_patterns)
        support = {"support_count": max(1, len(chunk)), "source_type": kind}
        edits = tuple(
            self._form.read(
                {**support, **edit} if isinstance(edit, dict) else edit,
                str(step.place.at(stage, str(index), number=at)),
            )
            for at, edit in enumerate(reply.patch.items[: self._limit])
        )
        notes = (
            tuple(note.strip() for note in reply.notes if note.strip()) if kind in self._notes_from else ()
        )
        return Minibatch(
            kind=kind,
            index=index,
            tasks=tasks,
            edits=edits,
            summary=tuple(told),
            notes=notes,
            contrasted=contrasted,
        )

    def _told(self) -> str:
        if not self._form.limited:
            return f"Write exactly one {self._form.noun}."
        return (
            f"Propose as many {self._form.noun}s as are needed."
            if self._limit is None
            else f"Propose at most {self._limit} {self._form.noun}s."
        )


def _by_task(rollouts: Evaluation) -> list[list[int]]:
    """The numbers of the rows, those of one task together, in planned order."""
    numbers: dict[str, list[int]] = {}
    for number, row in enumerate(rollouts.rows):
        numbers.setdefault(row.task.id, []).append(number)
    return list(numbers.values())


def _worth(rollout: Scored) -> tuple[float, float]:
    return rollout.score.hard, rollout.score.soft


async def _unless_failed(
    arriving: asyncio.Future[Rollout], analysts: Sequence[asyncio.Task[Minibatch]]
) -> Rollout:
    """The rollout when it is in, or the failure of an analyst if that comes first."""
    while not arriving.done():
        awaited: list[asyncio.Future[Any]] = [
            arriving,
            *(analyst for analyst in analysts if not analyst.done()),
        ]
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        for analyst in analysts:
            if analyst.done():
                analyst.result()
    return arriving.result()


async def _both(
    closing: Awaitable[tuple[Rollout, ...]], walking: Awaitable[list[list[Minibatch]]]
) -> tuple[tuple[Rollout, ...], list[list[Minibatch]]]:
    results: list[Any] = await together(closing, walking)
    return results[0], results[1]


def _fact(one: Minibatch) -> PatchFact:
    return PatchFact(
        kind=one.kind,
        index=one.index,
        tasks=list(one.tasks),
        edits=[edit.as_json() for edit in one.edits],
        summary=list(one.summary),
        notes=list(one.notes),
        dropped=one.dropped,
        contrasted=list(one.contrasted),
    )
