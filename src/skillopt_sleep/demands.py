"""Reads demands out of what a person wrote - a length, a section, a word to use or to leave - as checks; of
work in a repository also those on commits, commands and files, as lines of a work record.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from skillopt.tasks.scorers.checks import read_rules
from skillopt.tasks.scorers.rules import Rule
from skillopt_sleep.work_record import RUNS_TESTS

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


def _most_words(text: str) -> str:
    # Words and spaces have no character in common, so this pattern never looks twice.
    return rf"\A\s*(?:\S+\s+){{0,{max(0, _number(text) - 1)}}}\S*\s*\Z"


_Demand = tuple[str, str, "Callable[[str], Any] | str"]
_DEMANDS: tuple[_Demand, ...] = (
    (_AT_MOST + _COUNT + r"(?:characters|chars)\b", "max_chars", _number),
    (_AT_LEAST + _COUNT + r"(?:characters|chars)\b", "min_chars", _number),
    (_AT_MOST + _COUNT + r"words\b", "regex", _most_words),
    (rf"\b(?:section|heading)\s{{1,3}}(?:called\s|named\s|titled\s|for\s)?{_QUOTE}", "section_present", str),
    (rf"{_QUOTE}\s{{1,3}}(?:section|heading)\b", "section_present", str),
    (
        r"\b(?:don'?t|do not|never|without|avoid|stop)\s{1,3}(?:us(?:e|ing)|includ(?:e|ing)|mention(?:ing)?"
        r"|say(?:ing)?|writ(?:e|ing)|add(?:ing)?)?"
        rf"\s{{0,3}}(?:the\s(?:word|words|phrase|text)\s)?{_QUOTE}",
        "not_contains",
        str,
    ),
    (
        r"(?<!n't )(?<!not )(?<!never )\b(?:include|mention|contain|end with|start with|say)s?\s{1,3}"
        rf"(?:the\s(?:word|phrase|line|text)\s)?{_QUOTE}",
        "contains",
        str,
    ),
    (r"\b(?:as|in|with|use) (?:a )?bullet(?:ed)?(?: points?| list)?\b", "regex", r"(?m)^\s*[-*•]\s+\S"),
    (r"\bas an? (?:markdown )?table\b", "regex", r"(?m)^\s*\|.+\|"),
    (
        r"\b(?:as|in|return|output|reply with|only) (?:valid )?json\b",
        "regex",
        r"\A\s*(?:```(?:json)?\s*)?[\[{]",
    ),
    (r"\b(?:no|without|avoid|don'?t use) emojis?\b", "regex", _EMOJI),
)
"""How a demand reads, the check it asks for, and the check's argument: a text, or made of what was quoted."""
_CONVENTIONAL = r"(?:feat|fix|docs|style|refactor|perf|test|build|ci|chore|revert)(?:\([^)\n]*\))?!?: "
_TESTED = rf"(?m)^\$ (?:[^\n]*(?:&&|;)\s*)?{RUNS_TESTS}"
_FILE = r"[`\"']?((?:[\w-]+/)*[\w.-]+\.\w{1,8})\b"
_WORK: tuple[_Demand, ...] = (
    (
        r"\bconventional[ -]commits?\b",
        "regex",
        rf"(?m)\A(?![\s\S]*^\* (?!{_CONVENTIONAL}))[\s\S]*^\* ",
    ),
    (r"\b(?:run|running|execute) (?:all |the )*(?:unit )?tests?\b", "regex", _TESTED),
    (
        rf"\b(?:add|update|write|put|note|mention|record)\b[^.!?\n]{{0,60}}\b(?:in|to|into|of)\s{{1,3}}(?:the\s)?{_FILE}",
        "regex",
        lambda name: rf"(?m)^~ (?:.*/)?{re.escape(name)}$",
    ),
    (
        r"\b(?:don'?t|do not|never|without|stop)\s{1,3}(?:touch|edit|chang|modify)\w*\s{1,3}(?:the\s)?"
        rf"{_FILE}",
        "regex",
        lambda name: rf"(?m)\A(?![\s\S]*^~ (?:.*/)?{re.escape(name)}$)",
    ),
    (
        r"(?<!n't )(?<!not )(?<!never )\b(?:use|run)\s{1,3}[`\"']([^`\"'\n]{2,80})[`\"']",
        "regex",
        lambda command: rf"(?m)^\$ .*{re.escape(command)}",
    ),
)
"""The same of work: what a line of its record must, or must not, be."""


def demands(text: str) -> tuple[Rule, ...]:
    """The checks that a text asks for in so many words, each once, in the order of the table."""
    return _found(text, _DEMANDS)


def work_demands(text: str) -> tuple[Rule, ...]:
    """The checks on a work record that a text asks for."""
    return _found(text, _WORK)


def _found(text: str, table: tuple[_Demand, ...]) -> tuple[Rule, ...]:
    text = text[:8_000].replace("’", "'")
    checks = [
        {"op": op, "arg": arg if isinstance(arg, str) else arg(match[1])}
        for pattern, op, arg in table
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]
    return read_rules(checks)[0]
