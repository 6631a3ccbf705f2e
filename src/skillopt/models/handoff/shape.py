"""Says in which way a JSON value does not fit a JSON schema: the part of the standard that reply schemas use,
and nothing silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def misfits(value: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each place where the value does not fit; none if it does."""
    yield from _misfits(value, schema, schema, "the answer")


def _misfits(value: Any, schema: Any, root: Mapping[str, Any], where: str) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    if "$ref" in schema:
        yield from _misfits(value, _resolved(str(schema["$ref"]), root), root, where)
        return
    for key in ("anyOf", "oneOf"):
        if key in schema and all(any(_misfits(value, option, root, where)) for option in schema[key]):
            yield f"{where} fits none of the allowed forms"
            return
    for part in schema.get("allOf", ()):
        yield from _misfits(value, part, root, where)
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
            yield from _misfits(item, schema.get("items"), root, f"{where}[{index}]")


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
            yield from _misfits(item, known[name], root, f"{where}.{name}")
        elif further is False:
            yield f"{where} has an unknown field {name!r}"
        else:
            yield from _misfits(item, further, root, f"{where}.{name}")


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
