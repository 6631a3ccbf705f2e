"""One declaration an agent: every part of it is found, and a stranger's counts as much as ours."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest

from skillopt.agents import (
    AGENTS,
    SOURCES,
    agent,
    agents,
    driven,
    driver,
    is_memory_file,
    memory_files,
    skill_folders,
    source,
)
from skillopt.agents.port import Agent
from skillopt.changes.best_skill import targets
from skillopt.errors import UnknownName
from skillopt.harnesses import harnesses
from skillopt.models import PROVIDERS
from skillopt.transcripts import Homes

STRANGER = """
from skillopt.agents.claude_code.driver import ClaudeCodeDriver
from skillopt.agents.jsonl.transcripts import JsonlTranscripts
from skillopt.agents.port import Agent


class Driver(ClaudeCodeDriver):
    name = "acme"


AGENT = Agent(
    name="acme",
    title="Acme",
    skills=".acme/skills",
    memory=("ACME.md",),
    driver=Driver,
    runs="Acme: by words",
    login="acme_cli",
    is_provider=True,
    source="acme",
    transcripts=lambda: JsonlTranscripts,
)
"""


def test_every_part_of_every_agent_can_be_had() -> None:
    for one in agents():
        assert agent(one.name) is one and AGENTS.describe(one.name)
        assert one.driver is None or (one.driver().name, one.driver().skills) == (one.name, one.skills)
        assert one.plugin is None or bool(one.plugin.install) != bool(one.plugin.by_hand)
        assert one.transcripts is None or one.transcripts()(Homes(home=Path("/none"))).name == one.source


@pytest.mark.parametrize("name", ["claude_code", "claude-code", "claude", "claude_cli"])
def test_an_agent_has_one_spelling_and_its_public_aliases(name: str) -> None:
    assert agent(name).name == "claude_code"


def test_a_name_that_is_nobodys_is_named_with_the_near_miss() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'codex'"):
        agent("codx")
    with pytest.raises(UnknownName, match="codex"):
        driver("devin")


def test_the_parts_of_agents_are_harnesses_providers_and_sources() -> None:
    assert set(driven()) < set(harnesses.names())
    assert harnesses.describe("claude_code") == (
        "Claude Code: the skill in `.claude/skills`, invoked as the slash command it is."
    )
    assert {"claude_cli", "codex_cli", "copilot_cli"} < set(PROVIDERS.names())
    assert "cursor_cli" not in PROVIDERS.names()
    assert source("copilot", Homes(home=Path("/none"))).name == "copilot_chat"
    assert source("claude", Homes(home=Path("/none"))).name == "claude_code"


def test_places_of_skills_and_memory_have_one_list() -> None:
    assert skill_folders() == (".claude/skills", ".agents/skills", ".cursor/skills", ".devin/skills")
    assert memory_files()[:3] == ("CLAUDE.md", "AGENTS.md", ".github/copilot-instructions.md")
    for name in (
        *memory_files(),
        "claude.MD",
        "x/.cursor/rules/a.mdc",
        ".github/instructions/a.instructions.md",
    ):
        assert is_memory_file(PurePath("/p") / name), name
    for name in ("README.md", "rules/a.mdc", "SKILL.md", ".github/README.md"):
        assert not is_memory_file(PurePath("/p") / name), name


def test_an_agent_of_another_package_is_one_like_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_skillopt.py").write_text(STRANGER)
    told = tmp_path / "acme_skillopt-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-skillopt\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[skillopt.agents]\nacme = acme_skillopt:AGENT\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert isinstance(agent("acme"), Agent)
    assert harnesses.describe("acme") == "Acme: by words." and callable(harnesses.get("acme"))
    assert "acme_cli" in PROVIDERS.names()
    assert source("acme", Homes(home=tmp_path)).found() == []
    assert "acme" in SOURCES.names() and targets()["acme"] == ".acme/skills"
    assert is_memory_file(PurePath("/p/ACME.md")) and ".acme/skills" in skill_folders()
