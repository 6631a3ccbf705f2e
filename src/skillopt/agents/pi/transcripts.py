"""Pi: one file of lines a session, below `sessions/` of its agent folder; `id` and `parentId` form a tree.

Only the branch that leads to the last entry is the session: what was tried and left is another story. Version
1 has no tree and is read as it stands. Left out: compaction and branch summaries, messages of extensions, and
entries a fork copied from another session.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from skillopt.transcripts.draft import SessionDraft
from skillopt.transcripts.records import calls_of, records, string, text_of, when
from skillopt.transcripts.session import Harvest
from skillopt.transcripts.source import FileSource, SourceReader, listed


class PiTranscripts(FileSource):
    """Sessions of Pi; `PI_CODING_AGENT_DIR` moves its agent folder."""

    name = "pi"

    def found(self) -> list[Path]:
        """The sessions of every folder."""
        named = self.homes.places.get(self.name)
        agent = (named or self.homes.home / ".pi") / "agent"
        if named is None:
            agent = self.homes.folder("PI_CODING_AGENT_DIR", agent)
        return listed(agent / "sessions", "**/*.jsonl")

    def read(self, path: Path, reader: SourceReader) -> Iterator[SessionDraft]:
        """The one session of a file: once over it for the tree, once more for the entries of the branch."""
        branch = _branch(path, reader)
        draft = reader.draft(path.stem, path)
        for number, record in enumerate(records(path, Harvest())):  # bad ones are not counted twice
            if record.get("type") == "session":
                draft.id = string(record.get("id")) or draft.id
                draft.project = draft.project or string(record.get("cwd"))
                draft.touch(when(record.get("timestamp")))
            if record.get("type") != "message" or (branch is not None and number not in branch):
                continue
            message = record.get("message")
            if isinstance(message, dict):
                time = when(record.get("timestamp")) or when(message.get("timestamp"))
                # Ids are eight characters: only with the time do they name one entry among all files.
                id = string(record.get("id"))
                if id and not reader.first_time(f"{id} {record.get('timestamp')}"):
                    reader.tally.skip("copy of an earlier record")
                    continue
                role, content = message.get("role"), message.get("content")
                if role == "user":
                    draft.ask(text_of(content), time)
                elif role == "assistant":
                    failed = message.get("stopReason") in ("error", "aborted")
                    draft.say(text_of(content), time, calls=calls_of(content), failed=failed)
                    if failed:
                        draft.broke_off()
                elif role == "toolResult":
                    call, failed = str(message.get("toolCallId") or ""), message.get("isError") is True
                    draft.result(call, text_of(content), time, failed=failed)
        yield draft


def _branch(path: Path, reader: SourceReader) -> set[int] | None:
    """The numbers of the records from the root to the last entry; None where there is no tree.

    A broken link ends the walk: what is below it is still the branch.
    """
    parents: dict[str, tuple[int, str | None]] = {}
    last: str | None = None
    for number, record in enumerate(records(path, reader.tally)):
        id, parent = record.get("id"), record.get("parentId")
        if record.get("type") == "session" or not isinstance(id, str):
            continue
        if "parentId" in record:
            parents[id] = (number, parent if isinstance(parent, str) else None)
            last = id
    if last is None:
        return None
    branch: set[int] = set()
    step: str | None = last
    while step is not None and step in parents:
        number, step = parents.pop(step)  # popped, so that a circle ends
        branch.add(number)
    return branch
