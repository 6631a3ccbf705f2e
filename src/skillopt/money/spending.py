"""What attempts cost and may cost: an amount, a budget, one attempt, and the one place where attempts are
added up.

Unknown is never zero: a price that nobody knows, or a usage that nobody reported, makes its sums unknown.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from skillopt.messages import Role, Usage

Settlement = Literal["open", "settled", "refused", "unreported"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Calls, tokens and dollars. `usd` is None where a price is unknown: unknown is never zero."""

    calls: int = 0
    tokens: int = 0
    usd: Fraction | None = Fraction(0)

    def __add__(self, other: Amount) -> Amount:
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Amount(calls=self.calls + other.calls, tokens=self.tokens + other.tokens, usd=usd)

    def __sub__(self, other: Amount) -> Amount:
        usd = None if self.usd is None or other.usd is None else self.usd - other.usd
        return Amount(calls=self.calls - other.calls, tokens=self.tokens - other.tokens, usd=usd)

    def times(self, share: Fraction) -> Amount:
        """A share of the amount, calls and tokens rounded up."""
        usd = None if self.usd is None else self.usd * share
        return Amount(calls=math.ceil(self.calls * share), tokens=math.ceil(self.tokens * share), usd=usd)

    def floored(self) -> Amount:
        """The same, with nothing below zero."""
        return Amount(
            calls=max(0, self.calls),
            tokens=max(0, self.tokens),
            usd=None if self.usd is None else max(Fraction(0), self.usd),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most a run may spend over its whole life; None is no limit."""

    calls: int | None = None
    tokens: int | None = None
    usd: Fraction | None = None
    seconds: float | None = None
    """Wall time over all sessions; what is under way when it ends is waited for."""

    @property
    def is_limited(self) -> bool:
        return any(limit is not None for limit in (self.calls, self.tokens, self.usd, self.seconds))

    def holds(self, amount: Amount) -> bool:
        """Whether an amount stays within every limit that is set; an unknown price fits no dollar limit."""
        return (
            (self.calls is None or amount.calls <= self.calls)
            and (self.tokens is None or amount.tokens <= self.tokens)
            and (self.usd is None or (amount.usd is not None and amount.usd <= self.usd))
        )

    def share(self, spent: Amount, part: Fraction, *, elapsed: float = 0.0) -> Budget:
        """A part of what is left after `spent` and `elapsed` seconds."""

        def of(limit: int | None, used: int) -> int | None:
            return None if limit is None else int(max(0, limit - used) * part)

        left = None if self.usd is None or spent.usd is None else max(Fraction(0), self.usd - spent.usd)
        return Budget(
            calls=of(self.calls, spent.calls),
            tokens=of(self.tokens, spent.tokens),
            usd=None if left is None else left * part,
            seconds=None
            if self.seconds is None
            else elapsed + max(0.0, self.seconds - elapsed) * float(part),
        )

    def lacks(self, need: Amount, used: Amount) -> str:
        """What is needed and what is left of it, where that is less; empty where `need` fits."""
        for name, form in (("usd", "${:.4f}"), ("tokens", "{:,.0f}"), ("calls", "{:,.0f}")):
            limit, wanted, gone = (getattr(one, name) for one in (self, need, used))
            if limit is None:
                continue
            if wanted is None or gone is None:
                return "a price that is not known"
            if wanted > limit - gone:
                left = form.format(float(max(0, limit - gone)))
                unit = "" if name == "usd" else f" {name if wanted > 1 else 'call'}"
                return f"{form.format(float(wanted))}{unit}, and {left} is left"
        return ""

    def describe(self) -> str:
        parts = []
        if self.usd is not None:
            parts.append(f"${float(self.usd):.2f}")
        if self.tokens is not None:
            parts.append(f"{self.tokens:,} tokens")
        if self.calls is not None:
            parts.append(f"{self.calls:,} calls")
        if self.seconds is not None:
            parts.append(f"{self.seconds / 60:,.4g} minutes")
        return ", ".join(parts) or "no limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One attempt as the journal keeps it. `charged` is the reservation until usage is known."""

    id: int
    role: Role
    stage: str
    place: str
    state: Settlement
    charged: Amount
    reserved: int
    """Tokens set aside for it before it was sent."""
    usage: Usage | None = None
    opened: float | None = None
    """The run's seconds when it was opened; unknown for what an earlier session wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What entries of a ledger came to. A figure is None as soon as one part of it is unknown."""

    calls: int
    tokens: int
    """As charged: what was reported, or reserved where nothing was."""
    usd: Fraction | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    """Those of the input that came from a prompt cache."""
    as_reserved: int
    """Those of the tokens that no provider reported."""
    states: Mapping[Settlement, int]
    """How many entries ended how."""

    @property
    def amount(self) -> Amount:
        """The part that a budget limits."""
        return Amount(calls=self.calls, tokens=self.tokens, usd=self.usd)

    @property
    def dollars(self) -> float | None:
        """The price for people and files."""
        return None if self.usd is None else float(self.usd)

    @property
    def unsettled(self) -> int:
        """Calls that nobody will report the usage of, or that have not ended: charged at their most."""
        return self.states.get("open", 0) + self.states.get("unreported", 0)


@dataclass(slots=True, eq=False)
class _Sum:
    """Entries added up; unknown parts are counted, so that they can be taken out again."""

    calls: int = 0
    tokens: int = 0
    usd: Fraction = Fraction(0)
    unpriced: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    uncounted: int = 0
    unreported: int = 0
    as_reserved: int = 0
    states: Counter[Settlement] = field(default_factory=Counter)

    def add(self, entry: Entry, sign: int = 1) -> None:
        charged, usage = entry.charged, entry.usage
        self.calls += sign * charged.calls
        self.tokens += sign * charged.tokens
        if charged.usd is None:
            self.unpriced += sign
        elif charged.usd:
            self.usd += sign * charged.usd
        if usage is not None:
            self.input += sign * usage.input_tokens
            self.output += sign * usage.output_tokens
            self.cached += sign * (usage.cached_tokens or 0)
            self.uncounted += sign * (usage.cached_tokens is None)
        elif charged.tokens:  # a refused call used none; any other without a report nobody knows how many
            self.unreported += sign
            self.as_reserved += sign * charged.tokens
        self.states[entry.state] += sign


def _total(*sums: _Sum) -> Total:
    is_reported = not any(one.unreported for one in sums)
    # Copied first, as another thread may count meanwhile; the sum leaves out what is zero.
    states = sum((Counter(dict(one.states)) for one in sums), Counter[Settlement]())
    return Total(
        calls=sum(one.calls for one in sums),
        tokens=sum(one.tokens for one in sums),
        usd=None if any(one.unpriced for one in sums) else sum((one.usd for one in sums), Fraction(0)),
        input_tokens=sum(one.input for one in sums) if is_reported else None,
        output_tokens=sum(one.output for one in sums) if is_reported else None,
        cached_tokens=sum(one.cached for one in sums)
        if is_reported and not any(one.uncounted for one in sums)
        else None,
        as_reserved=sum(one.as_reserved for one in sums),
        states=dict(states),
    )


class Account:
    """Entries added up by role and stage, for the run that makes them and for everybody who reads them.

    Entries are told as often as they change; each counts once, as it was told last. One thread may read
    while another takes in more: what is read is then a moment old, never broken.
    """

    def __init__(self) -> None:
        self.open: dict[int, Entry] = {}
        """Entries whose calls are under way."""
        self._reserved, self._closed = _Sum(), _Sum()
        self._reserved_by: defaultdict[tuple[Role, str], _Sum] = defaultdict(_Sum)
        self._closed_by: defaultdict[tuple[Role, str], _Sum] = defaultdict(_Sum)

    def take(self, entry: Entry, *, is_dead: bool = False) -> None:
        """Count an entry. `is_dead` is an open one whose process died: it stays charged and never settles."""
        before = self.open.pop(entry.id, None)
        if before is not None:
            self._reserve(before, -1)
        if entry.state == "open" and not is_dead:
            self.open[entry.id] = entry
            self._reserve(entry)
        else:
            self._close(entry)

    def _reserve(self, entry: Entry, sign: int = 1) -> None:
        self._reserved.add(entry, sign)
        self._reserved_by[entry.role, entry.stage].add(entry, sign)

    def _close(self, entry: Entry) -> None:
        self._closed.add(entry)
        self._closed_by[entry.role, entry.stage].add(entry)

    def total(self, stage: str | None = None, role: Role | None = None) -> Total:
        """Everything charged, what is only reserved included; in one stage and role, where they are named."""
        if stage is None and role is None:
            return _total(self._closed, self._reserved)
        groups = [*dict(self._closed_by).items(), *dict(self._reserved_by).items()]
        return _total(*(group for (who, at), group in groups if stage in (None, at) and role in (None, who)))

    def settled(self) -> Total:
        """What was spent, without what is only reserved for calls under way."""
        return _total(self._closed)

    @property
    def tokens_reserved(self) -> int:
        """What is set aside for calls under way."""
        return self._reserved.tokens

    def by_role_and_stage(self, *, settled: bool = False) -> dict[tuple[Role, str], Total]:
        """Everything charged, sorted; with `settled` without what is only reserved for calls under way."""
        closed, reserved = dict(self._closed_by), {} if settled else dict(self._reserved_by)
        return {
            key: _total(*(sums[key] for sums in (closed, reserved) if key in sums))
            for key in sorted({*closed, *reserved})
        }

    def as_json(self) -> dict[str, Any]:
        """The totals as `summary.json` has them, by stage and together."""

        def tokens(total: Total) -> dict[str, Any]:
            return {
                "calls": total.calls,
                "prompt_tokens": total.input_tokens,
                "completion_tokens": total.output_tokens,
                "cached_tokens": total.cached_tokens,
                "total_tokens": total.tokens,
            }

        whole = self.total()
        stages = dict.fromkeys(stage for _, stage in (*self._closed_by, *self._reserved_by))
        return {
            "calls": whole.calls,
            "tokens": whole.tokens,
            "usd": whole.dollars,
            "attempts": dict(whole.states),
            "tokens_as_reserved": whole.as_reserved,
            "stages": {**{stage: tokens(self.total(stage)) for stage in stages}, "_total": tokens(whole)},
        }


def account_of(entries: Iterable[Entry]) -> Account:
    """The account of a run that nobody works on: what is open in it will never settle."""
    account = Account()
    for entry in entries:
        account.take(entry, is_dead=True)
    return account
