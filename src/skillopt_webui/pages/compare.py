"""The page Compare: several runs on one pair of axes, their figures, and the settings that differ."""

from __future__ import annotations

from skillopt.errors import UsageError
from skillopt.runs.comparison import PROVEN, compare, in_words
from skillopt_webui._page import Page, Parts, Visit
from skillopt_webui.render.markup import card, chip, listed, region, soft, table, tag
from skillopt_webui.render.stairs import together

MOST = 6
"""Runs that are compared at once; more cannot be told apart."""


async def build(visit: Visit) -> Parts:
    """The runs that the address names."""
    ids = list(dict.fromkeys(visit.query.getall("run", [])))
    if not 2 <= len(ids) <= MOST:
        raise UsageError(
            f"Two to {MOST} runs can be compared, and {len(ids)} are chosen. Tick them under Runs."
        )
    places = [visit.around.roots.find(id) for id in ids]
    found = [(place, (await visit.look(place.folder)).view()) for place in places]
    runs = [(place, view) for place, view in found if view is not None]
    told = compare([view for _, view in runs])
    names = [place.name for place, _ in runs]
    figures = [in_words(one) for one in told.views]
    drawn = {PROVEN: chip}
    rows = [[name, *(drawn.get(name, str)(one[name]) for one in figures)] for name in figures[0]]
    settings = [
        [key, *("–" if value is None else value for value in values)] for key, values in told.settings.items()
    ]
    links = (
        tag(
            "p",
            tag("a", place.name, href=visit.url("run", run=place.id)),
            f": {view.claim or 'no claim yet'}",
        )
        for place, view in runs
    )
    return {
        "compare": card(
            "Side by side",
            region("Chart of the val scores", together([(one.name, view) for one, view in runs]), cls="wide"),
            table("Figures", ("figure", *names), rows),
            tag("h3", "Settings that differ") if settings else "",
            table("Settings that differ", ("key", *names), settings) if settings else "",
            *links,
            listed(told.remarks, cls="remarks") if told.remarks else soft(""),
        )
    }


PLUGIN = Page(path="/compare", title="Compare", place=-1, build=build)
