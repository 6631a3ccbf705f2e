"""What a run's events add up to, read one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from skillopt.events import Checkpoint, Event, HandedOver, RunStarted, StageClosed, TestMeasured
from skillopt.events.records import EpochRecord, ReopenedRecord, StepRecord
from skillopt.events.state import State

T = TypeVar("T")
E = TypeVar("E")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSection:
    """What was decided between two checkpoints. `closed_by` is None for what is still open."""

    events: Sequence[Event]
    before: State | None
    closed_by: Checkpoint | None

    def of(self, kind: type[E]) -> list[E]:
        """Its events of one type."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def after(self) -> State | None:
        """The state that its checkpoint wrote."""
        return None if self.closed_by is None else self.closed_by.state


class Fold(Generic[T]):
    """Reads events in order. Of each closed section it keeps what `keep` makes of it and forgets the rest, so
    that the rows of a long run need not stay in memory.
    """

    def __init__(self, keep: Callable[[LogSection], T]) -> None:
        self.started: RunStarted | None = None
        self.state: State | None = None
        """The state at the last checkpoint."""
        self.handed_over: HandedOver | None = None
        """What the budget's end handed over since then."""
        self.tests: list[TestMeasured] = []
        """Each opening of the test split."""
        self.open: list[Event] = []
        """Decided facts since the last checkpoint."""
        self.taken_back = 0
        """Steps that were opened again."""
        self._keep = keep
        self._kept: list[tuple[Checkpoint, T]] = []

    @property
    def result(self) -> State | None:
        """The state at the last checkpoint, with what was handed over since as its best skill."""
        if self.state is None or self.handed_over is None:
            return self.state
        return self.handed_over.onto(self.state)

    @property
    def kept(self) -> list[T]:
        """What `keep` returned for each closed section, in order."""
        return [kept for _, kept in self._kept]

    @property
    def kept_of_handover(self) -> list[T]:
        """What is kept of the skill that an open step handed over, where one did."""
        if self.handed_over is None:
            return []
        return [self._keep(LogSection(events=[self.handed_over], before=self.state, closed_by=None))]

    @property
    def records(self) -> list[StepRecord]:
        """The public records of the closed steps."""
        return [one.record for one, _ in self._kept if isinstance(one.record, StepRecord)]

    @property
    def under_way(self) -> str:
        """The place whose stages closed without a checkpoint yet."""
        return next((str(event.place) for event in self.open if isinstance(event, StageClosed)), "")

    @property
    def open_section(self) -> LogSection:
        """What was decided since the last checkpoint."""
        return LogSection(events=list(self.open), before=self.state, closed_by=None)

    def take(self, event: Event) -> None:
        """Read the next event; live ones decide nothing and are passed over."""
        if isinstance(event, RunStarted):
            self.started = self.started or event
        elif isinstance(event, TestMeasured):
            self.tests.append(event)
        elif isinstance(event, HandedOver):
            self.handed_over = event
        elif isinstance(event, Checkpoint):
            self._close(event)
            return
        if event.id is not None:
            self.open.append(event)

    def _close(self, checkpoint: Checkpoint) -> None:
        if isinstance(checkpoint.record, ReopenedRecord):
            first, before = checkpoint.record.from_step, len(self.records)
            self._kept = [(one, kept) for one, kept in self._kept if _position(one) < first]
            self.taken_back += before - len(self.records)
        else:
            section = LogSection(events=self.open, before=self.state, closed_by=checkpoint)
            self._kept.append((checkpoint, self._keep(section)))
        self.state, self.open, self.handed_over = checkpoint.state, [], None


def step_records(history: Iterable[Event]) -> list[StepRecord]:
    """The public records of the steps that count."""
    fold = Fold(lambda section: None)
    for event in history:
        if isinstance(event, Checkpoint):  # nothing else is needed, and rows are large
            fold.take(event)
    return fold.records


def _position(checkpoint: Checkpoint) -> float:
    """Where a checkpoint stands on the axis of steps; the end of an epoch stands between two of them."""
    return checkpoint.state.step + (0.5 if isinstance(checkpoint.record, EpochRecord) else 0.0)
