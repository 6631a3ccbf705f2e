"""A simulated reader of sessions: answers to the question `read` as a model would, by labels it was given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from skillopt.transcripts.session import RecordedSession
from skillopt_sleep import mining, requests
from skillopt_sleep.context import NightContext
from skillopt_sleep.gather import read_sessions
from skillopt_sleep.plan import NightInput
from skillopt_sleep.readings import Reaction, ReadTurn, SessionReading
from skillopt_sleep.wording import pasted

_WORDS: Mapping[Reaction, str] = {
    "abandoned": r"never ?mind|forget it",
    "redone": r"(?:try|do it|once) (?:over )?again|start over|once more",
    "corrected": r"no\b(?!,? thanks| problem| need)|not what|you forgot|still|too \w+|(?:is|was) wrong|incorrect"
    r"|doesn'?t|instead|always|never|nein|don'?t|from now on|should|please|make it|i prefer|we (?:use|write)|wrong",
    "accepted": r"thanks|perfect|great|good|nice|works",
}
_PERSON = re.compile(r'<person turn="(\d+\.(\d+))">\n(.*?)\n</person>', re.DOTALL)


def reaction(text: str) -> Reaction:
    """What a reader of plain words would say of the beginning of a turn."""
    head = pasted(text)[0][:300].replace("’", "'")
    found = (kind for kind, words in _WORDS.items() if re.search(rf"\b(?:{words})", head, re.IGNORECASE))
    return next(found, "none")


def read_plainly(session: RecordedSession) -> SessionReading:
    """A session as that reader would read it; every correction is meant for every time."""
    turns = [ReadTurn(reaction="none", asks=True)]
    for turn in session.prompts[1:]:
        said = reaction(turn.text)
        against = said in ("corrected", "redone")
        turns.append(
            ReadTurn(
                reaction=said,
                wanted=turn.text if against else "",
                lasting=said == "corrected",
                asks=said == "none",
            )
        )
    return SessionReading(turns=tuple(turns))


def requests_of(session: RecordedSession) -> Iterator[requests.PastRequest]:
    """The requests of a session that was read so."""
    return requests.requests_of(session, read_plainly(session))


async def mine(sessions: Iterable[RecordedSession], **further: Any) -> NightInput:
    """What sessions hold that were read so, unless `readings` says otherwise."""
    every = list(sessions)
    read = {session.name: read_plainly(session) for session in every}
    return await mining.mine(every, **{"readings": read, **further})


def keep_readings(context: NightContext) -> None:
    """Have all sessions of the project read so before the night."""
    for session in read_sessions(context, None)[1]:
        context.home.readings.put(session, read_plainly(session))


def plainly(text: str, number: int) -> Mapping[str, Any]:
    """The same for one turn, the words before any number as what a request is about."""
    said = "none" if number == 1 else reaction(text)
    asks = said == "none"
    about = " ".join(re.findall(r"[^\W\d_]+", pasted(text)[0])[:3]) if asks else ""
    return {"reaction": said, "wanted": "", "lasting": True, "asks": asks, "about": about, "needs": ""}


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
