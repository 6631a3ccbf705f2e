"""Reads transcript files record by record: in bounded memory, and with times that are UTC."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillopt.transcripts.session import Harvest

MAX_RECORD = 16 << 20
"""Bytes of the longest record that is read; what is longer - pasted images, mostly - is passed over."""
MAX_UNPACKED = 4 << 30
"""Bytes that a compressed file may grow to."""
_CHUNK = 1 << 16
_WINDOW = 1 << 27
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s?(Z|[+-]\d\d:?\d\d)?",
    re.ASCII | re.IGNORECASE,
)
_YEARS = range(2000, 2200)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def records(path: Path, tally: Harvest) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file of lines, plain or `.zst`; anything else, or too long, is counted."""
    with _opened(path, tally) as stream:
        if stream is None:
            return
        for line in _lines(stream):
            if line is None:
                tally.skip("record too long")
                continue
            if not line.strip():
                continue
            value = decoded(line)
            if isinstance(value, dict):
                yield value
            else:
                tally.skip("record that is no JSON object")


def decoded(raw: bytes | str) -> Any:
    """A JSON value, or None where there is none."""
    try:
        return json.loads(raw if isinstance(raw, str) else raw.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        return None


def document(path: Path, tally: Harvest) -> dict[str, Any] | None:
    """The one JSON object of a file, or None, counted, where there is none or it is too long."""
    with path.open("rb") as file:
        raw = file.read(MAX_RECORD + 1)
    if len(raw) > MAX_RECORD:
        tally.skip("record too long")
        return None
    value = decoded(raw)
    if isinstance(value, dict):
        return value
    tally.skip("record that is no JSON object")
    return None


def when(value: Any) -> datetime | None:
    """A time as UTC: ISO text (UTC unless it says), or seconds or milliseconds since 1970; else None."""
    if isinstance(value, str):
        return _iso(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not 0 < value < 7e12:  # also false for NaN, and before a division that is too large for a float
        return None
    seconds = value / 1000 if value > 1e11 else value
    if seconds >= 7e9:
        return None
    found = _EPOCH + timedelta(seconds=seconds)
    return found if found.year in _YEARS else None


def _iso(text: str) -> datetime | None:
    match = _ISO.fullmatch(text.strip())
    if match is None or int(match[1]) not in _YEARS:
        return None
    year, month, day, hour, minute = (int(match[place]) for place in range(1, 6))
    micro = int((match[7] or "0")[:6].ljust(6, "0"))
    try:
        found = datetime(year, month, day, hour, minute, int(match[6] or 0), micro, tzinfo=timezone.utc)
    except ValueError:
        return None
    zone = (match[8] or "Z").upper().replace(":", "")
    if zone != "Z":
        ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:5]))
        found = found - ahead if zone[0] == "+" else found + ahead
    return found if found.year in _YEARS else None


def _lines(stream: IO[bytes]) -> Iterator[bytes | None]:
    """Line after line; None for one that is too long, which is read past in small pieces."""
    while line := stream.readline(MAX_RECORD + 1):
        if len(line) <= MAX_RECORD or line.endswith(b"\n"):
            yield line
            continue
        yield None
        while (piece := stream.readline(_CHUNK)) and not piece.endswith(b"\n"):
            pass


@contextlib.contextmanager
def _opened(path: Path, tally: Harvest) -> Iterator[IO[bytes] | None]:
    with path.open("rb") as file:
        if path.suffix != ".zst":
            yield file
            return
        try:
            import zstandard
        except ImportError:
            tally.skip("compressed file that cannot be opened")
            tally.note(
                "Some transcripts are compressed (.jsonl.zst). To read them:"
                " pip install 'skillopt-trainer[sleep]'"
            )
            yield None
            return
        try:
            with zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(
                file, read_across_frames=True
            ) as plain:
                yield io.BufferedReader(LimitedStream(plain, MAX_UNPACKED), _CHUNK)
        except zstandard.ZstdError as error:
            raise OSError(f"{path} is no whole zstd file: {error}") from error


class LimitedStream(io.RawIOBase):
    """A stream that ends with an error when it grows beyond all measure."""

    def __init__(self, stream: Any, most: int) -> None:
        self._stream = stream
        self._left = most

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes."""
        count = int(self._stream.readinto(buffer))
        self._left -= count
        if self._left < 0:
            raise OSError("a compressed transcript unpacks to more than it may")
        return count


_TEXTS = ("text", "input_text", "output_text", "Text", "markdown")
Call = tuple[str, str, Any]
"""Id, name and input of a tool call, as a source found them."""


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
