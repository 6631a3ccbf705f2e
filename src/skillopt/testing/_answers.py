"""What a simulated model says to a call, and how many tokens that is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from skillopt.messages import Finish, ToolCall
from skillopt.testing._asked import Api, cap, results, texts, tools


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
        spent = math.ceil(
            (
                len(content)
                + sum(len(called.arguments.encode(errors="surrogatepass")) for called in answer.tool_calls)
            )
            / 4
        )
    if limit is not None and spent > limit:
        text, finish, spent = content[: limit * 4].decode(errors="ignore"), "length", limit
    read = answer.input_tokens
    if read is None:
        read = math.ceil(
            sum(len(part.encode(errors="surrogatepass")) for part in texts(call.api, call.body)) / 4
        )
    return replace(answer, text=text, finish=finish, input_tokens=read, output_tokens=spent)
