"""`skillopt plugin` as a person types it: the agent's own commands, or what to do by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli._commands import run
from skillopt.agents.port import FOLDER
from skillopt.cli.plugin import agent_names, plugin_folder, plugin_of

WITH_INSTALLER = [name for name in agent_names() if plugin_of(name).install]
BY_HAND = [name for name in agent_names() if not plugin_of(name).install]
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the programs are scripts of a shell")


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The programs of agents, which write down how they were called; those of `refused` fail."""
    programs, log = tmp_path / "bin of mine", tmp_path / "calls"
    programs.mkdir()
    for name in ("claude", "codex", "copilot", "skillopt"):
        script = f'#!/bin/sh\necho "{name} $*" >> "{log}"\necho said\n[ "$*" != "$REFUSED" ]\n'
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    return log


def test_the_public_agents_are_among_those_with_a_plugin() -> None:
    assert WITH_INSTALLER == ["claude-code", "codex", "copilot"]
    assert set(BY_HAND) == {"cursor", "devin", "generic", "openclaw", "opencode"}
    listed = run("plugin", "list")
    assert all(name in listed.out for name in agent_names())
    rows = json.loads(run("plugin", "list", "--json").out)["agents"]
    assert {row["name"]: row["installer"] for row in rows if row["installer"]} == {
        "claude-code": "claude",
        "codex": "codex",
        "copilot": "copilot",
    }


def test_install_and_uninstall_call_the_agents_own_commands(calls: Path) -> None:
    ran = run("plugin", "install", "claude-code")
    assert ran.code == 0 and "said" in ran.out and "not on the PATH" not in ran.out
    assert run("plugin", "uninstall", "claude-code").code == 0
    assert calls.read_text().splitlines() == [
        f"claude plugin marketplace add {plugin_folder()}",
        "claude plugin install skillopt-sleep@skillopt-sleep",
        "claude plugin uninstall skillopt-sleep@skillopt-sleep",
        "claude plugin marketplace remove skillopt-sleep",
    ]


@pytest.mark.parametrize("name", WITH_INSTALLER)
def test_a_dry_run_says_the_commands_and_runs_none(calls: Path, name: str) -> None:
    ran = run("plugin", "install", name, "--dry-run")
    assert ran.code == 0 and "would run: " in ran.out and "skillopt-sleep@skillopt-sleep" in ran.out
    planned = json.loads(run("plugin", "uninstall", name, "--dry-run", "--json").out)
    assert planned["dry_run"] is True and len(planned["commands"]) == 2
    assert not calls.exists()


def test_the_last_command_decides_and_what_it_said_is_shown(
    calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFUSED", f"plugin marketplace add {plugin_folder()}")  # it was added before
    assert run("plugin", "install", "copilot").code == 0
    monkeypatch.setenv("REFUSED", "plugin install skillopt-sleep@skillopt-sleep")
    ran = run("plugin", "install", "copilot")
    assert ran.code == 2 and "said" in ran.err and "`copilot` ended with 1" in ran.err


def test_an_agent_that_is_not_there_is_named_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = run("plugin", "install", "codex")
    assert (ran.code, ran.out) == (2, "")
    assert "no program 'codex'" in ran.err and "codex plugin add skillopt-sleep@skillopt-sleep" in ran.err
    assert "not on the PATH" in run("plugin", "install", "cursor").out  # and neither is ours


@pytest.mark.parametrize("name", BY_HAND)
def test_an_agent_without_an_installer_gets_a_text_to_follow(calls: Path, name: str) -> None:
    before = sorted(calls.parent.rglob("*"))
    ran = run("plugin", "install", name)
    assert ran.code == 0 and FOLDER not in ran.out and "None" not in ran.out
    for path in (plugin_folder() / "skills" / "skillopt", plugin_folder() / ".." / "AGENTS.snippet.md"):
        assert path.exists()
    assert str(plugin_folder()) in ran.out
    assert run("plugin", "uninstall", name).out.strip()
    assert sorted(calls.parent.rglob("*")) == before


@pytest.mark.parametrize(("name", "near"), [("claude-cod", "claude-code"), ("cursr", "cursor"), ("pi", "")])
def test_an_agent_that_is_none_is_named_with_the_near_miss(name: str, near: str) -> None:
    ran = run("plugin", "install", name)
    assert (ran.code, ran.out) == (2, "")
    assert name in ran.err and near in ran.err
