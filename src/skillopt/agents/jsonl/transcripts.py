"""Plain lines of anybody's making: `*.jsonl` in `~/.skillopt-sleep/sessions/`, or what is named.

A line is one turn, `{"session": "s1", "project": "/path", "role": "user", "text": "...", "time":
"2026-11-15T09:00:00Z"}`, or a whole session, `{"id": "s1", "project": "/path", "time": "...", "messages":
[{"role": "user", "content": "..."}]}`. Without `session` all turns of a file are one. Turns of one session
stand together; `content` and `timestamp` are other names; an assistant's turn may name `tools`, `skills`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from skillopt.transcripts.draft import SessionDraft
from skillopt.transcripts.records import Call, calls_of, records, string, text_of, when
from skillopt.transcripts.source import FileSource, SourceReader, listed


class JsonlTranscripts(FileSource):
    """Sessions somebody wrote down in our own plain form."""

    name = "jsonl"

    def found(self) -> list[Path]:
        """The named file, or every file of the folder."""
        place = self.homes.places.get(self.name) or self.homes.home / ".skillopt-sleep" / "sessions"
        return [place] if place.is_file() else [*listed(place, "*.jsonl"), *listed(place, "*.jsonl.zst")]

    def read(self, path: Path, reader: SourceReader) -> Iterator[SessionDraft]:
        """The sessions of a file, one after the other."""
        draft: SessionDraft | None = None
        done: set[str] = set()
        for record in records(path, reader.tally):
            messages = record.get("messages")
            id = str(
                record.get("session")
                or record.get("id" if isinstance(messages, list) else "session")
                or path.name.split(".jsonl")[0]
            )
            if draft is not None and id != draft.id:
                done.add(draft.id)
                yield draft
                draft = None
            if id in done:
                reader.tally.skip("turn apart from its session")
                continue
            draft = draft or reader.draft(id, path)
            draft.project = draft.project or string(record.get("project")) or string(record.get("cwd"))
            for turn in messages if isinstance(messages, list) else [record]:
                if not isinstance(turn, dict) or not _turn(draft, turn, record):
                    reader.tally.skip("turn without a known role")
        if draft is not None:
            yield draft


def _turn(draft: SessionDraft, turn: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """One turn; False where its role is none of ours. A `system` turn is passed over in silence."""
    role = turn.get("role")
    text = text_of(turn.get("text") if turn.get("text") is not None else turn.get("content"))
    times = (when(told.get(key)) for told in (turn, record) for key in ("time", "timestamp"))
    time = next((found for found in times if found), None)
    for name in turn["skills"] if isinstance(turn.get("skills"), list) else []:
        draft.skill(str(name))
    if role == "user":
        draft.ask(text, time)
    elif role == "assistant":
        calls = [*calls_of(turn.get("content")), *_tools(turn.get("tools"))]
        draft.say(text, time, calls=calls, proven=True, failed=turn.get("failed") is True)
    elif role == "tool":
        draft.result(str(turn.get("tool_call_id") or ""), text, time, failed=turn.get("failed") is True)
    return role in ("user", "assistant", "tool", "system", "developer")


def _tools(value: Any) -> list[Call]:
    calls: list[Call] = []
    for tool in value if isinstance(value, list) else []:
        if isinstance(tool, str):
            calls.append(("", tool, None))
        elif isinstance(tool, dict) and isinstance(tool.get("name"), str):
            calls.append(("", tool["name"], tool.get("about") or tool.get("input")))
    return calls
