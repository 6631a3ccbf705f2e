"""The few controls of pages: a field, a choice, a box, a button, forms, and the pager under a long list."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from skillopt_webui._launch import Launches
from skillopt_webui._page import ActionReply, Visit
from skillopt_webui.render.markup import Markup, tag


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
    """What a page can do. With `ask` that is asked first, with the detail, and `yes` to press."""
    asked = {"data_ask": ask or None, "data_detail": detail or None, "data_yes": yes or None}
    return tag("button", name, name="verb", value=verb, cls="main" if main else "", **asked, **more)


def stop_button() -> Markup:
    """Stops a run."""
    kept = "Nothing further is sent; what was sent is waited for and kept. Resume goes on at the same place."
    return button("stop", "Stop", "Stop this run?", kept, "Stop")


def stop_or_resume(launches: Launches, verb: str, folder: Path) -> ActionReply:
    """Do what the buttons of a run say."""
    if verb == "stop":
        return ActionReply(said=f"Asked process {launches.stop(folder)} to stop.")
    return ActionReply(said=f"Started as process {launches.resume(folder).pid}.")


def hidden(name: str, value: str) -> Markup:
    """What a form says by itself."""
    return tag("input", type="hidden", name=name, value=value)


def actions(*buttons: Markup) -> Markup:
    """Buttons in a row."""
    return tag("div", *buttons, cls="actions")


def filters(*controls: Markup) -> Markup:
    """Controls that change what the page shows."""
    return tag("div", tag("form", *controls, data_swap=True, cls="filter"), cls="card")


def pager(
    visit: Visit, total: int, size: int, what: str, *, key: str = "page", last: bool = False
) -> tuple[slice, Markup]:
    """Which part of a long list is shown, and the links to the others. With `last` the end comes first."""
    pages = max(1, -(-total // size))
    asked, at = visit.query.get(key, ""), pages if last else 1
    if asked.isdecimal() and asked != "0" and len(asked) < 9:
        at = min(int(asked), pages)
    first, end = (at - 1) * size, min(total, at * size)
    said = f"{first + 1:,} to {end:,} of {total:,} {what}" if total else f"no {what}"
    links = [
        tag("a", name, href=visit.here(**{key: str(to)}), data_swap=True)
        for name, to in (("Previous", at - 1), ("Next", at + 1))
        if 1 <= to <= pages
    ]
    shown = tag("span", said, role="status", cls="soft")
    is_whole = 0 < total <= size
    nav = tag("p", shown) if is_whole else tag("nav", shown, *links, aria_label=f"Pages of {what}")
    return slice(first, end), nav
