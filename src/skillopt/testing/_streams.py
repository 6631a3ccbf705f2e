"""How each API writes the same answer as server-sent events, which is how agent CLIs ask for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from skillopt.testing._asked import Api

Event: TypeAlias = tuple[str | None, Any]
"""Its name, where the API names events, and its data."""
_EMPTY: Mapping[str, dict[str, Any]] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
}


def streamed(api: Api, body: Mapping[str, Any], asked: Mapping[str, Any]) -> bytes:
    """A rendered body as the bytes of its event stream; `asked` is the request."""
    make: Callable[..., Iterator[Event]] = {"chat": _chat, "messages": _messages, "responses": _responses}[
        api
    ]
    return b"".join(_frame(name, data) for name, data in make(body, asked))


def _frame(name: str | None, data: Any) -> bytes:
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def _chat(body: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[Event]:
    head = {"id": body["id"], "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
    choice = body["choices"][0]
    message = choice["message"]

    def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
        return None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    if message["content"]:
        yield chunk({"content": message["content"]})
    for index, call in enumerate(message.get("tool_calls") or ()):
        yield chunk(
            {
                "tool_calls": [
                    {"index": index, **call, "function": {"name": call["function"]["name"], "arguments": ""}}
                ]
            }
        )
        yield chunk(
            {"tool_calls": [{"index": index, "function": {"arguments": call["function"]["arguments"]}}]}
        )
    yield chunk({}, choice["finish_reason"])
    if (asked.get("stream_options") or {}).get("include_usage") and "usage" in body:
        yield None, {**head, "choices": [], "usage": body["usage"]}
    yield None, "[DONE]"


def _messages(body: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[Event]:
    usage = body.get("usage") or {"input_tokens": 0, "output_tokens": 0}
    start = {**body, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 0}}
    yield "message_start", {"type": "message_start", "message": start}
    for index, block in enumerate(body["content"]):
        if block["type"] == "tool_use":
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            empty = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}
        yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    yield (
        "message_delta",
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": usage["output_tokens"]}},
    )
    yield "message_stop", {"type": "message_stop"}


def _responses(body: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[Event]:
    for number, (kind, fields) in enumerate(_response_events(body)):
        yield kind, {"type": kind, "sequence_number": number, **fields}


def _response_events(body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    begun = {**body, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(body["output"]):
        at = {"output_index": index}
        inside = {**at, "item_id": item["id"]}
        yield (
            "response.output_item.added",
            {**at, "item": {**item, **_EMPTY.get(item["type"], {}), "status": "in_progress"}},
        )
        if item["type"] == "message":
            yield from _part_events(inside, item["content"][0])
        elif item["type"] == "function_call":
            yield "response.function_call_arguments.delta", {**inside, "delta": item["arguments"]}
            yield "response.function_call_arguments.done", {**inside, "arguments": item["arguments"]}
        elif item["type"] == "custom_tool_call":
            yield "response.custom_tool_call_input.delta", {**inside, "delta": item["input"]}
            yield "response.custom_tool_call_input.done", {**inside, "input": item["input"]}
        yield "response.output_item.done", {**at, "item": item}
    yield f"response.{body['status']}", {"response": body}


def _part_events(inside: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    where = {**inside, "content_index": 0}
    field, kind = ("refusal", "refusal") if part["type"] == "refusal" else ("text", "output_text")
    yield "response.content_part.added", {**where, "part": {**part, field: ""}}
    yield f"response.{kind}.delta", {**where, "delta": part[field]}
    yield f"response.{kind}.done", {**where, field: part[field]}
    yield "response.content_part.done", {**where, "part": part}
