"""Reads message content in the form several programs share: a text, or a list of blocks with text, tool calls
and tool results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skillopt.transcripts.draft import Call

_TEXTS = ("text", "input_text", "output_text", "Text", "markdown")


def string(value: Any) -> str:
    """A text as it is; anything else is none."""
    return value if isinstance(value, str) else ""


def text_of(content: Any) -> str:
    """The text of a content; thinking, images and tools are none."""
    if isinstance(content, str):
        return content
    parts: list[str] = []
    for block in content if isinstance(content, list) else []:
        if isinstance(block, str):
            parts.append(block)
        elif (
            isinstance(block, dict)
            and block.get("type", "text") in _TEXTS
            and isinstance(block.get("text"), str)
        ):
            parts.append(block["text"])
    return "\n".join(parts)


def calls_of(content: Any) -> list[Call]:
    """The tool calls of a content: `tool_use` with `input`, or `toolCall` with `arguments`."""
    calls: list[Call] = []
    for block in content if isinstance(content, list) else []:
        if (
            isinstance(block, dict)
            and block.get("type") in ("tool_use", "toolCall")
            and isinstance(block.get("name"), str)
        ):
            calls.append(
                (str(block.get("id") or ""), block["name"], block.get("input", block.get("arguments")))
            )
    return calls


def results_of(content: Any) -> Iterator[tuple[str, str, bool]]:
    """Call id, text and failure of every tool result of a content."""
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            yield (
                str(block.get("tool_use_id") or ""),
                text_of(block.get("content")),
                block.get("is_error") is True,
            )
