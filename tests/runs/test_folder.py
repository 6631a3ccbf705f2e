"""What a run folder holds: whose it is, its log and database, and what is refused of either."""

from __future__ import annotations

import contextlib
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from skillopt.errors import Interrupted, RunConflict, Stopped, UsageError
from skillopt.events import SCHEMA, Event, Notice, RunStarted, Spending, TestMeasured
from skillopt.files import lock
from skillopt.messages import Usage
from skillopt.money import Amount
from skillopt.redact import Scrubber
from skillopt.runs.cache import SharedRollouts
from skillopt.runs.database import Database
from skillopt.runs.log import Run, difference
from skillopt.runs.notes import EVALS, EvalRecord, MeasuredSkill, note_eval, read_eval_records
from skillopt.runs.reader import RunList
from skillopt.runs.tail import DatabaseTail, StoredTexts, asked_twice, task_digests
from skillopt.tasks.rollout import Score, Trajectory

# --- log


NEWS = Spending(calls=1, tokens=2, usd=None, in_flight=0)


def open_run(folder: Path, *sinks, identity=None) -> Run:
    return Run(folder, identity or {"a": 1}, scrubber=Scrubber([]), sinks=sinks)


def test_a_watcher_that_fails_on_news_hears_no_more_and_harms_nobody(tmp_path):
    heard: list[Event] = []

    def broken(event: Event) -> None:
        raise BrokenPipeError

    with open_run(tmp_path, broken, heard.append) as run:
        run.emit(NEWS)
        run.emit(NEWS)
    assert heard == [NEWS, NEWS]


def test_a_sink_that_cannot_take_a_fact_stops_the_run_with_the_fact_on_disk(tmp_path):
    def full(event: Event) -> None:
        raise OSError("disk full")

    with open_run(tmp_path, full) as run, pytest.raises(OSError, match="disk full"):
        run.emit(Notice(id="x", text="a fact"))
    with open_run(tmp_path) as run:
        assert [event.id for event in run.history()] == ["x"]


def test_a_watcher_may_stop_the_run_at_any_event(tmp_path):
    def stop(event: Event) -> None:
        raise Interrupted("enough")

    with open_run(tmp_path, stop) as run, pytest.raises(Interrupted):
        run.emit(NEWS)


def test_what_a_killed_write_left_is_swept_up(tmp_path):
    with open_run(tmp_path):
        pass
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / ".record.json.1a2b.tmp").write_text("half")
    with open_run(tmp_path):
        assert not list(tmp_path.rglob("*.tmp"))


def test_another_identity_is_refused_with_the_difference(tmp_path):
    with open_run(tmp_path, identity={"model": {"name": "a"}, "seed": 1}) as run:
        answered(run)
    with pytest.raises(RunConflict, match=r'model.name: "a" there, "b" now'):
        open_run(tmp_path, identity={"model": {"name": "b"}, "seed": 1})
    assert difference({"x": [1]}, {"x": [1], "y": 2}) == ["  y: null there, 2 now"]


def answered(run: Run) -> None:
    run.database.keep("rollout", 0, Trajectory(messages=(), answer="a", calls=1, usage=None))


def test_a_folder_in_which_nothing_was_answered_is_free_for_other_settings(tmp_path):
    with open_run(tmp_path, identity={"model": "typo"}) as run:
        run.emit(beginning(run.identity))
    with open_run(tmp_path, identity={"model": "right"}) as run:
        run.emit(beginning(run.identity))
        assert [event.identity for event in run.history()] == [run.identity]


def beginning(identity: str) -> RunStarted:
    return RunStarted(
        id="run",
        identity=identity,
        benchmark="b",
        target="t",
        optimizer="o",
        simulated=False,
        steps=1,
        counts={},
    )


def edit_log(folder: Path, old: str, new: str) -> None:
    with open_run(folder) as run:
        run.emit(beginning(run.identity))
    log = folder / "events.jsonl"
    text = log.read_text()
    log.write_text(text.replace(old, new))
    assert log.read_text() != text


def other_identity(folder: Path) -> None:
    with open_run(folder) as run:
        run.emit(beginning("0" * 16))


def empty_run(folder: Path) -> Path:
    with open_run(folder):
        return folder / "run.db"


def other_form(folder: Path) -> None:
    with closing(sqlite3.connect(empty_run(folder))) as database:
        database.execute("PRAGMA user_version = 1")
        database.commit()


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no run": (lambda folder: (folder / "thesis.txt").write_text("years of work"), "not a run of SkillOpt"),
    "log of another run": (other_identity, "log of another run"),
    "garbage": (lambda folder: edit_log(folder, "{", "garbage\n{"), "line 1"),
    "no event": (lambda folder: edit_log(folder, '{"id"', '{}\n{"id"'), "line 1"),
    "strange event": (lambda folder: edit_log(folder, '{"id"', '{"type": "strange"}\n{"id"'), "line 1"),
    "no database": (
        lambda folder: (edit_log(folder, "b", "c"), (folder / "run.db").unlink()),
        r"run\.db is gone",
    ),
    "no SQLite": (lambda folder: empty_run(folder).write_bytes(b"not a database" * 100), "cannot be opened"),
    "log of another form": (
        lambda folder: edit_log(folder, f'"schema_version":{SCHEMA},', ""),
        r"another version of SkillOpt \(form 1, this one reads",
    ),
    "database of another form": (other_form, "another version of SkillOpt"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_this_run_is_refused_in_words_and_left_as_it_is(tmp_path, case):
    prepare, words = REFUSED[case]
    prepare(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RunConflict, match=words):
        open_run(tmp_path)
    of_sqlite = {"run.db-shm", "run.db-wal"}
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name not in of_sqlite}
    assert after == before
    if case == "database of another form":
        with pytest.raises(RunConflict, match=words):
            Database.reading(tmp_path / "run.db")


# --- database


def test_who_is_refused_once_does_not_wait_for_the_lock_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call in flight notes its end: each waiting in turn would keep a stopped run for minutes."""
    monkeypatch.setattr("skillopt.runs.connection.PATIENCE", 0.05)
    kept = Database(tmp_path / "run.db")
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
    kept = Database(tmp_path / "run.db")
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


# --- hostile database


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
def test_a_journal_that_has_sqlite_delete_a_file_is_refused_or_not_read(
    paid: Path, look: Callable[[Path], Any], tmp_path: Path
) -> None:
    """The end of a rollback journal may name a journal of several databases, which goes once it was read."""
    (mine := tmp_path / "mine").write_text("of the person")
    head, name = bytes.fromhex("d9d505f920a163d7"), str(mine).encode()
    size, pages = 4096, paid.stat().st_size // 4096
    start = (head + struct.pack(">IIIII", 0, 1, pages, 512, size)).ljust(512, b"\0")
    end = struct.pack(">I", (1 << 30) // size + 1) + name + struct.pack(">II", len(name), sum(name)) + head
    paid.with_name("run.db-journal").write_bytes(start + end)
    with contextlib.suppress(RunConflict):
        look(paid)
    assert mine.read_text() == "of the person"


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


# --- half copied


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


# --- cache


def trajectory(answer: str) -> Trajectory:
    return Trajectory(messages=(), answer=answer, calls=1, usage=None)


def test_a_score_of_another_run_is_taken_over_with_its_trajectory(tmp_path: Path) -> None:
    first, second = (
        SharedRollouts(Database(tmp_path / name), tmp_path / "shared.db") for name in ("one.db", "two.db")
    )
    first.keep("r", 0, trajectory("a"))
    first.keep_score("r", 0, "judge", Score(hard=1, soft=1))
    assert second.finished("r") == (0, trajectory("a"))
    assert second.scored("r", "judge") == (0, trajectory("a"), Score(hard=1, soft=1))
    assert second.scored("r", "another judge") is None
    # its own from now on
    assert Database(tmp_path / "two.db").scored("r", "judge") == (0, trajectory("a"), Score(hard=1, soft=1))


def test_a_score_is_never_that_of_another_trajectory(tmp_path: Path) -> None:
    first, second = (
        SharedRollouts(Database(tmp_path / name), tmp_path / "shared.db") for name in ("one.db", "two.db")
    )
    second.keep("r", 0, trajectory("b"))  # both were at work at once
    first.keep("r", 0, trajectory("a"))
    first.keep_score("r", 0, "judge", Score(hard=1, soft=1))
    assert second.scored("r", "judge") is None
    # the shared file now holds the later trajectory
    second.keep_score("r", 0, "other", Score(hard=0, soft=0))
    third = SharedRollouts(Database(tmp_path / "three.db"), tmp_path / "shared.db")
    assert third.finished("r") == (0, trajectory("b"))
    assert third.scored("r", "judge") is None
    assert third.scored("r", "other") == (0, trajectory("b"), Score(hard=0, soft=0))


def test_an_earlier_run_lends_rollouts_with_their_own_scores_and_is_only_read(tmp_path: Path) -> None:
    earlier = Database(tmp_path / "earlier.db")
    earlier.keep("r", 0, trajectory("a"))
    earlier.keep_score("r", 0, "judge", Score(hard=1, soft=1))
    paths = [tmp_path / "gone.db", tmp_path / "earlier.db"]
    run = SharedRollouts(Database(tmp_path / "run.db"), None, paths)
    assert run.scored("r", "judge") == (0, trajectory("a"), Score(hard=1, soft=1))
    assert run.scored("r", "another judge") is None
    run.keep("new", 0, trajectory("b"))
    run.keep_score("new", 0, "judge", Score(hard=0, soft=0))
    assert earlier.finished("new") is None and not (tmp_path / "gone.db").exists()
    own = SharedRollouts(Database(tmp_path / "own.db"), None, paths)
    own.keep("r", 0, trajectory("mine"))
    assert own.scored("r", "judge") is None


# --- looks


def look(*skills: str, target: str = "m", repeats: int = 1) -> EvalRecord:
    seen = [
        MeasuredSkill(target=target, target_digest=target, skill=f"{name}.md", digest=name, repeats=repeats)
        for name in skills
    ]
    return EvalRecord(tasks=3, seen=seen)


def test_a_look_is_noted_once_however_often_the_same_is_seen(tmp_path: Path) -> None:
    assert read_eval_records(tmp_path) == []
    assert note_eval(tmp_path, look("a", "b"))
    assert not note_eval(tmp_path, look("a", "b"))
    assert not note_eval(tmp_path, look("b"))
    assert note_eval(tmp_path, look("a", target="other"))
    assert note_eval(tmp_path, look("a", repeats=2))
    assert [len(one.seen) for one in read_eval_records(tmp_path)] == [2, 1, 1]


def test_nothing_is_written_into_a_run_at_work(tmp_path: Path) -> None:
    with lock(tmp_path / ".lock"), pytest.raises(RunConflict, match="in use by process"):
        note_eval(tmp_path, look("a"))
    assert not (tmp_path / EVALS).exists()


def test_a_look_is_noted_through_no_link(tmp_path: Path) -> None:
    mine, run = tmp_path / "mine", tmp_path / "run"
    mine.write_text("mine\n")
    run.mkdir()
    (run / ".lock").symlink_to(mine)
    with pytest.raises(UsageError, match="a link that leads out of"):
        note_eval(run, look("a"))
    assert mine.read_text() == "mine\n"


def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / EVALS).write_text("{}\n")
    with pytest.raises(RunConflict, match=EVALS):
        note_eval(tmp_path, look("a"))
    assert (tmp_path / EVALS).read_text() == "{}\n"


def test_a_later_test_of_the_run_counts_what_was_seen_before_it_and_an_earlier_one_keeps_its_number(
    tmp_path: Path,
) -> None:
    with Run(tmp_path, {}, scrubber=Scrubber(())) as run:
        assert run.looks("test/1") == 0
        run.emit(TestMeasured(id="test/1", look=1, skills={}, rows={}))
    assert note_eval(tmp_path, look("a"))
    with Run(tmp_path, {}, scrubber=Scrubber(())) as run:
        assert run.looks("test/1") == 0
        assert run.looks("test/2") == 2
