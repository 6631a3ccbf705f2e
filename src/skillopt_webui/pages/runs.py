"""The pages Runs and Compare: every run below the roots and how it stands; some of them side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from multidict import MultiMapping

from skillopt.changes.best_skill import is_adopted
from skillopt.errors import UsageError
from skillopt.runs.comparison import PROVEN, compare, in_words
from skillopt.runs.reader import RunList
from skillopt.runs.view import RunView
from skillopt.runs.words import change, marks, money, score, subject
from skillopt_webui._launch import LaunchRequest
from skillopt_webui._page import ActionReply, Page, Parts, Visit
from skillopt_webui._runs import RunPlace
from skillopt_webui.render.markup import (
    Markup,
    actions,
    button,
    card,
    chip,
    choice,
    field,
    filters,
    joined,
    listed,
    region,
    soft,
    table,
    tag,
)
from skillopt_webui.render.stairs import together

MOST = 6
"""Runs that are compared at once; more cannot be told apart."""
SIZE = 25
_STATES = ("all", "running", "finished", "stopped")
_HEADS = ("run", "status", "benchmark, target", "steps", "val", "test", "change", "cost", "changed")
_runs = RunList()
_COLUMNS: dict[str, Callable[[RunView], Any]] = {
    "status": lambda run: run.status,
    "val": lambda run: -(run.best if run.best is not None else -1.0),
    "test": lambda run: -(run.test.comparison.after if run.test.comparison else -1.0),
    "change": lambda run: -(run.test.comparison.delta if run.test.comparison else -1.0),
    "cost": lambda run: -(run.spent.dollars or 0.0),
    "changed": lambda run: -run.changed,
}
"""Columns that sort beside the name, each with its key; runs that cannot be read stand last."""


async def build(visit: Visit) -> Parts:
    """The list."""
    found = await asyncio.to_thread(_read, visit)
    if not found:
        return {"runs": _empty(visit)}
    words, state = visit.query.get("words", "").lower().split(), visit.query.get("status", "all")
    places = [place for place in found if _matches(place, found[place], words, state)]
    order, chosen = visit.query.get("sort", "changed"), set(visit.query.getall("run", []))
    places.sort(key=lambda place: _key(place, found[place], order))
    places.sort(key=lambda place: place.id not in chosen)
    part, pages = visit.pager(len(places), SIZE, "runs")
    running = sum(isinstance(run, RunView) and run.status == "running" for run in found.values())
    wanted = filters(
        field("words", "Filter by name, benchmark or model", visit.query.get("words", "")),
        choice("status", "Status", {name: name for name in _STATES}, state),
    )
    counted = f"{len(found):,} runs, {running:,} running."
    if len(chosen) == 1:
        counted += " Tick the runs to compare it with, and press the button below the list."
    count = tag("p", counted, cls="soft", role="status")
    body = tag("tbody", *(_row(visit, place, found[place], place.id in chosen) for place in places[part]))
    return {"filter": wanted, "runs": card("All runs", count, _table(visit, body, order), pages)}


def _read(visit: Visit) -> dict[RunPlace, RunView | str]:
    places = visit.app.roots.runs()
    found = _runs.read([place.folder for place in places])
    return {place: found[place.folder] for place in places if place.folder in found}


def _matches(place: RunPlace, run: RunView | str, words: list[str], state: str) -> bool:
    status, text = "unreadable", place.name
    if isinstance(run, RunView):
        status, text = run.status, f"{text} {subject(run.started)}"
        text += " simulated" if run.started.simulated else ""
    return state in ("all", status) and all(word in text.lower() for word in words)


def _key(place: RunPlace, run: RunView | str, order: str) -> tuple[Any, ...]:
    if order == "run":
        return (place.name.lower(),)
    key = _COLUMNS.get(order, _COLUMNS["changed"])
    return (0, key(run)) if isinstance(run, RunView) else (1,)


def _table(visit: Visit, body: Markup, order: str) -> Markup:
    heads = [tag("th", tag("span", "compare", cls="unseen"), scope="col")]
    for name in _HEADS:
        inside: str = name
        if name in ("run", *_COLUMNS):
            inside = tag("a", name, href=visit.here(sort=name, page=None), data_swap=True)
        heads.append(
            tag("th", inside, scope="col", aria_sort="descending" if name == order else None, cls=_kind(name))
        )
    made = tag("table", tag("thead", tag("tr", *heads)), body, cls="plain stack")
    verbs = actions(tag("button", "Compare the chosen runs"))
    return tag("form", region("Runs", made), verbs, action=visit.url("compare"))


def _kind(name: str) -> str:
    return "number" if name in ("val", "test", "cost", "changed") else ""


def _row(visit: Visit, place: RunPlace, run: RunView | str, is_chosen: bool) -> Markup:
    label = f"Compare {place.name}"
    box = tag("input", type="checkbox", name="run", value=place.id, aria_label=label, checked=is_chosen)
    name = tag("a", place.name, href=visit.url("run", run=place.id))
    if isinstance(run, RunView):
        cells = _cells(run)
    else:
        cells = dict.fromkeys(_HEADS[1:], "") | {"status": chip("unreadable"), "benchmark, target": run}
    rest = (tag("td", text, data_label=head, cls=_kind(head)) for head, text in cells.items())
    return tag("tr", tag("td", box), tag("th", name, scope="row"), *rest)


def _cells(run: RunView) -> dict[str, str]:
    started, found, step = run.started, run.test.comparison, 0 if run.state is None else run.state.step
    states = [run.status, *["simulated"] * started.simulated, *["adopted"] * is_adopted(run.folder)]
    moment = datetime.fromtimestamp(run.changed, timezone.utc).isoformat()
    actions = [record.action for record in run.records]
    gained = change(found.before, found.after) if found else ""
    return {
        "status": joined(map(chip, states)),
        "benchmark, target": f"{started.benchmark} · {started.target}",
        "steps": f"{step}/{started.steps} {marks(actions[-12:])}",
        "val": "" if run.baseline is None else f"{score(run.baseline)} → {score(run.best)}",
        "test": "" if found is None else f"{score(found.before)} → {score(found.after)}",
        "change": joined([tag("span", f"{gained} "), chip(run.significance)]),
        "cost": money(run.spent.dollars),
        "changed": tag("time", moment[:16], datetime=moment, data_short="1"),
    }


def _empty(visit: Visit) -> Markup:
    """What stands there before the first run: the demo, which needs no key, as a button."""
    text = f"No run below {visit.app.roots.spoken}. Start one under Launch, or by 'skillopt train'."
    demo = button("demo", "Train the demo: simulated, no key, some seconds", main=True)
    form = tag("form", demo, method="post", cls="actions")
    return tag("div", tag("p", text), form, cls="empty")


async def act(visit: Visit, form: MultiMapping[str]) -> ActionReply:
    """Start the demo."""
    launches = visit.app.launches
    made = launches.start(LaunchRequest(config="quickstart"))
    folder = Path(made.folder)
    for _ in range(100):
        if (folder / "events.jsonl").is_file():
            break
        await asyncio.sleep(0.1)
    id = visit.app.roots.id_of(folder)
    return ActionReply(go=visit.url("run", run=id) if id else visit.url("launch"))


PAGE = Page(path="/", title="Runs", place=0, build=build, act=act)


async def build_comparison(visit: Visit) -> Parts:
    """The runs that the address names."""
    ids = list(dict.fromkeys(visit.query.getall("run", [])))
    if not 2 <= len(ids) <= MOST:
        raise UsageError(
            f"Two to {MOST} runs can be compared, and {len(ids)} are chosen. Tick them under Runs."
        )
    places = [visit.app.roots.find(id) for id in ids]
    found = [(place, (await visit.read(place.folder)).view()) for place in places]
    runs = [(place, view) for place, view in found if view is not None]
    compared = compare([view for _, view in runs])
    names = [place.name for place, _ in runs]
    figures = [in_words(one) for one in compared.views]
    drawn = {PROVEN: chip}
    rows = [[name, *(drawn.get(name, str)(one[name]) for one in figures)] for name in figures[0]]
    differing = compared.settings.items()
    settings = [[key, *("–" if value is None else value for value in values)] for key, values in differing]
    claims = (
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
            *claims,
            listed(compared.remarks, cls="remarks") if compared.remarks else soft(""),
        )
    }


COMPARE = Page(path="/compare", title="Compare", place=-1, build=build_comparison)
