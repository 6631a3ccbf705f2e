"""Stage 4, clip: no more edits than the learning rate allows, and a second chance for those whose target was misquoted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillopt.events import Selected, Sink
from skillopt.optimizer._ask import Asker
from skillopt.optimizer._render import edits_section, memory_section, section, skill_section
from skillopt.optimizer._replies import Ranking, Repair, Unusable
from skillopt.optimizer.aggregate import Merged
from skillopt.skill.document import Document
from skillopt.skill.edits import Edit, Outcome, apply, parse_edit


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The patch to apply, and every edit of the step that ended before it."""

    patch: tuple[Edit, ...]
    ended: tuple[Outcome, ...]
    offered: int
    """How many edits there were to choose from."""


class Selector:
    """Asks for a ranking only when there are more edits than the limit, for a repair only when a target is not found."""

    def __init__(self, asker: Asker, *, emit: Sink) -> None:
        self._asker = asker
        self._emit = emit

    async def select(
        self, place: str, skill: Document, memory: Sequence[Mapping[str, Any]], meta_skill: str, merged: Merged, limit: int
    ) -> Selection:
        """At most `limit` edits that can be looked up in the skill."""
        ended = list(merged.ended)
        chosen = merged.edits
        if len(chosen) > limit:
            chosen = await self._rank(place, skill, memory, meta_skill, merged.edits, limit)
            kept = {edit.id for edit in chosen}
            ended += [Outcome(edit=edit, state="over_limit", reason=f"limit {limit}") for edit in merged.edits if edit.id not in kept]
        patch = await self._repair(place, skill, chosen, ended)
        shown = [edit.as_json() for edit in patch]
        self._emit(Selected(id=f"{place}/select", place=place, limit=limit, ranked=len(merged.edits) > limit, edits=shown))
        return Selection(patch=patch, ended=tuple(ended), offered=len(merged.edits))

    async def _rank(
        self, place: str, skill: Document, memory: Sequence[Mapping[str, Any]], meta_skill: str, edits: tuple[Edit, ...], limit: int
    ) -> tuple[Edit, ...]:
        user = (
            skill_section(skill.text)
            + section("Advice from earlier epochs", meta_skill)
            + memory_section(memory)
            + edits_section(f"{len(edits)} edits, numbered from 0", edits)
            + section("Limit", f"Choose at most {limit}.")
        )
        reply = await self._asker.ask("ranking", place, "0", user, Ranking)
        if isinstance(reply, Unusable):
            return edits[:limit]
        wanted = list(dict.fromkeys(index for index in reply.selected_indices if 0 <= index < len(edits)))
        return tuple(edits[index] for index in wanted[:limit])

    async def _repair(self, place: str, skill: Document, chosen: tuple[Edit, ...], ended: list[Outcome]) -> tuple[Edit, ...]:
        lost = [outcome for outcome in apply(chosen, skill).outcomes if outcome.state == "unmatched"]
        if not lost:
            return chosen
        user = skill_section(skill.text) + edits_section("Edits whose target was not found", [outcome.edit for outcome in lost])
        reply = await self._asker.ask("repair", place, "0", user, Repair)
        repaired: list[Edit] = []
        if not isinstance(reply, Unusable):
            repaired = [parse_edit(edit, f"{place}/repair/0#{at}") for at, edit in enumerate(reply.edits[: len(lost)])]
        ended += lost
        gone = {outcome.edit.id for outcome in lost}
        return (*(edit for edit in chosen if edit.id not in gone), *repaired)
