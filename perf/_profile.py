"""Says whose code the client's CPU time was spent in, from a profile."""

from __future__ import annotations

import cProfile
import pstats
from collections import Counter
from pathlib import PurePath
from typing import Any

WAITING = ("'poll' of 'select.", "'control' of 'select.", "select.select")


def owners(profile: cProfile.Profile) -> dict[str, float]:
    """Seconds by package, most first; what is built in counts for the package that called it, waiting for the
    network for nobody.
    """
    spent: Counter[str] = Counter()
    stats: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file, _, name), (_, _, own, _, callers) in stats.items():
        if any(word in name for word in WAITING):
            continue
        if file != "~":
            spent[_owner(file)] += own
        elif "sqlite3" in name:
            spent["sqlite"] += own
        else:
            for (caller, _, _), (_, _, share, _) in callers.items():
                spent[_owner(caller)] += share
    return dict(spent.most_common())


def show(profile: cProfile.Profile) -> None:
    """The share of each package, then the functions that take the most time of their own."""
    spent = owners(profile)
    total = sum(spent.values())
    print("\nCPU under the profiler, by package (a profiler makes small functions look expensive):")
    for name, seconds in list(spent.items())[:14]:
        print(f"  {name:<22}{seconds:>7.2f} s{seconds / total:>6.0%}")
    pstats.Stats(profile).sort_stats("tottime").print_stats(30)


def _owner(file: str) -> str:
    parts = PurePath(file).parts
    if "site-packages" in parts:
        return PurePath(parts[parts.index("site-packages") + 1]).stem
    if "skillopt" in parts:
        return "skillopt"
    if "perf" in parts:
        return "this program"
    package = PurePath(*parts[-2:]) if parts else PurePath("built in")
    return (
        f"{package.parts[0]} (stdlib)"
        if package.parts[0] in ("asyncio", "json", "email", "http")
        else f"{package.stem} (stdlib)"
    )
