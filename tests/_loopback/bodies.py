"""How each API writes an answer: as one JSON body, or as server-sent events, which agent CLIs ask for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from _loopback.answers import Answer, Api, Call, tools

_CHAT_FINISH = {"stop": "stop", "length": "length", "tool_calls": "tool_calls", "refusal": "content_filter"}
_MESSAGES_FINISH = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "refusal": "refusal",
}
_RESPONSES_INCOMPLETE = {"length": "max_output_tokens"}


def rendered(call: Call, answer: Answer) -> dict[str, Any]:
    """The answer as the body of the call's API."""
    return {"chat": _chat, "messages": _messages, "responses": _responses}[call.api](call, answer)


def break_off(body: dict[str, Any], reason: str | None) -> None:
    """Let a rendered body end for this reason, whichever API it is of."""
    if "choices" in body:
        body["choices"][0]["finish_reason"] = reason
    elif "stop_reason" in body:
        body["stop_reason"] = reason
    else:
        body |= {"status": "incomplete", "incomplete_details": {"reason": reason}}


def _chat(call: Call, answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": called.id,
                "type": "function",
                "function": {"name": called.name, "arguments": called.arguments},
            }
            for called in answer.tool_calls
        ]
    usage: dict[str, Any] = {"prompt_tokens": answer.input_tokens, "completion_tokens": answer.output_tokens}
    usage["total_tokens"] = (answer.input_tokens or 0) + (answer.output_tokens or 0)
    if answer.cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": answer.cached}
    if answer.reasoning is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": answer.reasoning}
    choice = {"index": 0, "message": message, "finish_reason": _CHAT_FINISH[answer.finish]}
    reply = {
        "id": f"chatcmpl-{call.index}",
        "object": "chat.completion",
        "created": 0,
        "model": call.body["model"],
        "choices": [choice],
    }
    return {**reply, "usage": usage} if answer.reports_usage else reply


def _messages(call: Call, answer: Answer) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
    blocks += [
        {"type": "tool_use", "id": called.id, "name": called.name, "input": json.loads(called.arguments)}
        for called in answer.tool_calls
    ]
    usage: dict[str, Any] = {
        "input_tokens": (answer.input_tokens or 0) - (answer.cached or 0) - (answer.cache_write or 0),
        "output_tokens": answer.output_tokens,
    }
    if answer.cached is not None:
        usage["cache_read_input_tokens"] = answer.cached
    if answer.cache_write is not None:
        usage["cache_creation_input_tokens"] = answer.cache_write
    if answer.reasoning is not None:
        usage["output_tokens_details"] = {"thinking_tokens": answer.reasoning}
    reply = {
        **{"id": f"msg_{call.index}", "type": "message", "role": "assistant", "model": call.body["model"]},
        **{"content": blocks, "stop_reason": _MESSAGES_FINISH[answer.finish], "stop_sequence": None},
    }
    return {**reply, "usage": usage} if answer.reports_usage else reply


def _responses(call: Call, answer: Answer) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if answer.reasoning:
        output.append({"type": "reasoning", "id": f"rs_{call.index}", "summary": []})
    part: dict[str, Any] = {"type": "output_text", "text": answer.text, "annotations": []}
    if answer.finish == "refusal":
        part = {"type": "refusal", "refusal": answer.text}
    if answer.text or not answer.tool_calls:
        whole = "incomplete" if answer.finish in _RESPONSES_INCOMPLETE else "completed"
        output.append(
            {
                "type": "message",
                "id": f"msg_{call.index}",
                "status": whole,
                "role": "assistant",
                "content": [part],
            }
        )
    kinds = tools(call.api, call.body)
    for number, called in enumerate(answer.tool_calls):
        item: dict[str, Any] = {
            "id": f"fc_{call.index}_{number}",
            "status": "completed",
            "call_id": called.id,
            "name": called.name,
        }
        if kinds.get(called.name) == "custom":
            output.append({"type": "custom_tool_call", **item, "input": called.arguments})
        else:
            output.append({"type": "function_call", **item, "arguments": called.arguments})
    cut = _RESPONSES_INCOMPLETE.get(answer.finish)
    reply: dict[str, Any] = {
        **{"id": f"resp_{call.index}", "object": "response", "created_at": 0, "model": call.body["model"]},
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": cut} if cut else None,
        "output": output,
        "usage": None,
    }
    if answer.reports_usage:
        reply["usage"] = {
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {"cached_tokens": answer.cached or 0},
            "output_tokens": answer.output_tokens,
            "output_tokens_details": {"reasoning_tokens": answer.reasoning or 0},
            "total_tokens": (answer.input_tokens or 0) + (answer.output_tokens or 0),
        }
    return reply


Event: TypeAlias = tuple[str | None, Any]
"""Its name, where the API names events, and its data."""
_EMPTY: Mapping[str, dict[str, Any]] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
}


def streamed(api: Api, body: Mapping[str, Any], asked: Mapping[str, Any]) -> bytes:
    """A rendered body as the bytes of its event stream; `asked` is the request."""
    make: Callable[..., Iterator[Event]] = {
        "chat": _chat_events,
        "messages": _messages_events,
        "responses": _responses_events,
    }[api]
    return b"".join(_frame(name, data) for name, data in make(body, asked))


def _frame(name: str | None, data: Any) -> bytes:
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def _chat_events(body: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[Event]:
    head = {"id": body["id"], "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
    choice = body["choices"][0]
    message = choice["message"]

    def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
        return None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    if message["content"]:
        yield chunk({"content": message["content"]})
    for index, call in enumerate(message.get("tool_calls") or ()):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        begun = {"index": index, **call, "function": {"name": name, "arguments": ""}}
        yield chunk({"tool_calls": [begun]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
    yield chunk({}, choice["finish_reason"])
    if (asked.get("stream_options") or {}).get("include_usage") and "usage" in body:
        yield None, {**head, "choices": [], "usage": body["usage"]}
    yield None, "[DONE]"


def _messages_events(body: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[Event]:
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
    spent = {"output_tokens": usage["output_tokens"]}
    yield "message_delta", {"type": "message_delta", "delta": ended, "usage": spent}
    yield "message_stop", {"type": "message_stop"}


def _responses_events(body: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[Event]:
    for number, (kind, fields) in enumerate(_response_events(body)):
        yield kind, {"type": kind, "sequence_number": number, **fields}


def _response_events(body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    opened = {**body, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    yield "response.created", {"response": opened}
    yield "response.in_progress", {"response": opened}
    for index, item in enumerate(body["output"]):
        at = {"output_index": index}
        inside = {**at, "item_id": item["id"]}
        begun = {**item, **_EMPTY.get(item["type"], {}), "status": "in_progress"}
        yield "response.output_item.added", {**at, "item": begun}
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
