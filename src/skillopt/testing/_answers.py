"""What a simulated model says to a call, how many tokens that is, and how either API writes it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from skillopt.messages import Finish, ToolCall
from skillopt.testing._strict import Api, cap, texts

_CHAT_FINISH = {"stop": "stop", "length": "length", "tool_calls": "tool_calls", "refusal": "content_filter", "other": "unknown"}
_MESSAGES_FINISH = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "refusal": "refusal", "other": "pause_turn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One correct request as it arrived."""

    index: int
    """How many requests came before it."""
    attempt: int
    """How many of them had the same place and draw."""
    api: Api
    body: Mapping[str, Any]
    place: str | None
    draw: int | None
    text: str
    """All texts of the conversation, joined by line breaks."""
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model says. Tokens that are not given are counted: a token is four bytes, and the caller's cap holds."""

    text: str
    finish: Finish = "stop"
    tool_calls: tuple[ToolCall, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    latency: float | None = None
    reports_usage: bool = True


def rendered(call: Call, answer: Answer) -> dict[str, Any]:
    """The answer as the body of the call's API."""
    return _chat(call, answer) if call.api == "chat" else _messages(call, answer)


def counted(answer: Answer, call: Call) -> Answer:
    """The answer with its tokens filled in, cut at the caller's cap."""
    limit = cap(call.api, call.body)
    content = answer.text.encode(errors="surrogatepass")
    text, finish = answer.text, answer.finish
    spent = answer.output_tokens
    if spent is None:
        spent = math.ceil((len(content) + sum(len(called.arguments.encode(errors="surrogatepass")) for called in answer.tool_calls)) / 4)
    if spent > limit:
        text, finish, spent = content[: limit * 4].decode(errors="ignore"), "length", limit
    read = answer.input_tokens
    if read is None:
        read = math.ceil(sum(len(part.encode(errors="surrogatepass")) for part in texts(call.api, call.body)) / 4)
    return replace(answer, text=text, finish=finish, input_tokens=read, output_tokens=spent)


def _chat(call: Call, answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.tool_calls:
        message["tool_calls"] = [
            {"id": called.id, "type": "function", "function": {"name": called.name, "arguments": called.arguments}}
            for called in answer.tool_calls
        ]
    usage: dict[str, Any] = {"prompt_tokens": answer.input_tokens, "completion_tokens": answer.output_tokens}
    usage["total_tokens"] = (answer.input_tokens or 0) + (answer.output_tokens or 0)
    if answer.cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": answer.cached}
    if answer.reasoning is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": answer.reasoning}
    choice = {"index": 0, "message": message, "finish_reason": _CHAT_FINISH[answer.finish]}
    reply = {"id": f"chatcmpl-{call.index}", "object": "chat.completion", "created": 0, "model": call.body["model"], "choices": [choice]}
    return {**reply, "usage": usage} if answer.reports_usage else reply


def _messages(call: Call, answer: Answer) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
    blocks += [
        {"type": "tool_use", "id": called.id, "name": called.name, "input": json.loads(called.arguments)} for called in answer.tool_calls
    ]
    usage: dict[str, Any] = {"input_tokens": (answer.input_tokens or 0) - (answer.cached or 0), "output_tokens": answer.output_tokens}
    if answer.cached is not None:
        usage["cache_read_input_tokens"] = answer.cached
    if answer.reasoning is not None:
        usage["output_tokens_details"] = {"thinking_tokens": answer.reasoning}
    reply = {"id": f"msg_{call.index}", "type": "message", "role": "assistant", "model": call.body["model"], "content": blocks}
    reply |= {"stop_reason": _MESSAGES_FINISH[answer.finish], "stop_sequence": None}
    return {**reply, "usage": usage} if answer.reports_usage else reply
