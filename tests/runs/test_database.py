"""The file of a run: what is told of one that another program holds."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from skillopt.errors import Stopped
from skillopt.messages import Usage
from skillopt.money import Amount
from skillopt.runs import database
from skillopt.tasks.rollout import Score, Trajectory


def test_who_is_refused_once_does_not_wait_for_the_lock_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call in flight notes its end: each waiting in turn would keep a stopped run for minutes."""
    monkeypatch.setattr(database, "PATIENCE", 0.05)
    kept = database.Database(tmp_path / "run.db")
    patience = "PRAGMA busy_timeout"
    assert kept._db.execute(patience).fetchone() == (50,)
    with closing(sqlite3.connect(tmp_path / "run.db", isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            with pytest.raises(Stopped, match="locked"):
                kept.open("target", "rollout", "rollout/a.0/0", Amount())
            assert kept._db.execute(patience).fetchone() == (0,)
    kept.shut()


@pytest.mark.parametrize("damage", [b'{"a": \xff', b'{"hard": 1,, "soft"', b"1/0", b"[]"], ids=repr)
def test_what_is_damaged_in_a_record_stops_in_words(tmp_path: Path, damage: bytes) -> None:
    """The file itself is sound, so only reading the record finds it."""
    kept = database.Database(tmp_path / "run.db")
    entry = kept.open("target", "rollout", "rollout/a.0/0", Amount())
    kept.close(
        entry,
        "settled",
        Amount(calls=1, tokens=3, usd=Fraction(1, 2)),
        Usage(input_tokens=1, output_tokens=2),
    )
    kept.keep("a", 0, Trajectory(messages=(), answer="x", calls=1, usage=None))
    kept.keep_score("a", 0, "exact:1", Score(hard=1.0, soft=1.0))
    kept.note("identity", "{}")
    assert kept.scored("a", "exact:1") and list(kept.entries())
    places = ("trajectories SET trajectory", "scores SET score", "spending SET usd", "meta SET value")
    for place in places:
        kept._db.execute(f"UPDATE {place} = CAST(? AS TEXT)", (damage,))
    reads = [
        lambda: kept.scored("a", "exact:1"),
        lambda: kept.scores(["a"]),
        lambda: list(kept.entries()),
        lambda: kept.noted_as(float, "identity"),
    ]
    for read in reads:
        with pytest.raises(Stopped, match="put the right file back"):
            read()
    kept.shut()
