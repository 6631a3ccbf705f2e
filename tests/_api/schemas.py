"""What strict APIs ask of JSON schemas: of tools, and of the format a reply must have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from _api.fields import BadRequest, flag, mapping, only, text
from _loopback.answers import Api, texts

_NAME = re.compile("[A-Za-z0-9_-]{1,64}")


def check_tool(tool: Any, schema: str, at: str, extra: frozenset[str] = frozenset()) -> None:
    """A tool with a name and a schema under the field this API calls it by."""
    only(mapping(tool, at), {"name", "description", schema, *extra}, at)
    text(tool, "name", at)
    mapping(tool.get(schema), f"{at}.{schema}")


def check_schema_format(form: Mapping[str, Any], extra: set[str], at: str) -> None:
    """A named schema; under `strict` it must keep to the subset that can be enforced."""
    only(form, {"name", "schema", "strict", *extra}, at)
    if not isinstance(form.get("name"), str) or not _NAME.fullmatch(form["name"]):
        raise BadRequest(f"{at}.name must be up to 64 letters, digits, underscores and dashes")
    if "strict" in form:
        flag(form, "strict", at)
    check_reply_schema(form.get("schema"), f"{at}.schema", strict=form.get("strict", False))


def check_reply_schema(schema: Any, at: str, *, strict: bool) -> None:
    """The schema of a reply is an object; a strict one closes every object and, as OpenAI wants it, requires
    every property.
    """
    if mapping(schema, at).get("type") != "object":
        raise BadRequest(f"{at}: schema must be a JSON Schema of 'type: \"object\"'")
    if strict:
        _check_closed(schema, at)


def check_closed_objects(schema: Any, at: str) -> None:
    """Every object says `additionalProperties: false`, and every array what its items are."""
    _check_closed(mapping(schema, at), at, all_required=False)


def _check_closed(schema: Any, at: str, *, all_required: bool = True) -> None:
    if isinstance(schema, list):
        for index, item in enumerate(schema):
            _check_closed(item, f"{at}[{index}]", all_required=all_required)
        return
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            raise BadRequest(f"{at}: 'additionalProperties' is required to be supplied and to be false")
        if all_required and set(schema.get("required", ())) != set(schema.get("properties", {})):
            raise BadRequest(f"{at}: 'required' is required to be an array including every key in properties")
    if schema.get("type") == "array" and not schema.get("items"):
        raise BadRequest(f"{at}: array schema missing items")
    for name, value in schema.items():
        if name in ("properties", "$defs"):
            for key, one in value.items():
                _check_closed(one, f"{at}.{name}.{key}", all_required=all_required)
        elif name in ("items", "anyOf", "additionalProperties"):
            _check_closed(value, f"{at}.{name}", all_required=all_required)


def mentions_json(api: Api, body: Mapping[str, Any]) -> bool:
    """True when the conversation says the word JSON, which JSON mode without a schema asks for."""
    return any("json" in said.lower() for said in texts(api, body))
