"""Reads message content in the form several programs share: text, or blocks of text, calls and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skillopt.transcripts.draft import Call

_TEXTS = ("text", "input_text", "output_text", "Text", "markdown")


def string(value: Any) -> str:
    """A text as it is; anything else is none."""
    return value if isinstance(value, str) else ""


def mapping(value: Any) -> dict[str, Any]:
    """A JSON object as it is; anything else is an empty one: what programs write may change its form."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """The JSON objects of a list; anything else holds none."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def text_of(content: Any) -> str:
    """The text of a content; thinking, images and tools are none."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    parts = [
        block.get("text") if isinstance(block, dict) and block.get("type", "text") in _TEXTS else block
        for block in blocks
    ]
    return "\n".join(part for part in parts if isinstance(part, str))


def calls_of(content: Any) -> list[Call]:
    """The tool calls of a content: `tool_use` with `input`, or `toolCall` with `arguments`."""
    return [
        (str(block.get("id") or ""), block["name"], block.get("input", block.get("arguments")))
        for block in objects(content)
        if block.get("type") in ("tool_use", "toolCall") and isinstance(block.get("name"), str)
    ]


def results_of(content: Any) -> Iterator[tuple[str, str, bool]]:
    """Call id, text and failure of every tool result of a content."""
    for block in objects(content):
        if block.get("type") == "tool_result":
            failed = block.get("is_error") is True
            yield str(block.get("tool_use_id") or ""), text_of(block.get("content")), failed
