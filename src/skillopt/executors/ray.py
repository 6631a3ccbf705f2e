"""Runs environment work on a Ray cluster: the one that `RAY_ADDRESS` names, or one of the run's own."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import pickle
import secrets
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from skillopt.errors import ConfigError, Fault
from skillopt.executors._worker import answered, pickled, result_of
from skillopt.executors.port import ExecutorPlugin, Handle, Result, WorkerLost
from skillopt.executors.processes import worker_env
from skillopt.process import end_tree

_STARTED_WITHIN = 120.0
"""Seconds in which a cluster of our own has to be there."""
_STARTS = 2
"""Of a cluster of our own: Ray gives up after 30 seconds, which a busy machine may take."""


class RayCluster:
    """Each piece of work is a Ray task and each object a Ray actor, one CPU each, on whichever node has one.

    Work travels as a pickle and comes back as one; the nodes have the same version of SkillOpt and of Python.
    A worker that is lost is `WorkerLost`, and what it kept is lost with it: nothing is repeated here,
    as work may have been paid for. A cluster of our own listens on loopback and answers only who has its
    token; its workers get no credentials of ours in their environment.
    """

    def __init__(self, most: int) -> None:
        if find_spec("ray") is None:
            raise ConfigError("The executor 'ray' needs ray: pip install 'skillopt-trainer[ray]'")
        self._most = most
        self._own: _OwnCluster | None = None
        self._opening: asyncio.Task[Any] | None = None
        self._closed = False

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do the work in a worker of the cluster."""
        ray = await self._open()
        task = ray.remote(_run).options(num_cpus=1, max_retries=0, name="skillopt work")
        return cast(Result, await self._answer(task, pickled(work)))

    async def open(self, make: Callable[[], object]) -> Handle:
        """Make an object in a worker of its own, which ends with it."""
        ray = await self._open()
        kept = ray.remote(_Kept).options(num_cpus=1, max_restarts=0, max_task_retries=0, name=None).remote()

        async def call(method: str, *arguments: Any) -> Any:
            return await self._answer(kept.call, method, pickled(arguments))

        async def end() -> None:
            with contextlib.suppress(Exception):  # a cluster that is gone has ended it already
                ray.kill(kept)

        handle = Handle(call, end)
        try:
            await self._answer(kept.make, pickled(make))
        except BaseException:  # also when nobody waits for it any more: it must not stay there
            await handle.close()
            raise
        return handle

    async def close(self) -> None:
        """Leave the cluster, and end it where it is our own."""
        self._closed = True
        if self._opening is None:
            return
        with contextlib.suppress(ConfigError, Fault):
            ray = await self._opening
            await asyncio.to_thread(ray.shutdown)
        if self._own is not None:
            await asyncio.to_thread(self._own.end)

    async def _open(self) -> Any:
        if self._closed:
            raise Fault("sandbox", "the executor is closed")
        if self._opening is None:
            self._opening = asyncio.ensure_future(asyncio.to_thread(self._connect))
        return await asyncio.shield(self._opening)

    def _connect(self) -> Any:
        address = os.environ.get("RAY_ADDRESS")
        for tries_left in reversed(range(_STARTS)):
            if address:
                break
            if not _closed_to_others.cache_info().currsize and "ray" in sys.modules:
                raise ConfigError(
                    "ray was imported before the run could start a cluster that is closed to others. Import"
                    " it later, or start a cluster and name it: RAY_ADDRESS=HOST:PORT."
                )
            self._own = _OwnCluster(self._most)
            try:
                address = self._own.address()
            except Fault:
                if not tries_left:
                    raise
        ray = import_module("ray")  # it reads the settings of a closed cluster when it is imported
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, namespace="skillopt")
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise Fault("spawn", f"the Ray cluster at {address} cannot be reached: {error}") from error
        return ray

    async def _answer(self, remote: Any, *arguments: Any) -> Any:
        """What a remote function returned; see `answered`: Ray itself would log an error with its text."""
        try:
            answer = await remote.remote(*arguments)
        except import_module("ray").exceptions.RayError as error:
            if self._closed:
                raise Fault("sandbox", "the executor is closed") from error
            raise WorkerLost(f"a worker of the Ray cluster was lost: {type(error).__name__}") from error
        return result_of(answer)


PLUGIN: ExecutorPlugin = RayCluster


class _Kept:
    """The actor that holds one object."""

    def make(self, make: bytes) -> bytes:
        return answered(lambda: setattr(self, "made", pickle.loads(make)()))

    def call(self, method: str, arguments: bytes) -> bytes:
        return answered(lambda: getattr(self.made, method)(*pickle.loads(arguments)))  # type: ignore[attr-defined]


def _run(work: bytes) -> bytes:
    return answered(lambda: pickle.loads(work)())


@functools.cache
def _closed_to_others() -> dict[str, str]:
    """The settings that close this process's own clusters to everybody else: a credential, and loopback
    addresses alone, which Ray has on Linux under this odd name only. Ray reads them once a process.
    """
    settings = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }
    os.environ.update(settings)
    return settings


# `ray start` would open a client server, which runs whatever a caller sends. The head ends when its input
# does, also where this process was killed.
_HEAD = """
import shutil, sys, ray
head = ray.init(num_cpus=int(sys.argv[1]), include_dashboard=False, log_to_driver=False,
                _temp_dir=sys.argv[2])
print(head.address_info["address"], flush=True)
sys.stdin.read()
ray.shutdown()
shutil.rmtree(sys.argv[3], ignore_errors=True)
"""


class _OwnCluster:
    """A cluster of one node on this machine, in processes that know nothing of our environment."""

    def __init__(self, cpus: int) -> None:
        # Sockets lie in it, and the name of a socket is short. Ray opens its own folder to everybody, so that
        # one lies in a folder that stays closed.
        self._folder = Path(tempfile.mkdtemp(prefix="skillopt-ray-", dir="/tmp"))
        self._log = self._folder / "log"
        with self._log.open("wb") as log:
            self._head = subprocess.Popen(
                [sys.executable, "-c", _HEAD, str(cpus), str(self._folder / "r"), str(self._folder)],
                env=worker_env() | _closed_to_others() | {"RAY_USAGE_STATS_ENABLED": "0"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def address(self) -> str:
        """Wait until the cluster has started and return its address; raises `Fault` if it does not start."""
        assert self._head.stdout is not None
        select.select([self._head.stdout], [], [], _STARTED_WITHIN)
        os.set_blocking(self._head.stdout.fileno(), False)
        if address := (self._head.stdout.readline() or b"").decode().strip():
            return address
        reason = self._log.read_text(encoding="utf-8", errors="replace").strip()[-500:]
        self.end()
        raise Fault("spawn", f"a Ray cluster could not be started on this machine: {reason}")

    def end(self) -> None:
        """End its processes and remove what they wrote."""
        assert self._head.stdin is not None
        self._head.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._head.wait(10)
        end_tree(self._head.pid)  # also what the head left behind in its session
        self._head.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
