"""The page Doctor: whether everything a run needs is there, and what to do where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from nicegui import ui

from skillopt.config import load, packaged_names
from skillopt.dashboard import _widgets as w
from skillopt.dashboard._page import Page, Surroundings, Visit
from skillopt.doctor import CheckResult, Examination, Subject, examine
from skillopt.errors import UsageError

_STATES: dict[str, tuple[str, w.Tone]] = {
    "fine": ("✓ fine", "good"),
    "note": ("! note", "warn"),
    "fix": ("✗ must be fixed", "bad"),
    "skipped": ("– skipped", "plain"),
}


class _Checks:
    """The checks of one visit."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.open: list[str] = []

    def build(self) -> None:
        """Make the form and the place for what is found."""
        with w.section("Examine"):
            w.paragraph(
                "Checks models, logins, prices, agent programs, sandbox and data of a configuration. Nothing"
                " is written."
            )
            with ui.element("div").classes("so-grid"):
                self.packaged = ui.select(
                    ["(none)", *packaged_names()], label="Packaged config", value="(none)"
                )
                self.packaged.props("outlined dense options-dense")
                self.file = ui.input("Or a config file, or a folder with train.yaml").props(
                    "outlined dense stack-label"
                )
            self.calls = ui.checkbox(
                "Ask each model a few tiny questions; this may cost a little", value=False
            )
            with ui.element("div").classes("so-actions"):
                self.go = ui.button("Run the checks", on_click=self.examine, icon="health_and_safety").props(
                    "unelevated no-caps"
                )
            self.news = ui.label("").classes("so-soft").props('role="status"')
        self.found = ui.element("div").classes("so-main so-bare")

    async def examine(self) -> None:
        """Run the checks and show what they found."""
        self.go.props("loading")
        self.found.clear()
        try:
            found = await examine(self._subject(), calls=bool(self.calls.value), news=self._told)
        finally:
            self.go.props(remove="loading")
        with self.found:
            _show(found)

    def _subject(self) -> Subject:
        name = (self.file.value or "").strip() or (
            None if self.packaged.value == "(none)" else str(self.packaged.value)
        )
        try:
            resolved = load(name, flags={}, options=[], environ=self.around.environ, cwd=self.around.cwd)
        except UsageError as error:  # the machine can be examined all the same
            return Subject(resolved=None, environ=self.around.environ, problem=str(error))
        return Subject(resolved=resolved, environ=self.around.environ)

    def _told(self, title: str, findings: Sequence[CheckResult] | None) -> None:
        (self.open.append if findings is None else self.open.remove)(title)
        self.news.text = f"Checking {', '.join(self.open)}." if self.open else "All checks have ended."


def _show(found: Examination) -> None:
    fixes = sum(one.state == "fix" for one in found.findings)
    cost = "unknown" if found.usd is None else f"${found.usd:.6f}"
    with w.section("Outcome"), ui.element("div").classes("so-row"):
        w.chip(f"{fixes} must be fixed" if fixes else "Nothing must be fixed", "bad" if fixes else "good")
        spent = (
            f"{found.calls} calls, {found.tokens} tokens, cost {cost}"
            if found.calls
            else "No calls were made."
        )
        ui.label(spent).classes("so-soft")
    for area, findings in groupby(found.findings, key=lambda one: one.area):
        with w.section(area.capitalize()), ui.element("ul").classes("so-findings"):
            for one in findings:
                with ui.element("li"):
                    with ui.element("div").classes("so-row"):
                        w.chip(*_STATES[one.state])
                        ui.label(one.name).style("font-weight: 600")
                        ui.label(one.text)
                    if one.remedy:
                        w.verbatim(one.remedy, f"What to do about {one.name}")


def build(visit: Visit) -> None:
    """Make the page."""
    _Checks(visit.around).build()


PLUGIN = Page(path="/doctor", title="Doctor", place=40, build=build, icon="health_and_safety")
