"""The page Launch: pick a config, write the keys that should differ, start; stop and resume runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from multidict import MultiMapping

from skillopt.config.files import packaged_names
from skillopt.errors import SkillOptError
from skillopt.runs.reader import is_run
from skillopt_webui._launch import LaunchRequest, RunLaunch, split_options
from skillopt_webui._page import ActionReply, Page, Parts, Visit
from skillopt_webui.render.markup import (
    Markup,
    actions,
    button,
    card,
    chip,
    choice,
    empty,
    field,
    hidden,
    joined,
    soft,
    stop_button,
    tag,
    trouble,
    verbatim,
)

_SHOWN = 6
_EXAMPLE = "model.target=openai:gpt-5.4-mini\nbudget=$2"
_NONE = (
    "Nothing was started from here yet. Runs go on when the dashboard is closed, and are found here again."
)


async def build(visit: Visit) -> Parts:
    """The form, and what was started from here."""
    form = visit.app.launch_form
    if form is None:
        form = visit.app.launch_form = await asyncio.to_thread(_form, visit)
    entries = await asyncio.to_thread(lambda: list(_entries(visit))) or [empty(_NONE)]
    return {"form": form, "started": card("Started from here", *entries)}


def _form(visit: Visit) -> Markup:
    names = packaged_names()
    chosen = "quickstart" if "quickstart" in names else names[0]
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
    box = tag("textarea", name="options", rows=6, placeholder=_EXAMPLE)
    verdict = _verdict(visit, LaunchRequest(config=chosen))
    return tag(
        "form",
        card("What to train", what, tag("label", "Options, one key=value a line", box)),
        card("Check and start", tag("div", verdict, data_part="verdict", aria_live="polite")),
        method="post",
        data_check=True,
        cls="stack-of",
    )


def _verdict(visit: Visit, wish: LaunchRequest) -> Markup:
    """The answer to the launch form: an error, or the warnings, the command and the start button."""
    try:
        resolved = visit.app.launches.resolve(wish)
    except SkillOptError as error:
        return _refused(error)
    limit = resolved.config.budget
    money = "It may spend money; no budget is set, so there is no limit."
    if limit is not None:
        money = f"It may spend money, up to the budget: {limit}."
    warned = "\n".join(resolved.warnings)
    return joined(
        [
            *([verbatim(warned, "Warnings")] if warned else []),
            soft("The same as this command; the other one says what it would cost:"),
            verbatim(f"{wish.spoken()}\n{wish.spoken('estimate')}", "Command"),
            _start_button(f"{wish.spoken()}. {money}"),
        ]
    )


def _refused(error: SkillOptError) -> Markup:
    return joined([trouble(str(error)), _start_button("", disabled=True)])


def _start_button(detail: str, *, disabled: bool = False) -> Markup:
    start = button("start", "Start the run", "Start this run?", detail, "Start", main=True, disabled=disabled)
    return actions(start)


async def act(visit: Visit, form: MultiMapping[str]) -> ActionReply:
    """Check the form or start what it says; stop or resume what was started."""
    launches, verb = visit.app.launches, form.get("verb")
    if verb in ("stop", "resume"):
        return visit.stop_or_resume(verb, Path(launches.load(form.get("id", "")).folder))
    config = form.get("file", "").strip() or form.get("packaged", "")
    wish = LaunchRequest(config=config, options=split_options(form.get("options", "")))
    if verb == "start":
        try:
            return ActionReply(note=f"Started as process {launches.start(wish).pid}.")
        except SkillOptError as error:
            return ActionReply(parts={"verdict": _refused(error)})
    return ActionReply(parts={"verdict": _verdict(visit, wish)})


def _entries(visit: Visit) -> Iterator[Markup]:
    # Of a run that was started and resumed, only the last time counts.
    latest = {one.folder: one for one in reversed(visit.app.launches.all())}
    for one in sorted(latest.values(), key=lambda one: one.started, reverse=True)[:_SHOWN]:
        yield _entry(visit, one)


def _entry(visit: Visit, one: RunLaunch) -> Markup:
    launches, folder, moment = visit.app.launches, Path(one.folder), one.started.isoformat()
    state, output = launches.state(one), launches.output(one)
    id = visit.app.roots.id_of(folder) if is_run(folder) else None
    opened = tag("a", f"Open {folder.name}", href=visit.url("run", run=id)) if id else ""
    when = tag("time", moment[:19], datetime=moment)
    head = tag("div", chip(state), tag("span", one.config), when, opened, cls="row-of")
    verb = Markup()
    if state == "running":
        verb = stop_button()
    elif state not in ("starting", "finished"):
        verb = button("resume", "Resume")
    form = tag("form", hidden("id", one.id), verb, method="post", cls="actions") if verb else ""
    tail = "\n".join(output.splitlines()[-8:])
    shown = verbatim(tail, f"Output of {folder.name}") if output else ""
    label = f"Started {one.started:%Y-%m-%d %H:%M:%S} UTC"
    return tag("article", head, shown, form, cls="card", aria_label=label)


PAGE = Page(path="/launch", title="Launch", place=20, build=build, act=act)
