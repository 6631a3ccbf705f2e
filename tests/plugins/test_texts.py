"""What is shipped for agents to read says nothing that this version of the program does not do."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

import skillopt
from plugins._cli import command_lines, complaint, options_alone
from plugins._home import EVERYWHERE, actions, place
from skillopt.changes.actions import OwnFile, TextLines
from skillopt.changes.receipts import Scope
from skillopt.cli import app
from skillopt.cli.plugin import kit as own_kit
from skillopt.mcp import Toolbox
from skillopt.plugins.kit import Kit
from skillopt.skill.spec import violations

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ROOT / "src" / "skillopt" / "plugins" / "texts"
CODEX = ROOT / "src" / "skillopt" / "agents" / "codex" / "texts"
PAGES = [*sorted(TEXTS.rglob("*.md")), ROOT / "docs" / "plugins.md"]
SKILL = TEXTS / "skill" / "SKILL.md"


@pytest.fixture(scope="module")
def kit() -> Kit:
    """The real one, read off this program."""
    return own_kit()


def test_the_shipped_skill_keeps_every_rule_of_agent_skills(kit: Kit) -> None:
    assert violations(kit.text(TEXTS / "skill/SKILL.md"), "skillopt") == []


def test_the_skill_names_each_of_its_references_and_no_other() -> None:
    named = set(re.findall(r"`references/([\w-]+\.md)`", SKILL.read_text(encoding="utf-8")))
    assert named == {path.name for path in (TEXTS / "skill" / "references").iterdir()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_is_one_that_the_program_takes(page: Path) -> None:
    lines = command_lines(page.read_text(encoding="utf-8"))
    assert [said for said in map(complaint, lines) if said] == []


def test_command_lines_are_found_and_a_wrong_one_is_named() -> None:
    lines = command_lines(
        "`{{skillopt}} sleep diff`\n\n```\nskillopt train a --budget '$2'\nother\n```\n`skillopt trian`"
    )
    assert lines == ["skillopt sleep diff", "skillopt train a --budget '$2'", "skillopt trian"]
    assert complaint("skillopt trian")
    assert complaint("skillopt sleep adopt --edits 2")
    assert complaint("skillopt export RUN")  # to whom?
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


@pytest.mark.parametrize(("name", "scope"), EVERYWHERE)
def test_every_file_is_filled_in_and_of_this_version(
    kit: Kit, tmp_path: Path, name: str, scope: Scope
) -> None:
    made = actions(name, place(tmp_path, scope), kit)
    texts = {
        action.path: action.text if isinstance(action, OwnFile) else action.content
        for action in made
        if isinstance(action, (OwnFile, TextLines))
    }
    assert [path for path, text in texts.items() if "{{" in text] == []
    versions = [json.loads(text)["version"] for path, text in texts.items() if path.endswith("plugin.json")]
    assert all(version == skillopt.__version__ for version in versions)
    if name in ("claude-code", "cursor") and scope == "user":
        assert versions
    for path, text in texts.items():
        if text.startswith("---\n"):
            assert yaml.safe_load(text.split("---\n")[1])["description"], path


@pytest.mark.slow
def test_the_lists_of_commands_options_and_tools_are_the_programs_own(kit: Kit) -> None:
    commands = kit.text(TEXTS / "skill/references/commands.md")
    names = re.findall(r"^## skillopt (.+)$", commands, re.MULTILINE)
    tree = {name: get_command(app(name)).commands[name] for name in get_command(app()).commands}  # type: ignore[attr-defined]
    inner = [
        f"{name} {word}"
        for name, one in tree.items()
        for word, leaf in getattr(one, "commands", {}).items()
        if not leaf.hidden
    ]
    assert sorted(names) == sorted([*tree, *inner])
    assert "- `--edit`: Only the edit of this number; may be repeated." in commands
    assert "session-start" not in commands
    told = kit.text(TEXTS / "skill/references/tools.md")
    assert re.findall(r"^- `(\w+)`", told, re.MULTILINE) == [spec[0] for spec in Toolbox(app).specs()]


def test_the_skill_tells_an_agent_that_the_person_decides(kit: Kit) -> None:
    for name in (
        "skill/SKILL.md",
        "skill/references/sleep.md",
        "commands/skillopt-sleep.md",
        "commands/skillopt-sleep-handoff.md",
    ):
        text = TEXTS.joinpath(name).read_text(encoding="utf-8")
        assert re.search(
            r"person'?s? (pays and decides|decides)|person's decision|never adopt on your own|clear yes",
            text,
            re.IGNORECASE,
        )
    for name in ("skillopt-sleep", "skillopt-sleep-handoff", "skillopt-train"):
        head = yaml.safe_load(
            TEXTS.joinpath("commands", f"{name}.md").read_text(encoding="utf-8").split("---\n")[1]
        )
        assert head["disable-model-invocation"] is True
        assert "allowed-tools" not in head  # the agent asks before it runs anything


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
@pytest.mark.parametrize("there", ["skillopt", "uv", "pipx", "nothing", "no checkout"])
def test_the_install_script_of_codex_installs_its_own_checkout_never_a_name_and_lets_it_do_the_rest(
    tmp_path: Path, there: str
) -> None:
    checkout = tmp_path / "a checkout"
    texts = checkout / "src" / "skillopt" / "agents" / "codex" / "texts"
    texts.mkdir(parents=True)
    shutil.copy(CODEX / "install.sh", texts)
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
    script = [str(programs / "sh"), str(texts / "install.sh"), "--dry-run"]
    ran = subprocess.run(script, env=env, capture_output=True, text=True, timeout=20, check=False)
    said = calls.read_text() if calls.exists() else ""
    if there in ("nothing", "no checkout"):
        assert ran.returncode == 1
        assert ("neither uv nor pipx" if there == "nothing" else "lies in no checkout") in ran.stderr
        return
    assert ran.returncode == 0, ran.stderr
    assert said.endswith("skillopt plugin install codex --dry-run\n")
    assert (f"install {checkout}[mcp]\n" in said) == (there != "skillopt")


def test_both_install_scripts_do_the_same() -> None:
    scripts = [(CODEX / f"install.{kind}").read_text(encoding="utf-8") for kind in ("sh", "ps1")]
    for line in (
        'uv tool install "${checkout}[mcp]"',
        'pipx install "${checkout}[mcp]"',
        "skillopt plugin install codex",
    ):
        assert all(line in script for script in scripts)
