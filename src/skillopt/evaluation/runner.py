"""Measures a skill on rows of tasks, with one target or several as if they were one: looks up what is known,
runs the rest, no score of an outage.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from skillopt.errors import Fault, Kind
from skillopt.events.place import Place
from skillopt.executors import Executor
from skillopt.executors.port import TRIES, WorkerLost
from skillopt.harnesses.port import Harness, NotAsked, Session, rollout_prompt
from skillopt.models.port import UNBOUNDED, Model
from skillopt.models.stack.limited import Slots
from skillopt.process.waiting import together
from skillopt.redact.printable import clean_text
from skillopt.tasks.benchmark import Benchmark, Environment
from skillopt.tasks.functions import own_code_blamed
from skillopt.tasks.rollout import Invalid, Rollout, Score, Scored, Trajectory, storable
from skillopt.tasks.task import Task

if TYPE_CHECKING:
    from skillopt.evaluation.judge import ModelJudge


class Rollouts(Protocol):
    """Where rollouts and their scores are kept; the run's database."""

    def finished(self, rollout: str) -> tuple[int, Trajectory] | None: ...

    def next_attempt(self, rollout: str) -> int: ...

    def keep(self, rollout: str, attempt: int, trajectory: Trajectory) -> None: ...

    def scored(self, rollout: str, scorer: str) -> tuple[int, Trajectory, Score] | None: ...

    def keep_score(self, rollout: str, attempt: int, scorer: str, score: Score) -> None: ...

    def close_invalid(self, stage: str, rows: Iterable[tuple[str, Invalid]]) -> None: ...

    def closed_invalid(self, stage: str, rollout: str) -> tuple[int, Kind, str] | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRow:
    """One measurement to make: a task and the number of the independent draw."""

    task: Task
    draw: int = 0


@lru_cache(maxsize=64)
def _as_json(text: str) -> str:
    """A text as JSON; a skill is part of the key of every row."""
    return json.dumps(text)


def rows_of(tasks: Iterable[Task], draws: int = 1) -> list[PlannedRow]:
    """Every task, `draws` times."""
    return [PlannedRow(task=task, draw=draw) for task in tasks for draw in range(draws)]


@dataclass(eq=False, kw_only=True)
class Evaluator:
    """Runs rollouts of one target on one benchmark, `workers` at a time for all stages together."""

    harness: Harness
    model: Model
    benchmark: Benchmark
    rollouts: Rollouts
    workers: int
    max_tokens: int
    cap_is_own_limit: bool = False
    """Whether an answer of so many tokens is the target's failure, and no measurement that our cap spoilt."""
    scrub: Callable[[str], str] = str
    """Takes credentials out: what a scorer says may quote a task that holds one."""
    judge: ModelJudge | None = None
    """Scores where the benchmark wants one, and is then part of what a score is stored under."""
    executor: Executor | None = None
    """Does the work of environments that want one."""

    def __post_init__(self) -> None:
        benchmark, judge, model = self.benchmark, self.judge, self.model
        self.slots = Slots(self.workers)
        self.under_way = 0
        """Rollouts that are run or scored now."""
        self._open: Callable[[Task], Environment | None] = benchmark.open
        if self.executor is not None and benchmark.uses_executor:
            self._open = partial(benchmark.open_in, self.executor)
        self._scored_by = benchmark.scorer_version + ("" if judge is None else f" {judge.version}")
        self._known_tasks: dict[str, tuple[str, str]] = {}
        self._under_way: set[asyncio.Future[Any]] = set()
        prompt = rollout_prompt(benchmark.prompts, own_tools=isinstance(model, NotAsked))
        identity = (self.harness.name, self.harness.version, prompt, self.max_tokens)
        settings = [dict(model.fingerprint), *identity]
        self._settings = json.dumps(settings, sort_keys=True)

    def key(self, skill: str, row: PlannedRow) -> str:
        """Identity of a rollout: all that could change what the target does, but not how it is scored."""
        content, _ = self._task_hashes(row.task)
        text = f"[{_as_json(skill)}, {content}, {_as_json(self._settings)}, {row.draw}]"  # a list in JSON
        return hashlib.sha256(text.encode()).hexdigest()[:40]

    def stored(self, skill: str, row: PlannedRow) -> Scored | None:
        """A measurement that is already there, or None; costs nothing."""
        key = self.key(skill, row)
        found = self.rollouts.scored(key, self._scorer(row.task))
        if found is None:
            return None
        attempt, trajectory, score = found
        return Scored(
            task_id=row.task.id, draw=row.draw, attempt=attempt, key=key, trajectory=trajectory, score=score
        )

    def known(self, skill: str, row: PlannedRow, stage: Place | None) -> Rollout | None:
        """The rollout if it need not run again: it was measured, or an earlier session of the run closed this
        stage with the row as invalid. Without a `stage` only a measurement counts.
        """
        lost = None if stage is None else self.rollouts.closed_invalid(str(stage), self.key(skill, row))
        if lost is None:
            return self.stored(skill, row)
        attempt, kind, detail = lost
        return Invalid(task_id=row.task.id, draw=row.draw, attempt=attempt, kind=kind, detail=detail)

    async def measure(
        self,
        skill: str,
        row: PlannedRow,
        *,
        stage: str,
        background: bool = False,
        in_empty_slots: bool = False,
        after: int | None = None,
    ) -> Rollout:
        """Run and score one rollout; one that ran before is only scored. `after` wants a later attempt. Both
        `background` and `in_empty_slots` leave slots to whoever else waits for them.
        """
        key = self.key(skill, row)
        done = self.rollouts.finished(key)
        attempt = done[0] if done else max(self.rollouts.next_attempt(key), 0 if after is None else after + 1)
        about: dict[str, Any] = {"task_id": row.task.id, "draw": row.draw, "attempt": attempt}
        self.under_way += 1
        try:
            if done:
                trajectory = done[1]
            else:
                session = partial(
                    Session,
                    self.model,
                    key=key,
                    attempt=attempt,
                    stage=stage,
                    draw=row.draw,
                    max_tokens=self.max_tokens,
                    cap_is_own_limit=self.cap_is_own_limit,
                    background=background,
                )
                # Where a worker was lost, once more from the beginning, with the replies that came.
                for tries_left in reversed(range(TRIES)):
                    try:
                        idle = background or in_empty_slots
                        async with self._environment(row, idle) as environment:
                            trajectory = await self.harness.run(
                                row.task, environment, skill, self.benchmark.prompts, session()
                            )
                        break
                    except WorkerLost:
                        if not tries_left:
                            raise
                trajectory = storable(trajectory)
                self.rollouts.keep(key, attempt, trajectory)
            score = await self._score(row.task, key, attempt, trajectory, stage, background)
        except Fault as fault:
            own = fault if fault.where else None
            return Invalid(**about, kind=fault.kind, detail=self._stored(fault.detail), error=own)
        finally:
            self.under_way -= 1
        return Scored(**about, key=key, trajectory=trajectory, score=score)

    def is_running(self, task: asyncio.Future[Rollout]) -> bool:
        """Whether that measurement has one of the workers now."""
        return task in self._under_way

    async def drain(self) -> None:
        """Wait until every rollout begun has ended and is stored: an agent's is paid as a whole."""
        while self._under_way:
            await asyncio.wait(list(self._under_way))

    def close_invalid(self, skill: str, place: Place, rows: Iterable[tuple[PlannedRow, Rollout]]) -> None:
        """The stage there closes with these rows: those that are invalid stay so."""
        self.rollouts.close_invalid(
            str(place),
            [(self.key(skill, row), rollout) for row, rollout in rows if isinstance(rollout, Invalid)],
        )

    @asynccontextmanager
    async def _environment(self, row: PlannedRow, background: bool) -> AsyncIterator[Environment | None]:
        """One of the workers, and the environment of a task meanwhile."""
        await self.slots.acquire(background=background)
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self._under_way.add(task)
        try:
            with own_code_blamed(f"opening task {row.task.id!r}"):
                environment = self._open(row.task)
            try:
                yield environment
            finally:
                if environment is not None:
                    await environment.close()
        finally:
            self._under_way.discard(task)
            self.slots.release()

    async def _score(
        self, task: Task, key: str, attempt: int, trajectory: Trajectory, stage: str, background: bool
    ) -> Score:
        with own_code_blamed(f"scoring task {task.id!r}"):
            if self.judge is not None:
                score = await self.benchmark.score_with(
                    self.judge.at(stage, background=background), task, trajectory
                )
            else:
                score = await self.benchmark.score(task, trajectory)
        for name, value in (("hard", score.hard), ("soft", score.soft)):
            if not 0.0 <= value <= 1.0:
                raise Fault(
                    "contract",
                    f"the scorer gave {name} = {value!r} for task {task.id!r}; a score lies in [0, 1]",
                )
        score = replace(
            score,
            hard=score.hard if trajectory.failure is None else 0.0,
            feedback=self._stored(score.feedback),
        )
        self.rollouts.keep_score(key, attempt, self._scorer(task), score)
        return score

    def _stored(self, text: str) -> str:
        return clean_text(self.scrub(text))

    def _scorer(self, task: Task) -> str:
        return f"{self._scored_by}:{self._task_hashes(task)[1]}"

    def _task_hashes(self, task: Task) -> tuple[str, str]:
        """A task's part of a rollout's key and of a scorer's, computed once: hashing reads its files."""
        if task.id not in self._known_tasks:
            content = json.dumps([task.content_hash, task.prompt])[1:-1]
            self._known_tasks[task.id] = (content, task.full_hash[:16])
        return self._known_tasks[task.id]


class SeveralTargets(Evaluator):
    """An evaluator whose rows go to several targets.

    The draws of a task go to the targets in turn: draw 0 to the first, draw 1 to the second, and so on. So a
    gate or a test with as many draws as there are targets measures each of them on every task, and the task
    stays the unit of a comparison. A task that is `assigned` goes to its one target in every draw.
    """

    def __init__(self, targets: Mapping[str, Evaluator], assigned: Mapping[str, int]) -> None:
        self._targets = tuple(targets.items())
        self._assigned = assigned
        widths = [target.workers for target in targets.values()]
        first = next(iter(targets.values()))
        self.workers = UNBOUNDED if UNBOUNDED in widths else max(widths)
        self.slots, self.rollouts = first.slots, first.rollouts

    def key(self, skill: str, row: PlannedRow) -> str:
        _, target, own = self._of(row)
        return target.key(skill, own)

    def stored(self, skill: str, row: PlannedRow) -> Scored | None:
        name, target, own = self._of(row)
        found = target.stored(skill, own)
        return None if found is None else replace(found, draw=row.draw, target=name)

    def known(self, skill: str, row: PlannedRow, stage: Place | None) -> Rollout | None:
        name, target, own = self._of(row)
        rollout = target.known(skill, own, stage)
        return None if rollout is None else replace(rollout, draw=row.draw, target=name)

    async def measure(self, skill: str, row: PlannedRow, **how: Any) -> Rollout:
        name, target, own = self._of(row)
        return replace(await target.measure(skill, own, **how), draw=row.draw, target=name)

    def is_running(self, task: asyncio.Future[Rollout]) -> bool:
        return any(target.is_running(task) for _, target in self._targets)

    async def drain(self) -> None:
        await together(*(target.drain() for _, target in self._targets))

    def _of(self, row: PlannedRow) -> tuple[str, Evaluator, PlannedRow]:
        index = self._assigned.get(row.task.id)
        if index is not None:
            return (*self._targets[index], row)
        draw, index = divmod(row.draw, len(self._targets))
        return (*self._targets[index], replace(row, draw=draw))
