"""TensorBoard reads what a run wrote, with its own reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillopt.events import TestMeasured
from trackers._runs import STEPS, trained, val_curve

pytestmark = pytest.mark.slow  # its import alone takes a second


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder))
    read.Reload()
    return {tag: [(point.step, point.value) for point in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


async def test_the_curves_tensorboard_reads_are_those_of_the_log(tmp_path: Path) -> None:
    events = await trained(tmp_path / "run", "tracking.use=tensorboard")
    found = scalars(tmp_path / "run" / "tracking" / "tensorboard")
    assert {step: round(value, 4) for step, value in found["val/best"]} == {
        step: round(v, 4) for step, v in val_curve(events).items()
    }
    assert [step for step, _ in found["train/hard"]] == list(range(1, STEPS + 1))
    (test,) = [event for event in events if isinstance(event, TestMeasured)]
    best = [row.hard for row in test.rows["best"] if row.hard is not None]
    assert round(found["test/best/hard"][0][1], 4) == round(sum(best) / len(best), 4)


async def test_a_run_in_two_sessions_has_every_point_once(tmp_path: Path) -> None:
    await trained(tmp_path / "run", "tracking.use=tensorboard", stop_after=2)
    await trained(tmp_path / "run", "tracking.use=tensorboard")
    found = scalars(tmp_path / "run" / "tracking" / "tensorboard")
    assert [step for step, _ in found["train/hard"]] == list(range(1, STEPS + 1))


async def test_a_tracker_that_comes_later_is_told_what_it_missed(tmp_path: Path) -> None:
    await trained(tmp_path / "run", stop_after=2)
    await trained(tmp_path / "run", "tracking.use=tensorboard")
    found = scalars(tmp_path / "run" / "tracking" / "tensorboard")
    assert [step for step, _ in found["train/hard"]] == list(range(1, STEPS + 1))


async def test_texts_are_sent_only_when_asked_for(tmp_path: Path) -> None:
    await trained(tmp_path / "quiet", "tracking.use=tensorboard")
    await trained(tmp_path / "told", "tracking.use=tensorboard", "tracking.texts=true")
    skill = (tmp_path / "told" / "best_skill.md").read_bytes()
    word = max(skill.split(), key=len)

    def holds(run: str) -> bool:
        return any(
            word in file.read_bytes() for file in (tmp_path / run / "tracking" / "tensorboard").iterdir()
        )

    assert holds("told") and not holds("quiet")
