"""What a correct body of the Responses API is."""

from __future__ import annotations

from typing import Any

from _api.fields import BadRequest, filled, flag, mapping, number, one_of, only, text, whole
from _api.schemas import check_schema_format, check_tool, mentions_json

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_KNOWN = {
    "model",
    "input",
    "max_output_tokens",
    "temperature",
    "top_p",
    "reasoning",
    "text",
    "tools",
    "store",
}
_PARTS = {"user": ("input_text", "input_image"), "assistant": ("output_text",)}


def check_responses(body: dict[str, Any]) -> None:
    """Raise `BadRequest`, naming the field, unless the body is correct."""
    only(body, _KNOWN, "body")
    text(body, "model", "body")
    whole(body, "max_output_tokens", 16)
    number(body, "temperature", 0, 2)
    number(body, "top_p", 0, 1)
    if "store" in body:
        flag(body, "store", "body")
    if "reasoning" in body:
        only(mapping(body["reasoning"], "reasoning"), {"effort"}, "reasoning")
        one_of(body["reasoning"].get("effort"), _EFFORTS, "reasoning.effort")
    if "text" in body:
        _check_format(body)
    for index, tool in enumerate(filled(body["tools"], "tools") if "tools" in body else ()):
        at = f"tools[{index}]"
        one_of(mapping(tool, at).get("type"), ("function",), f"{at}.type")
        flag(tool, "strict", at)
        check_tool(tool, "parameters", at, frozenset({"type", "strict"}))
    asked: set[str] = set()
    for index, item in enumerate(filled(body.get("input"), "input")):
        _check_item(mapping(item, f"input[{index}]"), asked, f"input[{index}]")
    if asked:
        raise BadRequest(f"No tool output found for function call {sorted(asked)[0]}")


def _check_format(body: dict[str, Any]) -> None:
    only(mapping(body["text"], "text"), {"format"}, "text")
    form = mapping(body["text"].get("format"), "text.format")
    one_of(form.get("type"), ("json_schema", "json_object"), "text.format.type")
    if form["type"] == "json_schema":
        check_schema_format(form, {"type"}, "text.format")
    elif not mentions_json("responses", body):
        raise BadRequest(
            "'input' must contain the word 'json' in some form, to use 'text.format' of type 'json_object'"
        )


def _check_item(item: dict[str, Any], asked: set[str], at: str) -> None:
    kind = item.get("type")
    if kind == "function_call":
        only(item, {"type", "call_id", "name", "arguments"}, at)
        for field in ("call_id", "name", "arguments"):
            text(item, field, at)
        asked.add(item["call_id"])
    elif kind == "function_call_output":
        only(item, {"type", "call_id", "output"}, at)
        if item.get("call_id") not in asked:
            raise BadRequest(f"{at}.call_id: {item.get('call_id')!r} is no open function call")
        if not isinstance(item.get("output"), str):
            raise BadRequest(f"{at}.output must be a text")
        asked.discard(item["call_id"])
    elif kind is None:
        _check_message(item, at)
    else:
        raise BadRequest(f"{at}.type must be function_call or function_call_output, got {kind!r}")


def _check_message(message: dict[str, Any], at: str) -> None:
    role = message.get("role")
    one_of(role, ("system", "developer", "user", "assistant"), f"{at}.role")
    only(message, {"role", "content"}, at)
    if isinstance(message.get("content"), str):
        return
    for index, part in enumerate(filled(message.get("content"), f"{at}.content")):
        where = f"{at}.content[{index}]"
        one_of(mapping(part, where).get("type"), _PARTS.get(str(role), ("input_text",)), f"{where}.type")
        if part["type"] == "input_image":
            only(part, {"type", "image_url", "detail"}, where)
            one_of(part.get("detail"), ("auto", "low", "high", "original"), f"{where}.detail")
            if not str(part.get("image_url")).startswith("data:image/"):
                raise BadRequest(f"{where}.image_url must be a data URI of an image")
        else:
            only(part, {"type", "text"}, where)
            text(part, "text", where)
