"""Reads a reply that has to be JSON of a certain shape, and says where a value does not fit a schema.

Two slips of models are mended, as they have one meaning only: line breaks inside of strings, and backslashes
that begin no escape (`\\d`). Everything else is usable as it stands or not at all.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from skillopt.messages import Message, Reply, Request, Role


class Unusable(Exception):
    """A reply that cannot be used; the text says why, in words the model can act on."""


R = TypeVar("R", bound=BaseModel)
DEEPEST = 64
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')
_FENCE = re.compile(r"```(?:json)?[ \t]*\r?\n(.*?)\r?\n[ \t]*```", re.DOTALL)


def read(reply: Reply, shape: type[R]) -> R:
    """The reply as its shape. Truncated, refused, ambiguous or ill-shaped ones are unusable; no guesses."""
    if reply.finish == "length":
        raise Unusable("the reply was cut off before it ended")
    if reply.finish == "refusal":
        raise Unusable("the request was refused")
    try:
        return shape.model_validate(_whole(_json_object(reply.text)))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'reply'}: {e['msg']}" for e in error.errors()[:5]
        )
        raise Unusable(f"the JSON has the wrong shape: {problems}") from error


def asked_again(messages: tuple[Message, ...], said: str, trouble: Unusable) -> tuple[Message, ...]:
    """The conversation that asks once more after a reply that cannot be used."""
    again = f"That reply cannot be used: {trouble}. Answer again: one JSON object in the shape asked for"
    return (
        *messages,
        Message(role="assistant", content=said),
        Message(role="user", content=f"{again}, nothing else."),
    )


@cache
def schema_of(shape: type[BaseModel]) -> Mapping[str, Any]:
    """What providers are shown of a shape."""
    return shape.model_json_schema()


def tries(
    messages: tuple[Message, ...], shape: type[BaseModel], *, role: Role, stage: str, max_tokens: int
) -> Iterator[Request]:
    """A question outside of any step, and the same once more; equal words have an equal place."""
    words = hashlib.sha256(
        "\0".join(message.content for message in messages).encode("utf-8", "replace")
    ).hexdigest()[:24]
    for attempt in (0, 1):
        yield Request(
            messages=messages,
            max_tokens=max_tokens,
            role=role,
            stage=stage,
            place=f"{stage}/{words}/a{attempt}",
            schema=schema_of(shape),
        )


def _json_object(text: str) -> dict[str, Any]:
    """The one JSON object of a reply: alone, in a single fence, or the only one inside prose."""
    candidates = [text.strip(), *[match.strip() for match in _FENCE.findall(text)]]
    for candidate in candidates:
        for spelling in (candidate, _with_whole_escapes(candidate)):
            try:
                found = _DECODER.decode(spelling)
            except (ValueError, RecursionError):  # nested beyond reading is as unusable as not JSON
                continue
            if isinstance(found, dict):
                return found
    objects = _top_level_objects(text) or _top_level_objects(_with_whole_escapes(text))
    if len(objects) == 1:
        return objects[0]
    raise Unusable(
        "there is no JSON object in the reply"
        if not objects
        else f"there are {len(objects)} JSON objects, one is wanted"
    )


def _whole(value: Any, depth: int = 0) -> Any:
    """The same without halves of surrogate pairs, which a JSON escape can hold and no file can."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if depth > DEEPEST:  # what is read here is written again, by code that recurses
        raise Unusable(f"the JSON is nested more than {DEEPEST} levels deep")
    if isinstance(value, dict):
        return {_whole(key): _whole(item, depth + 1) for key, item in value.items()}
    return [_whole(item, depth + 1) for item in value] if isinstance(value, list) else value


def _with_whole_escapes(text: str) -> str:
    """The text with every backslash that begins no escape of JSON doubled."""
    return _ESCAPE.sub(lambda found: found[0] if found[1] else "\\\\" + found[0][1:], text)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise Unusable(f"{digits[:20]} is no number that JSON can hold")
    return number


def _top_level_objects(text: str) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = []
    at = text.find("{")
    tries = 0
    while at != -1 and tries < 200:  # bounded: prose full of braces must not cost quadratic time
        tries += 1
        try:
            found, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(found, dict) and found:
                objects.append(found)
        at = text.find("{", end)
    return objects


# Not strict: line breaks and tabs may stand in strings as they are.
_DECODER = json.JSONDecoder(strict=False, parse_float=_finite, parse_constant=_finite)


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def misfits(
    value: Any, schema: Any, root: Mapping[str, Any] | None = None, where: str = "the answer"
) -> Iterator[str]:
    """One sentence for each place where the value does not fit a part of the schema `root`.

    By hand, as jsonschema is no dependency: it knows what schemas of replies use, and passes over the rest.
    """
    if not isinstance(schema, Mapping):
        return
    root = schema if root is None else root
    if "$ref" in schema:
        yield from misfits(value, _resolved(str(schema["$ref"]), root), root, where)
        return
    for key in ("anyOf", "oneOf"):
        if key in schema and all(any(misfits(value, option, root, where)) for option in schema[key]):
            yield f"{where} fits none of the allowed forms"
            return
    for part in schema.get("allOf", ()):
        yield from misfits(value, part, root, where)
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} must be one of {', '.join(map(repr, schema['enum']))}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{where} must be {schema['const']!r}"
        return
    wanted = schema.get("type")
    if wanted is not None and not any(
        _is(value, one) for one in ([wanted] if isinstance(wanted, str) else wanted)
    ):
        yield f"{where} must be of type {wanted}"
        return
    if isinstance(value, dict):
        yield from _in_object(value, schema, root, where)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from misfits(item, schema.get("items"), root, f"{where}[{index}]")


def _in_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], where: str
) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where} has no field {name!r}"
    further = schema.get("additionalProperties", True)
    for name, item in value.items():
        if name in known:
            yield from misfits(item, known[name], root, f"{where}.{name}")
        elif further is False:
            yield f"{where} has an unknown field {name!r}"
        else:
            yield from misfits(item, further, root, f"{where}.{name}")


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES.get(name, ()))


def _resolved(ref: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in [
        part.replace("~1", "/").replace("~0", "~")
        for part in ref.removeprefix("#").strip("/").split("/")
        if part
    ]:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
