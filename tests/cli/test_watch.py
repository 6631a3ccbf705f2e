"""`skillopt runs watch`: a run that another process works on, as a terminal shows it."""

from __future__ import annotations

import io
import shutil
import signal
import time
from pathlib import Path

import pytest
from rich.console import Console

from _loopback import LoopbackProvider
from cli._commands import SMALL, Command, program
from skillopt.cli._progress import panel
from skillopt.events import EpochEnded, parse_event
from skillopt.files import lock
from skillopt.runs.database import Database
from skillopt.runs.log import read_events
from skillopt.runs.reader import RunReader
from train._world import train

PATIENCE = 60


def drawn(watcher: RunReader, width: int = 80) -> str:
    out = Console(file=io.StringIO(), width=width, highlight=False)
    out.print(panel(watcher.status))
    return str(out.file.getvalue())  # type: ignore[attr-defined]


def test_once_shows_where_a_run_stands(skillopt: Command, finished: Path) -> None:
    ran = skillopt("runs watch", str(finished), "--once")
    assert (ran.code, ran.err) == (0, "")
    for words in (
        "simulated",
        "✓gate",
        "✓test",
        "val score",
        "●",
        "accepted",
        "calls",
        "cost $0.00",
        "0 in flight",
        "finished",
    ):
        assert words in ran.out, words
    assert "Simulated: The trained skill scored" in ran.out


def test_a_run_that_was_stopped_is_said_to_be_nobodys(
    skillopt: Command, finished: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "stopped"
    shutil.copytree(finished, folder)
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    (folder / "events.jsonl").write_text("".join(lines[:20]))
    ran = skillopt("runs watch", str(folder))
    assert ran.code == 0
    assert "No process works on it. Run the same training command again to go on." in ran.out
    assert "seed skill: 0." in ran.err  # what was decided so far


def test_a_strip_of_stages_fits_a_narrow_terminal(finished: Path, tmp_path: Path) -> None:
    lines = (finished / "events.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "settings.json").write_bytes((finished / "settings.json").read_bytes())
    (tmp_path / "run.db").write_bytes((finished / "run.db").read_bytes())
    upto = next(number for number, line in enumerate(lines) if '"type":"reflected"' in line)
    (tmp_path / "events.jsonl").write_text("".join(lines[: upto + 1]))
    watcher = RunReader(tmp_path)
    with lock(tmp_path / ".lock"):
        watcher.read()
    said = drawn(watcher)
    assert "✓rollout ✓reflect ▶aggregate ·select ·update ·gate ·slow ·test" in said
    assert "…" not in said


def test_a_terminal_of_half_the_width_loses_no_figure(finished: Path) -> None:
    watcher = RunReader(finished)
    watcher.read()
    assert drawn(watcher, 48).split() == drawn(watcher).split()


def test_a_run_that_stopped_before_its_baseline_is_not_said_to_start(
    skillopt: Command, finished: Path, tmp_path: Path
) -> None:
    first = (finished / "events.jsonl").read_text().splitlines(keepends=True)[0]
    (tmp_path / "events.jsonl").write_text(first)
    Database(tmp_path / "run.db").shut()
    ran = skillopt("runs watch", str(tmp_path), "--once")
    assert (
        "stopped before the baseline" in ran.out
        and "nobody works on it" in ran.out
        and "cost $0.00" in ran.out
    )
    assert "starting" not in ran.out and "·rollout" not in ran.out


def test_every_event_can_be_had_as_json(skillopt: Command, finished: Path) -> None:
    ran = skillopt("runs watch", str(finished), "--json-lines")
    told = [parse_event(line) for line in ran.out.splitlines()]
    assert [event for event in told if event.id is not None] == list(read_events(finished / "events.jsonl"))


def test_runs_itself_is_as_it_was_also_for_a_folder_named_watch(skillopt: Command, finished: Path) -> None:
    shutil.copytree(finished, "watch")
    listed = skillopt("runs ./watch")
    assert (listed.code, listed.err) == (0, "") and "step 6/6" in listed.out
    assert len(skillopt("runs --json ./watch").json["runs"]) == 1
    said = skillopt("runs --help").out
    assert "Usage: skillopt runs" in said and "│ watch " in said
    assert "Usage: skillopt runs watch" in skillopt("runs watch --help").out


@pytest.mark.slow
def test_two_programs_one_works_and_the_other_watches_from_before_it_began(
    provider: LoopbackProvider, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    watching = program("runs watch", str(folder), "--plain", "--wait", cwd=tmp_path)
    assert watching.stderr is not None
    assert watching.stderr.readline().startswith(f"Waiting for a run in {folder}.")
    model = f"compatible:m@{provider.base_url}"
    options = [
        "env.name=world",
        f"model.target={model}",
        f"model.optimizer={model}",
        "train.num_epochs=1",
        *SMALL,
    ]
    working = program("train --quiet --out_root", str(folder), "--cfg-options", *options, cwd=tmp_path)
    try:
        assert working.wait(PATIENCE) == 0
        out, err = watching.communicate(timeout=PATIENCE)
    finally:
        watching.kill()
        working.kill()
    assert watching.returncode == 0, err
    for words in ("seed skill: ", "step 1/", "in flight", "sealed test opened (look 1)"):
        assert words in err, words
    assert "✓test" in out and "finished" in out


@pytest.mark.slow
def test_ctrl_c_ends_the_watching_and_not_the_run(tmp_path: Path) -> None:
    watching = program("runs watch", str(tmp_path / "later"), "--wait", cwd=tmp_path)
    try:
        assert watching.stderr is not None and watching.stderr.readline().startswith("Waiting for a run")
        time.sleep(0.5)
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=PATIENCE)
    finally:
        watching.kill()
    assert watching.returncode == 0
    assert "No longer watching" in err


@pytest.mark.slow
def test_a_slow_update_that_was_taken_is_told_and_named_where_the_best_skill_comes_from_it(
    skillopt: Command, tmp_path: Path
) -> None:
    trained = train(tmp_path / "run", optimizer__slow_update_gate_with_selection=False)
    ran = skillopt("runs watch", str(tmp_path / "run"), "--once")
    state = trained.result.state
    assert f"best {state.best_score:.3f} (slow update epoch {state.epoch}) · seed" in ran.out
    taken = sum(one.slow_update.action == "force_accept" for one in trained.of(EpochEnded))
    assert f"slow updates: {taken} taken without a gate" in " ".join(ran.out.split())
