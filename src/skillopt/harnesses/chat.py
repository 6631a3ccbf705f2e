"""Direct chat: the skill in the system prompt, the task as the question, one reply."""

from __future__ import annotations

from collections.abc import Mapping

from skillopt.harnesses._harness import Session, Setup, failure_of, system_prompt
from skillopt.messages import Message
from skillopt.tasks.benchmark import Environment
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import Task


class Chat:
    """One question, one answer. Tasks that need an environment need another harness."""

    name = "chat"
    version = "1"
    asks_model = True

    def __init__(self, setup: Setup | None = None) -> None:
        """Nothing is set up: the session's model is all it needs."""

    async def run(
        self, task: Task, environment: Environment | None, skill: str, prompts: Mapping[str, str], session: Session
    ) -> Trajectory:
        system = Message(role="system", content=system_prompt(prompts["rollout"], skill))
        reply = await session.ask((system, Message(role="user", content=task.prompt, images=task.images)))
        said = Message(role="assistant", content=reply.text, tool_calls=reply.tool_calls)
        return Trajectory(messages=(said,), answer=reply.text, calls=session.calls, usage=session.usage, failure=failure_of(reply))


PLUGIN = Chat
