"""The page Overview of a run, live: where it stands, its scores, what is in flight, what it cost, what was
decided.
"""

from __future__ import annotations

from nicegui import ui

from skillopt.dashboard import _charts as charts
from skillopt.dashboard import _live as live
from skillopt.dashboard import _widgets as w
from skillopt.dashboard._markup import block, joined, tag
from skillopt.dashboard._page import Page, Visit
from skillopt.runs.curves import curves
from skillopt.runs.lines import LogLine
from skillopt.runs.reader import RunReader
from skillopt.runs.status import RunStatus
from skillopt.runs.values import Facts
from skillopt.runs.words import SIGNS, duration, money, score

LONGEST_LOG = 200
_SIGNS = {"done": "✓", "now": "▶", "ahead": "·"}
_SPOKEN = {"done": "done", "now": "under way", "ahead": "to come"}


class _Overview:
    """The elements of one visit; `show` fills them with what a run has become."""

    def __init__(self) -> None:
        self.decided = -1
        self.lines = 0
        with w.section("Now"):
            with ui.element("div").classes("so-row"):
                self.state = live.Chip()
                self.where = ui.label("").props('role="status"')
            self.subject = ui.label("").classes("so-soft")
            self.strip = block(joined([]), "ol").classes("so-strip")
            w.named(self.strip, "Stages of this step")
            with ui.element("div").classes("so-rows") as self.progress:
                self.bar = ui.element("progress")
                w.named(self.bar, "Rows of this stage that are in")
                self.rows = ui.label("").classes("so-soft")
            self.figures = live.LiveFigures(
                "val, seed",
                "val, current",
                "val, best",
                "sealed test",
                "steps",
                "cost",
                "calls, tokens",
                "in flight",
                "time so far",
                "time left",
            )
            self.estimate = w.paragraph(
                "Time left is the median of the last steps times the steps to come, and the test after them.",
                soft=True,
            )
            self.marks = ui.label("").classes("so-marks")
            self.legend = ui.label("").classes("so-soft")
        with w.section("Scores"):
            self.chart: ui.echart | None = None
            self.place = ui.element("div")
            self.spoken = ui.label("").classes("so-hidden")
            w.paragraph(
                "The whisker is the interval of the change on the sealed test or in the folds, drawn at the"
                " best skill."
                " A cross stands at the most that a rejected candidate could still have reached.",
                soft=True,
            )
        with w.section("What it claims"):
            self.claim = ui.element("div").classes("so-bare")
        with ui.element("div").classes("so-two"):
            with w.section("In flight"):
                self.flights = block(joined([]))
            with w.section("Log (times in UTC)"):
                self.log = block(joined([]), "ol").classes("so-log")
                self.log.props["tabindex"] = "0"
                self.log.props["role"] = "log"
                w.named(self.log, "What was decided, the newest first")

    def show(self, watcher: RunReader) -> None:
        """Take over what changed."""
        facts = watcher.facts()
        status = watcher.status
        self.state.show(watcher.state)
        self.where.set_text(
            "Waiting for the run to begin."
            if facts is None
            else status.position()
            if watcher.state == "running"
            else ""
        )
        self.subject.set_text(status.what())
        self.strip.set_content(_strip(status) if watcher.state == "running" else "")
        self.progress.set_visibility(watcher.state == "running" and status.total > 0)
        self.bar.props["value"], self.bar.props["max"] = status.done, max(1, status.total)
        self.bar.update()
        self.rows.set_text(status.rows())
        self.estimate.set_visibility(watcher.state == "running")
        self._spent(watcher)
        self.flights.set_content(_flights(watcher))
        if facts is not None and watcher.decided != self.decided:
            self.decided = watcher.decided
            self._decided(watcher, facts)

    def _spent(self, watcher: RunReader) -> None:
        paid, status = watcher.spending.settled(), watcher.status
        self.figures.show(
            cost=money(paid.dollars),
            **{"calls,_tokens": f"{paid.calls:,}, {paid.tokens:,}"},
            in_flight=str(watcher.spending.in_flight),
            time_so_far=duration(watcher.seconds()),
            time_left=status.left_in_words(),
        )

    def _decided(self, watcher: RunReader, facts: Facts) -> None:
        status, test = watcher.status, facts.test.comparison
        best = f"{score(facts.best)}, {facts.best_origin}" if facts.best is not None else score(None)
        told = "sealed until the end" if facts.status != "finished" else "not measured"
        self.figures.show(
            **{"val,_seed": score(facts.baseline), "val,_current": score(facts.current), "val,_best": best},
            sealed_test=told if test is None else f"{test.before:.3f} to {test.after:.3f}",
            steps=f"{len(facts.steps)} of {facts.planned}",
        )
        self.marks.set_text(status.marks())
        self.legend.set_text(
            status.verdicts() + f" ({', '.join(f'{sign} {word}' for word, sign in SIGNS.items())})"
            if facts.steps
            else ""
        )
        drawn = curves(facts)
        self.spoken.set_text(charts.spoken(drawn))
        if self.chart is None:
            with self.place:
                self.chart = ui.echart(charts.scores(drawn), renderer="svg").classes("so-chart")
                self.chart.props["role"] = "img"
                w.named(self.chart, "Scores over the steps; the sentence below says the same")
        else:  # only what grew is sent
            fresh = charts.scores(drawn)
            self.chart.run_chart_method("setOption", {key: fresh[key] for key in ("legend", "series")})
        self.log.set_content(_log(watcher.lines))
        self.claim.clear()
        with self.claim:
            w.paragraph(
                facts.claim or "Nothing yet: the claim is made when the sealed test is opened.",
                soft=not facts.claim,
            )
            # half of them say that it is not finished
            for remark in facts.remarks if facts.status != "running" else ():
                w.paragraph(remark, soft=True)


def _strip(status: RunStatus) -> str:
    return joined(
        tag(
            "li",
            tag("span", _SIGNS[stage.state], aria_hidden="true"),
            tag("span", stage.name),
            tag("span", f", {_SPOKEN[stage.state]}", cls="so-hidden"),
            cls=f"so-{stage.state}",
            aria_current="step" if stage.state == "now" else None,
        )
        for stage in status.strip()
    )


def _flights(watcher: RunReader) -> str:
    found = watcher.spending.flights()
    if not found:
        return tag("p", "No call is under way.", cls="so-soft")
    head = tag("tr", *(tag("th", name, scope="col") for name in ("role", "stage", "calls", "longest wait")))
    rows = [
        tag(
            "tr",
            tag("td", one.role),
            tag("td", one.stage),
            tag("td", str(one.calls)),
            tag("td", f"{one.oldest:.0f} s"),
        )
        for one in found
    ]
    return tag("table", tag("thead", head), tag("tbody", *rows), cls="so-table")


def _log(lines: list[LogLine]) -> str:
    shown = [
        tag(
            "li",
            tag("time", line.time[11:19], datetime=line.time),
            tag("span", line.text, cls=f"so-{line.tone}"),
        )
        for line in reversed(lines[-LONGEST_LOG:])
    ]
    return joined(shown)


async def build(visit: Visit) -> None:
    """Make the page."""
    overview = _Overview()
    await live.watch(visit.run.folder, overview.show)


PLUGIN = Page(path="/run/{run}", title="Overview", place=0, build=build, icon="show_chart")
