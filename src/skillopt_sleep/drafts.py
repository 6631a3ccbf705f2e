"""Wishes that could not be measured, as edits that a person adopts one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from skillopt.agents import is_memory_file
from skillopt.errors import UsageError
from skillopt.skill.document import SKILL_FILE, unpack
from skillopt_sleep.mining import MinedSuggestion
from skillopt_sleep.plan import NightTarget, SkillOutcome, UnmeasuredWish
from skillopt_sleep.proposal import DraftStep, EditEvidence, Judgement, TargetDraft, proposed
from skillopt_sleep.requests import folded
from skillopt_sleep.settings import NightSettings
from skillopt_sleep.store import Decision
from skillopt_sleep.targets import SkillPlaces, path_for, target_of
from skillopt_sleep.texts import learned

MOST = 12
"""Suggestions of a night, those from most sessions first."""
_LONGEST = 400
_OP = "suggestion"
_HEADING = "# What was learned"
_LAST = "\nFollow these notes wherever they apply.\n"
"""Closes a new page, so that what is suggested stands inside of it and brings it along."""


def suggestions_for(
    mined: Iterable[MinedSuggestion],
    settings: NightSettings,
    places: SkillPlaces,
    decided: Iterable[Decision],
) -> tuple[UnmeasuredWish, ...]:
    """What is suggested for which file: each wish once, none that the person decided on before."""
    known = {
        folded(str(evidence.edit.get("wish", "")))
        for one in decided
        if one.decision != "undone"
        for evidence in one.edit.evidence
        if evidence.edit.get("op") == _OP
    }
    found: dict[tuple[Path, str], UnmeasuredWish] = {}
    for one in mined:
        path = path_for(one.skills, settings, places, [])
        for wish, said_in in one.wishes.items():
            key = path, folded(wish)
            if key[1] in known or len(wish) > _LONGEST:
                continue
            earlier = found.get(key)
            sessions = tuple(dict.fromkeys((*(earlier.sessions if earlier else ()), *said_in)))
            found[key] = UnmeasuredWish(
                path=path,
                kind=earlier.kind if earlier else one.kind,
                wish=wish,
                reason=one.reason,
                sessions=sessions,
            )
    return tuple(sorted(found.values(), key=lambda one: (-len(one.sessions), one.wish))[:MOST])


def drafts_of(target: NightTarget, outcome: SkillOutcome) -> list[TargetDraft]:
    """What is handed in for one skill: a draft of each file that changes."""
    if target.kind == "memory":
        return [_draft(target, outcome, target.path, target.before, outcome.edits)]
    after = [(edit, unpack(edit.text)) for edit in outcome.edits]
    drafts = []
    for name in (SKILL_FILE, *sorted({path for _, (_, files) in after for path in files})):
        before = target.before if name == SKILL_FILE else target.files.get(name)
        steps, last = [], before
        for edit, (main, files) in after:
            text = main if name == SKILL_FILE else files.get(name)
            if text is not None and text != last:
                steps.append(DraftStep(text=text, evidence=edit.evidence))
                last = text
        if last != before:
            path = target.path if name == SKILL_FILE else target.path.parent / name
            drafts.append(_draft(target, outcome, path, before, steps))
    return drafts


def _draft(
    target: NightTarget, outcome: SkillOutcome, path: Path, before: str | None, steps: Sequence[DraftStep]
) -> TargetDraft:
    is_other = path != target.path
    return TargetDraft(
        name=f"{target.name}/{path.relative_to(target.path.parent).as_posix()}" if is_other else target.name,
        kind=target.kind,
        path=path,
        before=before,
        steps=steps,
        judgement=outcome.judgement,
    )


def drafts_with(
    drafts: Sequence[TargetDraft], suggestions: Iterable[UnmeasuredWish], roots: Sequence[Path]
) -> list[TargetDraft]:
    """The drafts with the suggestions for their files behind the measured edits, and drafts of their own for
    other files. One that could not be staged is left out.
    """
    made = {draft.path: draft for draft in drafts}
    for one in suggestions:
        try:
            draft = _with(made.get(one.path) or _empty(target_of(one.path, (), roots)), one)
            proposed([draft], roots, is_memory_file)
        except UsageError:
            continue
        made[one.path] = draft
    return list(made.values())


def _with(draft: TargetDraft, one: UnmeasuredWish) -> TargetDraft:
    start = learned(draft.before or "") if draft.kind == "memory" else draft.before
    before, end = draft.steps[-1].text if draft.steps else start or "", ""
    if before.endswith(_LAST):
        before, end = before.removesuffix(_LAST), _LAST
    body = before.rstrip("\n")
    edit = {"op": _OP, "wish": one.wish, "content": one.line, "rationale": f"not measured: {one.reason}"}
    evidence = EditEvidence(edit=edit, sessions=one.sessions, said=(one.wish,), measured=False)
    gap = "\n\n" if end and body.endswith(_HEADING) else "\n" if body else ""
    return replace(
        draft, steps=[*draft.steps, DraftStep(text=f"{body}{gap}{one.line}\n{end}", evidence=evidence)]
    )


def _empty(target: NightTarget) -> TargetDraft:
    """A draft without edits; of a skill that is not there yet the bare page is the first."""
    why = "Nothing here was measured: these are wishes of yours that could not be tried."
    steps: list[DraftStep] = []
    if target.kind == "skill" and target.before is None:
        edit = {"op": "new_file", "content": target.name, "rationale": "the page that holds the suggestions"}
        # The empty lines are there before the suggestions, so that none of those brings one of its own.
        text = f"{target.seed.rstrip()}\n\n{_LAST}"
        steps = [DraftStep(text=text, evidence=EditEvidence(edit=edit, measured=False))]
    return TargetDraft(
        name=target.name,
        kind=target.kind,
        path=target.path,
        before=target.before,
        steps=steps,
        judgement=Judgement(action="suggestion", verified=False, why=why),
    )
