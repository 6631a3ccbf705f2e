"""SkillOpt trains the skill of an agent - the Markdown document it loads before it works - with the model
frozen.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillopt.api import Result, aoptimize, optimize
    from skillopt.errors import SkillOptError, Stopped, UsageError
    from skillopt.evaluation.compare import Comparison
    from skillopt.skill.document import Document
    from skillopt.skill.folder import load_skill
    from skillopt.tasks.rollout import Invalid, Score, Scored, Trajectory
    from skillopt.tasks.task import Task

try:
    __version__ = version("skillopt")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

_HOMES = {
    "Comparison": "skillopt.evaluation.compare",
    "Document": "skillopt.skill.document",
    "Invalid": "skillopt.tasks.rollout",
    "Result": "skillopt.api",
    "Score": "skillopt.tasks.rollout",
    "Scored": "skillopt.tasks.rollout",
    "SkillOptError": "skillopt.errors",
    "Stopped": "skillopt.errors",
    "Task": "skillopt.tasks.task",
    "Trajectory": "skillopt.tasks.rollout",
    "UsageError": "skillopt.errors",
    "aoptimize": "skillopt.api",
    "load_skill": "skillopt.skill.folder",
    "optimize": "skillopt.api",
}

__all__ = [
    "Comparison",
    "Document",
    "Invalid",
    "Result",
    "Score",
    "Scored",
    "SkillOptError",
    "Stopped",
    "Task",
    "Trajectory",
    "UsageError",
    "aoptimize",
    "load_skill",
    "optimize",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used: `import skillopt` itself stays light."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'skillopt' has no attribute {name!r}")
