"""Rollouts shared between runs: a score travels only with the trajectory it was given to."""

from __future__ import annotations

from pathlib import Path

from skillopt.runs.cache import SharedRollouts
from skillopt.runs.database import Database
from skillopt.tasks.rollout import Score, Trajectory


def said(answer: str) -> Trajectory:
    return Trajectory(messages=(), answer=answer, calls=1, usage=None)


def test_a_score_of_another_run_is_taken_over_with_its_trajectory(tmp_path: Path) -> None:
    first, second = (
        SharedRollouts(Database(tmp_path / name), tmp_path / "shared.db") for name in ("one.db", "two.db")
    )
    first.keep("r", 0, said("a"))
    first.keep_score("r", 0, "judge", Score(hard=1, soft=1))
    assert second.finished("r") == (0, said("a"))
    assert second.scored("r", "judge") == (0, said("a"), Score(hard=1, soft=1))
    assert second.scored("r", "another judge") is None
    # its own from now on
    assert Database(tmp_path / "two.db").scored("r", "judge") == (0, said("a"), Score(hard=1, soft=1))


def test_a_score_is_never_that_of_another_trajectory(tmp_path: Path) -> None:
    first, second = (
        SharedRollouts(Database(tmp_path / name), tmp_path / "shared.db") for name in ("one.db", "two.db")
    )
    second.keep("r", 0, said("b"))  # both were at work at once
    first.keep("r", 0, said("a"))
    first.keep_score("r", 0, "judge", Score(hard=1, soft=1))
    assert second.scored("r", "judge") is None
    # the shared file now holds the later trajectory
    second.keep_score("r", 0, "other", Score(hard=0, soft=0))
    third = SharedRollouts(Database(tmp_path / "three.db"), tmp_path / "shared.db")
    assert third.finished("r") == (0, said("b"))
    assert third.scored("r", "judge") is None
    assert third.scored("r", "other") == (0, said("b"), Score(hard=0, soft=0))
