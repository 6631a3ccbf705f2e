"""Places in a text, and their replacement by a mark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

MARK = "[redacted]"

Span = tuple[int, int]
Finder = Callable[[str], Iterable[Span]]


@dataclass(frozen=True, slots=True)
class SecretRule:
    """A pattern whose group `secret` is a secret, or the whole match where it has no such group. Texts
    without any of the hints are not searched. `accepts` has the last word.

    Every pattern starts only where its own run of characters starts (a lookbehind on the class it consumes)
    or is bounded, so that no text makes it look at a character more than a constant number of times.
    """

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    accepts: Callable[[str], bool] | None = None

    def spans(self, text: str) -> Iterator[Span]:
        """Where the secrets of this rule stand."""
        if any(hint in text for hint in self.hints):
            group = "secret" if "secret" in self.pattern.groupindex else 0
            for match in self.pattern.finditer(text):
                if self.accepts is None or self.accepts(match[group]):
                    yield match.span(group)


def secret(hints: tuple[str, ...], pattern: str, accepts: Callable[[str], bool] | None = None) -> SecretRule:
    """Build a `SecretRule`; `pattern` is the text of its regular expression."""
    return SecretRule(hints, compiled(pattern), accepts)


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern whose classes mean ASCII."""
    return re.compile(pattern, re.ASCII)


def is_token(value: str) -> bool:
    """After `Bearer` and `basic`, English words too: only what has a digit or is longer than words."""
    is_long = len(value) >= (24 if value.isalnum() else 32)
    return is_long or any(character.isdigit() for character in value)


def occurrences(form: str, text: str, *, overlapping: bool = False) -> Iterator[int]:
    """Where a string begins in a text."""
    start = text.find(form)
    while start >= 0:
        yield start
        start = text.find(form, start + (1 if overlapping else len(form)))


def replaced(text: str, spans: Iterable[Span]) -> str:
    """The text with a mark in the place of every span; spans that overlap are one."""
    parts: list[str] = []
    done = 0
    for start, stop in _merged(sorted(spans)):
        parts += (text[done:start], MARK)
        done = stop
    return "".join((*parts, text[done:])) if parts else text


def _merged(spans: list[Span]) -> Iterator[Span]:
    if not spans:
        return
    start, stop = spans[0]
    for next_start, next_stop in spans[1:]:
        if next_start < stop:
            stop = max(stop, next_stop)
        else:
            yield start, stop
            start, stop = next_start, next_stop
    yield start, stop
