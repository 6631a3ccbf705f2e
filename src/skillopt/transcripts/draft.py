"""Builds one session out of records, and decides how much of each text is kept: redacted, then cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from skillopt.transcripts.prompts import INTERRUPTED, injected_skills, person_text
from skillopt.transcripts.records import decoded
from skillopt.transcripts.session import (
    RecordedSession,
    Speaker,
    ToolUse,
    Turn,
    is_our_call,
    is_public_replay,
)

TEXT_LIMITS: Mapping[Speaker, int] = {"user": 8_000, "assistant": 4_000, "tool": 400}
"""Characters of one turn."""
SESSION_LIMITS: Mapping[Speaker, int] = {"user": 32_000, "assistant": 32_000, "tool": 8_000}
"""Characters of all turns of a kind together; what comes later is only hinted at."""
FILES_LIMIT = 60_000
"""Characters of all files that a session edited, as they were before."""
MOST_TURNS = 1_000
_HINT = 200
_ABOUT = 300
_AHEAD = 1 << 13
"""How far beyond the cut the redactor looks, so that no half of a key is left at the edge."""
_SUBJECTS = (
    *("skill", "file_path", "filePath", "path", "notebook_path", "filename", "command", "cmd", "url"),
    *("query", "pattern", "prompt", "name", "input"),
)
_SKILL_NAME = re.compile(r"[A-Za-z0-9][\w.:-]{0,99}")
_SKILL_FILE = re.compile(r"[/\\]?([\w.-]{1,100})[/\\]SKILL\.md\b", re.ASCII)
_SKILL_TOOLS = ("skill", "use_skill", "load_skill", "activate_skill")

Call = tuple[str, str, Any]
"""Id, name and input of a tool call, as a source found them."""


class SessionDraft:
    """A session while it is read. Nothing that is given to it leaves it unredacted."""

    def __init__(
        self, *, source: str, id: str, path: str, project: str, redact: Callable[[str], str]
    ) -> None:
        self.id = id
        self.project = project
        self._source = source
        self._path = path
        self._redact = redact
        self._turns: list[Turn] = []
        self._room = dict(SESSION_LIMITS)
        self._times: tuple[datetime, datetime] | None = None
        self._skills: dict[str, None] = {}
        self._called: dict[str, list[str]] = {}
        self._is_ours = False
        self._asked: list[str] = []  # the first prompts, as they were written
        self._originals: dict[str, str] = {}

    def ask(self, text: str, time: datetime | None = None) -> bool:
        """A user record. False where nobody wrote it; it may tell of skills and interruptions."""
        self.touch(time)
        for name in injected_skills(text):
            self.skill(name)
        if text.startswith(INTERRUPTED):
            self.broke_off()
            return False
        self._is_ours = self._is_ours or is_our_call("", [text])
        words = person_text(text)
        if not words:
            return False
        self._asked = [*self._asked, text][:2]
        self._add("user", words, time)
        return True

    def say(
        self,
        text: str,
        time: datetime | None = None,
        *,
        calls: Iterable[Call] = (),
        proven: bool = False,
        failed: bool = False,
    ) -> None:
        """What the agent said and called. `proven`: no results are recorded, so calling is enough."""
        self.touch(time)
        tools: list[ToolUse] = []
        for call, name, given in calls:
            subject = _subject(given)
            tools.append(ToolUse(name=self._line(name, 100), about=self._line(subject, _ABOUT)))
            skills = list(_skills(name, given))
            if proven:
                for skill in skills:
                    self.skill(skill)
            elif skills and len(self._called) < MOST_TURNS:
                self._called[call] = skills
        if text.strip() or tools:
            self._add("assistant", text.strip(), time, tools=tuple(tools), failed=failed)

    def result(self, call: str, text: str, time: datetime | None = None, *, failed: bool = False) -> None:
        """What a tool gave back; a skill counts as used only now, and only if there was no error."""
        self.touch(time)
        for skill in self._called.pop(call, []):
            if not failed:
                self.skill(skill)
        self._add("tool", text.strip(), time, failed=failed)

    def skill(self, name: str) -> None:
        """A skill that was loaded or read."""
        plain = self._redact(name.strip()) if len(name) <= 200 else ""
        if _SKILL_NAME.fullmatch(plain):
            self._skills[plain] = None

    def original(self, path: str, text: str) -> None:
        """The text of a file before its first edit; not with a secret in it, nor beyond the limits."""
        inside = path.removeprefix(f"{self.project.rstrip('/')}/")
        room = FILES_LIMIT - sum(map(len, self._originals.values()))
        is_new = inside != path and inside not in self._originals
        if is_new and len(text) <= room and self._redact(text) == text:
            self._originals[inside] = text

    def broke_off(self) -> None:
        """The last reply was interrupted, or ended in an error."""
        place = max((at for at, turn in enumerate(self._turns) if turn.role != "tool"), default=None)
        if place is not None and self._turns[place].role == "user":
            self._add("assistant", "", None, failed=True)
        elif place is not None:
            self._turns[place] = replace(self._turns[place], failed=True)

    def touch(self, time: datetime | None) -> None:
        """Something happened at this time."""
        if time is not None:
            first, last = self._times or (time, time)
            self._times = min(first, time), max(last, time)

    def finish(self, written: datetime) -> RecordedSession | None:
        """The session, dated by the file where its records are not; None without a person's words."""
        if not any(turn.role == "user" for turn in self._turns):
            return None
        started, ended = self._times or (written, written)
        return RecordedSession(
            source=self._source,
            id=self._line(self.id, 200),
            project=self._line(self.project, 1_000),
            started=started,
            ended=ended,
            turns=tuple(self._turns),
            skills=tuple(self._skills),
            is_ours=self._is_ours
            or is_our_call(self.project, ())
            or is_public_replay(self.project, self._asked),
            path=self._redact(self._path),
            originals=self._originals,
        )

    def _add(
        self,
        role: Speaker,
        text: str,
        time: datetime | None,
        *,
        tools: tuple[ToolUse, ...] = (),
        failed: bool = False,
    ) -> None:
        if len(self._turns) >= MOST_TURNS:
            return
        kept, clipped = self._kept(text, min(TEXT_LIMITS[role], max(_HINT, self._room[role])))
        self._room[role] -= len(kept)
        self._turns.append(Turn(role=role, text=kept, time=time, tools=tools, clipped=clipped, failed=failed))

    def _kept(self, text: str, limit: int) -> tuple[str, bool]:
        # Without halves of surrogate pairs, which JSON escapes can hold and no file can.
        plain = self._redact(text[: limit + _AHEAD].encode("utf-8", "replace").decode("utf-8"))
        return plain[:limit].rstrip(), len(plain) > limit or len(text) > limit + _AHEAD

    def _line(self, text: str, limit: int) -> str:
        return " ".join(self._kept(text, limit)[0].split())


def _subject(given: Any) -> str:
    """What a tool was called on, out of its input."""
    given = _opened(given)
    if isinstance(given, str):
        return given
    if isinstance(given, Mapping):
        for key in _SUBJECTS:
            value = given.get(key)
            if isinstance(value, list):
                value = " ".join(str(part) for part in value[:50])
            if isinstance(value, str) and value.strip():
                return value
    return ""


def _skills(tool: str, given: Any) -> Iterator[str]:
    """The skills that a call would load: by the agent's own tool for it, or by reading the file."""
    given = _opened(given)
    fields = given if isinstance(given, Mapping) else {}
    if tool.casefold() in _SKILL_TOOLS:
        told = [fields.get(key) for key in ("skill", "name", "skill_name", "command")]
        if name := next((name for name in told if isinstance(name, str)), ""):
            yield name.removeprefix("/")
            return
    for value in [given] if isinstance(given, str) else list(fields.values())[:50]:
        if isinstance(value, list):
            value = " ".join(part for part in value[:50] if isinstance(part, str))
        if isinstance(value, str):
            yield from _SKILL_FILE.findall(value[:20_000])


def _opened(given: Any) -> Any:
    """Input that is JSON inside a text, as a value."""
    if isinstance(given, str) and given[:1] == "{" and len(given) < 1 << 20:
        value = decoded(given)
        return given if value is None else value
    return given
