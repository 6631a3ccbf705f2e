"""Devin: one file a session in the trajectory format ATIF, `cli/transcripts/*.json` of its data folder.

The file is `{schema_version: "ATIF...", session_id, steps: [{source: user|agent|system, message, timestamp,
tool_calls, observation}]}`. Left out: system steps, copied context, and trajectories of another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from skillopt.transcripts.draft import SessionDraft
from skillopt.transcripts.records import Call, document, mapping, objects, string, text_of, when
from skillopt.transcripts.source import FileSource, SourceReader, listed

_FOLDERS = ("cwd", "workspace", "working_directory", "working_dir")


class DevinTranscripts(FileSource):
    """Transcripts of Devin's command line."""

    name = "devin"

    def found(self) -> list[Path]:
        """The transcripts, in whichever data folder the platform uses."""
        named = self.homes.places.get(self.name)
        bases = [named] if named is not None else [self.homes.data() / "devin"]
        if named is None and self.homes.platform == "win32":
            bases.append(self.homes.config() / "devin")
        return [path for base in bases for path in listed(base / "cli" / "transcripts", "*.json")]

    def read(self, path: Path, reader: SourceReader) -> Iterator[SessionDraft]:
        """The one session of a file."""
        told = document(path, reader.tally)
        if told is None:
            return
        steps = told.get("steps")
        if not str(told.get("schema_version")).startswith("ATIF") or not isinstance(steps, list):
            reader.tally.skip("file of an unknown version")
            return
        if told.get("parent_session_id") or told.get("parent_trajectory_id"):
            reader.tally.drop("session of a sub-agent")
            return
        draft = reader.draft(string(told.get("session_id")) or path.stem, path, project=self._project(told))
        for step in steps:
            if not isinstance(step, dict):
                reader.tally.skip("record that is no JSON object")
            elif step.get("is_copied_context") is not True:
                _step(draft, step)
        yield draft

    def _project(self, told: Mapping[str, Any]) -> str:
        """The folder, where the file says it; else the one workspace the user named, if it is one."""
        for extra in (told.get("extra"), mapping(told.get("agent")).get("extra")):
            for key in _FOLDERS:
                if folder := string(mapping(extra).get(key)):
                    return folder
        named = self.homes.env.get("SKILLOPT_DEVIN_WORKSPACES", "").split(os.pathsep)
        named = [folder for folder in named if folder.strip()]
        return named[0] if len(named) == 1 else ""


def _step(draft: SessionDraft, step: Mapping[str, Any]) -> None:
    time = when(step.get("timestamp"))
    text = text_of(step.get("message"))
    if step.get("source") == "user":
        draft.ask(text, time)
    elif step.get("source") == "agent":
        calls: list[Call] = [
            (str(call.get("tool_call_id") or ""), call["function_name"], call.get("arguments"))
            for call in objects(step.get("tool_calls"))
            if isinstance(call.get("function_name"), str)
        ]
        draft.say(text, time, calls=calls)
        for result in objects(mapping(step.get("observation")).get("results")):
            draft.result(str(result.get("source_call_id") or ""), text_of(result.get("content")), time)
