"""SkillOpt in the agents people already use: one file an agent, and what their texts are filled in with."""

from __future__ import annotations

from skillopt.plugins._agent import Agent, InstallPlace, actions_of, agent, agent_names, install_of
from skillopt.plugins._kit import SKILL, Command, Kit, Option, Tool
from skillopt.plugins._program import Program, by_name, this_program
from skillopt.plugins._session_end import LOG, note

__all__ = [
    "LOG",
    "SKILL",
    "Agent",
    "Command",
    "InstallPlace",
    "Kit",
    "Option",
    "Program",
    "Tool",
    "actions_of",
    "agent",
    "agent_names",
    "by_name",
    "install_of",
    "note",
    "this_program",
]
