"""The truth of the simulated rule world: which rules help, harm or do nothing, and which cases need which."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

FAMILIES: Mapping[str, tuple[str, str]] = {
    "invoices": (
        "Round every amount of an invoice to two decimals.",
        "Take the tax of an invoice from the line items, not from the footer.",
    ),
    "dates": (
        "Write dates as year, month, day with hyphens.",
        "Read a two-digit year as lying in the last fifty years.",
    ),
    "addresses": ("Put the postal code before the town.", "Spell out the abbreviation of a street."),
    "units": ("Convert lengths to metres before comparing them.", "Name the unit after every number."),
    "names": (
        "Write family names first in lists of people.",
        "Keep the accents of a name as they are given.",
    ),
    "tables": (
        "Read a table from its header row, never by position.",
        "Treat an empty cell as unknown, not as zero.",
    ),
    "quotes": ("Quote a source word by word when asked for evidence.", "Name the page of every quotation."),
    "contracts": (
        "Check which version of a contract is signed.",
        "List every party of a contract by its full name.",
    ),
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

CASE = re.compile(r"\bW\d{6}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldRules:
    """How noisy the target is, how often proposals carry a harmful edit, and which of many worlds it is."""

    noise: float = 0.02
    harm: float = 0.34
    seed: int = 0


def unanswerable(prompts: Iterable[str]) -> str:
    """Why the world cannot answer any of these requests, and the remedy; empty where it can."""
    if any(map(CASE.search, prompts)):
        return ""
    return (
        "The target is the simulated world, which knows only the cases that 'skillopt init NAME' writes and"
        " can answer none of these tasks. Name a real model: --target PROVIDER:MODEL."
    )


def family_of(case: str) -> str:
    """The family a case belongs to."""
    return list(FAMILIES)[int(chance("family", case) * len(FAMILIES))]


def needs_of(case: str) -> frozenset[str]:
    """The rules a case needs: none (a fifth of the cases), one or both of its family."""
    rules = FAMILIES[family_of(case)]
    draw = chance("needs", case)
    shares = ((0.2, ()), (0.5, rules[:1]), (0.8, rules[1:]), (1.0, rules))
    return frozenset(next(needed for share, needed in shares if draw < share))


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
