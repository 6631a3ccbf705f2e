"""Sandboxed programs and command scorers in the workers of an executor: content travels, results come back as
values, and a lost worker changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from _needs import needs_bubblewrap
from skillopt.benchmarks.own import OwnBenchmark, OwnSettings
from skillopt.errors import Fault, ScoringError
from skillopt.executors import Executor
from skillopt.executors.port import TRIES, WorkerLost, run_again
from skillopt.executors.processes import ProcessPool
from skillopt.process.sandbox import ProcessLimits, Sandbox
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.scorers.own import _run_there, _texts, command_scorer

PROGRAM = (
    "import os, sys; open('out', 'wb').write(open('in', 'rb').read()[::-1]); print(os.getppid()); sys.exit(3)"
)
TASKS = [{"id": str(number), "question": f"q{number}", "answer": "a"} for number in range(10)]


@pytest.fixture
async def pool() -> AsyncIterator[Executor]:
    made = ProcessPool(1)
    yield made
    await made.close()


class Loses:
    """An executor that loses its first workers."""

    def __init__(self, inner: Executor, lost: int) -> None:
        self._inner, self.lost = inner, lost

    async def run(self, work: Callable[[], Any]) -> Any:
        if self.lost:
            self.lost -= 1
            raise WorkerLost("simulated")
        return await self._inner.run(work)

    async def open(self, make: Callable[[], object]) -> Any:
        raise AssertionError("nothing is kept")

    async def close(self) -> None: ...


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["limits", pytest.param("bubblewrap", marks=needs_bubblewrap)])
async def test_a_program_fares_the_same_in_a_worker(mode: Any, pool: Executor) -> None:
    here = Sandbox(mode, limits=ProcessLimits(seconds=20))
    there = here.elsewhere(partial(run_again, pool))
    ran = [
        await each.run(["python", "-c", PROGRAM], files={"in": b"abc"}, collect=["out", "none"])
        for each in (here, there)
    ]
    assert [(one.code, one.files, one.lost) for one in ran] == [(3, {"out": b"cba"}, {"none": "missing"})] * 2
    with pytest.raises(Fault, match="could not be started") as caught:
        await there.run(["/no/such/program"])
    assert caught.value.kind == "spawn"


async def test_a_program_whose_worker_is_lost_is_run_again(pool: Executor) -> None:
    sandbox = Sandbox("limits", limits=ProcessLimits(seconds=20))
    ran = await sandbox.elsewhere(partial(run_again, Loses(pool, TRIES - 1))).run(
        ["python", "-c", "print(1)"]
    )
    assert ran.stdout == b"1\n"
    with pytest.raises(WorkerLost):
        await sandbox.elsewhere(partial(run_again, Loses(pool, TRIES))).run(["python", "-c", "print(1)"])


def benchmark(argv: list[str], **options: Any) -> OwnBenchmark:
    return OwnBenchmark.from_tasks(TASKS, settings=OwnSettings(scorer=argv, scorer_options=options))


@pytest.mark.slow
async def test_a_command_scores_the_same_in_a_worker(tmp_path: Path, pool: Executor) -> None:
    script = tmp_path / "score.py"
    script.write_text(
        "import json, sys\njob = json.load(sys.stdin)\n"
        "if job['answer'] == 'crash': sys.exit('no')\nprint(float(job['answer'] == job['task']['reference']))\n"
    )
    here = benchmark([sys.executable, str(script)], sandbox="off")
    there = here.programs_in(Loses(pool, 1))
    assert here._scorer.executor is None  # type: ignore[attr-defined]
    assert there.scorer_version == here.scorer_version
    task = here.tasks("train")[0]
    for answer, wanted in (("a", 1.0), ("b", 0.0)):
        trajectory = Trajectory(messages=(), answer=answer, calls=1, usage=None)
        scores = [await each.score(task, trajectory) for each in (here, there)]
        assert [score.hard for score in scores] == [wanted] * 2
    with pytest.raises(ScoringError, match="ended with code 1: no"):
        await there.score(task, Trajectory(messages=(), answer="crash", calls=1, usage=None))


def test_a_script_that_is_not_on_the_worker_travels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "score.py"
    script.write_text("print(0.5)")
    scorer: Any = command_scorer(
        [sys.executable, str(script), "--x"], pass_at=None, graded=True, options={"sandbox": "off"}
    )
    texts = _texts(scorer.argv)
    assert list(texts) == [str(script)]  # not the interpreter, and no flag
    script.unlink()
    assert _run_there(scorer, texts, b"{}", tmp_path / "gone")[:2] == (0, b"0.5\n")
    script.write_text("print(0.9)")  # another version of it
    assert _run_there(scorer, texts, b"{}", tmp_path)[:2] == (0, b"0.5\n")


async def test_a_scorer_that_is_no_command_stays_where_it_is(pool: Executor) -> None:
    plain = OwnBenchmark.from_tasks(TASKS, settings=OwnSettings())
    assert plain.programs_in(pool) is plain
