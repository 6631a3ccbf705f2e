"""Decides what a run has spent and what is in flight, from the rows of its ledger as they come and change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from skillopt.runs.paid import total
from skillopt.runs.tail import Booked
from skillopt.runs.values import Paid


@dataclass(frozen=True, slots=True, kw_only=True)
class Flights:
    """Calls of one role and stage that were sent and are not answered. `oldest` counts from when this reader
    first saw one of them.
    """

    role: str
    stage: str
    calls: int
    oldest: float


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: Fraction = Fraction(0)
    unpriced: int = 0
    unreported: int = 0
    unsettled: int = 0

    def add(self, one: Booked) -> None:
        self.calls += one.calls
        self.tokens += one.tokens
        if one.usd is None:
            self.unpriced += 1
        elif one.usd != "0":
            self.usd += Fraction(one.usd)
        if one.is_reported:
            self.input_tokens += one.input_tokens or 0
            self.output_tokens += one.output_tokens or 0
        elif one.tokens:
            self.unreported += 1
        self.unsettled += one.state in ("open", "unreported")


@dataclass(slots=True)
class Spending:
    """The ledger of a run, folded. Attempts are told as often as they change; each counts once, as it was
    told last.

    It may be read in one thread while another takes in more: what is read is then a moment old, never broken.
    """

    now: Callable[[], float]
    is_at_work: bool = False
    """Whether a process works on the run: without one nothing is in flight."""
    version: int = 0
    """Grows with every change."""
    _closed: dict[tuple[str, str], _Sum] = field(default_factory=dict)
    _open: dict[int, Booked] = field(default_factory=dict)
    _seen_at: dict[int, float] = field(default_factory=dict)

    @property
    def open_ids(self) -> list[int]:
        """Attempts that were not closed when they were told."""
        return list(self._open)

    def take(self, booked: Iterable[Booked], session: int = 0) -> None:
        """Read attempts that are new or have changed. Those that are open up to `session` died with an
        earlier process: their reservation stays charged, but nothing flies.
        """
        for one in [*booked, *(one for id, one in self._open.items() if id <= session)]:
            self.version += 1
            if one.state == "open" and one.id > session:
                self._open[one.id] = one
                self._seen_at.setdefault(one.id, self.now())
            else:
                self._close(one)

    def _close(self, one: Booked) -> None:
        self._open.pop(one.id, None)
        self._seen_at.pop(one.id, None)
        self._closed.setdefault((one.role, one.stage), _Sum()).add(one)

    def paid(self) -> list[Paid]:
        """One line per role and stage: everything charged, what is only reserved included."""
        sums: dict[tuple[str, str], _Sum] = {}
        for one in list(self._open.values()):
            sums.setdefault((one.role, one.stage), _Sum()).add(one)
        groups = sorted({*list(self._closed), *sums})
        return [
            _paid(*key, [part for part in (self._closed.get(key), sums.get(key)) if part is not None])
            for key in groups
        ]

    def settled(self) -> Paid:
        """All that was spent, without what is only reserved for calls in flight."""
        if not self.is_at_work:
            return total(self.paid())
        return total([_paid(*key, [one]) for key, one in list(self._closed.items())])

    def flights(self) -> list[Flights]:
        """What is in flight, by role and stage."""
        groups: dict[tuple[str, str], list[int]] = {}
        for one in list(self._open.values()) if self.is_at_work else ():
            groups.setdefault((one.role, one.stage), []).append(one.id)
        now = self.now()
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
        return len(self._open) if self.is_at_work else 0


def _paid(role: str, stage: str, parts: list[_Sum]) -> Paid:
    unknown = any(part.unreported for part in parts)
    return Paid(
        role=role,
        stage=stage,
        calls=sum(part.calls for part in parts),
        tokens=sum(part.tokens for part in parts),
        input_tokens=None if unknown else sum(part.input_tokens for part in parts),
        output_tokens=None if unknown else sum(part.output_tokens for part in parts),
        usd=None
        if any(part.unpriced for part in parts)
        else float(sum((part.usd for part in parts), Fraction(0))),
        unsettled=sum(part.unsettled for part in parts),
    )
