"""Sessions read by a model, in any language: how the person answered to what was done, and what was wanted.

A session is read once: its reading is kept under a hash of what was said. One that could not be read - no
model, no allowance, an unusable reply - stays unread, and the next night asks again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from skillopt.errors import BudgetSpent, Fault, ProviderDown
from skillopt.files import write_bytes
from skillopt.messages import Message
from skillopt.models.port import Model
from skillopt.models.reading import Unusable, read, tries
from skillopt.process.waiting import together
from skillopt.redact import redact_transcript
from skillopt.runs.words import count
from skillopt.transcripts.session import RecordedSession

Reaction = Literal["accepted", "corrected", "redone", "abandoned", "none"]

MOST_READ = 200
"""Sessions that are read in a night at most, the newest; the others wait for the next one."""
_REVISION = 2
AT_ONCE = 6
_BATCH_CHARS = 16_000
_TURNS = 24
_SAID, _DONE = 1_200, 500
_CAP = 4_096
_LINES = 150
_TITLE = 8
"""Words of a kind's title at most: more could be somebody's request."""
R = TypeVar("R", bound=BaseModel)
_TAGS = re.compile(
    r"<(?=/?(?:request|accepted|rejected|said|session|person|assistant|lines)\b)", re.IGNORECASE
)


class ReadTurn(BaseModel):
    """What one turn of the person says."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    reaction: Reaction
    wanted: str = Field(default="", max_length=4_000)
    """The person's own words, out of the turn."""
    lasting: bool = False
    asks: bool = False
    about: str = Field(default="", max_length=400)
    needs: str = Field(default="", max_length=400)


class _FirstTurn(BaseModel):
    """What a model says of the turn that opens a session: there is nothing yet to react to."""

    model_config = ConfigDict(extra="ignore")

    about: str = Field(max_length=400)
    needs: str = Field(default="", max_length=400)


_TurnReply = ReadTurn | _FirstTurn


class SessionReading(BaseModel):
    """A session as a model read it: a turn for each of the person's, as far as they were read."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    turns: tuple[ReadTurn, ...]


class _Kind(BaseModel):
    model_config = ConfigDict(extra="ignore")

    title: str = Field(max_length=200)
    lines: list[int]


class _Kinds(BaseModel):
    model_config = ConfigDict(extra="ignore")

    kinds: list[_Kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Where readings are kept, a file for each, named by what was said; a session that went on is another."""

    folder: Path

    def put(self, session: RecordedSession, reading: SessionReading) -> None:
        """Keep a reading, for its owner alone."""
        write_bytes(self._file(session), reading.model_dump_json().encode("utf-8", "replace"), mode=0o600)

    def of(self, sessions: Iterable[RecordedSession]) -> dict[str, SessionReading]:
        """Those that were read before as they are now, by name."""
        found: dict[str, SessionReading] = {}
        for session in sessions:
            with suppress(OSError, ValidationError):
                found[session.name] = SessionReading.model_validate_json(self._file(session).read_bytes())
        return found

    def _file(self, session: RecordedSession) -> Path:
        turns = [[turn.role, turn.text, [tool.name for tool in turn.tools]] for turn in session.turns]
        data = json.dumps([_REVISION, session.source, session.id, turns]).encode("utf-8", "replace")
        return self.folder / f"{hashlib.sha256(data).hexdigest()[:40]}.json"


def reading_of(session: RecordedSession, known: Mapping[str, SessionReading]) -> SessionReading | None:
    """How the session was read. Where the person spoke only once there is no reaction to read, so it needs no
    model; None where a model has yet to read it.
    """
    once = SessionReading(turns=(ReadTurn(reaction="none", asks=True),))
    return known.get(session.name) or (once if len(session.prompts) < 2 else None)


def unread(sessions: Iterable[RecordedSession], known: Mapping[str, SessionReading]) -> list[RecordedSession]:
    """The sessions that a model has yet to read, from old to new."""
    found = [session for session in sessions if reading_of(session, known) is None]
    return sorted(found, key=lambda session: (session.ended, session.name))


def batches(sessions: Sequence[RecordedSession], at_once: int = AT_ONCE) -> Iterator[list[RecordedSession]]:
    """Sessions that are asked about together."""
    batch: list[RecordedSession] = []
    size = 0
    for session in sessions:
        room = len(_shown(1, session))
        if batch and (len(batch) == at_once or size + room > _BATCH_CHARS):
            yield batch
            batch, size = [], 0
        batch.append(session)
        size += room
    if batch:
        yield batch


def read_messages(batch: Sequence[RecordedSession]) -> tuple[Message, ...]:
    """What a model is asked about a batch; everything inside the tags is data."""
    return messages_of("read", [_shown(number, session) for number, session in enumerate(batch, start=1)])


async def read_with_model(
    model: Model, sessions: Sequence[RecordedSession], kept: Readings, at_once: int = AT_ONCE
) -> tuple[dict[str, SessionReading], list[str]]:
    """The readings of these sessions, each kept as soon as it is there; and what was not read, in words."""
    found: dict[str, SessionReading] = {}
    lost: Counter[str] = Counter()

    async def read_batch(batch: Sequence[RecordedSession]) -> None:
        try:
            shape = _reply_shape(batch)
            reply = await ask(
                model, read_messages(batch), shape, stage="read", max_tokens=_CAP, about="to read sessions"
            )
        except BudgetSpent:
            lost["tonight's allowance for reading was spent"] += len(batch)
            return
        replies = {} if reply is None else reply.root
        for number, session in enumerate(batch, start=1):
            if (
                reading := _checked(session, [replies.get(name) for name in _names(number, session)])
            ) is None:
                lost["the model's reply about them could not be used"] += 1
            else:
                found[session.name] = reading
                kept.put(session, reading)

    await together(*(read_batch(batch) for batch in batches(sessions, at_once)))
    return found, [
        f"{number} of {count(len(sessions), 'session')} stayed unread: {why}. The next night asks again."
        for why, number in sorted(lost.items())
    ]


async def kinds_with_model(model: Model, lines: Sequence[str]) -> dict[str, str]:
    """The title of the kind of each line, as far as the model gave it one; the same lines ask the same."""
    lines = sorted(set(lines))[:_LINES]
    shown = tagged("lines", "\n".join(f"{place}. {line}" for place, line in enumerate(lines, 1)), 30_000)
    reply = await ask(
        model,
        messages_of("kinds", [shown]),
        _Kinds,
        stage="kinds",
        max_tokens=_CAP,
        about="for kinds of request",
    )
    return {
        lines[number - 1]: title
        for kind in (() if reply is None else reply.kinds)
        if 1 <= len((title := one_line(kind.title, 80)).split()) <= _TITLE
        for number in kind.lines
        if 1 <= number <= len(lines)
    }


def _checked(session: RecordedSession, replies: Sequence[_TurnReply | None]) -> SessionReading | None:
    """The model's reading of a session. A correction that does not quote the turn is replaced by the turn.
    None if the reading of a turn is missing.
    """
    turns: list[ReadTurn] = []
    for turn, one in zip(session.prompts, replies, strict=False):  # no more than are shown
        if one is None or (turns and isinstance(one, _FirstTurn)):
            return None
        read = one if isinstance(one, ReadTurn) and turns else ReadTurn(reaction="none", asks=True)
        is_against = read.reaction in ("corrected", "redone")
        wanted = read.wanted.strip() if is_against else ""
        if is_against and (not wanted or _plain(wanted) not in _plain(turn.text)):
            wanted = turn.text[:4_000]
        about, needs = one_line(redact_transcript(one.about), 80), one_line(redact_transcript(one.needs), 200)
        turns.append(read.model_copy(update={"wanted": wanted, "about": about, "needs": needs}))
    return SessionReading(turns=tuple(turns))


def _reply_shape(batch: Sequence[RecordedSession]) -> type[RootModel[dict[str, _TurnReply]]]:
    """A reply by the name of each turn. Its schema demands every one of them: a small model that may end
    earlier does.
    """
    names = [name for number, one in enumerate(batch, start=1) for name in _names(number, one)]

    def demand(schema: dict[str, Any]) -> None:
        later, first = schema["additionalProperties"]["anyOf"]
        shapes = {name: first if name.endswith(".1") else later for name in names}
        schema.update(properties=shapes, required=names, additionalProperties=False)

    class Reply(RootModel[dict[str, _TurnReply]]):
        model_config = ConfigDict(json_schema_extra=demand)

    return Reply


def _names(number: int, session: RecordedSession) -> list[str]:
    """`2.1`: the first turn of the person in the second session, as a model is shown and names it."""
    return [f"{number}.{turn}" for turn in range(1, min(len(session.prompts), _TURNS) + 1)]


def _shown(number: int, session: RecordedSession) -> str:
    lines: list[str] = []
    names = iter(_names(number, session))
    for turn in session.turns:
        if turn.role == "user":
            if (name := next(names, None)) is None:
                break
            lines.append(tagged("person", turn.text, _SAID, f' turn="{name}"'))
        elif turn.role == "assistant" and (turn.text or turn.tools):
            tools = ", ".join(dict.fromkeys(tool.name for tool in turn.tools))[:100]
            lines.append(tagged("assistant", turn.text, _DONE, f' tools="{tools}"' if tools else ""))
    return "\n".join([f'<session number="{number}">', *lines, "</session>"])


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def prompt_text(name: str) -> str:
    """A packaged prompt by its name."""
    return files("skillopt_sleep").joinpath("prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")


def messages_of(prompt: str, parts: Sequence[str]) -> tuple[Message, ...]:
    """A packaged prompt, and the parts of the question below it."""
    user = "\n\n".join(parts)
    return Message(role="system", content=prompt_text(prompt)), Message(role="user", content=user)


def tagged(tag: str, text: str, most: int, attributes: str = "") -> str:
    """A text inside a tag, cut after `most` characters; nothing in it can open or close one of our tags."""
    cut = text if len(text) <= most else f"{text[:most]}\n[cut]"
    return f"<{tag}{attributes}>\n{_TAGS.sub('&lt;', cut)}\n</{tag}>"


def one_line(text: str, most: int) -> str:
    """The beginning of what a model said, on one line."""
    return " ".join(text.split())[:most]


async def ask(
    model: Model, messages: tuple[Message, ...], shape: type[R], *, stage: str, max_tokens: int, about: str
) -> R | None:
    """The optimizer's reply, None where it cannot be used twice. Raises `ProviderDown` for an outage."""
    for request in tries(messages, shape, role="optimizer", stage=stage, max_tokens=max_tokens):
        try:
            return read(await model.complete(request), shape)
        except Unusable:
            continue
        except Fault as fault:
            raise ProviderDown(
                f"The optimizer could not be asked {about}: {fault}. Nothing is lost: run the same command"
                " again."
            ) from fault
    return None
