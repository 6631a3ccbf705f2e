"""Opens a run's database and reads its ledger strictly: it may be another's, made to hang or mislead."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, get_args

from skillopt.errors import RunConflict
from skillopt.events import SCHEMA
from skillopt.messages import Usage
from skillopt.money import Amount, Entry, Settlement

PATIENCE = 30.0
"""Seconds to wait for a program that holds the file."""
TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS replies (
  key TEXT PRIMARY KEY, role TEXT NOT NULL, stage TEXT NOT NULL, place TEXT NOT NULL,
  draw INTEGER NOT NULL, reply TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS trajectories (
  rollout TEXT NOT NULL, attempt INTEGER NOT NULL, trajectory TEXT NOT NULL, PRIMARY KEY (rollout, attempt));
CREATE TABLE IF NOT EXISTS invalid (
  rollout TEXT NOT NULL, attempt INTEGER NOT NULL, stage TEXT NOT NULL, kind TEXT NOT NULL,
  detail TEXT NOT NULL, PRIMARY KEY (rollout, attempt, stage));
CREATE TABLE IF NOT EXISTS scores (
  rollout TEXT NOT NULL, attempt INTEGER NOT NULL, scorer TEXT NOT NULL, score TEXT NOT NULL,
  PRIMARY KEY (rollout, attempt, scorer));
CREATE TABLE IF NOT EXISTS spending (
  id INTEGER PRIMARY KEY, role TEXT NOT NULL, stage TEXT NOT NULL, place TEXT NOT NULL, state TEXT NOT NULL,
  calls INTEGER NOT NULL, tokens INTEGER NOT NULL, reserved INTEGER NOT NULL, usd TEXT, usage TEXT);
CREATE TABLE IF NOT EXISTS skills (digest TEXT PRIMARY KEY, text TEXT NOT NULL);
"""
ENTRIES = "SELECT id, role, stage, place, state, calls, tokens, reserved, usd, usage FROM spending"
_PRICE = re.compile(r"\d{1,60}(/[1-9]\d{0,59})?", re.ASCII)
_TENS = 10**200
_STATES = get_args(Settlement)


def other_version(path: Path, version: object) -> RunConflict:
    """What is said of a folder whose files have another form."""
    return RunConflict(
        f"{path} was written by another version of SkillOpt (form {version}, this one reads {SCHEMA});"
        " nothing was changed. Use the version it was written with, or name another folder with --out_root."
    )


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """What SQLite finds wrong inside, as an error that names the file: it may be damaged or half copied."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter: SQLite quotes a damaged schema
        raise _not_ours(path, error) from error


def check_form(database: sqlite3.Connection, path: Path) -> None:
    """Raise `RunConflict` for another version, and for what no run makes: a view or a computed column answers
    whatever it likes, or never.
    """
    version = database.execute("PRAGMA user_version").fetchone()[0]
    held = _form_of(database)
    if version != SCHEMA and held:
        raise other_version(path, version or 1)
    if odd := held - _own_form():
        name, _ = min(odd)
        raise _not_ours(path, f"it holds {name!r} in a form that no run makes")


def _form_of(database: sqlite3.Connection) -> set[tuple[str, str]]:
    """What a file holds, each with the statement that makes it; SQLite's own indexes have none."""
    found = database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {(str(name), " ".join(str(sql).split())) for name, sql in found}


@cache
def _own_form() -> set[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(TABLES)
        return _form_of(database)


def _not_ours(path: Path, why: object) -> RunConflict:
    return RunConflict(
        f"{path} cannot be opened as a run's database: {why}. Put the right file back, or use another folder."
    )


def connect_reading(path: Path) -> sqlite3.Connection:
    """A connection that can only look; a new one sees what was written since the last."""
    # Without a log beside it nobody writes, and an immutable file is read without making one.
    is_still = not path.with_name(path.name + "-wal").exists()
    name = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_still else ''}"
    database = sqlite3.connect(name, uri=True, isolation_level=None, timeout=PATIENCE)
    try:
        check_form(database, path)
    except BaseException:
        database.close()
        raise
    return database


def connect_writing(path: Path) -> sqlite3.Connection:
    """A connection that can write. Refuses a journal that ends with a file's name: SQLite would delete it."""
    journal = path.with_name(f"{path.name}-journal")
    if journal.is_file() and journal.read_bytes().endswith(bytes.fromhex("d9d505f920a163d7")):
        raise _not_ours(path, f"{journal.name} names a file to delete, as no run does")
    database = sqlite3.connect(path, isolation_level=None, timeout=PATIENCE)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    check_form(database, path)
    return database


def entry_of(row: Sequence[Any]) -> Entry:
    """One row of `ENTRIES`. Raises `ValueError` or `TypeError` for what no run writes."""
    number, role, stage, place, state, calls, tokens, reserved, usd, usage = row
    if state not in _STATES or not all(isinstance(one, str) for one in (role, stage, place)):
        raise ValueError(f"entry {number} of the ledger has no role, stage, place and state")
    return Entry(
        id=number,
        role=role,
        stage=stage,
        place=place,
        state=state,
        charged=Amount(
            calls=_count(calls), tokens=_count(tokens), usd=None if usd is None else _known_price(usd)
        ),
        reserved=_count(reserved),
        usage=None if usage is None else _known_usage(usage),
    )


def _count(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r:.50} is no count")
    return value


@lru_cache(maxsize=1024)
def _known_price(text: str) -> Fraction:
    """A price in dollars. Prices repeat, and reading one takes longer than all else of an entry."""
    price = Fraction(text) if _PRICE.fullmatch(text) else None
    # Of a decimal price the denominator divides a power of ten; sums of others grow without end.
    if price is None or _TENS % price.denominator:
        raise ValueError(f"{text!r:.50} is no price")
    return price


@lru_cache(maxsize=4096)
def _known_usage(text: str) -> Usage:
    """So do the sizes of calls."""
    usage = Usage(**json.loads(text))
    known = [one for one in astuple(usage)[2:] if one is not None]
    for part in (usage.input_tokens, usage.output_tokens, *known):
        _count(part)
    return usage
