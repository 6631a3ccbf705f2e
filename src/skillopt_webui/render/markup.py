"""Markup that cannot carry text of a run as markup, and the controls of pages: whatever is not made here is
escaped.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from skillopt.evaluation.significance import TONES as PROVEN
from skillopt.skill.diff import lines_of

_NAME = re.compile(r"[a-z][a-zA-Z0-9-]*")
_VOID = frozenset({"input", "br", "meta"})
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
Tone = Literal["plain", "good", "bad", "warn", "info"]
TONES: dict[str, Tone] = {
    **PROVEN,
    "running": "info",
    "starting": "info",
    "pending": "info",
    "partly adopted": "info",
    "accepted": "good",
    "adopted": "info",
    "applied": "good",
    "pass": "good",
    "stopped": "warn",
    "taken without a gate": "warn",
    "simulated": "warn",
    "unreadable": "bad",
    "inconclusive": "bad",
    "invalid": "bad",
    "interrupted": "bad",
    "fail": "bad",
}
"""The colour of a state; it says nothing that the word does not."""


class Markup(str):
    """A piece of markup in which every text is escaped."""

    __slots__ = ()


def tag(name: str, /, *children: str, cls: str = "", **attributes: str | float | bool | None) -> Markup:
    """An element around texts and other elements. `aria_label` is written `aria-label`; an attribute that is
    None or False is left out, and one that is True stands alone.
    """
    written = f' class="{cls}"' if cls else ""
    for key, item in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        assert _NAME.fullmatch(key), f"{key!r} is no name of an attribute"
        if item is True:
            written += f" {key}"
        elif item is not None and item is not False:
            written += f' {key}="{html.escape(visible(str(item)))}"'
    inside = "".join(
        child if isinstance(child, Markup) else html.escape(visible(child)) for child in children
    )
    return Markup(f"<{name}{written}>" if name in _VOID else f"<{name}{written}>{inside}</{name}>")


def sentence(text: str, cls: str = "") -> Markup:
    """A paragraph of text; what stands between backticks is code."""
    parts = re.split("`([^`]+)`", text)
    return tag("p", *(tag("code", part) if at % 2 else part for at, part in enumerate(parts)), cls=cls)


def joined(parts: Iterable[Markup]) -> Markup:
    """Several pieces one after the other."""
    return Markup("".join(parts))


def visible(text: str) -> str:
    """The text with a mark for every character that cannot be seen or turns the direction of reading."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "\ufffd" if char not in "\t\r\n" and unicodedata.category(char) in _UNSEEN else char for char in text
    )


def card(title: str, *inside: str, id: str | None = None, cls: str = "card") -> Markup:
    """A part of a page with a heading: a landmark for people who cannot see it."""
    return tag("section", tag("h2", title), *inside, cls=cls, id=id, aria_label=title)


def soft(text: str) -> Markup:
    """A sentence that explains."""
    return tag("p", text, cls="soft")


def empty(text: str) -> Markup:
    """What stands where nothing is yet."""
    return tag("p", text, cls="empty")


def chip(word: str, tone: Tone | None = None) -> Markup:
    """A short state in words."""
    return tag("span", word, cls=f"chip {tone or TONES.get(word, 'plain')}")


def trouble(text: str) -> Markup:
    """An error in its own words; read out at once."""
    return tag("pre", text, cls="trouble", role="alert")


def fold(head: str, *inside: str, key: str | None = None, open: bool = False, cls: str = "") -> Markup:
    """A part that opens on a click or with the keyboard. One with a key stays open when the page changes."""
    body = tag("div", *inside, cls="inside")
    return tag("details", tag("summary", head), body, cls=cls, data_key=key, open=open)


def verbatim(text: str, label: str) -> Markup:
    """Text as it is, in a box that scrolls and can be reached by keyboard."""
    return region(label, text, name="pre")


def region(label: str, *inside: str, cls: str = "scroll", name: str = "div") -> Markup:
    """Wide things scroll in a box of their own, which the keyboard reaches."""
    return tag(name, *inside, cls=cls, role="region", aria_label=label, tabindex=0)


def listed(items: Iterable[str], cls: str = "") -> Markup:
    """A list."""
    return tag("ul", *(tag("li", item) for item in items), cls=cls)


def pairs(found: Iterable[tuple[str, str]], cls: str = "facts") -> Markup:
    """Names and values."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in found), cls=cls)


def table(
    label: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: int | None = None,
    sums: bool = False,
) -> Markup:
    """A table in a box that scrolls. Figures from column `numbers` on; with `sums` the last row is all."""
    first = len(heads) if numbers is None else numbers
    kinds = ["number" if place >= first else "" for place in range(len(heads))]
    head = (tag("th", text, scope="col", cls=kind) for text, kind in zip(heads, kinds, strict=True))
    body = []
    for cells in rows:
        rest = (tag("td", text, cls=kind) for text, kind in zip(cells[1:], kinds[1:], strict=True))
        body.append(tag("tr", tag("th", cells[0], scope="row"), *rest))
    foot = [tag("tfoot", body.pop())] if sums and body else []
    made = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), *foot, cls="plain")
    return region(label, made)


def diff(text: str, label: str = "Difference") -> Markup:
    """A unified diff; added and removed lines keep their signs, colour only helps."""
    return region(label, *(tag("span", line or " ", cls=kind) for kind, line in lines_of(text)), name="pre")


def field(name: str, label: str, value: str = "", *, hint: str = "", placeholder: str = "") -> Markup:
    """A line of text; what is in it when nothing is filled in stands in grey."""
    box = tag("input", name=name, value=value or None, placeholder=placeholder or None, autocomplete="off")
    return tag("label", label, box, tag("small", hint) if hint else "")


def choice(name: str, label: str, options: Mapping[str, str], chosen: str) -> Markup:
    """One of several."""
    found = (tag("option", text, value=key, selected=key == chosen) for key, text in options.items())
    return tag("label", label, tag("select", *found, name=name))


def box(name: str, label: str, *, checked: bool = False, value: str = "1") -> Markup:
    """Yes or no."""
    ticked = tag("input", type="checkbox", name=name, value=value, checked=checked)
    return tag("label", ticked, label, cls="box")


def button(
    verb: str,
    name: str,
    ask: str = "",
    detail: str = "",
    yes: str = "",
    *,
    main: bool = False,
    **more: str | bool,
) -> Markup:
    """A button that posts `verb`. With `ask`, a dialog asks first: `detail` explains, `yes` confirms."""
    asked = {"data_ask": ask or None, "data_detail": detail or None, "data_yes": yes or None}
    return tag("button", name, name="verb", value=verb, cls="main" if main else "", **asked, **more)


def stop_button() -> Markup:
    """Stops a run."""
    kept = "Nothing further is sent; what was sent is waited for and kept. Resume goes on at the same place."
    return button("stop", "Stop", "Stop this run?", kept, "Stop")


def hidden(name: str, value: str) -> Markup:
    """What a form says by itself."""
    return tag("input", type="hidden", name=name, value=value)


def actions(*buttons: Markup) -> Markup:
    """Buttons in a row."""
    return tag("div", *buttons, cls="actions")


def filters(*controls: Markup) -> Markup:
    """Controls that change what the page shows."""
    return tag("div", tag("form", *controls, data_swap=True, cls="filter"), cls="card")
