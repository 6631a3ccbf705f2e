"""Builds one session out of records, and decides how much of each text is kept: redacted, then cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from skillopt.transcripts.records import Call, decoded
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
        names = [fields.get(key) for key in ("skill", "name", "skill_name", "command")]
        if name := next((name for name in names if isinstance(name, str)), ""):
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


_INJECTED = (
    *("system-reminder", "system_reminder", "system_notification", "environment_context"),
    *("user_instructions", "user_info", "ide_opened_file", "ide_selection", "ide_diagnostics"),
    *("attached_files", "open_and_recently_viewed_files", "git_status", "rules", "local-command-stdout"),
    *("local-command-stderr", "local-command-caveat", "bash-input", "bash-stdout", "bash-stderr"),
    *("task-notification", "turn_aborted", "user_shell_command", "user-prompt-submit-hook"),
    *("codex_internal_context", "INSTRUCTIONS", "skill", "skill-context", "current_datetime", "timestamp"),
    *("command-message", "command-name", "command-args", "available_skills"),
)
_TAG = re.compile(rf"<(/?)({'|'.join(map(re.escape, _INJECTED))})(?:\s[^<>]{{0,300}})?>", re.IGNORECASE)
_QUERY_OPEN, _QUERY_CLOSE = "<user_query>", "</user_query>"
_IDE_OPENING, _IDE_REQUEST = "# Context from my IDE setup", "## My request for Codex:"
_MACHINE = (
    *(
        "Caveat: The messages below were generated by the user",
        "This session is being continued from a previous conversation",
    ),
    *(
        "# AGENTS.md instructions",
        "Base directory for this skill:",
        "Stop hook feedback:",
        "[Request interrupted by user",
    ),
    *("# /", "API Error:", "No response requested."),
)
_ELEMENT = re.compile(r"<([A-Za-z][\w-]{0,60})(?:\s[^<>]{0,300})?>.*</\1>", re.DOTALL)
_COMMAND = re.compile(r"/[A-Za-z][\w:.-]{0,80}|\$[a-z][a-z0-9_:.-]{0,80}")
"""A command or a skill by its name, as `/name` or `$name`; `/usr/bin` and `$PATH` are neither."""
_PLACEHOLDERS = re.compile(r"(?:\[(?:Pasted text|Image|Audio|File)[^\]]{0,80}\]\s{0,20}){1,50}")
_SKILL_LINE = re.compile(r"^Base directory for this skill: ([^\n]{1,1000})$", re.MULTILINE)
_SKILL_REST = re.compile(r"\s*(?:Relative paths in this skill[^\n]*\n)?\s*")
_SKILL_TAG = re.compile(
    r"<skill>\s{0,20}<name>([^<>\n]{1,100})</name>|<skill-context name=\"([^\"\n]{1,100})\""
)
_ARGUMENTS_OPEN, _ARGUMENTS_CLOSE = "<command-args>", "</command-args>"
INTERRUPTED = "[Request interrupted by user"


def person_text(text: str) -> str:
    """What the person wrote; empty where all of it was put there by a program."""
    text = _without_injected(_query(text)).strip()
    if text.startswith(_IDE_OPENING):
        text = text.rpartition(_IDE_REQUEST)[2].strip() if _IDE_REQUEST in text else ""
    if not text or text.startswith(_MACHINE) or _PLACEHOLDERS.fullmatch(text):
        return ""
    first, *rest = text.split(None, 1)
    if _COMMAND.fullmatch(first):
        return rest[0] if len(text.split(None, 3)) > 3 else ""
    return "" if text.startswith("<") and text.endswith(">") and _ELEMENT.fullmatch(text) else text


def command_arguments(text: str) -> str | None:
    """What stands behind a slash command, in a record that holds one; None in any other."""
    if "<command-name>" not in text[:400]:
        return None
    start, end = text.find(_ARGUMENTS_OPEN), text.rfind(_ARGUMENTS_CLOSE)
    return text[start + len(_ARGUMENTS_OPEN) : end].strip() if 0 <= start < end else ""


def injected_skills(text: str) -> list[str]:
    """Names of the skills whose text a program put into a record."""
    if "kill" not in text:
        return []
    named = [first or second for first, second in _SKILL_TAG.findall(text)]
    return named + [re.split(r"[\\/]", line.strip().rstrip("/\\"))[-1] for line in _SKILL_LINE.findall(text)]


def without_skill_body(text: str) -> str:
    """The text behind a skill that was put in front of it."""
    found = list(_SKILL_LINE.finditer(text))
    if not found:
        return text
    rest = text[found[-1].end() :]
    opening = _SKILL_REST.match(rest)
    return rest[opening.end() :] if opening else rest


def _query(text: str) -> str:
    """The last query of a record that wraps the person's words in a tag."""
    start = text.rfind(_QUERY_OPEN)
    if start < 0:
        return text
    end = text.find(_QUERY_CLOSE, start)
    return text[start + len(_QUERY_OPEN) : end if end >= 0 else len(text)]


def _without_injected(text: str) -> str:
    """The text without what stands between tags of programs; an unclosed one takes the rest with it."""
    if "<" not in text:
        return text
    kept: list[str] = []
    open_tags: list[str] = []
    end = 0
    for match in _TAG.finditer(text):
        name = match[2].lower()
        if match[1]:
            if name in open_tags:
                del open_tags[open_tags.index(name) :]
                end = match.end() if not open_tags else end
            continue
        if not open_tags:
            kept.append(text[end : match.start()])
        if len(open_tags) < 20:
            open_tags.append(name)
    if not open_tags:
        kept.append(text[end:])
    return "".join(kept)
