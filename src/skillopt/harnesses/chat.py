"""Direct chat: the skill in the system prompt, the task as the question, one reply - or several where the environment answers."""

from __future__ import annotations

from collections.abc import Mapping

from skillopt.errors import Fault
from skillopt.harnesses._harness import Session, Setup, failure_of, is_over, system_prompt
from skillopt.messages import Message
from skillopt.tasks.benchmark import Conversation, Environment
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import Task


class Chat:
    """One question, one answer; with an environment that understands plain text, turn by turn. Others need another harness."""

    name = "chat"
    version = "1"
    asks_model = True

    def __init__(self, setup: Setup | None = None) -> None:
        """Nothing is set up: the session's model is all it needs."""

    async def run(
        self, task: Task, environment: Environment | None, skill: str, prompts: Mapping[str, str], session: Session
    ) -> Trajectory:
        if environment is not None and not isinstance(environment, Conversation):
            raise Fault("contract", f"task {task.id!r} can only be worked on with tools, which chat has none of: choose tool_loop/...")
        system = Message(role="system", content=system_prompt(prompts["rollout"], skill))
        asked = (system, Message(role="user", content=task.prompt, images=task.images))
        said: tuple[Message, ...] = ()
        for _ in range(1 if environment is None else environment.max_turns):
            reply = await session.ask(asked + said)
            said = (*said, Message(role="assistant", content=reply.text, tool_calls=reply.tool_calls))
            failure = failure_of(reply)
            observed = None if environment is None or failure else await environment.hear(reply.text)
            if observed is None:
                break
            said = (*said, Message(role="user", content=observed))
            if is_over(environment):
                failure = environment.failure
                break
        else:
            failure = "turns"
        return Trajectory(messages=said, answer=reply.text, calls=session.calls, usage=session.usage, failure=failure)


PLUGIN = Chat
