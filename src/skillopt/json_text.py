"""Puts a member or an item into a JSON text and takes it out, with every other byte as it was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from skillopt.skill.document import newline_of
from skillopt.skill.layout import BOM

MISSING: Any = object()
"""What stands at a place where nothing is; None is a JSON value."""
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_LOOSE = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])', re.DOTALL)


class NotPlainJson(ValueError):
    """The text is not an object of plain JSON; `str(error)` ends the sentence 'The file ...'."""


def value_at(text: str, path: Sequence[str]) -> Any:
    """The value at a path of keys, `MISSING` where there is none. Comments and trailing commas are read over.

    Raises `NotPlainJson` for what is no JSON object even so.
    """
    value = _read_loosely(text)
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return MISSING
        value = value[key]
    return value


def with_member(text: str, path: Sequence[str], value: Any) -> str:
    """The text with a value at a path of keys where nothing is yet. Objects on the way that are missing are
    made.

    Raises `NotPlainJson` where the text has comments or trailing commas, or no object on the way.
    """
    bom, body = _split(text)
    if not body.strip():
        return bom + json.dumps(_nested(path, value), indent=2, ensure_ascii=False) + "\n"
    _require_plain(body)
    at, depth = _deepest(body, path)
    if depth == len(path):
        raise NotPlainJson(f"already has something at {'.'.join(path)}")
    container = _open(body, at)
    if body[at] != "{":
        raise NotPlainJson(f"has no object at {'.'.join(path[:depth]) or 'its top'}")
    return bom + _insert(body, container, _nested(path[depth + 1 :], value), key=path[depth])


def with_item(text: str, path: Sequence[str], value: Any) -> str:
    """The text with a value at the end of a list, made where it is missing; raises as `with_member`."""
    bom, body = _split(text)
    if not body.strip() or value_at(body, path) is MISSING:
        return with_member(text, path, [value])
    _require_plain(body)
    at, _ = _deepest(body, path)
    if body[at] != "[":
        raise NotPlainJson(f"has no list at {'.'.join(path)}")
    return bom + _insert(body, _open(body, at), value, key=None)


def without_member(text: str, path: Sequence[str]) -> str:
    """The text without the member at a path, if there is one; raises as `with_member` does."""
    bom, body = _split(text)
    _require_plain(body)
    at, depth = _deepest(body, path)
    if depth < len(path):
        return text
    parent, _ = _deepest(body, path[:-1])
    container = _open(body, parent)
    return bom + _remove(body, container, next(n for n, part in enumerate(container.parts) if part.at == at))


def without_item(text: str, path: Sequence[str], value: Any) -> str:
    """The text without the list's items that equal the value; raises as `with_member` does."""
    bom, body = _split(text)
    _require_plain(body)
    while isinstance(there := value_at(body, path), list) and value in there:
        at, _ = _deepest(body, path)
        body = _remove(body, _open(body, at), there.index(value))
    return bom + body


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPart:
    """A member or an item: where it starts (with its key), where its value starts, and where it ends."""

    key: str | None
    start: int
    at: int
    end: int
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class _Container:
    start: int
    """Of the opening bracket."""
    end: int
    """Of the closing bracket."""
    parts: tuple[JsonPart, ...]


def _split(text: str) -> tuple[str, str]:
    return (BOM, text[1:]) if text.startswith(BOM) else ("", text)


def _require_plain(body: str) -> None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        _read_loosely(body)  # says so where it is no JSON at all
        raise NotPlainJson(
            "has comments or trailing commas, which an edit by a program could lose"
        ) from error
    if not isinstance(value, dict):
        raise NotPlainJson("holds no JSON object")


def _read_loosely(text: str) -> Any:
    body = _split(text)[1]
    if not body.strip():
        return {}
    try:
        value = json.loads(_LOOSE.sub(lambda found: found[0] if found[0].startswith('"') else " ", body))
    except (ValueError, RecursionError) as error:
        raise NotPlainJson(f"is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise NotPlainJson("holds no JSON object")
    return value


def _nested(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _deepest(body: str, path: Sequence[str]) -> tuple[int, int]:
    """Where the value of the longest prefix of the path starts, and how many keys that prefix has."""
    at = skip_space(body, 0)
    for depth, key in enumerate(path):
        if body[at] != "{":
            return at, depth
        found = [part for part in _open(body, at).parts if part.key == key]
        if len(found) > 1:
            raise NotPlainJson(f"has the key {key!r} twice in one object")
        if not found:
            return at, depth
        at = found[0].at
    return at, len(path)


def json_parts(text: str, at: int, decoder: json.JSONDecoder = _DECODER) -> Iterator[JsonPart]:
    """The parts of the object or list that starts there, in a text that is known to be JSON."""
    is_object, here = text[at] == "{", skip_space(text, at + 1)
    while text[here] not in "}]":
        start, key = here, None
        if is_object:
            key, here = decoder.raw_decode(text, here)
            here = skip_space(text, skip_space(text, here) + 1)
        value, end = decoder.raw_decode(text, here)
        yield JsonPart(key=key, start=start, at=here, end=end, value=value)
        here = skip_space(text, end)
        if text[here] == ",":
            here = skip_space(text, here + 1)


def _open(body: str, at: int) -> _Container:
    parts = tuple(json_parts(body, at)) if body[at] in "{[" else ()
    return _Container(start=at, end=skip_space(body, parts[-1].end if parts else at + 1), parts=parts)


def _insert(body: str, container: _Container, value: Any, *, key: str | None) -> str:
    newline = newline_of(body)
    unit = _unit(body)
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    if container.parts:
        before = body[container.start + 1 : container.parts[0].start]
        last = container.parts[-1].end
        if "\n" not in before:
            return f"{body[:last]}, {name}{json.dumps(value, ensure_ascii=False)}{body[last:]}"
        indent = before.rpartition("\n")[2]
        return f"{body[:last]},{newline}{indent}{name}{_rendered(value, indent, unit, newline)}{body[last:]}"
    line = body[: container.start].rpartition("\n")[2]
    own = line[: len(line) - len(line.lstrip(" \t"))]
    inside = f"{newline}{own}{unit}{name}{_rendered(value, own + unit, unit, newline)}{newline}{own}"
    return body[: container.start + 1] + inside + body[container.end :]


def _rendered(value: Any, indent: str, unit: str, newline: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline + indent)


def _unit(body: str) -> str:
    """One step of indentation as the file has it."""
    root = _open(body, skip_space(body, 0))
    before = body[root.start + 1 : root.parts[0].start] if root.parts else ""
    return (before.rpartition("\n")[2] or "  ") if "\n" in before else "  "


def _remove(body: str, container: _Container, number: int) -> str:
    parts = container.parts
    if len(parts) == 1:
        return body[: container.start + 1] + body[container.end :]
    if number == len(parts) - 1:
        return body[: parts[number - 1].end] + body[parts[number].end :]
    return body[: parts[number].start] + body[parts[number + 1].start :]


def skip_space(text: str, at: int) -> int:
    """The first place from there on that is no white space of JSON."""
    found = _SPACE.match(text, at)
    assert found is not None, "an empty run matches"
    return found.end()
