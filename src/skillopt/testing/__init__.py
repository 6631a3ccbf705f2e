"""Public doubles: models that cost nothing, and an HTTP provider on loopback that can misbehave."""

from skillopt.models.providers.world import World
from skillopt.models.world.rules import WorldRules
from skillopt.testing._answers import Answer, Call
from skillopt.testing._doubles import FunctionModel, ScriptedModel, world_answers
from skillopt.testing._http import Misbehaviour
from skillopt.testing._loopback import Check, Logged, LoopbackProvider, seeded_latency
from skillopt.testing._quota import Quota

__all__ = [
    "Answer",
    "Call",
    "Check",
    "FunctionModel",
    "Logged",
    "LoopbackProvider",
    "Misbehaviour",
    "Quota",
    "ScriptedModel",
    "World",
    "WorldRules",
    "seeded_latency",
    "world_answers",
]
