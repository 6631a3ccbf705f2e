"""What the optimizer sees of a run, and how it is asked: each thing once, stable parts first, evidence cut in
its middle; one re-ask at most.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TypeVar

from pydantic import BaseModel

from skillopt.errors import Fault, ProviderDown
from skillopt.events.place import Place
from skillopt.events.state import MemoryEntry
from skillopt.events.step import Step
from skillopt.messages import Message, Reply, Request
from skillopt.models.port import Model
from skillopt.models.reading import asked_again, schema_of
from skillopt.optimizer.minibatches import TriedTask
from skillopt.optimizer.replies import Unusable, read
from skillopt.skill.edits import Edit
from skillopt.tasks.benchmark import OPTIMIZER_STAGES
from skillopt.tasks.rollout import Scored
from skillopt.tasks.scorers import as_text
from skillopt.tasks.task import Task
from skillopt.tasks.template import fill

_OURS = re.compile(r"<(?=/?(?:rollout|task|did|reference|feedback)\b)", re.IGNORECASE)


def section(title: str, text: str) -> str:
    """A part of a prompt, or nothing where there is nothing to say."""
    return f"# {title}\n\n{text.strip()}\n\n" if text.strip() else ""


def skill_section(text: str) -> str:
    """The prompt section that holds the whole current skill, or a note that the skill is empty."""
    empty = "(The skill is empty: this is a start from nothing.)"
    return section("Current skill", f"<skill>\n{text}\n</skill>" if text.strip() else empty)


def memory_section(memory: Sequence[MemoryEntry], room: int) -> str:
    """What earlier steps tried and how the gate ruled; where there is no room for all of them, the latest."""
    kept: list[str] = []
    for entry in reversed(memory):
        lines = [f"- Step {entry.step}: {entry.action}. {entry.why}"]
        lines += [f"  - tried: {json.dumps(edit.as_json(), ensure_ascii=False)}" for edit in entry.edits]
        lines += [f"  - failures seen: {pattern}" for pattern in entry.patterns]
        text = "\n".join(lines)
        room -= len(text) + 1
        if room < 0:
            break
        kept.append(text)
    return section("What earlier steps tried", "\n".join(reversed(kept)))


def proposals_section(title: str, edits: Sequence[Edit]) -> str:
    """Proposals as the JSON objects they are, in order."""
    shown = json.dumps([edit.as_json() for edit in edits], ensure_ascii=False, indent=1)
    return section(title, f"```json\n{shown}\n```")


def studied_section(title: str, studied: Sequence[TriedTask], room: int, *, contrasts: bool) -> str:
    """Tasks with what the target did; every rollout that is shown has an equal share of the room.

    With `contrasts` each task was tried several times: the best is shown against the worst where they differ.
    """
    shown = sum(2 if contrasts and tries.differs else 1 for tries in studied)
    # The parts of a trajectory add up to seven sixths of its room, and its tags take about 160 characters
    # more, with what is said of several tries 220.
    share = max(120, (room // max(1, shown) - (220 if contrasts else 160)) * 6 // 7)
    parts: list[str] = []
    for tries in studied:
        best = trajectory(tries.task, tries.tries[0], share)
        counted = f"{len(tries.tries)} tries, {sum(rollout.score.passed for rollout in tries.tries)} passed."
        if not contrasts:
            parts.append(best)
        elif tries.differs:
            worst = trajectory(tries.task, tries.tries[-1], share, with_task=False)
            parts.append(f"{counted} The best try:\n{best}\nThe worst try:\n{worst}")
        else:
            parts.append(f"{counted}\n{best}")
    return section(title, "\n\n".join(parts))


def trajectory(task: Task, rollout: Scored, room: int, *, with_task: bool = True) -> str:
    """One rollout: the task with its reference (unless they were just shown), what the target did and how it
    was scored.

    Everything inside the tags is data.
    """
    did = rollout.trajectory
    verdict = f"hard {rollout.score.hard:g}, soft {rollout.score.soft:g}" + (
        f", target's own failure: {did.failure}" if did.failure else ""
    )
    question = f"<task>{_data(task.prompt, room // 3)}</task>\n"
    if task.reference is not None:
        question += f"<reference>{_data(as_text(task.reference), room // 6)}</reference>\n"
    feedback = (
        f"<feedback>{_data(rollout.score.feedback, room // 6)}</feedback>\n" if rollout.score.feedback else ""
    )
    turns = "\n".join(
        f"{message.role}: {message.content}"
        + "".join(f"\n{message.role} calls {call.name}({call.arguments})" for call in message.tool_calls)
        for message in did.messages
    )
    kind = f' kind="{html.escape(task.kind)}"' if task.kind else ""
    head = f'<rollout task="{html.escape(task.id)}"{kind} score="{html.escape(verdict)}">\n'
    return (
        f"{head}{question if with_task else ''}<did>\n{_data(turns, room // 2)}\n</did>\n{feedback}</rollout>"
    )


def format_answer(task: Task, rollout: Scored) -> str:
    """What a target answered beside what was expected, on one line; both are data."""
    expected = "" if task.reference is None else f", expected {_quoted(as_text(task.reference))}"
    return f"task {task.id}: answered {_quoted(rollout.trajectory.answer)}{expected}"


def _quoted(text: str) -> str:
    return json.dumps(_data(text, 240), ensure_ascii=False)


def _data(text: str, most: int) -> str:
    """Text of a task or a target, cut to fit; it cannot close the tag it stands in."""
    return _OURS.sub("&lt;", clipped(text, most))


def clipped(text: str, most: int) -> str:
    """A text of at most about so many characters, its head and its tail kept."""
    if len(text) <= most:
        return text
    half = max(0, (most - 40) // 2)
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[len(text) - half :]}"


R = TypeVar("R", bound=BaseModel)
CHARACTERS = 3
"""Of a token, on the safe side."""


class OptimizerModel:
    """The optimizer model with its prompts: a question has a stage, a place and a shape."""

    def __init__(
        self,
        model: Model,
        *,
        prompts: Mapping[str, str],
        max_tokens: int,
        context_window: int,
        words: Mapping[str, str] | None = None,
        suffixes: Mapping[str, str] | None = None,
        caps: Mapping[str, int] | None = None,
        models: Mapping[str, Model] | None = None,
    ) -> None:
        """`words` fill placeholders, `suffixes` go behind; `caps` and `models` are of single stages."""
        self._model = model
        self._prompts = {
            stage: fill(prompts.get(stage) or packaged(stage), words or {}) for stage in OPTIMIZER_STAGES
        }
        for stage, suffix in (suffixes or {}).items():
            self._prompts[stage] = f"{self._prompts[stage].rstrip()}\n\n{suffix.strip()}\n"
        self._max_tokens = max_tokens
        self._window = context_window
        self._caps = dict(caps or {})
        self._models = dict(models or {})

    def room(self, fixed: str, stage: str) -> int:
        """Characters left for evidence beside the fixed part of a prompt, on the safe side."""
        used = len(self._prompts[stage]) + len(fixed) + self._reserve
        return max(0, (self._window - self._cap(stage)) * CHARACTERS - used)

    def background(self, step: Step, skill: str) -> str:
        """What a question begins with: skill, advice, and memory, which may take a sixth of the window."""
        advice = section("Advice from earlier epochs", step.meta_skill)
        return skill_section(skill) + advice + memory_section(step.memory, self._window * CHARACTERS // 6)

    @property
    def _reserve(self) -> int:
        """Characters kept for headings and for asking once more, which quotes a reply only as far."""
        return min(4_400, self._window * CHARACTERS // 12)

    async def ask(self, step: Step, stage: str, item: str, user: str, shape: type[R]) -> R | Unusable:
        """The reply in its shape, or why there is none after a re-ask; a dead provider stops the run."""
        messages: tuple[Message, ...] = (
            Message(role="system", content=self._prompts[stage]),
            Message(role="user", content=user),
        )
        trouble = Unusable("not asked")
        for attempt in (0, 1):
            reply = await self._send(stage, step.place.at(stage, item, attempt=attempt), messages, shape)
            step.tokens.add(stage, 1, reply.usage)
            try:
                return read(reply, shape)
            except Unusable as error:
                most, trouble = self._reserve - 400, error
                quoted = reply.text if len(reply.text) <= most else f"{reply.text[:most]}\n[cut]"
                messages = asked_again(messages, quoted, error)
        return trouble

    async def _send(
        self, stage: str, place: Place, messages: tuple[Message, ...], shape: type[BaseModel]
    ) -> Reply:
        request = Request(
            messages=messages,
            max_tokens=self._cap(stage),
            role="optimizer",
            stage=stage,
            place=str(place),
            schema=schema_of(shape),
        )
        try:
            return await self._models.get(stage, self._model).complete(request)
        except Fault as fault:
            raise ProviderDown(
                f"The optimizer could not be asked ({stage} at {place}): {fault}. "
                "No step is lost: run the same command again when the cause is gone."
            ) from fault

    def _cap(self, stage: str) -> int:
        # Prompt and reply share the window: of a small one a reply may take a quarter, of a large one half.
        share = 4 if self._window <= 32_768 else 2
        return min(self._caps.get(stage, self._max_tokens), self._window // share)


def packaged(name: str) -> str:
    """A prompt of ours by its name."""
    return files("skillopt.optimizer").joinpath("prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")
