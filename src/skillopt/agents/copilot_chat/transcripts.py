"""Copilot Chat in VS Code: one log of changes a session, `workspaceStorage/<id>/chatSessions/*.jsonl`.

A line changes the session's state: `{kind: 0, v}` sets all of it, `{kind: 1, k, v}` a place in it, `{kind: 2,
k, v, i?}` cuts a list at
`i` and appends, `{kind: 3, k}` deletes. Only the fields that are read are kept while the log is replayed.
Left out: requests to other agents or by the editor itself, and workspaces without a folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from skillopt.transcripts.draft import SessionDraft
from skillopt.transcripts.records import Call, decoded, mapping, objects, records, string, when
from skillopt.transcripts.source import FileSource, SourceReader, listed

_EDITORS = ("Code", "Code - Insiders")
_EXTENSION = "github.copilot-chat"
_FIELDS = {
    *("sessionId", "creationDate", "requests", "agent", "extensionId", "_lower", "value"),
    *("isSystemInitiated", "message", "text", "timestamp", "modelState", "completedAt", "response", "kind"),
    *("toolId", "result", "errorDetails", "invocationMessage", "pastTenseMessage", "uris"),
}
_MOST_TEXT = 40_000
_MOST_ITEMS = 20_000


class CopilotChatTranscripts(FileSource):
    """Chat sessions of VS Code, its Insiders edition and a portable one."""

    name = "copilot_chat"

    def found(self) -> list[Path]:
        """The logs of every workspace of every edition."""
        return [path for root in self._storages() for path in listed(root, "*/chatSessions/*.jsonl")]

    def read(self, path: Path, reader: SourceReader) -> Iterator[SessionDraft]:
        """The one session of a log."""
        project = _workspace(path.parent.parent / "workspace.json")
        if not project:
            reader.tally.drop("workspace without a folder")
            return
        state: dict[str, Any] = {}
        for record in records(path, reader.tally):
            try:
                state = _changed(state, record)
            except (KeyError, IndexError, TypeError, ValueError):
                reader.tally.skip("change that fits nowhere")
        draft = reader.draft(string(state.get("sessionId")) or path.stem, path, project=project)
        draft.touch(when(state.get("creationDate")))
        for request in objects(state.get("requests")):
            self._request(draft, request)
        yield draft

    def _storages(self) -> list[Path]:
        named = self.homes.places.get(self.name)
        if named is not None:
            return [named]
        roots = [self.homes.config() / editor for editor in _EDITORS]
        if portable := self.homes.env.get("VSCODE_PORTABLE", "").strip():
            roots.append(Path(portable) / "user-data")
        return [root / "User" / "workspaceStorage" for root in roots]

    def _request(self, draft: SessionDraft, request: Mapping[str, Any]) -> None:
        extension = mapping(request.get("agent")).get("extensionId")
        if isinstance(extension, dict):
            extension = extension.get("_lower") or extension.get("value")
        if str(extension).lower() != _EXTENSION or request.get("isSystemInitiated") is True:
            return
        message = request.get("message")
        text = message.get("text") if isinstance(message, dict) else message
        asked = when(request.get("timestamp"))
        if not isinstance(text, str) or not draft.ask(text, asked):
            return
        done = when(mapping(request.get("modelState")).get("completedAt"))
        failed = bool(mapping(request.get("result")).get("errorDetails"))
        said, calls = _response(objects(request.get("response")))
        draft.say(said, done or asked, calls=calls, proven=True, failed=failed)
        if failed:
            draft.broke_off()


def _response(parts: list[dict[str, Any]]) -> tuple[str, list[Call]]:
    texts: list[str] = []
    calls: list[Call] = []
    for part in parts:
        if part.get("kind") in (None, "markdownContent"):
            texts.append(_message(part.get("value")))
        elif part.get("kind") == "toolInvocationSerialized" and isinstance(part.get("toolId"), str):
            about = _message(part.get("pastTenseMessage")) or _message(part.get("invocationMessage"))
            calls.append(("", part["toolId"], {"path": about}))
    return "".join(texts), calls


def _message(value: Any) -> str:
    return string(value) or string(mapping(value).get("value"))


def _changed(state: dict[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """The state after one line of the log; raises where the line fits nowhere."""
    kind = record.get("kind")
    if kind == 0:
        value = _pruned(record["v"])
        if not isinstance(value, dict):
            raise TypeError("a state is an object")
        return value
    if kind not in (1, 2, 3):
        raise ValueError("an unknown change")
    *way, last = record["k"]
    if any(isinstance(step, str) and step not in _FIELDS for step in (*way, last)):
        return state
    place: Any = state
    for step in way:
        place = place[step]
    if kind == 1 and isinstance(place, list) and last == len(place):
        place.append(_pruned(record.get("v")))
    elif kind == 1:
        place[last] = _pruned(record.get("v"))
    elif kind == 3:
        del place[last]
    else:
        items, more = place.setdefault(last, []) if isinstance(place, dict) else place[last], record["v"]
        if not isinstance(items, list) or not isinstance(more, list):
            raise TypeError("only a list can be appended to, and only another list")
        if isinstance(record.get("i"), int):
            del items[record["i"] :]
        items.extend(_pruned(more)[: max(0, _MOST_ITEMS - len(items))])
    return state


def _pruned(value: Any) -> Any:
    """A value without the fields that are not read, which hold most of a log."""
    if isinstance(value, dict):
        return {key: _pruned(item) for key, item in value.items() if key in _FIELDS}
    if isinstance(value, list):
        return [_pruned(item) for item in value[:_MOST_ITEMS]]
    return value[:_MOST_TEXT] if isinstance(value, str) else value


def _workspace(path: Path) -> str:
    """The folder of a workspace from the editor's own note about it."""
    try:
        with path.open("rb") as file:
            note = decoded(file.read(1 << 20))
    except OSError:
        return ""
    try:
        parts = urlsplit(string(mapping(note).get("folder") or mapping(note).get("workspace")))
    except ValueError:
        return ""
    if parts.scheme != "file":
        return ""
    folder = unquote(parts.path)
    if folder[:1] == "/" and folder[2:3] == ":":  # file:///c%3A/Users/...
        folder = folder[1:]
    return folder if note.get("folder") else folder.rpartition("/")[0]
