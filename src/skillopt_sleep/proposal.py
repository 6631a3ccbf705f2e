"""A proposal: what a night asks a person to adopt, as it is written down.

It holds all that adoption reads: the text as it was (the pin), edits with evidence, verdict and cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from skillopt.changes import StoredRecord
from skillopt.changes.files import confined, digest
from skillopt.changes.journal import Action, History
from skillopt.errors import SkillError, UnknownName, UsageError
from skillopt.redact.printable import printable
from skillopt.skill.diff import unified
from skillopt.skill.document import SKILL_FILE, Document
from skillopt.skill.spec import new_violations, violations
from skillopt.skill.steering import SteeringFlag
from skillopt_sleep.judgement import NOT_MEASURED, Cost, EditEvidence, Judgement
from skillopt_sleep.texts import MergedText, learned, with_learned

Kind = Literal["skill", "memory"]
_NOTHING = " Nothing is written."
Disk = Literal["old", "new", "other", "missing", "refused"]
"""What a file holds: the text before the last change, the text after it, somebody else's, or none."""
Ruling = Literal["adopted", "undone", "discarded"]
_RULINGS: Mapping[Action, Ruling] = {"adopt": "adopted", "undo": "undone", "discard": "discarded"}
State = Literal["pending", "partly adopted", "adopted", "discarded", "replaced", "interrupted"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a person decided on one edit."""

    proposal: str
    target: ProposedFile
    edit: ProposedEdit
    decision: Ruling
    time: datetime


class Proposal(StoredRecord):
    """What a night proposes for one project, and what was decided on it."""

    format: Literal["skillopt_sleep.proposal.v1"] = "skillopt_sleep.proposal.v1"
    id: str
    created: datetime
    project: str
    night: str
    targets: tuple[ProposedFile, ...]
    cost: Cost
    notes: tuple[str, ...] = ()
    simulated: bool = False
    history: History = Field(default_factory=History, exclude=True)
    """What was decided; it stands in the journal and not in the proposal's own file."""

    @property
    def edits(self) -> tuple[ProposedEdit, ...]:
        """All edits of all targets; their ids are unique in the proposal."""
        return tuple(edit for target in self.targets for edit in target.edits)

    @property
    def shown(self) -> frozenset[int]:
        """The measured edits of files that held-out tasks show to be better with them."""
        real = (target for target in self.targets if target.judgement.significance == "real")
        return frozenset(edit.id for target in real for edit in target.edits if edit.is_measured)

    @property
    def flagged(self) -> frozenset[int]:
        """The open edits that hold something a person must have read, and those that stand inside of one."""
        found = {edit.id for edit in self.edits if edit.flags and edit.id in self.pending}
        while more := {edit.id for edit in self.edits if found & set(edit.needs)} - found:
            found |= more
        return frozenset(found)

    def touched(self, chosen: Collection[int]) -> list[ProposedFile]:
        """The targets that any of these edits changes."""
        return [target for target in self.targets if set(target.merged.edits) & set(chosen)]

    def findings(self, chosen: Collection[int]) -> tuple[str, ...]:
        """What the held-out tasks say of each target that these edits change, in words."""
        return tuple(f"{target.name}: {_finding(target, chosen)}" for target in self.touched(chosen))

    @property
    def state(self) -> State:
        """Where the proposal stands."""
        every, history = {edit.id for edit in self.edits}, self.history
        if history.open is not None:
            return "interrupted"
        if history.replaced_by:
            return "replaced"
        if every <= history.discarded:
            return "discarded"
        if every <= history.discarded | history.adopted:
            return "adopted"
        return "partly adopted" if history.adopted else "pending"

    @property
    def note(self) -> str:
        """What else a person should know of where it stands."""
        if self.history.replaced_by:
            return f"by {self.history.replaced_by}"
        if self.history.open is None:
            return ""
        return (
            f"The last {self.history.open.action} was interrupted; the next adopt, undo or discard finishes"
            " it, or drops it where no file had changed."
        )

    @property
    def decided(self) -> dict[int, Literal["pending", "adopted", "discarded"]]:
        """What was decided on each edit."""
        adopted, discarded = self.history.adopted, self.history.discarded
        return {
            edit.id: "adopted" if edit.id in adopted else "discarded" if edit.id in discarded else "pending"
            for edit in self.edits
        }

    def on_disk(self, target: ProposedFile, roots: Sequence[Path]) -> tuple[Disk, str]:
        """What the live file of a target holds, and the reason in words.

        Unless a change was interrupted, *old* is the proposal's first text, *new* has all adopted edits.
        """
        try:
            live = digest(confined(Path(target.path), roots).content())
        except (UsageError, OSError) as error:
            return "refused", str(error)
        changing = self.history.open.files if self.history.open is not None else ()
        file = next((file for file in changing if file.name == target.name), None)
        has_adopted = file is None and bool(self.history.adopted & set(target.merged.edits))
        old, new = (file.old, file.new) if file else (target.pin, digest(target.data(self.history.adopted)))
        if live == old and not (live is None and has_adopted):
            return "old", "" if live is not None else "It is not there yet."
        if live == new:
            return "new", ""
        if live is None:
            return "missing", "The file is not there any more."
        return "other", "The file was edited since; adopt and undo would not overwrite it."

    def decisions(self) -> Iterator[Decision]:
        """The last decision on every edit that has one."""
        last = {edit: change for change in self.history.changes for edit in change.taken}
        for target in self.targets:
            for edit in target.edits:
                if (change := last.get(edit.id)) is not None:
                    yield Decision(
                        proposal=self.id,
                        target=target,
                        edit=edit,
                        decision=_RULINGS[change.action],
                        time=change.time,
                    )

    @property
    def pending(self) -> frozenset[int]:
        """The edits that nothing was decided on."""
        if self.history.replaced_by:
            return frozenset()
        every = frozenset(edit.id for edit in self.edits)
        return every - self.history.adopted - self.history.discarded

    @property
    def is_undecided(self) -> bool:
        """Whether nothing at all was decided on it."""
        return not self.history.changes and bool(self.pending)

    @property
    def free_to_adopt(self) -> frozenset[int]:
        """The open edits that are adopted without being named: shown to help, and nothing in them flagged."""
        return self.pending & self.shown - self.flagged

    def chosen(self, action: Action | None, targets: Sequence[str], edits: Sequence[int]) -> frozenset[int]:
        """The edits a person named: by target those that are open, by number exactly those; all that are open
        where none is named. Without an action all may be named. What is not `free_to_adopt` is adopted by its
        number alone.
        """
        every = frozenset(edit.id for edit in self.edits)
        open_ones = self.pending if action else every
        by_name = {target.name: frozenset(target.merged.edits) for target in self.targets}
        chosen = frozenset[int]() if targets or edits else self.pending
        for name in targets:
            if name not in by_name:
                raise UnknownName(f"target of proposal {self.id}", name, by_name)
            chosen |= by_name[name] & open_ones
        if action == "adopt":
            if chosen and not chosen & self.free_to_adopt:
                raise UsageError(self._by_number_alone(chosen))
            chosen &= self.free_to_adopt
        for edit in edits:
            if edit not in every:
                known = ", ".join(str(one.id) for one in self.edits)
                raise UsageError(f"Proposal {self.id} has no edit {edit}; it has {known}.")
            if edit not in open_ones:
                done = "discarded; the next night may propose it anew"
                if edit in self.history.adopted:
                    done = "adopted already; `undo` takes it back"
                if self.history.replaced_by:
                    done = f"replaced by proposal {self.history.replaced_by}"
                raise UsageError(f"Edit {edit} of proposal {self.id} is {done}. Nothing was changed.")
            one = next(one for one in self.edits if one.id == edit)
            chosen |= {edit, *(need for need in one.needs if need in open_ones and self.is_bare_page(need))}
        if not chosen:
            raise UsageError(
                f"Nothing of proposal {self.id} is left to {action or 'show'} there: all of it is"
                " decided. See `skillopt sleep status`."
            )
        return chosen

    def _by_number_alone(self, chosen: Collection[int]) -> str:
        """Why these edits are not taken unnamed, with the words that are flagged."""
        flags = [f"Edit {edit.id}: {flag}" for edit in self.edits for flag in edit.flags if edit.id in chosen]
        named = " ".join(f"--edit {edit}" for edit in sorted(chosen))
        why = "is flagged or not shown to help" if flags else "is not shown to help"
        left = f"What is left of proposal {self.id} {why}."
        return printable("\n".join([f"{left} Read it, then adopt by number what you want: {named}.", *flags]))

    def is_bare_page(self, edit: int) -> bool:
        """Whether an edit is only the page that others are written on: it comes along with them."""
        found = next(one for one in self.edits if one.id == edit)
        return not found.flags and all(evidence.edit.get("op") == "new_file" for evidence in found.evidence)


def _finding(target: ProposedFile, chosen: Collection[int]) -> str:
    measured = {edit.id for edit in target.edits if edit.is_measured}
    if not measured & set(chosen):
        return f"not proven yet: {NOT_MEASURED}"
    is_part = bool(target.judgement.pairs) and not measured <= set(chosen)
    return target.judgement.finding + (", measured with all edits together" if is_part else "")
