"""OpenCode: the skill in `.agents/skills`, run as the command that every skill is."""

from __future__ import annotations

from skillopt.harnesses._agent import AgentHarness
from skillopt.harnesses.port import Harness, Setup


def PLUGIN(setup: Setup) -> Harness:  # noqa: N802 - the name every plug-in has
    """The harness of that agent CLI, which must be installed."""
    return AgentHarness("opencode", setup)
