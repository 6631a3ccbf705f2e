from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skillopt import files
from skillopt.errors import RunConflict, UsageError
from skillopt.files import (
    _sweep,
    append_json,
    check_writable,
    lock,
    read_text,
    temporary_folder,
    write_json,
    write_text,
)

SRC = str(Path(__file__).parents[1] / "src")


@pytest.mark.parametrize(
    "text", ["", "a\r\nb\rc\nd", "\ufeffgröße 日本 😀", "no final newline", "a\u2028b\x00"]
)
def test_a_text_comes_back_as_it_was_written(tmp_path: Path, text: str) -> None:
    write_text(tmp_path / "new" / "folder" / "file.md", text)
    assert read_text(tmp_path / "new" / "folder" / "file.md") == text
    assert (tmp_path / "new" / "folder" / "file.md").read_bytes() == text.encode()
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["file.md"]


def test_a_file_that_is_not_utf8_is_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"caf\xe9")
    with pytest.raises(UnicodeDecodeError):
        read_text(tmp_path / "x")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_the_mode_of_a_file_is_kept_and_a_new_one_follows_the_umask(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("x")
    old.chmod(0o640)
    write_text(old, "y")
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    write_text(new, "y")
    (tmp_path / "plain").write_text("x")
    assert new.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_write_goes_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file.md").write_text("old")
    (tmp_path / "link.md").symlink_to(tmp_path / "real" / "file.md")
    write_text(tmp_path / "link.md", "new")
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "real" / "file.md").read_text() == "new"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file.md"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "half \ud800")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_text(tmp_path / "folder", "a file cannot replace a folder")
    assert path.read_text() == "old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file.md", "folder"]


def test_a_reader_never_sees_a_part_of_a_write(tmp_path: Path) -> None:
    path = tmp_path / "file.md"
    texts = {letter * 200_000 for letter in "ab"}
    write_text(path, "a" * 200_000)
    done = threading.Event()

    def write() -> None:
        for _ in range(15):
            for text in texts:
                write_text(path, text)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while not done.is_set():
        seen.add(read_text(path))
    writer.join()
    assert seen <= texts


def test_json_is_for_people_and_their_tools(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"z": "größe", "a": [1, None], "half": "\ud800"})
    text = read_text(tmp_path / "x.json")
    assert text == '{\n  "z": "größe",\n  "a": [\n    1,\n    null\n  ],\n  "half": "\\ud800"\n}\n'
    assert json.loads(text)["half"] == "\ud800"


def test_json_that_others_cannot_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        write_json(tmp_path / "x.json", {"score": float("nan")})
    assert list(tmp_path.iterdir()) == []


HOLDER = """
import sys, time
from skillopt.files import lock
with lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_names_its_holder_and_dies_with_it(tmp_path: Path) -> None:
    path = tmp_path / "run" / ".lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": SRC})
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == b"held"
        with (
            pytest.raises(
                RunConflict, match=rf"run is in use by process {holder.pid} .*run the same command again"
            ),
            lock(path),
        ):
            pytest.fail("the lock was given twice")
    finally:
        holder.send_signal(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
        holder.communicate()
    with lock(path):
        assert path.read_text() == str(os.getpid())
    assert path.read_text() == ""


def test_a_lock_holds_within_one_process_and_is_freed_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with pytest.raises(ZeroDivisionError), lock(path):
        with pytest.raises(RunConflict, match=str(os.getpid())), lock(path):
            pytest.fail("the lock was given twice")
        assert path.read_text() == str(os.getpid()), "the refused one leaves the holder's name"
        raise ZeroDivisionError
    with lock(path):
        pass


def test_an_item_is_added_to_a_list_as_if_the_whole_list_had_been_written(tmp_path: Path) -> None:
    grown, whole = tmp_path / "grown.json", tmp_path / "whole.json"
    items = [{"a": "größe\u2028\ud800", "b": [1, None]}, {"a": "x\ny"}, {"c": {}}]
    write_json(grown, items[:1])
    for item in items[1:]:
        assert append_json(grown, item)
    write_json(whole, items)
    assert grown.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("text", ["[]\n", "", "[\n  {", "{}\n"])
def test_nothing_is_added_to_what_does_not_end_like_a_list_with_items(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    assert not append_json(tmp_path / "x.json", {})
    assert (tmp_path / "x.json").read_text() == text
    assert not append_json(tmp_path / "missing.json", {})


@pytest.mark.skipif(os.name == "nt", reason="folders have no owner there")
def test_what_killed_processes_left_goes_with_the_next_one_and_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for kind in ("agent", "box", "proposal"):
        left = tmp_path / f"skillopt-{kind}-killed00"
        (left / "shut").mkdir(parents=True)
        (left / "shut").chmod(0o500)
        (left / ".skillopt-temporary").write_text("123456")
    run, empty = tmp_path / "skillopt-check-of-mine", tmp_path / "skillopt-agent-notours0"
    run.mkdir()
    empty.mkdir()
    (run / ".lock").touch()  # a run that a person keeps under such a name
    kept = {run, empty}
    with temporary_folder("skillopt-work-") as first:
        assert set(tmp_path.iterdir()) == {*kept, first}
        _sweep.cache_clear()  # as a second process would
        with temporary_folder("skillopt-work-"):
            assert first.is_dir(), "its process is alive"
    assert set(tmp_path.iterdir()) == kept


def test_a_temporary_folder_that_was_swept_before_it_was_locked_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    swept: list[Path] = []

    @contextmanager
    def late(path: Path) -> Iterator[None]:
        with lock(path):
            if not swept:  # as another process does between our opening of the file and our lock on it
                swept.append(path.parent)
                shutil.rmtree(path.parent)
            yield

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(files, "lock", late)
    with temporary_folder("skillopt-work-") as folder:
        assert folder.is_dir() and [folder] != swept
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_temporary_folder_goes_last_so_that_a_kill_leaves_nothing_that_none_may_sweep(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unlink = os.unlink

    def killed_at_the_lock(path: str | Path, **options: int) -> None:
        unlink(path, **options)
        if str(path).endswith(".skillopt-temporary"):
            raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "unlink", killed_at_the_lock)
    with pytest.raises(KeyboardInterrupt), temporary_folder("skillopt-work-") as folder:
        for number in range(20):
            (folder / f"file-{number}").touch()
            (folder / f"folder-{number}").mkdir()
        (folder / "link").symlink_to(tmp_path)
    assert list(tmp_path.rglob("*")) == [folder]


def test_every_temporary_folder_is_one_that_is_swept() -> None:
    """Ray's cluster has one of its own making: sockets lie in it, whose names must be short."""
    sources = Path(__file__).parents[1].joinpath("src").rglob("*.py")
    makers = {path.name for path in sources if re.search(r"mkdtemp|TemporaryDirectory", read_text(path))}
    assert makers == {"files.py", "ray.py"}


def test_a_link_to_nothing_is_no_file_that_can_be_written(tmp_path: Path) -> None:
    link, elsewhere = tmp_path / "tasks.jsonl", tmp_path / "elsewhere"
    link.symlink_to(elsewhere)
    with pytest.raises(UsageError, match="is a link to"):
        check_writable(link)
    assert link.is_symlink() and not elsewhere.exists()
