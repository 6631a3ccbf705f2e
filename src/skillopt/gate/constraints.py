"""Constraints: decides whether a candidate that a policy would accept costs too much, by what its stored
rollouts took.

A policy rules on quality alone. Where it accepts, the candidate's rows are compared with the incumbent's, row
by row the same tasks and draws: more than the allowed share of further tokens, or of further seconds, turns
the accept into a reject. Tokens and seconds are facts of the stored rollouts, so a run that was stopped, or
is explained later, comes to the same ruling, whatever the clock does meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from skillopt.config.schema import GateConfig
from skillopt.gate.decision import Clause, RowId, Ruling
from skillopt.tasks.rollout import Scored

Unknown = Literal["reject", "allow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What the target took for one row; None is unknown, never zero."""

    tokens: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRuling:
    """A ruling with its reason."""

    ruling: Ruling
    why: str
    by: Clause | None


def too_long(task: str, detail: str) -> GateRuling:
    """The ruling on a candidate that does not fit the target's window beside a task which the incumbent fits:
    no further row could save it.
    """
    return GateRuling(ruling="reject", why=f"the target cannot take it: {task}: {detail}", by="window")


def outgrows(skill: str, window: int | None) -> str:
    """Why a skill cannot fit a window of so many tokens, whatever it is sent with; nothing where it may. Four
    characters a token are what English and Markdown have at most.
    """
    tokens = len(skill) // 4
    if window is None or tokens <= window:
        return ""
    return f"the skill alone has about {tokens:,} tokens, and model.target.context_window is {window:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """How much more a candidate may take than the skill it would replace, as a share: 0.2 is a fifth more;
    None is no limit.

    `unknown` is the rule for rows of which nobody knows what they took: reject, or allow and say so.
    """

    tokens: float | None = None
    latency: float | None = None
    unknown: Unknown = "reject"
    targets: int = 1
    """Targets whose rows come in turn, of which none may get worse; 1 is no such limit."""

    @classmethod
    def of(cls, settings: GateConfig, targets: int) -> Constraints:
        """Those of the configuration, for so many targets."""
        return cls(
            tokens=settings.max_tokens_increase,
            latency=settings.max_latency_increase,
            unknown=settings.unknown_effort,
            targets=targets if settings.targets == "none_worse" else 1,
        )

    def apply(
        self, ruled: GateRuling, incumbent: Mapping[RowId, Effort], candidate: Mapping[RowId, Effort]
    ) -> GateRuling:
        """The ruling under the constraints; they speak only where the policy accepts."""
        for limit in self._limits():
            if ruled.ruling != "accept":
                break
            ruled = _constrained(ruled, limit, incumbent, candidate, self.unknown)
        return ruled

    def none_worse(
        self,
        ruled: GateRuling,
        incumbent: Mapping[RowId, Fraction],
        candidate: Mapping[RowId, Fraction | None],
    ) -> GateRuling:
        """The ruling where every target is looked at by itself: an accept stands if none got worse."""
        for target in range(self.targets if self.targets > 1 and ruled.ruling == "accept" else 0):
            rows = [row for row in incumbent if row[1] % self.targets == target]
            before = sum((incumbent[row] for row in rows), Fraction(0))
            after = sum((candidate.get(row) or Fraction(0) for row in rows), Fraction(0))
            if after < before:
                fell = f"from {float(before / len(rows)):.4f} to {float(after / len(rows)):.4f}"
                why = (
                    f"{ruled.why}, but target {target + 1} of {self.targets} got worse, {fell} (gate.targets)"
                )
                return GateRuling(ruling="reject", why=why, by="targets")
        return ruled

    def objection_to_all(self, incumbent: Mapping[RowId, Effort]) -> str:
        """Why no candidate could be accepted: what the incumbent took is unknown, and not allowed to be."""
        for limit in self._limits():
            if self.unknown == "reject" and (missing := limit.unknown_of(incumbent)):
                return (
                    f"{limit.key} cannot be checked: {missing} of {len(incumbent)} rows do not say their"
                    f" {limit.noun}{_REMEDY}"
                )
        return ""

    def _limits(self) -> list[_Limit]:
        return [
            _Limit(clause=clause, noun=noun, share=Fraction(str(share)))
            for clause, noun in _LIMITED
            if (share := getattr(self, clause)) is not None
        ]


def effort_of(row: Scored) -> Effort:
    """What a stored rollout took."""
    usage = row.trajectory.usage
    return Effort(tokens=None if usage is None else usage.total, seconds=row.trajectory.seconds)


_LIMITED: tuple[tuple[Clause, Literal["tokens", "seconds"]], ...] = (
    ("tokens", "tokens"),
    ("latency", "seconds"),
)
_REMEDY = "; gate.unknown_effort: allow lets such candidates pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    clause: Clause
    noun: Literal["tokens", "seconds"]
    share: Fraction

    @property
    def key(self) -> str:
        return f"gate.max_{self.clause}_increase"

    def of(self, effort: Effort) -> Fraction | None:
        value = getattr(effort, self.noun)
        return None if value is None else Fraction(value)

    def unknown_of(self, rows: Mapping[RowId, Effort]) -> int:
        """How many of the rows do not say what they took."""
        return sum(self.of(effort) is None for effort in rows.values())


def _constrained(
    ruled: GateRuling,
    limit: _Limit,
    incumbent: Mapping[RowId, Effort],
    candidate: Mapping[RowId, Effort],
    unknown: Unknown,
) -> GateRuling:
    pairs = [(limit.of(incumbent.get(row, Effort())), limit.of(effort)) for row, effort in candidate.items()]
    known = [(before, after) for before, after in pairs if before is not None and after is not None]
    missing = len(pairs) - len(known)
    if missing and unknown == "reject":
        why = (
            f"{ruled.why}, but {limit.key} cannot be checked: {missing} of {len(pairs)} rows do not say their"
            f" {limit.noun}{_REMEDY}"
        )
        return GateRuling(ruling="reject", why=why, by=limit.clause)
    left = f" ({missing} of {len(pairs)} rows do not say, and are allowed)" if missing else ""
    if not known:
        return GateRuling(
            ruling="accept", why=f"{ruled.why}; {limit.key} could not be checked{left}", by=ruled.by
        )
    before = sum((one for one, _ in known), Fraction(0))
    after = sum((one for _, one in known), Fraction(0))
    taken = f"{_mean(after, known, limit)} {limit.noun} a row against {_mean(before, known, limit)}{left}"
    if after > (1 + limit.share) * before:
        most = f"at most {float(100 * limit.share):g} % more are allowed ({limit.key})"
        return GateRuling(ruling="reject", why=f"{ruled.why}, but it takes {taken}: {most}", by=limit.clause)
    return GateRuling(ruling="accept", why=f"{ruled.why}, with {taken}", by=ruled.by)


def _mean(total: Fraction, rows: list[tuple[Fraction, Fraction]], limit: _Limit) -> str:
    mean = float(total / len(rows))
    return f"{mean:,.0f}" if limit.noun == "tokens" else f"{mean:,.2f}"
