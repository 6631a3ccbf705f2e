"""A long run stays quick to read: what it costs is measured in processor time, so that a busy machine changes
nothing.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from runs._big import big_run, keep_texts, step_events
from skillopt.runs.reader import RunList, RunReader

T = TypeVar("T")
STEPS, TASKS = 1250, 5000


def cost(work: Callable[[], T]) -> tuple[float, T]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("big") / "run"
    assert big_run(folder, steps=STEPS, tasks=TASKS) > 10_000
    return folder


@pytest.mark.slow
def test_ten_thousand_events_and_five_thousand_tasks_are_read_at_once_and_updates_at_no_cost(
    big: Path,
) -> None:
    watcher = RunReader(big)
    first, _ = cost(watcher.read)
    told, facts = cost(watcher.view)
    assert facts is not None and (len(facts.steps), len(facts.tasks)) == (STEPS, TASKS)
    drawn, marks = cost(lambda: [version.marks for version in facts.measured])
    assert len(marks[0]) == TASKS
    state = watcher.fold.state
    assert state is not None
    with (big / "events.jsonl").open("a", encoding="utf-8") as log:
        for event in step_events(state, TASKS, accepted=False):
            log.write(event.model_dump_json() + "\n")
    keep_texts(big)
    update, events = cost(watcher.read)
    again, _ = cost(watcher.view)
    idle, nothing = cost(watcher.read)
    assert len(events) == 8 and nothing == []
    print(
        f"first {first:.3f} s, view {told:.3f} s, marks {drawn:.3f} s, update {update:.4f} s, view"
        f" {again:.4f} s, idle {idle:.4f} s"
    )
    assert first + told < 3.0
    assert update + again < 0.1
    assert idle < 0.02


MEASURED = """
import sys
from pathlib import Path
import skillopt_webui.server
from skillopt_webui.render.run import screen
from skillopt.runs.tasks import growth
from skillopt.runs.reader import RunReaders
facts = RunReaders()(Path(sys.argv[1])).view()
screen(facts, growth(facts))
told = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) / 1000 for line in told if line.startswith("VmHWM:")))  # the most it ever held
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")
def test_a_server_that_shows_a_long_run_holds_no_more_than_150_megabytes(big: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(big)], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 150


@pytest.mark.slow
def test_a_list_reads_a_long_run_in_part_only(big: Path) -> None:
    listing = RunList()
    first, _ = cost(lambda: listing.read([big]))
    again, rows = cost(lambda: listing.read([big]))
    assert [row.started.steps for row in rows.values()] == [STEPS + 10]
    assert first < 1.0
    assert again < 0.02
