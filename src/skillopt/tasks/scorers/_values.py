"""Scorers that compare values: numbers within a tolerance, and JSON whatever its spelling."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NoReturn

from pydantic import Field

from skillopt.tasks.rollout import Score
from skillopt.tasks.scorers._numbers import Quantity, read_quantity
from skillopt.tasks.scorers._scorer import NO_REFERENCE, TextScorer, as_text, last_block, passed, references
from skillopt.tasks.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric(TextScorer):
    """The answer's number is within `absolute` or `relative` tolerance of an acceptable one.

    Groups of thousands (1,234; 1 234 567; 1.234,56), decimals with a point or a comma, fractions, powers of
    ten, LaTeX, a currency sign, `%`, scale words (thousand to trillion) and an answer that is a number in
    brackets (negative, as in accounts) are understood; scale words count, so 5 million is not 5 billion. Of
    several numbers the one that is boxed or called the answer counts, else the last one.
    """

    name: ClassVar[str] = "numeric"
    revision: ClassVar[int] = 2
    absolute: Annotated[float, Field(ge=0)] = 1e-9
    relative: Annotated[float, Field(ge=0)] = 1e-6

    def check_task(self, task: Task) -> None:
        """Every reference is a finite number."""
        for text in references(task):
            quantity = read_quantity(text)
            if quantity is None or not math.isfinite(quantity.value):
                raise task.error(f"has a reference {text!r} that is not a number. Correct it.")

    def grade(self, task: Task, answer: str) -> Score:
        """All or nothing."""
        wanted = references(task)
        given = read_quantity(answer)
        if given is None:
            return passed(False, answer, wanted, "No number was found.")
        return passed(any(self._close(given, read_quantity(text)) for text in wanted), answer, wanted)

    def _close(self, given: Quantity, wanted: Quantity | None) -> bool:
        return wanted is not None and any(
            math.isclose(ours, theirs, rel_tol=self.relative, abs_tol=self.absolute)
            for ours in given.readings(wanted)
            for theirs in wanted.readings(given)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonEqual(TextScorer):
    """The answer is JSON of the same value: key order and spacing do not count, 1 equals 1.0, true is not 1.

    The last fenced block of the answer is read, or all of it. The reference is the value itself - a list is
    one value, not alternatives - or JSON text.
    """

    name: ClassVar[str] = "json_equal"
    revision: ClassVar[int] = 2

    def check_task(self, task: Task) -> None:
        """The reference is JSON."""
        try:
            _expected(task)
        except (ValueError, RecursionError) as error:
            raise task.error(
                f"has a reference that is text and not JSON: {error}. A plain string needs quotes inside."
            ) from error
        if task.reference is None:
            raise task.error(NO_REFERENCE)

    def grade(self, task: Task, answer: str) -> Score:
        """All or nothing."""
        expected = _expected(task)
        try:
            given = _loads(last_block(answer))
        except (ValueError, RecursionError) as error:
            return passed(False, answer, [as_text(expected)], f"The answer is not JSON: {error}.")
        return passed(_same(given, expected), answer, [as_text(expected)])


def _expected(task: Task) -> Any:
    return _loads(task.reference) if isinstance(task.reference, str) else task.reference


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_not_json)


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
