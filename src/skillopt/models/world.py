"""The rule world: a *simulated* target and a *simulated* optimizer, in which training can be checked without a key.

The world holds rules: some help the cases that need them, some harm, some only take up room. The simulated target solves a case iff the
rules it needs stand in the skill and no harmful one does; noise flips a few answers. The simulated optimizer proposes missing rules,
and now and then a harmful or useless one. Both are pure functions of the request and its place.

`world` or `world:noise=0.02,harm=0.33,seed=1` names it; nothing here parses prose: rules and case numbers are looked up whole.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from skillopt.errors import ConfigError, suggest
from skillopt.messages import Reply, Request, Usage
from skillopt.models._model import ModelSpec

FAMILIES: Mapping[str, tuple[str, str]] = {
    "invoices": (
        "Round every amount of an invoice to two decimals.",
        "Take the tax of an invoice from the line items, not from the footer.",
    ),
    "dates": ("Write dates as year, month, day with hyphens.", "Read a two-digit year as lying in the last fifty years."),
    "addresses": ("Put the postal code before the town.", "Spell out the abbreviation of a street."),
    "units": ("Convert lengths to metres before comparing them.", "Name the unit after every number."),
    "names": ("Write family names first in lists of people.", "Keep the accents of a name as they are given."),
    "tables": ("Read a table from its header row, never by position.", "Treat an empty cell as unknown, not as zero."),
    "quotes": ("Quote a source word by word when asked for evidence.", "Name the page of every quotation."),
    "contracts": ("Check which version of a contract is signed.", "List every party of a contract by its full name."),
}
HARMFUL: Mapping[str, tuple[str, ...]] = {
    "Answer with your first guess and do not look back.": ("contracts", "quotes"),
    "Shorten every name to its initials.": ("names", "addresses"),
    "Drop the units to save space.": ("units", "tables"),
    "Fill gaps in a table with the average.": ("tables", "invoices"),
    "Translate quotations into plain words.": ("quotes", "names"),
    "Swap day and month when a date looks odd.": ("dates", "contracts"),
    "Leave out the postal code.": ("addresses", "units"),
    "Round amounts to whole numbers.": ("invoices", "dates"),
}
USELESS: tuple[str, ...] = (
    "Stay calm while working.",
    "Remember that every case is different.",
    "Think about the reader of the answer.",
    "Begin each case with a fresh mind.",
    "Good preparation is half of the work.",
    "Keep the desk tidy.",
)
ANCHOR = "- Read the whole case before answering."
SEED_SKILL = f"# House rules for cases\n\nAnswer each case with its code.\n\n## Rules\n\n{ANCHOR}\n"
ROOM = 32
"""Rules a skill may hold before every further line costs attention."""

_CASE = re.compile(r"\bW\d{6}\b")
_HELPFUL = tuple(rule for pair in FAMILIES.values() for rule in pair)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldRules:
    """How noisy the target is, how often the optimizer's proposals carry a harmful edit, and which of many worlds this is."""

    noise: float = 0.02
    harm: float = 0.34
    seed: int = 0


def family_of(case: str) -> str:
    """The family a case belongs to."""
    return list(FAMILIES)[int(chance("family", case) * len(FAMILIES))]


def needs_of(case: str) -> frozenset[str]:
    """The rules a case needs: none (a fifth of the cases), one or both of its family."""
    rules = FAMILIES[family_of(case)]
    draw = chance("needs", case)
    return frozenset() if draw < 0.2 else frozenset(rules[:1]) if draw < 0.5 else frozenset(rules[1:]) if draw < 0.8 else frozenset(rules)


def code_of(case: str) -> str:
    """The right answer of a case."""
    return hashlib.sha256(f"code {case}".encode()).hexdigest()[:6].upper()


def is_solved(case: str, skill: str) -> bool:
    """The noiseless truth: whether a skill solves a case."""
    family = family_of(case)
    if any(rule in skill and family in hurts for rule, hurts in HARMFUL.items()):
        return False
    surplus = skill.count("\n- ") - ROOM
    if surplus > 0 and chance("bloat", case) < 0.02 * surplus:
        return False
    return all(rule in skill for rule in needs_of(case))


def chance(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts alone."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


class World:
    """Both roles of the simulation; `Request.role` and `Request.stage` say which is asked."""

    endpoint = "world"

    def __init__(self, settings: WorldRules) -> None:
        self._settings = settings
        self.fingerprint: Mapping[str, Any] = {
            "provider": "world",
            "model": "world",
            **{f.name: getattr(settings, f.name) for f in fields(settings)},
        }

    async def complete(self, request: Request) -> Reply:
        await asyncio.sleep(0)
        text = self.answer(request)
        asked = sum(len(message.content) for message in request.messages)
        usage = Usage(input_tokens=math.ceil(asked / 4), output_tokens=min(request.max_tokens, math.ceil(len(text) / 4)))
        return Reply(text=text, finish="stop", usage=usage, model="world (simulated)")

    def answer(self, request: Request) -> str:
        """What the simulated target or optimizer says: a function of the request and its place alone."""
        return self._solve(request) if request.role == "target" else self._propose(request)

    async def close(self) -> None:
        """Nothing is open."""

    def _solve(self, request: Request) -> str:
        (case,) = set(_CASE.findall(request.messages[-1].content)) or {"W000000"}
        solved = is_solved(case, request.messages[0].content)
        if chance("noise", self._settings.seed, request.place, request.draw) < self._settings.noise:
            solved = not solved
        return f"<answer>{code_of(case) if solved else 'unknown'}</answer>"

    def _propose(self, request: Request) -> str:
        asked = "\n".join(message.content for message in request.messages)
        answer = _STAGES[request.stage](asked, _Dice(self._settings.seed, request.place), self._settings)
        return json.dumps(answer, ensure_ascii=False)


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


def _failure(asked: str, dice: _Dice, settings: WorldRules) -> dict[str, Any]:
    cases = list(dict.fromkeys(_CASE.findall(asked)))
    skill = _skill(asked)
    missing = Counter(rule for case in cases for rule in sorted(needs_of(case)) if rule not in skill)
    blamed = Counter(rule for case in cases for rule, hurts in HARMFUL.items() if rule in skill and family_of(case) in hurts)
    edits = [{"op": "delete", "target": f"- {rule}\n"} for rule, _ in blamed.most_common(1) if dice.roll() < 0.7]
    edits += [_rule(rule, dice) for rule, _ in missing.most_common(3)]
    if dice.roll() < settings.harm:
        edits.insert(int(dice.roll() * (len(edits) + 1)), _rule(dice.pick(list(HARMFUL)), dice))
    summary = [{"failure_type": "rule_missing", "count": count, "description": f"needed: {rule}"} for rule, count in missing.most_common(3)]
    return {"batch_size": len(cases), "failure_summary": summary, "patch": {"reasoning": "simulated", "edits": edits[:4]}}


def _success(asked: str, dice: _Dice, settings: WorldRules) -> dict[str, Any]:
    edits = [_rule(dice.pick(USELESS), dice)] if dice.roll() < 0.3 else []
    return {
        "batch_size": len(set(_CASE.findall(asked))),
        "success_patterns": ["simulated"],
        "patch": {"reasoning": "simulated", "edits": edits},
    }


def _merge(asked: str, dice: _Dice, settings: WorldRules) -> dict[str, Any]:
    support: Counter[str] = Counter()
    first: dict[str, dict[str, Any]] = {}
    for edit in _listed(asked):
        words = str(edit.get("content") or edit.get("target"))
        support[words] += int(edit.get("support_count") or 1)
        first.setdefault(words, edit)
    return {"reasoning": "simulated", "edits": [{**first[words], "support_count": count} for words, count in support.most_common()]}


def _ranking(asked: str, dice: _Dice, settings: WorldRules) -> dict[str, Any]:
    order = sorted(range(len(_listed(asked))), key=lambda index: (index // 4, dice.roll()))
    return {"reasoning": "simulated", "selected_indices": order}


def _repair(asked: str, dice: _Dice, settings: WorldRules) -> dict[str, Any]:
    return {"reasoning": "simulated", "edits": [{**edit, "target": ANCHOR} for edit in _listed(asked) if edit.get("op") == "insert_after"]}


def _slow(asked: str, dice: _Dice, settings: WorldRules) -> dict[str, Any]:
    cases = list(dict.fromkeys(_CASE.findall(asked)))
    skill = _skill(asked)
    missing = Counter(rule for case in cases for rule in sorted(needs_of(case)) if rule not in skill)
    rules = [rule for rule, _ in missing.most_common(1)] or [dice.pick(USELESS)]
    if dice.roll() < settings.harm:
        rules.append(dice.pick(list(HARMFUL)))
    return {"reasoning": "simulated", "slow_update_content": "## In the long run\n\n" + "\n".join(f"- {rule}" for rule in rules)}


def _meta(asked: str, dice: _Dice, settings: WorldRules) -> dict[str, Any]:
    return {"reasoning": "simulated", "meta_skill_content": "Add one missing rule at a time and take back what broke cases."}


_STAGES: Mapping[str, Callable[[str, _Dice, WorldRules], dict[str, Any]]] = {
    "analyst_failure": _failure,
    "analyst_success": _success,
    "merge": _merge,
    "ranking": _ranking,
    "repair": _repair,
    "slow_update": _slow,
    "meta_skill": _meta,
}


def _rule(rule: str, dice: _Dice) -> dict[str, Any]:
    if dice.roll() < 0.5:
        return {"op": "append", "content": f"- {rule}"}
    return {"op": "insert_after", "target": ANCHOR if dice.roll() < 0.9 else ANCHOR.upper(), "content": f"- {rule}"}


def _skill(asked: str) -> str:
    """The skill a request shows; where it shows two, the newer one."""
    return asked.rpartition("<skill>")[2].partition("</skill>")[0]


def _listed(asked: str) -> list[dict[str, Any]]:
    """The edits a merge, ranking or repair request carries as JSON: the last fenced block."""
    return list(json.loads(asked.rpartition("```json")[2].partition("```")[0]))


def _parse(text: str) -> WorldRules:
    values: dict[str, Any] = {}
    known = {one.name: one.type for one in fields(WorldRules)}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = part.partition("=")
        if name not in known:
            raise ConfigError(f"The world has no setting {name!r}. {suggest(name, known)}")
        try:
            values[name] = int(value) if name == "seed" else float(value)
        except ValueError:
            raise ConfigError(f"The world's {name} is a number, not {value!r}.") from None
    return WorldRules(**values)


def build(spec: ModelSpec) -> World:
    """The simulated model that a `world:...` string names."""
    return World(_parse("" if spec.name == "world" else spec.name))


PLUGIN = build
