"""Text of others - models, tasks, transcripts - made safe to print and to store: what no terminal should obey
and no file can hold becomes a symbol.

A terminal obeys the escape sequences it is sent: text that a model wrote could move the cursor, retitle the
window or hide what follows. Bidirectional overrides let one line read as another.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)}
_HIDDEN = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SYMBOLS = {
    **_PICTURES,
    0x7F: "\u2421",
    **dict.fromkeys((*range(128, 160), *range(55296, 57344)), "�"),
    **{code: f"<U+{code:04X}>" for code in _HIDDEN},
}


def printable(text: str, keep: str = "\n\t") -> str:
    """The text with a visible symbol for every control, direction and half-surrogate character but `keep`."""
    return text.translate(_symbols(keep))


def clean_text(text: str) -> str:
    """Text that can be stored as UTF-8: half of a surrogate pair becomes a replacement character."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@lru_cache(maxsize=16)
def _symbols(keep: str) -> Mapping[int, str]:
    return {code: symbol for code, symbol in _SYMBOLS.items() if chr(code) not in keep}
