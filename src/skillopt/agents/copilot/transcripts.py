"""Copilot CLI: an SQLite database of sessions and turns, and a log of each session with skills and tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from skillopt.transcripts.draft import SessionDraft
from skillopt.transcripts.records import Call, records, string, when
from skillopt.transcripts.source import (
    FileSource,
    SourceReader,
    bounded,
    columns,
    or_null,
    read_only,
    written_with_log,
)

_SESSION = ("id", "cwd", "created_at", "updated_at")
_STATES = "session-state"


class CopilotCliTranscripts(FileSource):
    """Sessions of `copilot`; `COPILOT_HOME` moves them."""

    name = "copilot_cli"
    written = staticmethod(written_with_log)

    def found(self) -> list[Path]:
        """The database, where there is one."""
        home = self.homes.folder("COPILOT_HOME", self.homes.home / ".copilot")
        store = self.homes.places.get(self.name) or home / "session-store.db"
        return [store] if store.is_file() else []

    def read(self, path: Path, reader: SourceReader) -> Iterator[SessionDraft]:
        """Every session of the database, oldest first."""
        with read_only(path) as database:
            there = columns(database, "sessions")
            turn = columns(database, "turns")
            needed = {"session_id", "turn_index", "user_message", "assistant_response"}
            if "id" not in there or not needed <= turn:
                reader.tally.skip("database of an unknown version")
                return
            order = "created_at, id" if "created_at" in there else "id"
            for id, cwd, created, updated in database.execute(
                f"SELECT {or_null(_SESSION, there)} FROM sessions ORDER BY {order}"
            ):
                draft = reader.draft(str(id), path, project=string(cwd))
                draft.touch(when(created))
                draft.touch(when(updated))
                calls = self._events(path.parent / _STATES / str(id) / "events.jsonl", draft, reader)
                wanted = (
                    f"{bounded('user_message')}, {bounded('assistant_response')},"
                    f" {or_null(['timestamp'], turn)}, turn_index"
                )
                rows = database.execute(
                    f"SELECT {wanted} FROM turns WHERE session_id = ? ORDER BY turn_index", (id,)
                )
                for asked, said, time, number in rows:
                    if asked is None and said is None:
                        reader.tally.skip("record that is empty or too long")
                        continue
                    draft.ask(string(asked), when(time))
                    draft.say(string(said), when(time), calls=calls.get(number, []), proven=True)
                yield draft

    def _events(self, log: Path, draft: SessionDraft, reader: SourceReader) -> dict[int, list[Call]]:
        """The tools of each turn of a person; skills go straight into the draft. No log, no tools."""
        calls: dict[int, list[Call]] = {}
        turn = -1
        if draft.id in ("", ".", "..") or draft.id != Path(draft.id).name or not log.is_file():
            return calls
        for record in records(log, reader.tally):
            data = record.get("data")
            if not isinstance(data, dict) or record.get("agentId"):
                continue
            if data.get("agentId") or data.get("parentToolCallId"):
                continue  # what sub-agents did is not the session's
            kind = record.get("type")
            draft.touch(when(record.get("timestamp")))
            if kind == "user.message":
                turn += 1
            elif kind == "skill.invoked":
                draft.skill(string(data.get("name")))
            elif kind == "tool.execution_start" and data.get("toolName") not in (None, "skill"):
                calls.setdefault(max(turn, 0), []).append(("", str(data["toolName"]), data.get("arguments")))
        return calls
