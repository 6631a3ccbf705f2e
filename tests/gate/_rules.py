"""Every policy on a whole set of rows, written down a second time: plain, slow, and without reading rows one
by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from typing import TypeAlias

RowId: TypeAlias = tuple[str, int]
Values: TypeAlias = Mapping[RowId, Fraction]
Found: TypeAlias = Mapping[RowId, Fraction | None]
"""The candidate's rows; one that is missing, or not read yet, is None and counts in full."""


def strict(incumbent: Values, candidate: Found) -> str:
    """The rule of the design."""
    if sum(full(candidate).values()) <= sum(incumbent.values()):
        return "reject"
    return "inconclusive" if None in candidate.values() else "accept"


def no_regression(incumbent: Values, candidate: Found) -> str:
    if any(row is not None and row < incumbent[name] for name, row in candidate.items()):
        return "reject"
    return strict(incumbent, candidate)


def paired(incumbent: Values, candidate: Found, alpha: Fraction) -> str:
    ruling = strict(incumbent, candidate)
    if ruling != "reject" and sign_flip_p(differences(incumbent, full(candidate))) > alpha:
        return "reject"
    return ruling


def confirm(incumbent: Values, candidate: Found, first_draws: int) -> str:
    """The candidate's first draws against the mean of all of the incumbent's, then all against all."""
    first = {name: row for name, row in candidate.items() if name[1] < first_draws}
    bar = mean(incumbent)
    if mean(full(first)) <= bar:
        return "reject"
    if None in first.values():
        return "inconclusive"
    if mean(full(candidate)) <= bar:
        return "reject"
    return "inconclusive" if None in candidate.values() else "accept"


def size_capped(incumbent: Values, candidate: Found, *, chars: int, incumbent_chars: int, cap: int) -> str:
    if chars > cap and not chars < incumbent_chars:
        return "reject"
    return strict(incumbent, candidate)


def sign_flip_p(moves: list[Fraction]) -> Fraction:
    """How many of all sign patterns give at least the observed sum; every pattern is looked at."""
    sums = [
        sum(sign * abs(move) for sign, move in zip(signs, moves, strict=True))
        for signs in product((1, -1), repeat=len(moves))
    ]
    return Fraction(sum(one >= sum(moves) for one in sums), len(sums))


def differences(incumbent: Values, candidate: Values) -> list[Fraction]:
    """Candidate minus incumbent by task, in thousandths."""
    by_task: dict[str, Fraction] = {}
    for name, row in candidate.items():
        by_task[name[0]] = by_task.get(name[0], Fraction(0)) + row - incumbent[name]
    return [Fraction(round(1000 * move), 1000) for move in by_task.values()]


def full(candidate: Found) -> dict[RowId, Fraction]:
    return {name: Fraction(1) if row is None else row for name, row in candidate.items()}


def mean(values: Values) -> Fraction:
    return sum(values.values(), Fraction(0)) / len(values)


Rule: TypeAlias = Callable[[Values, Found], str]
