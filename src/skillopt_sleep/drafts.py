"""From what training and mining found to the files of a proposal: each file that would change, with the steps
that lead to its new text. Wishes that nobody could measure stand behind the measured edits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skillopt.agents import is_memory_file
from skillopt.changes.files import confined
from skillopt.errors import UsageError
from skillopt.skill.document import SKILL_FILE, Document, to_lf, unpack
from skillopt.skill.steering import SteeringCheck, TextOrigins
from skillopt_sleep.judgement import EditEvidence, Judgement
from skillopt_sleep.plan import NightTarget, SkillOutcome
from skillopt_sleep.proposal import Decision, Kind, ProposedEdit, ProposedFile
from skillopt_sleep.settings import NightSettings
from skillopt_sleep.targets import SkillPlaces, path_for, refuse_unless_it_fits, target_of
from skillopt_sleep.tasks import Suggestion
from skillopt_sleep.texts import learned, merge
from skillopt_sleep.wording import folded

MOST = 12
"""Suggestions of a night, those from most sessions first."""
_LONGEST = 400
_OP = "suggestion"
_HEADING = "# What was learned"
_LAST = "\nFollow these notes wherever they apply.\n"
"""Closes a new page, so that what is suggested stands inside of it and brings it along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDraft:
    """A file that is to change: the whole file as it was read, and the steps from there."""

    name: str
    kind: Kind
    path: Path
    before: str | None
    steps: Sequence[EditEvidence]
    judgement: Judgement


def drafts_of(target: NightTarget, outcome: SkillOutcome) -> list[FileDraft]:
    """A draft of each file that one skill's edits change."""
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
                steps.append(edit.model_copy(update={"text": text}))
                last = text
        if last != before:
            path = target.path if name == SKILL_FILE else target.path.parent / name
            drafts.append(_draft(target, outcome, path, before, steps))
    return drafts


def _draft(
    target: NightTarget, outcome: SkillOutcome, path: Path, before: str | None, steps: Sequence[EditEvidence]
) -> FileDraft:
    is_other = path != target.path
    return FileDraft(
        name=f"{target.name}/{path.relative_to(target.path.parent).as_posix()}" if is_other else target.name,
        kind=target.kind,
        path=path,
        before=before,
        steps=steps,
        judgement=outcome.judgement,
    )


def suggestions_for(
    suggestions: Iterable[Suggestion],
    settings: NightSettings,
    places: SkillPlaces,
    decisions: Iterable[Decision],
) -> tuple[Suggestion, ...]:
    """What is suggested for which file: each wish once, none that the person decided on before."""
    known = {
        folded(str(evidence.edit.get("wish", "")))
        for one in decisions
        if one.decision != "undone"
        for evidence in one.edit.evidence
        if evidence.edit.get("op") == _OP
    }
    found: dict[tuple[Path, str], Suggestion] = {}
    for one in suggestions:
        path = path_for(one.skills, settings, places, [])
        key = path, folded(one.wish)
        if key[1] in known or len(one.wish) > _LONGEST:
            continue
        first = found.get(key, one)
        sessions = tuple(dict.fromkeys((*(first.sessions if key in found else ()), *one.sessions)))
        found[key] = one.model_copy(update={"path": path, "kind": first.kind, "sessions": sessions})
    return tuple(sorted(found.values(), key=lambda one: (-len(one.sessions), one.wish))[:MOST])


def drafts_with(
    drafts: Sequence[FileDraft], suggestions: Iterable[Suggestion], roots: Sequence[Path]
) -> list[FileDraft]:
    """The drafts with the suggestions for their files behind the measured edits, and drafts of their own for
    other files. One that could not be staged is left out.
    """
    made = {draft.path: draft for draft in drafts}
    for one in suggestions:
        assert one.path is not None, "a suggestion of a night is for a file"
        try:
            draft = _with(made.get(one.path) or _empty(target_of(one.path, (), roots)), one)
            proposed_files([draft], roots)
        except UsageError:
            continue
        made[one.path] = draft
    return list(made.values())


def _with(draft: FileDraft, one: Suggestion) -> FileDraft:
    start = learned(draft.before or "") if draft.kind == "memory" else draft.before
    before, end = draft.steps[-1].text if draft.steps else start or "", ""
    if before.endswith(_LAST):
        before, end = before.removesuffix(_LAST), _LAST
    body = before.rstrip("\n")
    edit = {"op": _OP, "wish": one.wish, "content": one.line, "rationale": f"not measured: {one.reason}"}
    gap = "\n\n" if end and body.endswith(_HEADING) else "\n" if body else ""
    text = f"{body}{gap}{one.line}\n{end}"
    step = EditEvidence(text=text, edit=edit, sessions=one.sessions, quotes=(one.wish,), measured=False)
    return replace(draft, steps=[*draft.steps, step])


def _empty(target: NightTarget) -> FileDraft:
    """A draft without edits; of a skill that is not there yet the bare page is the first."""
    why = "Nothing here was measured: these are wishes of yours that could not be tried."
    steps: list[EditEvidence] = []
    if target.kind == "skill" and target.before is None:
        edit = {"op": "new_file", "content": target.name, "rationale": "the page that holds the suggestions"}
        # The empty lines are there before the suggestions, so that none of those brings one of its own.
        steps = [EditEvidence(text=f"{target.seed.rstrip()}\n\n{_LAST}", edit=edit, measured=False)]
    return FileDraft(
        name=target.name,
        kind=target.kind,
        path=target.path,
        before=target.before,
        steps=steps,
        judgement=Judgement(action="suggestion", verified=False, why=why),
    )


def proposed_files(
    drafts: Sequence[FileDraft], roots: Sequence[Path], origins: TextOrigins | None = None
) -> tuple[ProposedFile, ...]:
    """The files of a proposal, with the flags of every edit where `origins` are given. Raises `UsageError`
    for one that could not be adopted.
    """
    if not drafts:
        raise UsageError("A proposal without a target proposes nothing.")
    targets: list[ProposedFile] = []
    places: set[str] = set()
    for draft in drafts:
        file = confined(draft.path, roots)
        file.read()
        if file.folded in places or draft.name in {target.name for target in targets}:
            raise UsageError(
                f"{draft.name} ({draft.path}) is in the proposal twice, or as some systems take its name."
            )
        places.add(file.folded)
        fits = is_memory_file(draft.path) if draft.kind == "memory" else draft.path.suffix == ".md"
        refuse_unless_it_fits(fits, draft.path, draft.kind)
        targets.append(_proposed(draft, file.path, 1 + sum(len(target.edits) for target in targets)))
    return tuple(targets if origins is None else (_flagged(target, origins) for target in targets))


def _proposed(draft: FileDraft, path: Path, first: int) -> ProposedFile:
    before = draft.before or ""
    if draft.kind == "memory":
        # In our block all lines end, whatever the file does, so that its last rule is a line like any other.
        texts = [learned(before) or "", *(step.text.strip("\n") for step in draft.steps)]
        newline, texts = "\n", [f"{to_lf(text)}\n" if text.strip() else "" for text in texts]
    else:
        newline, texts = Document(before).newline, [before, *(step.text for step in draft.steps)]
    merged, sources, needs = merge(texts, newline=newline, first=first)
    evidence = [step.model_copy(update={"text": ""}) for step in draft.steps]
    edits = tuple(
        ProposedEdit(
            id=number,
            evidence=tuple(evidence[step - 1] for step in sources[number]),
            needs=needs.get(number, ()),
        )
        for number in merged.edits
    )
    if not edits:
        raise UsageError(f"Nothing is proposed for {draft.name}: its text stays as it is.")
    if merged.text(()) != texts[0] or merged.text(merged.edits) != texts[-1]:
        raise AssertionError(f"the merged text of {draft.name} does not give its texts back")
    target = ProposedFile(
        name=draft.name,
        kind=draft.kind,
        path=str(path),
        before=draft.before,
        merged=merged,
        edits=edits,
        judgement=draft.judgement,
    )
    target.checked(target.merged.edits)
    return target


def _flagged(target: ProposedFile, origins: TextOrigins) -> ProposedFile:
    """The target with what in its edits could steer an agent and is not out of the file as it was."""
    known = replace(origins, own=(*origins.own, target.before or ""))
    parts = {edit.id: target.merged.part(edit.id)[1] for edit in target.edits}
    whole = "".join({"add": one.text, "keep": "\n\n", "cut": ""}[one.kind] for one in target.merged.segments)
    flags = SteeringCheck(known).flags_by_part(parts, whole)
    edits = tuple(edit.model_copy(update={"flags": flags[edit.id]}) for edit in target.edits)
    return target.model_copy(update={"edits": edits})
