"""What a form becomes on the command line, and what is remembered of a start."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

from cli._commands import run
from skillopt.errors import ConfigError, UsageError
from skillopt.files import holder, lock
from skillopt.process import start_detached
from skillopt_webui._launch import KEPT, Launches, LaunchRequest, RunLaunch, split_options
from skillopt_webui._runs import Roots

NOW = datetime(2026, 3, 1, 2, 15, tzinfo=timezone.utc)
TINY = (
    "env.train_cases=8",
    "env.val_cases=6",
    "env.test_cases=6",
    "train.num_epochs=1",
    "train.batch_size=8",
)


@pytest.fixture
def desk(tmp_path: Path) -> Launches:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    if "PYTHONPATH" in os.environ:
        env["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return Launches(Roots([tmp_path / "outputs"]), tmp_path, env)


def wait_for(desk: Launches, id: str, state: str) -> None:
    deadline = time.monotonic() + 60
    while desk.state(desk.load(id)) != state:
        assert time.monotonic() < deadline, f"{desk.state(desk.load(id))}: {desk.output(desk.load(id))}"
        time.sleep(0.05)


def test_options_are_lines() -> None:
    assert split_options("a.b=1\n\n # a note\n  c.d=x y  \n") == ("a.b=1", "c.d=x y")


def test_an_option_is_one_word_of_the_command_line_whatever_is_in_it() -> None:
    wish = LaunchRequest(config="my config.yaml", options=("env.prompt=--out_root=/etc; rm -rf $HOME",))
    assert wish.arguments == [
        "--config=my config.yaml",
        "--cfg-options=env.prompt=--out_root=/etc; rm -rf $HOME",
    ]
    assert "'env.prompt=--out_root=/etc; rm -rf $HOME'" in wish.spoken()


@pytest.mark.slow
def test_a_start_gets_a_folder_below_the_root_and_can_be_resumed_by_the_same_command(
    desk: Launches, tmp_path: Path
) -> None:
    made = desk.start(LaunchRequest(config="quickstart", options=TINY), NOW)
    assert Path(made.folder) == tmp_path / "outputs" / "quickstart-20260301-021500"
    wait_for(desk, made.id, "finished")
    assert (Path(made.folder) / "best_skill.md").is_file()
    assert "Simulated" in desk.output(made)
    assert [one.id for one in desk.all()] == [made.id]
    assert [place.folder for place in desk.roots.runs()] == [Path(made.folder)]
    events = (Path(made.folder) / "events.jsonl").read_bytes()
    again = desk.resume(Path(made.folder))
    assert again.folder == made.folder and again.options == made.options
    wait_for(desk, again.id, "finished")
    assert (Path(made.folder) / "events.jsonl").read_bytes() == events


@pytest.mark.slow
def test_a_run_of_a_terminal_is_taken_up_by_its_folder(desk: Launches, tmp_path: Path) -> None:
    folder = tmp_path / "outputs" / "theirs"
    ended = run("train", "quickstart", "--quiet", "--out_root", str(folder), "--cfg-options", *TINY)
    assert ended.code == 0, ended.err
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    decided = next(number for number, line in enumerate(lines) if '"kind":"baseline"' in line)
    (folder / "events.jsonl").write_text("".join(lines[: decided + 1]))
    made = desk.resume(folder)
    assert (made.config, made.options, made.folder) == (str(folder), (), str(folder))
    wait_for(desk, made.id, "finished")
    assert '"finished":true' in (folder / "events.jsonl").read_text()


def test_a_start_is_remembered_by_the_next_dashboard(desk: Launches) -> None:
    made = desk.start(LaunchRequest(config="quickstart", options=("train.train_size=5",)), NOW)
    wait_for(desk, made.id, "refused: nothing was paid")
    later = Launches(desk.roots, desk.cwd, desk.environ)
    assert later.load(made.id) == made and later.state(made) == "ended"
    assert "train split has 80 tasks" in later.output(made)
    kept = desk.home / made.id / "output.log"
    assert desk.home.name == KEPT
    private = (kept, kept.with_name("launched.json"), kept.parent, desk.home, desk.home.parent)
    assert not any(one.stat().st_mode & 0o077 for one in private)


@pytest.mark.parametrize(
    "folder", ["{0}/elsewhere", "elsewhere", "outputs/../elsewhere", "outputs/link/elsewhere"]
)
def test_a_run_folder_outside_of_the_roots_is_refused(desk: Launches, tmp_path: Path, folder: str) -> None:
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "link").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="lies outside of"):
        desk.start(
            LaunchRequest(config="quickstart", options=(*TINY, f"env.out_root={folder.format(tmp_path)}"))
        )
    assert desk.all() == []


@pytest.mark.parametrize(
    "option",
    [
        "model.target.api_key={0}",
        "model.target.base_url=http://me:{0}@127.0.0.1:1/v1",
        "model.target=compatible:m@http://me:{0}@[::1]/v1",
    ],
)
def test_a_key_is_refused_before_it_could_stand_in_a_command_line(desk: Launches, option: str) -> None:
    secret = "sk-abcdefghijkl"
    with pytest.raises(ConfigError, match="Put it into the environment") as caught:
        desk.start(LaunchRequest(config="quickstart", options=(option.format(secret),)))
    assert secret not in str(caught.value)
    assert not desk.home.exists()


def test_a_run_that_is_worked_on_is_not_started_twice(desk: Launches, tmp_path: Path) -> None:
    folder = tmp_path / "outputs" / "mine"
    with lock(folder / ".lock"), pytest.raises(UsageError, match="is being worked on by process"):
        desk.start(LaunchRequest(config="quickstart", options=(*TINY, f"env.out_root={folder}")))


def test_a_second_press_of_the_button_starts_nothing(desk: Launches, tmp_path: Path) -> None:
    wish = LaunchRequest(
        config="quickstart", options=(*TINY, f"env.out_root={tmp_path / 'outputs' / 'mine'}")
    )
    made = desk.start(wish)
    with pytest.raises(UsageError, match=f"is being worked on by process {made.pid} already"):
        desk.start(wish)
    assert [one.id for one in desk.all()] == [made.id]
    assert desk._unused(tmp_path / "outputs" / "mine").name == "mine-2"
    os.kill(made.pid, signal.SIGKILL)


def test_a_run_that_was_taken_up_elsewhere_is_running_and_can_be_stopped(
    desk: Launches, tmp_path: Path
) -> None:
    folder = tmp_path / "outputs" / "mine"
    one = RunLaunch(
        id="20260301-021500-00000000", config="quickstart", options=(), folder=str(folder), pid=1, started=NOW
    )
    assert desk.state(one) == "ended"
    with lock(folder / ".lock"):
        assert desk.state(one) == "running"


def test_only_what_works_on_a_run_can_be_stopped(desk: Launches, tmp_path: Path) -> None:
    folder = tmp_path / "outputs" / "left"
    folder.mkdir(parents=True)
    # left behind by a process that was killed; the number is somebody else's now
    (folder / ".lock").write_text(str(os.getpid()))
    with pytest.raises(UsageError, match="nothing to stop"):
        desk.stop(folder)


@pytest.mark.parametrize(
    "id", ["../../etc", "", "x", "20260301-021500-0000000g", "20260301-021500-00000000/.."]
)
def test_an_id_that_is_a_path_starts_nothing(desk: Launches, id: str) -> None:
    with pytest.raises(UsageError, match="Nothing was started from here"):
        desk.load(id)


def test_a_record_that_somebody_broke_hides_no_other(desk: Launches) -> None:
    for id, text in (
        ("20260301-021500-00000000", "{"),
        ("20260301-021501-00000000", json.dumps({"id": "x"})),
    ):
        (desk.home / id).mkdir(parents=True)
        (desk.home / id / "launched.json").write_text(text)
    (desk.home / "notes").mkdir()
    assert desk.all() == []


def test_a_detached_program_hears_no_signal_meant_for_us_and_cannot_be_missing(tmp_path: Path) -> None:
    code = "import os; print(os.getsid(0) == os.getpid(), os.environ.get('SECRET'))"
    child = start_detached(
        [sys.executable, "-c", code], env={}, cwd=tmp_path, output=tmp_path / "kept" / "log"
    )
    assert child.wait(30) == 0
    assert (tmp_path / "kept" / "log").read_text() == "True None\n"
    with pytest.raises(UsageError, match="could not be started"):
        start_detached([str(tmp_path / "none")], env={}, cwd=tmp_path, output=tmp_path / "log")


def test_a_stop_is_an_interrupt_of_the_holder(desk: Launches, tmp_path: Path) -> None:
    folder = tmp_path / "outputs" / "held"
    code = (
        f"import time, sys\nfrom skillopt.files import lock\nwith lock({str(folder / '.lock')!r}):\n   "
        " time.sleep(60)"
    )
    child = start_detached(
        [sys.executable, "-c", code], env=desk.environ, cwd=tmp_path, output=tmp_path / "log"
    )
    try:
        deadline = time.monotonic() + 30
        while holder(folder / ".lock") is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert desk.stop(folder) == child.pid
        assert child.wait(30) in (-signal.SIGINT, 1, 130)
    finally:
        child.kill()
        child.wait(10)


def a_strangers_run(folder: Path, tmp_path: Path) -> Path:
    """A run as it may lie in a cloned repository: its settings start a program."""
    folder.mkdir(parents=True)
    (folder / "run.db").touch()
    (folder / "events.jsonl").touch()
    model = {"target": {"name": f"cmd: touch {tmp_path / 'started'}"}}
    (folder / "settings.json").write_text(json.dumps({"env": {"name": "world"}, "model": model}))
    return folder


def test_a_run_of_somebody_else_starts_no_program_from_here(desk: Launches, tmp_path: Path) -> None:
    folder = a_strangers_run(tmp_path / "outputs/run", tmp_path)
    for start in (lambda: desk.resume(folder), lambda: desk.resolve(LaunchRequest(config=str(folder)))):
        with pytest.raises(UsageError, match="was not made on this machine"):
            start()


def test_a_start_that_a_repository_brought_along_is_not_resumed(desk: Launches, tmp_path: Path) -> None:
    folder = a_strangers_run(tmp_path / "outputs/run", tmp_path)
    known = {"id": "20260301-021500-0123abcd", "config": "quickstart", "folder": str(folder), "pid": 1}
    known |= {"options": [f"model.target.name=cmd: touch {tmp_path / 'started'}"], "started": NOW.isoformat()}
    for home in (".launched", "launched"):
        place = tmp_path / "outputs" / home / str(known["id"])
        place.mkdir(parents=True)
        (place / "launched.json").write_text(json.dumps(known))
    assert desk.of(folder) is None
    with pytest.raises(UsageError, match="was not made on this machine"):
        desk.resume(folder)
