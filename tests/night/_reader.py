"""A simulated reader of sessions: answers to the question `read` as a model would, by labels it was given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from skillopt.night.kinds import pasted
from skillopt.night.reactions import reaction

_PERSON = re.compile(r'<person turn="(\d+\.(\d+))">\n(.*?)\n</person>', re.DOTALL)


def plainly(text: str, number: int) -> Mapping[str, Any]:
    """What rules in code would say, the words before any number as what a request is about."""
    told = reaction(text)
    asks = number == 1 or told.reaction == "none"
    about = " ".join(re.findall(r"[^\W\d_]+", pasted(text)[0])[:3]) if asks else ""
    return {
        "reaction": told.reaction,
        "wanted": "",
        "lasting": True,
        "asks": asks,
        "about": about,
        "needs": "",
    }


def reads(prompt: str, say: Callable[[str, int], Mapping[str, Any]] = plainly) -> str:
    """The reply to a prompt: `say` tells of each turn of the person."""
    return json.dumps({name: say(text, int(turn)) for name, turn, text in _PERSON.findall(prompt)})


def one_kind(prompt: str, title: str = "Write briefs") -> str:
    """All lines of the question `kinds` are of one kind."""
    lines = re.findall(r"^(\d+)\. ", prompt.partition("<lines>")[2], re.MULTILINE)
    return json.dumps({"kinds": [{"title": title, "lines": [int(line) for line in lines]}]})


def by_first_word(prompt: str) -> str:
    """Lines of the question `kinds` that begin with the same word are of one kind."""
    lines = re.findall(r"^(\d+)\. (\w+)", prompt.partition("<lines>")[2], re.MULTILINE)
    kinds = {word: [int(line) for line, begins in lines if begins == word] for _, word in lines}
    return json.dumps({"kinds": [{"title": word, "lines": its} for word, its in kinds.items()]})


def answers(place: str, prompt: str) -> str | None:
    """The reply to a question about sessions; None for any other."""
    if place.startswith("read/"):
        return reads(prompt)
    return one_kind(prompt) if place.startswith("kinds/") else None
