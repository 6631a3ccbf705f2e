"""Direct chat: skill in the system prompt, task as question, one reply, or several with an environment."""

from __future__ import annotations

from skillopt.errors import Fault
from skillopt.harnesses.port import TurnByTurn
from skillopt.messages import Tool
from skillopt.tasks.benchmark import Conversation, Environment
from skillopt.tasks.task import Task


class Chat(TurnByTurn):
    """One question, one answer; with an environment that understands plain text, turn by turn."""

    name = "chat"
    version = "1"

    def tools(self, task: Task, environment: Environment | None) -> tuple[Tool, ...]:
        if environment is not None and not isinstance(environment, Conversation):
            raise Fault(
                "contract",
                f"task {task.id!r} can only be worked on with tools, which chat has none of: choose"
                " tool_loop/...",
            )
        return ()


PLUGIN = Chat
