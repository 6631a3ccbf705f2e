"""What attempts cost and may cost: an amount, a budget, one attempt, and the one place where attempts are
added up.

Unknown is never zero: a price that nobody knows, or a usage that nobody reported, makes its sums unknown.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Literal, TypeAlias

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


@dataclass(slots=True, kw_only=True)
class Total:
    """What entries of a ledger came to. A figure is None as soon as one part of it is unknown; such parts are
    counted, so that an entry can be taken out again.
    """

    calls: int = 0
    tokens: int = 0
    """As charged: what was reported, or reserved where nothing was."""
    as_reserved: int = 0
    """Those of the tokens that no provider reported."""
    states: Counter[Settlement] = field(default_factory=Counter)
    """How many entries ended how."""
    known_usd: Fraction = Fraction(0)
    unpriced: int = 0
    reported_input: int = 0
    reported_output: int = 0
    reported_cached: int = 0
    cached_unknown: int = 0

    def add(self, entry: Entry, sign: int = 1) -> None:
        """Count an entry, or with a `sign` of -1 take it out again."""
        charged, usage = entry.charged, entry.usage
        self.calls += sign * charged.calls
        self.tokens += sign * charged.tokens
        if charged.usd is None:
            self.unpriced += sign
        elif charged.usd:
            self.known_usd += sign * charged.usd
        if usage is not None:
            self.reported_input += sign * usage.input_tokens
            self.reported_output += sign * usage.output_tokens
            self.reported_cached += sign * (usage.cached_tokens or 0)
            self.cached_unknown += sign * (usage.cached_tokens is None)
        else:  # a refused call used no tokens; of any other without a report nobody knows how many
            self.as_reserved += sign * charged.tokens
        self.states[entry.state] += sign

    def __add__(self, other: Total) -> Total:
        both = {name: getattr(self, name) + getattr(other, name) for name in _FIGURES}
        # Copied first, as another thread may count meanwhile; the sum leaves out what is zero.
        states = Counter(dict(self.states)) + Counter(dict(other.states))
        return Total(**both, states=states)

    @property
    def usd(self) -> Fraction | None:
        return None if self.unpriced else self.known_usd

    @property
    def input_tokens(self) -> int | None:
        return None if self.as_reserved else self.reported_input

    @property
    def output_tokens(self) -> int | None:
        return None if self.as_reserved else self.reported_output

    @property
    def cached_tokens(self) -> int | None:
        """Those of the input that came from a prompt cache."""
        return None if self.as_reserved or self.cached_unknown else self.reported_cached

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
        return self.states["open"] + self.states["unreported"]


_FIGURES = [one.name for one in fields(Total) if one.name != "states"]
_Group: TypeAlias = tuple[Role, str]
_Sums: TypeAlias = "defaultdict[_Group | None, Total]"
"""By role and stage; under None all of them together."""


class Account:
    """Entries added up by role and stage, for the run that makes them and for everybody who reads them.

    Entries are told as often as they change; each counts once, as it was told last. One thread may read
    while another takes in more: what is read is then a moment old, never broken.
    """

    def __init__(self) -> None:
        self.open: dict[int, Entry] = {}
        """Entries whose calls are under way."""
        self._reserved: _Sums = defaultdict(Total)
        self._closed: _Sums = defaultdict(Total)

    def take(self, entry: Entry, *, is_dead: bool = False) -> None:
        """Count an entry. `is_dead` is an open one whose process died: it stays charged and never settles."""
        before = self.open.pop(entry.id, None)
        is_open = entry.state == "open" and not is_dead
        if is_open:
            self.open[entry.id] = entry
        for group in (None, (entry.role, entry.stage)):
            if before is not None:
                self._reserved[group].add(before, -1)
            (self._reserved if is_open else self._closed)[group].add(entry)

    def total(self, stage: str | None = None, role: Role | None = None) -> Total:
        """Everything charged, what is only reserved included; in one stage and role, where they are named."""
        if stage is None and role is None:
            return self._closed[None] + self._reserved[None]
        return sum(
            (
                each
                for sums in (self._closed, self._reserved)
                for group, each in dict(sums).items()
                if group is not None and role in (None, group[0]) and stage in (None, group[1])
            ),
            Total(),
        )

    def settled(self) -> Total:
        """What was spent, without what is only reserved for calls under way."""
        return self._closed[None] + Total()

    @property
    def tokens_reserved(self) -> int:
        """What is set aside for calls under way."""
        return self._reserved[None].tokens

    def by_role_and_stage(self, *, settled: bool = False) -> dict[_Group, Total]:
        """Everything charged, sorted; with `settled` without what is only reserved for calls under way."""
        found: defaultdict[_Group, Total] = defaultdict(Total)
        for sums in (self._closed,) if settled else (self._closed, self._reserved):
            for group, each in dict(sums).items():
                if group is not None:
                    found[group] += each
        return dict(sorted(found.items()))

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
        stages = dict.fromkeys(group[1] for group in (*self._closed, *self._reserved) if group is not None)
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
