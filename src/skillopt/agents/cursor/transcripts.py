"""Cursor: one file of lines a session, `projects/<slug>/agent-transcripts/<session>/*.jsonl`.

A line is `{role, message: {content}}`, in between `{type: turn_ended, status}`. There are no times but the
`<timestamp>` tag in front of a query, by which `Tuesday, Jul 21, 2026, 1:11 PM (UTC+3)` is meant; the rest is
dated by the file. There are no tool results. Left out: `subagents/`, and `[REDACTED]` for thinking.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

from skillopt.transcripts.draft import SessionDraft
from skillopt.transcripts.records import calls_of, decoded, mapping, records, string, text_of, when
from skillopt.transcripts.source import FileSource, SourceReader, listed, written_at

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_STAMP = re.compile(
    r"<timestamp>\s{0,9}(?:[A-Za-z]{2,12},\s)?([A-Za-z]{3})[a-z]{0,9}\s(\d{1,2}),\s(\d{4}),?\s(\d{1,2}):(\d\d)\s?([AP]M)"
    r"\s\(UTC([+-]\d{1,2})(?::(\d\d))?\)\s{0,9}</timestamp>",
    re.ASCII,
)


class CursorTranscripts(FileSource):
    """Agent transcripts of Cursor and `cursor-agent`."""

    name = "cursor"

    def found(self) -> list[Path]:
        """The sessions of every project, without those of sub-agents."""
        home = self.homes.places.get(self.name) or self.homes.home / ".cursor"
        files = listed(home / "projects", "*/agent-transcripts/**/*.jsonl")
        return [path for path in files if "subagents" not in path.parts]

    def read(self, path: Path, reader: SourceReader) -> Iterator[SessionDraft]:
        """The one session of a file."""
        folder = next(parent for parent in path.parents if parent.name == "agent-transcripts").parent
        draft = reader.draft(path.stem, path, project=_project(folder))
        for record in records(path, reader.tally):
            message = record.get("message")
            content = message.get("content") if isinstance(message, dict) else message
            role = record.get("role") or mapping(message).get("role")
            time = when(record.get("timestamp"))
            if record.get("type") == "turn_ended":
                if record.get("status") not in ("success", "completed", None):
                    draft.broke_off()
            elif role == "user":
                text = text_of(content)
                draft.ask(text, time or _stamp(text))
            elif role == "assistant":
                said = text_of(content).strip().removesuffix("[REDACTED]")
                draft.say(said, time, calls=calls_of(content), proven=True)
        # A prompt's stamp is when it was asked, not when the session ended; the file knows that better.
        draft.touch(written_at(path))
        yield draft


def _stamp(text: str) -> datetime | None:
    """The time in front of a query; one without an offset is of nobody knows which zone, and is not used."""
    match = _STAMP.search(text[:4_000])
    if match is None or match[1].lower() not in _MONTHS:
        return None
    hour = int(match[4]) % 12 + (12 if match[6] == "PM" else 0)
    hours = int(match[7])
    ahead = timedelta(hours=hours, minutes=int(match[8] or 0) * (-1 if hours < 0 else 1))
    try:
        month = _MONTHS.index(match[1].lower()) + 1
        local = datetime(int(match[3]), month, int(match[2]), hour, int(match[5]), tzinfo=timezone.utc)
        return local - ahead
    except (ValueError, OverflowError):
        return None


def _project(folder: Path) -> str:
    """The workspace from Cursor's own note; the folder's name alone does not tell dashes apart."""
    try:
        with (folder / ".workspace-trusted").open("rb") as file:
            note = decoded(file.read(1 << 16))
    except OSError:
        return ""
    return string(mapping(note).get("workspacePath"))
