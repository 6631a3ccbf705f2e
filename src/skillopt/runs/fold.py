"""What a run's events and its ledger add up to, read one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from skillopt.events import Checkpoint, Event, HandedOver, RunStarted, StageClosed, TestMeasured
from skillopt.events.records import EpochRecord, ReopenedRecord, StepRecord
from skillopt.events.state import State
from skillopt.messages import Role
from skillopt.money import Account, Entry, Total
from skillopt.runs.words import amount, money

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
        self.looks: list[TestMeasured] = []
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
        """What was kept of the closed sections, in order."""
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
            self.looks.append(event)
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


HEADS = (
    "role",
    "stage",
    "calls",
    "tokens charged",
    "input",
    "of it cached",
    "output",
    "cost",
    "without a usage report",
)
UNKNOWN_IS_NOT_ZERO = (
    "Unknown is what no provider reported or no price list names; it is never counted as zero."
)


def table(groups: Mapping[tuple[Role, str], Total], whole: Total) -> list[tuple[str, ...]]:
    """The rows below `HEADS`, one a role and stage; the last one is the whole."""
    named = [*groups.items(), (("all", ""), whole)]
    return [
        (
            *names,
            amount(one.calls),
            amount(one.tokens),
            amount(one.input_tokens),
            amount(one.cached_tokens),
            amount(one.output_tokens),
            money(one.dollars),
            amount(one.unsettled),
        )
        for names, one in named
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flights:
    """Unanswered calls of one role and stage. `oldest` counts from when this reader first saw one."""

    role: str
    stage: str
    calls: int
    oldest: float


class LedgerView:
    """The account of a run as another process writes it."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.account = Account()
        self.is_at_work = False
        """Whether a process works on the run: without one nothing is in flight."""
        self.version = 0
        """Grows with every change."""
        self._now = now
        self._seen_at: dict[int, float] = {}

    def take(self, entries: Iterable[Entry], session: int = 0) -> None:
        """Read entries that are new or have changed. Those that are open up to `session` died with an earlier
        process: their reservation stays charged, but nothing flies.
        """
        for entry in [*entries, *(entry for id, entry in self.account.open.items() if id <= session)]:
            self.version += 1
            self.account.take(entry, is_dead=entry.id <= session)
            if entry.id in self.account.open:
                self._seen_at.setdefault(entry.id, self._now())
            else:
                self._seen_at.pop(entry.id, None)

    def settled(self) -> Total:
        """All that was spent, without what is only reserved for calls in flight."""
        return self.account.settled() if self.is_at_work else self.account.total()

    def flights(self) -> list[Flights]:
        """What is in flight, by role and stage."""
        groups: dict[tuple[str, str], list[int]] = {}
        for entry in list(self.account.open.values()) if self.is_at_work else ():
            groups.setdefault((entry.role, entry.stage), []).append(entry.id)
        now = self._now()
        return [
            Flights(
                role=role,
                stage=stage,
                calls=len(ids),
                oldest=now - min(self._seen_at.get(id, now) for id in ids),
            )
            for (role, stage), ids in sorted(groups.items())
        ]

    @property
    def in_flight(self) -> int:
        """Calls sent and not answered."""
        return len(self.account.open) if self.is_at_work else 0

    @property
    def tokens_reserved(self) -> int:
        """What is set aside for calls in flight."""
        return self.account.tokens_reserved if self.is_at_work else 0
