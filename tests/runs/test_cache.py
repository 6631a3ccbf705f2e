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


def test_an_earlier_run_lends_rollouts_with_their_own_scores_and_is_only_read(tmp_path: Path) -> None:
    earlier = Database(tmp_path / "earlier.db")
    earlier.keep("r", 0, said("a"))
    earlier.keep_score("r", 0, "judge", Score(hard=1, soft=1))
    paths = [tmp_path / "gone.db", tmp_path / "earlier.db"]
    run = SharedRollouts(Database(tmp_path / "run.db"), None, paths)
    assert run.scored("r", "judge") == (0, said("a"), Score(hard=1, soft=1))
    assert run.scored("r", "another judge") is None
    run.keep("new", 0, said("b"))
    run.keep_score("new", 0, "judge", Score(hard=0, soft=0))
    assert earlier.finished("new") is None and not (tmp_path / "gone.db").exists()
    own = SharedRollouts(Database(tmp_path / "own.db"), None, paths)
    own.keep("r", 0, said("mine"))
    assert own.scored("r", "judge") is None
