"""Decides whether a skill quotes what it will be measured on: answers, tasks, patterns, rubrics.

Criteria (a section that must be there, a text to contain, a length) are never a leak.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from skillopt.tasks.protected import Protected
from skillopt.tasks.splits import Splits
from skillopt.tasks.task import SPLITS, Split, Task

Kind = Literal["reference", "task", "pattern", "rubric"]
SHORTEST = 12
"""Characters from which a text cannot be in a skill by accident."""
RUN = 8
"""Consecutive words that are a quotation."""
MOST_TASKS = 2
"""Tasks that may share an answer or a phrase; what more of them share is no secret of any."""
LEFT_OUT = "[left out]"
_REASONS: dict[Kind, str] = {
    "reference": "it holds the answer of a held-out task",
    "task": f"it repeats {RUN} or more consecutive words of a task",
    "pattern": "it holds the source of a pattern that scores answers",
    "rubric": "it repeats the words of a rubric that scores answers",
}
_WORD = re.compile(r"\w+")
_EDGES = " \t\n.,;:!?\"'"
_SPECIAL = re.compile(r"\\[a-zA-Z.()\[\]{}*+?|^$]|[\[\](){}*+?|^$]")
_SHOWN = 120
_MOST_HIDDEN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """One quotation: what kind of text, of which task, and where it stands in the skill."""

    kind: Kind
    split: Split
    task: str
    quoted: str
    span: tuple[int, int] = field(compare=False)

    def __str__(self) -> str:
        quoted = self.quoted if len(self.quoted) <= _SHOWN else self.quoted[:_SHOWN] + "..."
        return f"{self.kind} of {self.split} task {self.task!r}: {' '.join(quoted.split())!r}"


def refusal_reason(leaks: Iterable[Leak]) -> str:
    """Which kinds of leak there are, in words that give none of them away."""
    kinds = dict.fromkeys(leak.kind for leak in leaks)
    return (
        f"refused before measuring: {' and '.join(_REASONS[kind] for kind in kinds)}; say it in general words"
        " instead"
    )


def format_leaks(leaks: Sequence[Leak]) -> str:
    """The first leaks with what they quote, for the person's eyes alone."""
    more = f"; and {len(leaks) - 3} more" if len(leaks) > 3 else ""
    return f"A candidate was refused, as it quotes a {'; '.join(map(str, leaks[:3]))}{more}."


class LeakGuard:
    """Knows what a skill may not hold. What the seed already held is the user's own."""

    def __init__(self, splits: Splits, protected: Callable[[Task], Protected], seed: str) -> None:
        self._tasks = [(split, task) for split in SPLITS for task in splits.of(split)]
        self._protected = protected
        self._seed = seed
        self._seed_runs = set(_runs(_words(seed)))

    def find(self, skill: str) -> list[Leak]:
        """Every quotation in a skill that the seed did not have; a text of several tasks once."""
        leaks: dict[tuple[Kind, str], Leak] = {}
        for leak in (*self._verbatim(skill), *self._repeated(skill)):
            leaks.setdefault((leak.kind, leak.quoted), leak)
        return list(leaks.values())

    def hide(self, text: str) -> str:
        """The text without its quotations, for whoever must not read them."""
        for _ in range(_MOST_HIDDEN):
            leaks = self.find(text)
            if not leaks:
                return text
            start, end = leaks[0].span
            text = text[:start] + LEFT_OUT + text[end:]
        return LEFT_OUT

    def _verbatim(self, skill: str) -> Iterator[Leak]:
        flat, seed = _flat(skill), _flat(self._seed)
        for (kind, text), (split, task) in self._secrets.items():
            if kind == "pattern":
                at = skill.find(text) if text not in self._seed else -1
                if at >= 0:
                    yield Leak(kind=kind, split=split, task=task, quoted=text, span=(at, at + len(text)))
            elif _flat(text) in flat and not (_flat(text) in seed and _place(text, self._seed)):
                span = _place(text, skill)
                if span is not None:
                    yield Leak(kind=kind, split=split, task=task, quoted=skill[span[0] : span[1]], span=span)

    def _repeated(self, skill: str) -> Iterator[Leak]:
        words = list(_WORD.finditer(skill))
        runs = list(_runs([_plain(match[0]) for match in words]))
        hits = [at for at, run in enumerate(runs) if run not in self._seed_runs and self._index.is_rare(run)]
        for first, last in _joined(hits):
            owner = self._owner(runs[first])
            if owner is not None:  # two texts may share a hash
                kind, split, task = owner
                span = (words[first].start(), words[last + RUN - 1].end())
                yield Leak(kind=kind, split=split, task=task, quoted=skill[span[0] : span[1]], span=span)

    def _owner(self, run: str) -> tuple[Kind, Split, str] | None:
        for kind, split, task, text in self._texts():
            if f" {run} " in f" {' '.join(_words(text))} ":
                return kind, split, task
        return None

    def _texts(self) -> Iterator[tuple[Kind, Split, str, str]]:
        """The texts of which no eight words may be repeated."""
        for split, task in self._tasks:
            yield "task", split, task.id, task.prompt
            for rubric in self._protected(task).rubrics:
                yield "rubric", split, task.id, rubric

    @cached_property
    def _index(self) -> _Index:
        prompts = (task.prompt for _, task in self._tasks)
        rubrics = {rubric for _, task in self._tasks for rubric in self._protected(task).rubrics}
        return _Index(prompts, rubrics)

    @cached_property
    def _secrets(self) -> dict[tuple[Kind, str], tuple[Split, str]]:
        """Texts that may not stand in a skill at all, each with a task that has it."""
        secrets: dict[tuple[Kind, str], tuple[Split, str]] = {}
        answers: dict[str, list[tuple[Split, str, str]]] = {}
        for split, task in self._tasks:
            protected = self._protected(task)
            for text in {_flat(text): text for text in protected.references}.values():
                answers.setdefault(_flat(text), []).append((split, task.id, text.strip(_EDGES)))
            for pattern in protected.patterns:
                # a plain word as a pattern is a text to contain
                if _SPECIAL.search(pattern) and len(pattern) > 3:
                    secrets.setdefault(("pattern", pattern), (split, task.id))
            for rubric in protected.rubrics:
                if len(rubric.strip(_EDGES)) >= SHORTEST:
                    secrets.setdefault(("rubric", rubric.strip(_EDGES)), (split, task.id))
        for owners in answers.values():
            held_out = [owner for owner in owners if owner[0] != "train"]
            if held_out and len(owners) <= MOST_TASKS and len(held_out[0][2]) >= SHORTEST:
                split, name, text = held_out[0]
                secrets.setdefault(("reference", text), (split, name))
        return secrets


class _Index:
    """Which runs of words belong to at most two tasks, or to a rubric; millions, so kept as hashes."""

    def __init__(self, prompts: Iterable[str], rubrics: Iterable[str]) -> None:
        hashes: array[int] = array("q")
        for text in prompts:
            hashes.extend({hash(run) for run in _runs(_words(text))})
        self._sorted = array("q", sorted(hashes))
        self._always = {run for text in rubrics for run in _runs(_words(text))}

    def is_rare(self, run: str) -> bool:
        """Whether repeating the run would be a quotation."""
        if run in self._always:
            return True
        number = hash(run)
        count = bisect_right(self._sorted, number) - bisect_left(self._sorted, number)
        return 1 <= count <= MOST_TASKS


def _joined(places: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of each unbroken row of places."""
    known = set(places)
    starts = [place for place in places if place - 1 not in known]
    ends = [place for place in places if place + 1 not in known]
    yield from zip(starts, ends, strict=True)


def _runs(words: list[str]) -> Iterator[str]:
    for first in range(len(words) - RUN + 1):
        yield " ".join(words[first : first + RUN])


def _words(text: str) -> list[str]:
    return [_plain(word) for word in _WORD.findall(text)]


def _plain(word: str) -> str:
    return unicodedata.normalize("NFKC", word).casefold()


def _flat(text: str) -> str:
    return " ".join(text.casefold().split()).strip(_EDGES)


def _place(text: str, skill: str) -> tuple[int, int] | None:
    """Where a text stands in a skill as whole words, whatever its case and line breaks."""
    pattern = r"\s+".join(map(re.escape, text.split()))
    before, after = (r"\b" if edge.isalnum() else "" for edge in (text[0], text[-1]))
    match = re.search(before + pattern + after, skill, re.IGNORECASE)
    return None if match is None else match.span()
