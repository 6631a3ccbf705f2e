"""The real agent CLIs against the loopback provider: how each is installed, pointed at it, and scripted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from _loopback import Answer, Call, LoopbackProvider, world_answers
from real._npm import cli
from skillopt.config.load import Resolved, load
from skillopt.messages import ToolCall
from skillopt.models.world.rules import CASE, code_of, is_solved


@dataclass(frozen=True, slots=True, kw_only=True)
class RealAgent:
    """One agent CLI of the registry, and what its model calls its tools."""

    harness: str
    package: str
    version: str
    binary: str
    provider: str
    shell: str
    """Name of its shell tool."""
    argument: str
    """Name of that tool's command."""
    skill_tool: Mapping[str, str] | None = None
    """How its model loads a skill, where that cannot be forced from outside."""

    def options(self, provider: LoopbackProvider, env: Mapping[str, str]) -> list[str]:
        """The configuration that makes it the target."""
        program = cli(self.package, self.version, self.binary, env=env)
        url = provider.url if self.provider == "anthropic" else provider.base_url
        key = ["model.target.api_key=sk-loopback-target-key"]
        return [
            f"model.target={self.harness}/{self.provider}:m1@{url}",
            f"model.target.agent.path={program}",
            *key,
        ]

    def call(self, command: str) -> ToolCall:
        """A call of its shell."""
        arguments = {self.argument: command} | ({"description": "work"} if self.argument == "command" else {})
        return ToolCall(id=f"call_{abs(hash(command))}", name=self.shell, arguments=json.dumps(arguments))


CLAUDE = RealAgent(
    harness="claude_code",
    package="@anthropic-ai/claude-code",
    version="2.1.197",
    binary="claude",
    provider="anthropic",
    shell="Bash",
    argument="command",
)
CODEX = RealAgent(
    harness="codex",
    package="@openai/codex",
    version="0.166.0",
    binary="codex",
    provider="compatible",
    shell="exec_command",
    argument="cmd",
)
COPILOT = RealAgent(
    harness="copilot",
    package="@github/copilot",
    version="1.0.102",
    binary="copilot",
    provider="compatible",
    shell="bash",
    argument="command",
    skill_tool={"skill": "skillopt-target"},
)
OPENCODE = RealAgent(
    harness="opencode",
    package="opencode-ai",
    version="1.18.33",
    binary="opencode",
    provider="compatible",
    shell="bash",
    argument="command",
)


def scripted(agent: RealAgent, *commands: str, answer: str) -> Callable[[Call], str | Answer]:
    """A model that runs these commands one after the other and then answers."""

    def say(call: Call) -> str | Answer:
        if agent.shell not in call.tools:
            return "A title"
        steps = [agent.call(command) for command in commands]
        if agent.skill_tool is not None:
            steps.insert(0, ToolCall(id="call_skill", name="skill", arguments=json.dumps(agent.skill_tool)))
        done = len(call.results)
        return Answer(tool_calls=(steps[done],)) if done < len(steps) else answer

    return say


def agent_world(agent: RealAgent) -> Callable[[Call], str | Answer]:
    """The simulated world with an agent as its target: it looks around once, then solves the case if the
    rules it needs are before it.
    """
    optimizer = world_answers()

    def say(call: Call) -> str | Answer:
        if call.place is not None:
            return optimizer(call)
        case = CASE.search(call.text)
        if case is None or agent.shell not in call.tools:
            return "A title"
        look = scripted(agent, "ls", answer="")(call)
        if look:
            return look
        return f"<answer>{code_of(case[0]) if is_solved(case[0], call.text) else 'unknown'}</answer>"

    return say


def resolved(tmp_path: Path, *options: str) -> Resolved:
    """A configuration of options alone."""
    return load(None, flags={}, options=list(options), environ={}, cwd=tmp_path)
