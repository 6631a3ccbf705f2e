"""Ctrl-C and SIGTERM on a real program that talks to a slow provider."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from _loopback import LoopbackProvider, seeded_latency, world_answers
from cli._commands import SMALL, program
from skillopt.cli import main


@pytest.fixture(scope="module")
def slow() -> Iterator[LoopbackProvider]:
    with LoopbackProvider.in_thread(world_answers(), latency=seeded_latency(1, 0.02, 0.08)) as provider:
        yield provider


def arguments(provider: LoopbackProvider, out: str) -> list[str]:
    model = f"compatible:m@{provider.base_url}"
    models = ["--target_model", model, "--optimizer_model", model]
    return [
        "train",
        "--env",
        "world",
        *models,
        "--num_epochs",
        "1",
        "--batch_size",
        "12",
        "--out_root",
        out,
        "--cfg-options",
        "model.target.hedge=off",  # on a busy machine a slow call would be asked twice
        "model.optimizer.hedge=off",
        *SMALL,
    ]


@pytest.fixture(scope="module")
def undisturbed(slow: LoopbackProvider, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("undisturbed")
    running = program(*arguments(slow, "run"), "--json", cwd=home)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert json.loads(out)["status"] == "finished"
    return home / "run"


def wait_for_calls(provider: LoopbackProvider, number: int) -> None:
    deadline = time.monotonic() + 30
    while provider.calls < number:
        assert time.monotonic() < deadline, "the program sent nothing"
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "calls"), [(signal.SIGINT, 10), (signal.SIGTERM, 45)])
def test_a_signal_stops_between_decisions_and_the_same_command_goes_on_to_the_same_result(
    number: signal.Signals, calls: int, slow: LoopbackProvider, undisturbed: Path, tmp_path: Path
) -> None:
    before = slow.calls
    running = program(*arguments(slow, "run"), cwd=tmp_path)
    wait_for_calls(slow, before + calls)
    running.send_signal(number)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out) == (130, "")
    assert "Stopping: nothing further is sent" in err
    assert "run the same command" in err
    assert "python -m skillopt train --env world" in err
    assert "Traceback" not in err
    assert all(entry.status == 200 for entry in slow.log)  # what was sent was waited for
    paid = slow.calls

    again = program(*arguments(slow, "run"), "--json", cwd=tmp_path)
    out, err = again.communicate(timeout=60)
    assert (again.returncode, json.loads(out)["status"]) == (0, "finished")
    for name in ("best_skill.md", "skills/skill_v0002.md"):
        assert (tmp_path / "run" / name).read_bytes() == (undisturbed / name).read_bytes()
    sent = [(entry.place, entry.draw) for entry in slow.log[before:]]
    assert len(sent) == len(set(sent))  # nothing that was answered is asked again
    assert slow.calls > paid > before


@pytest.mark.slow
def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with LoopbackProvider.in_thread(world_answers(), latency=lambda call: 20.0) as provider:
        running = program(*arguments(provider, "run"), cwd=tmp_path)
        wait_for_calls(provider, 5)
        running.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert running.poll() is None
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=15)  # the calls under way would take 20 s
    assert running.returncode == 130


@pytest.mark.slow
def test_an_interrupted_eval_keeps_what_it_paid_for(slow: LoopbackProvider, tmp_path: Path) -> None:
    model = f"compatible:m@{slow.base_url}"
    words = ["eval --env world --target_model", model, "--skill", "none", "--split", "all", "--workers", "4"]
    words += ["--out_root", "run", "--cfg-options", "env.world_seed=7", *SMALL]
    before = slow.calls
    running = program(*words, cwd=tmp_path)
    wait_for_calls(slow, before + 12)
    running.send_signal(signal.SIGINT)
    sent = slow.calls
    _, err = running.communicate(timeout=15)  # the calls under way would take 20 s
    assert running.returncode == 130
    assert "run the same command" in err
    assert slow.calls <= sent + 16  # of 64: what was on its way, and not the other splits
    again = program(*words, "--json", cwd=tmp_path)
    out, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert sum(one["n"] for one in json.loads(out)["evaluations"]) == 64
    assert slow.calls == before + 64


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals on this system")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_outside_of_a_run_ends_a_command_in_words(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`diff` waits for a pipe here, as any command may wait for a slow file before a run is open."""
    number = getattr(signal, name)
    usual = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
    outside = signal.signal(number, usual)  # the tests may run under `nohup`
    pipe = tmp_path / "skill.md"
    os.mkfifo(pipe)

    def strike() -> None:
        with pipe.open("w"):  # which waits until the command reads
            os.kill(os.getpid(), number)
            ended.wait(30)

    ended = threading.Event()
    striking = threading.Thread(target=strike)
    striking.start()
    with pytest.raises(SystemExit) as end:
        main(["runs", "diff", str(pipe), str(pipe)])
    ended.set()
    striking.join()
    assert end.value.code == 130
    assert "stopped: interrupted. What was paid is kept" in capsys.readouterr().err
    assert signal.signal(number, outside) is usual
