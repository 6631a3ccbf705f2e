"""A proposal: what a night asks a person to adopt, as it is written down.

It holds all that adoption reads: the text as it was (the pin), edits with evidence, verdict and cost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path, PurePath
from statistics import fmean
from typing import Any, Literal, TypeAlias

from pydantic import Field

from skillopt.changes import StoredRecord
from skillopt.changes.files import confined, digest
from skillopt.errors import SkillError, UsageError
from skillopt.evaluation.significance import Significance, significance
from skillopt.files import as_usage_error
from skillopt.skill.diff import unified
from skillopt.skill.document import SKILL_FILE, Document, to_lf
from skillopt.skill.spec import new_violations, violations
from skillopt.skill.steering import SteeringCheck, SteeringFlag, TextOrigins
from skillopt_sleep.texts import MergedText, learned, merge, with_learned

Kind = Literal["skill", "memory"]
_NOTHING = " Nothing is written."
_NOT_MEASURED = "not measured"
IsMemoryFile: TypeAlias = Callable[[PurePath], bool]
"""Whether an agent reads a file into every conversation: who stands above says, this room knows no agent."""


class EditEvidence(StoredRecord):
    """Where an edit comes from: as it was proposed, its step, and the tasks and sessions behind it, those
    first in which something stands that is quoted.
    """

    edit: dict[str, Any] = Field(default_factory=dict)
    place: str = ""
    why: str = ""
    tasks: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    """The person's own words in them."""
    measured: bool = True
    """False for a suggestion: nobody tried what it does."""

    @property
    def reason(self) -> str:
        """Why it was proposed, as far as anybody said."""
        return self.why or str(self.edit.get("rationale", "") or self.edit.get("reason", ""))


class TaskScores(StoredRecord):
    """One held-out task with the old text and with the new one; None for what was not measured."""

    task: str
    title: str = ""
    before: float | None
    after: float | None
    telling: bool = True
    """False where an answer that nobody worked for could pass: it counts for no finding."""

    @property
    def gain(self) -> float | None:
        """How much better the new text is; None where one of the two was not measured."""
        return None if self.before is None or self.after is None else self.after - self.before


def mean_gain(pairs: Sequence[TaskScores]) -> float | None:
    """How much better the new text is on the tasks that tell; None where none was measured."""
    gains = [pair.gain for pair in pairs if pair.telling and pair.gain is not None]
    return fmean(gains) if gains else None


class AnswerPair(StoredRecord):
    """A held-out request with the answer that the old text led to and the one the new text did."""

    request: str
    before: str
    after: str

    def parts(self) -> tuple[tuple[str, str], ...]:
        """Its three texts with the words that stand before each."""
        return ("You asked", self.request), ("Answer before", self.before), ("Answer after", self.after)


class Judgement(StoredRecord):
    """What the gate said of a target's new text, and what its held-out rows show: `finding` says it wherever
    a person decides.
    """

    action: str
    verified: bool
    """Whether the rows show that the new text is better: chance alone would seldom do as well."""
    why: str
    before: float | None = None
    after: float | None = None
    metric: str = ""
    policy: str = ""
    gate_on: bool = True
    example: AnswerPair | None = None
    pairs: tuple[TaskScores, ...] = ()
    p: float | None = None
    """How often chance alone would do as well in as many tries; None where none was tested."""
    tried: int = 1
    """Measurements until this one was found: texts of this night and those before it, and nights that
    measured it again.
    """

    @property
    def significance(self) -> Significance:
        """What the held-out rows prove."""
        return significance(mean_gain(self.pairs), self.p)

    @property
    def finding(self) -> str:
        """What the held-out rows show, in words."""
        if all(pair.gain is None for pair in self.pairs):
            return f"{self.significance}: {_NOT_MEASURED}"
        if not any(pair.telling for pair in self.pairs):
            return f"{self.significance}: all held-out tasks see form alone, which shows nothing"
        gains = [pair.gain for pair in self.pairs if pair.telling and pair.gain is not None]
        worse = sum(gain < 0 for gain in gains)
        counted = f"better on {sum(gain > 0 for gain in gains)} of {len(gains)} held-out tasks"
        counted += f", worse on {worse}" if worse else ""
        said = f"{self.significance}: {counted}"
        among = f", {self.tried} tries" if self.tried > 1 else ""
        said += f" (p = {self.p:.2g}{among})" if self.p is not None else " (not tested)"
        formal = sum(not pair.telling for pair in self.pairs)
        return said + (f"; those measured by form alone, {formal}, count for nothing" if formal else "")


class Cost(StoredRecord):
    """What the night took; None is unknown and never 0."""

    calls: int | None = None
    tokens: int | None = None
    dollars: float | None = None
    minutes: float | None = None

    def __str__(self) -> str:
        known = (
            f"{self.calls} calls" if self.calls is not None else "",
            f"{self.tokens:,} tokens" if self.tokens is not None else "tokens unknown" if self.calls else "",
            f"${self.dollars:.4f}" if self.dollars is not None else "dollars unknown",
            f"{self.minutes:.1f} min" if self.minutes is not None else "",
        )
        return ", ".join(filter(None, known))


class ProposedEdit(StoredRecord):
    """One edit that can be adopted by itself, together with the edits it needs."""

    id: int
    evidence: tuple[EditEvidence, ...]
    needs: tuple[int, ...] = ()
    flags: tuple[SteeringFlag, ...] = ()
    """Why a person must have read it before it is theirs: then it is only adopted by its number."""

    @property
    def is_measured(self) -> bool:
        """Whether all of it went through the gate; what did not is only adopted by its number."""
        return all(one.measured for one in self.evidence)


class ProposedFile(StoredRecord):
    """A file that would change. `merged` is the file of a skill, of a memory file what nights learned."""

    name: str
    kind: Kind
    path: str
    before: str | None
    """The text as it was; None where there was no file. This is the pin: any other text is not overwritten.
    """
    merged: MergedText
    edits: tuple[ProposedEdit, ...]
    judgement: Judgement

    def text(self, chosen: Collection[int]) -> str | None:
        """The file's text with these edits; None for no file."""
        if not set(chosen) & set(self.merged.edits):
            return self.before
        text = self.merged.text(chosen)
        return text if self.kind == "skill" else with_learned(self.before or "", text)

    def data(self, chosen: Collection[int]) -> bytes | None:
        """The file's bytes with these edits; None for no file."""
        text = self.text(chosen)
        return None if text is None else text.encode()

    def checked(self, chosen: Collection[int]) -> bytes | None:
        """Its bytes with these edits. Raises `SkillError` for a text that changes more, or breaks a rule."""
        text = self.text(chosen)
        if text is None or text == self.before:
            return self.data(())
        before, path = self.before or "", Path(self.path)
        if self.kind == "memory":
            if (learned(text) or "") != self.merged.text(chosen).strip("\n"):
                raise SkillError(
                    f"{path}: what is proposed for our block is not found in it again.{_NOTHING}"
                )
            return text.encode()
        folder = path.parent.name if path.name == SKILL_FILE else None
        if before and Document(before).frontmatter != Document(text).frontmatter:
            raise SkillError(f"{path}: the new text would change the frontmatter, which is yours.{_NOTHING}")
        found = new_violations(before, text, folder) if before else violations(text, folder)
        if broken := [one.message for one in found if one.severity == "error"]:
            raise SkillError(f"{path}: agents may refuse the new text: {' '.join(broken)}{_NOTHING}")
        return text.encode()

    @property
    def pin(self) -> str | None:
        """Hash of the file as it was; None where there was none."""
        return digest(self.data(()))

    def diff(self, chosen: Collection[int] | None = None, *, over: Collection[int] = ()) -> str:
        """A unified diff of what these edits (unless told, all) do to the text with the edits `over`."""
        chosen = self.merged.edits if chosen is None else chosen
        old, new = self.text(over), self.text({*over, *chosen})
        return unified(old or "", new or "", "/dev/null" if old is None else self.path, self.path)


class NightProposal(StoredRecord):
    """What a night proposes, for one project."""

    format: Literal["skillopt_sleep.proposal.v1"] = "skillopt_sleep.proposal.v1"
    id: str
    created: datetime
    project: str
    night: str
    targets: tuple[ProposedFile, ...]
    cost: Cost
    notes: tuple[str, ...] = ()
    simulated: bool = False

    @property
    def edits(self) -> tuple[ProposedEdit, ...]:
        """All edits of all targets; their ids are unique in the proposal."""
        return tuple(edit for target in self.targets for edit in target.edits)

    @property
    def shown(self) -> frozenset[int]:
        """The measured edits of files that held-out tasks show to be better with them."""
        real = (target for target in self.targets if target.judgement.significance == "real")
        return frozenset(edit.id for target in real for edit in target.edits if edit.is_measured)

    def flagged(self, among: Collection[int]) -> frozenset[int]:
        """Of these edits those that hold something a person must have read, and what stands inside of one."""
        found = {edit.id for edit in self.edits if edit.flags and edit.id in among}
        while more := {edit.id for edit in self.edits if found & set(edit.needs)} - found:
            found |= more
        return frozenset(found)

    def touched(self, chosen: Collection[int]) -> list[ProposedFile]:
        """The targets that any of these edits changes."""
        return [target for target in self.targets if set(target.merged.edits) & set(chosen)]

    def findings(self, chosen: Collection[int]) -> tuple[str, ...]:
        """What the held-out tasks say of each target that these edits change, in words."""
        return tuple(f"{target.name}: {_finding(target, chosen)}" for target in self.touched(chosen))


def _finding(target: ProposedFile, chosen: Collection[int]) -> str:
    measured = {edit.id for edit in target.edits if edit.is_measured}
    if not measured & set(chosen):
        return f"not proven yet: {_NOT_MEASURED}"
    is_part = bool(target.judgement.pairs) and not measured <= set(chosen)
    return target.judgement.finding + (", measured with all edits together" if is_part else "")


class DraftStep(StoredRecord):
    """An edit that was applied: the text after it, of a memory file what nights learned, and its evidence."""

    text: str
    evidence: EditEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDraft:
    """A target as a night hands it in: the whole file as it was read, and the steps from there."""

    name: str
    kind: Kind
    path: Path
    before: str | None
    steps: Sequence[DraftStep]
    judgement: Judgement


def live_text(path: Path, roots: Sequence[Path], kind: Kind) -> str | None:
    """The text of a target as it is now, for a night to start from; None where there is no file.

    Raises `UsageError` for a place that adoption would refuse, so that no night is paid for it, and
    `SkillError` for what is not UTF-8.
    """
    if kind == "skill":
        _refuse_unless(path.suffix == ".md", path, kind)
    found = confined(path, roots).content()
    with as_usage_error(path, "read", "", SkillError):
        return None if found is None else found.decode("utf-8")


def proposed(
    drafts: Sequence[TargetDraft],
    roots: Sequence[Path],
    is_memory_file: IsMemoryFile,
    origins: TextOrigins | None = None,
) -> tuple[ProposedFile, ...]:
    """The targets of a proposal, with the flags of every edit where `origins` are given. Raises `UsageError`
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
        _refuse_unless(fits, draft.path, draft.kind)
        targets.append(_proposed(draft, file.path, 1 + sum(len(target.edits) for target in targets)))
    return tuple(targets if origins is None else (_flagged(target, origins) for target in targets))


def _flagged(target: ProposedFile, origins: TextOrigins) -> ProposedFile:
    """The target with what in its edits could steer an agent and is not out of the file as it was."""
    known = replace(origins, own=(*origins.own, target.before or ""))
    parts = {edit.id: target.merged.part(edit.id)[1] for edit in target.edits}
    whole = "".join({"add": one.text, "keep": "\n\n", "cut": ""}[one.kind] for one in target.merged.segments)
    flags = SteeringCheck(known).flags_by_part(parts, whole)
    edits = tuple(edit.model_copy(update={"flags": flags[edit.id]}) for edit in target.edits)
    return target.model_copy(update={"edits": edits})


def _refuse_unless(fits: bool, path: Path, kind: Kind) -> None:
    if not fits:
        raise UsageError(
            f"{path} is not the name of a {kind} file, so nothing is proposed for it. A skill is a .md file."
        )


def _proposed(draft: TargetDraft, path: Path, first: int) -> ProposedFile:
    before = draft.before or ""
    if draft.kind == "memory":
        # In our block all lines end, whatever the file does, so that its last rule is a line like any other.
        texts = [learned(before) or "", *(step.text.strip("\n") for step in draft.steps)]
        newline, texts = "\n", [f"{to_lf(text)}\n" if text.strip() else "" for text in texts]
    else:
        newline, texts = Document(before).newline, [before, *(step.text for step in draft.steps)]
    merged = merge(texts, newline=newline, first=first)
    edits = tuple(
        ProposedEdit(
            id=number,
            evidence=tuple(draft.steps[step - 1].evidence for step in merged.sources[number]),
            needs=merged.needs.get(number, ()),
        )
        for number in merged.text.edits
    )
    if not edits:
        raise UsageError(f"Nothing is proposed for {draft.name}: its text stays as it is.")
    if merged.text.text(()) != texts[0] or merged.text.text(merged.text.edits) != texts[-1]:
        raise AssertionError(f"the merged text of {draft.name} does not give its texts back")
    target = ProposedFile(
        name=draft.name,
        kind=draft.kind,
        path=str(path),
        before=draft.before,
        merged=merged.text,
        edits=edits,
        judgement=draft.judgement,
    )
    target.checked(target.merged.edits)
    return target
