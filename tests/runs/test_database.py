"""The file of a run: what is told of one that another program holds."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from skillopt.account import Amount
from skillopt.errors import Stopped
from skillopt.runs import database


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
