"""Where a watched run stands: the stages of its open step, and a time left that rests on what
its log tells.
"""

from __future__ import annotations

import sys
import threading
from datetime import datetime, timezone
from typing import Any

import pytest

from runs._log import record, state
from skillopt.events import Checkpoint, RunStarted, StageClosed, StageOpened, Updated
from skillopt.money import Amount, Entry
from skillopt.runs.status import RunStatus
from skillopt.runs.tail import LedgerView
from skillopt.runs.words import LONGEST_MARKS, marks

NOW = 1_800_000_000.0


def at(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, timezone.utc).isoformat(timespec="milliseconds")


def closed(step: int, took: float, *, when: float, **changes: Any) -> Checkpoint:
    told = record(step, wall_time_s=took, timing={"evaluate_s": 10.0}, selection_rows_all=20)
    whole = state(step=step, **changes)
    return Checkpoint(id=f"s{step}", time=at(when), kind="step", state=whole, record=told)


@pytest.fixture
def status() -> RunStatus:
    status = RunStatus(epochs=2, clock=lambda: NOW)
    counts = {"train": 20, "val": 10, "test": 30}
    status(
        RunStarted(
            id="run",
            identity="x",
            benchmark="b",
            target="t",
            optimizer="o",
            simulated=False,
            steps=6,
            counts=counts,
        )
    )
    return status


def strip(status: RunStatus) -> dict[str, str]:
    return {stage.name: stage.state for stage in status.strip()}


def test_the_time_left_is_the_median_step_for_those_to_come_and_the_test_at_the_pace_of_a_gate(
    status: RunStatus,
) -> None:
    assert status.seconds_left() is None and status.left_in_words() == "time left known after the first step"
    for number, took in enumerate((100.0, 1.0, 110.0), start=1):  # the second was half paid before a stop
        status(closed(number, took, when=-40.0))
    assert status.seconds_left() == pytest.approx(3 * 100.0 - 40.0 + 2 * 30 / 2.0)


def test_a_run_that_nobody_works_on_does_not_come_nearer_to_its_end(status: RunStatus) -> None:
    status(closed(1, 100.0, when=-86400.0))
    assert status.seconds_left() == pytest.approx(5 * 100.0 - 100.0 + 30.0)


def test_where_a_run_was_left_is_said_as_such(status: RunStatus) -> None:
    status(closed(1, 100.0, when=-40.0))
    assert status.position() == "epoch 1/2, step 2/6"
    status.is_at_work = False
    assert (status.position(), status.left_in_words()) == (
        "stopped in epoch 1/2, step 2/6",
        "nobody works on it",
    )


def test_the_strip_tells_what_is_done_under_way_and_to_come(status: RunStatus) -> None:
    assert set(strip(status).values()) == {"ahead"}
    status(StageOpened(place="baseline", stage="selection", total=10))
    assert strip(status)["baseline"] == "now"
    status(closed(1, 1.0, when=0))
    assert strip(status) == {name: "done" if name == "baseline" else "ahead" for name in strip(status)}
    status(StageClosed(id="r", place="e1/s2", stage="rollout", rows=[]))
    assert (strip(status)["rollout"], strip(status)["reflect"], strip(status)["gate"]) == (
        "done",
        "now",
        "ahead",
    )
    status(Updated(id="u", place="e1/s2", digest="x", skill="x", outcomes=[]))
    assert (strip(status)["update"], strip(status)["gate"], strip(status)["sealed test"]) == (
        "done",
        "now",
        "ahead",
    )
    status(closed(6, 1.0, when=0, finished=True))
    assert (
        set(strip(status).values()) == {"done"} and status.position() == status.left_in_words() == "finished"
    )


def test_marks_of_a_long_run_are_those_of_its_latest_steps() -> None:
    assert marks(["accept_new_best", "reject", "unchanged", "inconclusive", "force_accept"]) == "●×○?◆"
    long = marks(["accept"] + ["reject"] * LONGEST_MARKS)
    assert long == "…" + "×" * LONGEST_MARKS


def test_spending_can_be_read_while_it_is_taken_in() -> None:
    spending = LedgerView(lambda: 0.0)
    spending.is_at_work = True
    stop = threading.Event()
    broken: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                spending.account.by_role_and_stage()
                spending.flights()
                spending.settled()
        except RuntimeError as error:  # a dictionary that changed while it was read
            broken.append(error)

    reader = threading.Thread(target=read)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        reader.start()
        for first in range(1, 4001, 400):
            for state in ("open", "settled"):
                for number in range(first, first + 400):
                    spending.take(
                        [
                            Entry(
                                id=number,
                                role="target",
                                stage=f"s{number % 97}",
                                place=f"p{number}",
                                state=state,
                                charged=Amount(calls=1, tokens=5),
                                reserved=5,
                            )
                        ]
                    )
    finally:
        stop.set()
        reader.join(10)
        sys.setswitchinterval(before)
    assert broken == []
    assert spending.account.total().calls == 4000
