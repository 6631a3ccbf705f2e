"""The proposals of a person, in their state folder and never in a repository.

A proposal is the person's own when a night wrote it down in the journal with the hash of its content;
any other folder that lies there is refused. The pages beside it are for people and never read back.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from pydantic import ValidationError

from skillopt.changes.files import digest
from skillopt.changes.journal import ChangeJournal, History
from skillopt.errors import UsageError
from skillopt.files import make_private_folder, write_bytes
from skillopt.skill.steering import TextOrigins
from skillopt_sleep.drafts import FileDraft, proposed_files
from skillopt_sleep.judgement import Cost
from skillopt_sleep.proposal import Decision, Proposal
from skillopt_sleep.proposal_page import page

MANIFEST = "proposal.json"
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")


def subject_of(id: str) -> str:
    """What the journal calls a proposal."""
    return f"proposals/{id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedProposals:
    """All proposals, the newest first; and why others are not the person's or cannot be read."""

    proposals: tuple[Proposal, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The person's proposals; `state` is the person's state folder."""

    state: Path

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
        found: list[Proposal] = []
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
            for proposal in self.load_all().proposals
            if project in (None, proposal.project)
            for decision in proposal.decisions()
        ]
        return tuple(sorted(found, key=lambda one: (one.time, one.proposal, one.edit.id)))

    def load(self, id: str) -> Proposal:
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
            return Proposal.model_validate_json(data).model_copy(update={"history": history})
        except ValidationError as error:
            differ = f"{error.error_count()} fields differ"
            raise UsageError(f"{folder / MANIFEST} is of another version of SkillOpt: {differ}.") from error

    def stage(
        self,
        drafts: Sequence[FileDraft],
        *,
        roots: Sequence[Path],
        project: str,
        night: str,
        now: datetime,
        cost: Cost | None = None,
        notes: Sequence[str] = (),
        simulated: bool = False,
        origins: TextOrigins | None = None,
    ) -> Proposal:
        """Write a proposal, whole or not at all, and return it. Nothing outside the state folder changes.
        What its edits hold beyond `origins` is flagged.

        Raises `UsageError` for a target outside the roots, `SkillError` for a text that may not be.
        """
        self.refuse_inside(roots)
        moment = now.astimezone(timezone.utc)
        id = f"{moment:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        proposal = Proposal(
            id=id,
            created=moment,
            project=project,
            night=night,
            targets=proposed_files(drafts, roots, origins or TextOrigins()),
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
            history = History(digest=pinned)
            with self.journal.alone():
                self.journal.note(subject_of(id), history)
            growing.rename(self.home / id)
        except BaseException:
            # Also on Ctrl-C: half a proposal is none.
            shutil.rmtree(growing, ignore_errors=True)
            raise
        return proposal.model_copy(update={"history": history})

    def replace_open(self, newer: Proposal) -> list[str]:
        """Mark older proposals of the project that nothing was decided on, and that are about files the newer
        one is about, as replaced by it. Returns their ids.
        """
        paths = {target.path for target in newer.targets}
        gone = []
        with self.journal.alone():
            for one in self.load_all().proposals:
                is_open = one.project == newer.project and one.is_undecided
                if one.id != newer.id and is_open and {target.path for target in one.targets} <= paths:
                    history = one.history.model_copy(update={"replaced_by": newer.id})
                    self.journal.note(subject_of(one.id), history)
                    gone.append(one.id)
        return gone

    def undecided(self, project: str) -> set[str]:
        """The proposals of a project on which nothing at all was decided."""
        found = (one for one in self.load_all().proposals if one.project == project)
        return {one.id for one in found if one.is_undecided}

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
