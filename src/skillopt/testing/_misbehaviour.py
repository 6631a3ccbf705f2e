"""What can go wrong with a call to the loopback provider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Misbehaviour:
    """What goes wrong with a call, streamed or plain; made by the class methods."""

    kind: Literal["status", "reset", "garbage", "half", "hang", "odd", "broken_off"]
    code: int = 200
    retry_after: float | str | None = None
    body: Any = None
    seconds: float = 0.0

    @classmethod
    def status(cls, code: int, *, retry_after: float | str | None = None, body: Any = None) -> Misbehaviour:
        """Refuse with an HTTP status; `retry_after` in seconds or a date, `body` an object or a text."""
        return cls(kind="status", code=code, retry_after=retry_after, body=body)

    @classmethod
    def reset(cls) -> Misbehaviour:
        """Reset the TCP connection without an answer."""
        return cls(kind="reset")

    @classmethod
    def garbage(cls) -> Misbehaviour:
        """200 with a body that is no JSON."""
        return cls(kind="garbage")

    @classmethod
    def half(cls) -> Misbehaviour:
        """200 with the first half of the body, then a closed connection."""
        return cls(kind="half")

    @classmethod
    def hang(cls, seconds: float = 3600.0) -> Misbehaviour:
        """Answer correctly, but only after so many seconds."""
        return cls(kind="hang", seconds=seconds)

    @classmethod
    def broken_off(cls, reason: str | None = "error") -> Misbehaviour:
        """200 with a well-formed answer that ended for a reason which ends no answer."""
        return cls(kind="broken_off", body=reason)

    @classmethod
    def odd(cls) -> Misbehaviour:
        """200 with a JSON object that has no answer in it."""
        return cls(kind="odd")
