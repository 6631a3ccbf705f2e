"""What is done otherwise on Windows and macOS, tried here: which calls are made there, and with what."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from skillopt import files
from skillopt.changes.files import confined
from skillopt.errors import UsageError
from skillopt.mcp.place import paths_of
from skillopt.process import _reaper, _run, minimal_env, own_group
from skillopt.process.sandbox import ProcessLimits
from skillopt.process.sandbox import _run as sandbox_run
from skillopt.programs.port import Access
from skillopt.programs.run import environment, fresh_place
from skillopt_webui._launch import Launches

FLAGS = {"CREATE_NO_WINDOW": 1, "CREATE_NEW_PROCESS_GROUP": 2, "DETACHED_PROCESS": 4}


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    for name, flag in FLAGS.items():
        monkeypatch.setattr(subprocess, name, flag, raising=False)


def test_a_child_on_windows_gets_what_a_program_needs_there_and_no_key(
    windows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYSTEMROOT", r"C:\Windows")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    env = minimal_env()
    assert env["SYSTEMROOT"] == r"C:\Windows"
    assert "OPENAI_API_KEY" not in env


def test_an_agent_on_windows_has_a_home_of_its_own_by_every_name(windows: None) -> None:
    with fresh_place() as place:
        env = environment(place, Access(provider="", model="", base_url="http://127.0.0.1"), {})
        homes = {env[name] for name in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA")}
        assert homes == {str(place.home)}
        assert {env["TEMP"], env["TMP"], env["TMPDIR"]} == {str(place.temp)}
    assert not place.root.exists()


def test_on_windows_a_program_is_ended_with_all_it_started(
    windows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Any] = []
    monkeypatch.setattr(subprocess, "run", lambda argv, **how: ran.append((argv, how["creationflags"])))
    _reaper.end_tree(77, "mark")
    assert ran == [(["taskkill", "/T", "/F", "/PID", "77"], 1)]


def test_a_program_is_started_in_a_group_of_its_own_on_both_kinds_of_system(
    windows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_group() == {"creationflags": 3}
    assert _run._alone() == 6
    monkeypatch.setattr(sys, "platform", "darwin")
    assert own_group() == {"start_new_session": True}
    assert _run._alone() == 0


def test_the_lock_of_windows_is_one_byte_behind_the_name_of_its_holder(
    windows: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[tuple[int, int]] = []
    taken: set[int] = set()

    def locking(descriptor: int, mode: int, size: int) -> None:
        calls.append((mode, os.lseek(descriptor, 0, os.SEEK_CUR)))
        if mode == 1 and taken:
            raise OSError("held")
        taken.add(1) if mode == 1 else taken.clear()

    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(locking=locking, LK_NBLCK=1, LK_UNLCK=0))
    there = types.ModuleType("files_of_windows")
    exec(compile(Path(files.__file__).read_text(), files.__file__, "exec"), there.__dict__)
    with there.lock(tmp_path / "x.lock"):
        assert (tmp_path / "x.lock").read_text() == str(os.getpid())
        with (
            pytest.raises(UsageError, match=f"in use by process {os.getpid()}"),
            there.lock(tmp_path / "x.lock"),
        ):
            pass
    with there.lock(tmp_path / "x.lock"):
        pass
    assert {place for _, place in calls} == {1 << 20}
    assert [mode for mode, _ in calls] == [1, 1, 0, 1, 0]


def test_a_stream_inside_a_file_is_no_target_on_windows(windows: None, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names a stream inside a file"):
        confined(tmp_path / "SKILL.md:hidden", [tmp_path])


def test_a_root_of_windows_is_read_without_its_first_slash(
    windows: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "C:" / "shop").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert paths_of(["file:///C:/shop"]) == [(tmp_path / "C:" / "shop").resolve()]


def test_a_run_of_another_window_is_not_stopped_from_the_page_on_windows(
    windows: None, tmp_path: Path
) -> None:
    (tmp_path / ".lock").write_text(str(os.getpid()))
    with files.lock(tmp_path / ".lock"), pytest.raises(UsageError, match="with Ctrl-C"):
        Launches.stop(Launches.__new__(Launches), tmp_path)


def test_macos_is_not_asked_for_what_its_kernel_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ProcessLimits(seconds=1, memory=1 << 30)
    assert "RLIMIT_AS" in sandbox_run._rlimits(limits, inside=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "RLIMIT_AS" not in sandbox_run._rlimits(limits, inside=False)
