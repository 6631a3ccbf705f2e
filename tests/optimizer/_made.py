"""An optimizer as tests ask for one: settings by name, whichever section of the configuration has them."""

from __future__ import annotations

from typing import Any

from skillopt.config.schema import GradientConfig, OptimizerConfig
from skillopt.models.port import Model
from skillopt.optimizer.optimizer import Optimizer


def made_optimizer(model: Model, **settings: Any) -> Optimizer:
    """The optimizer with the settings of these names; a smaller limit lowers the end of its schedule."""
    sections = [
        {name: settings.pop(name) for name in section.model_fields if name in settings}
        for section in (OptimizerConfig, GradientConfig)
    ]
    edits, gradient = sections
    edits.setdefault("min_learning_rate", min(2, edits.get("learning_rate", 2)))
    return Optimizer(model, OptimizerConfig(**edits), GradientConfig(**gradient), **settings)


def aware(source: str = "both", consolidate_above: int = 0) -> dict[str, Any]:
    """The settings of skill-aware reflection."""
    return {
        "use_skill_aware_reflection": True,
        "skill_aware_appendix_source": source,
        "skill_aware_consolidate_threshold": consolidate_above,
    }
