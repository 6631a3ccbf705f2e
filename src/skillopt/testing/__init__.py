"""Public doubles: models that cost nothing, and a real HTTP provider on loopback that can be told to misbehave."""

from skillopt.models.world import World, WorldRules
from skillopt.testing._answers import Answer, Call
from skillopt.testing._doubles import FunctionModel, ScriptedModel, world_answers
from skillopt.testing._loopback import Logged, LoopbackProvider, Misbehaviour, seeded_latency

__all__ = [
    "Answer",
    "Call",
    "FunctionModel",
    "Logged",
    "LoopbackProvider",
    "Misbehaviour",
    "ScriptedModel",
    "World",
    "WorldRules",
    "seeded_latency",
    "world_answers",
]
