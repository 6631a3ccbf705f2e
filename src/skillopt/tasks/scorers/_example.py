"""Makes a text in which a pattern is found: a check that can never pass is known before it is paid."""

from __future__ import annotations

import importlib
import re
import string
import sys
from collections.abc import Iterable
from typing import Any

_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_CATEGORIES = {"DIGIT": "0", "NOT_DIGIT": "x", "SPACE": " ", "NOT_SPACE": "x", "WORD": "x", "NOT_WORD": " "}
_MOST = 200
"""Copies of a repeated part that are written out at most: a pattern may ask for millions."""


def example(pattern: str, flags: int = 0) -> str | None:
    """A text in which the pattern is found, or None: no proof for patterns that look around."""
    try:
        text = _Writer().text(_parser.parse(pattern, flags))
    # A construct of a newer Python, or one that only looks around.
    except (KeyError, RecursionError, OverflowError):
        return None
    return text if re.search(pattern, text, flags) else None


class _Writer:
    """Writes the simplest text of each part; what is only looked at adds nothing."""

    def __init__(self) -> None:
        self._groups: dict[int, str] = {}

    def text(self, parts: Iterable[tuple[Any, Any]]) -> str:
        return "".join(self._part(str(op), value) for op, value in parts)

    def _part(self, op: str, value: Any) -> str:
        if op == "LITERAL":
            return chr(value)
        if op in ("NOT_LITERAL", "ANY"):
            return "x" if op == "ANY" or chr(value) != "x" else "y"
        if op == "IN":
            return _member(value)
        if op == "BRANCH":
            return self.text(value[1][0])
        if op == "SUBPATTERN":
            self._groups[value[0]] = self.text(value[-1])
            return self._groups[value[0]]
        if op in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, inner = value
            return self.text(inner) * min(max(int(least), 1), int(most), _MOST)
        if op == "ATOMIC_GROUP":
            return self.text(value)
        if op == "GROUPREF":
            return self._groups.get(value, "")
        if op in ("AT", "ASSERT", "ASSERT_NOT"):
            return ""
        raise KeyError(op)


def _member(choices: Any) -> str:
    """A character of a set."""
    is_negated = str(choices[0][0]) == "NEGATE"
    for char in _named(choices) if not is_negated else string.printable:
        if any(_is_in(char, op, value) for op, value in choices) is not is_negated:
            return char
    raise KeyError("IN")


def _named(choices: Any) -> Iterable[str]:
    for op, value in choices:
        if str(op) == "CATEGORY":
            yield _CATEGORIES[str(value).removeprefix("CATEGORY_")]
        else:
            yield chr(value if str(op) == "LITERAL" else value[0])


def _is_in(char: str, op: Any, value: Any) -> bool:
    kind = str(op)
    if kind == "LITERAL":
        return bool(ord(char) == value)
    if kind == "RANGE":
        return bool(value[0] <= ord(char) <= value[1])
    if kind == "CATEGORY":
        name = str(value).removeprefix("CATEGORY_")
        kinds = {"DIGIT": char.isdigit(), "SPACE": char.isspace(), "WORD": char.isalnum() or char == "_"}
        return kinds[name.removeprefix("NOT_")] is not name.startswith("NOT_")
    return False
