"""Markup that cannot carry text of a run as markup: whatever is not made here is escaped. For parts too large
for an element each.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from nicegui import ui

from skillopt.dashboard import _widgets as w

_NAME = re.compile(r"[a-z][a-z0-9-]*")


class Markup(str):
    """A piece of markup in which every text is escaped."""

    __slots__ = ()


def tag(name: str, *children: str | Markup, cls: str = "", **attributes: str | int | None) -> Markup:
    """An element around texts and other elements. `aria_label` is written `aria-label`; an attribute that is
    None is left out.
    """
    shown = [
        ("class", cls or None),
        *((key.rstrip("_").replace("_", "-"), item) for key, item in attributes.items()),
    ]
    for key, _ in shown:
        assert _NAME.fullmatch(key), f"{key!r} is no name of an attribute"
    written = "".join(
        f' {key}="{html.escape(w.visible(str(item)))}"' for key, item in shown if item is not None
    )
    inside = "".join(
        child if isinstance(child, Markup) else html.escape(w.visible(child)) for child in children
    )
    return Markup(f"<{name}{written}>{inside}</{name}>")


def joined(parts: Iterable[Markup]) -> Markup:
    """Several pieces one after the other."""
    return Markup("".join(parts))


def block(content: Markup, name: str = "div") -> ui.html:
    """Put markup on the page."""
    # Not sanitised in the browser, which is slow for large parts: every text in it was escaped when it was
    # made.
    return ui.html(content, sanitize=False, tag=name)
