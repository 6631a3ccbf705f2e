"""A `run.db` that somebody made to hang or mislead whoever looks into it is named as damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from skillopt.errors import RunConflict, Stopped
from skillopt.messages import Usage
from skillopt.money import Amount
from skillopt.runs.database import Database
from skillopt.runs.reader import RunList
from skillopt.runs.tail import DatabaseTail, StoredTexts, asked_twice, task_digests

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, '' FROM n"
DOORS: list[Callable[[Path], Any]] = [
    Database,
    Database.reading,
    lambda path: DatabaseTail(path).read(),
    lambda path: StoredTexts(path)("digest"),
    task_digests,
    asked_twice,
]


@pytest.fixture
def paid(tmp_path: Path) -> Path:
    """A database with one call that was paid."""
    path = tmp_path / "run.db"
    database = Database(path)
    entry = database.open("target", "rollout", "rollout/a.0/0", Amount(calls=1, tokens=9))
    spent = Amount(calls=1, tokens=3, usd=Fraction("0.0000123"))
    database.close(entry, "settled", spent, Usage(input_tokens=1, output_tokens=2))
    database.shut()
    return path


@pytest.mark.parametrize("look", DOORS)
@pytest.mark.parametrize(
    "trap",
    [
        f"DROP TABLE skills; CREATE VIEW skills (digest, text) AS {ENDLESS}",
        "CREATE TRIGGER t AFTER INSERT ON spending BEGIN DELETE FROM spending; END",
        "DROP TABLE skills; CREATE TABLE skills (digest TEXT, text TEXT AS (hex(zeroblob(digest))))",
        "CREATE INDEX i ON meta (length(value))",
    ],
    ids=["view", "trigger", "computed", "index"],
)
def test_what_no_run_makes_is_refused_wherever_a_database_is_opened(
    paid: Path, look: Callable[[Path], Any], trap: str
) -> None:
    with closing(sqlite3.connect(paid)) as database:
        database.executescript(trap)
    with pytest.raises(RunConflict, match=r"run\.db cannot be opened as a run's database: it holds"):
        look(paid)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("usd", "1e9999999"),
        ("usd", "-5"),
        ("usd", "1/0"),
        ("usd", "1/3"),
        ("usd", "9" * 100),
        ("usd", "nan"),
        ("usd", b"1"),
        ("calls", -1),
        ("tokens", "many"),
        ("tokens", 1e300),
        ("reserved", -7),
        ("role", b"target"),
        ("state", "gone"),
        ("usage", '{"input_tokens": "9", "output_tokens": 2}'),
        ("usage", '{"input_tokens": -9, "output_tokens": 2}'),
        ("usage", '{"input_tokens": null, "output_tokens": 2}'),
        ("usage", "[" * 100_000),
    ],
    ids=lambda one: repr(one)[:12],
)
def test_a_figure_that_no_run_writes_is_damage_and_neither_a_sum_nor_a_hang(
    paid: Path, column: str, value: Any
) -> None:
    with closing(sqlite3.connect(paid)) as database, database:
        database.execute(f"UPDATE spending SET {column} = ?", (value,))
    with pytest.raises(RunConflict, match=r"run\.db is damaged"):
        DatabaseTail(paid).read()
    with pytest.raises(Stopped, match=r"run\.db cannot be used"):
        list(Database(paid).entries())


@pytest.mark.parametrize("seconds", ["inf", "nan", "-1", "1e300", "soon"])
def test_a_time_that_no_run_took_is_damage(paid: Path, seconds: str) -> None:
    with closing(sqlite3.connect(paid)) as database, database:
        database.execute("INSERT OR REPLACE INTO meta VALUES ('seconds', ?)", (seconds,))
    with pytest.raises(RunConflict, match=r"run\.db is damaged"):
        DatabaseTail(paid).read()


def test_a_list_of_runs_names_the_damaged_one(paid: Path) -> None:
    (paid.parent / "events.jsonl").touch()
    with closing(sqlite3.connect(paid)) as database, database:
        database.execute("UPDATE spending SET usd = '1e9999999'")
    [found] = RunList().read([paid.parent]).values()
    assert isinstance(found, str) and "is damaged" in found


def test_what_a_run_writes_is_read_back(paid: Path) -> None:
    news = DatabaseTail(paid).read()
    assert news is not None and news.entries[0].charged.usd == Fraction(123, 10**7)
    with Database(paid) as database:
        assert [entry.charged.tokens for entry in database.entries()] == [3]
