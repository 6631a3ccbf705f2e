"""The table of gate policies: which rule a name stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from itertools import islice

from skillopt.errors import UnknownName
from skillopt.gate.confirm import Confirm
from skillopt.gate.decision import Case, Reader
from skillopt.gate.no_regression import NoRegression
from skillopt.gate.paired import Paired
from skillopt.gate.size_capped import SizeCapped
from skillopt.gate.strict import Strict

POLICIES: Mapping[str, Callable[[Case], Reader]] = {
    "strict": Strict,
    "confirm": Confirm,
    "no_regression": NoRegression,
    "paired": Paired,
    "size_capped": SizeCapped,
}


def policy(name: str) -> Callable[[Case], Reader]:
    """The policy of that name; unknown names raise with the near miss."""
    if name not in POLICIES:
        raise UnknownName("gate policy", name, list(POLICIES))
    return POLICIES[name]


def decide(name: str, case: Case, candidate: Iterable[Fraction | None]) -> tuple[Reader, list[Fraction]]:
    """Read a candidate's rows in reading order until the ruling is fixed or they end; the reader, and U after
    each row it took.
    """
    reader = policy(name)(case)
    uppers: list[Fraction] = []
    for row in islice(candidate, len(case.rows)):
        if reader.ruling is not None:
            break
        reader.read(row)
        uppers.append(reader.upper)
    return reader, uppers
