"""Decides when two cells hold the same: the public rules, without their accidents.

Numbers, numeric text and truth values to two decimals, times to the minute, dates to the day, empty text like
no value, everything else exactly; formats do not count. Beyond the public rules: numbers that differ by
rounding noise only are equal, `nan`, `inf` and `1_000` are text, and a duration below a day is the time it
shows as.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import TypeAlias

Value: TypeAlias = str | float | int | bool | datetime | date | time | timedelta | None
Cells: TypeAlias = Mapping[str, Value]
"""Cells by address (`Sheet1!B2`), those that hold something."""

_EPOCH = datetime(1899, 12, 30)
_NOISE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A cell that does not hold what it should."""

    address: str
    expected: Value
    got: Value


def differences(expected: Cells, got: Cells) -> list[Wrong]:
    """Every cell that is not the same, in the order of the expected workbook, then those that should be
    empty.
    """
    addresses = dict.fromkeys([*expected, *got])
    pairs = ((address, expected.get(address), got.get(address)) for address in addresses)
    return [
        Wrong(address=address, expected=wanted, got=found)
        for address, wanted, found in pairs
        if not same(wanted, found)
    ]


def same(one: Value, other: Value) -> bool:
    """Whether two cells count as equal."""
    left, right = _plain(one), _plain(other)
    if isinstance(left, float) and isinstance(right, float):
        return round(left, 2) == round(right, 2) or math.isclose(left, right, rel_tol=_NOISE)
    return type(left) is type(right) and left == right


def shown(value: Value) -> str:
    """A value as a person reads it in feedback."""
    if value is None or value == "":
        return "(empty)"
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, str):
        return repr(value if len(value) <= 120 else value[:120] + "...")
    return str(value)


def _plain(value: Value) -> float | str | None:
    """What of a value is compared."""
    if isinstance(value, str):
        return _number(value) if value else None
    if isinstance(value, datetime):
        return float(math.floor((value - _EPOCH) / timedelta(days=1) + 0.5))
    if isinstance(value, date):
        return float((value - _EPOCH.date()).days)
    if isinstance(value, time):
        return f"{value.hour:02d}:{value.minute:02d}"
    if isinstance(value, timedelta):
        minutes = math.floor(value.total_seconds() / 60)
        return f"{minutes // 60:02d}:{minutes % 60:02d}"
    return None if value is None else float(value)


def _number(text: str) -> float | str:
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) and "_" not in text else text
