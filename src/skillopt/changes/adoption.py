"""Adoption: how a proposed edit reaches a live file, and how it is taken back.

Nothing is written but by `adopt` and `undo`, and only where the file is byte for byte what the proposal was
made for. Every method that changes something first settles what a killed process left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from skillopt.changes.apply import FileChange, apply, changed_meanwhile, digest, put_back
from skillopt.changes.decisions import Action, FileMove, Move, ProposalRecord
from skillopt.changes.page import flag_lines
from skillopt.changes.safe_file import confined
from skillopt.changes.status import ProposalsStatus, status
from skillopt.changes.store import OpenedProposal, Store
from skillopt.errors import UsageError
from skillopt.files import as_usage_error, write_bytes

BACKUPS = "backups"
_PUT_IN_BY_HAND = (
    "Look at the diff and put it in by hand, or discard it: the next night starts from your text."
)
_TAKE_BACK_BY_HAND = "Take it back by hand from the diff, or use --force, which keeps a copy of your text."


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a move did."""

    proposal: str
    action: Action
    edits: tuple[int, ...]
    written: tuple[Path, ...] = ()
    backups: Path | None = None
    """The folder in which every replaced text lies."""
    left_out: tuple[str, ...] = ()
    """Targets that somebody else changed at the last moment; they are as that somebody left them."""
    recovered: tuple[str, ...] = ()
    """What an earlier crash had left behind, in words."""
    findings: tuple[str, ...] = ()
    """What the held-out tasks say of each target, in words."""
    left: tuple[int, ...] = ()
    """Of an adoption the edits that are still open and only taken by their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What a person does with proposals. `roots` are the folders they named: nothing else is ever written."""

    store: Store
    roots: tuple[Path, ...]
    now: Callable[[], datetime]
    project: str | None = None
    """Whose proposals are meant where none is named, so that none is decided on by chance; None: all."""
    patience: float = 10.0
    """Seconds to wait for another process that adopts at this moment."""
    hook: Callable[[str], None] = field(default=lambda step: None, repr=False)
    """Told of every step once it is on the disk; a test may end the process there."""

    def adopt(self, id: str | None = None, *, targets: Sequence[str] = (), edits: Sequence[int] = ()) -> Done:
        """Write the chosen edits (else those that are shown to help) of a proposal (else the newest) to the
        live files.

        Raises `UsageError`, with nothing written, for a changed file, a link or a forged proposal.
        """
        with self._alone() as recovered:
            opened = self.opened(id)
            proposal, record, chosen = opened.proposal, opened.record, opened.chosen("adopt", targets, edits)
            for edit in proposal.edits:
                if edit.id in chosen and (missing := set(edit.needs) - chosen - record.adopted):
                    raise UsageError(
                        f"Edit {edit.id} stands inside edit {_listed(missing)} and cannot go alone. "
                        "Adopt both, or neither; nothing was written."
                    )
            changes = []
            for target in proposal.touched(chosen):
                file = confined(Path(target.path), self.roots)
                old, new = target.data(record.adopted), target.checked(record.adopted | chosen)
                changes.append(FileChange(file=file, before=old, after=new, made=file.missing()))
                _refuse_changed(changes[-1], _PUT_IN_BY_HAND)
            return self._carry_out(opened, "adopt", chosen, changes, recovered)

    def undo(self, id: str | None = None, *, force: bool = False) -> Done:
        """Take the last adoption of a proposal (the project's last, unless told) back, byte for byte.

        A file that was edited since is refused; with `force` its text is kept among the backups.
        """
        with self._alone() as recovered:
            opened = self._last_adopted() if id is None else self.store.load(id)
            proposal, record = opened.proposal, opened.record
            last = record.last_adoption
            if last is None:
                raise UsageError(f"Nothing of proposal {proposal.id} is adopted: there is nothing to undo.")
            taken = last.taken & record.adopted
            changes = []
            for target in proposal.touched(taken):
                file = confined(Path(target.path), self.roots)
                old, new = target.data(record.adopted), target.data(record.adopted - taken)
                moves = (one for move in record.moves for one in move.files if one.target == target.name)
                change = FileChange(
                    file=file,
                    before=file.content() if force else old,
                    after=new,
                    made=max((one.made for one in moves), default=0),
                )
                if not force:
                    _refuse_changed(change, _TAKE_BACK_BY_HAND)
                changes.append(change)
            return self._carry_out(opened, "undo", taken, changes, recovered)

    def discard(
        self, id: str | None = None, *, targets: Sequence[str] = (), edits: Sequence[int] = ()
    ) -> Done:
        """Decide against the chosen edits (all that are still open, unless told); no live file is touched."""
        with self._alone() as recovered:
            opened = self.opened(id)
            chosen = opened.chosen("discard", targets, edits)
            return self._carry_out(opened, "discard", chosen, [], recovered)

    def recover(self) -> tuple[str, ...]:
        """Finish or drop what a killed process left behind, and say what was done."""
        with self._alone() as recovered:
            return recovered

    def diff(self, id: str | None = None, *, targets: Sequence[str] = (), edits: Sequence[int] = ()) -> str:
        """The chosen edits as a unified diff; all edits of a proposal on which everything is decided."""
        opened = self.opened(id)
        chosen, over = _shown(opened, targets, edits)
        return "".join(target.diff(chosen, over=over) for target in opened.proposal.touched(chosen))

    def findings(
        self, id: str | None = None, *, targets: Sequence[str] = (), edits: Sequence[int] = ()
    ) -> tuple[str, ...]:
        """What the held-out tasks say of what `diff` shows, a line for each target, and what of it is
        flagged.
        """
        opened = self.opened(id)
        chosen = _shown(opened, targets, edits)[0]
        flagged = (edit for edit in opened.proposal.edits if edit.id in chosen)
        lines = (f"edit {edit.id}: {line}" for edit in flagged for line in flag_lines(edit))
        return (*opened.proposal.findings(chosen), *lines)

    def status(self) -> ProposalsStatus:
        """Where everything stands, without changing anything."""
        return status(self.store, self.roots)

    @contextmanager
    def _alone(self) -> Iterator[tuple[str, ...]]:
        """Hold the lock, with everything settled that a killed process left behind."""
        self.store.refuse_inside(self.roots)
        with replace(self.store.decisions, patience=self.patience).alone():
            said: list[str] = []
            for id in self.store.ids():
                try:
                    opened = self.store.load(id)
                    if opened.record.open is not None:
                        said.append(self._settled(opened, opened.record.open))
                except UsageError as error:
                    # It does not stand in the way of the others; `status` names it.
                    said.append(f"Proposal {id} was left as it is: {error}")
            yield tuple(said)

    def _settled(self, opened: OpenedProposal, move: Move) -> str:
        """Drop an interrupted move of which no file has changed; finish any other."""
        proposal, before = opened.proposal, opened.record.before_last
        back = move.action == "undo"
        after = before.adopted - set(move.edits) if back else before.adopted | set(move.edits)
        targets = {target.name: target for target in proposal.targets}
        changes = []
        for moved in move.files:
            target = targets[moved.target]
            file = confined(Path(target.path), self.roots)
            live = file.content()
            # A forced undo began from a text of the person's own, of which only the hash is known.
            old = live if digest(live) == moved.old else target.data(before.adopted)
            changes.append(FileChange(file=file, before=old, after=target.data(after), made=moved.made))
        if not _has_begun(move, changes):
            for change in changes:
                put_back(change)
            self.store.decisions.note(proposal.id, before)
            return (
                f"Proposal {proposal.id}: an interrupted {move.action} was rolled back; no file had changed."
            )
        left_out = self._put(proposal.id, before, move, changes).left_out
        rest = f" {_listed(left_out)} had been edited meanwhile and stays as it is." if left_out else ""
        return f"Proposal {proposal.id}: an interrupted {move.action} was finished.{rest}"

    def opened(self, id: str | None = None) -> OpenedProposal:
        """The named proposal, else the newest of the project with something to decide, else its newest."""
        if id is not None:
            return self.store.load(id)
        found, refused = self.store.load_all()
        meant = [one for one in found if self.project in (None, one.proposal.project)]
        if not meant:
            whose = "" if self.project is None else f" for {self.project}"
            why = next((f" {error}" for error in refused.values()), "")
            other = " Those of other projects are named by their id; `skillopt sleep status` lists them."
            raise UsageError(
                f"There is no proposal{whose} in {self.store.home} yet.{why}{other if found else ''}"
                " `skillopt sleep run` makes one."
            )
        return next((one for one in meant if one.pending), meant[0])

    def _last_adopted(self) -> OpenedProposal:
        adopted = [
            (one.record.last_adoption.time, one)
            for one in self.store.load_all()[0]
            if one.record.last_adoption is not None and self.project in (None, one.proposal.project)
        ]
        if not adopted:
            whose = "" if self.project is None else f" of {self.project}"
            raise UsageError(f"Nothing{whose} is adopted, so there is nothing to undo.")
        return max(adopted, key=lambda pair: pair[0])[1]

    def _carry_out(
        self,
        opened: OpenedProposal,
        action: Action,
        chosen: Collection[int],
        changes: Sequence[FileChange],
        recovered: tuple[str, ...],
    ) -> Done:
        """Keep a copy of what is there, check once more that it is the same, and make the move."""
        proposal, record, is_adoption = opened.proposal, opened.record, action == "adopt"
        files = tuple(
            FileMove(
                target=target.name,
                edits=tuple(sorted(set(chosen) & set(target.merged.edits))),
                old=digest(change.before),
                new=digest(change.after),
                made=change.made,
            )
            for target, change in zip(proposal.touched(chosen), changes, strict=False)
        )
        move = Move(action=action, time=self.now(), edits=tuple(sorted(chosen)), files=files)
        backups = self.store.folder(proposal.id) / BACKUPS
        for number, change in enumerate(changes, 1):
            if change.before is not None:
                path = backups / f"{len(record.moves) + 1:03d}-{number}-{change.file.name}"
                with as_usage_error(path, "written", "Nothing was changed."):
                    write_bytes(path, change.before, mode=0o600)
        self.hook("backed up")
        for change in changes:
            if change.file.content() != change.before:
                raise changed_meanwhile(change)
        move = self._put(proposal.id, record, move, changes)
        pairs = zip(move.files, changes, strict=True)
        return Done(
            proposal=proposal.id,
            action=action,
            edits=tuple(sorted(move.taken)),
            written=tuple(change.file.path for moved, change in pairs if moved.is_put),
            backups=backups if changes else None,
            left_out=move.left_out,
            recovered=recovered,
            findings=proposal.findings(move.taken),
            left=tuple(sorted(opened.pending - opened.free_to_adopt - move.taken)) if is_adoption else (),
        )

    def _put(self, id: str, record: ProposalRecord, move: Move, changes: Sequence[FileChange]) -> Move:
        """Write the move down, change the files one by one, and write down that it is done."""
        move = move.model_copy(update={"is_open": True})
        self.store.decisions.note(id, record.plus(move))

        def note(change: FileChange) -> None:
            nonlocal move
            index = changes.index(change)
            move = move.with_put(index)
            self.store.decisions.note(id, record.plus(move))
            self.hook(f"replaced {move.files[index].target}")

        try:
            self.hook("noted")
            apply(changes, leave_changed=True, on_put=note)
        except BaseException:  # also on Ctrl-C: a move of which nothing was written is no move
            if not _has_begun(move, changes):
                self.store.decisions.note(id, record)
            raise
        move = move.model_copy(update={"is_open": False})
        self.store.decisions.note(id, record.plus(move))
        self.hook("done")
        return move


def _shown(
    opened: OpenedProposal, targets: Sequence[str], edits: Sequence[int]
) -> tuple[frozenset[int], frozenset[int]]:
    """The edits a person looks at, and those that the text holds already."""
    if not (targets or edits) and not opened.pending:
        return frozenset(edit.id for edit in opened.proposal.edits), frozenset()
    chosen = opened.chosen(None, targets, edits)
    return chosen, opened.record.adopted - chosen


def _refuse_changed(change: FileChange, remedy: str) -> None:
    found, path = change.file.read(), change.file.path
    if (None if found is None else found.data) != change.before:
        what = "appeared" if change.before is None else "was changed"
        if found is None:
            what = "is not there any more"
        raise UsageError(f"{path} {what} since this was decided and is not overwritten. {remedy}")
    if found is not None and not found.mode & 0o200:
        raise UsageError(
            f"{path} is read-only (mode {found.mode:03o}), so nothing was written. chmod u+w allows it."
        )


def _has_begun(move: Move, changes: Sequence[FileChange]) -> bool:
    """Whether any file has changed. One that was put and is no longer so was edited since."""
    live = [digest(change.file.content()) for change in changes]
    return any(
        one == moved.new or (moved.is_put and one != moved.old)
        for moved, one in zip(move.files, live, strict=True)
    )


def _listed(names: Iterable[object]) -> str:
    return ", ".join(str(name) for name in names)
