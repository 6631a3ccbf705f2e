"""Gate policies by name: ours, and those that packages add by an entry point of the group `skillopt.gate`.

A policy is a callable that takes a `Case` and gives a `PolicyReader`; subclassing `Strict` is the short way
to one.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import islice

from skillopt.gate.confirm import Confirm
from skillopt.gate.decision import Case, PolicyReader
from skillopt.gate.no_regression import NoRegression
from skillopt.gate.paired import Paired
from skillopt.gate.size_capped import SizeCapped
from skillopt.gate.strict import Strict
from skillopt.registry import Registry

POLICIES = Registry(
    "gate policy",
    group="skillopt.gate",
    own={
        "strict": Strict,
        "confirm": Confirm,
        "no_regression": NoRegression,
        "paired": Paired,
        "size_capped": SizeCapped,
    },
)


def decide(
    name: str, case: Case, candidate: Iterable[Fraction | None]
) -> tuple[PolicyReader, list[Fraction]]:
    """Read a candidate's rows in reading order until the ruling is fixed or they end; the reader, and U after
    each row it took.
    """
    reader: PolicyReader = POLICIES.get(name)(case)
    uppers: list[Fraction] = []
    for row in islice(candidate, len(case.rows)):
        if reader.ruling is not None:
            break
        reader.read(row)
        uppers.append(reader.upper)
    return reader, uppers
