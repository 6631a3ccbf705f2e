"""The few controls that pages are filled in by: a field, a choice, a box, and the pager under a long list."""

from __future__ import annotations

from collections.abc import Mapping

from skillopt.dashboard._page import Visit
from skillopt.render.markup import Markup, tag


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
    return tag(
        "label", tag("input", type="checkbox", name=name, value=value, checked=checked), label, cls="box"
    )


def pager(
    visit: Visit, total: int, size: int, what: str, *, key: str = "page", last: bool = False
) -> tuple[slice, Markup]:
    """Which part of a long list is shown, and the links to the others. With `last` the end comes first."""
    pages = max(1, -(-total // size))
    asked = visit.query.get(key, "")
    at = (
        min(int(asked), pages)
        if asked.isdecimal() and asked != "0" and len(asked) < 9
        else pages
        if last
        else 1
    )
    first, end = (at - 1) * size, min(total, at * size)
    said = f"{first + 1:,} to {end:,} of {total:,} {what}" if total else f"no {what}"
    links = [
        tag("a", name, href=visit.here(**{key: str(to)}), data_swap=True)
        for name, to in (("Previous", at - 1), ("Next", at + 1))
        if 1 <= to <= pages
    ]
    shown = tag("span", said, role="status", cls="soft")
    nav = (
        tag("nav", shown, *links, aria_label=f"Pages of {what}")
        if total > size or not total
        else tag("p", shown)
    )
    return slice(first, end), nav
