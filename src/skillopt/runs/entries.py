"""Reads the rows of a run's ledger, strictly: it may be somebody else's, made to hang or mislead."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import astuple
from fractions import Fraction
from functools import lru_cache
from typing import Any, get_args

from skillopt.messages import Usage
from skillopt.money import Amount, Entry, Settlement

ENTRIES = "SELECT id, role, stage, place, state, calls, tokens, reserved, usd, usage FROM spending"
_PRICE = re.compile(r"\d{1,60}(/[1-9]\d{0,59})?", re.ASCII)
_TENS = 10**200
_STATES = get_args(Settlement)


def entry_of(row: Sequence[Any]) -> Entry:
    """One row of `ENTRIES`. Raises `ValueError` or `TypeError` for what no run writes."""
    number, role, stage, place, state, calls, tokens, reserved, usd, usage = row
    if state not in _STATES or not all(isinstance(one, str) for one in (role, stage, place)):
        raise ValueError(f"entry {number} of the ledger has no role, stage, place and state")
    return Entry(
        id=number,
        role=role,
        stage=stage,
        place=place,
        state=state,
        charged=Amount(
            calls=_count(calls), tokens=_count(tokens), usd=None if usd is None else _known_price(usd)
        ),
        reserved=_count(reserved),
        usage=None if usage is None else _known_usage(usage),
    )


def _count(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r:.50} is no count")
    return value


@lru_cache(maxsize=1024)
def _known_price(text: str) -> Fraction:
    """A price in dollars. Prices repeat, and reading one takes longer than all else of an entry."""
    price = Fraction(text) if _PRICE.fullmatch(text) else None
    # Of a decimal price the denominator divides a power of ten; sums of others grow without end.
    if price is None or _TENS % price.denominator:
        raise ValueError(f"{text!r:.50} is no price")
    return price


@lru_cache(maxsize=4096)
def _known_usage(text: str) -> Usage:
    """So do the sizes of calls."""
    usage = Usage(**json.loads(text))
    known = [one for one in astuple(usage)[2:] if one is not None]
    for part in (usage.input_tokens, usage.output_tokens, *known):
        _count(part)
    return usage
