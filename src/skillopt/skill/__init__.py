"""The skill: the document an agent loads before it works, and the only way it may change."""

from __future__ import annotations

from skillopt.skill.document import Document
from skillopt.skill.edits import Edit, Patch, apply
from skillopt.skill.folder import Skill, load_skill

__all__ = ["Document", "Edit", "Patch", "Skill", "apply", "load_skill"]
