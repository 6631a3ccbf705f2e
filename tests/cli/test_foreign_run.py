"""A run folder of somebody else: its settings start nothing and send nothing anywhere before the person agrees."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from _loopback import LoopbackProvider
from cli._commands import SMALL, Command, program

PYTHON = shlex.quote(sys.executable)  # whose path may have blanks
COMMANDS = (
    ("train", "stranger"),
    ("train", "--from", "stranger"),
    ("eval", "stranger"),
    ("runs", "prune", "stranger"),
    ("check", "--config", "stranger", "skill.md"),
    ("estimate", "stranger", "--noise"),
    ("estimate", "stranger"),
    ("estimate", "stranger", "--measure"),
    ("try", "stranger"),
    ("doctor", "stranger"),
    ("tasks", "draft", "2", "--config", "stranger"),
)
"""Every command that opens models or code of a run's settings."""


@pytest.fixture
def stranger(skillopt: Command, finished: Path, tmp_path: Path) -> Callable[..., Path]:
    """Put a run into the working directory as if it had come with a repository, with other settings."""

    def put(**roles: Any) -> Path:
        folder = tmp_path / "stranger"
        shutil.copytree(finished, folder)
        (tmp_path / "skill.md").write_text("# Cases\n")
        return changed(folder, **roles)

    return put


def changed(
    folder: Path, *, env: dict[str, Any] | None = None, tracking: dict[str, Any] | None = None, **model: Any
) -> Path:
    """The run with other settings."""
    settings = json.loads((folder / "settings.json").read_text())
    settings["env"] = settings["env"] if env is None else env
    settings["tracking"] |= tracking or {}
    for key, given in model.items():
        is_role = isinstance(given, dict)
        settings["model"][key] = settings["model"].get(key, {}) | given if is_role else given
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


def trap(tmp_path: Path) -> str:
    """A program that leaves a file behind."""
    code = f"open({str(tmp_path / 'started')!r}, 'w')"
    (tmp_path / "trap.py").write_text(f"{code}\ndef run(work):\n    return 'answer'\n")
    return f"cmd: {PYTHON} {tmp_path / 'trap.py'}"


def tasks(tmp_path: Path) -> str:
    rows = [{"id": str(n), "question": f"{n} + {n}?", "answer": str(2 * n)} for n in range(30)]
    (tmp_path / "tasks.json").write_text(json.dumps(rows))
    return str(tmp_path / "tasks.json")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_starts_a_program_or_sends_a_key_because_a_strangers_run_says_so(
    skillopt: Command,
    stranger: Callable[..., Path],
    provider: LoopbackProvider,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: tuple[str, ...],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-person-0123456789")
    elsewhere = {"name": "openai:gpt-5.5", "base_url": provider.base_url}
    folder = stranger(target={"name": trap(tmp_path)}, optimizer=elsewhere)
    ran = skillopt(*words)
    assert not (tmp_path / "started").exists() and not provider.calls
    assert ran.code == 2, ran
    told = ran.err + ran.out
    assert f"{folder} was not made on this machine" in told and "--force" in told
    assert f"model.target: run cmd: {PYTHON} trap.py" in told
    assert f"model.optimizer: send to {provider.base_url} with the key of OPENAI_API_KEY" in told


def function(tmp_path: Path) -> dict[str, Any]:
    trap(tmp_path)
    return {"target": {"name": "trap.py:run"}}


def scorer(tmp_path: Path) -> dict[str, Any]:
    return {"env": {"name": "own", "data_path": tasks(tmp_path), "scorer": trap(tmp_path)}}


def listed(tmp_path: Path) -> dict[str, Any]:
    return {"env": {"name": "own", "data_path": tasks(tmp_path), "scorer": [sys.executable, "trap.py"]}}


def agent(tmp_path: Path) -> dict[str, Any]:
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\n")
    program.chmod(0o755)
    return {"target": {"name": "claude_code/claude_cli", "agent": {"path": str(program)}}}


def backend(tmp_path: Path) -> dict[str, Any]:
    made = agent(tmp_path)
    return {"target": made["target"] | {"name": "gpt-5.5"}, "target_backend": "claude_code"}


def proposer(tmp_path: Path) -> dict[str, Any]:
    return {"proposer": {"name": trap(tmp_path)}}


def several(tmp_path: Path) -> dict[str, Any]:
    return {"targets": f"world, {trap(tmp_path)}"}


def alone(tmp_path: Path) -> dict[str, Any]:
    return {"targets": trap(tmp_path)}


def unwalled(tmp_path: Path) -> dict[str, Any]:
    return {"env": {"name": "spreadsheetbench", "data_path": tasks(tmp_path), "sandbox": "limits"}}


def weights(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "evil.gguf").write_bytes(b"GGUF")
    return {"target": {"name": f"local:{tmp_path / 'evil.gguf'}"}}


@pytest.mark.parametrize(
    "made",
    [function, scorer, listed, agent, backend, proposer, several, alone, unwalled, weights],
    ids=lambda one: str(one.__name__),
)
def test_whatever_a_strangers_run_starts_is_shown_and_not_started(
    skillopt: Command, stranger: Callable[..., Path], tmp_path: Path, made: Callable[[Path], dict[str, Any]]
) -> None:
    stranger(**made(tmp_path))
    ran = skillopt("train stranger")
    assert not (tmp_path / "started").exists()
    named = {
        unwalled: "without a wall",
        agent: f"path = {tmp_path / 'claude'}",
        backend: "start the agent program claude_code",
    }
    assert ran.code == 2 and named.get(made, "evil.gguf" if made is weights else "trap.py") in ran.err, (
        ran.err
    )


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"target": {"name": "compatible:m@http://127.0.0.1:9/v1"}}, "http://127.0.0.1:9/v1 with no key"),
        ({"target": {"name": "http://127.0.0.1:9/run"}}, "send tasks and skill to http://127.0.0.1:9/run"),
        ({"targets": "world, openai:m@http://127.0.0.1:9/v1"}, "9/v1 with the key of openai in"),
        ({"judge": {"name": "openai:m", "base_url": "http://127.0.0.1:9/v1"}}, "model.judge: send to http"),
        (
            {"tracking": {"use": "otel", "otel": {"endpoint": "http://127.0.0.1:9"}}},
            "send figures to http://127.0.0.1:9 (otel)",
        ),
    ],
)
def test_wherever_a_strangers_run_sends_is_shown_and_not_sent(
    skillopt: Command,
    stranger: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    told: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-person-0123456789")
    stranger(**settings)
    ran = skillopt("train stranger")
    assert ran.code == 2 and told in ran.err, ran.err


def test_a_file_outside_that_a_strangers_run_would_write_is_shown_and_not_made(
    skillopt: Command, stranger: Callable[..., Path], tmp_path: Path
) -> None:
    folder, there = stranger(), tmp_path / "elsewhere.db"
    settings = json.loads((folder / "settings.json").read_text())
    settings["cache"]["path"] = str(there)
    (folder / "settings.json").write_text(json.dumps(settings))
    ran = skillopt("eval stranger --quiet")
    assert ran.code == 2 and f"write scored rows into {there}" in ran.err, ran.err
    assert not there.exists()


def test_a_config_in_the_folder_of_a_strangers_run_is_the_strangers_too(
    skillopt: Command, stranger: Callable[..., Path], tmp_path: Path
) -> None:
    folder = stranger()
    (folder / "train.yaml").write_text(f"model:\n  target: {json.dumps(trap(tmp_path))}\n")
    ran = skillopt("estimate stranger")
    assert ran.code == 2 and "trap.py" in ran.err


def test_a_strangers_run_with_plain_models_asks_nothing_and_is_shown_without_asking(
    skillopt: Command, stranger: Callable[..., Path], tmp_path: Path
) -> None:
    folder = stranger()
    assert skillopt("eval stranger --quiet").code == 0
    changed(folder, target={"name": trap(tmp_path)})
    assert skillopt("config show --config stranger").code == 0
    assert skillopt("report stranger").code == 0


@pytest.mark.slow
def test_what_the_person_names_or_forces_is_started(
    skillopt: Command, stranger: Callable[..., Path], tmp_path: Path
) -> None:
    stranger(target={"name": trap(tmp_path)})
    assert skillopt("estimate stranger --force").code == 0
    assert skillopt("estimate stranger --target world").code == 0
    named = skillopt("estimate stranger --target", f"cmd: {PYTHON} trap.py")
    assert named.code == 0, named.err


def test_a_run_that_was_made_here_asks_nothing_until_its_settings_are_changed(
    skillopt: Command, tmp_path: Path
) -> None:
    starts, small = trap(tmp_path), ("--cfg-options", "train.num_epochs=1", *SMALL)
    (tmp_path / "trap.py").write_text('print(\'{"answer": "A"}\')\n')
    trained = ("--target", starts, "--optimizer", "world", "--out_root", "mine", "--quiet")
    begun = skillopt("train quickstart", *trained, "--budget", "3 calls", *small)
    assert begun.code in (0, 4), begun.err
    again = skillopt("estimate mine")
    assert again.code == 0, again.err
    assert skillopt("train mine --quiet --budget", "4 calls").code in (0, 4)
    assert skillopt("estimate mine").code == 0
    changed(tmp_path / "mine", target={"name": f"{starts} --evil"})
    refused = skillopt("train mine")
    assert refused.code == 2 and "moved or changed since" in refused.err and "--evil" in refused.err


@pytest.mark.slow
@pytest.mark.parametrize(("said", "code"), [("y", 0), ("n", 2)])
def test_at_a_terminal_the_person_is_asked(
    skillopt: Command, stranger: Callable[..., Path], tmp_path: Path, said: str, code: int
) -> None:
    pty = pytest.importorskip("pty")
    stranger(target={"name": trap(tmp_path)})
    ours, theirs = pty.openpty()
    os.write(ours, f"{said}\n".encode())
    with os.fdopen(theirs) as terminal:
        asked = program("estimate stranger", cwd=tmp_path, stdin=terminal)
    told = asked.communicate(timeout=60)[1]
    os.close(ours)
    assert asked.returncode == code and "trap.py" in told and "Start it all the same?" in told
    assert (tmp_path / "started").exists() is False
