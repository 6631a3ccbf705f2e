"""The page Launch: pick a config, change what matters, see what it would cost, and start, stop and resume
runs.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from nicegui import ui

from skillopt.config import Resolved, describe, packaged_names, render
from skillopt.dashboard import _widgets as w
from skillopt.dashboard._launch import Launched, Launches, LaunchRequest, chosen_options
from skillopt.dashboard._page import Page, Visit
from skillopt.errors import SkillOptError
from skillopt.runs.reader import is_run

FIELDS = (
    ("model.target", "Target model"),
    ("model.optimizer", "Optimizer model"),
    ("budget", "Budget"),
    ("env.skill_init", "Skill to start from"),
    ("env.data_path", "Tasks"),
    ("train.num_epochs", "Epochs"),
    ("train.batch_size", "Batch size"),
    ("optimizer.learning_rate", "Edits a step"),
    ("gate.policy", "Gate"),
    ("env.workers", "Rollouts in flight"),
    ("env.out_root", "Run folder"),
)
"""The keys most runs change; every other one goes into the free options."""
_HINTS = {
    "model.target": (
        "Such as openai:gpt-5.4-mini, claude_code/anthropic:claude-sonnet-4-6 or world, which is simulated."
    ),
    "model.optimizer": "The model that writes the edits.",
    "budget": "Such as $2, 200k tokens or 30 minutes. Unset: no limit.",
    "env.data_path": "JSONL, JSON or CSV file of your own tasks.",
    "env.out_root": "Unset: one named after the config and the time.",
}
_SHOWN = 6
_BUTTON = "unelevated no-caps"


class _Form:
    """The form of one visit: what is filled in, and what the loader says to it."""

    def __init__(self, desk: Launches) -> None:
        self.desk = desk
        self.fields: dict[str, ui.input] = {}
        self.shown = ""

    def build(self) -> None:
        """Make the form."""
        with w.section("What to train"):
            names = packaged_names()
            with ui.element("div").classes("so-grid"):
                self.packaged = ui.select(
                    names, label="Packaged config", value="quickstart" if "quickstart" in names else names[0]
                )
                self.packaged.props("outlined dense options-dense").on_value_change(self.check)
                self.file = _input(
                    "Or a config file, or a folder with train.yaml",
                    "Read from the folder in which the dashboard runs.",
                )
                self.file.on("blur", self.check)
        with w.section("Settings"):
            w.paragraph("Only what you fill in is changed; the grey text is what the config says.", soft=True)
            about = {one.key: one.description for one in describe("own")}
            with ui.element("div").classes("so-grid"):
                for key, label in FIELDS:
                    field = _input(f"{label} ({key})", _HINTS.get(key) or about.get(key, ""))
                    self.fields[key] = field
                    field.on("blur", self.check)
            self.free = ui.textarea("Further options, one key=value a line").props(
                "outlined dense autogrow input-class=so-mono"
            )
            self.free.classes("so-wide").on("blur", self.check)
        with w.section("Check and start"):
            self.verdict = ui.element("div").classes("so-wide").props('aria-live="polite"')
            with ui.element("div").classes("so-actions"):
                self.ask = ui.button("Estimate the cost", on_click=self.estimate).props(f"{_BUTTON} outline")
                self.go = ui.button("Start the run", on_click=self.start, icon="play_arrow").props(_BUTTON)
            self.cost = ui.element("div").classes("so-wide").props('aria-live="polite"')
        self.check()

    def wish(self) -> LaunchRequest:
        """What is filled in."""
        options = chosen_options(
            [(key, field.value or "") for key, field in self.fields.items()], self.free.value or ""
        )
        return LaunchRequest(
            config=(self.file.value or "").strip() or str(self.packaged.value), options=options
        )

    def check(self) -> None:
        """Let the loader read what is filled in, and show what it says."""
        try:
            wish = self.wish()
            resolved = self.desk.look(wish)
        except SkillOptError as error:
            self._say(str(error), "")
            return
        self._placeholders(resolved)
        self._say("", wish.spoken, "\n".join(resolved.warnings))

    def _say(self, problem: str, command: str, warnings: str = "") -> None:
        self.ask.set_enabled(not problem)
        self.go.set_enabled(not problem)
        if (told := f"{problem}\0{command}\0{warnings}") == self.shown:
            return
        self.shown = told
        self.verdict.clear()
        self.cost.clear()
        with self.verdict:
            if problem:
                w.trouble(problem)
                return
            if warnings:
                w.verbatim(warnings, "Warnings")
            w.paragraph("The same as this command:", soft=True)
            w.verbatim(command, "Command")

    def _placeholders(self, resolved: Resolved) -> None:
        values = {key: value for key, value, _ in render(resolved)}
        for key, field in self.fields.items():
            value = values.get(key, values.get(f"{key}.name"))
            field.props["placeholder"] = "" if value is None else str(value)
            field.update()

    async def estimate(self) -> None:
        """Show what `skillopt estimate` says."""
        self.ask.props("loading")
        self.cost.clear()
        try:
            told = await self.desk.estimate(self.wish())
        except SkillOptError as error:
            with self.cost:
                w.trouble(str(error))
        else:
            with self.cost:
                _estimate(told)
        finally:
            self.ask.props(remove="loading")

    async def start(self) -> None:
        """Ask once more, then start."""
        try:
            wish = self.wish()
            self.desk.look(wish)
        except SkillOptError as error:
            self._say(str(error), "")
            return
        if not await w.confirmed(
            "Start this run?", f"{wish.spoken}. It may spend money, up to the budget you set.", "Start"
        ):
            return
        try:
            made = self.desk.start(wish)
        except SkillOptError as error:
            self._say(str(error), "")
            return
        ui.notify(f"Started as process {made.pid}.", type="positive")


class _Started:
    """The list of what was started from here; made anew only when something changed."""

    def __init__(self, visit: Visit) -> None:
        self.visit, self.desk = visit, visit.around.launches
        self.told: list[Any] | None = None

    def build(self) -> None:
        """Make the list, and keep it up to date."""
        with w.section("Started from here"):
            self.list = ui.element("div").classes("so-stack")
        ui.timer(1.0, self.refresh)

    async def refresh(self) -> None:
        """Look again."""
        told = await asyncio.to_thread(self._look)
        if told == self.told:
            return
        self.told = told
        self.list.clear()
        with self.list:
            if not told:
                w.empty(
                    "Nothing was started from here yet. Runs go on when the dashboard is closed, and are"
                    " found here again."
                )
            for one, state, output, is_there in told:
                self._entry(one, state, output, is_there)

    def _look(self) -> list[Any]:
        # Of a run that was started and resumed, only the last time counts.
        latest = {one.folder: one for one in reversed(self.desk.all())}
        shown = sorted(latest.values(), key=lambda one: one.started, reverse=True)[:_SHOWN]
        return [(one, self.desk.state(one), self.desk.output(one), is_run(Path(one.folder))) for one in shown]

    def _entry(self, one: Launched, state: str, output: str, is_there: bool) -> None:
        with w.named(ui.element("article"), f"Started {one.started:%Y-%m-%d %H:%M:%S}").classes("so-card"):
            with ui.element("div").classes("so-row"):
                w.chip(
                    state,
                    (
                        "info"
                        if state in ("running", "starting")
                        else "good"
                        if state == "finished"
                        else "plain"
                    ),
                )
                ui.label(f"{one.config}, {one.started:%Y-%m-%d %H:%M:%S} UTC").classes("so-soft")
                id = self.visit.around.roots.id_of(Path(one.folder))
                if is_there and id is not None:
                    w.link(f"Open {Path(one.folder).name}", self.visit.url("run", run=id))
            if output:
                w.verbatim("\n".join(output.splitlines()[-8:]), "Output")
            with ui.element("div").classes("so-actions"):
                if state == "running":
                    ui.button("Stop", icon="stop", on_click=lambda: self._stop(one)).props(
                        f"{_BUTTON} outline"
                    )
                elif state not in ("starting", "finished"):
                    ui.button("Resume", icon="play_arrow", on_click=lambda: self._resume(one)).props(
                        f"{_BUTTON} outline"
                    )

    async def _stop(self, one: Launched) -> None:
        detail = (
            "Nothing further is sent; what was sent is waited for and kept. Resume goes on at the same place."
        )
        if await w.confirmed("Stop this run?", detail, "Stop"):
            self._try(lambda: ui.notify(f"Asked process {self.desk.stop(Path(one.folder))} to stop."))

    def _resume(self, one: Launched) -> None:
        self._try(lambda: ui.notify(f"Started as process {self.desk.resume(one.id).pid}.", type="positive"))

    def _try(self, work: Any) -> None:
        try:
            work()
        except SkillOptError as error:
            ui.notify(str(error), type="negative", multi_line=True, timeout=10_000)


def _estimate(told: dict[str, Any]) -> None:
    if told["simulated"]:
        w.simulated()
    w.paragraph(f"{told['steps']} steps; the likely figure, and the range in brackets.", soft=True)
    names = ("stage", "role", "calls", "tokens", "dollars")
    with w.table("Estimate by stage", names, numbers=names[2:]):
        for line in told["stages"]:
            w.row([line["stage"], line["role"], *_figures(line)], numbers=(2, 3, 4))
        w.row(["total", "", *_figures(told["total"])], numbers=(2, 3, 4)).style("font-weight: 700")
    if told["advice"]:
        w.paragraph(told["advice"]).classes("so-note")
    w.paragraph("Assumed: " + "; ".join(told["assumptions"]) + ".", soft=True)


def _figures(line: dict[str, Any]) -> list[str]:
    counts = [_range(line[name], "{:,.0f}") for name in ("calls", "tokens")]
    return [*counts, "unknown" if line["usd"] is None else _range(line["usd"], "${:,.2f}")]


def _range(one: dict[str, float], form: str) -> str:
    likely, low, high = (form.format(one[name]) for name in ("likely", "low", "high"))
    return likely if low == high else f"{likely} ({low} to {high})"


def _input(label: str, hint: str) -> ui.input:
    field = ui.input(label).props("outlined dense stack-label")
    field.props["hint"] = hint
    return field


def build(visit: Visit) -> None:
    """Make the page."""
    _Form(visit.around.launches).build()
    _Started(visit).build()


PLUGIN = Page(path="/launch", title="Launch", place=20, build=build, icon="rocket_launch")
