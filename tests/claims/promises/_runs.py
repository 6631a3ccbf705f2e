"""Small simulated training runs for the promise tests: how one is started, and what makes two
of them equal.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from _comparable import VOLATILE, comparable
from claims._product import (
    DATABASE,
    EVENTS,
    Benchmark,
    Event,
    Job,
    Retry,
    RoleSpec,
    Sink,
    api,
    asked_by,
    at_kept,
    is_run,
    kept_addresses,
    load,
    open_run,
    prepare,
    read_events,
    skillopt,
)

QUICK = Retry(attempts=3, seconds=5.0, first_delay=0.01, longest_delay=0.05)
"""Retries for a provider on this machine."""
UNEQUAL_IN_HISTORY = ("timing", "wall_time_s")
SRC, TESTS = Path(skillopt.__file__).parents[1], Path(__file__).parents[2]
MEMORY_DISK = Path("/dev/shm")


def make_job(options: Sequence[str], *, benchmark: Benchmark | None = None) -> Job:
    """A job of the simulated world; `options` are dotted keys as `--cfg-options` takes them."""
    resolved = load(None, flags={}, options=["env.name=world", *options], environ={}, cwd=Path.cwd())
    return as_one_server(prepare(resolved, benchmark=benchmark))


def as_one_server(job: Job) -> Job:
    """The job with all its providers at their own address, as `--same-model` can have it: the providers of a
    test have new ports each time, and what is compared or resumed is a run with the same models.
    """

    def moved(spec: RoleSpec) -> RoleSpec:
        return spec.at("")

    targets = tuple(replace(one, spec=moved(one.spec)) for one in job.targets)
    judge = None if job.judge is None else moved(job.judge)
    return replace(
        job, target=moved(job.target), optimizer=moved(job.optimizer), judge=judge, targets=targets
    )


def in_world(target: str = "world", *options: str) -> tuple[str, ...]:
    """Options of a run in which the named model plays both roles."""
    return (f"model.target={target}", f"model.optimizer={target}", *options)


def with_same_model(job: Job, folder: Path) -> Job:
    """The job as `--same-model` makes it, where the run in a folder was begun with providers at other ports."""
    kept = kept_addresses(asked_by(job), folder, job.identity(), same_model=is_run(folder))
    return at_kept(job, kept)


async def run(job: Job, folder: Path, *, sinks: Sequence[Sink] = ()) -> api.Result:
    """Train in a folder, or go on with what is there."""
    async with open_run(job, folder, sinks=sinks, retry=QUICK) as opened:
        return await api.train(opened)


def events_of(folder: Path) -> list[Event]:
    """Every event in a run's log."""
    return read_events(folder / EVENTS)


def facts(folder: Path) -> list[Any]:
    """The decided facts of a run, in order, without what equal runs may differ in."""
    return [comparable(event) for event in events_of(folder) if event.id is not None]


def verdicts(folder: Path) -> list[Any]:
    """Everything the gate said, in order."""
    return _verdicts(facts(folder))


def history(folder: Path) -> list[dict[str, Any]]:
    """`history.json` without the fields that hold durations."""
    steps = json.loads((folder / "history.json").read_text(encoding="utf-8"))
    return [{name: value for name, value in step.items() if name not in UNEQUAL_IN_HISTORY} for step in steps]


def summary(folder: Path) -> dict[str, Any]:
    """What `summary.json` holds."""
    return dict(json.loads((folder / "summary.json").read_text(encoding="utf-8")))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its relative name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def assert_same_run(folder: Path, undisturbed: Path) -> None:
    """Both folders hold the same run: skill byte for byte, verdicts, history, and every decided fact once and
    in order.
    """
    told, expected = facts(folder), facts(undisturbed)
    assert _verdicts(told) == _verdicts(expected)
    for one, other in zip(told, expected, strict=False):
        assert one == other, f"the facts differ first at {other['id']}"
    assert len(told) == len(expected)
    assert history(folder) == history(undisturbed)
    assert (folder / "best_skill.md").read_bytes() == (undisturbed / "best_skill.md").read_bytes()


@contextmanager
def database_of(folder: Path) -> Iterator[sqlite3.Connection]:
    """A copy of a run's database as it lies on the disk; the original is not opened, so nothing of a crash is
    mended by looking.
    """
    with tempfile.TemporaryDirectory() as aside:
        for path in folder.glob(f"{DATABASE}*"):
            if not path.name.endswith("-shm"):  # an index of the write-ahead log that SQLite rebuilds
                shutil.copy(path, aside)
        database = sqlite3.connect(Path(aside) / DATABASE)
        try:
            yield database
        finally:
            database.close()


def committed(folder: Path) -> set[tuple[str, int]]:
    """Place and draw of every question whose answer a run has kept."""
    if not (folder / DATABASE).exists():
        return set()
    with database_of(folder) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'replies'").fetchone():
            return set()
        return set(database.execute("SELECT place, draw FROM replies"))


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder for many short runs, in memory where the system has such a disk: waiting for a real one is not
    what they test.
    """
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None) as folder:
        yield Path(folder)


def _verdicts(told: Sequence[Any]) -> list[Any]:
    return [fact for fact in told if fact["type"] == "judged"]


_NOT_PUBLIC = ("summary.json", "settings.json", "config.json", ".lock", EVENTS, DATABASE)


def public_files(folder: Path) -> dict[str, Any]:
    """What a run exports, by relative name; JSON without its durations. `summary.json` tells of money really
    paid, so it stays out.
    """
    files = {
        name: data
        for name, data in contents(folder).items()
        if not name.startswith(_NOT_PUBLIC) and not name.endswith(".tmp")
    }
    return {
        name: _without_times(json.loads(data)) if name.endswith(".json") else data
        for name, data in files.items()
    }


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(item) for name, item in value.items() if name not in VOLATILE}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


_TRAIN = """
import asyncio, sys
from pathlib import Path
from claims.promises._runs import make_job
from skillopt import run as api
from skillopt.run import open_run

async def main(folder, *options):
    async with open_run(make_job(options), Path(folder)) as opened:
        await api.train(opened)

asyncio.run(main(*sys.argv[1:]))
"""


def start_process(folder: Path, options: Sequence[str]) -> subprocess.Popen[str]:
    """Train in a process of its own; the same command goes on with what is there."""
    return subprocess.Popen(
        [sys.executable, "-c", _TRAIN, str(folder), *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SRC, TESTS)))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
