"""Lanes whose analyst writes the skill anew: the text is split into edits, each tried like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from skillopt.optimizer.forms import read_suggestion
from skillopt.optimizer.proof import ANALYST, LaneAnalyst
from skillopt.optimizer.render import proposals_section, section, skill_section
from skillopt.optimizer.replies import Rewrite, Suggestions, Unusable, WrittenSkill
from skillopt.skill.document import Document
from skillopt.skill.edits import Edit
from skillopt.skill.hunks import split
from skillopt.step import Step


class LaneRewriter(LaneAnalyst):
    """One question a lane: the whole skill, with the tasks that words of it should fix."""

    changes_files = False

    def _limit(self, failures: int) -> str:
        return "Write one skill."

    async def _edits(self, step: Step, item: str, user: str, most: int) -> Sequence[Edit] | Unusable:
        reply = await self._model.ask(step, ANALYST, item, user, WrittenSkill)
        if isinstance(reply, Unusable):
            return reply
        edits = _edits_of(step, item, step.skill, reply.new_skill)
        return edits if isinstance(edits, Unusable) else naming_tasks(edits, reply.changes)


class LaneAdviser(LaneAnalyst):
    """Two questions a lane: suggestions for its failures, and a skill that carries them out."""

    changes_files = False

    def _limit(self, failures: int) -> str:
        return f"Make at most {failures} suggestions."

    async def _edits(self, step: Step, item: str, user: str, most: int) -> Sequence[Edit] | Unusable:
        said = await self._model.ask(step, ANALYST, item, user, Suggestions)
        if isinstance(said, Unusable):
            return said
        read = [read_suggestion(one, str(number)) for number, one in enumerate(said.items[:most])]
        usable = [one for one in read if not one.problem]
        if not usable:
            return []
        wanted = (
            skill_section(step.skill.text)
            + section("Advice from earlier epochs", step.meta_skill)
            + proposals_section("Suggestions to carry out", usable)
        )
        reply = await self._model.ask(step, "rewrite", item, wanted, Rewrite)
        return reply if isinstance(reply, Unusable) else _edits_of(step, item, step.skill, reply.new_skill)


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


def _edits_of(step: Step, item: str, skill: Document, text: str) -> list[Edit] | Unusable:
    edits, problem = split(skill, text)
    if problem:
        return Unusable(f"the new skill {problem}")
    return [replace(edit, id=str(step.place.at(ANALYST, item, number=at))) for at, edit in enumerate(edits)]


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
