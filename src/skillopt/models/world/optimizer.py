"""The *simulated* optimizer of the rule world: what it proposes at each stage and update mode.

It reads a request's stage and schema, and looks rules and cases up in its text; it parses no prose.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillopt.errors import ConfigError
from skillopt.messages import Request
from skillopt.models.world.rules import (
    ANCHOR,
    CASE,
    FAMILIES,
    HARMFUL,
    USELESS,
    WorldRules,
    chance,
    family_of,
    needs_of,
)
from skillopt.skill.document import unpack

ALL_RULES = (*(rule for pair in FAMILIES.values() for rule in pair), *HARMFUL, *USELESS)


def propose(request: Request, settings: WorldRules) -> dict[str, Any]:
    """The simulated answer, by request and place alone; raises at a stage it knows nothing of."""
    if request.stage not in _STAGES:
        raise ConfigError(
            f"The simulated optimizer proposes edits, and knows nothing of {request.stage!r}. Name a real"
            " model: --optimizer PROVIDER:MODEL."
        )
    asked = "\n".join(message.content for message in request.messages)
    return _STAGES[request.stage](
        _Question(asked=asked, schema=json.dumps(request.schema), dice=_Dice(settings.seed, request.place)),
        settings,
    )


def shown_skill(asked: str) -> str:
    """The skill a question shows; where it shows two, the newer one, and where the skill is empty none."""
    _, shown, rest = asked.rpartition("<skill>")
    return rest.partition("</skill>")[0] if shown else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    asked: str
    schema: str
    dice: _Dice

    @property
    def skill(self) -> str:
        return shown_skill(self.asked)

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(CASE.findall(self.asked)))

    @property
    def listed(self) -> list[dict[str, Any]]:
        """The proposals a request carries as JSON: the last fenced block."""
        return list(json.loads(self.asked.rpartition("```json")[2].partition("```")[0]))

    def wants(self, key: str) -> bool:
        """Whether the answer should hold that key: by the schema, or by the shape the prompt shows."""
        if self.schema != "null":
            return f'"{key}"' in self.schema
        return f'"{key}"' in self.asked or f"`{key}`" in self.asked


class _Dice:
    """Seeded by the place of the call: the same question at the same place gets the same answer."""

    def __init__(self, seed: int, place: str) -> None:
        self._seed = seed
        self._place = place
        self._rolls = 0

    def roll(self) -> float:
        self._rolls += 1
        return chance("dice", self._seed, self._place, self._rolls)

    def pick(self, options: Sequence[str]) -> str:
        return options[int(self.roll() * len(options))]


def _failure(question: _Question, settings: WorldRules) -> dict[str, Any]:
    dice, skill, cases = question.dice, question.skill, question.cases
    missing = Counter(rule for case in cases for rule in sorted(needs_of(case)) if rule not in skill)
    blamed = Counter(
        rule
        for case in cases
        for rule, hurts in HARMFUL.items()
        if rule in skill and family_of(case) in hurts
    )
    edits = [
        {"op": "delete", "target": f"- {rule}\n"} for rule, _ in blamed.most_common(1) if dice.roll() < 0.7
    ]
    edits += [_rule(rule, dice) for rule, _ in missing.most_common(3)]
    if dice.roll() < settings.harm:
        edits.insert(int(dice.roll() * (len(edits) + 1)), _rule(dice.pick(list(HARMFUL)), dice))
    summary = [
        {"failure_type": "rule_missing", "count": count, "description": f"needed: {rule}"}
        for rule, count in missing.most_common(3)
    ]
    answer = {"batch_size": len(cases), "failure_summary": summary, "patch": _patch(question, edits[:4])}
    if question.wants("appendix_notes"):
        # Reminders: one of a rule that is missing or was not followed, and now and then a harmful one.
        needed = Counter(rule for case in question.cases for rule in sorted(needs_of(case)))
        notes = [f"Remember: {rule}" for rule, _ in needed.most_common(1)]
        if question.dice.roll() < settings.harm:
            notes.append(f"Remember: {question.dice.pick(list(HARMFUL))}")
        answer["appendix_notes"] = notes
    return answer


def _lane(question: _Question, settings: WorldRules) -> dict[str, Any]:
    """Edits that name the cases they should fix: missing rules, and now and then a harmful one."""
    dice, skill, cases = question.dice, question.skill, question.cases
    missing = Counter(rule for case in cases for rule in sorted(needs_of(case)) if rule not in skill)
    edits = [
        {**_rule(rule, dice), "tasks": [case for case in cases if rule in needs_of(case)]}
        for rule, _ in missing.most_common()
    ]
    if dice.roll() < settings.harm:
        harmful = {**_rule(dice.pick(list(HARMFUL)), dice), "tasks": cases[:2]}
        edits.insert(int(dice.roll() * (len(edits) + 1)), harmful)
    edits = _filed(question, edits)
    if question.wants("rule"):  # the small form
        return {"rule": edits[0]["content"] if edits else "", "request": "", "answer": "a code"}
    if question.wants("new_skill"):
        text = skill
        for edit in edits:
            text = _with(text, edit["content"].removeprefix("- "))
        said = [{"words": edit["content"], "tasks": edit["tasks"]} for edit in edits]
        return {"new_skill": text, "changes": said}
    if question.wants("revise_suggestions"):
        return {"revise_suggestions": [_suggestion(edit) for edit in edits]}
    return {"edits": edits}


def _joining(question: _Question, settings: WorldRules) -> dict[str, Any]:
    """Edits with the same rule in them are the same."""
    by_rule: dict[str, list[int]] = {}
    for number, edit in enumerate(question.listed):
        for rule in ALL_RULES:
            if rule in str(edit.get("content", "")):
                by_rule.setdefault(rule, []).append(number)
    return {"same": [group for group in by_rule.values() if len(group) > 1]}


def _success(question: _Question, settings: WorldRules) -> dict[str, Any]:
    edits = [_rule(question.dice.pick(USELESS), question.dice)] if question.dice.roll() < 0.3 else []
    answer = {
        "batch_size": len(question.cases),
        "success_patterns": ["simulated"],
        "patch": _patch(question, edits),
    }
    return {**answer, "appendix_notes": []} if question.wants("appendix_notes") else answer


def _merge(question: _Question, settings: WorldRules) -> dict[str, Any]:
    if question.wants("skill_candidates"):
        first, *others = [str(one["new_skill"]) for one in question.listed]
        added = dict.fromkeys(
            line
            for text in others
            for line in text.splitlines()
            if line.startswith("- ") and line not in first
        )
        return {
            "reasoning": "simulated",
            "skill_candidates": [_candidate(first.rstrip("\n") + "\n" + "\n".join(added) + "\n")],
        }
    support: Counter[str] = Counter()
    kept: dict[str, dict[str, Any]] = {}
    for item in question.listed:
        words = str(item.get("instruction") or item.get("content") or item.get("target"))
        support[words] += int(item.get("support_count") or 1)
        kept.setdefault(words, item)
    key = "revise_suggestions" if question.wants("revise_suggestions") else "edits"
    return {
        "reasoning": "simulated",
        key: [{**kept[words], "support_count": count} for words, count in support.most_common()],
    }


def _ranking(question: _Question, settings: WorldRules) -> dict[str, Any]:
    order = sorted(range(len(question.listed)), key=lambda index: (index // 4, question.dice.roll()))
    return {"reasoning": "simulated", "selected_indices": order}


def _repair(question: _Question, settings: WorldRules) -> dict[str, Any]:
    edits = [{**edit, "target": ANCHOR} for edit in question.listed if edit.get("op") == "insert_after"]
    return {"reasoning": "simulated", "edits": edits}


def _rewrite(question: _Question, settings: WorldRules) -> dict[str, Any]:
    text = question.skill
    for suggestion in question.listed:
        for rule in ALL_RULES:
            if rule in str(suggestion["instruction"]):
                text = _without(text, rule) if suggestion["type"] == "remove_rule" else _with(text, rule)
    return {"reasoning": "simulated", "change_summary": ["simulated"], "new_skill": text}


def _learning_rate(question: _Question, settings: WorldRules) -> dict[str, Any]:
    return {
        "learning_rate": int(question.dice.roll() * 5),
        "reasoning": "simulated",
        "confidence": "medium",
        "risk_notes": [],
    }


def _consolidate(question: _Question, settings: WorldRules) -> dict[str, Any]:
    notes = [line[2:] for line in question.asked.splitlines() if line.startswith("- Remember:")]
    return {"appendix_notes": notes[: max(1, len(notes) // 2)]}


def _slow(question: _Question, settings: WorldRules) -> dict[str, Any]:
    missing = Counter(
        rule for case in question.cases for rule in sorted(needs_of(case)) if rule not in question.skill
    )
    rules = [rule for rule, _ in missing.most_common(1)] or [question.dice.pick(USELESS)]
    if question.dice.roll() < settings.harm:
        rules.append(question.dice.pick(list(HARMFUL)))
    return {
        "reasoning": "simulated",
        "slow_update_content": "## In the long run\n\n" + "\n".join(f"- {rule}" for rule in rules),
    }


def _meta(question: _Question, settings: WorldRules) -> dict[str, Any]:
    return {
        "reasoning": "simulated",
        "meta_skill_content": "Add one missing rule at a time and take back what broke cases.",
    }


_STAGES: Mapping[str, Callable[[_Question, WorldRules], dict[str, Any]]] = {
    "analyst_failure": _failure,
    "analyst_success": _success,
    "analyst_proof": _lane,
    "joining": _joining,
    "merge": _merge,
    "ranking": _ranking,
    "repair": _repair,
    "rewrite": _rewrite,
    "lr_autonomous": _learning_rate,
    "appendix_consolidate": _consolidate,
    "slow_update": _slow,
    "meta_skill": _meta,
}


def _rule(rule: str, dice: _Dice) -> dict[str, Any]:
    if dice.roll() < 0.5:
        return {"op": "append", "content": f"- {rule}"}
    return {
        "op": "insert_after",
        "target": ANCHOR if dice.roll() < 0.9 else ANCHOR.upper(),
        "content": f"- {rule}",
    }


def _patch(question: _Question, edits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The same changes in the form that was asked for."""
    if question.wants("revise_suggestions"):
        return {"reasoning": "simulated", "revise_suggestions": [_suggestion(edit) for edit in edits]}
    if question.wants("skill_candidates"):
        text = question.skill
        for edit in edits:
            rule = str(edit.get("content") or edit.get("target")).strip("- \n")
            text = _without(text, rule) if edit["op"] == "delete" else _with(text, rule)
        return {"reasoning": "simulated", "skill_candidates": [_candidate(text)] if edits else []}
    return {"reasoning": "simulated", "edits": _filed(question, edits)}


def _filed(question: _Question, edits: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same edits for a skill of several files, where a rule belongs in the reference of its family."""
    if not question.wants("path"):
        return [dict(edit) for edit in edits]
    files = unpack(question.skill)[1]
    families = {f"- {rule}": family for family, pair in FAMILIES.items() for rule in pair}
    filed = []
    for edit in edits:
        path = next((path for path in files if str(edit.get("target")) in files[path]), None)
        if family := families.get(str(edit.get("content"))):
            edit = {**edit, "op": "append", "path": f"references/{family}.md"}
            edit.pop("target", None)
        elif path is not None:
            edit = {**edit, "path": path}
        filed.append(dict(edit))
    return filed


def _suggestion(edit: Mapping[str, Any]) -> dict[str, Any]:
    rule = str(edit.get("content") or edit.get("target")).strip("- \n")
    kind, verb = ("remove_rule", "Remove") if edit["op"] == "delete" else ("add_rule", "Add")
    return {
        "type": kind,
        "title": rule[:40],
        "motivation": "simulated",
        "instruction": f"{verb} the rule: {rule}",
        "priority_hint": "high",
    }


def _candidate(text: str) -> dict[str, Any]:
    return {"title": "simulated", "change_summary": ["simulated"], "new_skill": text}


def _with(skill: str, rule: str) -> str:
    return skill if rule in skill else skill.rstrip("\n") + f"\n- {rule}\n"


def _without(skill: str, rule: str) -> str:
    return skill.replace(f"- {rule}\n", "")
