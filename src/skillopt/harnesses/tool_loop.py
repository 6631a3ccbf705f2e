"""Drives an environment with the model's own tool calls until the model answers, the environment is done, or
the turns are over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from skillopt.harnesses.port import Session, Setup, converse, failure_of, is_over
from skillopt.messages import Message, Reply, ToolCall
from skillopt.tasks.benchmark import Conversation, Environment
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import Task


class ToolLoop:
    """Turn by turn: what the model calls is done, and what the environment shows is told. A reply without a
    call is the answer.
    """

    name = "tool_loop"
    version = "1"
    asks_model = True

    def __init__(self, setup: Setup | None = None) -> None:
        """Nothing is set up: the session's model is all it needs."""

    async def run(
        self,
        task: Task,
        environment: Environment | None,
        skill: str,
        prompts: Mapping[str, str],
        session: Session,
    ) -> Trajectory:
        """Without an environment there is one turn. Out of turns, also right after a tool call, is the
        failure `turns`.
        """
        tools = () if environment is None else tuple(environment.tools)
        observe = partial(_observe, environment)
        return await converse(
            task,
            environment,
            skill,
            prompts,
            session,
            observe=observe,
            failed=_failure,
            tools=tools,
            sent=_sendable,
        )


PLUGIN = ToolLoop


def _failure(reply: Reply) -> str | None:
    """A reply may be silent while it calls a tool; but one that was refused or cut off is over."""
    failure = failure_of(reply)
    return None if failure == "empty" and reply.tool_calls else failure


async def _observe(environment: Environment | None, reply: Reply) -> tuple[Message, ...]:
    """What the environment shows for a reply: a result for each call; for a reply without one an observation,
    or nothing if it stands.
    """
    if environment is None:
        return ()
    if not reply.tool_calls:
        heard = await environment.hear(reply.text) if isinstance(environment, Conversation) else None
        return () if heard is None else (Message(role="user", content=heard),)
    results = []
    for call in reply.tool_calls:
        result = (
            "It is over: this call was not done."
            if is_over(environment)
            else await _result(environment, call)
        )
        results.append(Message(role="tool", content=result, tool_call_id=call.id))
    return tuple(results)


async def _result(environment: Environment, call: ToolCall) -> str:
    names = [tool.name for tool in environment.tools]
    if call.name not in names:
        return f"There is no tool {call.name!r}. Known: {', '.join(names) or 'none'}. Nothing was done."
    arguments = _arguments(call)
    if isinstance(arguments, str):
        return f"The arguments of {call.name} are not {arguments}. Nothing was done."
    return await environment.step(call.name, arguments)


def _arguments(call: ToolCall) -> dict[str, Any] | str:
    """What a call was given, or in words what it is not."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        return f"JSON: {error}"
    return arguments if isinstance(arguments, dict) else "a JSON object"


def _sendable(message: Message) -> Message:
    """A message as it can be sent back: some servers refuse a whole conversation for one call in it that is
    no JSON object.
    """
    calls = [
        replace(call, arguments=json.dumps({"malformed": call.arguments}))
        if isinstance(_arguments(call), str)
        else call
        for call in message.tool_calls
    ]
    return replace(message, tool_calls=tuple(calls))
