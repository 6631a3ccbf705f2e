"""GitHub Copilot CLI: the skill in `.claude/skills`, asked for in words and proven by its `skill` tool."""

from __future__ import annotations

from skillopt.harnesses._agent import AgentHarness
from skillopt.harnesses.port import Harness, Setup


def PLUGIN(setup: Setup) -> Harness:  # noqa: N802 - the name every plug-in has
    """The harness of that agent CLI, which must be installed."""
    return AgentHarness("copilot", setup)
