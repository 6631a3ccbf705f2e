"""Direct chat: the skill in the system prompt, the task as the question, one reply - or several where the
environment answers.
"""

from __future__ import annotations

from collections.abc import Mapping

from skillopt.errors import Fault
from skillopt.harnesses.port import Session, Setup, converse, failure_of
from skillopt.messages import Message, Reply
from skillopt.tasks.benchmark import Conversation, Environment
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import Task


class Chat:
    """One question, one answer; with an environment that understands plain text, turn by turn. Others need
    another harness.
    """

    name = "chat"
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
        if environment is not None and not isinstance(environment, Conversation):
            raise Fault(
                "contract",
                f"task {task.id!r} can only be worked on with tools, which chat has none of: choose"
                " tool_loop/...",
            )

        async def observe(reply: Reply) -> tuple[Message, ...]:
            heard = None if environment is None else await environment.hear(reply.text)
            return () if heard is None else (Message(role="user", content=heard),)

        return await converse(task, environment, skill, prompts, session, observe=observe, failed=failure_of)


PLUGIN = Chat
