"""The simulated world as the answers of a loopback provider."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

from _loopback.answers import Call, turns
from skillopt.messages import Message, Request, Role
from skillopt.testing import World, WorldRules


def world_answers(rules: WorldRules | None = None) -> Callable[[Call], str]:
    """The simulated world as answers of a `LoopbackProvider`; the place header says who is asked, and in
    batches, which have none, it is the target.
    """
    world = World(rules or WorldRules())

    def answer(call: Call) -> str:
        place = call.place or ""
        role: Role = "target" if call.place is None or place.startswith("rollout/") else "optimizer"
        stage = "rollout" if role == "target" else place.rsplit("/", 3)[1]
        said = [Message(role=speaker, content=text) for speaker, text in turns(call.api, call.body)]
        if place.startswith("rollout/"):  # its key holds the address, and noise must not depend on a port
            asked = json.dumps([call.body.get("model"), [message.content for message in said]])
            place = f"{hashlib.sha256(asked.encode()).hexdigest()}.{place.partition('.')[2]}"
        return world.answer(
            Request(
                messages=tuple(said), max_tokens=1, role=role, stage=stage, place=place, draw=call.draw or 0
            )
        )

    return answer
