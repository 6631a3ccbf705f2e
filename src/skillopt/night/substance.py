"""Whether an answer is one to this very request: about it, in words of its own, and with its sections filled.

Checks of form can be kept by a constant, by the request said back, or by bare headings. Each guard here is
used only where the person's accepted answers keep it, and the one on subject only where an answer to another
request of the kind does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from skillopt.night.kinds import words_of

_MOST_WORDS = 60
_ACCIDENT = 0.2
"""Share of answers to other requests that may be about this one by accident."""
_ECHO = 0.7
"""Share of an answer's runs of four words that may stand in the request."""
_HEADING = re.compile(r"^(?:#{1,6}\s+\S.*|\*\*[^*\n]+\*\*:?|[^\W\d_][\w ]{0,40}:)\s*$")
_TOKEN = re.compile(r"\w+")
_PREFIX = 6
"""Letters by which words are compared, so that endings do not count."""


class Guards(BaseModel):
    """What an answer to a task must be beside its measure. `least` of the `words` make it about the task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    words: tuple[str, ...] = ()
    least: int = 0
    own_words: bool = False
    filled: bool = False
    lines: tuple[str, ...] = ()
    """Of work in a repository the lines that its record must hold."""

    @property
    def tell_subjects(self) -> bool:
        """Whether an answer to another request fails."""
        return bool(self.least or self.lines)

    def failing(self, prompt: str, answer: str) -> str:
        """Why the text is no answer to this request; empty where it may be one."""
        if missing := set(self.lines) - set(answer.splitlines()):
            return f"What was asked for was not done: {', '.join(sorted(missing))}."
        if self.least and _met(self.words, answer) < self.least:
            return "The answer is not about this request."
        if self.own_words and is_echo(prompt, answer):
            return "The answer only says the request back."
        if self.filled and has_empty_section(answer):
            return "A section of the answer is empty."
        return ""


def guards_of(asked: Sequence[tuple[str, Sequence[str]]]) -> list[Guards]:
    """The guards of each request of a kind, which comes with its accepted answers."""
    words = _distinctive([prompt for prompt, _ in asked])
    answers = [(place, text) for place, (_, texts) in enumerate(asked) for text in texts]
    own_words = bool(answers) and not any(is_echo(asked[place][0], text) for place, text in answers)
    filled = bool(answers) and not any(has_empty_section(text) for _, text in answers)
    # A small number stands in many an answer by accident: it counts only where no name tells.
    named = [tuple(word for word in mine if len(word) > 2 or not word.isdigit()) for mine in words]
    tries = ((one, least) for one in (named, words) for least in (2, 1))
    found, least = next((pair for pair in tries if _tells(pair[0], answers, pair[1])), (words, 0))
    return [
        Guards(words=mine if least else (), least=min(least, len(mine)), own_words=own_words, filled=filled)
        for mine in found
    ]


def lines_of_work(prompt: str, records: Sequence[str]) -> tuple[str, ...]:
    """The files that a request names and that were changed for it, as the lines of every such record."""
    kept = [{line for line in record.splitlines() if line.startswith("~ ")} for record in records]
    common = set.intersection(*kept) if kept else set()
    return tuple(sorted(line for line in common if line.removeprefix("~ ") in prompt))


def is_echo(prompt: str, answer: str) -> bool:
    """Whether an answer is mostly the request's own words in their order."""
    said, answered = _runs(prompt), _runs(answer)
    return bool(answered) and len(answered & said) / len(answered) > _ECHO


def has_empty_section(answer: str) -> bool:
    """Whether a heading has nothing below it: the next one follows, or the end."""
    lines = [line for line in answer.splitlines() if line.strip()]
    heads = [bool(_HEADING.match(line.strip())) for line in lines]
    levels = [len(line) - len(line.lstrip("#")) for line in lines]
    for place, is_head in enumerate(heads):
        following = place + 1
        if is_head and following == len(lines):
            return True
        # A heading may hold smaller ones.
        if is_head and heads[following] and not 0 < levels[place] < levels[following]:
            return True
    return False


def _distinctive(prompts: Sequence[str]) -> list[tuple[str, ...]]:
    """The words of each request that few others of its kind have."""
    found = [frozenset(_long(prompt)) for prompt in prompts]
    spread = Counter(word for words in found for word in words)
    most = max(1, len(set(prompts)) // 3)
    return [tuple(sorted(word for word in words if spread[word] <= most)[:_MOST_WORDS]) for words in found]


def _tells(words: Sequence[Sequence[str]], answers: Sequence[tuple[int, str]], least: int) -> bool:
    own = [_met(words[place], text) >= least for place, text in answers]
    others = [
        _met(mine, text) >= min(least, len(mine))
        for place, text in answers
        for other, mine in enumerate(words)
        if other != place and mine != words[place]
    ]
    return bool(own and others) and all(own) and sum(others) <= _ACCIDENT * len(others)


def _met(words: Sequence[str], answer: str) -> int:
    return len(frozenset(words) & frozenset(_long(answer)))


def _long(text: str) -> list[str]:
    """Words and numbers that may name a subject; a pair of characters does where words are not spaced."""
    return [
        word[:_PREFIX]
        for word in words_of(text[:20_000].casefold(), _TOKEN)
        if len(word) >= 4 or any(char.isdigit() for char in word) or not word.isascii()
    ]


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = words_of(text[:20_000].casefold())
    return frozenset(zip(words, words[1:], words[2:], words[3:], strict=False))
