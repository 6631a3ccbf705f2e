"""The schedule: what was scheduled is what runs, and nobody else's entry is ever touched."""

from __future__ import annotations

import json
import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.errors import ConfigError, Fault, UnknownName, UsageError
from skillopt.night import _cron, _launchd, _systemd, _task_scheduler
from skillopt.night.timer import (
    KINDS,
    Schedule,
    Timer,
    available,
    log_tail,
    schedule_id,
    timer_for,
    unschedule,
)
from skillopt.process import Finished

NASTY = (
    "--preferences",
    'it\'s "quoted" $HOME `id` %Y 100% \\ & | ; > < * ? ~ # ! (x) [y] {z} ünïcode',
    "",
    "-",
    "--",
    "a  b",
    "'",
    '"',
    "\\",
)
ID = schedule_id("/home/me/project")
PLAIN = Schedule(
    id=ID,
    hour=3,
    minute=17,
    command=("/usr/bin/python3", "-m", "skillopt_sleep", "run"),
    folder=Path("/home/me/project"),
)
FULL = replace(
    PLAIN,
    command=(
        "/opt/my python/bin/python",
        "-m",
        "skillopt_sleep",
        "run",
        "--project",
        "/home/me/my project",
        *NASTY,
    ),
    folder=Path("/home/me/my 100% project's"),
    log=Path("/home/me/state/n ight%.log"),
    environment=(("PATH", "/usr/bin:/home/me/my bin:/x%y$z"), ("TZ", "Asia/Tokyo")),
)
WORDS = st.text(
    st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"), max_size=12
)


def said(code: int = 0, out: bytes = b"", err: bytes = b"") -> Finished:
    return Finished(code=code, stdout=out, stderr=err)


class Crontab:
    """A simulated `crontab` program."""

    def __init__(self, content: bytes | None = None, *, broken: bytes = b"") -> None:
        self.content = content
        self.broken = broken
        self.writes = 0

    def __call__(self, argv: Sequence[str], data: bytes | None) -> Finished:
        if list(argv) == ["crontab", "-l"]:
            if self.broken:
                return said(1, err=self.broken)
            return said(1, err=b"no crontab for me\n") if self.content is None else said(out=self.content)
        assert list(argv) == ["crontab", "-"] and data is not None
        self.writes += 1
        self.content = data
        return said()


class Recorder:
    """A runner that notes what it is asked and answers as it is told."""

    def __init__(self, **answers: Finished) -> None:
        self.asked: list[list[str]] = []
        self.answers = answers

    def __call__(self, argv: Sequence[str], data: bytes | None) -> Finished:
        self.asked.append(list(argv))
        return next((answer for word, answer in self.answers.items() if word in argv), said())


# --- what is written is what is read


@given(words=st.lists(WORDS, max_size=4), hour=st.integers(0, 23), minute=st.integers(0, 59), value=WORDS)
def test_every_scheduler_gives_back_what_it_was_given(
    words: list[str], hour: int, minute: int, value: str
) -> None:
    command = ("/usr/bin/python3", *words)
    schedule = replace(
        PLAIN,
        command=command,
        hour=hour,
        minute=minute,
        environment=(("PATH", value),),
        log=Path("/home/me/l.log"),
    )
    assert _systemd.parse(ID, *_systemd.render(schedule)) == schedule
    assert _launchd.parse(_launchd.render(schedule)) == schedule
    bare = replace(schedule, environment=(), log=None)
    assert _task_scheduler.parse(ID, _task_scheduler.render(bare)) == bare
    if "\\%" not in " ".join((*command, value)):
        assert _cron.parse(_cron.render(schedule)) == {ID: schedule}


@pytest.mark.parametrize("schedule", [PLAIN, FULL])
def test_all_flags_of_a_long_command_are_kept(schedule: Schedule) -> None:
    assert _cron.parse(_cron.render(schedule)) == {ID: schedule}
    assert _systemd.parse(ID, *_systemd.render(schedule)) == schedule
    assert _launchd.parse(_launchd.render(schedule)) == schedule


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_line_that_cron_hands_to_a_shell_runs_exactly_the_command(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    folder, log = tmp_path / "it's 100% mine", tmp_path / "lo g%.log"
    folder.mkdir()
    show = "import json, os, sys; print(json.dumps([os.getcwd(), os.environ['NIGHT'], sys.argv[1:]]))"
    schedule = replace(
        PLAIN,
        command=(sys.executable, "-c", show, *NASTY),
        folder=folder,
        log=log,
        environment=(("NIGHT", "50% $x"),),
    )
    line = _cron.render(schedule).split("\n")[1]
    command = as_cron_reads(line.split(" ", 5)[5])
    subprocess.run([shell, "-c", command], env={"PATH": "/usr/bin:/bin"}, check=True, timeout=20)
    assert json.loads(log.read_text()) == [str(folder), "50% $x", list(NASTY)]


def as_cron_reads(command: str) -> str:
    """What Vixie cron hands to the shell: up to the first percent sign without a backslash, without the
    backslashes of the others.
    """
    read, escaped = "", False
    for char in command:
        if escaped:
            read = read[:-1] + char if char == "%" else read + char
            escaped = False
        elif char == "%":
            return read
        else:
            read += char
            escaped = char == "\\"
    return read


def test_nothing_in_a_unit_has_a_meaning_to_systemd_that_the_command_did_not_have() -> None:
    schedule = replace(
        PLAIN, command=("/bin/x", "$HOME %h a\\b \"q\" 's'", ""), environment=(("A", "$HOME %h"),)
    )
    service, _ = _systemd.render(schedule)
    assert 'ExecStart="/bin/x" "$$HOME %%h a\\\\b \\"q\\" \'s\'" ""\n' in service
    # Environment= knows specifiers but expands no variables.
    assert 'Environment="A=$HOME %%h"\n' in service


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_itself_finds_no_fault_with_the_units(tmp_path: Path) -> None:
    folder = tmp_path / "my 100% project's"
    folder.mkdir()
    schedule = replace(
        FULL, command=("/bin/echo", *FULL.command[1:]), folder=folder, log=tmp_path / "n ight%.log"
    )
    for kind, text in zip(("service", "timer"), _systemd.render(schedule), strict=True):
        (tmp_path / f"{_systemd.unit(ID)}.{kind}").write_text(text)
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    argv = ["systemd-analyze", "--user", "verify", str(tmp_path / f"{_systemd.unit(ID)}.timer")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_windows_arguments_are_read_as_windows_programs_read_them() -> None:
    # The examples of the Microsoft C runtime's own page on parsing command-line arguments.
    assert _task_scheduler.split(r'"a b c" d e') == ["a b c", "d", "e"]
    assert _task_scheduler.split(r'"ab\"c" "\\" d') == ['ab"c', "\\", "d"]
    assert _task_scheduler.split(r'a\\\b d"e f"g h') == [r"a\\\b", "de fg", "h"]
    assert _task_scheduler.split(r"a\\\"b c d") == [r"a\"b", "c", "d"]


# --- cron


OTHERS = b"# mine\nMAILTO=me\n0 1 * * * backup 100\\% \xff\n\n@daily x"


def test_an_entry_is_added_to_a_crontab_and_every_other_line_stays(tmp_path: Path) -> None:
    crontab = Crontab(OTHERS)
    schedule = replace(PLAIN, log=tmp_path / "logs" / "night.log")
    timer_for("cron", crontab, home=tmp_path, state=tmp_path).install(schedule)
    assert crontab.content is not None and crontab.content.startswith(OTHERS + b"\n# >>> skillopt-sleep")
    assert _cron.Cron(crontab).entries() == (schedule,)
    assert schedule.log is not None and schedule.log.parent.is_dir()
    assert _cron.Cron(crontab).uninstall(ID)
    assert crontab.content == OTHERS + b"\n"


def test_scheduling_again_replaces_the_entry_where_it_stands_and_other_projects_stay() -> None:
    crontab = Crontab(b"a\n")
    timer = _cron.Cron(crontab)
    other = replace(PLAIN, id=schedule_id("/other"))
    timer.install(PLAIN)
    timer.install(other)
    timer.install(replace(PLAIN, hour=5))
    assert timer.entries() == (replace(PLAIN, hour=5), other)
    assert unschedule(timer, ID) == (replace(PLAIN, hour=5),)
    assert timer.entries() == (other,)
    assert unschedule(timer, ID) == ()
    assert unschedule(timer) == (other,)
    assert crontab.content == b"a\n"


def test_a_person_without_a_crontab_gets_one(tmp_path: Path) -> None:
    crontab = Crontab(None)
    _cron.Cron(crontab).install(PLAIN)
    assert crontab.content == _cron.render(PLAIN).encode()


@pytest.mark.parametrize(
    "broken",
    [b"crontab: you are not allowed to use this program", b"Permission denied", b"", b"timeout: no answer"],
)
def test_a_crontab_that_cannot_be_read_is_never_overwritten(broken: bytes) -> None:
    crontab = Crontab(OTHERS, broken=broken or b" ")
    for act in (
        lambda: _cron.Cron(crontab).install(PLAIN),
        lambda: _cron.Cron(crontab).uninstall(ID),
        _cron.Cron(crontab).entries,
    ):
        with pytest.raises(UsageError, match=r"cannot be read.*so it is not changed"):
            act()
    assert (crontab.writes, crontab.content) == (0, OTHERS)


def test_a_crontab_of_which_only_a_part_was_read_is_never_overwritten() -> None:
    def cut(argv: Sequence[str], data: bytes | None) -> Finished:
        assert list(argv) == ["crontab", "-l"]
        return Finished(code=0, stdout=OTHERS, stderr=b"", cut=True)

    with pytest.raises(UsageError, match="too long"):
        _cron.Cron(cut).install(PLAIN)


@pytest.mark.parametrize("damage", ["start", "end", "line", "twice"])
def test_damaged_marks_are_never_guessed_at(damage: str) -> None:
    start, line, end, _ = _cron.render(PLAIN).split("\n")
    lines = {
        "start": [line, end],
        "end": [start, line],
        "line": [start, "0 1 * * * mine", end],
        "twice": [start, line, end] * 2,
    }[damage]
    crontab = Crontab("".join(f"{one}\n" for one in ("x", *lines)).encode())
    with pytest.raises(UsageError, match="crontab -e"):
        _cron.Cron(crontab).entries()
    if damage != "line":
        with pytest.raises(UsageError, match="crontab -e"):
            _cron.Cron(crontab).install(PLAIN)
        assert crontab.writes == 0


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (("/bin/x", "y" * 1000), "may cut it at 1,000"),
        (("/bin/x", "a\\%b"), "backslash before a percent sign"),
        (("/bin/x", ">>", "f", "2>&1"), "would not come back"),
    ],
)
def test_a_command_that_cron_would_not_keep_is_refused_before_anything_is_written(
    command: tuple[str, ...], complaint: str
) -> None:
    crontab = Crontab(OTHERS)
    with pytest.raises(UsageError, match=complaint):
        _cron.Cron(crontab).install(replace(PLAIN, command=command))
    assert crontab.writes == 0


# --- systemd, launchd, Windows


def test_a_systemd_timer_is_written_started_stopped_and_removed(tmp_path: Path) -> None:
    run = Recorder()
    timer = timer_for("systemd", run, home=tmp_path, state=tmp_path)
    units = tmp_path / ".config" / "systemd" / "user"
    schedule = replace(FULL, log=tmp_path / "night.log")
    timer.install(schedule)
    assert timer.entries() == (schedule,)
    assert "Persistent=true" in (units / f"skillopt-sleep-{ID}.timer").read_text()
    (units / "mine.timer").write_text("x")
    assert timer.uninstall(ID) and not timer.uninstall(ID)
    name = f"skillopt-sleep-{ID}.timer"
    reload = ["systemctl", "--user", "daemon-reload"]
    assert run.asked == [
        reload,
        ["systemctl", "--user", "enable", "--now", name],
        ["systemctl", "--user", "disable", "--now", name],
        reload,
    ]
    assert [path.name for path in units.iterdir()] == ["mine.timer"]


def test_a_systemd_that_does_not_take_the_timer_leaves_no_unit_that_looks_like_one(tmp_path: Path) -> None:
    timer = _systemd.Systemd(Recorder(enable=said(1, err=b"Failed to connect to bus")), tmp_path)
    with pytest.raises(UsageError, match="Failed to connect to bus"):
        timer.install(PLAIN)
    assert list(tmp_path.iterdir()) == []


def test_a_unit_of_somebody_else_is_neither_overwritten_nor_removed(tmp_path: Path) -> None:
    for kind in ("service", "timer"):
        (tmp_path / f"skillopt-sleep-{ID}.{kind}").write_text("[Unit]\nDescription=mine\n")
    timer = _systemd.Systemd(Recorder(), tmp_path)
    for act in (lambda: timer.install(PLAIN), lambda: timer.uninstall(ID), timer.entries):
        with pytest.raises(UsageError, match="left alone"):
            act()
    assert (tmp_path / f"skillopt-sleep-{ID}.timer").read_text() == "[Unit]\nDescription=mine\n"


@pytest.mark.parametrize(
    "change",
    [
        {"command": ("python", "x")},
        {"folder": Path("/a/b ")},
        {"folder": Path("/a\\")},
        {"log": Path("l.log")},
    ],
)
def test_what_systemd_would_read_differently_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="systemd"):
        _systemd.Systemd(Recorder(), tmp_path).install(replace(PLAIN, **change))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_launchd_agent_is_written_loaded_unloaded_and_removed(tmp_path: Path) -> None:
    run = Recorder(bootout=said(3, err=b"No such process"))
    timer = timer_for("launchd", run, home=tmp_path, state=tmp_path, uid=501)
    path = tmp_path / "Library" / "LaunchAgents" / f"skillopt.night.{ID}.plist"
    schedule = replace(FULL, log=tmp_path / "night.log")
    timer.install(schedule)
    assert timer.entries() == (schedule,)
    assert plistlib.loads(path.read_bytes())["StartCalendarInterval"] == {"Hour": 3, "Minute": 17}
    timer.install(replace(schedule, hour=4))
    assert timer.uninstall(ID) and not timer.uninstall(ID)
    boot, out = (
        ["launchctl", "bootstrap", "gui/501", str(path)],
        ["launchctl", "bootout", f"gui/501/skillopt.night.{ID}"],
    )
    assert run.asked == [boot, out, boot, out]
    assert not path.exists()


@pytest.mark.parametrize("kind", ["systemd", "launchd"])
def test_a_scheduler_that_is_not_there_leaves_nothing_behind_that_looks_like_a_schedule(
    tmp_path: Path, kind: str
) -> None:
    def gone(argv: Sequence[str], data: bytes | None) -> Finished:
        raise Fault("spawn", f"{argv[0]} could not be started")

    timer = timer_for(kind, gone, home=tmp_path, state=tmp_path)
    with pytest.raises(UsageError, match="could not be started"):
        timer.install(replace(PLAIN, log=tmp_path / "night.log"))
    assert timer.entries() == () and not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_an_agent_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / f"skillopt.night.{ID}.plist"
    for content in (
        b"not a plist",
        plistlib.dumps({"Label": "other"}),
        _launchd.render(replace(PLAIN, id="0" * 12)),
    ):
        path.write_bytes(content)
        with pytest.raises(UsageError, match="left alone"):
            _launchd.Launchd(Recorder(), tmp_path, 501).install(PLAIN)
        assert path.read_bytes() == content


class Schtasks:
    """A simulated `schtasks` program."""

    def __init__(self) -> None:
        self.tasks: dict[str, bytes] = {"Mine": "<Task/>".encode("utf-16")}

    def __call__(self, argv: Sequence[str], data: bytes | None) -> Finished:
        words = list(argv)
        name = words[words.index("/tn") + 1] if "/tn" in words else ""
        if words[1] == "/create":
            self.tasks[name] = Path(words[words.index("/xml") + 1]).read_bytes()
        elif words[1] == "/delete":
            del self.tasks[name]
        elif name:
            return said(out=self.tasks[name])
        return said(out="".join(f'"\\{one}","N/A","Ready"\r\n' for one in self.tasks).encode())


def test_a_windows_task_is_made_read_back_and_removed_without_a_script_or_a_shell(tmp_path: Path) -> None:
    run = Schtasks()
    timer = timer_for("task_scheduler", run, home=tmp_path, state=tmp_path)
    schedule = replace(FULL, log=None, environment=())
    timer.install(schedule)
    assert timer.entries() == (schedule,)
    definition = run.tasks[f"SkillOpt-Sleep-{ID}"].decode("utf-16")
    assert "<StartWhenAvailable>true" in definition and "LeastPrivilege" in definition
    assert "powershell" not in definition.lower() and list(tmp_path.iterdir()) == []
    assert timer.uninstall(ID) and not timer.uninstall(ID)
    assert list(run.tasks) == ["Mine"]
    with pytest.raises(UsageError, match="log option of its own"):
        timer.install(FULL)


# --- common


@pytest.mark.parametrize(
    "change",
    [
        {"hour": 24},
        {"minute": -1},
        {"command": ()},
        {"command": ("/x", "a\nb")},
        {"command": ("/x\uffff",)},
        {"id": "../x"},
        {"environment": (("A B", "x"),)},
    ],
)
def test_what_no_scheduler_keeps_is_refused_at_once(change: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        replace(PLAIN, **change)  # type: ignore[arg-type]


def test_the_schedulers_that_work_here_are_found_the_one_that_catches_up_first() -> None:
    def only_cron(argv: Sequence[str], data: bytes | None) -> Finished:
        if argv[0] == "systemctl":
            raise Fault("spawn", "no systemctl")
        return said(1, err=b"no crontab for me")

    def nothing(argv: Sequence[str], data: bytes | None) -> Finished:
        raise Fault("spawn", "not there")

    assert available(Recorder(), "linux") == ("systemd", "cron")
    assert available(only_cron, "linux") == ("cron",)
    assert available(nothing, "linux") == ()
    assert (available(nothing, "darwin"), available(nothing, "win32")) == (("launchd",), ("task_scheduler",))


def test_every_kind_has_a_timer_and_another_name_is_an_error(tmp_path: Path) -> None:
    timers: list[Timer] = [timer_for(kind, Recorder(), home=tmp_path, state=tmp_path) for kind in KINDS]
    assert [timer.name for timer in timers] == list(KINDS)
    with pytest.raises(UnknownName, match="Did you mean 'cron'"):
        timer_for("crom", Recorder(), home=tmp_path, state=tmp_path)


def test_the_end_of_the_log_is_readable(tmp_path: Path) -> None:
    schedule = replace(PLAIN, log=tmp_path / "night.log")
    assert log_tail(schedule) is None and log_tail(PLAIN) is None
    assert schedule.log is not None
    schedule.log.write_bytes(b"old\n" * 50_000 + b"\x1b[31mnight 3: accepted\xff\n\nlast\n")
    os.utime(schedule.log, (1_700_000_000, 1_700_000_000))
    tail = log_tail(schedule, 2)
    assert tail is not None
    assert tail.lines == (" [31mnight 3: accepted\ufffd", "last")
    assert tail.written == datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc)
