"""Scores with any Python function: `f(task, answer)` returning a bool, a number from 0 to 1, or a `Score`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skillopt.errors import Fault, ScoringError
from skillopt.tasks.functions import is_async, place_of, source_hash
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers._scorer import Scorer, extract_answer, to_score
from skillopt.tasks.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionScorer:
    """A user's function. A sync one runs in a thread and holds up nobody; it has no time limit."""

    name: str
    version: str
    graded: bool | None
    function: Callable[..., Any]
    pass_at: float | None

    def check_task(self, task: Task) -> None:
        """Any task will do: only the function knows what it needs."""

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Call the function. What it raises is an error of the scorer; no score breaks its contract."""
        value, error = await self._call(task, extract_answer(trajectory.answer))
        if isinstance(error, Fault):
            raise error
        if error is not None:
            where = place_of(self.function, error)
            said = f"{type(error).__name__}: {error} ({where}, task {task.id!r})"
            raise ScoringError("judge", f"scorer {self.name} raised {said}", where=where) from error
        try:
            return to_score(value, pass_at=self.pass_at, who=f"scorer {self.name} (task {task.id!r})")
        except ScoringError as broken:
            raise ScoringError(broken.kind, broken.detail, where=place_of(self.function)) from None

    async def _call(self, task: Task, answer: str) -> tuple[Any, BaseException | None]:
        # Every exception is caught, as this is a stranger's code, and SystemExit must not end the run.
        try:
            if is_async(self.function):
                return await self.function(task, answer), None
            value, raised = await asyncio.to_thread(_guarded, self.function, task, answer)
            return (await value if inspect.isawaitable(value) else value), raised
        except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
            return None, error


def function_scorer(function: Callable[..., Any], *, pass_at: float | None, graded: bool | None) -> Scorer:
    """A scorer of a callable. Its version is its `version`, or a hash of source and carried values."""
    name = getattr(function, "__qualname__", type(function).__name__)
    if graded is None:
        graded = False if pass_at is not None else getattr(function, "graded", _says(function))
    own = getattr(function, "version", None) or source_hash(function)
    version = f"function {name} {own} pass_at={pass_at}"
    return FunctionScorer(name=name, version=version, graded=graded, function=function, pass_at=pass_at)


def _guarded(function: Callable[..., Any], task: Task, answer: str) -> tuple[Any, BaseException | None]:
    # The error is returned, not raised: a StopIteration raised into a future would hang whoever awaits it.
    try:
        return function(task, answer), None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - see `_call`
        return None, error


def _says(function: Callable[..., Any]) -> bool | None:
    """Whether the return annotation says that scores are graded; None where it says nothing."""
    try:
        said = inspect.signature(function).return_annotation
    except (TypeError, ValueError):  # builtins have no signature
        return None
    return True if said in (float, "float") else False if said in (bool, "bool") else None
