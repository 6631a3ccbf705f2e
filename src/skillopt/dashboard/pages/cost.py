"""The page Cost of a run: what each role spent in each stage, and what is only reserved."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from skillopt.dashboard import _charts as charts
from skillopt.dashboard import _live as live
from skillopt.dashboard import _widgets as w
from skillopt.dashboard._markup import Markup, block, joined, tag
from skillopt.dashboard._page import Page, Visit
from skillopt.runs.reader import RunReader
from skillopt.runs.spending import HEADS, table
from skillopt.runs.words import amount, money


class _Cost:
    """The figures of one visit."""

    def __init__(self) -> None:
        self.chart: ui.echart | None = None
        self.groups = 0
        with w.section("Spent so far"):
            self.figures = live.LiveFigures(
                "cost", "calls", "tokens", "input tokens", "output tokens", "in flight"
            )
            w.paragraph(
                "A price that nobody knows is unknown, never zero. A call that ended without a usage report"
                " stays charged at what was reserved for it, and so is one that is in flight.",
                soft=True,
            )
        with w.section("By role and stage"):
            self.table = (
                w.named(block(joined([])), "Spending by role and stage")
                .classes("so-scroll")
                .props('tabindex="0" role="region"')
            )
            self.place = ui.element("div")

    def show(self, watcher: RunReader) -> None:
        """The ledger as it stands."""
        account = watcher.spending.account
        paid, whole = account.by_role_and_stage(), account.total()
        self.figures.show(
            cost=money(whole.dollars),
            calls=f"{whole.calls:,}",
            tokens=f"{whole.tokens:,}",
            input_tokens=amount(whole.input_tokens),
            output_tokens=amount(whole.output_tokens),
            in_flight=str(watcher.spending.in_flight),
        )
        self.table.set_content(
            _table(table(paid, whole)) if paid else tag("p", "Nothing was spent yet.", cls="so-empty")
        )
        if not paid:
            return
        options = charts.bars(paid)
        if self.chart is None or self.groups != len(options["series"]):
            self.groups = len(options["series"])
            self.place.clear()
            with self.place:
                self.chart = ui.echart(options, renderer="svg").classes("so-chart so-low")
                self.chart.props["role"] = "img"
                w.named(self.chart, "Tokens by stage and role; the table above has the figures")
        else:
            self.chart.run_chart_method("setOption", {key: options[key] for key in ("yAxis", "series")})


def _table(rows: Sequence[Sequence[str]]) -> Markup:
    def row(cells: Sequence[str]) -> Markup:
        figures = (tag("td", text, cls="so-number") for text in cells[2:])
        return tag("tr", tag("th", cells[0], scope="row"), tag("td", cells[1]), *figures)

    heads = (
        tag("th", name, scope="col", cls="so-number" if place > 1 else "") for place, name in enumerate(HEADS)
    )
    body = tag("tbody", *map(row, rows[:-1]))
    return tag("table", tag("thead", tag("tr", *heads)), body, tag("tfoot", row(rows[-1])), cls="so-table")


async def build(visit: Visit) -> None:
    """Make the page."""
    cost = _Cost()
    await live.watch(visit.run.folder, cost.show)


PLUGIN = Page(path="/run/{run}/cost", title="Cost", place=40, build=build, icon="payments")
