"""Adoption: how a proposed edit reaches a live file, and how it is taken back.

Nothing is written but by `adopt` and `undo`, and only where the file is byte for byte what the proposal was
made for. Every method that changes something first settles what a killed process left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from skillopt.changes.files import FileChange, confined
from skillopt.changes.journal import Action, AppliedChange, ChangeJournal
from skillopt.errors import UsageError
from skillopt_sleep.proposal import Proposal
from skillopt_sleep.proposal_page import flag_lines
from skillopt_sleep.store import StagedProposals, Store, subject_of

_PUT_IN_BY_HAND = (
    "Look at the diff and put it in by hand, or discard it: the next night starts from your text."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionResult:
    """What adopting, undoing or discarding did."""

    proposal: str
    change: AppliedChange
    """Files in its `left_out` were changed by somebody else at the last moment, and stay so."""
    backups: Path | None = None
    """The folder in which every replaced text lies."""
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

    def adopt(
        self, id: str | None = None, *, targets: Sequence[str] = (), edits: Sequence[int] = ()
    ) -> AdoptionResult:
        """Write the chosen edits (else those that are shown to help) of a proposal (else the newest) to the
        live files.

        Raises `UsageError`, with nothing written, for a changed file, a link or a forged proposal.
        """
        with self._alone() as recovered:
            proposal = self.opened(id)
            adopted = proposal.history.adopted
            chosen = proposal.chosen("adopt", targets, edits)
            for edit in proposal.edits:
                if edit.id in chosen and (missing := set(edit.needs) - chosen - adopted):
                    raise UsageError(
                        f"Edit {edit.id} stands inside edit {', '.join(map(str, missing))} and cannot go"
                        " alone. Adopt both, or neither; nothing was written."
                    )
            changes = []
            for target in proposal.touched(chosen):
                file = confined(Path(target.path), self.roots)
                changes.append(
                    FileChange(
                        name=target.name,
                        file=file,
                        before=target.data(adopted),
                        after=target.checked(adopted | chosen),
                        made=file.missing(),
                        edits=tuple(sorted(chosen & set(target.merged.edits))),
                    )
                )
            return self._carry_out(proposal, "adopt", chosen, changes, recovered)

    def undo(self, id: str | None = None, *, force: bool = False) -> AdoptionResult:
        """Take the last adoption of a proposal (the project's last, unless told) back, byte for byte.

        A file that was edited since is refused; with `force` its text is kept among the backups.
        """
        with self._alone() as recovered:
            proposal = self._last_adopted() if id is None else self.store.load(id)
            standing = proposal.history.standing
            if not standing:
                raise UsageError(f"Nothing of proposal {proposal.id} is adopted: there is nothing to undo.")
            for file in standing[-1].files:
                confined(file.path, self.roots)
            change = self._journal.undo(
                subject_of(proposal.id), reason=f"Proposal {proposal.id}", time=self.now(), force=force
            )
            return self._result(proposal, change, recovered)

    def discard(
        self, id: str | None = None, *, targets: Sequence[str] = (), edits: Sequence[int] = ()
    ) -> AdoptionResult:
        """Decide against the chosen edits (all that are still open, unless told); no live file is touched."""
        with self._alone() as recovered:
            proposal = self.opened(id)
            chosen = proposal.chosen("discard", targets, edits)
            return self._carry_out(proposal, "discard", chosen, [], recovered)

    def recover(self) -> tuple[str, ...]:
        """Finish or drop what a killed process left behind, and say what was done."""
        with self._alone() as recovered:
            return recovered

    def diff(self, id: str | None = None, *, targets: Sequence[str] = (), edits: Sequence[int] = ()) -> str:
        """The chosen edits as a unified diff; all edits of a proposal on which everything is decided."""
        proposal = self.opened(id)
        chosen, over = _shown(proposal, targets, edits)
        return "".join(target.diff(chosen, over=over) for target in proposal.touched(chosen))

    def findings(
        self, id: str | None = None, *, targets: Sequence[str] = (), edits: Sequence[int] = ()
    ) -> tuple[str, ...]:
        """What the held-out tasks say of what `diff` shows, a line for each target, and what of it is
        flagged.
        """
        proposal = self.opened(id)
        chosen = _shown(proposal, targets, edits)[0]
        flagged = (edit for edit in proposal.edits if edit.id in chosen)
        lines = (f"edit {edit.id}: {line}" for edit in flagged for line in flag_lines(edit))
        return (*proposal.findings(chosen), *lines)

    def status(self) -> StagedProposals:
        """Where everything stands, without changing anything."""
        return self.store.load_all()

    @property
    def _journal(self) -> ChangeJournal:
        return replace(self.store.journal, patience=self.patience, hook=self.hook)

    @contextmanager
    def _alone(self) -> Iterator[tuple[str, ...]]:
        """Hold the lock, with everything settled that a killed process left behind."""
        self.store.refuse_inside(self.roots)
        with self._journal.alone():
            recovered = self._journal.recover()
            refused = self.store.load_all().refused.items()
            yield (*recovered, *(f"Proposal {id} was left as it is: {error}" for id, error in refused))

    def opened(self, id: str | None = None) -> Proposal:
        """The named proposal, else the newest of the project with something to decide, else its newest."""
        if id is not None:
            return self.store.load(id)
        staged = self.store.load_all()
        meant = [one for one in staged.proposals if self.project in (None, one.project)]
        if not meant:
            whose = "" if self.project is None else f" for {self.project}"
            why = next((f" {error}" for error in staged.refused.values()), "")
            if staged.proposals:
                why += " Those of other projects are named by their id; `skillopt sleep status` lists them."
            raise UsageError(
                f"There is no proposal{whose} in {self.store.home} yet.{why} `skillopt sleep run` makes one."
            )
        return next((one for one in meant if one.pending), meant[0])

    def _last_adopted(self) -> Proposal:
        adopted = [
            (one.history.standing[-1].time, one)
            for one in self.store.load_all().proposals
            if one.history.standing and self.project in (None, one.project)
        ]
        if not adopted:
            whose = "" if self.project is None else f" of {self.project}"
            raise UsageError(f"Nothing{whose} is adopted, so there is nothing to undo.")
        return max(adopted, key=lambda pair: pair[0])[1]

    def _carry_out(
        self,
        proposal: Proposal,
        action: Action,
        chosen: Collection[int],
        changes: Sequence[FileChange],
        recovered: tuple[str, ...],
    ) -> AdoptionResult:
        id = proposal.id
        change = self._journal.apply(
            subject_of(id),
            action,
            changes,
            reason=f"Proposal {id}",
            time=self.now(),
            edits=chosen,
            remedy=_PUT_IN_BY_HAND,
        )
        return self._result(proposal, change, recovered)

    def _result(
        self, proposal: Proposal, change: AppliedChange, recovered: tuple[str, ...]
    ) -> AdoptionResult:
        named_only = proposal.pending - proposal.free_to_adopt - change.taken
        return AdoptionResult(
            proposal=proposal.id,
            change=change,
            backups=self._journal.backups(subject_of(proposal.id)) if change.files else None,
            recovered=recovered,
            findings=proposal.findings(change.taken),
            left=tuple(sorted(named_only)) if change.action == "adopt" else (),
        )


def _shown(
    proposal: Proposal, targets: Sequence[str], edits: Sequence[int]
) -> tuple[frozenset[int], frozenset[int]]:
    """The edits a person looks at, and those that the text holds already."""
    if not (targets or edits) and not proposal.pending:
        return frozenset(edit.id for edit in proposal.edits), frozenset()
    chosen = proposal.chosen(None, targets, edits)
    return chosen, proposal.history.adopted - chosen
