"""A real Ray cluster of three workers on this machine: work, objects, a real agent program inside a training
run, a worker that is killed, and no credential in what Ray writes down.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from executors import _work
from promises._runs import assert_same_run
from real._agents import CLAUDE, agent_world, resolved
from skillopt import api
from skillopt.build import open_run, prepare
from skillopt.errors import Fault
from skillopt.executors.port import WorkerLost
from skillopt.executors.ray import RayCluster
from skillopt.testing import LoopbackProvider

pytest.importorskip("ray", reason="ray is not installed: pip install 'skillopt[ray]'")
pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]
PLANTED = "planted-secret-of-the-environment"
KEY = "sk-loopback-target-key"
SIZES = (
    "env.train_cases=4",
    "env.val_cases=3",
    "env.test_cases=2",
    "train.batch_size=2",
    "train.num_epochs=1",
    "evaluation.repeats=1",
    "env.workers=3",
)


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RayCluster]:
    monkeypatch.setenv("PLANTED_API_KEY", PLANTED)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    made = RayCluster(3)
    yield made
    await made.close()


def folder_of(cluster: RayCluster) -> Path:
    assert cluster._own is not None
    return cluster._own._folder


def at_work(folder: Path) -> list[int]:
    """The workers of the cluster in this folder that do something now."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            doing = (status.parent / "cmdline").read_bytes()
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            if (
                doing.startswith(b"ray::skillopt work")
                and str(folder).encode() in Path(f"/proc/{parent}/cmdline").read_bytes()
            ):
                found.append(int(status.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def holds(folder: Path, secret: str) -> list[Path]:
    """The files that hold a text."""
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


async def test_work_and_objects_on_a_cluster_behave_as_everywhere(
    cluster: RayCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await cluster.run(partial(_work.double, 4)) == 8
    began = time.monotonic()
    assert await asyncio.gather(*(cluster.run(partial(_work.double, n)) for n in range(60))) == [
        2 * n for n in range(60)
    ]
    with capsys.disabled():
        print(f"\n{1000 * (time.monotonic() - began) / 60:.1f} ms a piece of work, 60 of them on 3 workers")
    environment = await cluster.run(_work.environment)
    assert PLANTED not in environment.values()
    counter = await cluster.open(partial(_work.Counter, 5))
    assert [await counter.call("add", 3), await counter.call("add", 1)] == [8, 9]
    with pytest.raises(Fault, match="not like this") as caught:
        await counter.call("fault")
    assert caught.value.kind == "contract"
    with pytest.raises(WorkerLost):
        await counter.call("die")
    with pytest.raises(Fault):
        await counter.call("add", 1)
    await counter.close()
    with pytest.raises(Fault, match="cannot be sent"):
        await cluster.run(lambda: None)
    assert await cluster.run(partial(_work.double, 5)) == 10
    assert not holds(folder_of(cluster), PLANTED)


async def test_nothing_of_a_cluster_stays(cluster: RayCluster) -> None:
    pid = await cluster.run(_work.pid)
    folder = folder_of(cluster)
    await cluster.close()
    assert not folder.exists()
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(Fault, match="closed"):
        await cluster.run(_work.pid)


async def test_a_training_run_of_a_real_agent_is_the_same_on_the_cluster_also_with_a_worker_killed(
    tmp_path: Path, machine_env: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    killed: list[int] = []
    with LoopbackProvider.in_thread(agent_world(CLAUDE), lenient=True) as provider:
        options = [
            "env.name=world",
            *CLAUDE.options(provider, machine_env),
            f"model.optimizer=compatible:o@{provider.base_url}",
            *SIZES,
        ]
        for name, more in (("here", []), ("ray", ["env.executor=ray"])):
            job = prepare(resolved(tmp_path, *options, *more))
            began = time.monotonic()
            async with open_run(job, tmp_path / name) as opened:
                training = asyncio.ensure_future(api.train(opened))
                if more:
                    cluster = opened.targets._executor
                    assert isinstance(cluster, RayCluster)
                    while not killed and not training.done():
                        await asyncio.sleep(0.05)
                        for worker in at_work(folder_of(cluster))[:1] if cluster._own else ():
                            await asyncio.sleep(0.5)
                            os.kill(worker, signal.SIGKILL)
                            killed.append(worker)
                await training
                if more:
                    assert not holds(folder_of(cluster), KEY)
            with capsys.disabled():
                print(f"\n{name}: {time.monotonic() - began:.1f} s")
    assert killed
    assert_same_run(tmp_path / "ray", tmp_path / "here")
