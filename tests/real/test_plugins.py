"""What our installer writes is found by the real agents, and taken back without a trace, over a person's own
files.

The programs come from npm and talk to a provider on this machine. The home folder has a blank and an umlaut
in its name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import pytest

from plugins._home import snapshot
from real._agents import CLAUDE, CODEX, COPILOT, OPENCODE, RealAgent
from real._npm import cli
from real._recorder import recording
from skillopt.agents import is_memory_file
from skillopt.changes.proposal import Cost, DraftStep, EditEvidence, Judgement, TargetDraft
from skillopt.changes.store import Store

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.name == "nt", reason="the programs are started as on Unix"),
]

DESCRIPTION = "Trains, measures and compares agent skills"
BODY = "The test split is looked at once."
QUIET = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody with a home folder and a project, and the real programs."""

    home: Path
    machine: Mapping[str, str]

    @property
    def project(self) -> Path:
        return self.home / "a project"

    def skillopt(self, *words: str) -> str:
        """Our program, as a person starts it; the folder it is in has a blank in its name too."""
        tools = self.home.parent / "my tools"
        if not tools.exists():
            tools.symlink_to(sys.prefix)
        return self._run([str(tools / "bin" / Path(sys.executable).name), "-s", "-m", "skillopt", *words])

    def program(self, agent: RealAgent, *words: str, **env: str) -> str:
        """An agent's program: what it says."""
        return self._run(
            [str(cli(agent.package, agent.version, agent.binary, env=self.machine)), *words], **env
        )

    def claude(self, prompt: str) -> str:
        """Claude Code, asked once: all that it sent."""
        with recording() as (url, bodies):
            self.program(
                CLAUDE,
                "-p",
                prompt,
                "--output-format",
                "json",
                ANTHROPIC_BASE_URL=url,
                ANTHROPIC_API_KEY="loopback",
            )
            assert bodies, "the agent sent nothing"
            return "\n".join(bodies)

    def claude_events(self, prompt: str) -> tuple[str, str]:
        """Claude Code, asked once: all that it shows, and all that it sent."""
        with recording() as (url, bodies):
            words = ("-p", prompt, "--output-format", "stream-json", "--verbose")
            shown = self.program(CLAUDE, *words, ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY="loopback")
            assert bodies, "the agent sent nothing"
            return shown, "\n".join(bodies)

    def codex(self, prompt: str) -> str:
        """Codex, asked once: all that it sent."""
        with recording() as (url, bodies):
            provider = f'{{name="s",base_url="{url}/v1",wire_api="responses",request_max_retries=0,stream_max_retries=0}}'
            settings = ("-c", 'model_provider="s"', "-c", f"model_providers.s={provider}")
            self.program(
                CODEX, "exec", "--skip-git-repo-check", "-s", "read-only", "-m", "m", *settings, prompt
            )
            assert bodies, "the agent sent nothing"
            return "\n".join(bodies)

    def _run(self, command: list[str], **env: str) -> str:
        whole = {"HOME": str(self.home), "PATH": os.environ["PATH"], **dict.fromkeys(QUIET, "1"), **env}
        ran = subprocess.run(
            command,
            cwd=self.project,
            env=whole,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr[-1500:] + ran.stdout[-1500:]
        return ran.stdout


@pytest.fixture
def person(tmp_path: Path, machine_env: Mapping[str, str]) -> Person:
    """They have settings, skills and commands of their own."""
    home = tmp_path / "zu Häuse"
    theirs = {
        ".claude/settings.json": '{\n\t"permissions": {"deny": ["WebFetch"]}\n}\n',
        ".claude/CLAUDE.md": "Be brief.\r\n",
        ".claude/commands/mine.md": "Say hello.\n",
        ".claude/skills/okapi/SKILL.md": "---\nname: okapi\ndescription: Knows okapis.\n---\n\nOkapis.\n",
        ".agents/skills/okapi/SKILL.md": "---\nname: okapi\ndescription: Knows okapis.\n---\n\nOkapis.\n",
        ".codex/config.toml": (
            '# mine\nmodel_verbosity = "low"\n\n[mcp_servers.mine]\ncommand = "/bin/true"\nenabled = false\n'
        ),
        ".copilot/mcp-config.json": '{\n    "mcpServers": {}\n}',
        ".config/opencode/opencode.json": '{"$schema": "https://opencode.ai/config.json", "theme": "x"}',
    }
    for name, text in theirs.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, newline="")
    (home / "a project").mkdir()
    return Person(home=home, machine=machine_env)


def waiting(person: Person) -> None:
    """A proposal of last night for one of their skills, and the wish to be told."""
    state = person.home / ".skillopt-sleep"
    state.mkdir(exist_ok=True)
    (state / "config.yaml").write_text("notices: [banner]\n")
    skill = person.home / ".claude" / "skills" / "okapi" / "SKILL.md"
    before = skill.read_text()
    step = DraftStep(text=f"{before}\n- Stripes.\n", evidence=EditEvidence())
    judged = Judgement(action="accept", verified=True, why="better")
    draft = TargetDraft(name="okapi", kind="skill", path=skill, before=before, steps=[step], judgement=judged)
    Store(state=state, is_memory_file=is_memory_file).stage(
        [draft],
        roots=[skill.parents[1]],
        project=str(person.project.resolve()),
        night="night-1",
        now=datetime.now(timezone.utc),
        cost=Cost(),
        notes=[],
    )


def test_claude_code_finds_the_plugin_runs_its_hook_and_forgets_it_again(person: Person) -> None:
    before = snapshot(person.home)
    person.skillopt("plugin", "install", "claude-code")
    installed = snapshot(person.home)
    assert "in place already" in person.skillopt("plugin", "install", "claude-code")
    assert snapshot(person.home) == installed

    [plugin] = json.loads(person.program(CLAUDE, "plugin", "list", "--json"))
    assert (plugin["id"], plugin["enabled"], list(plugin["mcpServers"])) == (
        "skillopt@skills-dir",
        True,
        ["skillopt"],
    )
    assert "/my tools/" in plugin["mcpServers"]["skillopt"]["command"]
    folder = person.home / ".claude" / "skills" / "skillopt"
    assert "Validation passed" in person.program(CLAUDE, "plugin", "validate", "--strict", str(folder))

    # The server really starts and answers; Claude Code itself asks it.
    assert "Connected" in person.program(CLAUDE, "mcp", "list", MCP_TIMEOUT="60000")
    waiting(person)
    shown, sent = person.claude_events("hello")
    assert "last night proposes changes to okapi" in shown
    assert DESCRIPTION in sent
    assert BODY not in sent  # it costs nothing until it is called

    called = person.claude("/skillopt-sleep status --json")
    assert "SkillOpt's night shift with: status --json" in called
    assert "fresh subagent" in person.claude("/skillopt-sleep-handoff")
    assert "estimate NAME" in person.claude("/skillopt-train my-skill")
    assert BODY in person.claude("/skillopt:skillopt")

    person.skillopt("plugin", "uninstall", "claude-code")
    after = snapshot(person.home)
    assert {path: after.get(path) for path in before} == before
    assert sorted(path for path in set(installed) - set(before) if path in after) == [
        ".skillopt-sleep"
    ]  # the proposal is in it
    assert json.loads(person.program(CLAUDE, "plugin", "list", "--json")) == []
    shown, sent = person.claude_events("hello")
    assert DESCRIPTION not in sent
    assert "mcp__plugin_skillopt" not in sent
    assert "last night" not in shown


def test_the_same_folder_is_a_marketplace_for_others(person: Person, tmp_path: Path) -> None:
    person.skillopt("plugin", "install", "claude-code")
    other = Person(home=tmp_path / "other", machine=person.machine)
    other.project.mkdir(parents=True)
    other.program(
        CLAUDE, "plugin", "marketplace", "add", str(person.home / ".claude" / "skills" / "skillopt")
    )
    other.program(CLAUDE, "plugin", "install", "skillopt@skillopt")
    [plugin] = json.loads(other.program(CLAUDE, "plugin", "list", "--json"))
    assert (plugin["id"], plugin["enabled"]) == ("skillopt@skillopt", True)
    assert "SkillOpt's night shift with: status" in other.claude("/skillopt:skillopt-sleep status")


def test_codex_finds_the_skill_and_the_server_and_forgets_them_again(person: Person) -> None:
    before = snapshot(person.home)
    person.skillopt("plugin", "install", "codex")
    listed = person.program(CODEX, "mcp", "list")
    assert "skillopt" in listed
    assert "mine" in listed
    sent = person.codex("hello")
    assert DESCRIPTION in sent
    assert BODY not in sent
    assert BODY in person.codex("$skillopt hello")
    person.skillopt("plugin", "uninstall", "codex")
    after = snapshot(person.home)
    assert {path: after.get(path) for path in before} == before
    assert not [path for path in after if "skillopt" in path]
    assert DESCRIPTION not in person.codex("hello")


def test_settings_that_codex_wrote_anew_lose_only_our_part(person: Person) -> None:
    settings = person.home / ".codex" / "config.toml"
    person.skillopt("plugin", "install", "codex")
    person.program(CODEX, "mcp", "add", "later", "--", "/bin/false")
    assert "in place already" in person.skillopt("plugin", "install", "codex")
    person.skillopt("plugin", "uninstall", "codex")
    left = settings.read_text()
    assert "skillopt" not in left
    assert left.startswith('# mine\nmodel_verbosity = "low"\n')
    listed = person.program(CODEX, "mcp", "list")
    assert "later" in listed
    assert "mine" in listed


def test_copilot_and_opencode_list_the_skill_and_the_server(person: Person) -> None:
    before = snapshot(person.home)
    person.skillopt("plugin", "install", "copilot")
    assert "skillopt" in person.program(COPILOT, "mcp", "list")
    assert DESCRIPTION in person.program(COPILOT, "skill", "list")
    person.skillopt("plugin", "uninstall", "copilot")
    person.skillopt("plugin", "install", "opencode")
    assert "skillopt" in person.program(OPENCODE, "mcp", "list")
    skills = {
        skill["name"]: skill["location"] for skill in json.loads(person.program(OPENCODE, "debug", "skill"))
    }
    assert skills["skillopt"] == str(
        person.home / ".config" / "opencode" / "skills" / "skillopt" / "SKILL.md"
    )
    person.skillopt("plugin", "uninstall", "opencode")
    after = snapshot(person.home)
    assert {path: after.get(path) for path in before} == before
