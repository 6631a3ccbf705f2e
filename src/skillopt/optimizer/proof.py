"""The two questions of the strategy `proof`: which edits would fix these failures, and which of the proven
edits say the same. Where the skill is written anew, the text is split into edits, tried like others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from skillopt.events import Minibatch
from skillopt.events.step import Step
from skillopt.optimizer.ask import OptimizerModel
from skillopt.optimizer.minibatches import minibatch_of
from skillopt.optimizer.proposers.port import DeadEdit, Evidence
from skillopt.optimizer.render import (
    clipped,
    proposals_section,
    section,
    skill_section,
    studied_section,
    told_answer,
)
from skillopt.optimizer.replies import (
    Groups,
    Mode,
    NamedEdits,
    Rewrite,
    Suggestions,
    Unusable,
    WrittenSkill,
    for_files,
)
from skillopt.skill.edits import Edit
from skillopt.skill.hunks import split
from skillopt.skill.paths import ONE_DOCUMENT, EditableFiles

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
    """What the target is told, with `{skill}` in it."""
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
            + section("Edits that broke tasks which worked", "\n".join(map(_told, evidence.harmful)))
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
            said = await self.model.ask(step, ANALYST, item, user, Suggestions)
            if isinstance(said, Unusable):
                return said
            usable = [one for one in said.edits_at(place, most) if not one.problem]
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
        return naming_tasks(numbered, changes)


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
    for said in reply.same:
        group = [number for number in dict.fromkeys(said) if 0 <= number < count and number not in seen]
        if len(group) > 1:
            seen.update(group)
            groups.append(sorted(group))
    return groups


def _told(edit: Edit) -> str:
    shown = {key: one for key, one in edit.as_json().items() if key in ("op", "path", "target", "content")}
    return f"- {json.dumps(shown, ensure_ascii=False)}"


def _dead_section(dead: Sequence[DeadEdit]) -> str:
    lines: list[str] = []
    for one in dead:
        lines.append(_told(one.edit))
        lines += [f"  - {told_answer(task, rollout)}" for task, rollout in one.answers[:SHOWN_ANSWERS]]
    return section("Edits that were tried and did nothing", "\n".join(lines))


def naming_tasks(edits: Sequence[Edit], changes: Sequence[Any]) -> list[Edit]:
    """The edits with the tasks that `changes` (`{"words": ..., "tasks": [...]}`) name for words of theirs;
    what cannot be read names none, and such edits are found by halving.
    """
    said = [
        (_plain(one["words"]), one["tasks"])
        for one in changes
        if isinstance(one, Mapping)
        and isinstance(one.get("words"), str)
        and isinstance(one.get("tasks"), list)
        and one["words"].strip()
    ]
    named = []
    for edit in edits:
        text = _plain(f"{edit.target} {edit.content}")
        tasks = list(dict.fromkeys(str(task) for words, many in said if words in text for task in many))
        named.append(replace(edit, evidence={**edit.evidence, "tasks": tasks}) if tasks else edit)
    return named


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
