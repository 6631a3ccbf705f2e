"""Adoption: decides when a proposed change may reach a live file, how it is taken back, and what is known of
it afterwards.

Nothing is written but by `adopt` and `undo`, and only where the file is byte for byte what the proposal was
made for. Every method that changes something first finishes or rolls back what a crash left behind.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from skillopt.changes._commit import Hook, Swap, carry_out, finish, roll_back
from skillopt.changes._place import Found, Place, confined
from skillopt.changes._seal import digest
from skillopt.changes._status import Decision, Status, decisions, status
from skillopt.changes.journal import JOURNAL, Action, Entry, FileMove, Journal, Move, Standing
from skillopt.changes.proposal import Proposal, Store, Target, checked
from skillopt.errors import RunConflict, UnknownName, UsageError
from skillopt.files import lock_privately

LOCK = "adopt.lock"
BACKUPS = "backups"
_PAUSE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a move did."""

    proposal: str
    action: Action
    changes: tuple[int, ...]
    written: tuple[Path, ...] = ()
    backups: Path | None = None
    """The folder in which every replaced text lies."""
    left_out: tuple[str, ...] = ()
    """Targets that somebody else changed at the last moment; they are as that somebody left them."""
    recovered: tuple[str, ...] = ()
    """What an earlier crash had left behind, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Where a person decides on proposals. `roots` are the folders the user named: nothing outside of them is
    ever written.
    """

    store: Store
    roots: tuple[Path, ...]
    now: Callable[[], datetime]
    project: str | None = None
    """Whose proposals are meant where none is named: another project's is never decided on by chance. None is
    everybody's.
    """
    patience: float = 10.0
    """Seconds to wait for another process that adopts at this moment."""
    hook: Hook = field(default=lambda step: None, repr=False)

    def adopt(self, id: str | None = None, *, targets: Sequence[str] = (), edits: Sequence[int] = ()) -> Done:
        """Write the chosen changes (unless told, all that are open) of a proposal (unless told, the project's
        newest) to the live files.

        Raises `UsageError`, with nothing written, for a file that changed since, a link, a place outside the
        roots, or a forged proposal.
        """
        with self._alone() as recovered:
            opened = proposal, _, standing = self._open(id, _has_pending)
            chosen = _chosen(proposal, standing, targets, edits, "adopt")
            for change in proposal.changes:
                if change.id in chosen and (missing := set(change.needs) - chosen - standing.adopted):
                    raise UsageError(
                        f"Edit {change.id} stands inside edit {_listed(missing)} and cannot go alone. "
                        "Adopt both, or neither; nothing was written."
                    )
            swaps = []
            for target in _touched(proposal, chosen):
                place = confined(Path(target.path), self.roots)
                old, new = target.data(standing.adopted), checked(target, standing.adopted | chosen)
                found = place.look()
                _refuse_changed(
                    place,
                    found,
                    old,
                    "Look at the diff and put it in by hand, or discard it: the next night starts from your"
                    " text.",
                )
                swaps.append(
                    _swap(target, place, chosen & set(target.weave.edits), old, new, made=place.missing())
                )
            return self._carry_out(opened, "adopt", chosen, swaps, recovered)

    def undo(self, id: str | None = None, *, force: bool = False) -> Done:
        """Take the last adoption of a proposal (the project's last, unless told) back, byte for byte.

        A file that was edited since is refused; with `force` it is put back all the same, and its text is
        kept among the backups.
        """
        with self._alone() as recovered:
            opened = proposal, _, standing = self._last_adopted() if id is None else self._open(id)
            last = standing.last_adoption
            if last is None:
                raise UsageError(
                    f"Nothing of proposal {proposal.id} is adopted, so there is nothing to undo."
                )
            taken = last.taken & standing.adopted
            swaps = []
            for target in _touched(proposal, taken):
                place = confined(Path(target.path), self.roots)
                old, new = target.data(standing.adopted), target.data(standing.adopted - taken)
                found = place.look()
                if force:
                    old = None if found is None else found.data
                else:
                    _refuse_changed(
                        place,
                        found,
                        old,
                        "Take it back by hand from the diff, or use --force, which keeps a copy of your"
                        " text.",
                    )
                swaps.append(
                    _swap(
                        target,
                        place,
                        taken & set(target.weave.edits),
                        old,
                        new,
                        made=_made(standing, target.name),
                    )
                )
            return self._carry_out(opened, "undo", taken, swaps, recovered, undoes=last.number)

    def discard(
        self, id: str | None = None, *, targets: Sequence[str] = (), edits: Sequence[int] = ()
    ) -> Done:
        """Decide against the chosen changes (all that are still open, unless told); no live
        file is touched.
        """
        with self._alone() as recovered:
            opened = proposal, _, standing = self._open(id, _has_pending)
            chosen = _chosen(proposal, standing, targets, edits, "discard")
            return self._carry_out(opened, "discard", chosen, (), recovered)

    def recover(self) -> tuple[str, ...]:
        """Finish or roll back what a crash left behind, and say what was done."""
        with self._alone() as recovered:
            return recovered

    def diff(self, id: str | None = None, *, targets: Sequence[str] = (), edits: Sequence[int] = ()) -> str:
        """What adopting the chosen changes would do, as a unified diff; of a proposal on which all is
        decided, what it was about.
        """
        proposal, _, standing = self._open(id, _has_pending)
        if not (targets or edits) and not _pending(proposal, standing):
            return "".join(target.diff() for target in proposal.targets)
        chosen = _chosen(proposal, standing, targets, edits, None)
        return "".join(
            target.diff(chosen, over=standing.adopted - chosen) for target in _touched(proposal, chosen)
        )

    def status(self) -> Status:
        """Where everything stands, without changing anything."""
        return status(self.store, self.roots)

    def decisions(self, project: str | None = None) -> tuple[Decision, ...]:
        """What the person decided so far, the oldest first, for the next night to learn from; of one project,
        unless told otherwise.
        """
        return decisions(self.store, project)

    @contextmanager
    def _alone(self) -> Iterator[tuple[str, ...]]:
        """Hold the adoption lock, with everything recovered that a crash left behind."""
        self.store.refuse_inside(self.roots)
        deadline = time.monotonic() + self.patience
        with ExitStack() as held:
            while True:
                try:
                    held.enter_context(lock_privately(self.store.state / LOCK))
                    break
                except RunConflict:
                    if time.monotonic() >= deadline:
                        raise
                time.sleep(_PAUSE)
            yield self._recovered()

    def _recovered(self) -> tuple[str, ...]:
        said: list[str] = []
        for id in self.store.ids():
            try:
                proposal, journal, standing = self._open(id)
                if standing.open is not None:
                    said.append(self._recover(proposal, journal, standing, standing.open))
            except UsageError as error:
                # One proposal that cannot be read or recovered does not stand in the way of the others;
                # `status` names it.
                said.append(f"Proposal {id} was left as it is: {error}")
        return tuple(said)

    def _recover(self, proposal: Proposal, journal: Journal, standing: Standing, move: Move) -> str:
        after = (
            standing.adopted - set(move.changes)
            if move.action == "undo"
            else standing.adopted | set(move.changes)
        )
        targets = {target.name: target for target in proposal.targets}
        swaps = []
        for file in move.files:
            target = targets[file.target]
            new = target.data(after)
            if digest(new) != file.new:
                raise UsageError(
                    f"the journal of {proposal.id} names a text for {file.target} that the proposal does not"
                    " hold."
                )
            swaps.append(Swap(place=confined(Path(target.path), self.roots), file=file, new=new))
        if move.step == "begun":
            roll_back(journal, move.number, swaps, now=self.now(), note="interrupted")
            return (
                f"Proposal {proposal.id}: an interrupted {move.action} was rolled back; no file had changed."
            )
        left_out = finish(journal, move.number, swaps, now=self.now(), hook=self.hook)
        rest = f" {_listed(left_out)} had been edited meanwhile and stays as it is." if left_out else ""
        return f"Proposal {proposal.id}: an interrupted {move.action} was finished.{rest}"

    def _open(
        self, id: str | None, wanted: Callable[[Proposal, Standing], bool] | None = None
    ) -> tuple[Proposal, Journal, Standing]:
        """A proposal with its journal: the named one, else the newest of the project that is wanted, else its
        newest.
        """
        if id is not None:
            proposal = self.store.load(id)
            journal = Journal(self.store.folder(id) / JOURNAL, id, self.store.key())
            return proposal, journal, journal.standing()
        refused = elsewhere = ""
        newest: tuple[Proposal, Journal, Standing] | None = None
        for one in self.store.ids():
            try:
                found = self._open(one)
            except UsageError as error:
                refused = refused or f" {error}"
                continue
            if not self._is_meant(found[0]):
                elsewhere = (
                    " Those of other projects are named by their id; `skillopt sleep status` lists them."
                )
                continue
            newest = newest or found
            if wanted is None or wanted(found[0], found[2]):
                return found
        if newest is None:
            whose = "" if self.project is None else f" for {self.project}"
            raise UsageError(
                f"There is no proposal{whose} in {self.store.home} yet.{refused}{elsewhere} `skillopt sleep"
                " run` makes one."
            )
        return newest

    def _last_adopted(self) -> tuple[Proposal, Journal, Standing]:
        adopted = []
        for id in self.store.ids():
            try:
                found = self._open(id)
            except UsageError:  # `status` names it; there is nothing of it to undo
                continue
            if found[2].last_adoption is not None and self._is_meant(found[0]):
                adopted.append((found[2].last_adoption.time, found))
        if not adopted:
            whose = "" if self.project is None else f" of {self.project}"
            raise UsageError(f"Nothing{whose} is adopted, so there is nothing to undo.")
        return max(adopted, key=lambda pair: pair[0])[1]

    def _is_meant(self, proposal: Proposal) -> bool:
        return self.project is None or proposal.project == self.project

    def _carry_out(
        self,
        opened: tuple[Proposal, Journal, Standing],
        action: Action,
        chosen: Collection[int],
        swaps: Sequence[Swap],
        recovered: tuple[str, ...],
        undoes: int | None = None,
    ) -> Done:
        proposal, journal, standing = opened
        now = self.now()
        begin = Entry(
            move=len(standing.moves) + 1,
            step="begun",
            time=now,
            action=action,
            changes=tuple(sorted(chosen)),
            files=tuple(swap.file for swap in swaps),
            undoes=undoes,
        )
        backups = self.store.folder(proposal.id) / BACKUPS
        left_out = carry_out(journal, begin, swaps, backups, now=now, hook=self.hook)
        return Done(
            proposal=proposal.id,
            action=action,
            changes=tuple(sorted(journal.standing().moves[-1].taken)),
            written=tuple(swap.place.path for swap in swaps if swap.file.target not in left_out),
            backups=backups if swaps else None,
            left_out=left_out,
            recovered=recovered,
        )


def _has_pending(proposal: Proposal, standing: Standing) -> bool:
    return bool(_pending(proposal, standing))


def _pending(proposal: Proposal, standing: Standing) -> frozenset[int]:
    return frozenset(change.id for change in proposal.changes) - standing.adopted - standing.discarded


def _chosen(
    proposal: Proposal,
    standing: Standing,
    targets: Sequence[str],
    edits: Sequence[int],
    action: Action | None,
) -> frozenset[int]:
    """The changes a person named: by target those that are open, by number exactly those. Without an action
    all may be named.
    """
    open_ones = (
        _pending(proposal, standing) if action else frozenset(change.id for change in proposal.changes)
    )
    by_name = {target.name: frozenset(target.weave.edits) for target in proposal.targets}
    chosen: frozenset[int] = frozenset()
    for name in targets:
        if name not in by_name:
            raise UnknownName(f"target of proposal {proposal.id}", name, by_name)
        chosen |= by_name[name] & open_ones
    for edit in edits:
        if not any(edit in known for known in by_name.values()):
            raise UsageError(
                f"Proposal {proposal.id} has no edit {edit}; it has"
                f" {_listed(change.id for change in proposal.changes)}."
            )
        if edit not in open_ones:
            done = (
                "adopted already; `undo` takes it back"
                if edit in standing.adopted
                else "discarded; the next night may propose it anew"
            )
            raise UsageError(f"Edit {edit} of proposal {proposal.id} is {done}. Nothing was changed.")
        chosen |= {edit}
    if not (targets or edits):
        chosen = _pending(proposal, standing)
    if not chosen:
        raise UsageError(
            f"Nothing of proposal {proposal.id} is left to {action or 'show'} there: all of it is decided."
            " See `skillopt sleep status`."
        )
    return chosen


def _touched(proposal: Proposal, chosen: Collection[int]) -> list[Target]:
    return [target for target in proposal.targets if set(target.weave.edits) & set(chosen)]


def _refuse_changed(place: Place, found: Found | None, expected: bytes | None, remedy: str) -> None:
    if digest(None if found is None else found.data) != digest(expected):
        what = "is not there any more" if found is None else "appeared" if expected is None else "was changed"
        raise UsageError(
            f"{place.path} {what} since this was decided about it, and is not overwritten. Nothing was"
            f" written. {remedy}"
        )
    if found is not None and not found.mode & 0o200:
        raise UsageError(
            f"{place.path} is read-only (mode {found.mode:03o}), so it is left alone. Nothing was written;"
            " chmod u+w allows it."
        )


def _swap(
    target: Target, place: Place, changes: Collection[int], old: bytes | None, new: bytes | None, *, made: int
) -> Swap:
    # Recovery must find the file that lies ready, so its name is decided before the first journal line.
    temporary = f".{place.name[:100]}.{secrets.token_hex(6)}.skillopt.tmp"
    file = FileMove(
        target=target.name,
        changes=tuple(sorted(changes)),
        old=digest(old),
        new=digest(new),
        temporary=temporary,
        made=made,
    )
    return Swap(place=place, file=file, new=new)


def _made(standing: Standing, target: str) -> int:
    """How many folders were made for a target that was not there."""
    return max(
        (
            file.made
            for move in standing.moves
            for file in move.files
            if move.step == "done" and file.target == target
        ),
        default=0,
    )


def _listed(names: Iterable[object]) -> str:
    return ", ".join(str(name) for name in names)
