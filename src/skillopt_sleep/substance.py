"""Whether an answer is one to this very request: about it, in words of its own, and with its sections filled.

Checks of form can be kept by a constant, by the request said back, or by bare headings. Each guard here is
used where most of the person's accepted answers to the kind keep it, but not for a request whose own do not,
and the one on subject only where an answer to another request of the kind does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import cycle

from pydantic import BaseModel, ConfigDict

from skillopt_sleep.kinds import words_of

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
    own_words = _kept(len(asked), [(place, not is_echo(asked[place][0], text)) for place, text in answers])
    filled = _kept(len(asked), [(place, not has_empty_section(text)) for place, text in answers])
    # A small number stands in many an answer by accident: it counts only where no name tells.
    named = [tuple(word for word in mine if len(word) > 2 or not word.isdigit()) for mine in words]
    tries = ((one, least) for one in (named, words) for least in (2, 1))
    told = ((one, least, _telling(one, answers, least)) for one, least in tries)
    found, least, tells = max(told, key=lambda each: sum(each[2]))
    return [
        Guards(
            words=mine if tells[place] else (),
            least=min(least, len(mine)) if tells[place] else 0,
            own_words=own_words[place],
            filled=filled[place],
        )
        for place, mine in enumerate(found)
    ]


def lazy_answers(asked: Sequence[tuple[str, str]]) -> list[str]:
    """Answers to the last request that nobody worked for, made of its words and of accepted answers; a
    measure that is content with one sees form alone. `asked` are requests with an accepted answer, from old
    to new; nothing can be made of a single one.
    """
    prompt, accepted = asked[-1] if asked else ("", "")
    prompts = [one for one, _ in asked]
    copied = next((place for place in reversed(range(len(asked))) if prompts[place] != prompt), None)
    if copied is None:
        return []
    words = list(dict.fromkeys(_TOKEN.findall(prompt[:20_000])))[:_MOST_WORDS][::-1]
    heads = [line for line in accepted.splitlines() if _HEADING.match(line.strip())]
    stuffed = "\n\n".join(f"{head}\n\n- {' '.join(words)}" for head in heads) or " ".join(words)
    both = asked[copied][0], prompt
    theirs, ours = (
        [word for word in _TOKEN.findall(text) if _folded(word) in distinctive]
        for text, distinctive in zip(both, _distinctive(both), strict=True)
    )
    own = {_folded(word): mine for word, mine in zip(dict.fromkeys(theirs), cycle(ours or words))}
    filled = _TOKEN.sub(lambda found: own.get(_folded(found[0]), found[0]), asked[copied][1])
    if filled == asked[copied][1]:
        filled = f"{filled}\n{' '.join(words)}"
    return [stuffed, filled]


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


def _kept(count: int, kept: Sequence[tuple[int, bool]]) -> list[bool]:
    """For which of so many requests a guard is used, by whether each accepted answer keeps it: for all but
    those with one that does not, if most of all answers do.
    """
    broken = {place for place, is_kept in kept if not is_kept}
    is_used = 2 * sum(is_kept for _, is_kept in kept) > len(kept)
    return [is_used and place not in broken for place in range(count)]


def _telling(words: Sequence[Sequence[str]], answers: Sequence[tuple[int, str]], least: int) -> list[bool]:
    """For which requests so many of its words tell an answer to it from one to another request."""
    own = [(place, _met(words[place], text) >= least) for place, text in answers]
    others = [
        _met(mine, text) >= min(least, len(mine))
        for place, text in answers
        for other, mine in enumerate(words)
        if other != place and mine != words[place]
    ]
    if not others or sum(others) > _ACCIDENT * len(others):
        return [False] * len(words)
    return _kept(len(words), own)


def _met(words: Sequence[str], answer: str) -> int:
    return len(frozenset(words) & frozenset(_long(answer)))


def _long(text: str) -> list[str]:
    """Words and numbers that may name a subject; a pair of characters does where words are not spaced."""
    return [
        _folded(word)
        for word in words_of(text[:20_000].casefold(), _TOKEN)
        if len(word) >= 4 or any(char.isdigit() for char in word) or not word.isascii()
    ]


def _folded(word: str) -> str:
    return word.casefold()[:_PREFIX]


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = words_of(text[:20_000].casefold())
    return frozenset(zip(words, words[1:], words[2:], words[3:], strict=False))
