"""Drives an environment with the model's tool calls until it answers, all is done, or turns are over."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from skillopt.harnesses.port import TurnByTurn, is_over
from skillopt.messages import Message, Reply, Tool, ToolCall
from skillopt.tasks.benchmark import Environment
from skillopt.tasks.task import Task


class ToolLoop(TurnByTurn):
    """Turn by turn: calls are done, and what the environment shows is told. No call is the answer."""

    name = "tool_loop"
    version = "1"

    def tools(self, task: Task, environment: Environment | None) -> tuple[Tool, ...]:
        return () if environment is None else tuple(environment.tools)

    def sent(self, message: Message) -> Message:
        """Some servers refuse a whole conversation for one call in it that is no JSON object."""
        calls = [
            replace(call, arguments=json.dumps({"malformed": call.arguments}))
            if isinstance(_arguments(call), str)
            else call
            for call in message.tool_calls
        ]
        return replace(message, tool_calls=tuple(calls))

    def failure(self, reply: Reply) -> str | None:
        """A reply may be silent while it calls a tool; but one that was refused or cut off is over."""
        failure = super().failure(reply)
        return None if failure == "empty" and reply.tool_calls else failure

    async def observe(self, environment: Environment, reply: Reply) -> tuple[Message, ...]:
        """A result for each call; for a reply without one an observation, or nothing if it stands."""
        if not reply.tool_calls:
            return await super().observe(environment, reply)
        results = []
        for call in reply.tool_calls:
            result = "It is over: this call was not done."
            if not is_over(environment):
                result = await _result(environment, call)
            results.append(Message(role="tool", content=result, tool_call_id=call.id))
        return tuple(results)


PLUGIN = ToolLoop


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
