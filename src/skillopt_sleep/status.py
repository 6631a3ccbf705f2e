"""Where every proposal stands: what each target holds now, and what the person decided on each edit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from skillopt.changes.files import confined, digest
from skillopt.changes.journal import Action, History
from skillopt.errors import UsageError
from skillopt_sleep.proposal import EditEvidence, Kind, NightProposal, ProposedFile
from skillopt_sleep.store import Store

Disk = Literal["old", "new", "other", "missing", "refused"]
Decided = Literal["pending", "adopted", "discarded"]
Ruling = Literal["adopted", "undone", "discarded"]
_WORDS: Mapping[Action, Ruling] = {"adopt": "adopted", "undo": "undone", "discard": "discarded"}
State = Literal["pending", "partly adopted", "adopted", "discarded", "replaced", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStatus:
    """A target as it is now: the text before the last move, the text after it, somebody else's, or none.
    `note` has the reason in words.

    Without an interrupted move, *old* is the text of the proposal, *new* the one with all adopted edits.
    """

    name: str
    path: Path
    disk: Disk
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalStatus:
    """Where a proposal stands."""

    proposal: NightProposal
    state: State
    edits: Mapping[int, Decided]
    targets: tuple[TargetStatus, ...]
    free_to_adopt: frozenset[int]
    """The open edits that are shown to help."""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalsStatus:
    """All proposals, the newest first; and why others are not the user's or cannot be read."""

    proposals: tuple[ProposalStatus, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a person decided on one edit, and what the edit was."""

    proposal: str
    project: str
    target: str
    kind: Kind
    path: str
    edit: int
    decision: Ruling
    time: datetime
    cut: str
    added: str
    evidence: tuple[EditEvidence, ...]


def status(store: Store, roots: Sequence[Path]) -> ProposalsStatus:
    """Look at every proposal and at its targets; nothing is changed."""
    found, refused = store.load_all()
    proposals = tuple(
        ProposalStatus(
            proposal=one.proposal,
            state=_state(one.proposal, one.history),
            edits={edit.id: _decided(edit.id, one.history) for edit in one.proposal.edits},
            targets=tuple(_target(target, one.history, roots) for target in one.proposal.targets),
            free_to_adopt=one.free_to_adopt,
            note=_note(one.history),
        )
        for one in found
    )
    return ProposalsStatus(proposals=proposals, refused=refused)


def decisions(store: Store, project: str | None) -> tuple[Decision, ...]:
    """Every decision that stands, the oldest first. Proposals that are not the person's decide nothing."""
    found = [
        decision
        for one in store.load_all()[0]
        if project in (None, one.proposal.project)
        for decision in _decisions(one.proposal, one.history)
    ]
    return tuple(sorted(found, key=lambda one: (one.time, one.proposal, one.edit)))


def _state(proposal: NightProposal, history: History) -> State:
    every = {edit.id for edit in proposal.edits}
    if history.open is not None:
        return "interrupted"
    if history.replaced_by:
        return "replaced"
    if every <= history.discarded:
        return "discarded"
    if every <= history.discarded | history.adopted:
        return "adopted"
    return "partly adopted" if history.adopted else "pending"


def _note(history: History) -> str:
    if history.replaced_by:
        return f"by {history.replaced_by}"
    if history.open is None:
        return ""
    return (
        f"The last {history.open.action} was interrupted; the next adopt, undo or discard finishes it, or"
        " drops it where no file had changed."
    )


def _decided(edit: int, history: History) -> Decided:
    return "adopted" if edit in history.adopted else "discarded" if edit in history.discarded else "pending"


def _target(target: ProposedFile, history: History, roots: Sequence[Path]) -> TargetStatus:
    def told(disk: Disk, note: str = "") -> TargetStatus:
        return TargetStatus(name=target.name, path=Path(target.path), disk=disk, note=note)

    try:
        live = digest(confined(Path(target.path), roots).content())
    except (UsageError, OSError) as error:
        return told("refused", str(error))
    moving = history.open and next((file for file in history.open.files if file.name == target.name), None)
    has_adopted = moving is None and bool(history.adopted & set(target.merged.edits))
    old, new = (moving.old, moving.new) if moving else (target.pin, digest(target.data(history.adopted)))
    if live == old and not (live is None and has_adopted):
        return told("old", "" if live is not None else "It is not there yet.")
    if live == new:
        return told("new")
    if live is None:
        return told("missing", "The file is not there any more.")
    return told("other", "The file was edited since; adopt and undo would not overwrite it.")


def _decisions(proposal: NightProposal, history: History) -> Iterator[Decision]:
    last = {edit: move for move in history.changes for edit in move.taken}
    for target in proposal.targets:
        for edit in target.edits:
            if (move := last.get(edit.id)) is not None:
                cut, added = target.merged.part(edit.id)
                yield Decision(
                    proposal=proposal.id,
                    project=proposal.project,
                    target=target.name,
                    kind=target.kind,
                    path=target.path,
                    edit=edit.id,
                    decision=_WORDS[move.action],
                    time=move.time,
                    cut=cut,
                    added=added,
                    evidence=edit.evidence,
                )
