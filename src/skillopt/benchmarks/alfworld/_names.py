"""The short names of a game's things that its players use: `apple 1` for a coded id with coordinates."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_BAR = "_bar_"


def short_names(ids: Iterable[str]) -> dict[str, str]:
    """Short name of every id, as ALFWorld numbers them: the first in the alphabet has the highest."""
    ordered = sorted(set(ids))
    left = Counter(_kind(one) for one in ordered if _BAR in one)
    names = {}
    for one in ordered:
        if _BAR not in one:
            names[one] = one
            continue
        kind = _kind(one)
        names[one] = f"{kind} {left[kind]}"
        left[kind] -= 1
    return names


def by_number(name: str) -> tuple[str, int]:
    """Sorts `cabinet 2` before `cabinet 10`."""
    kind, _, number = name.rpartition(" ")
    return (kind, int(number)) if re.fullmatch(r"\d+", number) else (name, 0)


def _kind(one: str) -> str:
    kind = one.partition(_BAR)[0]
    # `sink_bar_..._bar_sinkbasin` is the basin, and has places to go to
    return f"{kind}basin" if "basin" in one else kind
