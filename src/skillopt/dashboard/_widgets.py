"""The few building blocks every page is made of; all text given to them is shown as text, never as markup."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeVar

from nicegui import ui

from skillopt.skill.diff import lines_of

_UNSEEN = ("Cc", "Cf", "Zl", "Zp")
E = TypeVar("E", bound=ui.element)
Tone = Literal["plain", "good", "bad", "warn", "info"]


def heading(text: str, level: int = 2) -> ui.element:
    """A heading of the given level; the frame has the page's only `h1`."""
    return _text(f"h{level}", text)


def paragraph(text: str, *, soft: bool = False) -> ui.element:
    """A sentence."""
    return _text("p", text).classes("so-soft" if soft else "")


@contextmanager
def section(title: str, *, hidden_title: bool = False) -> Iterator[ui.element]:
    """A card with a heading, and a landmark for people who cannot see it."""
    with named(ui.element("section"), title).classes("so-card") as card:
        if not hidden_title:
            heading(title)
        yield card


def chip(text: str, tone: Tone = "plain") -> ui.element:
    """A short state in words; the tone only colours what the words say."""
    return _text("span", text).classes(f"so-chip so-{tone}")


def simulated() -> ui.element:
    """The mark of everything that no real model did."""
    return chip("simulated", "warn").props('title="No real model took part."')


def empty(text: str) -> ui.element:
    """What stands where there is nothing yet, and what to do about it."""
    return _text("p", text).classes("so-empty")


def trouble(text: str) -> ui.element:
    """An error in its own words; read out at once."""
    return _text("pre", text).classes("so-trouble").props('role="alert"')


def verbatim(text: str, label: str) -> ui.element:
    """Text as it is, in a box that scrolls and can be reached by keyboard."""
    return _region(_text("pre", visible(text)), label).classes("so-verbatim")


def diff(text: str, label: str = "Difference") -> ui.element:
    """A unified diff, line by line; added and removed lines keep their sign."""
    lines = "".join(
        f"<span class='so-line so-{kind}'>{html.escape(visible(line)) or ' '}</span>"
        for kind, line in lines_of(text)
    )
    # Not sanitised in the browser: every character of the text was escaped on the line above.
    return _region(ui.html(lines, sanitize=False, tag="pre"), label).classes("so-verbatim so-diff")


def facts(pairs: Sequence[tuple[str, str]]) -> None:
    """Names and values side by side, wrapping on narrow screens."""
    with ui.element("dl").classes("so-facts"):
        for name, value in pairs:
            with ui.element("div"):
                _text("dt", name)
                _text("dd", value)


@contextmanager
def table(label: str, columns: Sequence[str], numbers: Sequence[str] = ()) -> Iterator[ui.element]:
    """A table with a head; yields its body, to be filled by `row`. For long lists use `ui.table`, which
    pages.
    """
    with _region(ui.element("div"), label).classes("so-scroll"), ui.element("table").classes("so-table"):
        with ui.element("thead"), ui.element("tr"):
            for column in columns:
                _text("th", column).props('scope="col"').classes("so-number" if column in numbers else "")
        with ui.element("tbody") as body:
            yield body


def row(cells: Sequence[str], *, numbers: Sequence[int] = ()) -> ui.element:
    """One row of a `table`; `numbers` are the positions of figures."""
    with ui.element("tr") as line:
        for position, cell in enumerate(cells):
            _text("td", cell).classes("so-number" if position in numbers else "")
    return line


def link(text: str, url: str) -> ui.element:
    """A link inside the dashboard."""
    return ui.link(text, url).classes("so-link")


async def confirmed(question: str, detail: str, yes: str) -> bool:
    """Ask before something changes; closing the question is a no. It belongs to the page and not to the part
    that asks, which may be drawn anew meanwhile.
    """
    with (
        ui.context.client.content,
        named(ui.dialog(), question) as dialog,
        ui.element("div").classes("so-card so-dialog"),
    ):
        heading(question)
        paragraph(detail)
        with ui.element("div").classes("so-actions"):
            ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat autofocus no-caps")
            ui.button(yes, on_click=lambda: dialog.submit(True)).props("unelevated no-caps")
    answer = await dialog
    dialog.delete()
    return answer is True


def visible(text: str) -> str:
    """The text with a mark for every character that would not be seen or that turns the direction of reading:
    nothing can hide in it.
    """
    return "".join(
        "\ufffd" if char not in "\t\r\n" and unicodedata.category(char) in _UNSEEN else char for char in text
    )


def named(element: E, name: str) -> E:
    """Give an element the name that a screen reader says; any text is safe here."""
    element.props["aria-label"] = name
    return element


def _region(element: E, name: str) -> E:
    """A part that scrolls: reached by keyboard, and named."""
    element.props["tabindex"] = "0"
    element.props["role"] = "region"
    return named(element, name)


def _text(tag: str, text: str) -> ui.element:
    element = ui.label(text)
    element.tag = tag
    return element
