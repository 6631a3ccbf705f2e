"""Claude Code: one file of lines a session, below `projects/` of its configuration folder.

A line has `type`, `timestamp`, `cwd`, `sessionId`, `uuid` and, for `user` and `assistant`, a `message` whose
`content` is text or blocks. Left out: `isMeta`, `isSidechain`, `isCompactSummary`, files of sub-agents
(`subagents/`, `agent-*`), and all other types. A resumed or forked session copies earlier records into its
own file under their old `uuid`; each is read once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skillopt.transcripts.draft import SessionDraft, command_arguments, injected_skills
from skillopt.transcripts.records import calls_of, mapping, records, results_of, string, text_of, when
from skillopt.transcripts.source import FileSource, SourceReader, listed


class ClaudeCodeTranscripts(FileSource):
    """Transcripts of Claude Code; `CLAUDE_CONFIG_DIR` moves them."""

    name = "claude_code"

    def found(self) -> list[Path]:
        """Every session of every project, without those of sub-agents, which have files of their own."""
        home = self.homes.place(self.name, "CLAUDE_CONFIG_DIR", ".claude")
        files = listed(home / "projects", "**/*.jsonl")
        return [one for one in files if not one.name.startswith("agent-") and "subagents" not in one.parts]

    def read(self, path: Path, reader: SourceReader) -> Iterator[SessionDraft]:
        """The one session of a file."""
        draft = reader.draft(path.stem, path)
        command: str | None = None
        for record in records(path, reader.tally):
            kind = record.get("type")
            if kind not in ("user", "assistant"):
                continue
            if record.get("isSidechain") is True or record.get("isCompactSummary") is True:
                continue
            if not reader.first_time(string(record.get("uuid"))):
                reader.tally.skip("copy of an earlier record")
                continue
            draft.project = draft.project or string(record.get("cwd"))
            content = mapping(record.get("message")).get("content")
            time = when(record.get("timestamp"))
            if kind == "assistant":
                self._assistant(draft, record, content, time)
            elif record.get("isMeta") is True:
                # A slash command that turns out to be a skill: what stood behind it is what the person asked.
                skills = injected_skills(text_of(content))
                for skill in skills:
                    draft.skill(skill)
                if skills and command:
                    draft.ask(command, time)
                command = None
            else:
                # Its tools that edit tell what the file was before.
                edit = mapping(record.get("toolUseResult"))
                if isinstance(before := edit.get("originalFile"), str):
                    draft.original(string(edit.get("filePath")), before)
                # A prompt, or results of tools; a slash command may be a skill.
                for call, text, failed in results_of(content):
                    draft.result(call, text, time, failed=failed)
                text = text_of(content)
                command = command_arguments(text)
                if command is None and text.strip():
                    draft.ask(text, time)
        yield draft

    def _assistant(self, draft: SessionDraft, record: dict[str, Any], content: Any, time: Any) -> None:
        if isinstance(record.get("attributionSkill"), str):
            draft.skill(record["attributionSkill"])
        failed = record.get("isApiErrorMessage") is True
        draft.say("" if failed else text_of(content), time, calls=calls_of(content), failed=failed)
        if failed:
            draft.broke_off()
