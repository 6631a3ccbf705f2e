"""What a correct body of the Chat Completions API is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from _api.fields import BadRequest, filled, flag, mapping, number, one_of, only, text, whole
from _api.schemas import check_schema_format, check_tool, mentions_json
from _loopback.answers import CAPS

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def check_chat(body: dict[str, Any], extensions: Collection[str]) -> None:
    """Raise `BadRequest`, naming the field, unless the body is correct. `extensions` are the vendor's own
    fields that this server knows.
    """
    for name in extensions:
        assert name in _EXTENSIONS, f"{name} is in no schema yet: add it to _EXTENSIONS in tests/_api/chat.py"
        if name in body:
            _EXTENSIONS[name](body)
    known = {
        "model",
        "messages",
        *CAPS["chat"],
        "temperature",
        "top_p",
        "seed",
        "reasoning_effort",
        "tools",
        "response_format",
    }
    only(body, known | set(extensions), "body")
    text(body, "model", "body")
    given = [field for field in CAPS["chat"] if field in body]
    if len(given) > 1:
        raise BadRequest("only one of max_tokens and max_completion_tokens may be given")
    for field in given:
        whole(body, field, 1)
    number(body, "temperature", 0, 2)
    number(body, "top_p", 0, 1)
    if "seed" in body:
        whole(body, "seed", None)
    if "reasoning_effort" in body:
        one_of(body["reasoning_effort"], EFFORTS, "reasoning_effort")
    if "response_format" in body:
        _check_format(body)
    for index, tool in enumerate(filled(body["tools"], "tools") if "tools" in body else ()):
        at = f"tools[{index}]"
        only(mapping(tool, at), {"type", "function"}, at)
        one_of(tool.get("type"), ("function",), f"{at}.type")
        check_tool(tool.get("function"), "parameters", f"{at}.function")
    asked: set[str] = set()
    for index, message in enumerate(filled(body.get("messages"), "messages")):
        _check_message(
            mapping(message, f"messages[{index}]"),
            asked,
            f"messages[{index}]",
            set(extensions) & {"extra_content"},
        )
    if asked:
        raise BadRequest(f"messages: no tool message answers the calls {sorted(asked)}")


def _check_format(body: Mapping[str, Any]) -> None:
    form = mapping(body["response_format"], "response_format")
    one_of(form.get("type"), ("json_schema", "json_object"), "response_format.type")
    if form["type"] == "json_object":
        only(form, {"type"}, "response_format")
        if not mentions_json("chat", body):
            raise BadRequest(
                "'messages' must contain the word 'json' in some form, to use 'response_format' of type"
                " 'json_object'"
            )
        return
    only(form, {"type", "json_schema"}, "response_format")
    check_schema_format(
        mapping(form.get("json_schema"), "response_format.json_schema"), set(), "response_format.json_schema"
    )


def _check_message(message: dict[str, Any], asked: set[str], at: str, in_calls: set[str]) -> None:
    role = message.get("role")
    one_of(role, ("system", "user", "assistant", "tool"), f"{at}.role")
    extra = {"assistant": {"tool_calls"}, "tool": {"tool_call_id"}}.get(str(role), set())
    only(message, {"role", "content", *extra}, at)
    if role == "tool":
        if message.get("tool_call_id") not in asked:
            raise BadRequest(f"{at}.tool_call_id: {message.get('tool_call_id')!r} is no open tool call")
        asked.discard(message["tool_call_id"])
    elif asked:
        raise BadRequest(f"{at}: the calls {sorted(asked)} must be answered first")
    for index, call in enumerate(
        filled(message["tool_calls"], f"{at}.tool_calls") if "tool_calls" in message else ()
    ):
        where = f"{at}.tool_calls[{index}]"
        only(mapping(call, where), {"id", "type", "function", *in_calls}, where)
        one_of(call.get("type"), ("function",), f"{where}.type")
        function = mapping(call.get("function"), f"{where}.function")
        only(function, {"name", "arguments"}, f"{where}.function")
        for field in ("name", "arguments"):
            text(function, field, f"{where}.function")
        text(call, "id", where)
        asked.add(call["id"])
    content = message.get("content")
    if isinstance(content, list) and role == "user":
        for index, part in enumerate(filled(content, f"{at}.content")):
            _check_part(mapping(part, f"{at}.content[{index}]"), f"{at}.content[{index}]")
    elif not isinstance(content, str) and not (
        content is None and role == "assistant" and "tool_calls" in message
    ):
        raise BadRequest(f"{at}.content must be a text")


def _check_part(part: dict[str, Any], at: str) -> None:
    one_of(part.get("type"), ("text", "image_url"), f"{at}.type")
    only(part, {"type", part["type"]}, at)
    if part["type"] == "text":
        text(part, "text", at)
    else:
        url = mapping(part.get("image_url"), f"{at}.image_url").get("url")
        if not isinstance(url, str) or not url.startswith("data:image/") or ";base64," not in url:
            raise BadRequest(f"{at}.image_url.url must be a data URI of an image")


def _check_template(body: Mapping[str, Any]) -> None:
    arguments = mapping(body["chat_template_kwargs"], "chat_template_kwargs")
    only(arguments, {"enable_thinking"}, "chat_template_kwargs")
    flag(arguments, "enable_thinking", "chat_template_kwargs")


def _check_thinking(body: Mapping[str, Any]) -> None:
    thinking = mapping(body["thinking"], "thinking")
    only(thinking, {"type"}, "thinking")
    one_of(thinking.get("type"), ("adaptive", "disabled"), "thinking.type")


# a field of tool calls, not of the body
_EXTENSIONS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "chat_template_kwargs": _check_template,
    "thinking": _check_thinking,
    "reasoning_split": lambda body: flag(body, "reasoning_split", "body"),
    "extra_content": lambda body: only(body, set(body) - {"extra_content"}, "body"),
}
