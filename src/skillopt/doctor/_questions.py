"""The tiny questions a model is tried with; each is answered in a few tokens."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import replace

from pydantic import BaseModel, ConfigDict

from skillopt.config import RoleSpec
from skillopt.config.role_schema import RoleName
from skillopt.messages import Image, Message, Request, Tool

FEW = 16
"""The least that every API takes as an output cap."""
SOME = 64
WITH_THINKING = 1100
"""The least that holds an answer where a model is told to think first: some APIs refuse less."""


class Shape(BaseModel):
    """What the structured question asks for."""

    model_config = ConfigDict(extra="forbid", title="check")

    ok: bool


def plain(role: RoleName, spec: RoleSpec) -> Request:
    """Any answer will do."""
    return _ask(role, spec, "call", "Reply with the word: ok", FEW)


def structured(role: RoleName, spec: RoleSpec) -> Request:
    """An answer in a given shape."""
    question = 'Reply with the JSON object {"ok": true} and nothing else.'
    return replace(_ask(role, spec, "structure", question, SOME), schema=Shape.model_json_schema())


def with_tool(role: RoleName, spec: RoleSpec) -> Request:
    """An answer by a tool call."""
    tool = Tool.of("say", "Says a word aloud.", ["word"], word={"type": "string"})
    return replace(_ask(role, spec, "tools", "Call the tool say with the word ok.", SOME), tools=(tool,))


def with_image(role: RoleName, spec: RoleSpec) -> Request:
    """A question about an image."""
    image = Image(media_type="image/png", data=base64.b64encode(_red_square()).decode())
    request = _ask(role, spec, "vision", "Name the colour of this square in one word.", FEW)
    message = Message(role="user", content=request.messages[0].content, images=(image,))
    return replace(request, messages=(message,))


def _ask(role: RoleName, spec: RoleSpec, what: str, question: str, cap: int) -> Request:
    thinks = spec.model.reasoning_effort not in (None, "none") or bool(
        spec.model.options.get("enable_thinking")
    )
    return Request(
        messages=(Message(role="user", content=question),),
        max_tokens=min(spec.max_tokens, WITH_THINKING if thinks else cap),
        role="optimizer" if role == "proposer" else role,
        stage="doctor",
        place=f"doctor/{role}/{what}",
    )


def _red_square(side: int = 32) -> bytes:
    """A PNG of one colour, made here: a file of its own would have to be found when the package
    is installed.
    """
    rows = (b"\0" + b"\xff\0\0" * side) * side
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body
