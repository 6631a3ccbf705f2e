"""An HTTP provider on loopback that speaks the vendors' APIs, counts like one, and can misbehave."""

from _loopback.answers import Answer, Call
from _loopback.http import Misbehaviour
from _loopback.provider import Check, Logged, LoopbackProvider, seeded_latency
from _loopback.quota import Quota
from _loopback.world import world_answers

__all__ = [
    "Answer",
    "Call",
    "Check",
    "Logged",
    "LoopbackProvider",
    "Misbehaviour",
    "Quota",
    "seeded_latency",
    "world_answers",
]
