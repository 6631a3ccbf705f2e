"""What a request asks, whichever API it is for, what a simulated model says to it, and in how many tokens."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from skillopt.messages import Finish, Speaker, ToolCall

Api = Literal["chat", "messages", "responses"]
CAPS: Mapping[Api, tuple[str, ...]] = {
    "chat": ("max_tokens", "max_completion_tokens"),
    "messages": ("max_tokens",),
    "responses": ("max_output_tokens",),
}


def cap(api: Api, body: Mapping[str, Any]) -> int | None:
    """The output cap, or None where an agent sends none."""
    return next((int(body[field]) for field in CAPS[api] if body.get(field) is not None), None)


def check_roughly(api: Api, body: Any) -> None:
    """Refuse a body without a model or without a conversation; agents send many fields of their own."""
    turns = "input" if api == "responses" else "messages"
    for field in ("model", turns):
        if not isinstance(body, dict) or not isinstance(body.get(field), (str, list)) or not body[field]:
            raise ValueError(f"body.{field} must be given and not be empty")


def texts(api: Api, body: Mapping[str, Any]) -> list[str]:
    """Every text the model would read of the conversation, in order; input tokens are counted on it."""
    found: list[str] = []
    if api == "messages":
        _collect(body.get("system"), found)
    if api == "responses":
        _collect(body.get("instructions"), found)
    for item in _turns(api, body):
        _collect(item.get("content"), found)
        for call in item.get("tool_calls") or ():
            found += (call["function"]["name"], call["function"]["arguments"])
        if item.get("type") in ("function_call", "custom_tool_call"):
            found += (str(item.get("name")), str(item.get("arguments", item.get("input"))))
        _collect(item.get("output"), found)
    return found


def turns(api: Api, body: Mapping[str, Any]) -> list[tuple[Speaker, str]]:
    """Who says what, in order, the system first: the conversation as text alone."""
    before = body.get({"messages": "system", "responses": "instructions"}.get(api, ""))
    said = [
        (item.get("role", "tool"), _joined(item.get("content", item.get("output"))))
        for item in _turns(api, body)
    ]
    return said if before is None else [("system", _joined(before)), *said]


def results(api: Api, body: Mapping[str, Any]) -> tuple[str, ...]:
    """The text of every tool result in the conversation, in order."""
    found: list[str] = []
    for item in _turns(api, body):
        if api == "chat" and item.get("role") == "tool":
            found.append(_joined(item.get("content")))
        elif api == "responses" and str(item.get("type")).endswith("_output"):
            found.append(_joined(item.get("output")))
        elif api == "messages" and isinstance(item.get("content"), list):
            found += [
                _joined(block.get("content"))
                for block in item["content"]
                if block.get("type") == "tool_result"
            ]
    return tuple(found)


def tools(api: Api, body: Mapping[str, Any]) -> dict[str, str]:
    """The tools on offer: name to kind (`function`, or `custom` for the ones that take free text)."""
    return dict(_tools(body.get("tools") or ()))


def _tools(offered: Any) -> Iterator[tuple[str, str]]:
    for tool in offered:
        inner = tool.get("function") if isinstance(tool.get("function"), dict) else tool
        kind = "custom" if tool.get("type") == "custom" else "function"
        if isinstance(inner.get("tools"), list):  # a group of tools under one name, as some agents send
            yield from _tools(inner["tools"])
        elif inner.get("name") or inner.get("type"):
            yield str(inner.get("name") or inner.get("type")), kind


def _turns(api: Api, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    turns = body.get("input") if api == "responses" else body.get("messages")
    if isinstance(turns, str):
        return [{"role": "user", "content": turns}]
    return [turn for turn in turns or () if isinstance(turn, dict)]


def _joined(content: Any) -> str:
    found: list[str] = []
    _collect(content, found)
    return "\n".join(found)


def _collect(content: Any, found: list[str]) -> None:
    if isinstance(content, str):
        found.append(content)
    for block in content if isinstance(content, list) else ():
        kind = block.get("type")
        if isinstance(block.get("text"), str):
            found.append(block["text"])
        elif kind == "tool_result":
            _collect(block.get("content"), found)
        elif kind == "tool_use":
            found += (block["name"], json.dumps(block["input"]))


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
    path: str = ""
    """The path with its query, as it was asked for."""

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools the model may call."""
        return tuple(tools(self.api, self.body))

    @property
    def results(self) -> tuple[str, ...]:
        """Texts of the tool results so far: a script that calls tools branches on them."""
        return results(self.api, self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model says. Tokens not given are counted, four bytes each, and the caller's cap holds.

    With tool calls the finish is `tool_calls` unless it says otherwise.
    """

    text: str = ""
    finish: Finish = "stop"
    tool_calls: tuple[ToolCall, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached: int | None = None
    cache_write: int | None = None
    """Only the Messages API tells it."""
    reasoning: int | None = None
    latency: float | None = None
    reports_usage: bool = True


def counted(answer: Answer, call: Call) -> Answer:
    """The answer with its tokens filled in, cut at the caller's cap."""
    limit = cap(call.api, call.body)
    content = answer.text.encode(errors="surrogatepass")
    text = answer.text
    finish: Finish = "tool_calls" if answer.tool_calls and answer.finish == "stop" else answer.finish
    spent = answer.output_tokens
    if spent is None:
        spent = _tokens([answer.text, *(called.arguments for called in answer.tool_calls)])
    if limit is not None and spent > limit:
        text, finish, spent = content[: limit * 4].decode(errors="ignore"), "length", limit
    read = answer.input_tokens
    if read is None:
        read = _tokens(texts(call.api, call.body))
    return replace(answer, text=text, finish=finish, input_tokens=read, output_tokens=spent)


def _tokens(parts: list[str]) -> int:
    return math.ceil(sum(len(part.encode(errors="surrogatepass")) for part in parts) / 4)
