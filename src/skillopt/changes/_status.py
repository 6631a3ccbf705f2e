"""What is known of all proposals: decides from journal and disk which text a target holds, and what the
person decided on each change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from skillopt.changes._place import confined
from skillopt.changes._seal import digest
from skillopt.changes.journal import JOURNAL, Journal, Move, Standing
from skillopt.changes.proposal import Evidence, Proposal, Store, Target
from skillopt.errors import UsageError

Disk = Literal["old", "new", "other", "missing", "refused"]
Decided = Literal["pending", "adopted", "discarded"]
State = Literal["pending", "partly adopted", "adopted", "discarded", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStatus:
    """A target as it is now: the text before the last move, the text after it, somebody else's, or none.
    `note` has the reason in words.

    Without an interrupted move, *old* is the text the proposal was made for, and *new* the one with
    everything that was adopted.
    """

    name: str
    path: Path
    disk: Disk
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalStatus:
    """Where a proposal stands."""

    proposal: Proposal
    state: State
    edits: Mapping[int, Decided]
    targets: tuple[TargetStatus, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """All proposals, the newest first, and those that are not the user's or cannot be read,
    with the reason.
    """

    proposals: tuple[ProposalStatus, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a person decided on one change, and what the change was."""

    proposal: str
    project: str
    target: str
    kind: Literal["skill", "memory"]
    path: str
    edit: int
    decision: Literal["adopted", "undone", "discarded"]
    time: datetime
    cut: str
    added: str
    evidence: tuple[Evidence, ...]


def status(store: Store, roots: Sequence[Path]) -> Status:
    """Look at every proposal and at its targets; nothing is changed."""
    proposals: list[ProposalStatus] = []
    refused: dict[str, str] = {}
    for id in store.ids():
        try:
            proposal, standing = _read(store, id)
        except UsageError as error:
            refused[id] = str(error)
            continue
        proposals.append(
            ProposalStatus(
                proposal=proposal,
                state=_state(proposal, standing),
                edits={change.id: _decided(change.id, standing) for change in proposal.changes},
                targets=tuple(_target(target, standing, roots) for target in proposal.targets),
                note=_note(standing.open),
            )
        )
    return Status(proposals=tuple(proposals), refused=refused)


def decisions(store: Store, project: str | None) -> tuple[Decision, ...]:
    """Every decision that stands, from the journals; the oldest first. Proposals that are not the user's
    decide nothing.
    """
    found: list[Decision] = []
    for id in store.ids():
        try:
            proposal, standing = _read(store, id)
        except UsageError:  # `status` names it
            continue
        if project is None or proposal.project == project:
            found += _decisions(proposal, standing)
    return tuple(sorted(found, key=lambda one: (one.time, one.proposal, one.edit)))


def _read(store: Store, id: str) -> tuple[Proposal, Standing]:
    proposal = store.load(id)
    return proposal, Journal(store.folder(id) / JOURNAL, id, store.key()).standing()


def _state(proposal: Proposal, standing: Standing) -> State:
    every = {change.id for change in proposal.changes}
    if standing.open is not None:
        return "interrupted"
    if every <= standing.discarded:
        return "discarded"
    if every <= standing.discarded | standing.adopted:
        return "adopted"
    return "partly adopted" if standing.adopted else "pending"


def _decided(edit: int, standing: Standing) -> Decided:
    return "adopted" if edit in standing.adopted else "discarded" if edit in standing.discarded else "pending"


def _note(move: Move | None) -> str:
    if move is None:
        return ""
    if move.step == "begun":
        return (
            f"The last {move.action} was interrupted before it changed anything; the next adopt, undo or"
            " discard clears it away."
        )
    return (
        f"The last {move.action} was interrupted while files were put in place; the next adopt, undo or"
        " discard finishes it."
    )


def _target(target: Target, standing: Standing, roots: Sequence[Path]) -> TargetStatus:
    path = Path(target.path)
    try:
        found = confined(path, roots).look()
    except (UsageError, OSError) as error:
        return TargetStatus(name=target.name, path=path, disk="refused", note=str(error))
    live = digest(None if found is None else found.data)
    moving = (
        next((file for file in standing.open.files if file.target == target.name), None)
        if standing.open
        else None
    )
    has_adopted = moving is None and bool(standing.adopted & set(target.weave.edits))
    if moving is not None:
        old, new = moving.old, moving.new
    else:
        old, new = target.pin, digest(target.data(standing.adopted)) if has_adopted else target.pin
    if live == old and not (live is None and has_adopted):
        return TargetStatus(
            name=target.name, path=path, disk="old", note="" if live is not None else "It is not there yet."
        )
    if live == new:
        return TargetStatus(name=target.name, path=path, disk="new")
    if live is None:
        return TargetStatus(
            name=target.name, path=path, disk="missing", note="The file is not there any more."
        )
    note = "The file was edited since; adopt and undo would not overwrite it."
    return TargetStatus(name=target.name, path=path, disk="other", note=note)


def _decisions(proposal: Proposal, standing: Standing) -> Iterator[Decision]:
    words: Mapping[str, Literal["adopted", "undone", "discarded"]] = {
        "adopt": "adopted",
        "undo": "undone",
        "discard": "discarded",
    }
    last = {edit: move for move in standing.moves if move.step == "done" for edit in move.taken}
    for target in proposal.targets:
        for change in target.changes:
            if (move := last.get(change.id)) is not None:
                cut, added = target.weave.part(change.id)
                yield Decision(
                    proposal=proposal.id,
                    project=proposal.project,
                    target=target.name,
                    kind=target.kind,
                    path=target.path,
                    edit=change.id,
                    decision=words[move.action],
                    time=move.time,
                    cut=cut,
                    added=added,
                    evidence=change.evidence,
                )
