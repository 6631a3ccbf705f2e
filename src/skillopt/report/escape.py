"""Makes text of a run harmless in HTML and in Markdown."""

from __future__ import annotations

import html
import re

# Half of a surrogate pair cannot be written as UTF-8, and control characters do not belong in a page.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_MARKDOWN = re.compile(r"([\\`*_\[\]|#~!])")


def escape(text: object) -> str:
    """Text of a run as text of a page, also inside an attribute."""
    return html.escape(printable(str(text)), quote=True)


def printable(text: str) -> str:
    """The text without what no file can hold."""
    return _UNPRINTABLE.sub("\ufffd", text)


def markdown(text: object) -> str:
    """Text of a run as one line of plain Markdown text, also inside a table."""
    return _MARKDOWN.sub(r"\\\1", html.escape(" ".join(printable(str(text)).split()), quote=False))
