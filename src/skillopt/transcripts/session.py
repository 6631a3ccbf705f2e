"""What a session with a coding agent is to us, whatever wrote it down, and which are our own calls."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Literal, Protocol, TypeAlias

from skillopt.redact import redact_transcript

Speaker = Literal["user", "assistant", "tool"]

_OUR_FOLDER = re.compile(r"skillopt-agent-[A-Za-z0-9_]{4,}")
_OUR_LINE = re.compile(r"^\[skillopt run ([A-Za-z0-9._-]{4,80})\]$", re.MULTILINE)
_TEMPORARY = re.compile(r"(?:^/tmp|^(?:/private)?/var/folders/\w+/\w+/T|/Local/Temp)/(?:tmp|skillopt)\w{5,}")
"""A folder that a program made for itself, as the public engine does to ask Claude Code and others."""
_REPLAYED = re.compile(
    r"\A\s*<skillopt_sleep_internal_replay_v1>|\[\[SKILLOPT-SLEEP-PENDING:[0-9a-f]{16}\]\]"
    r"|^<!-- SKILLOPT-SLEEP:LEARNED START -->$|^name: *skillopt-sleep-learned$",
    re.MULTILINE,
)
"""What stands in questions of the public engine: its marks, and the document that it trains."""
_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A tool the agent called. `about` is the path, command or skill it was called on, redacted and cut."""

    name: str
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One thing that was said or done. Texts are redacted; `clipped` says that the end of it was left out."""

    role: Speaker
    text: str
    time: datetime | None = None
    tools: tuple[ToolUse, ...] = ()
    clipped: bool = False
    failed: bool = False
    """A tool that reported an error, or a reply that was interrupted or broke off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSession:
    """One conversation with an agent: what the person wrote, what the agent answered, which tools it used.

    System and meta records, injected context, sub-agents and summaries are not in it. Times are UTC.
    """

    source: str
    id: str
    project: str
    """The folder the agent worked in, as text; empty where the transcript does not say."""
    started: datetime
    ended: datetime
    turns: tuple[Turn, ...]
    skills: tuple[str, ...] = ()
    """Names of the skills that were really loaded or read, in the order in which they were first seen."""
    is_ours: bool = False
    """A call of our own engine, recognised by `is_our_call`."""
    path: str = ""
    """The file it was read from."""
    folder: str = ""
    """Where the agent worked, should that be below the project."""
    originals: Mapping[str, str] = field(default_factory=dict)
    """Files that it edited, as they were before and by path from that folder, if without a secret."""

    @property
    def name(self) -> str:
        """`source:id`."""
        return f"{self.source}:{self.id}"

    @property
    def prompts(self) -> tuple[Turn, ...]:
        """What the person wrote."""
        return tuple(turn for turn in self.turns if turn.role == "user")


@dataclass(slots=True, kw_only=True)
class Harvest:
    """What was found in the transcripts; sources count in it what they leave out."""

    sessions: tuple[RecordedSession, ...] = ()
    """The kept ones, oldest end first."""
    read: int = 0
    """Sessions, kept and dropped; not bad records."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Sessions left out, by reason."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Records and files left out, by reason."""
    notes: tuple[str, ...] = ()
    """What a person should do to get more, such as an extra to install."""
    next_since: datetime | None = None
    """From when the next harvest has to read so that no session is missed; None where nothing was found."""

    @property
    def kept(self) -> int:
        """How many sessions are left to mine."""
        return len(self.sessions)

    def skills(self) -> Counter[str]:
        """In how many sessions each skill was used."""
        return Counter(name for session in self.sessions for name in session.skills)

    def drop(self, reason: str) -> None:
        """Count a session that was read and is not used."""
        self.read += 1
        self.dropped[reason] += 1

    def skip(self, reason: str) -> None:
        """Count a record or file that could not be used."""
        self.skipped[reason] += 1

    def note(self, text: str) -> None:
        """Note something that a person should know, once."""
        self.notes = tuple(dict.fromkeys((*self.notes, text)))


def is_our_call(project: str, prompts: Iterable[str]) -> bool:
    """Whether a session is one of our own calls, by its folder or by the line of a run in a prompt.

    Both are exact. Wording is never a sign: a person may well talk about skills, and our prompts change.
    """
    if any(_OUR_FOLDER.fullmatch(part) for part in _pure(project).parts):
        return True
    return any(_OUR_LINE.search(text) for text in prompts)


def is_public_replay(project: str, prompts: Sequence[str]) -> bool:
    """Whether a session is a call of the public engine: one prompt in a temporary folder, or one with the
    engine's marks. A person may paste such a document too, and then goes on talking.
    """
    if len(prompts) != 1:
        return False
    return bool(_TEMPORARY.search(_pure(project).as_posix()) or _REPLAYED.search(prompts[0]))


def is_within(folder: str, project: PurePath | str) -> bool:
    """Whether a folder is the project's or below it; a parent and an unknown folder are not."""
    if not folder.strip() or not str(project).strip():
        return False
    inner, outer = _pure(folder), _pure(str(project))
    return type(inner) is type(outer) and (inner == outer or outer in inner.parents)


def _pure(path: str) -> PurePath:
    """A path of whatever system wrote it down."""
    return PureWindowsPath(path) if _DRIVE.match(path) else PurePosixPath(path)


Redact: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Homes:
    """Where to look. Nothing here is read from this process's own environment: the caller passes it in."""

    home: Path
    env: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, Path] = field(default_factory=dict)
    """A source's name to the folder or file the user named for it; it wins over environment and home."""
    platform: str = sys.platform

    def folder(self, variable: str, default: Path) -> Path:
        """The folder an environment variable names, or the default."""
        named = self.env.get(variable, "").strip()
        return Path(named) if named else default

    def place(self, source: str, variable: str, default: str) -> Path:
        """Where a source's sessions are: as the user says, the program's variable, or below home."""
        return self.places.get(source) or self.folder(variable, self.home / default)

    def config(self) -> Path:
        """Where programs keep their settings on this platform."""
        return self._usual(("APPDATA", "AppData/Roaming"), ("XDG_CONFIG_HOME", ".config"))

    def data(self) -> Path:
        """Where programs keep their data on this platform."""
        return self._usual(("LOCALAPPDATA", "AppData/Local"), ("XDG_DATA_HOME", ".local/share"))

    def _usual(self, windows: tuple[str, str], unix: tuple[str, str]) -> Path:
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        variable, below = windows if self.platform == "win32" else unix
        return self.folder(variable, self.home / below)


class TranscriptSource(Protocol):
    """One program's transcripts. Read-only: nothing is ever written to, locked or created where they lie."""

    @property
    def name(self) -> str: ...

    def found(self) -> list[Path]:
        """The transcript files there are, in a fixed order; empty where the program was never used."""
        ...

    def sessions(
        self,
        since: datetime | None = None,
        *,
        redact: Redact = redact_transcript,
        tally: Harvest | None = None,
    ) -> Iterator[RecordedSession]:
        """Every session that ended at `since` or later, redacted, one at a time in bounded memory.

        A bad record or file is counted and skipped, and never raises. Prompts are each in it once.
        """
        ...
