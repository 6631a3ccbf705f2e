"""Direct chat: skill in the system prompt, task as question, one reply, or several with an environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from skillopt.errors import Fault
from skillopt.harnesses.port import Harness, HarnessPlugin, Session, Setup, TurnByTurn
from skillopt.messages import Tool
from skillopt.skill.document import SKILL_FILE
from skillopt.skill.install import SkillListing, on_one_line
from skillopt.tasks.benchmark import Conversation, Environment
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import Task

NO_CHOICE = "no choice"
"""The failure of a reply that names neither a listed skill nor none."""
_CHOICE = re.compile(r"^\W*load\W*:\W*([\w-]+)", re.IGNORECASE | re.MULTILINE)


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


class SkillChoice(Chat):
    """A request to a model that is shown a list of skills and says which it loads. The skill is a
    description; a choice of the trained skill loads it.
    """

    version = "choice 1"

    def __init__(self, listing: SkillListing) -> None:
        super().__init__()
        self._own = listing.skill.name
        self._names = {"none", self._own, *(one.name for one in listing.others)}

    async def run(
        self,
        task: Task,
        environment: Environment | None,
        skill: str,
        prompts: Mapping[str, str],
        session: Session,
    ) -> Trajectory:
        """See `Harness`. A reply without a choice is a failure, which never counts as not loaded."""
        done = await super().run(task, environment, on_one_line(skill), prompts, session)
        said = _CHOICE.findall(done.answer)
        chosen = said[-1] if said and said[-1] in self._names else None
        failure = done.failure or (NO_CHOICE if chosen is None else None)
        return replace(done, failure=failure, loaded=(SKILL_FILE,) if chosen == self._own else ())


def _harness(setup: Setup) -> Harness:
    return Chat(setup) if setup.listing is None else SkillChoice(setup.listing)


PLUGIN: HarnessPlugin = _harness
