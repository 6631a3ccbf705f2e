"""Where each line of a skill comes from: the step and failures behind it, what it fixed and broke."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skillopt.runs.values import EditFact, Facts, SkillChange, Version

_ORDER = {"fail": 0, "partial": 1, "pass": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillVersion:
    """A skill that the run made: the seed, or the candidate of a change, taken or not."""

    short: str
    name: str
    action: str
    text: str
    score: float | None
    is_taken: bool
    """Whether it became the current skill."""
    is_best: bool
    base: str
    """The skill it was made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A version that brought text, and what it did to the val tasks."""

    name: str
    short: str
    action: str = ""
    why: str = ""
    fixed: Sequence[str] = ()
    """Val tasks that went better with this version than with the skill before it."""
    broke: Sequence[str] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleLine:
    """One line of a skill: the version that brought it, and the edit that wrote it, where one did."""

    text: str
    origin: str
    edit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Every line of a skill, and the versions and edits they name."""

    lines: Sequence[RuleLine]
    origins: Mapping[str, Origin] = field(default_factory=dict)
    edits: Mapping[str, Edited] = field(default_factory=dict)


def skill_versions(facts: Facts) -> list[SkillVersion]:
    """Every version that was measured, in order; the text of each is as the target got it."""
    found: list[SkillVersion] = []
    current = facts.seed_skill
    taken_at = {change.short: bool(change.diff) for change in facts.changes}
    for version in facts.versions:
        is_taken = version.short == "seed" or taken_at.get(version.short, False)
        found.append(
            SkillVersion(
                short=version.short,
                name=version.name,
                action=version.action,
                text=version.text,
                score=version.score,
                is_taken=is_taken,
                is_best=is_taken and version.text == facts.best_skill,
                base=current,
            )
        )
        if is_taken:
            current = version.text
    return found


def provenance(facts: Facts, short: str) -> Provenance:
    """Where the lines of a version come from, followed through every change taken before it."""
    lines: list[RuleLine] = []
    versions = {version.short: version for version in facts.versions}
    changes = {change.short: change for change in facts.changes}
    before: Version | None = None
    origins: dict[str, Origin] = {}
    edits: dict[str, Edited] = {}
    for one in skill_versions(facts):
        if one.is_taken or one.short == short:
            change = changes.get(one.short)
            lines = _carried(lines, one, change)
            fixed, broke = moved(before, versions[one.short])
            why = "" if change is None else change.why
            origins[one.short] = Origin(
                name=one.name, short=one.short, action=one.action, why=why, fixed=fixed, broke=broke
            )
            if change is not None:
                edits |= {edit.id: edited(edit, change) for edit in change.edits if edit.state == "applied"}
            before = versions[one.short]
        if one.short == short:
            break
    used, by = {line.origin for line in lines}, {line.edit for line in lines}
    return Provenance(
        lines=lines,
        origins={name: origin for name, origin in origins.items() if name in used},
        edits={name: edit for name, edit in edits.items() if name in by},
    )


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


def _carried(old: Sequence[RuleLine], version: SkillVersion, change: SkillChange | None) -> list[RuleLine]:
    """The lines of a version; those of the text before keep their origin."""
    new = version.text.split("\n")
    if not new[-1]:
        new.pop()
    applied = [edit for edit in (() if change is None else change.edits) if edit.state == "applied"]
    writers = [(edit.id, {line.strip() for line in edit.content.split("\n")}) for edit in applied]
    carried = [
        RuleLine(
            text=line,
            origin=version.short,
            edit=next((id for id, wrote in writers if line.strip() and line.strip() in wrote), ""),
        )
        for line in new
    ]
    matcher = difflib.SequenceMatcher(a=[line.text for line in old], b=new, autojunk=False)
    for start, into, size in matcher.get_matching_blocks():
        carried[into : into + size] = old[start : start + size]
    return carried


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
