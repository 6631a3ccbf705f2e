"""Makes text of a run harmless in Markdown."""

from __future__ import annotations

import html
import re

from skillopt.render.markup import visible

_MARKDOWN = re.compile(r"([\\`*_\[\]|#~!])")


def markdown(text: object) -> str:
    """Text of a run as one line of plain Markdown text, also inside a table."""
    return _MARKDOWN.sub(r"\\\1", html.escape(" ".join(visible(str(text)).split()), quote=False))
