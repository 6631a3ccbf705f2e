"""What a run has spent and what is in flight, read from its ledger while any process works on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from skillopt.messages import Role
from skillopt.money import Account, Entry, Total
from skillopt.runs.words import amount, money

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
