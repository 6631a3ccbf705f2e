"""Codex: one file of lines a thread, in `sessions/YYYY/MM/DD/` or `archived_sessions/`, `.zst` when old.

A line is `{timestamp, type, payload}`. Prompts and answers stand in a file up to three times - as `event_msg`
of type `user_message` and
`agent_message`, as `event_msg` of type `item_completed`, and as `response_item` - depending on the version;
the n-th time a text comes in one of these forms is the same as the n-th time in another. Left out: threads of
sub-agents, developer messages, injected context,
`compacted`, `turn_context`, and the history a fork copies from the thread it came from.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from skillopt.transcripts.draft import SessionDraft, injected_skills, person_text
from skillopt.transcripts.records import mapping, records, string, text_of, when
from skillopt.transcripts.session import Homes
from skillopt.transcripts.source import FileSource, SourceReader, listed

_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


class CodexTranscripts(FileSource):
    """Threads of Codex; `CODEX_HOME` moves them."""

    name = "codex"

    def __init__(self, homes: Homes) -> None:
        super().__init__(homes)
        self._prompts: dict[str, list[bytes]] = {}
        """Digests of the prompts of every thread read so far, for forks of it."""

    def found(self) -> list[Path]:
        """Active threads by date, then archived ones."""
        home = self.homes.place(self.name, "CODEX_HOME", ".codex")
        patterns = [
            f"{folder}/**/*.jsonl{end}"
            for folder in ("sessions", "archived_sessions")
            for end in ("", ".zst")
        ]
        files = [path for pattern in patterns for path in listed(home, pattern)]
        return sorted(files, key=lambda path: (path.name.split(".jsonl")[0], len(path.name), str(path)))

    def read(self, path: Path, reader: SourceReader) -> Iterator[SessionDraft]:
        """The one thread of a file."""
        draft = reader.draft(path.name.split(".jsonl")[0], path)
        thread = _Thread(draft)
        for record in records(path, reader.tally):
            payload = record.get("payload")
            if not isinstance(payload, dict):
                continue
            time = when(record.get("timestamp")) or when(payload.get("timestamp"))
            if record.get("type") == "session_meta":
                if thread.is_started:
                    continue  # the meta of the thread whose history was copied
                thread.is_started = True
                source = payload.get("source")
                by_source = string(source).startswith("subagent") or "subagent" in mapping(source)
                if by_source or payload.get("thread_source") == "subagent":
                    reader.tally.drop("session of a sub-agent")
                    return
                draft.id = string(payload.get("id")) or string(payload.get("session_id")) or draft.id
                draft.project = string(payload.get("cwd"))
                thread.copied = list(self._prompts.get(str(payload.get("forked_from_id") or ""), ()))
            elif record.get("type") == "response_item":
                thread.item(payload, time)
            elif record.get("type") == "event_msg":
                thread.event(payload, time)
        self._prompts[draft.id] = thread.prompts
        yield draft


class _Thread:
    """One thread while it is read."""

    def __init__(self, draft: SessionDraft) -> None:
        self.draft = draft
        self.is_started = False
        self.copied: list[bytes] = []
        self.prompts: list[bytes] = []
        self._in_form: Counter[tuple[str, bytes]] = Counter()
        self._told: Counter[bytes] = Counter()

    def item(self, payload: Mapping[str, Any], time: datetime | None) -> None:
        """A record of what went to the model and came from it."""
        kind = payload.get("type")
        if kind == "message" and payload.get("role") == "user":
            self._ask("item", text_of(payload.get("content")), time)
        elif kind == "message" and payload.get("role") == "assistant":
            self._say("item", text_of(payload.get("content")), time)
        elif kind in _CALLS:
            given = payload.get("arguments") or payload.get("input") or mapping(payload.get("action")) or None
            name = str(payload.get("name") or str(kind).removesuffix("_call"))
            self.draft.say("", time, calls=[(str(payload.get("call_id") or ""), name, given)])
        elif kind in _OUTPUTS:
            text, failed = _output(payload.get("output"))
            self.draft.result(str(payload.get("call_id") or ""), text, time, failed=failed)

    def event(self, payload: Mapping[str, Any], time: datetime | None) -> None:
        """A record of what was shown to the person."""
        kind = payload.get("type")
        item = mapping(payload.get("item")) if kind == "item_completed" else {}
        if kind == "user_message":
            self._ask("event", string(payload.get("message")), time)
        elif kind == "agent_message":
            self._say("event", string(payload.get("message")), time)
        elif item.get("type") in ("UserMessage", "user_message"):
            self._ask("completed", text_of(item.get("content")) or string(item.get("message")), time)
        elif item.get("type") in ("AgentMessage", "agent_message"):
            self._say("completed", text_of(item.get("content")) or string(item.get("text")), time)
        elif kind in ("turn_aborted", "stream_error"):
            self.draft.touch(time)
            self.draft.broke_off()

    def _ask(self, form: str, text: str, time: datetime | None) -> None:
        for name in injected_skills(text):
            self.draft.skill(name)
        words = person_text(text)
        if not words or not self._is_new(form, "user", words):
            return
        digest = _digest("user", words)
        self.prompts.append(digest)
        if self.copied:
            if self.copied[0] == digest:
                self.copied.pop(0)
                return
            self.copied = []
        self.draft.ask(text, time)

    def _say(self, form: str, text: str, time: datetime | None) -> None:
        if text.strip() and self._is_new(form, "assistant", text) and not self.copied:
            self.draft.say(text, time)

    def _is_new(self, form: str, role: str, text: str) -> bool:
        """Whether this is one more than was told already, in whatever form."""
        digest = _digest(role, text)
        self._in_form[form, digest] += 1
        if self._in_form[form, digest] <= self._told[digest]:
            return False
        self._told[digest] += 1
        return True


def _output(value: Any) -> tuple[str, bool]:
    """Text and failure of what a tool gave back; older versions put JSON with an exit code there."""
    if isinstance(value, dict):
        failed = value.get("success") is False
        return text_of(value.get("content")) or string(value.get("output")), failed
    text = value if isinstance(value, str) else text_of(value)
    head = text[:400]
    return text, "Process exited with code " in head and "Process exited with code 0" not in head


def _digest(role: str, text: str) -> bytes:
    return hashlib.sha256(f"{role}\0{' '.join(text.split())}".encode("utf-8", "replace")).digest()[:16]
