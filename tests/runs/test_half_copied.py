"""A run folder that was copied by half is named, whatever looks into it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillopt.errors import RunConflict
from skillopt.runs.tail import StoredTexts, asked_twice

READERS: list[Callable[[Path], Any]] = [
    lambda path: StoredTexts(path)("digest"),
    asked_twice,
]


@pytest.mark.parametrize("kept", [0, 100, 5000])
@pytest.mark.parametrize("look", READERS)
def test_a_database_that_was_copied_by_half_is_an_error_that_names_it(
    tmp_path: Path, look: Callable[[Path], Any], kept: int
) -> None:
    file = tmp_path / "run.db"
    with sqlite3.connect(file) as database:
        for table in ("skills (digest, text)", "replies (role, place, reply)", "spending (stage, place)"):
            database.execute(f"CREATE TABLE {table}")
        database.executemany("INSERT INTO skills VALUES (?, ?)", [(str(n), "x" * 900) for n in range(50)])
    database.close()
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(
        RunConflict, match=r"run\.db cannot be opened as a run's database.*Put the right file"
    ):
        look(file)
