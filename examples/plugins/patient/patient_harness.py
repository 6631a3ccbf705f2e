"""Patient: a chat in which the target may look at its answer once more before it counts."""

from skillopt import Message, Trajectory


class Patient:
    """Asks twice; the second answer counts."""

    name, version, asks_model = "patient", "1", True

    def __init__(self, setup):
        self._skill = setup.skill

    async def run(self, task, environment, skill, prompts, session):
        system = Message(role="system", content=prompts["rollout"].replace("{skill}", skill))
        said = (Message(role="user", content=task.prompt),)
        for again in (f"Look at it again. {task.prompt}", ""):
            reply = await session.ask((system, *said))
            said = (*said, Message(role="assistant", content=reply.text))
            if again:
                said = (*said, Message(role="user", content=again))
        return Trajectory(
            messages=said[1:],
            answer=reply.text,
            calls=session.calls,
            usage=session.usage,
            seconds=session.seconds,
        )
