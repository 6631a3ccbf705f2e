"""Reads text through the encodings that logs and transcripts leave in it, and maps places back.

Terminal colours, `\n` and `\u003d` of JSON, `%3D` of URLs and `&quot;` of HTML hide where a key begins or
which name it belongs to. Patterns are tried on the text as written and on a decoded copy; a span of the copy
is translated into the span of the text that it came from.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from skillopt.redact._spans import Finder, Span

_ENCODED = re.compile(
    r"""
    (?P<terminal>
        (?:\x1b|\\{1,4}(?:x1b|033|e|u001b))
        (?:\[[0-?]{0,40}[ -/]{0,4}[@-~] | \][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\) | \([0-9A-B])
    )
  | (?P<hidden>[\u00ad\u200b-\u200d\u2060\ufeff])
  | \\{1,4} (?: u00(?P<unicode>[0-7][0-9a-fA-F]) | x(?P<hex>[0-7][0-9a-fA-F]) | (?P<letter>[nrt"'/]) )
  | %(?:25){0,3}(?P<percent>[2-7][0-9a-fA-F]|0[9aAdD])
  | &(?: \#x(?P<entity_hex>[2-7][0-9a-fA-F]) | \#(?P<entity>\d{2,3}) | (?P<named>quot|amp|apos|lt|gt) );
    """,
    re.VERBOSE,
)
_NO_WIDTH = re.compile(r"[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]|\\{1,4}u(?:00ad|200[b-f]|206[0-4]|feff)")
_TERMINAL = re.compile(r"(?:\x1b|\\(?:x1b|033|e|u001b))[\[\](]")
_HINTS = ("\x1b", "\\", "%", "&", "\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}
_ENTITIES = {"quot": '"', "amp": "&", "apos": "'", "lt": "<", "gt": ">"}


@dataclass(frozen=True, slots=True)
class DecodedText:
    """A decoded text, with the place of each decoded piece in it and in the original text."""

    text: str
    places: Sequence[int] = ()
    widths: Sequence[int] = ()
    origins: Sequence[Span] = ()

    def found(self, find: Finder) -> Iterator[Span]:
        """The spans of the original text in which a finder finds something in this reading."""
        for first, stop in find(self.text):
            yield self._origin(first, is_end=False), self._origin(stop - 1, is_end=True)

    def _origin(self, at: int, *, is_end: bool) -> int:
        """Where the character at this place begins, or ends, in the original."""
        piece = bisect_right(self.places, at) - 1
        if piece < 0:
            return at + is_end
        behind = at - self.places[piece] - self.widths[piece]
        if behind < 0:  # it is the decoded character itself
            return self.origins[piece][is_end]
        return self.origins[piece][1] + behind + is_end


def as_written_and_decoded(text: str) -> list[DecodedText]:
    """The text as written and, if it contains encoded parts, decoded copies: terminal escapes are removed in
    the first copy (a colour inside a key) and become blanks in a second (a colour before a key).
    """
    readings = [DecodedText(text)]
    if any(hint in text for hint in _HINTS) and (first := _ENCODED.search(text)):
        readings.append(_decoded(text, _ENCODED.finditer(text, first.start()), ""))
        if _TERMINAL.search(text):
            readings.append(_decoded(text, _ENCODED.finditer(text, first.start()), " "))
    return readings


def as_written_and_visible(text: str) -> list[DecodedText]:
    """The text itself and, where it holds characters of no width, what a reader sees of it."""
    has_none = text.isascii() and "\\u" not in text
    hidden = [] if has_none else list(_NO_WIDTH.finditer(text))
    return [DecodedText(text), *([_decoded(text, hidden, "")] if hidden else [])]


def _decoded(text: str, encoded: Iterable[re.Match[str]], gap: str) -> DecodedText:
    parts: list[str] = []
    places: list[int] = []
    widths: list[int] = []
    origins: list[Span] = []
    known: dict[str, str] = {}
    here = there = 0
    for match in encoded:
        written, origin = match[0], match.span()
        plain = known.get(written)
        if plain is None:
            plain = known[written] = gap if match.lastgroup == "terminal" else _plain(match)
        here += origin[0] - there
        parts += (text[there : origin[0]], plain)
        places.append(here)
        widths.append(len(plain))
        origins.append(origin)
        here += len(plain)
        there = origin[1]
    parts.append(text[there:])
    return DecodedText("".join(parts), places, widths, origins)


def _plain(match: re.Match[str]) -> str:
    kind, value = match.lastgroup, match[match.lastgroup or 0]
    if kind in ("unicode", "hex", "percent", "entity_hex"):
        return chr(int(value, 16))
    if kind == "letter":
        return _LETTERS.get(value, value)
    if kind == "entity":
        return chr(int(value)) if 9 <= int(value) < 127 else " "
    return _ENTITIES.get(value, "")
