"""The page Runs: every run below the roots, how it stands, and several of them side by side."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from nicegui import ui

from skillopt.dashboard import _charts as charts
from skillopt.dashboard import _live as live
from skillopt.dashboard import _widgets as w
from skillopt.dashboard._markup import Markup, block, joined, tag
from skillopt.dashboard._page import Page, Visit
from skillopt.dashboard._runs import RunPlace
from skillopt.errors import SkillOptError
from skillopt.runs.curves import curves
from skillopt.runs.listing import RunOverview
from skillopt.runs.side_by_side import Compared, compare, in_words
from skillopt.runs.values import Facts
from skillopt.runs.words import NOT_MEASURED, marks, money, score

EVERY = 2.0
SIZE = 25
MOST = 6
"""Runs that are compared at once; more cannot be told apart."""
_ALL = "all"


class _Row:
    """One line of the list; its cells change in place."""

    def __init__(self, page: _Runs, place: RunPlace, one: RunOverview) -> None:
        with ui.element("tr"):
            with ui.element("td"):
                self.box = ui.checkbox(
                    value=place.id in page.chosen,
                    on_change=lambda event: page.choose(place.id, bool(event.value)),
                )
                w.named(self.box, f"Compare {place.name}")
            with ui.element("td"), ui.element("div").classes("so-row"):
                w.link(place.name, page.visit.url("run", run=place.id))
                if one.simulated:
                    w.simulated()
            with ui.element("td"):
                self.status = live.Chip()
            self.cells = [_cell() for _ in range(2)]
            self.numbers = [_cell("so-number") for _ in range(4)]
        self.show(one)

    def show(self, one: RunOverview) -> None:
        """The figures of the run now."""
        self.status.show(one.status)
        test = (
            f"{score(one.test.get('seed'))} → {score(one.test['best'])}"
            if one.test.get("best") is not None
            else NOT_MEASURED
        )
        texts = [
            one.trouble or f"{one.benchmark} · {one.target}",
            f"{one.step}/{one.steps} {marks(one.actions[-12:])}",
        ]
        figures = [
            NOT_MEASURED if one.baseline is None else f"{score(one.baseline)} → {score(one.best)}",
            test,
            f"{money(one.usd)} · {one.calls:,} calls",
            f"{_ago(one.changed)} ago",
        ]
        for cell, text in zip([*self.cells, *self.numbers], [*texts, *figures], strict=True):
            cell.text = text


class _Runs:
    """The list of one visit."""

    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.chosen: list[str] = [one for one in visit.query.get("compare", "").split(",") if one][:MOST]
        self.places: dict[str, RunPlace] = {}
        self.found: dict[str, RunOverview] = {}
        self.rows: dict[str, _Row] = {}
        with w.section("All runs", hidden_title=True):
            with ui.element("div").classes("so-row"):
                self.words = ui.input("Filter by name, benchmark or model", on_change=self.draw).props(
                    "outlined dense clearable"
                )
                states = [_ALL, "running", "finished", "stopped"]
                self.state = ui.select(states, label="Status", value=_ALL, on_change=self.draw).props(
                    "outlined dense options-dense"
                )
                self.button = ui.button("Compare", icon="compare", on_click=self.compare).props(
                    "unelevated no-caps"
                )
            self.said = ui.label("").classes("so-soft").props('role="status"')
            columns = (
                "compare",
                "run",
                "status",
                "benchmark, target",
                "steps",
                "val",
                "sealed test",
                "cost",
                "changed",
            )
            with w.table("Runs", columns, columns[5:]) as self.body:
                pass
            self.pages = live.Pages(SIZE, self.draw, "runs")
            self.nothing = w.empty(
                f"No run below {visit.around.roots.spoken}. Start one under Launch, or by 'skillopt train'."
            )
        self.compared = ui.element("div").classes("so-main so-bare")

    async def refresh(self) -> None:
        """Look again; a line that stays is changed in place."""
        places: list[RunPlace] = []

        def folders() -> list[Path]:
            places.extend(self.visit.around.roots.runs())
            return [place.folder for place in places]

        found = {one.folder: one for one in await live.listed(folders)}
        self.places = {place.id: place for place in places if place.folder in found}
        self.found = {place.id: found[place.folder] for place in self.places.values()}
        self.chosen = [
            id for id in self.chosen if id in self.found
        ]  # one that was deleted has no box to take it out by
        self.draw()

    def draw(self) -> None:
        """The part of the list that was asked for."""
        wanted = [id for id, one in self.found.items() if self._matches(self.places[id], one)]
        wanted.sort(key=lambda id: -self.found[id].changed)
        running = sum(one.status == "running" for one in self.found.values())
        too_many = f" At most {MOST} runs are compared at once." if len(self.chosen) > MOST else ""
        self.said.text = f"{len(self.found):,} runs, {running:,} running.{too_many}" if self.found else ""
        self.nothing.set_visibility(not self.found)
        self.button.text = f"Compare {len(self.chosen)}" if self.chosen else "Compare"
        self.button.set_enabled(1 < len(self.chosen) <= MOST)
        shown = wanted[self.pages.part(len(wanted))]
        if shown == list(self.rows):
            for id, row in self.rows.items():
                row.show(self.found[id])
            return
        self.body.clear()
        with self.body:
            self.rows = {id: _Row(self, self.places[id], self.found[id]) for id in shown}

    def choose(self, id: str, wanted: bool) -> None:
        """Take a run into the comparison, or out of it."""
        self.chosen = [one for one in self.chosen if one != id] + ([id] if wanted else [])
        self.draw()

    async def compare(self) -> None:
        """Put the chosen runs side by side."""
        self.compared.clear()
        with self.compared, w.section("Side by side"):
            try:
                places = [self.visit.around.roots.find(id) for id in self.chosen]
                facts = [(place, (await live.look(place.folder)).facts()) for place in places]
                _side_by_side([(place, one) for place, one in facts if one is not None])
            except SkillOptError as error:
                w.trouble(str(error))

    def _matches(self, place: RunPlace, one: RunOverview) -> bool:
        if self.state.value not in (_ALL, one.status):
            return False
        text = (
            f"{place.name} {one.benchmark} {one.target} {one.optimizer}"
            f" {'simulated' if one.simulated else ''}".lower()
        )
        return all(word in text for word in (self.words.value or "").lower().split())


def _side_by_side(runs: Sequence[tuple[RunPlace, Facts]]) -> None:
    told = compare([(place.folder, facts) for place, facts in runs])
    chart = ui.echart(
        charts.together([(place.name, curves(facts)) for place, facts in runs]), renderer="svg"
    ).classes("so-chart")
    chart.props["role"] = "img"
    w.named(chart, "Val scores of the runs; the table below has the figures")
    block(_table([place.name for place, _ in runs], told)).classes("so-scroll").props('tabindex="0"')
    for place, facts in runs:
        w.paragraph(f"{place.name}: {facts.claim or 'no claim yet'}")
    for remark in told.remarks:
        w.paragraph(remark, soft=True)


def _table(names: Sequence[str], told: Compared) -> Markup:
    figures = [in_words(one) for one in told.facts]
    head = tag("tr", tag("td", ""), *(tag("th", name, scope="col") for name in names))
    rows = [
        tag("tr", tag("th", name, scope="row"), *(tag("td", one[name]) for one in figures))
        for name in figures[0]
    ]
    settings = [
        tag(
            "tr",
            tag("th", tag("code", key), scope="row"),
            *(tag("td", "–" if value is None else value) for value in values),
        )
        for key, values in told.settings.items()
    ]
    parted = (
        [tag("tr", tag("th", "Settings that differ", colspan=len(names) + 1, scope="colgroup"))]
        if settings
        else []
    )
    return tag("table", tag("thead", head), tag("tbody", joined([*rows, *parted, *settings])), cls="so-table")


def _cell(classes: str = "") -> ui.label:
    cell = ui.label("").classes(classes)
    cell.tag = "td"
    return cell


def _ago(moment: float) -> str:
    seconds = max(0.0, time.time() - moment)
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


async def build(visit: Visit) -> None:
    """Make the page."""
    live.style()
    runs = _Runs(visit)
    await runs.refresh()
    if len(runs.chosen) > 1:
        await runs.compare()
    ui.timer(EVERY, runs.refresh, immediate=False)


PLUGIN = Page(path="/", title="Runs", place=0, build=build, icon="list")
