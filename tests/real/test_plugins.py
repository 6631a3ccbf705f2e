"""The plugin is installed, found and taken out by the real agents' own commands, beside a person's own files.

The programs come from npm and talk to a provider on this machine. The home folder has a blank and an umlaut
in its name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import pytest

from real._agents import CLAUDE, CODEX, COPILOT, OPENCODE, RealAgent
from real._npm import cli
from real._recorder import recording
from skillopt.cli.plugin import plugin_folder
from skillopt_sleep.drafts import FileDraft
from skillopt_sleep.judgement import Cost, EditEvidence, Judgement
from skillopt_sleep.store import Store

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.name == "nt", reason="the programs are started as on Unix"),
]

DESCRIPTION = "Trains, measures and compares agent skills"
BODY = "The test split is looked at once."
PLUGIN = plugin_folder()
QUIET = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
)

THEIRS = {
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody with a home folder and a project, and the real programs."""

    home: Path
    machine: Mapping[str, str]

    @property
    def project(self) -> Path:
        return self.home / "a project"

    def skillopt(self, *words: str) -> str:
        """Our program, as a person starts it."""
        return self._run(["skillopt", *words])

    def program(self, agent: RealAgent, *words: str, cwd: Path | None = None, **env: str) -> str:
        """An agent's program: what it says."""
        return self._run([str(self._path(agent)), *words], cwd=cwd, **env)

    def shell(self, line: str) -> str:
        """A line of a shell."""
        return self._run(["/bin/sh", "-c", line])

    def _path(self, agent: RealAgent) -> Path:
        return cli(agent.package, agent.version, agent.binary, env=self.machine)

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

    def _run(self, command: list[str], cwd: Path | None = None, **env: str) -> str:
        tools = self.home.parent / "my tools"  # a blank in the name of the folder of programs
        if not tools.exists():
            tools.mkdir()
            (tools / "skillopt").symlink_to(Path(sys.executable).parent / "skillopt")
            for agent in (CLAUDE, CODEX, COPILOT):
                (tools / agent.binary).symlink_to(self._path(agent))
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        whole = {"HOME": str(self.home), "PATH": path, **dict.fromkeys(QUIET, "1"), **env}
        ran = subprocess.run(
            command,
            cwd=cwd or self.project,
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
    for name, text in THEIRS.items():
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
    step = EditEvidence(text=f"{before}\n- Stripes.\n")
    judged = Judgement(action="accept", verified=True, why="better")
    draft = FileDraft(name="okapi", kind="skill", path=skill, before=before, steps=[step], judgement=judged)
    Store(state=state).stage(
        [draft],
        roots=[skill.parents[1]],
        project=str(person.project.resolve()),
        night="night-1",
        now=datetime.now(timezone.utc),
        cost=Cost(),
        notes=[],
    )


def settings(home: Path) -> dict[str, str]:
    """What the person wrote, by its path: of settings what they say, as the programs write these anew."""
    found = {}
    for name in THEIRS:
        text = (home / name).read_text()
        if name == ".claude/settings.json":
            kept = {key: value for key, value in json.loads(text).items() if value}
            text = json.dumps(kept, sort_keys=True)
        found[name] = text.rstrip() if name.endswith(".toml") else text
    return found


def named(home: Path) -> list[str]:
    """The settings and lists of plugins in which something says our name; what the programs log stays theirs."""
    kept = (".claude/*.json", ".claude/plugins/*.json", ".codex/*.toml", ".copilot/*.json", ".agents/*.json")
    found = (path for pattern in kept for path in home.glob(pattern))
    return sorted(str(path.relative_to(home)) for path in found if "skillopt" in path.read_text())


def test_claude_code_finds_the_plugin_runs_its_hook_and_forgets_it_again(person: Person) -> None:
    before = settings(person.home)
    person.skillopt("plugin", "install", "claude-code")
    person.skillopt("plugin", "install", "claude-code")  # changes nothing
    [plugin] = json.loads(person.program(CLAUDE, "plugin", "list", "--json"))
    assert (plugin["id"], plugin["enabled"], list(plugin["mcpServers"])) == (
        "skillopt-sleep@skillopt-sleep",
        True,
        ["skillopt"],
    )
    assert named(person.home)
    for folder in (PLUGIN, Path(plugin["installPath"])):
        assert "Validation passed" in person.program(CLAUDE, "plugin", "validate", "--strict", str(folder))

    # The server really starts and answers; Claude Code itself asks it.
    assert "Connected" in person.program(CLAUDE, "mcp", "list", MCP_TIMEOUT="60000")
    waiting(person)
    shown, sent = person.claude_events("hello")
    assert "last night proposes changes to okapi" in shown
    assert DESCRIPTION in sent
    assert BODY not in sent  # it costs nothing until it is called

    called = person.claude("/skillopt-sleep:skillopt-sleep status --json")
    assert "SkillOpt's night shift with: status --json" in called
    assert "fresh subagent" in person.claude("/skillopt-sleep:skillopt-sleep-handoff")
    assert "estimate NAME" in person.claude("/skillopt-sleep:skillopt-train my-skill")
    assert BODY in person.claude("/skillopt-sleep:skillopt")

    shutil.rmtree(person.home / ".skillopt-sleep")
    person.skillopt("plugin", "uninstall", "claude-code")
    assert settings(person.home) == before
    assert named(person.home) == []
    assert json.loads(person.program(CLAUDE, "plugin", "list", "--json")) == []
    shown, sent = person.claude_events("hello")
    assert DESCRIPTION not in sent
    assert "mcp__plugin_skillopt" not in sent
    assert "last night" not in shown


def test_the_public_lines_install_it_from_a_fresh_clone(person: Person, tmp_path: Path) -> None:
    clone = tmp_path / "a clone"
    shutil.copytree(PLUGIN.parent, clone / "plugins")
    person.program(CLAUDE, "plugin", "marketplace", "add", "./plugins/claude-code", cwd=clone)
    person.program(CLAUDE, "plugin", "install", "skillopt-sleep@skillopt-sleep", cwd=clone)
    assert "SkillOpt's night shift with: status" in person.claude("/skillopt-sleep:skillopt-sleep status")


def test_codex_finds_the_skill_and_the_server_and_forgets_them_again(person: Person) -> None:
    before = settings(person.home)
    person.skillopt("plugin", "install", "codex")
    listed = person.program(CODEX, "mcp", "list")
    assert "skillopt" in listed
    assert "mine" in listed
    sent = person.codex("hello")
    assert DESCRIPTION in sent
    assert BODY not in sent
    person.skillopt("plugin", "uninstall", "codex")
    assert settings(person.home) == before
    assert named(person.home) == []
    assert DESCRIPTION not in person.codex("hello")


def test_copilot_lists_the_skill_and_the_server_and_forgets_them_again(person: Person) -> None:
    before = settings(person.home)
    person.skillopt("plugin", "install", "copilot")
    person.skillopt("plugin", "install", "copilot")  # its marketplace is there already
    assert "skillopt" in person.program(COPILOT, "mcp", "list")
    assert DESCRIPTION in person.program(COPILOT, "skill", "list")
    person.skillopt("plugin", "uninstall", "copilot")
    assert settings(person.home) == before
    assert "skillopt" not in person.program(COPILOT, "mcp", "list")
    assert DESCRIPTION not in person.program(COPILOT, "skill", "list")


def test_opencode_finds_what_the_printed_text_puts_there(person: Person) -> None:
    said = person.skillopt("plugin", "install", "opencode")
    entry, copy = re.split(r"and copy the skill:\n", said.partition(":\n")[2])
    (person.home / ".config" / "opencode" / "opencode.json").write_text(entry)
    person.shell(copy.splitlines()[0])
    assert "skillopt" in person.program(OPENCODE, "mcp", "list")
    skills = {
        skill["name"]: skill["location"] for skill in json.loads(person.program(OPENCODE, "debug", "skill"))
    }
    assert skills["skillopt"] == str(
        person.home / ".config" / "opencode" / "skills" / "skillopt" / "SKILL.md"
    )
