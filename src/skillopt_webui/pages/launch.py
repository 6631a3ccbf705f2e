"""The page Launch: pick a config, change it, see what it would cost; start, stop and resume runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from multidict import MultiMapping

from skillopt.config.files import packaged_names
from skillopt.config.keys import describe
from skillopt.config.load import Resolved
from skillopt.config.record import render
from skillopt.errors import SkillOptError
from skillopt.runs.reader import is_run
from skillopt_webui._forms import actions, button, choice, field, hidden, stop_button, stop_or_resume
from skillopt_webui._launch import Launched, Launches, LaunchRequest, chosen_options
from skillopt_webui._page import ActionReply, Page, Parts, Visit
from skillopt_webui.render.markup import (
    Markup,
    card,
    chip,
    empty,
    joined,
    soft,
    table,
    tag,
    trouble,
    verbatim,
)

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
_NONE = (
    "Nothing was started from here yet. Runs go on when the dashboard is closed, and are found here again."
)


async def build(visit: Visit) -> Parts:
    """The form, and what was started from here."""
    forms, cwd = visit.around.forms, visit.around.cwd
    if cwd not in forms:
        forms[cwd] = _form(visit.around.launches)
    started = await asyncio.to_thread(_look, visit.around.launches)
    entries = [_entry(visit, *one) for one in started] or [empty(_NONE)]
    return {"form": forms[cwd], "started": card("Started from here", *entries)}


def _form(desk: Launches) -> Markup:
    names = packaged_names()
    chosen = "quickstart" if "quickstart" in names else names[0]
    about = {one.key: one.description for one in describe("own")}
    wish = LaunchRequest(config=chosen)
    resolved = desk.look(wish)
    hints = _hints(resolved)
    what = tag(
        "div",
        choice("packaged", "Packaged config", {name: name for name in names}, chosen),
        field(
            "file",
            "Or a config file, or a folder with train.yaml",
            hint="Read from the folder in which the dashboard runs.",
        ),
        cls="fields",
    )
    settings = (
        field(key, f"{label} ({key})", hint=_HINTS.get(key) or about.get(key, ""), placeholder=hints[key])
        for key, label in FIELDS
    )
    free = tag("label", "Further options, one key=value a line", tag("textarea", name="free", rows=3))
    return tag(
        "form",
        card("What to train", what),
        card(
            "Settings",
            soft("Only what you fill in is changed; the grey text is what the config says."),
            tag("div", *settings, cls="fields"),
            free,
        ),
        card(
            "Check and start",
            tag("div", _verdict(wish, resolved), data_part="verdict", aria_live="polite"),
            tag("div", data_part="cost", aria_live="polite"),
        ),
        method="post",
        data_check=True,
        cls="stack-of",
    )


def _wish(form: MultiMapping[str]) -> LaunchRequest:
    options = chosen_options([(key, form.get(key, "")) for key, _ in FIELDS], form.get("free", ""))
    return LaunchRequest(config=form.get("file", "").strip() or form.get("packaged", ""), options=options)


def _hints(resolved: Resolved) -> dict[str, str]:
    values = {key: value for key, value, _ in render(resolved)}
    found = {key: values.get(key, values.get(f"{key}.name")) for key, _ in FIELDS}
    return {key: "" if value is None else str(value) for key, value in found.items()}


def _verdict(wish: LaunchRequest, resolved: Resolved | None, wrong: str = "") -> Markup:
    """What the loader says to the form, and the buttons, which wait until it is right."""
    limit = None if resolved is None else resolved.config.budget
    money = "It may spend money; no budget is set, so there is no limit."
    if limit is not None:
        money = f"It may spend money, up to the budget: {limit}."
    is_wrong, told = bool(wrong), f"{wish.spoken}. {money}"
    buttons = actions(
        button("estimate", "Estimate the cost", disabled=is_wrong, data_busy="Estimating."),
        button("start", "Start the run", "Start this run?", told, "Start", main=True, disabled=is_wrong),
    )
    if wrong or resolved is None:
        return joined([trouble(wrong), buttons])
    warned = "\n".join(resolved.warnings)
    return joined(
        [
            *([verbatim(warned, "Warnings")] if warned else []),
            soft("The same as this command:"),
            verbatim(wish.spoken, "Command"),
            buttons,
        ]
    )


async def act(visit: Visit, form: MultiMapping[str]) -> ActionReply:
    """Check the form, estimate or start what it says; stop or resume what was started."""
    desk, verb = visit.around.launches, form.get("verb")
    if verb in ("stop", "resume"):
        return stop_or_resume(desk, verb, Path(desk.load(form.get("id", "")).folder))
    try:
        wish = _wish(form)
        resolved = desk.look(wish)
        if verb == "estimate":
            return ActionReply(parts={"cost": _estimate(await desk.estimate(wish))})
        if verb == "start":
            return ActionReply(said=f"Started as process {desk.start(wish).pid}.")
    except SkillOptError as error:
        wrong = LaunchRequest(config="")
        return ActionReply(parts={"verdict": _verdict(wrong, None, str(error)), "cost": Markup()})
    return ActionReply(parts={"verdict": _verdict(wish, resolved)}, hints=_hints(resolved))


def _look(desk: Launches) -> list[tuple[Launched, str, str, bool]]:
    # Of a run that was started and resumed, only the last time counts.
    latest = {one.folder: one for one in reversed(desk.all())}
    shown = sorted(latest.values(), key=lambda one: one.started, reverse=True)[:_SHOWN]
    return [(one, desk.state(one), desk.output(one), is_run(Path(one.folder))) for one in shown]


def _entry(visit: Visit, one: Launched, state: str, output: str, is_there: bool) -> Markup:
    moment = one.started.isoformat()
    id = visit.around.roots.id_of(Path(one.folder)) if is_there else None
    opened = tag("a", f"Open {Path(one.folder).name}", href=visit.url("run", run=id)) if id else ""
    head = tag(
        "div",
        chip(state),
        tag("span", one.config),
        tag("time", moment[:19], datetime=moment),
        opened,
        cls="row-of",
    )
    verb = Markup()
    if state == "running":
        verb = stop_button()
    elif state not in ("starting", "finished"):
        verb = button("resume", "Resume")
    form = tag("form", hidden("id", one.id), verb, method="post", cls="actions") if verb else ""
    tail = "\n".join(output.splitlines()[-8:])
    shown = verbatim(tail, f"Output of {Path(one.folder).name}") if output else ""
    label = f"Started {one.started:%Y-%m-%d %H:%M:%S} UTC"
    return tag("article", head, shown, form, cls="card", aria_label=label)


def _estimate(told: dict[str, Any]) -> Markup:
    rows = [(line["stage"], line["role"], *_figures(line)) for line in told["stages"]]
    rows.append(("total", "", *_figures(told["total"])))
    names = ("stage", "role", "calls", "tokens", "dollars")
    return joined(
        [
            *([chip("simulated")] if told["simulated"] else []),
            soft(f"{told['steps']} steps; the likely figure, and the range in brackets."),
            table("Estimate by stage", names, rows, numbers=2, sums=True),
            *([tag("p", told["advice"], cls="note")] if told["advice"] else []),
            soft("Assumed: " + "; ".join(told["assumptions"]) + "."),
        ]
    )


def _figures(line: dict[str, Any]) -> list[str]:
    counts = [_range(line[name], "{:,.0f}") for name in ("calls", "tokens")]
    return [*counts, "unknown" if line["usd"] is None else _range(line["usd"], "${:,.2f}")]


def _range(one: dict[str, float], form: str) -> str:
    likely, low, high = (form.format(one[name]) for name in ("likely", "low", "high"))
    return likely if low == high else f"{likely} ({low} to {high})"


PLUGIN = Page(path="/launch", title="Launch", place=20, build=build, act=act)
