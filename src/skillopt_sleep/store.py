"""The proposals of a person, in their state folder and never in a repository.

A proposal is the person's own when a night wrote it down in the journal with the hash of its content;
any other folder that lies there is refused. The pages beside it are for people and never read back.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from skillopt.changes.files import confined, digest
from skillopt.changes.journal import Action, ChangeJournal, History
from skillopt.errors import UnknownName, UsageError
from skillopt.files import make_private_folder, write_bytes
from skillopt.redact.printable import printable
from skillopt.skill.steering import TextOrigins
from skillopt_sleep.proposal import (
    Cost,
    IsMemoryFile,
    NightProposal,
    ProposedEdit,
    ProposedFile,
    TargetDraft,
    proposed,
)
from skillopt_sleep.proposal_page import page

MANIFEST = "proposal.json"
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")
Disk = Literal["old", "new", "other", "missing", "refused"]
"""What a file holds: the text before the last change, the text after it, somebody else's, or none."""
Ruling = Literal["adopted", "undone", "discarded"]
_RULINGS: Mapping[Action, Ruling] = {"adopt": "adopted", "undo": "undone", "discard": "discarded"}
State = Literal["pending", "partly adopted", "adopted", "discarded", "replaced", "interrupted"]


def subject_of(id: str) -> str:
    """What the journal calls a proposal."""
    return f"proposals/{id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a person decided on one edit."""

    proposal: str
    target: ProposedFile
    edit: ProposedEdit
    decision: Ruling
    time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedProposal:
    """A proposal with what was decided on it."""

    proposal: NightProposal
    history: History

    @property
    def state(self) -> State:
        """Where the proposal stands."""
        every, history = {edit.id for edit in self.proposal.edits}, self.history
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
    def edits(self) -> dict[int, Literal["pending", "adopted", "discarded"]]:
        """What was decided on each edit."""
        adopted, discarded = self.history.adopted, self.history.discarded
        return {
            edit.id: "adopted" if edit.id in adopted else "discarded" if edit.id in discarded else "pending"
            for edit in self.proposal.edits
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
        for target in self.proposal.targets:
            for edit in target.edits:
                if (change := last.get(edit.id)) is not None:
                    yield Decision(
                        proposal=self.proposal.id,
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
        every = frozenset(edit.id for edit in self.proposal.edits)
        return every - self.history.adopted - self.history.discarded

    @property
    def is_undecided(self) -> bool:
        """Whether nothing at all was decided on it."""
        return not self.history.changes and bool(self.pending)

    @property
    def free_to_adopt(self) -> frozenset[int]:
        """The open edits that are adopted without being named: shown to help, and nothing in them flagged."""
        return self.pending & self.proposal.shown - self.flagged

    @property
    def flagged(self) -> frozenset[int]:
        """The open edits that hold something a person must have read, and those that stand inside of one."""
        return self.proposal.flagged(self.pending)

    def chosen(self, action: Action | None, targets: Sequence[str], edits: Sequence[int]) -> frozenset[int]:
        """The edits a person named: by target those that are open, by number exactly those; all that are open
        where none is named. Without an action all may be named. What is not `free_to_adopt` is adopted by its
        number alone.
        """
        every = frozenset(edit.id for edit in self.proposal.edits)
        open_ones = self.pending if action else every
        by_name = {target.name: frozenset(target.merged.edits) for target in self.proposal.targets}
        chosen = frozenset[int]() if targets or edits else self.pending
        for name in targets:
            if name not in by_name:
                raise UnknownName(f"target of proposal {self.proposal.id}", name, by_name)
            chosen |= by_name[name] & open_ones
        if action == "adopt":
            if chosen and not chosen & self.free_to_adopt:
                raise UsageError(self._by_number_alone(chosen))
            chosen &= self.free_to_adopt
        for edit in edits:
            if edit not in every:
                known = ", ".join(str(one.id) for one in self.proposal.edits)
                raise UsageError(f"Proposal {self.proposal.id} has no edit {edit}; it has {known}.")
            if edit not in open_ones:
                done = "discarded; the next night may propose it anew"
                if edit in self.history.adopted:
                    done = "adopted already; `undo` takes it back"
                if self.history.replaced_by:
                    done = f"replaced by proposal {self.history.replaced_by}"
                raise UsageError(
                    f"Edit {edit} of proposal {self.proposal.id} is {done}. Nothing was changed."
                )
            one = next(one for one in self.proposal.edits if one.id == edit)
            chosen |= {edit, *(need for need in one.needs if need in open_ones and self.is_bare_page(need))}
        if not chosen:
            raise UsageError(
                f"Nothing of proposal {self.proposal.id} is left to {action or 'show'} there: all of it is"
                " decided. See `skillopt sleep status`."
            )
        return chosen

    def _by_number_alone(self, chosen: Collection[int]) -> str:
        """Why these edits are not taken unnamed, with the words that are flagged."""
        said = [
            f"Edit {edit.id}: {flag}"
            for edit in self.proposal.edits
            for flag in edit.flags
            if edit.id in chosen
        ]
        named = " ".join(f"--edit {edit}" for edit in sorted(chosen))
        why = "is flagged or not shown to help" if said else "is not shown to help"
        left = f"What is left of proposal {self.proposal.id} {why}."
        return printable("\n".join([f"{left} Read it, then adopt by number what you want: {named}.", *said]))

    def is_bare_page(self, edit: int) -> bool:
        """Whether an edit is only the page that others are written on: it comes along with them."""
        found = next(one for one in self.proposal.edits if one.id == edit)
        return not found.flags and all(evidence.edit.get("op") == "new_file" for evidence in found.evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedProposals:
    """All proposals, the newest first; and why others are not the person's or cannot be read."""

    proposals: tuple[OpenedProposal, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The person's proposals; `state` is the person's state folder."""

    state: Path
    is_memory_file: IsMemoryFile

    @property
    def home(self) -> Path:
        """The folder with one folder for each proposal."""
        return self.state / "proposals"

    @property
    def journal(self) -> ChangeJournal:
        """What was decided on them."""
        return ChangeJournal(state=self.state)

    def folder(self, id: str) -> Path:
        """The folder of a proposal. Raises `UsageError` for what is no id of a proposal."""
        if not _ID.fullmatch(id):
            raise UsageError(f"{id!r} is no id of a proposal. `skillopt sleep status` lists them.")
        return self.home / id

    def ids(self) -> list[str]:
        """The ids of all proposals, the newest first; what else lies there is not ours."""
        if not self.home.is_dir():
            return []
        return sorted(
            (path.name for path in self.home.iterdir() if _ID.fullmatch(path.name) and path.is_dir()),
            reverse=True,
        )

    def load_all(self) -> StagedProposals:
        """Every proposal of the person's."""
        found: list[OpenedProposal] = []
        refused: dict[str, str] = {}
        for id in self.ids():
            try:
                found.append(self.load(id))
            except UsageError as error:
                refused[id] = str(error)
        return StagedProposals(proposals=tuple(found), refused=refused)

    def decisions(self, project: str | None) -> tuple[Decision, ...]:
        """Every decision that stands, for one project or for all, the oldest first."""
        found = [
            decision
            for opened in self.load_all().proposals
            if project in (None, opened.proposal.project)
            for decision in opened.decisions()
        ]
        return tuple(sorted(found, key=lambda one: (one.time, one.proposal, one.edit.id)))

    def load(self, id: str) -> OpenedProposal:
        """A proposal, and what was decided on it.

        Raises `UsageError` for one that is not there, was altered, or is not of the person's nights.
        """
        folder = self.folder(id)
        history = self.journal.load().get(subject_of(id))
        try:
            data = (folder / MANIFEST).read_bytes()
        except FileNotFoundError as error:
            raise UsageError(
                f"There is no proposal {id} in {self.home}. `skillopt sleep status` lists them."
            ) from error
        except OSError as error:
            raise UsageError(
                f"{folder / MANIFEST} cannot be read ({error}). Nothing of it is used; delete {folder}."
            ) from error
        if history is None or digest(data) != history.digest:
            raise UsageError(
                f"{folder / MANIFEST} was not written by a night of yours, or was altered since. Nothing of"
                f" it is used. Delete {folder}; the next night makes a proposal of its own."
            )
        try:
            return OpenedProposal(proposal=NightProposal.model_validate_json(data), history=history)
        except ValidationError as error:
            differ = f"{error.error_count()} fields differ"
            raise UsageError(f"{folder / MANIFEST} is of another version of SkillOpt: {differ}.") from error

    def stage(
        self,
        drafts: Sequence[TargetDraft],
        *,
        roots: Sequence[Path],
        project: str,
        night: str,
        now: datetime,
        cost: Cost | None = None,
        notes: Sequence[str] = (),
        simulated: bool = False,
        origins: TextOrigins | None = None,
    ) -> NightProposal:
        """Write a proposal, whole or not at all, and return it. Nothing outside the state folder changes.
        What its edits hold beyond `origins` is flagged.

        Raises `UsageError` for a target outside the roots, `SkillError` for a text that may not be.
        """
        self.refuse_inside(roots)
        moment = now.astimezone(timezone.utc)
        id = f"{moment:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        proposal = NightProposal(
            id=id,
            created=moment,
            project=project,
            night=night,
            targets=proposed(drafts, roots, self.is_memory_file, origins or TextOrigins()),
            cost=cost or Cost(),
            notes=tuple(notes),
            simulated=simulated,
        )
        files = {
            MANIFEST: proposal.model_dump_json(indent=1) + "\n",
            "proposal.diff": "".join(target.diff() for target in proposal.targets),
            "proposal.md": page(proposal),
        }
        make_private_folder(self.home)
        growing = self.home / f".{id}.new"
        growing.mkdir(mode=0o700)
        try:
            for name, text in files.items():
                write_bytes(growing / name, text.encode(), mode=0o600)
            pinned = digest(files[MANIFEST].encode())
            assert pinned is not None
            with self.journal.alone():
                self.journal.note(subject_of(id), History(digest=pinned))
            growing.rename(self.home / id)
        except BaseException:
            # Also on Ctrl-C: half a proposal is none.
            shutil.rmtree(growing, ignore_errors=True)
            raise
        return proposal

    def replace_open(self, newer: NightProposal) -> list[str]:
        """Mark older proposals of the project that nothing was decided on, and that are about files the newer
        one is about, as replaced by it. Returns their ids.
        """
        paths = {target.path for target in newer.targets}
        gone = []
        with self.journal.alone():
            for one in self.load_all().proposals:
                older = one.proposal
                is_open = older.project == newer.project and one.is_undecided
                if older.id != newer.id and is_open and {target.path for target in older.targets} <= paths:
                    history = one.history.model_copy(update={"replaced_by": newer.id})
                    self.journal.note(subject_of(older.id), history)
                    gone.append(older.id)
        return gone

    def undecided(self, project: str) -> set[str]:
        """The proposals of a project on which nothing at all was decided."""
        found = (one for one in self.load_all().proposals if one.proposal.project == project)
        return {one.proposal.id for one in found if one.is_undecided}

    def forget(self, ids: Iterable[str]) -> None:
        """Take proposals out of the journal; held `alone` by the caller, who removes their folders."""
        gone = set(map(subject_of, ids))
        if gone:
            self.journal.save({name: one for name, one in self.journal.load().items() if name not in gone})

    def refuse_inside(self, roots: Sequence[Path]) -> None:
        """Raise `UsageError` for a state folder below a root: a repository could plant proposals."""
        for root in roots:
            inner, outer = Path(os.path.realpath(self.state)), Path(os.path.realpath(root))
            if inner == outer or outer in inner.parents:
                raise UsageError(
                    f"{self.state} lies in {root}, a folder that adoption may write to. Keep proposals"
                    " outside of it, or name the folders of your skills instead of one that holds everything."
                )
