"""Decides how a run's ledger adds up in a report: one unknown part makes a sum unknown, and never smaller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skillopt.ledger import Amount, Entry
from skillopt.runs.values import Paid


def paid_by_role_and_stage(entries: Iterable[Entry]) -> list[Paid]:
    """One line per role and stage."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.role, entry.stage), []).append(entry)
    return [_group(role, stage, groups[role, stage]) for role, stage in sorted(groups)]


def total(paid: Sequence[Paid]) -> Paid:
    """All of the spending; one unknown part makes the sum unknown."""
    return Paid(
        role="",
        stage="",
        calls=sum(one.calls for one in paid),
        tokens=sum(one.tokens for one in paid),
        input_tokens=_sum([one.input_tokens for one in paid]),
        output_tokens=_sum([one.output_tokens for one in paid]),
        usd=_dollars([one.usd for one in paid]),
        unsettled=sum(one.unsettled for one in paid),
    )


def _group(role: str, stage: str, entries: Sequence[Entry]) -> Paid:
    charged = sum((entry.charged for entry in entries), Amount())
    # A refused call used no tokens; any other without a report used nobody knows how many.
    unknown = any(entry.usage is None and entry.charged.tokens for entry in entries)
    usages = [entry.usage for entry in entries if entry.usage is not None]
    return Paid(
        role=role,
        stage=stage,
        calls=charged.calls,
        tokens=charged.tokens,
        input_tokens=None if unknown else sum(usage.input_tokens for usage in usages),
        output_tokens=None if unknown else sum(usage.output_tokens for usage in usages),
        usd=None if charged.usd is None else float(charged.usd),
        unsettled=sum(entry.state in ("open", "unreported") for entry in entries),
    )


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def _dollars(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
