"""The figures of an estimate: a range for every stage, and the whole run as their sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skillopt.messages import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What is likely, between what is possible with luck and what is possible without."""

    low: float
    likely: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(low=self.low + other.low, likely=self.likely + other.likely, high=self.high + other.high)

    def as_json(self) -> dict[str, float]:
        """The three figures for programs."""
        return {name: round(getattr(self, name), 4) for name in ("low", "likely", "high")}


NOTHING = Range(low=0, likely=0, high=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost:
    """One stage of the run. `usd` is None where the model's price is unknown."""

    stage: str
    role: Role
    calls: Range
    tokens: Range
    usd: Range | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The whole run, stage by stage, what the figures assume, and what the budget buys."""

    lines: Sequence[StageCost]
    steps: int
    assumptions: Sequence[str]
    simulated: bool
    advice: str = ""
    prices: Mapping[str, str] = field(default_factory=dict)
    """Where each role's price comes from, with its date."""

    @property
    def calls(self) -> Range:
        return sum((line.calls for line in self.lines), NOTHING)

    @property
    def tokens(self) -> Range:
        return sum((line.tokens for line in self.lines), NOTHING)

    @property
    def usd(self) -> Range | None:
        """None as soon as one price is unknown: unknown is never zero."""
        known = [line.usd for line in self.lines if line.usd is not None]
        return sum(known, NOTHING) if len(known) == len(self.lines) else None
