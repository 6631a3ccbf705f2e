"""What is shipped for agents to read says nothing that this version of the program does not do."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import skillopt
from plugins._cli import command_lines, complaint, options_alone
from skillopt.cli.plugin import plugin_folder
from skillopt.skill.spec import violations

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
PLUGIN = PLUGINS / "claude-code"
PAGES = [*sorted(PLUGINS.rglob("*.md")), ROOT / "docs" / "plugins.md"]
SKILL = PLUGIN / "skills" / "skillopt" / "SKILL.md"


def test_the_plugin_of_a_checkout_is_the_one_at_its_root() -> None:
    assert plugin_folder() == PLUGIN


def test_the_shipped_skill_keeps_every_rule_of_agent_skills() -> None:
    assert violations(SKILL.read_text(encoding="utf-8"), "skillopt") == []


def test_the_skill_names_each_of_its_references_and_no_other() -> None:
    named = set(re.findall(r"`references/([\w-]+\.md)`", SKILL.read_text(encoding="utf-8")))
    assert named == {path.name for path in (SKILL.parent / "references").iterdir()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_is_one_that_the_program_takes(page: Path) -> None:
    lines = command_lines(page.read_text(encoding="utf-8"))
    assert [said for said in map(complaint, lines) if said] == []


def test_command_lines_are_found_and_a_wrong_one_is_named() -> None:
    lines = command_lines(
        "`skillopt sleep diff`\n\n```\nskillopt train a --budget '$2'\nother\n```\n`skillopt trian`"
    )
    assert lines == ["skillopt sleep diff", "skillopt train a --budget '$2'", "skillopt trian"]
    assert complaint("skillopt trian")
    assert complaint("skillopt sleep adopt --edits 2")
    assert complaint("skillopt export RUN")  # an old name
    assert sum(len(command_lines(page.read_text(encoding="utf-8"))) for page in PAGES) > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_and_key_that_is_named_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    homes = ("train NAME", "sleep adopt", "sleep run", "plugin install AGENT", "eval")
    # An option is named with its value or without.
    tries = {
        one: [f"skillopt {home} {one}{value}" for home in homes for value in ("", " 1")]
        for one in options_alone(text)
    }
    assert [one for one, lines in tries.items() if all(map(complaint, lines))] == []
    keys = set(re.findall(r"\b((?:env|gate|evaluation|cache|train|model)\.[a-z_]+)\b", text)) - {
        "train.yaml",
        "train.md",
    }
    known = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") + (
        ROOT / "docs" / "benchmarks" / "own.md"
    ).read_text(encoding="utf-8")
    assert [
        key
        for key in sorted(keys)
        if f"`{key}`" not in known and f"`{key.removeprefix('env.')}`" not in known
    ] == []


def test_the_manifests_name_this_version_and_the_public_names() -> None:
    manifest, market = (
        json.loads((PLUGIN / ".claude-plugin" / name).read_text(encoding="utf-8"))
        for name in ("plugin.json", "marketplace.json")
    )
    [entry] = market["plugins"]
    assert manifest["name"] == market["name"] == entry["name"] == "skillopt-sleep"
    assert manifest["version"] == entry["version"] == skillopt.__version__
    assert (PLUGIN / entry["source"]).resolve() == PLUGIN


def test_what_the_plugin_starts_is_a_command_of_the_program() -> None:
    [server] = json.loads((PLUGIN / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"].values()
    hooks = json.loads((PLUGIN / "hooks" / "hooks.json").read_text(encoding="utf-8"))["hooks"]
    [hook] = hooks["SessionStart"][0]["hooks"]
    for line in (" ".join([server["command"], *server["args"]]), hook["command"]):
        assert complaint(line) == ""


def test_the_skill_tells_an_agent_that_the_person_decides() -> None:
    commands = ("skillopt-sleep", "skillopt-sleep-handoff", "skillopt-train")
    for path in (
        SKILL,
        SKILL.parent / "references" / "sleep.md",
        *(PLUGIN / "commands" / f"{name}.md" for name in commands[:2]),
    ):
        assert re.search(
            r"person'?s? (pays and decides|decides)|person's decision|never adopt on your own|clear yes",
            path.read_text(encoding="utf-8"),
            re.IGNORECASE,
        )
    assert {path.stem for path in (PLUGIN / "commands").iterdir()} == set(commands)
    for name in commands:
        head = yaml.safe_load(
            (PLUGIN / "commands" / f"{name}.md").read_text(encoding="utf-8").split("---\n")[1]
        )
        assert head["description"] and head["disable-model-invocation"] is True
        assert "allowed-tools" not in head  # the agent asks before it runs anything


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
@pytest.mark.parametrize("agent", ["codex", "cursor", "devin"])
@pytest.mark.parametrize("there", ["skillopt", "uv", "pipx", "nothing", "no checkout"])
def test_the_install_scripts_install_their_own_checkout_never_a_name_and_let_it_do_the_rest(
    tmp_path: Path, there: str, agent: str
) -> None:
    checkout = tmp_path / "a checkout"
    shutil.copytree(PLUGINS, checkout / "plugins")
    if there != "no checkout":
        (checkout / "pyproject.toml").touch()
    programs = tmp_path / "bin of mine"
    programs.mkdir()
    for tool in ("sh", "cp", "chmod"):
        (programs / tool).symlink_to(Path("/bin") / tool)
    ours, calls = tmp_path / "skillopt", tmp_path / "calls"
    ours.write_text(f'#!/bin/sh\necho "skillopt $*" >> "{calls}"\n')
    target = programs / "skillopt"
    installer = (
        f'#!/bin/sh\necho "$0 $*" >> "{calls}"\n[ "$1 $2" = "tool dir" ] && echo "{programs}" && exit\n'
        f'cp "{ours}" "{target}"\nchmod +x "{target}"\n'
    )
    for name, text in {"skillopt": ours.read_text(), "uv": installer, "pipx": installer}.items():
        if name == there:
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
    env = {"PATH": str(programs), "HOME": str(tmp_path), "PIPX_BIN_DIR": str(programs)}
    script = [str(programs / "sh"), str(checkout / "plugins" / agent / "install.sh"), "--dry-run"]
    ran = subprocess.run(script, env=env, capture_output=True, text=True, timeout=20, check=False)
    said = calls.read_text() if calls.exists() else ""
    if there in ("nothing", "no checkout"):
        assert ran.returncode == 1
        assert ("neither uv nor pipx" if there == "nothing" else "lies in no checkout") in ran.stderr
        return
    assert ran.returncode == 0, ran.stderr
    assert said.endswith(f"skillopt plugin install {agent} --dry-run\n")
    assert (
        f"install {checkout / 'plugins' / agent / '..' / '..'}[mcp]\n" in said
        or f"install {checkout}[mcp]\n" in said
    ) == (there != "skillopt")


def test_both_install_scripts_do_the_same() -> None:
    scripts = [(PLUGINS / f"install.{kind}").read_text(encoding="utf-8") for kind in ("sh", "ps1")]
    for line in (
        'uv tool install "${checkout}[mcp]"',
        'pipx install "${checkout}[mcp]"',
        "skillopt plugin install",
    ):
        assert all(line in script for script in scripts)


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
def test_the_public_doors_lead_to_our_commands(tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for line, said in (
        (["sh", PLUGINS / "run-sleep.sh"], "nights so far"),
        (
            [sys.executable, PLUGINS / "copilot" / "mcp_server.py", "--help"],
            "Serve SkillOpt to an agent over MCP",
        ),
    ):
        ran = subprocess.run(
            line, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.returncode == 0 and said in ran.stdout, ran.stderr
