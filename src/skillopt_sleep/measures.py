"""How a night's tasks are measured: checks and rubrics that were seen to tell good answers from bad ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from skillopt.errors import Fault, ProviderDown, ScoringError
from skillopt.process.waiting import together
from skillopt.tasks.judge import Judge
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.scorers.checks import MOST_CHECKS, kept_rules, read_rules
from skillopt.tasks.scorers.rules import CheckedWork, Rule
from skillopt.tasks.task import Task
from skillopt_sleep.requests import PastRequest
from skillopt_sleep.scorer import criteria_of, is_no_answer, lazy_answers
from skillopt_sleep.worktrees import RUNS_TESTS

if TYPE_CHECKING:
    from skillopt_sleep.labels import Label

NO_ANSWERS = ("", "I'm sorry, I can't help with that.", "Sure! I will do that right away.")
"""Answers that no check of worth may be content with."""
_TRIED = 6
"""Answers of each sort that a check is tried on, the newest."""
_JUDGED = 2
"""Answers of each sort that a rubric is tried on, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Checks and a rubric that were seen to tell; false where there is neither."""

    checks: tuple[Rule, ...] = ()
    rubric: str = ""
    formal: tuple[str, ...] = ()
    """Points of the rubric that the judge found in an answer nobody worked for: they see form alone."""

    def __bool__(self) -> bool:
        return bool(self.checks or self.rubric)

    @property
    def tells(self) -> bool:
        """Whether it takes more than the right form to pass. Rules never tell: an accepted answer to another
        request passes them with the words of this one put in.
        """
        return not set(criteria_of(self.rubric)) <= set(self.formal)


async def measure_kind(kind: Sequence[PastRequest], label: Label | None, judge: Judge | None) -> Measure:
    """The measure of a kind: demands made in corrections, checks a model proposed and a rubric, all of them
    tried on what was accepted and what was rejected.
    """
    good = [text for one in kind for text in one.accepted][-_TRIED:]
    bad = [text for one in kind for text in one.rejected][-_TRIED:]
    rules = [rule for one in kind for correction in one.corrections for rule in demands(correction.text)]
    rules += [
        rule
        for one in kind
        if one.worktree
        for correction in one.corrections
        for rule in work_demands(correction.text)
    ]
    demanded = _new([rule for rule in rules if rule.name != "contains"])[:MOST_CHECKS]
    checks = await telling_rules(demanded, _after_correction(kind), [*bad, *NO_ANSWERS]) if bad else ()
    if label is None or not (good or bad):
        return Measure(checks=checks)
    if good:
        proposed = await telling_rules(read_rules(label.checks)[0], good, [*bad, *NO_ANSWERS])
        # Form alone that nobody asked for can be met without getting anything right.
        if not all(rule.kind.is_shape for rule in proposed):
            checks = _new([*checks, *proposed])[:MOST_CHECKS]
    if judge is None or not criteria_of(label.rubric):
        return Measure(checks=checks)
    rubric, formal = await telling_criteria(judge, label.rubric, kind)
    return Measure(checks=checks, rubric=rubric, formal=formal)


async def measure_task(same: Sequence[PastRequest], of_kind: Measure) -> Measure:
    """How one task is measured, given how its kind is. `same` are the times this very request came.

    A demand in the request, or a word that an answer to it lacked, is a demand on this task alone.
    """
    asked = [rule for one in same for rule in demands(one.turn.text)]
    corrected = [rule for one in same for correction in one.corrections for rule in demands(correction.text)]
    lacked = [rule for rule in corrected if rule.name == "contains"]
    good = [text for one in same for text in one.accepted][-_TRIED:]
    bad = [text for one in same for text in one.rejected][-_TRIED:]
    own = await telling_rules(_new([*asked, *lacked]), good, [*bad, *NO_ANSWERS]) if good or bad else ()
    return replace(of_kind, checks=_new([*of_kind.checks, *own])[:MOST_CHECKS])


async def telling_rules(
    rules: Sequence[Rule], good: Sequence[str], bad: Sequence[str], *, timeout: float = 2.0
) -> tuple[Rule, ...]:
    """The rules that were seen to tell: each is kept by every good answer and broken by at least one bad one.

    One that everything keeps rewards everything, and one that a good answer breaks would punish what the
    person wanted. A rule whose own trial fails - a pattern that never ends - tells nothing.
    """
    kept: list[Rule] = []
    for rule in rules:
        try:
            right = all([await _keeps(rule, answer, timeout) for answer in good])
            if right and not all([await _keeps(rule, answer, timeout) for answer in bad]):
                kept.append(rule)
        except ScoringError:
            continue
    return tuple(kept)


async def telling_criteria(
    judge: Judge, rubric: str, kind: Sequence[PastRequest]
) -> tuple[str, tuple[str, ...]]:
    """The points of a rubric that accepted answers meet, if every rejected one and an empty promise misses at
    least one; else nothing. And those of them that an answer meets which nobody worked for: made of the
    request's words, or of an answer to another one. Where none can be made, all of them.

    An answer that nobody could judge tells nothing either; a judge that cannot be asked is an outage.
    """
    good = [(one, text) for one in kind for text in one.accepted][-_JUDGED:]
    bad = [(one, text) for one in kind for text in one.rejected][-_JUDGED:]
    bad = [*bad, (kind[-1], NO_ANSWERS[-1])]
    answered = [one for one in kind if one.accepted]
    made = lazy_answers([(one.turn.text, one.accepted[-1]) for one in answered])
    lazy = [(answered[-1], text) for text in made]
    points = criteria_of(rubric)
    if (met := await _judged(judge, [*good, *bad, *lazy], points)) is None:
        return "", ()
    on_good, on_bad, on_lazy = met[: len(good)], met[len(good) :][: len(bad)], met[len(good) + len(bad) :]
    kept = [place for place in range(len(points)) if all(one[place] for one in on_good)]
    if not all(any(not one[place] for place in kept) for one in on_bad):
        return "", ()
    formal = [place for place in kept if not lazy or any(one[place] for one in on_lazy)]
    return "\n".join(f"- {points[place]}" for place in kept), tuple(points[place] for place in formal)


async def _judged(
    judge: Judge, tried: Sequence[tuple[PastRequest, str]], points: Sequence[str]
) -> list[list[bool]] | None:
    """Which points each of these answers meets; None where the judge was not understood. All at once: who
    answers by hand gets them in one round.
    """

    async def met(one: PastRequest, answer: str) -> list[bool]:
        if is_no_answer(answer):
            return [False] * len(points)
        task = Task(id="mined", prompt=one.turn.text)
        found = await judge.check(task, Trajectory(messages=(), answer=answer, calls=0, usage=None), points)
        return [finding.met for finding in found]

    try:
        return list(await together(*(met(*each) for each in tried)))
    except ScoringError as error:
        if isinstance(error.__cause__, Fault):
            raise ProviderDown(
                f"The judge could not be asked: {error.detail}. Nothing is lost: run the same command again."
            ) from error
        return None


async def _keeps(rule: Rule, answer: str, timeout: float) -> bool:
    return (await kept_rules([rule], CheckedWork(answer=answer), whose="a request", timeout=timeout))[0]


def _after_correction(kind: Sequence[PastRequest]) -> list[str]:
    """Accepted answers from the first correction on; the person may have changed their mind then."""
    first = next((place for place, one in enumerate(kind) if one.corrections), len(kind))
    return [text for one in kind[first:] for text in one.accepted][-_TRIED:]


def _new(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    return tuple(dict.fromkeys(rules))


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
    (r"\bconventional[ -]commits?\b", "regex", rf"(?m)\A(?![\s\S]*^\* (?!{_CONVENTIONAL}))[\s\S]*^\* "),
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
