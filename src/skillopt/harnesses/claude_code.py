"""Claude Code: the skill in `.claude/skills`, invoked as the slash command it is."""

from __future__ import annotations

from skillopt.harnesses._agent import AgentHarness
from skillopt.harnesses.port import Harness, Setup


def PLUGIN(setup: Setup) -> Harness:  # noqa: N802 - the name every plug-in has
    """The harness of that agent CLI, which must be installed."""
    return AgentHarness("claude_code", setup)
