"""The agent CLIs, one file each: how one is started, how its events are read, and where its home is kept
apart from the user's.
"""

from __future__ import annotations

from skillopt.agents.port import Agent
from skillopt.registry import Registry

agents = Registry("agent", "skillopt.agents")


def agent(name: str) -> Agent:
    """The driver of that name; an unknown one is an error that names the near miss."""
    found: Agent = agents.get(name)
    return found
