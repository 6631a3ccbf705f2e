"""Where a skill comes from: its versions, what each fixed and broke, the failures behind an edit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.runs.values import EditFact, Facts, SkillChange, Version, fields_of

_ORDER = {"fail": 0, "partial": 1, "pass": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillVersion(Version):
    """A skill that the run made: the seed, or the candidate of a change, taken or not."""

    is_taken: bool
    """Whether it became the current skill."""
    is_best: bool
    base: str
    """The skill it was made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The edit that wrote a line; `tasks` are the training tasks that its analysts had before them."""

    id: str
    kind: str
    """failure or success: what the analysts looked at; empty where the edit does not say."""
    rationale: str
    support: str
    tasks: Sequence[str]
    patterns: Sequence[str]


def skill_versions(facts: Facts) -> list[SkillVersion]:
    """Every version that was measured, in order; the text of each is as the target got it."""
    found: list[SkillVersion] = []
    current = facts.seed_skill
    taken_at = {change.short: bool(change.diff) for change in facts.changes}
    for version in facts.versions:
        is_taken = version.short == "seed" or taken_at.get(version.short, False)
        is_best = is_taken and version.text == facts.best_skill
        found.append(SkillVersion(**fields_of(version), is_taken=is_taken, is_best=is_best, base=current))
        if is_taken:
            current = version.text
    return found


def moved(before: Version | None, after: Version) -> tuple[list[str], list[str]]:
    """Val tasks that went better, and worse, with the later version, of those measured with both."""
    if before is None:
        return [], []
    better: list[str] = []
    worse: list[str] = []
    for task, cell in after.cells.items():
        was = before.cells.get(task)
        if was is None or was.mark not in _ORDER or cell.mark not in _ORDER or was.mark == cell.mark:
            continue
        (better if _ORDER[cell.mark] > _ORDER[was.mark] else worse).append(task)
    return better, worse


def edited(edit: EditFact, change: SkillChange) -> Edited:
    """What is behind an edit that was applied in a change."""
    studies = {study.name: study for study in change.studies}
    behind = [studies[name] for name in sorted(_analysts(edit, change)) if name in studies]
    return Edited(
        id=edit.id,
        kind=str(edit.evidence.get("source_type", "")),
        rationale=str(edit.evidence.get("rationale", "")),
        support=str(edit.evidence.get("support_count", "")),
        tasks=list(dict.fromkeys(task for study in behind for task in study.tasks)),
        patterns=list(dict.fromkeys(pattern for study in behind for pattern in study.patterns)),
    )


def _analysts(edit: EditFact, change: SkillChange) -> set[str]:
    """The studies an edit goes back to, through merges and repairs; of a merge those that say the same."""
    found: set[str] = set()
    seen = {edit.id}
    waiting = [edit]
    while waiting:
        one = waiting.pop()
        place = one.id.partition("#")[0]
        analyst = re.search(r"/analyst_(failure|success)/(\d+)$", place)
        if analyst is not None:
            found.add(f"{analyst[1]} {analyst[2]}")
            continue
        is_repair = "/repair/" in place  # its inputs ended as what made the repair necessary
        inputs = [
            other
            for other in change.edits
            if other.id not in seen
            and (
                other.state in ("unmatched", "ambiguous") if is_repair else other.reason.endswith(f" {place}")
            )
        ]
        same = [other for other in inputs if other.content.strip() == one.content.strip()]
        waiting += same or inputs
        seen |= {other.id for other in inputs}
    return found
