"""The questions of the strategy `proof`: which edits would fix these failures, in a large or a small form,
and which of the proven edits say the same.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from skillopt.evaluation.leaks import RUN
from skillopt.events import Minibatch
from skillopt.events.place import Place
from skillopt.events.step import Step
from skillopt.optimizer.ask import (
    OptimizerModel,
    clipped,
    format_answer,
    proposals_section,
    section,
    skill_section,
    studied_section,
)
from skillopt.optimizer.minibatches import TriedTask, minibatch_of
from skillopt.optimizer.proposers.port import DeadEdit, Evidence
from skillopt.optimizer.replies import (
    Groups,
    Mode,
    NamedEdits,
    Rewrite,
    Suggestions,
    Unusable,
    WorkedRule,
    WrittenSkill,
    for_files,
)
from skillopt.skill.document import ONE_DOCUMENT, EditableFiles
from skillopt.skill.edits import Edit
from skillopt.skill.rewrite import split
from skillopt.tasks.scorers import as_text

SHOWN_ANSWERS = 3
"""Answers under an edit that did nothing which the second look is shown."""
LONGEST_PROMPT = 3_000
"""Characters of the target's own prompt that are shown."""
ANALYST, JOINING = "analyst_proof", "joining"
_SURROUNDINGS = "What the agent is told, the skill in its place"


@dataclass(frozen=True, kw_only=True)
class LaneAnalyst:
    """Studies the failures of one lane and proposes edits that name the tasks they should fix. Where the mode
    rewrites skills it writes one, in a second question after suggestions, or at once.
    """

    varies: ClassVar[bool] = False
    """Whether another look asks another question, also where nothing new is known."""
    model: OptimizerModel
    mode: Mode = "patch"
    contrasts: bool = False
    target_prompt: str = ""
    """The target's system prompt, with `{skill}` in it."""
    scoring_rule: str = ""
    """What passes, in words."""
    files: EditableFiles = ONE_DOCUMENT
    """Those of the skill that may change."""

    async def study(self, step: Step, item: str, evidence: Evidence) -> Minibatch:
        """Edits for the failures of a lane."""
        failed = evidence.failed
        by_count = sorted(evidence.kinds.items(), key=lambda one: (-one[1], one[0]))
        kinds = ", ".join(f"{kind} {count}" for kind, count in by_count)
        limit = {
            "patch": f"Propose at most {len(failed)} edits.",
            "rewrite_from_suggestions": f"Make at most {len(failed)} suggestions.",
            "full_rewrite_minibatch": "Write one skill.",
        }[self.mode]
        fixed = (
            section(_SURROUNDINGS, clipped(self.target_prompt, LONGEST_PROMPT))
            + section("How answers are scored", self.scoring_rule)
            + skill_section(step.skill.whole if self.mode == "patch" else step.skill.text)
            + section("Advice from earlier epochs", step.meta_skill)
            + section("Edits that broke tasks which worked", "\n".join(map(_as_bullet, evidence.harmful)))
            + _dead_section(evidence.dead)
            + section("Held-out failures by kind of task", kinds)
            + section("Limit", f"{limit} You are shown {len(failed)} failed tasks.")
        )
        room = self.model.room(fixed, ANALYST)
        shown = studied_section("Failed tasks", failed, room, contrasts=self.contrasts)
        return minibatch_of(failed, await self._edits(step, item, fixed + shown, len(failed)))

    async def _edits(self, step: Step, item: str, user: str, most: int) -> Sequence[Edit] | Unusable:
        """What the model proposes to this question about so many failures."""
        place = step.place.at(ANALYST, item)
        if self.mode == "patch":
            named = await self.model.ask(step, ANALYST, item, user, for_files(NamedEdits, self.files))
            return named if isinstance(named, Unusable) else named.edits_at(place, most)
        changes: Sequence[Any] = ()
        reply: WrittenSkill | Rewrite | Unusable
        if self.mode == "full_rewrite_minibatch":
            reply = await self.model.ask(step, ANALYST, item, user, WrittenSkill)
            changes = () if isinstance(reply, Unusable) else reply.changes
        else:
            suggestions = await self.model.ask(step, ANALYST, item, user, Suggestions)
            if isinstance(suggestions, Unusable):
                return suggestions
            usable = [edit for edit in suggestions.edits_at(place, most) if not edit.problem]
            if not usable:
                return []
            wanted = (
                skill_section(step.skill.text)
                + section("Advice from earlier epochs", step.meta_skill)
                + proposals_section("Suggestions to carry out", usable)
            )
            reply = await self.model.ask(step, "rewrite", item, wanted, Rewrite)
        if isinstance(reply, Unusable):
            return reply
        edits, problem = split(step.skill, reply.new_skill)
        if problem:
            return Unusable(f"the new skill {problem}")
        numbered = [replace(edit, id=str(replace(place, number=at))) for at, edit in enumerate(edits)]
        return with_named_tasks(numbered, changes)


class Joiner:
    """Asks which of the proven edits say the same."""

    def __init__(self, model: OptimizerModel) -> None:
        self._model = model

    async def groups(self, step: Step, edits: Sequence[Edit]) -> list[list[int]]:
        """Groups of two or more numbers of edits, no number twice; none where the reply cannot be used."""
        shown = [Edit(op=edit.op, target=edit.target, content=edit.content, path=edit.path) for edit in edits]
        user = skill_section(step.skill.whole) + proposals_section(
            f"{len(edits)} edits, numbered from 0", shown
        )
        reply = await self._model.ask(step, JOINING, "0", user, Groups)
        return [] if isinstance(reply, Unusable) else groups_in(reply, len(edits))


def groups_in(reply: Groups, count: int) -> list[list[int]]:
    """The groups of two or more that a reply names among so many edits, no edit twice."""
    seen: set[int] = set()
    groups: list[list[int]] = []
    for numbers in reply.same:
        group = [number for number in dict.fromkeys(numbers) if 0 <= number < count and number not in seen]
        if len(group) > 1:
            seen.update(group)
            groups.append(sorted(group))
    return groups


def _as_bullet(edit: Edit) -> str:
    shown = {
        key: value for key, value in edit.as_json().items() if key in ("op", "path", "target", "content")
    }
    return f"- {json.dumps(shown, ensure_ascii=False)}"


def _dead_section(dead: Sequence[DeadEdit]) -> str:
    lines: list[str] = []
    for dead_edit in dead:
        lines.append(_as_bullet(dead_edit.edit))
        lines += [
            f"  - {format_answer(task, rollout)}" for task, rollout in dead_edit.answers[:SHOWN_ANSWERS]
        ]
    return section("Edits that were tried and did nothing", "\n".join(lines))


def with_named_tasks(edits: Sequence[Edit], changes: Sequence[Any]) -> list[Edit]:
    """The edits with the tasks that `changes` (`{"words": ..., "tasks": [...]}`) name for words of theirs;
    what cannot be read names none, and such edits are found by halving.
    """
    named_words = [
        (_plain(change["words"]), change["tasks"])
        for change in changes
        if isinstance(change, Mapping)
        and isinstance(change.get("words"), str)
        and isinstance(change.get("tasks"), list)
        and change["words"].strip()
    ]
    named = []
    for edit in edits:
        text = _plain(f"{edit.target} {edit.content}")
        tasks = list(
            dict.fromkeys(str(task) for words, names in named_words if words in text for task in names)
        )
        named.append(replace(edit, evidence={**edit.evidence, "tasks": tasks}) if tasks else edit)
    return named


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


SHOWN = 4
"""Failures one question shows; each look at a lane draws others, or the same in another order."""
SMALL_SIZE, SMALL_WINDOW = 8.0, 16_000
"""Billions of parameters, and tokens of context, below which a model is asked in the small form."""
LONGEST_COPY = 160
"""Characters up to which a wanted answer is an example and no text."""
_SIZE = re.compile(r"(?<![\d.])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z0-9])|(?<![\d.])(\d{2,4})m(?![a-z0-9])")
_WORD = re.compile(r"\w+")


def is_small(model: str, window: int) -> bool:
    """Whether a model is small by the largest size in its name (1.5b, 8x7b, 135m), or else by its window."""
    sizes = [
        float(millions) / 1000 if millions else float(billions) * int(experts or 1)
        for experts, billions, millions in _SIZE.findall(model.rsplit("/", 1)[-1].lower())
    ]
    return max(sizes) < SMALL_SIZE if sizes else window < SMALL_WINDOW


def by_kind(failures: Sequence[TriedTask], size: int) -> list[list[TriedTask]]:
    """Lanes of one kind each, about equal in size; tasks without a kind go by the likeness of words."""
    kinds: dict[str, list[TriedTask]] = {}
    for tries in failures:
        kinds.setdefault(tries.task.kind, []).append(tries)
    left = kinds.pop("", [])
    lanes = []
    for group in kinds.values():
        parts = math.ceil(len(group) / size)
        lanes += [group[at::parts] for at in range(parts)]
    while left:
        words = _words(left[0])
        left.sort(key=lambda one: -len(words & _words(one)) / len(words | _words(one)))
        lanes.append(left[: min(size, SHOWN)])
        left = left[min(size, SHOWN) :]
    return lanes


class SmallLaneAnalyst:
    """Studies failures of one kind and proposes one rule in two wordings: the small form of a lane's
    question, for optimizer models below about eight billion parameters.

    Such a model finds one rule for failures of one kind and loses its way among several, and it often spoils
    the worked example that a small target needs. So a lane holds one kind, the reply is one rule with one
    example, and two edits are made of it: the rule with the example of the model, and the rule with the
    wanted answer of a task, which is then not tried on that task.
    """

    varies = True

    def __init__(self, model: OptimizerModel, *, scoring_rule: str = "") -> None:
        self._model = model
        self._rule = scoring_rule

    async def study(self, step: Step, item: str, evidence: Evidence) -> Minibatch:
        """Edits for these failures. Of the `dead` edits the prompt shows only the last: a small model takes a
        list of bad rules for an offer.
        """
        failed = list(evidence.failed)
        order = random.Random(f"{step.seed} {item}").sample(failed, len(failed))
        fixed = (
            skill_section(step.skill.whole)
            + section("How answers are scored", self._rule)
            + section(
                "A rule that did not help; write another one", "\n".join(map(_bad_rule, evidence.dead[-1:]))
            )
        )
        share = self._model.room(fixed, ANALYST) // SHOWN // 3
        told = [
            f"Request: {clipped(one.task.prompt, share)}\n"
            f"The assistant said: {clipped(one.tries[-1].trajectory.answer, share)}\n"
            f"Wanted: {clipped(_reference(one) or one.tries[-1].score.feedback, share)}"
            for one in order[:SHOWN]
        ]
        user = fixed + section("Failed requests", "\n\n".join(told))
        reply = await self._model.ask(step, ANALYST, item, user, WorkedRule)
        if isinstance(reply, Unusable):
            return minibatch_of(failed, reply)
        return minibatch_of(failed, worked_edits(reply, order, step.place.at(ANALYST, item)))


def worked_edits(reply: WorkedRule, failures: Sequence[TriedTask], place: Place) -> list[Edit]:
    """The rule with the example that came with it, and with the wanted answer of the first task that has a
    short one. Neither names tasks whose answer it holds: these would pass by heart.
    """
    rule = " ".join(reply.rule.split()).lstrip("-* ")
    if not rule:
        return []
    wanted = {tries.task.id: _reference(tries) for tries in failures}
    short = [text for text in wanted.values() if "\n" not in text and 0 < len(text) <= LONGEST_COPY]
    examples = [(f'"{_own_words(reply.request, failures)}" -> {reply.answer.strip()}', reply.answer.strip())]
    examples += [(text, text) for text in short[:1]]
    edits = list[Edit]()
    for example, answer in examples:
        tasks = [task for task, text in wanted.items() if text != answer]
        if answer and tasks:
            id = str(replace(place, number=len(edits)))
            content = f"- {rule} Example: {example}"
            edits.append(Edit("append", content=content, evidence={"tasks": tasks}, id=id))
    return edits


def _own_words(request: str, failures: Iterable[TriedTask]) -> str:
    """A request, or its last few words where it is copied from a task: a skill may not quote one."""
    spans = [match.span() for match in _WORD.finditer(request)]
    runs = {
        tuple(request[a:b].casefold() for a, b in spans[at : at + RUN]) for at in range(len(spans) - RUN + 1)
    }
    for tries in failures:
        words = [word.casefold() for word in _WORD.findall(tries.task.prompt)]
        if any(tuple(words[at : at + RUN]) in runs for at in range(len(words) - RUN + 1)):
            return f"... {request[spans[1 - RUN][0] :]}"
    return request.strip()


def _reference(tries: TriedTask) -> str:
    return "" if tries.task.reference is None else as_text(tries.task.reference).strip()


def _bad_rule(dead_edit: DeadEdit) -> str:
    answers = [
        f"With it the assistant said: {clipped(row.trajectory.answer, 240)}"
        for _, row in dead_edit.answers[:1]
    ]
    return "\n".join([dead_edit.edit.content, *answers])


def _words(tries: TriedTask) -> set[str]:
    return {word.casefold() for word in _WORD.findall(tries.task.prompt)}
