"""OpenCode: one SQLite database with the tables `session`, `message` and `part`; the last two hold JSON.

Left out: sessions of sub-agents, parts that are `synthetic` or `ignored`, summaries, and reasoning.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skillopt.transcripts.draft import SessionDraft, injected_skills, without_skill_body
from skillopt.transcripts.records import Call, decoded, mapping, string, when
from skillopt.transcripts.source import (
    FileSource,
    SourceReader,
    bounded,
    columns,
    or_null,
    read_only,
    written_with_log,
)

_FILE = "opencode.db"
_SESSION = ("id", "parent_id", "directory", "agent", "time_created", "time_updated")
_PUBLIC_ENGINE = re.compile(r"skillopt-sleep-[0-9a-f]{32}")
"""The agent under which the public engine asks."""


class OpenCodeTranscripts(FileSource):
    """Sessions of OpenCode; `OPENCODE_DB` and `XDG_DATA_HOME` move the database."""

    name = "opencode"
    written = staticmethod(written_with_log)

    def found(self) -> list[Path]:
        """The database, where there is one."""
        named = self.homes.places.get(self.name)
        if named is not None:
            return [path for path in (named, named / _FILE) if path.is_file()][:1]
        folders = [self.homes.folder("XDG_DATA_HOME", self.homes.home / ".local" / "share") / "opencode"]
        if self.homes.platform == "win32":
            local = [self.homes.env.get(name, "") for name in ("LOCALAPPDATA", "APPDATA")]
            folders = [*(Path(base) / "opencode" for base in local if base), *folders]
        if given := self.homes.env.get("OPENCODE_DB", "").strip():
            candidates = [] if given == ":memory:" else [folder / given for folder in folders]
        else:
            candidates = [folder / _FILE for folder in folders]
        return [path for path in candidates if path.is_file()][:1]

    def read(self, path: Path, reader: SourceReader) -> Iterator[SessionDraft]:
        """Every session of the database that a person had, oldest first."""
        with read_only(path) as database:
            there = columns(database, "session")
            needed = {"id", "message_id", "session_id", "data"}
            has_parts = needed <= columns(database, "part") and columns(database, "message")
            if not {"id", "directory"} <= there or not has_parts:
                reader.tally.skip("database of an unknown version")
                return
            order = "time_created, id" if "time_created" in there else "id"
            for id, parent, directory, agent, created, updated in database.execute(
                f"SELECT {or_null(_SESSION, there)} FROM session ORDER BY {order}"
            ):
                if parent is not None:
                    reader.tally.drop("session of a sub-agent")
                    continue
                if _PUBLIC_ENGINE.fullmatch(string(agent)):
                    reader.tally.drop("our own call")
                    continue
                draft = reader.draft(str(id), path, project=string(directory))
                draft.touch(when(created))
                draft.touch(when(updated))
                self._messages(database, draft, str(id), reader)
                yield draft

    def _messages(
        self, database: sqlite3.Connection, draft: SessionDraft, id: str, reader: SourceReader
    ) -> None:
        rows = database.execute(
            f"SELECT id, time_created, {bounded('data')} FROM message WHERE session_id = ? ORDER BY"
            " time_created, id",
            (id,),
        )
        for message, time, raw in rows:
            data = _object(raw, reader)
            if data is None or data.get("summary") is True:
                continue
            found = database.execute(
                f"SELECT {bounded('data')} FROM part WHERE message_id = ? ORDER BY id", (message,)
            )
            read = [_object(raw, reader) or {} for (raw,) in found]
            parts = [part for part in read if not part.get("synthetic") and not part.get("ignored")]
            text = "\n".join(string(part.get("text")) for part in parts if part.get("type") == "text")
            if data.get("role") == "user":
                for name in injected_skills(text):
                    draft.skill(name)
                draft.ask(without_skill_body(text), when(time))
            elif data.get("role") == "assistant":
                self._assistant(draft, data, parts, text, when(time))

    def _assistant(
        self, draft: SessionDraft, data: dict[str, Any], parts: list[dict[str, Any]], text: str, time: Any
    ) -> None:
        failed = bool(data.get("error"))
        calls: list[Call] = []
        results: list[tuple[str, str, bool]] = []
        for part in parts:
            state, inner = mapping(part.get("state")), mapping(part.get("toolInvocation"))
            if part.get("type") == "tool" and isinstance(part.get("tool"), str):
                call = str(part.get("callID") or len(calls))
                calls.append((call, part["tool"], state.get("input")))
                if state.get("status") in ("completed", "error"):
                    output = string(state.get("output")) or string(state.get("error"))
                    results.append((call, output, state["status"] == "error"))
            elif part.get("type") == "tool-invocation" and isinstance(inner.get("toolName"), str):
                call = str(inner.get("toolCallId") or len(calls))
                calls.append((call, inner["toolName"], inner.get("args")))
        draft.say(text, time, calls=calls, failed=failed)
        for call, output, is_error in results:
            draft.result(call, output, time, failed=is_error)
        if failed:
            draft.broke_off()


def _object(raw: Any, reader: SourceReader) -> dict[str, Any] | None:
    """A JSON column as an object; if it is no object, the record is counted as skipped and None returned."""
    value = decoded(raw) if isinstance(raw, (str, bytes)) else None
    if isinstance(value, dict):
        return value
    reader.tally.skip("record that is no JSON object" if raw is not None else "record too long")
    return None
