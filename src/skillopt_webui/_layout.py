"""The frame app every page: header, navigation, theme, and the parts of the page inside."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from skillopt_webui._page import AppState, Page, Parts
from skillopt_webui._runs import RunPlace
from skillopt_webui.render.document import SCRIPT, document
from skillopt_webui.render.markup import Markup, joined, tag

THEME_COOKIE = "skillopt_theme"
THEMES = ("system", "light", "dark")
_LIVE = files("skillopt_webui").joinpath("live.js").read_text(encoding="utf-8")
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32'"
    " height='32' rx='7' fill='%232563c9'/%3E%3Cpath d='M6 23l7-8 5 4 8-11' fill='none' stroke='%23fff'"
    " stroke-width='3.2' stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E"
)
_HOLE = '<div id="task" data-part="task"></div>'
"""Where a part of its own stands inside another one."""
_OPEN = (
    "This dashboard asks for no token: every account of this machine can start programs as you here. Start it"
    " without --no-token to close it."
)


def frame(
    app: AppState,
    page: Page | None,
    title: str,
    parts: Parts,
    *,
    nonce: str,
    theme: str,
    place: RunPlace | None = None,
) -> str:
    """A whole page as it is sent."""
    theme = theme if theme in THEMES else THEMES[0]
    ordered = sorted((one for one in app.pages.values() if one.place >= 0), key=lambda one: one.place)
    header = tag(
        "header",
        tag("a", "SkillOpt", href="/", cls="brand"),
        _navigation("Main", [one for one in ordered if not one.is_of_run], page, None),
        tag("span", cls="spread"),
        tag("button", f"Theme: {theme}", id="theme", type="button", data_theme=theme),
    )
    head = [tag("h1", title if place is None else place.name)]
    if place is not None:
        tabs = [one for one in ordered if one.is_of_run]
        head.append(_navigation("Pages of this run", tabs, page, place.id))
    said = tag("p", cls="note", id="said", role="status", hidden=True)
    shown = "".join(_part(name, made) for name, made in parts.items() if name != "task")
    if "task" in parts:
        shown = shown.replace(_HOLE, _part("task", parts["task"]).replace("<div ", '<div id="task" ', 1))
    main = tag(
        "main",
        tag("p", _OPEN, cls="note") if app.is_open else "",
        tag("div", *head, cls="title") if place else head[0],
        *(said, tag("div", id="refused"), tag("div", id="trouble")),
        tag("div", Markup(shown), id="parts"),
        id="content",
        tabindex=-1,
        data_live=page is not None,
    )
    body = joined([tag("a", "Skip to the content", href="#content", cls="skip"), header, main])
    return document(
        " · ".join([title, *([] if place is None else [place.name]), "SkillOpt"]),
        body,
        head=Markup(f'<link rel="icon" href="{_ICON}">'),
        script=Markup(f'<script nonce="{nonce}">{SCRIPT}\n{_LIVE}</script>'),
        theme=None if theme == "system" else theme,
    )


def digest(made: Markup) -> str:
    """What tells a part from the same part as it was before."""
    return hashlib.sha256(made.encode("utf-8", "replace")).hexdigest()[:12]


def _part(name: str, made: Markup) -> str:
    return tag("div", made, data_part=name, data_v=digest(made))


def _navigation(label: str, entries: list[Page], current: Page | None, run: str | None) -> Markup:
    links = (
        tag("a", one.title, href=one.url(run), aria_current="page" if one is current else None)
        for one in entries
    )
    return tag("nav", *links, aria_label=label)
