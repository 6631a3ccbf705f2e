"""A Python function of yours as the target: `file.py:name`, or any callable in `optimize(target=...)`."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from skillopt.errors import Fault
from skillopt.harnesses._own_agent import OwnAgent, OwnAgentWork, raised
from skillopt.harnesses.port import Harness, Setup
from skillopt.models.port import ModelSpec
from skillopt.tasks.functions import is_async, load_function, place_of, source_hash

_MOST_HUNG = 32
"""Calls that may be left behind in their threads; a thread cannot be ended."""


class FunctionTarget:
    """Calls `function(task, skill)`, sync or async. A parameter named `folder` gets the skill's folder, one
    named `workspace` a folder of the rollout's own.

    It returns the answer as text, `{"answer", "trace", "usage"}`, or a `Trajectory`.
    """

    asks_model = False

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        """Without a function, the target's name says which."""
        self._given = function
        self._loaded: dict[tuple[Path, int, str], Callable[..., Any]] = {}

    def identity(self, spec: ModelSpec) -> str:
        """Changes with the function's code and the values it carries."""
        function = self._of(spec)
        return f"function {getattr(function, 'version', None) or source_hash(function)}"

    def __call__(self, setup: Setup) -> Harness:
        return FunctionAgent(self._of(setup.model), setup, version=self.identity(setup.model))

    def _of(self, spec: ModelSpec) -> Callable[..., Any]:
        if self._given is not None:
            return self._given
        name = spec.name.removeprefix("function:").strip()
        file = Path(name.rpartition(":")[0]).absolute()
        # Once for a version of the file, which may do much when it is read; in a notebook there are several.
        version = file, file.stat().st_mtime_ns if file.is_file() else 0, name
        if version not in self._loaded:
            self._loaded[version] = load_function(name, "target")
        return self._loaded[version]


class FunctionAgent(OwnAgent):
    """Calls in the loop or, of a sync function, in a thread of its own, for so many seconds at most."""

    name = "function"

    def __init__(self, function: Callable[..., Any], setup: Setup, *, version: str) -> None:
        super().__init__(setup, version=version, place=place_of(function))
        self._function = function
        self._shown = getattr(function, "__qualname__", type(function).__qualname__)
        self._timeout = setup.model.timeout
        self._hung = 0
        try:
            wanted = set(inspect.signature(function).parameters)
        except (TypeError, ValueError):  # a builtin has no signature
            wanted = set()
        self._extra = tuple(name for name in ("folder", "workspace") if name in wanted)

    async def call(self, work: OwnAgentWork) -> object:
        """Call the function with a task."""
        extra = {name: getattr(work, name) for name in self._extra}
        end = asyncio.get_running_loop().time() + self._timeout
        if is_async(self._function):
            return await self._awaited(self._function(work.task, work.skill, **extra), end)
        value = await self._in_thread(lambda: self._function(work.task, work.skill, **extra), end)
        return await self._awaited(value, end) if inspect.isawaitable(value) else value

    async def _awaited(self, value: Awaitable[object], end: float) -> object:
        task = asyncio.ensure_future(value)
        try:
            await asyncio.wait([task], timeout=end - asyncio.get_running_loop().time())
        finally:
            task.cancel()  # not awaited: it may refuse to end
        if not task.done():
            raise self._late()
        return self._result(None if (error := task.exception()) else task.result(), error)

    async def _in_thread(self, call: Callable[[], object], end: float) -> object:
        if self._hung >= _MOST_HUNG:
            raise Fault(
                "timeout", f"{self._hung} calls of {self._shown} never returned, so it is not called again"
            )
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[object, BaseException | None]] = loop.create_future()

        def run() -> None:
            # Returned, not raised: this is a stranger's code, and SystemExit must not end the run.
            try:
                outcome: tuple[object, BaseException | None] = (call(), None)
            except (Exception, SystemExit) as error:  # noqa: BLE001
                outcome = (None, error)
            with contextlib.suppress(RuntimeError):  # the loop is gone
                loop.call_soon_threadsafe(returned, outcome)

        def returned(outcome: tuple[object, BaseException | None]) -> None:
            if done.cancelled():
                self._hung -= 1
            else:
                done.set_result(outcome)

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(run,), daemon=True, name=f"skillopt {self._shown}").start()
        try:
            await asyncio.wait([done], timeout=end - loop.time())
        finally:
            if not done.done():
                done.cancel()
                self._hung += 1
        if done.cancelled():
            raise self._late()
        return self._result(*done.result())

    def _late(self) -> Fault:
        return Fault(
            "timeout", f"{self._shown} did not return within {self._timeout:g} s (model.target.timeout)"
        )

    def _result(self, value: object, error: BaseException | None) -> object:
        if error is not None:
            raise raised(error, self._shown, place_of(self._function, error)) from error
        return value


PLUGIN = FunctionTarget()
