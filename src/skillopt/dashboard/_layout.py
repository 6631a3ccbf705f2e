"""The frame around every page: header, navigation, theme, and what stands there when a page
cannot be shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nicegui import ui

from skillopt.dashboard import _widgets as w
from skillopt.dashboard._page import Page, Surroundings
from skillopt.dashboard._runs import RunPlace

THEME_COOKIE = "skillopt_theme"
_THEMES: dict[str, bool | None] = {"system": None, "light": False, "dark": True}
_ICONS = {"system": "brightness_auto", "light": "light_mode", "dark": "dark_mode"}
_STYLE = (Path(__file__).parent / "_style.css").read_text(encoding="utf-8")


@contextmanager
def frame(
    around: Surroundings, page: Page | None, title: str, place: RunPlace | None = None
) -> Iterator[None]:
    """Everything but the page's own content, which is made inside of it."""
    ui.add_css(_STYLE)
    ui.page_title(f"{title} · SkillOpt" if place is None else f"{title} · {place.name} · SkillOpt")
    ui.colors(primary="#2563c9", negative="#b3261e", positive="#12703c")
    # The library's own page element is the `main` of the document, so header and skip link stand beside it,
    # not inside.
    client = ui.context.client
    assert client.content.parent_slot is not None
    main = client.content.parent_slot.parent.props('tabindex="-1"')
    with ui.header(fixed=False).classes("so-header"):
        ui.link("SkillOpt", "/").classes("so-brand")
        _navigation("Main", [one for one in _ordered(around) if not one.is_of_run], page, None)
        ui.element("div").classes("so-spread")
        _theme()
    with client.layout:
        ui.link("Skip to the content", f"#{main.html_id}").classes("so-skip").move(target_index=0)
    with client.content.classes("so-main"):
        with ui.element("div").classes("so-title"):
            w.heading(title if place is None else place.name, level=1)
            if place is not None:
                _mark_simulated(place.folder)
        if place is not None:
            _navigation(
                "Pages of this run", [one for one in _ordered(around) if one.is_of_run], page, place.id
            )
        yield


def _mark_simulated(folder: Path) -> None:
    """The chip of a run in which no real model takes part; a run that was just started says so a moment
    later.
    """

    def look() -> None:
        said = _simulated(folder)
        if said:
            w.simulated()
        if said is not None:
            again.deactivate()

    again = ui.timer(0.5, look, immediate=False)
    look()


def _simulated(folder: Path) -> bool | None:
    """What the run's first event says; None before there is one."""
    try:
        with (folder / "events.jsonl").open(encoding="utf-8") as lines:
            first = json.loads(lines.readline())
    except (OSError, ValueError):  # being written at this moment, or no log; the page itself says more
        return None
    return isinstance(first, dict) and first.get("simulated") is True


def _ordered(around: Surroundings) -> list[Page]:
    return sorted(around.pages.values(), key=lambda one: one.place)


def _navigation(label: str, entries: list[Page], current: Page | None, run: str | None) -> None:
    with w.named(ui.element("nav"), label).classes("so-nav" if run is None else "so-nav so-tabs"):
        for entry in entries:
            with ui.link(target=entry.url(run)) as link:
                if entry.icon:
                    ui.icon(entry.icon).props('aria-hidden="true"')
                ui.label(entry.title)
            if entry is current:
                link.props('aria-current="page"')


def _theme() -> None:
    """A button that goes through system, light and dark; the choice is kept in the browser."""
    chosen = ui.context.client.request.cookies.get(THEME_COOKIE, "system")
    names = list(_THEMES)
    state = {"name": chosen if chosen in _THEMES else "system"}
    dark = ui.dark_mode(_THEMES[state["name"]])

    def told() -> None:
        button.props["icon"] = _ICONS[state["name"]]
        w.named(button, f"Theme: {state['name']}. Press to change.")
        button.text = state["name"].capitalize()
        button.update()

    def turn() -> None:
        state["name"] = names[(names.index(state["name"]) + 1) % len(names)]
        dark.value = _THEMES[state["name"]]
        ui.run_javascript(
            f"document.cookie = '{THEME_COOKIE}={state['name']}; path=/; SameSite=Strict; max-age=31536000'"
        )
        told()

    button = ui.button("", on_click=turn).props("flat no-caps dense color=primary").classes("so-theme")
    told()
