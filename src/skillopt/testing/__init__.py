"""Public doubles: models that cost nothing and need no network."""

from skillopt.models.providers.world import World
from skillopt.models.world.rules import WorldRules
from skillopt.testing._doubles import FunctionModel, ScriptedModel

__all__ = ["FunctionModel", "ScriptedModel", "World", "WorldRules"]
