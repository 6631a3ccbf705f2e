"""A real Ray cluster of three workers on this machine: work, objects, a real agent program inside a training
run, a worker that is killed, and no credential in what Ray writes down.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import stat
import sys
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from _loopback import Answer, Call, LoopbackProvider
from _needs import needs_bubblewrap
from benchmarks._workbooks import make_data
from benchmarks.test_spreadsheetbench_training import RULE, scripted
from claims.promises._runs import assert_same_run
from executors import _work
from real._agents import CLAUDE, agent_world, resolved
from skillopt.benchmarks.alfworld import PLUGIN, ALFWorldSettings
from skillopt.errors import Fault
from skillopt.executors.port import WorkerLost
from skillopt.executors.ray import RayCluster
from skillopt.messages import ToolCall
from skillopt.run import open_run, prepare, train

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="needs ray: pip install 'skillopt-trainer[ray]'"),
    pytest.mark.real,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("ray"),  # one cluster at a time
]
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
                doing.startswith((b"ray::skillopt work", b"ray::_Kept"))
                and str(folder).encode() in Path(f"/proc/{parent}/cmdline").read_bytes()
            ):
                found.append(int(status.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def holds(folder: Path, secret: str) -> list[Path]:
    """The files that hold a text."""
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


async def test_work_and_objects_on_a_cluster_behave_as_everywhere_and_nothing_of_it_stays(
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
    folder, pid = folder_of(cluster), await cluster.run(_work.pid)
    assert not holds(folder, PLANTED)
    await cluster.close()
    assert not folder.exists()
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(Fault, match="closed"):
        await cluster.run(_work.pid)


async def listening(folder: Path) -> list[str]:
    """The addresses at which the processes of this cluster wait for connections."""
    mine = {str(pid) for pid in members(folder)}
    found = await asyncio.create_subprocess_exec("ss", "-ltnpH", stdout=asyncio.subprocess.PIPE)
    lines = (await found.communicate())[0].decode().splitlines()
    return [line.split()[3] for line in lines if mine & set(re.findall(r"pid=(\d+)", line))]


def members(folder: Path) -> list[int]:
    """The processes of this cluster: those of the session that its head began, and this one."""
    found = [os.getpid()]
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            session = int(status.read_text().rpartition(")")[2].split()[3])
            if str(folder).encode() in Path(f"/proc/{session}/cmdline").read_bytes():
                found.append(int(status.parent.name))
    return found


@pytest.mark.skipif(shutil.which("ss") is None, reason="needs ss, of iproute2")
async def test_a_cluster_of_our_own_is_closed_to_everybody_else(cluster: RayCluster) -> None:
    assert await cluster.run(partial(_work.double, 4)) == 8
    folder = folder_of(cluster)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    addresses = await listening(folder)
    assert len(addresses) > 4
    assert all(re.match(r"(\[::ffff:)?127\.0\.0\.1\]?:\d+$", one) for one in addresses), addresses

    address = import_module("ray").get_runtime_context().gcs_address
    program = (
        f"import ray; ray.init({address!r}); print('in', ray.get(ray.remote(lambda: 1).remote()), flush=True)"
    )
    bare = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "none"),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }
    bare["RAY_gcs_server_request_timeout_seconds"] = "5"
    tokens = {"none": {}, "another": {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64}}
    tokens["ours"] = {name: os.environ[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
    strangers = {
        name: await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, env=bare | token, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        for name, token in tokens.items()
    }  # fmt: skip
    ended = {name: (await stranger.communicate())[0].decode().strip() for name, stranger in strangers.items()}
    assert ended == {"none": "", "another": "", "ours": "in 1"}


async def trained(folder: Path, options: list[str], *, kill: bool, secret: str) -> tuple[float, list[int]]:
    """Train here, or on a cluster of our own whose first busy worker is killed; seconds, and who was killed."""
    killed: list[int] = []
    job = prepare(resolved(folder.parent, *options))
    began = time.monotonic()
    async with open_run(job, folder) as opened:
        training = asyncio.ensure_future(train(opened))
        cluster = opened.targets.executor
        while kill and not killed and not training.done():
            assert isinstance(cluster, RayCluster)
            await asyncio.sleep(0.05)
            for worker in at_work(folder_of(cluster))[:1] if cluster._own else ():
                await asyncio.sleep(0.5)
                with contextlib.suppress(ProcessLookupError):  # its work was done already
                    os.kill(worker, signal.SIGKILL)
                    killed.append(worker)
        await training
        if kill:
            assert isinstance(cluster, RayCluster)
            assert not holds(folder_of(cluster), secret)
    return time.monotonic() - began, killed


async def assert_same_on_a_cluster(
    folder: Path, options: list[str], show: pytest.CaptureFixture[str], *, secret: str = KEY
) -> None:
    """The run on a cluster of three workers, one of them killed, is the run without: facts, verdicts, skill."""
    here, _ = await trained(folder / "here", options, kill=False, secret=secret)
    there, killed = await trained(folder / "ray", [*options, "env.executor=ray"], kill=True, secret=secret)
    with show.disabled():
        print(f"\n{here:.1f} s here, {there:.1f} s on the cluster, start and a killed worker included")
    assert killed
    assert_same_run(folder / "ray", folder / "here")


async def test_a_training_run_of_a_real_agent_is_the_same_on_the_cluster_also_with_a_worker_killed(
    tmp_path: Path, machine_env: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with LoopbackProvider.in_thread(agent_world(CLAUDE), lenient=True) as provider:
        options = [
            "env.name=world",
            *CLAUDE.options(provider, machine_env),
            f"model.optimizer=compatible:o@{provider.base_url}",
            *SIZES,
        ]
        await assert_same_on_a_cluster(tmp_path, options, capsys)


@needs_bubblewrap
async def test_workbooks_and_programs_travel_to_the_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = make_data(tmp_path / "data", 6, cases=2)
    with LoopbackProvider.in_thread(scripted, api_key=KEY) as provider:
        model = f"compatible:m@{provider.base_url}"
        options = [
            "env.name=spreadsheetbench",
            f"env.data_path={data / 'dataset.json'}",
            "env.split_ratio=1:1:0",
            f"model.target={model}",
            f"model.optimizer={model}",
            f"model.target.api_key={KEY}",
            f"model.optimizer.api_key={KEY}",
            "train.batch_size=3",
            "train.num_epochs=1",
            "optimizer.use_slow_update=false",
            "optimizer.use_meta_skill=false",
            "env.workers=3",
        ]
        await assert_same_on_a_cluster(tmp_path, options, capsys)
    assert RULE in (tmp_path / "ray" / "best_skill.md").read_text()


async def test_games_are_played_the_same_on_the_cluster(
    tmp_path: Path, test_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(
        "textworld", reason="textworld is not installed: pip install 'skillopt-trainer[alfworld]'"
    )
    games = test_data / "alfworld"
    plans: dict[str, list[str]] = {}
    for split, wanted in (("train", 2), ("val", 3)):
        rows = json.loads((games / "split" / split / "items.json").read_text())[:wanted]
        (tmp_path / "split" / split).mkdir(parents=True)
        (tmp_path / "split" / split / "items.json").write_text(json.dumps(rows))
    benchmark = PLUGIN(ALFWorldSettings(split_dir=tmp_path / "split", data_root=games))
    for task in (*benchmark.tasks("train"), *benchmark.tasks("val")):
        plans[task.prompt] = json.loads((games / task.data["gamefile"]).read_text())["walkthrough"]

    def answer(call: Call) -> Answer:
        if not (call.place or "").startswith("rollout/"):
            edits = [{"op": "append", "content": "- Follow the plan of the house."}]
            said = {"reasoning": "r", "edits": edits, "patch": {"reasoning": "r", "edits": edits}}
            return Answer(text=json.dumps(said))
        plan = next(plan for prompt, plan in plans.items() if prompt in call.text)
        follows = "Follow the plan" in call.text and len(call.results) < len(plan)
        action = plan[len(call.results)] if follows else "look"
        called = ToolCall(id=f"c{len(call.results)}", name="act", arguments=json.dumps({"action": action}))
        return Answer(tool_calls=(called,))

    with LoopbackProvider.in_thread(answer, api_key=KEY) as provider:
        model = f"compatible:m@{provider.base_url}"
        options = [
            "env.name=alfworld",
            f"env.split_dir={tmp_path / 'split'}",
            f"env.data_root={games}",
            "env.max_steps=12",
            f"model.target={model}",
            f"model.optimizer={model}",
            f"model.target.api_key={KEY}",
            f"model.optimizer.api_key={KEY}",
            "train.num_epochs=1",
            "train.batch_size=2",
            "evaluation.repeats=1",
            "optimizer.use_slow_update=false",
            "optimizer.use_meta_skill=false",
            "env.workers=3",
        ]
        await assert_same_on_a_cluster(tmp_path, options, capsys)
