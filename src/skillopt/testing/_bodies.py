"""How each API writes an answer as one JSON body."""

from __future__ import annotations

import json
from typing import Any

from skillopt.testing._answers import Answer, Call
from skillopt.testing._asked import tools

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
        "id": f"msg_{call.index}",
        "type": "message",
        "role": "assistant",
        "model": call.body["model"],
        "content": blocks,
    }
    reply |= {"stop_reason": _MESSAGES_FINISH[answer.finish], "stop_sequence": None}
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
    reply: dict[str, Any] = {
        "id": f"resp_{call.index}",
        "object": "response",
        "created_at": 0,
        "model": call.body["model"],
    }
    reply |= {
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": output,
        "usage": None,
    }
    if answer.finish in _RESPONSES_INCOMPLETE:
        reply |= {
            "status": "incomplete",
            "incomplete_details": {"reason": _RESPONSES_INCOMPLETE[answer.finish]},
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
