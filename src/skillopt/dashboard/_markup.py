"""Puts markup of the renderer on a page."""

from __future__ import annotations

from nicegui import ui

from skillopt.render.markup import Markup, joined, tag

__all__ = ["Markup", "block", "joined", "tag"]


def block(content: Markup, name: str = "div") -> ui.html:
    """Put markup on the page."""
    # Not sanitised in the browser, which is slow for large parts: every text in it was escaped when it was
    # made.
    return ui.html(content, sanitize=False, tag=name)
