"""What a correct body of the Messages API is."""

from __future__ import annotations

from typing import Any

from _api.fields import BadRequest, filled, mapping, number, one_of, only, text, whole
from _api.schemas import check_closed_objects, check_tool

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_BREAKPOINTS = 4
_KNOWN = {
    "model",
    "max_tokens",
    "messages",
    "system",
    "temperature",
    "top_p",
    "output_config",
    "tools",
    "thinking",
    "cache_control",
}


def check_messages(body: dict[str, Any]) -> None:
    """Raise `BadRequest`, naming the field, unless the body is correct."""
    only(body, _KNOWN, "body")
    text(body, "model", "body")
    whole(body, "max_tokens", 1)
    number(body, "temperature", 0, 1)
    number(body, "top_p", 0, 1)
    if "system" in body:
        _check_system(body)
    if "output_config" in body:
        _check_output(mapping(body["output_config"], "output_config"))
    if "thinking" in body:
        _check_thinking(body)
    if "cache_control" in body:
        _check_cache(body, "body")
    for index, tool in enumerate(filled(body["tools"], "tools") if "tools" in body else ()):
        check_tool(tool, "input_schema", f"tools[{index}]")
    asked: set[str] = set()
    for index, message in enumerate(filled(body.get("messages"), "messages")):
        at = f"messages[{index}]"
        only(mapping(message, at), {"role", "content"}, at)
        # The real API would join two turns of one side; ours wants the provider to have done it.
        one_of(message.get("role"), ("assistant" if index % 2 else "user",), f"{at}.role")
        asked = _check_turn(message, asked, at)
    if asked:
        raise BadRequest(f"messages: no tool_result answers the calls {sorted(asked)}")
    marks = str(body).count("'cache_control': {")
    if marks > _BREAKPOINTS:
        raise BadRequest(
            f"a maximum of {_BREAKPOINTS} blocks with cache_control may be provided, found {marks}"
        )


def _check_system(body: dict[str, Any]) -> None:
    if not isinstance(body["system"], list):
        text(body, "system", "body")
        return
    for index, block in enumerate(filled(body["system"], "system")):
        _check_text(mapping(block, f"system[{index}]"), f"system[{index}]")


def _check_text(block: dict[str, Any], at: str) -> None:
    one_of(block.get("type"), ("text",), f"{at}.type")
    only(block, {"type", "text", "cache_control"}, at)
    text(block, "text", at)
    if "cache_control" in block:
        _check_cache(block, at)


def _check_cache(holder: dict[str, Any], at: str) -> None:
    control = mapping(holder["cache_control"], f"{at}.cache_control")
    only(control, {"type", "ttl"}, f"{at}.cache_control")
    one_of(control.get("type"), ("ephemeral",), f"{at}.cache_control.type")
    one_of(control.get("ttl", "5m"), ("5m", "1h"), f"{at}.cache_control.ttl")


def _check_output(output: dict[str, Any]) -> None:
    only(output, {"effort", "format"}, "output_config")
    if "effort" in output:
        one_of(output["effort"], _EFFORTS, "output_config.effort")
    if "format" in output:
        form = mapping(output["format"], "output_config.format")
        only(form, {"type", "schema"}, "output_config.format")
        one_of(form.get("type"), ("json_schema",), "output_config.format.type")
        check_closed_objects(form.get("schema"), "output_config.format.schema")


def _check_thinking(body: dict[str, Any]) -> None:
    thinking = mapping(body["thinking"], "thinking")
    one_of(thinking.get("type"), ("adaptive", "enabled", "disabled"), "thinking.type")
    only(thinking, {"type", "budget_tokens"} if thinking["type"] == "enabled" else {"type"}, "thinking")
    if thinking["type"] == "disabled":
        return
    if thinking["type"] == "enabled":
        whole(thinking, "budget_tokens", 1024)
        if thinking["budget_tokens"] >= body["max_tokens"]:
            raise BadRequest("max_tokens must be greater than thinking.budget_tokens")
    if body.get("temperature", 1) != 1:
        raise BadRequest("temperature may only be set to 1 when thinking is enabled")


def _check_turn(message: dict[str, Any], asked: set[str], at: str) -> set[str]:
    content = message.get("content")
    blocks = (
        [{"type": "text", "text": content}] if isinstance(content, str) else filled(content, f"{at}.content")
    )
    calls: set[str] = set()
    answered: set[str] = set()
    for index, block in enumerate(blocks):
        where = f"{at}.content[{index}]"
        kinds = ("text", "image", "tool_result") if message["role"] == "user" else ("text", "tool_use")
        one_of(mapping(block, where).get("type"), kinds, f"{where}.type")
        if block["type"] == "text":
            _check_text(block, where)
        elif block["type"] == "image":
            only(block, {"type", "source", "cache_control"}, where)
            only(
                mapping(block.get("source"), f"{where}.source"),
                {"type", "media_type", "data"},
                f"{where}.source",
            )
        elif block["type"] == "tool_use":
            only(block, {"type", "id", "name", "input"}, where)
            mapping(block.get("input"), f"{where}.input")
            calls.add(str(block.get("id")))
        else:
            only(block, {"type", "tool_use_id", "content"}, where)
            answered.add(str(block.get("tool_use_id")))
    if answered != asked:
        raise BadRequest(f"{at}.content: tool results {sorted(answered)} for the calls {sorted(asked)}")
    return calls
