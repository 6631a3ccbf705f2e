"""`skillopt plugin` as a person types it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli._commands import run
from plugins._home import snapshot
from skillopt.cli.plugin import agent_names


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "ho me"
    (folder / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder / "project")
    yield folder


@pytest.mark.slow
def test_the_list_names_every_agent_and_what_is_installed(home: Path) -> None:
    assert all(name in run("plugin", "list").out for name in agent_names())
    assert {"claude-code", "codex", "copilot", "cursor", "devin", "generic", "openclaw", "opencode"} <= set(
        agent_names()
    )
    assert run("plugin", "install", "codex").code == 0
    assert "installed for all projects" in run("plugin", "list").out
    skill = home / ".agents" / "skills" / "skillopt" / "SKILL.md"
    skill.write_text("mine")
    [codex] = [
        one for one in json.loads(run("plugin", "list", "--json").out)["agents"] if one["name"] == "codex"
    ]
    assert codex["installed"][0]["changed_since"] == [str(skill)]


@pytest.mark.slow
def test_a_dry_run_says_everything_and_does_nothing(home: Path) -> None:
    before = snapshot(home)
    ran = run("plugin", "install", "codex", "--dry-run")
    assert ran.code == 0
    assert f"create    {home / '.codex' / 'config.toml'}" in ran.out
    assert snapshot(home) == before
    planned = json.loads(run("plugin", "install", "codex", "--dry-run", "--json").out)
    done = json.loads(run("plugin", "install", "codex", "--json").out)
    assert planned["files"] == done["files"]
    assert planned["dry_run"] is True
    installed = snapshot(home)
    assert run("plugin", "uninstall", "codex", "--dry-run").code == 0
    assert snapshot(home) == installed


def test_install_again_and_uninstall_say_what_they_did(home: Path) -> None:
    before = snapshot(home)
    assert run("plugin", "install", "generic").code == 0
    assert "in place already" in run("plugin", "install", "generic").out
    assert json.loads(run("plugin", "install", "generic", "--json").out)["changed"] is False
    assert "removed" in run("plugin", "uninstall", "generic").out
    assert snapshot(home) == before


@pytest.mark.slow
def test_an_agent_is_installed_for_one_project_or_for_all(home: Path) -> None:
    assert run("plugin", "install", "claude-code", "--project", ".").code == 0
    assert (home / "project" / ".claude" / "commands" / "skillopt-sleep.md").is_file()
    assert not (home / ".claude").exists()
    wrong = run("plugin", "uninstall", "claude-code")
    assert wrong.code == 2
    assert f"--project {home / 'project'}" in wrong.err
    assert run("plugin", "uninstall", "claude-code", "--project", ".").code == 0


@pytest.mark.slow
def test_shared_files_can_name_no_machine(home: Path) -> None:
    assert "this machine's" in run("plugin", "install", "copilot", "--project", ".").out
    assert run("plugin", "install", "copilot", "--project", ".", "--portable").code == 0
    server = json.loads((home / "project" / ".vscode" / "mcp.json").read_text())["servers"]["skillopt"]
    assert server == {"type": "stdio", "command": "skillopt", "args": ["mcp"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("install", "claude"), "claude-code"),
        (("install", "generic", "--user"), "one project"),
        (("install", "codex", "--user", "--project", "."), "Keep one"),
        (("install", "codex", "--project", "nowhere"), "no folder nowhere"),
        (("uninstall", "codex"), "is not installed for all projects"),
        (("uninstall", "cursr"), "cursor"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(
    home: Path, words: tuple[str, ...], said: str
) -> None:
    before = snapshot(home)
    ran = run("plugin", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert snapshot(home) == before
