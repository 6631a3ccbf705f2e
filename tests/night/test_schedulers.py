"""The schedule: what was scheduled is what runs, and nobody else's entry is ever touched."""

from __future__ import annotations

import json
import os
import plistlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _needs import needs_program
from night._windows import split
from skillopt.errors import ConfigError, Fault, UnknownName, UsageError
from skillopt.process import Finished
from skillopt_sleep import project_id
from skillopt_sleep.schedule import PRINTED, Schedule
from skillopt_sleep.schedulers import (
    Cron,
    Systemd,
    available,
    crontab_lines,
    scheduler_for,
    unit_name,
    units,
    unschedule,
)
from skillopt_sleep.state import ProjectHome

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


def replace(schedule: Schedule, **change: Any) -> Schedule:
    """The same entry with something else in it."""
    return Schedule(**{**dict(schedule), **change})


ID = project_id("/home/me/project")
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


OTHERS = b"# mine\nMAILTO=me\n0 1 * * * backup 100\\% \xff\n\n@daily x"


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
    assert Schedule.of_comment(schedule.comment()) == schedule
    assert agent(schedule)["ProgramArguments"] == list(command)
    assert agent(schedule)["EnvironmentVariables"] == {"PATH": value}
    assert windows_command(replace(schedule, environment=(), log=None)) == command
    if "\\%" not in " ".join((*command, value)):
        crontab = Crontab(OTHERS)
        Cron(crontab).install(replace(schedule, log=None))
        assert Cron(crontab).entries() == (replace(schedule, log=None),)


def agent(schedule: Schedule) -> dict[str, Any]:
    """What launchd reads."""
    read: dict[str, Any] = plistlib.loads(PRINTED["launchd"].definition(schedule).encode())
    return read


def windows_command(schedule: Schedule) -> tuple[str, ...]:
    """What the Task Scheduler starts, as a program there reads it."""
    task = ET.fromstring(PRINTED["task_scheduler"].definition(schedule))
    program, words = (task.findtext(f".//{{*}}{name}") or "" for name in ("Command", "Arguments"))
    return program, *split(words)


@pytest.mark.parametrize("shell", ["sh", pytest.param("bash", marks=needs_program("bash", "bash"))])
def test_the_line_that_cron_hands_to_a_shell_runs_exactly_the_command(tmp_path: Path, shell: str) -> None:
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
    line = crontab_lines(schedule).split("\n")[2]
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
    service, _ = units(schedule)
    assert 'ExecStart="/bin/x" "$$HOME %%h a\\\\b \\"q\\" \'s\'" ""\n' in service
    # Environment= knows specifiers but expands no variables.
    assert 'Environment="A=$HOME %%h"\n' in service


@needs_program("systemd-analyze", "systemd")
def test_systemd_itself_finds_no_fault_with_the_units(tmp_path: Path) -> None:
    folder = tmp_path / "my 100% project's"
    folder.mkdir()
    schedule = replace(
        FULL, command=("/bin/echo", *FULL.command[1:]), folder=folder, log=tmp_path / "n ight%.log"
    )
    for kind, text in zip(("service", "timer"), units(schedule), strict=True):
        (tmp_path / f"{unit_name(ID)}.{kind}").write_text(text)
    argv = ["systemd-analyze", "--user", "verify", str(tmp_path / f"{unit_name(ID)}.timer")]
    with tempfile.TemporaryDirectory() as runtime:  # short, as sockets of other units lie in it
        env = {**os.environ, "XDG_RUNTIME_DIR": runtime}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_windows_arguments_are_read_as_windows_programs_read_them() -> None:
    # The examples of the Microsoft C runtime's own page: how the tests read them is how Windows does.
    assert split(r'"a b c" d e') == ["a b c", "d", "e"]
    assert split(r'"ab\"c" "\\" d') == ['ab"c', "\\", "d"]
    assert split(r'a\\\b d"e f"g h') == [r"a\\\b", "de fg", "h"]
    assert split(r"a\\\"b c d") == [r"a\"b", "c", "d"]


# --- cron


def test_an_entry_is_added_to_a_crontab_and_every_other_line_stays(tmp_path: Path) -> None:
    crontab = Crontab(OTHERS)
    schedule = replace(PLAIN, log=tmp_path / "logs" / "night.log")
    scheduler_for("cron", crontab, tmp_path).install(schedule)
    assert crontab.content is not None and crontab.content.startswith(OTHERS + b"\n# >>> skillopt-sleep")
    assert Cron(crontab).entries() == (schedule,)
    assert schedule.log is not None and schedule.log.parent.is_dir()
    assert Cron(crontab).uninstall(ID)
    assert crontab.content == OTHERS + b"\n"


def test_scheduling_again_replaces_the_entry_where_it_stands_and_other_projects_stay() -> None:
    crontab = Crontab(b"a\n")
    timer = Cron(crontab)
    other = replace(PLAIN, id=project_id("/other"))
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
    Cron(crontab).install(PLAIN)
    assert crontab.content == crontab_lines(PLAIN).encode()


@pytest.mark.parametrize(
    "broken",
    [b"crontab: you are not allowed to use this program", b"Permission denied", b"", b"timeout: no answer"],
)
def test_a_crontab_that_cannot_be_read_is_never_overwritten(broken: bytes) -> None:
    crontab = Crontab(OTHERS, broken=broken or b" ")
    for act in (
        lambda: Cron(crontab).install(PLAIN),
        lambda: Cron(crontab).uninstall(ID),
        Cron(crontab).entries,
    ):
        with pytest.raises(UsageError, match=r"cannot be read.*so it is not changed"):
            act()
    assert (crontab.writes, crontab.content) == (0, OTHERS)


def test_a_crontab_of_which_only_a_part_was_read_is_never_overwritten() -> None:
    def cut(argv: Sequence[str], data: bytes | None) -> Finished:
        assert list(argv) == ["crontab", "-l"]
        return Finished(code=0, stdout=OTHERS, stderr=b"", cut=True)

    with pytest.raises(UsageError, match="too long"):
        Cron(cut).install(PLAIN)


@pytest.mark.parametrize("damage", ["start", "end", "line", "twice"])
def test_damaged_marks_are_never_guessed_at(damage: str) -> None:
    start, comment, line, end, _ = crontab_lines(PLAIN).split("\n")
    lines = {
        "start": [comment, line, end],
        "end": [start, comment, line],
        "line": [start, comment, "0 1 * * * mine", end],
        "twice": [start, comment, line, end] * 2,
    }[damage]
    crontab = Crontab("".join(f"{one}\n" for one in ("x", *lines)).encode())
    with pytest.raises(UsageError, match="crontab -e"):
        Cron(crontab).entries()
    if damage != "line":
        with pytest.raises(UsageError, match="crontab -e"):
            Cron(crontab).install(PLAIN)
        assert crontab.writes == 0


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (("/bin/x", "y" * 1000), "may cut it at 1,000"),
        (("/bin/x", "a\\%b"), "backslash before a percent sign"),
    ],
)
def test_a_command_that_cron_would_not_keep_is_refused_before_anything_is_written(
    command: tuple[str, ...], complaint: str
) -> None:
    crontab = Crontab(OTHERS)
    with pytest.raises(UsageError, match=complaint):
        Cron(crontab).install(replace(PLAIN, command=command))
    assert crontab.writes == 0


# --- systemd, launchd, Windows


def test_a_systemd_timer_is_written_started_stopped_and_removed(tmp_path: Path) -> None:
    run = Recorder()
    timer = scheduler_for("systemd", run, tmp_path)
    folder = tmp_path / ".config" / "systemd" / "user"
    schedule = replace(FULL, log=tmp_path / "night.log")
    timer.install(schedule)
    assert timer.entries() == (schedule,)
    assert "Persistent=true" in (folder / f"skillopt-sleep-{ID}.timer").read_text()
    (folder / "mine.timer").write_text("x")
    assert timer.uninstall(ID) and not timer.uninstall(ID)
    name = f"skillopt-sleep-{ID}.timer"
    reload = ["systemctl", "--user", "daemon-reload"]
    assert run.asked == [
        reload,
        ["systemctl", "--user", "enable", "--now", name],
        ["systemctl", "--user", "disable", "--now", name],
        reload,
    ]
    assert [path.name for path in folder.iterdir()] == ["mine.timer"]


def test_a_systemd_that_does_not_take_the_timer_leaves_no_unit_that_looks_like_one(tmp_path: Path) -> None:
    timer = Systemd(Recorder(enable=said(1, err=b"Failed to connect to bus")), tmp_path)
    with pytest.raises(UsageError, match="Failed to connect to bus"):
        timer.install(PLAIN)
    assert list(tmp_path.iterdir()) == []


def test_a_unit_of_somebody_else_is_neither_overwritten_nor_removed(tmp_path: Path) -> None:
    for kind in ("service", "timer"):
        (tmp_path / f"skillopt-sleep-{ID}.{kind}").write_text("[Unit]\nDescription=mine\n")
    timer = Systemd(Recorder(), tmp_path)
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
        Systemd(Recorder(), tmp_path).install(replace(PLAIN, **change))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_systemd_that_is_not_there_leaves_nothing_behind_that_looks_like_a_schedule(tmp_path: Path) -> None:
    def gone(argv: Sequence[str], data: bytes | None) -> Finished:
        raise Fault("spawn", f"{argv[0]} could not be started")

    scheduler = scheduler_for("systemd", gone, tmp_path)
    with pytest.raises(UsageError, match="could not be started"):
        scheduler.install(replace(PLAIN, log=tmp_path / "night.log"))
    assert scheduler.entries() == () and not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("change", ["oneshot", "OnCalendar", "# {"])
def test_a_unit_that_somebody_changed_is_left_alone(tmp_path: Path, change: str) -> None:
    scheduler = Systemd(Recorder(), tmp_path)
    scheduler.install(PLAIN)
    for path in tmp_path.iterdir():
        path.write_text(path.read_text().replace(change, "x"))
    for act in (lambda: scheduler.install(PLAIN), lambda: scheduler.uninstall(ID), scheduler.entries):
        with pytest.raises(UsageError, match="left alone"):
            act()


def test_a_launchd_agent_is_printed_with_the_commands_that_load_and_remove_it(tmp_path: Path) -> None:
    read = agent(FULL)
    assert read["StartCalendarInterval"] == {"Hour": 3, "Minute": 17}
    assert (read["ProgramArguments"], read["WorkingDirectory"]) == (list(FULL.command), str(FULL.folder))
    assert read["EnvironmentVariables"] == dict(FULL.environment)
    assert read["StandardOutPath"] == read["StandardErrorPath"] == str(FULL.log)
    path = tmp_path / "Library" / "LaunchAgents" / f"skillopt.night.{ID}.plist"
    told = PRINTED["launchd"].how_to_install(FULL, tmp_path)
    assert PRINTED["launchd"].definition(FULL) in told and f"launchctl bootstrap gui/$(id -u) {path}" in told
    assert PRINTED["launchd"].how_to_look(ID) == f"launchctl print gui/$(id -u)/skillopt.night.{ID}"
    assert PRINTED["launchd"].how_to_remove(ID, tmp_path) == (
        f"launchctl bootout gui/$(id -u)/skillopt.night.{ID}; rm {path}"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_windows_task_is_printed_without_a_script_or_a_shell(tmp_path: Path) -> None:
    schedule = replace(FULL, log=None, environment=())
    assert windows_command(schedule) == FULL.command
    definition = PRINTED["task_scheduler"].definition(schedule)
    assert "<StartWhenAvailable>true" in definition and "LeastPrivilege" in definition
    told = PRINTED["task_scheduler"].how_to_install(schedule, tmp_path)
    assert definition in told and f"Register-ScheduledTask -TaskName SkillOpt-Sleep-{ID} " in told
    assert PRINTED["task_scheduler"].how_to_look(ID) == f"schtasks /query /tn SkillOpt-Sleep-{ID}"
    assert (
        PRINTED["task_scheduler"].how_to_remove(ID, tmp_path)
        == f"schtasks /delete /tn SkillOpt-Sleep-{ID} /f"
    )
    with pytest.raises(UsageError, match="log option of its own"):
        PRINTED["task_scheduler"].definition(FULL)


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
        replace(PLAIN, **change)


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


def test_another_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'cron'"):
        scheduler_for("crom", Recorder(), tmp_path)


def test_the_end_of_the_log_is_readable(tmp_path: Path) -> None:
    home = ProjectHome(folder=tmp_path, project=tmp_path)
    assert home.log_tail() is None
    home.log.write_bytes(b"old\n" * 50_000 + b"\x1b[31mnight 3: accepted\xff\n\nlast\n")
    os.utime(home.log, (1_700_000_000, 1_700_000_000))
    tail = home.log_tail(2)
    assert tail is not None
    assert tail["lines"] == [" [31mnight 3: accepted\ufffd", "last"]
    assert tail["written"] == "2023-11-14T22:13:20+00:00"
