"""The page Runs: every run below the roots and how it stands; two to six of them can be compared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from multidict import MultiMapping

from skillopt.changes.best_skill import is_adopted
from skillopt.runs.listing import Listing, RunOverview
from skillopt.runs.words import change, marks, money, score
from skillopt_webui._forms import actions, button, choice, field, filters, pager
from skillopt_webui._launch import LaunchRequest
from skillopt_webui._page import ActionReply, Page, Parts, Visit
from skillopt_webui._runs import RunPlace
from skillopt_webui.render.markup import Markup, card, chip, joined, region, tag

SIZE = 25
_STATES = ("all", "running", "finished", "stopped")
_HEADS = ("run", "status", "benchmark, target", "steps", "val", "test", "change", "cost", "changed")
_listing = Listing()
Row = tuple[RunPlace, RunOverview]
_COLUMNS: dict[str, Callable[[Row], Any]] = {
    "run": lambda row: row[0].name.lower(),
    "status": lambda row: row[1].status,
    "val": lambda row: -(row[1].best if row[1].best is not None else -1.0),
    "test": lambda row: -(row[1].test.get("best") or -1.0),
    "change": lambda row: -(_gained(row[1]) or -1.0),
    "cost": lambda row: -(row[1].usd or 0.0),
    "changed": lambda row: -row[1].changed,
}
"""Columns that sort, each with its key."""


async def build(visit: Visit) -> Parts:
    """The list."""
    found = await asyncio.to_thread(_read, visit)
    if not found:
        return {"runs": _empty(visit)}
    words, state = visit.query.get("words", "").lower().split(), visit.query.get("status", "all")
    rows = [row for row in found if _matches(row, words, state)]
    order = visit.query.get("sort", "changed")
    rows.sort(key=_COLUMNS.get(order, _COLUMNS["changed"]))
    chosen = set(visit.query.getall("run", []))
    rows.sort(key=lambda row: row[0].id not in chosen)
    part, pages = pager(visit, len(rows), SIZE, "runs")
    running = sum(one.status == "running" for _, one in found)
    wanted = filters(
        field("words", "Filter by name, benchmark or model", visit.query.get("words", "")),
        choice("status", "Status", {name: name for name in _STATES}, state),
    )
    counted = f"{len(found):,} runs, {running:,} running."
    if len(chosen) == 1:
        counted += " Tick the runs to compare it with, and press the button below the list."
    said = tag("p", counted, cls="soft", role="status")
    return {"filter": wanted, "runs": card("All runs", said, _table(visit, rows[part], order, chosen), pages)}


def _read(visit: Visit) -> list[Row]:
    places = visit.around.roots.runs()
    found = {one.folder: one for one in _listing.read([place.folder for place in places])}
    return [(place, found[place.folder]) for place in places if place.folder in found]


def _matches(row: Row, words: list[str], state: str) -> bool:
    place, one = row
    text = f"{place.name} {one.benchmark} {one.target} {one.optimizer}"
    text = f"{text} {'simulated' if one.simulated else ''}".lower()
    return state in ("all", one.status) and all(word in text for word in words)


def _gained(one: RunOverview) -> float | None:
    seed, best = one.test.get("seed"), one.test.get("best")
    return None if seed is None or best is None else best - seed


def _table(visit: Visit, rows: list[Row], order: str, chosen: set[str]) -> Markup:
    heads = [tag("th", tag("span", "compare", cls="unseen"), scope="col")]
    for name in _HEADS:
        inside: str = name
        if name in _COLUMNS:
            inside = tag("a", name, href=visit.here(sort=name, page=None), data_swap=True)
        heads.append(
            tag("th", inside, scope="col", aria_sort="descending" if name == order else None, cls=_kind(name))
        )
    body = tag("tbody", *(_row(visit, *row, row[0].id in chosen) for row in rows))
    made = tag("table", tag("thead", tag("tr", *heads)), body, cls="plain stack")
    verbs = actions(tag("button", "Compare the chosen runs"))
    return tag("form", region("Runs", made), verbs, action=visit.url("compare"))


def _kind(name: str) -> str:
    return "number" if name in ("val", "test", "cost", "changed") else ""


def _row(visit: Visit, place: RunPlace, one: RunOverview, is_chosen: bool) -> Markup:
    label = f"Compare {place.name}"
    box = tag("input", type="checkbox", name="run", value=place.id, aria_label=label, checked=is_chosen)
    name = tag("a", place.name, href=visit.url("run", run=place.id))
    test, best = one.test, one.test.get("best")
    states = [one.status, *["simulated"] * one.simulated, *["adopted"] * is_adopted(one.folder)]
    moment = datetime.fromtimestamp(one.changed, timezone.utc).isoformat()
    cells: list[tuple[str, str]] = [
        ("status", joined(map(chip, states))),
        ("benchmark, target", one.trouble or f"{one.benchmark} · {one.target}"),
        ("steps", f"{one.step}/{one.steps} {marks(one.actions[-12:])}"),
        ("val", "" if one.baseline is None else f"{score(one.baseline)} → {score(one.best)}"),
        ("test", "" if best is None else f"{score(test.get('seed'))} → {score(best)}"),
        ("change", joined([tag("span", f"{change(test.get('seed'), best)} "), chip(one.significance)])),
        ("cost", money(one.usd)),
        ("changed", tag("time", moment[:16], datetime=moment, data_short="1") if one.changed else ""),
    ]
    rest = (tag("td", text, data_label=head, cls=_kind(head)) for head, text in cells)
    return tag("tr", tag("td", box), tag("th", name, scope="row"), *rest)


def _empty(visit: Visit) -> Markup:
    """What stands there before the first run: the demo, which needs no key, as a button."""
    told = f"No run below {visit.around.roots.spoken}. Start one under Launch, or by 'skillopt train'."
    demo = button("demo", "Train the demo: simulated, no key, some seconds", main=True)
    form = tag("form", demo, method="post", cls="actions")
    return tag("div", tag("p", told), form, cls="empty")


async def act(visit: Visit, form: MultiMapping[str]) -> ActionReply:
    """Start the demo."""
    launches = visit.around.launches
    made = launches.start(LaunchRequest(config="quickstart"))
    folder = Path(made.folder)
    for _ in range(100):
        if (folder / "events.jsonl").is_file():
            break
        await asyncio.sleep(0.1)
    id = visit.around.roots.id_of(folder)
    return ActionReply(go=visit.url("run", run=id) if id else visit.url("launch"))


PLUGIN = Page(path="/", title="Runs", place=0, build=build, act=act)
