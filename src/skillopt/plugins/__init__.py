"""SkillOpt in the agents people already use: one file an agent; here is what installs them and takes them
back.
"""

from __future__ import annotations

from skillopt.changes._install import Installer, agent, agent_names
from skillopt.changes._plan import Change, Plan, plan_uninstall
from skillopt.changes._receipt import Receipt, Receipts
from skillopt.plugins._agent import Agent, Place, Scope
from skillopt.plugins._kit import SKILL, Command, Kit, Option, Tool
from skillopt.plugins._program import Program, by_name, this_program
from skillopt.plugins._session_end import LOG, note

__all__ = [
    "LOG",
    "SKILL",
    "Agent",
    "Change",
    "Command",
    "Installer",
    "Kit",
    "Option",
    "Place",
    "Plan",
    "Program",
    "Receipt",
    "Receipts",
    "Scope",
    "Tool",
    "agent",
    "agent_names",
    "by_name",
    "note",
    "plan_uninstall",
    "this_program",
]
