"""Scorers that compare words: exactly, by containment, or the way SQuAD and DocVQA do."""

from __future__ import annotations

import re
import string
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from skillopt.tasks.rollout import Score
from skillopt.tasks.scorers._scorer import TextScorer, missed, passed, references, same_signs
from skillopt.tasks.task import Task

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactMatch(TextScorer):
    """The answer equals an acceptable one, apart from white space at the ends."""

    name: ClassVar[str] = "exact_match"
    revision: ClassVar[int] = 2
    ignore_case: bool = False

    def grade(self, task: Task, answer: str) -> Score:
        """All or nothing."""
        wanted = references(task)
        said = _cased(answer, self.ignore_case)
        return passed(any(_cased(text, self.ignore_case) == said for text in wanted), answer, wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contains(TextScorer):
    """The answer contains an acceptable one (with `every`, all of them)."""

    name: ClassVar[str] = "contains"
    revision: ClassVar[int] = 2
    ignore_case: bool = False
    every: bool = False

    def grade(self, task: Task, answer: str) -> Score:
        """All or nothing."""
        wanted = references(task)
        hits = (_cased(text, self.ignore_case) in _cased(answer, self.ignore_case) for text in wanted)
        return passed(all(hits) if self.every else any(hits), answer, wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Squad(TextScorer):
    """SQuAD's measures: hard is exact match after normalising, soft the best token F1. Without tags the last
    line is the answer.
    """

    name: ClassVar[str] = "squad"
    is_short: ClassVar[bool] = True

    def grade(self, task: Task, answer: str) -> Score:
        """Exact match and F1, each against the acceptable answer that fits best."""
        wanted = references(task)
        hard = float(any(squad_normal(answer) == squad_normal(text) for text in wanted))
        soft = max(squad_f1(answer, text) for text in wanted)
        return Score(hard=hard, soft=soft, feedback="" if hard else missed(answer, wanted))


def squad_normal(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def squad_f1(answer: str, reference: str) -> float:
    """F1 of the token multisets; where a side is empty after normalising, 1 if both are (SQuAD 2.0)."""
    ours, theirs = squad_normal(answer).split(), squad_normal(reference).split()
    if not ours or not theirs:
        return float(ours == theirs)
    common = (Counter(ours) & Counter(theirs)).total()
    return 2 * common / (len(ours) + len(theirs))


def _cased(text: str, ignore_case: bool) -> str:
    text = same_signs(text).strip()
    return text.casefold() if ignore_case else text


_RIGHT = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class Anls(TextScorer):
    """Average normalised Levenshtein similarity: soft is the best over the acceptable answers, hard says that
    nothing differs.

    Case and runs of white space do not count. A similarity of `threshold` or less is none. Without tags the
    last line is the answer.
    """

    name: ClassVar[str] = "anls"
    is_short: ClassVar[bool] = True
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5

    def grade(self, task: Task, answer: str) -> Score:
        """The acceptable answer that fits best decides."""
        wanted = references(task)
        soft = max(similarity(answer, text, self.threshold) for text in wanted)
        hard = float(soft >= _RIGHT)
        return Score(hard=hard, soft=soft, feedback="" if hard else missed(answer, wanted))


def similarity(answer: str, reference: str, threshold: float = 0.5) -> float:
    """1 minus the edit distance over the longer length, 0 up to the threshold; empty texts are alike."""
    ours, theirs = (" ".join(text.lower().split()) for text in (answer, reference))
    longer = max(len(ours), len(theirs))
    if not longer:
        return 1.0
    # a long ramble is not worth the quadratic time
    if abs(len(ours) - len(theirs)) >= (1 - threshold) * longer:
        return 0.0
    found = 1 - distance(ours, theirs) / longer
    return found if found > threshold else 0.0


def distance(one: str, other: str) -> int:
    """Levenshtein distance: letters to insert, delete or replace."""
    before = list(range(len(other) + 1))
    for row, mine in enumerate(one, start=1):
        after = [row]
        for column, theirs in enumerate(other, start=1):
            after.append(min(before[column] + 1, after[-1] + 1, before[column - 1] + (mine != theirs)))
        before = after
    return before[-1]
