"""Reads demands out of what a person wrote - a length, a section, a word to use or to leave - as checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from skillopt.tasks.scorers._given import read_rules
from skillopt.tasks.scorers._rules import Rule

_QUOTE = r"[\"“'`]([^\"”'`\n]{2,80})[\"”'`]"
_AT_MOST = (
    r"\b(?:at most|no more than|not more than|under|within|max(?:imum)?(?: of)?|up to|less than|fewer"
    r" than|below)\s{1,3}"
)
_AT_LEAST = r"\b(?:at least|no less than|not less than|min(?:imum)?(?: of)?|more than|over)\s{1,3}"
_COUNT = r"(\d{1,3}(?:,\d{3}){1,2}|\d{1,6})\s{1,3}"
_EMOJI = r"\A[^\U0001F300-\U0001FAFF\u2600-\u27BF]*\Z"


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _most_words(match: re.Match[str]) -> dict[str, Any]:
    # Words and spaces have no character in common, so this pattern never looks twice.
    return {"op": "regex", "arg": rf"\A\s*(?:\S+\s+){{0,{max(0, _number(match[1]) - 1)}}}\S*\s*\Z"}


_RULES: tuple[tuple[str, Callable[[re.Match[str]], dict[str, Any]]], ...] = (
    (
        _AT_MOST + _COUNT + r"(?:characters|chars)\b",
        lambda match: {"op": "max_chars", "arg": _number(match[1])},
    ),
    (
        _AT_LEAST + _COUNT + r"(?:characters|chars)\b",
        lambda match: {"op": "min_chars", "arg": _number(match[1])},
    ),
    (_AT_MOST + _COUNT + r"words\b", _most_words),
    (
        rf"\b(?:section|heading)\s{{1,3}}(?:called\s|named\s|titled\s|for\s)?{_QUOTE}",
        lambda match: {"op": "section_present", "arg": match[1]},
    ),
    (rf"{_QUOTE}\s{{1,3}}(?:section|heading)\b", lambda match: {"op": "section_present", "arg": match[1]}),
    (
        rf"\b(?:don'?t|do"
        rf" not|never|without|avoid|stop)\s{{1,3}}(?:us(?:e|ing)|includ(?:e|ing)|mention(?:ing)?"
        rf"|say(?:ing)?|writ(?:e|ing)|add(?:ing)?)?"
        rf"\s{{0,3}}(?:the\s(?:word|words|phrase|text)\s)?{_QUOTE}",
        lambda match: {"op": "not_contains", "arg": match[1]},
    ),
    (
        rf"(?<!n't )(?<!not )(?<!never )\b(?:include|mention|contain|end with|start with|say)s?\s{{1,3}}"
        rf"(?:the\s(?:word|phrase|line|text)\s)?{_QUOTE}",
        lambda match: {"op": "contains", "arg": match[1]},
    ),
    (
        r"\b(?:as|in|with|use) (?:a )?bullet(?:ed)?(?: points?| list)?\b",
        lambda match: {"op": "regex", "arg": r"(?m)^\s*[-*•]\s+\S"},
    ),
    (r"\bas an? (?:markdown )?table\b", lambda match: {"op": "regex", "arg": r"(?m)^\s*\|.+\|"}),
    (
        r"\b(?:as|in|return|output|reply with|only) (?:valid )?json\b",
        lambda match: {"op": "regex", "arg": r"\A\s*(?:```(?:json)?\s*)?[\[{]"},
    ),
    (r"\b(?:no|without|avoid|don'?t use) emojis?\b", lambda match: {"op": "regex", "arg": _EMOJI}),
)
_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), make) for pattern, make in _RULES)


def demands(text: str) -> tuple[Rule, ...]:
    """The checks that a text asks for in so many words, each once, in the order of our rules."""
    return read_rules(list(_found(text[:8_000].replace("’", "'"))))[0]


def _found(text: str) -> Iterator[dict[str, Any]]:
    for pattern, make in _COMPILED:
        yield from (make(match) for match in pattern.finditer(text))
