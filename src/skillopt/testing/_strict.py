"""What the loopback provider takes for a correct request body; everything else is refused with the field named, as a strict API would."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Literal

Api = Literal["chat", "messages"]
CHAT_CAPS = ("max_tokens", "max_completion_tokens")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


class BadRequest(Exception):
    """A body the API refuses with HTTP 400."""


def check(api: Api, body: Any) -> None:
    """Raise `BadRequest`, naming the field, unless the body is correct."""
    body = _dict(body, "body")
    if api == "chat":
        _check_chat(body)
    else:
        _check_messages(body)


def cap(api: Api, body: Mapping[str, Any]) -> int:
    """The output cap of a checked body."""
    return int(next(body[field] for field in CHAT_CAPS if field in body) if api == "chat" else body["max_tokens"])


def texts(api: Api, body: Mapping[str, Any]) -> list[str]:
    """Every text the model would read, in order: what the caller's input tokens are counted on."""
    found: list[str] = [body["system"]] if api == "messages" and "system" in body else []
    for message in body["messages"]:
        _collect(message.get("content"), found)
        for call in message.get("tool_calls") or ():
            found += (call["function"]["name"], call["function"]["arguments"])
    return found


def _collect(content: Any, found: list[str]) -> None:
    if isinstance(content, str):
        found.append(content)
    for block in content if isinstance(content, list) else ():
        kind = block["type"]
        if kind == "text":
            found.append(block["text"])
        elif kind == "tool_result":
            _collect(block["content"], found)
        elif kind == "tool_use":
            found += (block["name"], json.dumps(block["input"]))


def _check_chat(body: dict[str, Any]) -> None:
    _only(body, {"model", "messages", *CHAT_CAPS, "temperature", "top_p", "seed", "reasoning_effort", "tools"}, "body")
    _text(body, "model", "body")
    given = [field for field in CHAT_CAPS if field in body]
    if len(given) != 1:
        raise BadRequest(f"exactly one of max_tokens and max_completion_tokens is required, got {given or 'none'}")
    _whole(body, given[0], 1)
    _number(body, "temperature", 0, 2)
    _number(body, "top_p", 0, 1)
    if "seed" in body:
        _whole(body, "seed", None)
    if "reasoning_effort" in body:
        _one_of(body["reasoning_effort"], EFFORTS, "reasoning_effort")
    for index, tool in enumerate(_list(body["tools"], "tools") if "tools" in body else ()):
        at = f"tools[{index}]"
        _only(_dict(tool, at), {"type", "function"}, at)
        _one_of(tool.get("type"), ("function",), f"{at}.type")
        _check_tool(tool.get("function"), "parameters", f"{at}.function")
    asked: set[str] = set()
    for index, message in enumerate(_list(body.get("messages"), "messages")):
        _check_chat_message(_dict(message, f"messages[{index}]"), asked, f"messages[{index}]")
    if asked:
        raise BadRequest(f"messages: no tool message answers the calls {sorted(asked)}")


def _check_chat_message(message: dict[str, Any], asked: set[str], at: str) -> None:
    role = message.get("role")
    _one_of(role, ("system", "user", "assistant", "tool"), f"{at}.role")
    extra = {"assistant": {"tool_calls"}, "tool": {"tool_call_id"}}.get(str(role), set())
    _only(message, {"role", "content", *extra}, at)
    if role == "tool":
        if message.get("tool_call_id") not in asked:
            raise BadRequest(f"{at}.tool_call_id: {message.get('tool_call_id')!r} is no open tool call")
        asked.discard(message["tool_call_id"])
    elif asked:
        raise BadRequest(f"{at}: the calls {sorted(asked)} must be answered first")
    for index, call in enumerate(_list(message["tool_calls"], f"{at}.tool_calls") if "tool_calls" in message else ()):
        where = f"{at}.tool_calls[{index}]"
        _only(_dict(call, where), {"id", "type", "function"}, where)
        _one_of(call.get("type"), ("function",), f"{where}.type")
        function = _dict(call.get("function"), f"{where}.function")
        _only(function, {"name", "arguments"}, f"{where}.function")
        for field in ("name", "arguments"):
            _text(function, field, f"{where}.function")
        _text(call, "id", where)
        asked.add(call["id"])
    content = message.get("content")
    if isinstance(content, list) and role == "user":
        for index, part in enumerate(_list(content, f"{at}.content")):
            _check_part(_dict(part, f"{at}.content[{index}]"), f"{at}.content[{index}]")
    elif not isinstance(content, str) and not (content is None and role == "assistant" and "tool_calls" in message):
        raise BadRequest(f"{at}.content must be a text")


def _check_part(part: dict[str, Any], at: str) -> None:
    _one_of(part.get("type"), ("text", "image_url"), f"{at}.type")
    _only(part, {"type", part["type"]}, at)
    if part["type"] == "text":
        _text(part, "text", at)
    else:
        url = _dict(part.get("image_url"), f"{at}.image_url").get("url")
        if not isinstance(url, str) or not url.startswith("data:image/") or ";base64," not in url:
            raise BadRequest(f"{at}.image_url.url must be a data URI of an image")


def _check_messages(body: dict[str, Any]) -> None:
    _only(body, {"model", "max_tokens", "messages", "system", "temperature", "top_p", "output_config", "tools"}, "body")
    _text(body, "model", "body")
    _whole(body, "max_tokens", 1)
    _number(body, "temperature", 0, 1)
    _number(body, "top_p", 0, 1)
    if "system" in body:
        _text(body, "system", "body")
    if "output_config" in body:
        _only(_dict(body["output_config"], "output_config"), {"effort"}, "output_config")
        _one_of(body["output_config"].get("effort"), EFFORTS[2:], "output_config.effort")
    for index, tool in enumerate(_list(body["tools"], "tools") if "tools" in body else ()):
        _check_tool(tool, "input_schema", f"tools[{index}]")
    asked: set[str] = set()
    for index, message in enumerate(_list(body.get("messages"), "messages")):
        at = f"messages[{index}]"
        _only(_dict(message, at), {"role", "content"}, at)
        # The real API would join two turns of one side; ours wants the provider to have done it.
        _one_of(message.get("role"), ("assistant" if index % 2 else "user",), f"{at}.role")
        asked = _check_turn(message, asked, at)
    if asked:
        raise BadRequest(f"messages: no tool_result answers the calls {sorted(asked)}")


def _check_turn(message: dict[str, Any], asked: set[str], at: str) -> set[str]:
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else _list(content, f"{at}.content")
    calls: set[str] = set()
    answered: set[str] = set()
    for index, block in enumerate(blocks):
        where = f"{at}.content[{index}]"
        kinds = ("text", "image", "tool_result") if message["role"] == "user" else ("text", "tool_use")
        _one_of(_dict(block, where).get("type"), kinds, f"{where}.type")
        if block["type"] == "text":
            _only(block, {"type", "text"}, where)
            _text(block, "text", where)
        elif block["type"] == "image":
            _only(_dict(block.get("source"), f"{where}.source"), {"type", "media_type", "data"}, f"{where}.source")
        elif block["type"] == "tool_use":
            _only(block, {"type", "id", "name", "input"}, where)
            _dict(block.get("input"), f"{where}.input")
            calls.add(str(block.get("id")))
        else:
            _only(block, {"type", "tool_use_id", "content"}, where)
            answered.add(str(block.get("tool_use_id")))
    if answered != asked:
        raise BadRequest(f"{at}.content: tool results {sorted(answered)} for the calls {sorted(asked)}")
    return calls


def _check_tool(tool: Any, schema: str, at: str) -> None:
    _only(_dict(tool, at), {"name", "description", schema}, at)
    _text(tool, "name", at)
    _dict(tool.get(schema), f"{at}.{schema}")


def _only(value: Mapping[str, Any], known: Collection[str], at: str) -> None:
    unknown = sorted(set(value) - set(known))
    if unknown:
        raise BadRequest(f"{at}: unknown field {unknown[0]!r}")


def _dict(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRequest(f"{at} must be an object")
    return value


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise BadRequest(f"{at} must be a list that is not empty")
    return value


def _text(value: Mapping[str, Any], field: str, at: str) -> None:
    if not isinstance(value.get(field), str) or not value[field]:
        raise BadRequest(f"{at}.{field} must be a text that is not empty")


def _whole(value: Mapping[str, Any], field: str, least: int | None) -> None:
    number = value.get(field)
    if not isinstance(number, int) or isinstance(number, bool) or (least is not None and number < least):
        raise BadRequest(f"{field} must be a whole number{'' if least is None else f' of at least {least}'}")


def _number(value: Mapping[str, Any], field: str, low: float, high: float) -> None:
    if field not in value:
        return
    number = value[field]
    if not isinstance(number, (int, float)) or isinstance(number, bool) or not low <= number <= high:
        raise BadRequest(f"{field} must be a number from {low} to {high}")


def _one_of(value: Any, known: Collection[str], at: str) -> None:
    if value not in known:
        raise BadRequest(f"{at} must be one of {', '.join(known)}, got {value!r}")
