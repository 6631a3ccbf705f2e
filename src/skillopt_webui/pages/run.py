"""The page of a run, live: what was reached, the stairs to scrub through, the skill and the wall of tasks."""

from __future__ import annotations

import asyncio
import shlex

from multidict import MultiMapping

from skillopt.changes.best_skill import adopt, is_adopted, plan_adoption, undo_adoption
from skillopt.errors import UsageError
from skillopt.runs.best import flagged_lines
from skillopt.runs.reader import RunReader, read_view
from skillopt.runs.status import RunStatus
from skillopt.runs.tasks import compare_tasks, growth
from skillopt.runs.view import RunView
from skillopt.runs.words import LogLine, count, duration, money, score
from skillopt_webui._page import ActionReply, Page, Parts, Visit
from skillopt_webui.render import run as draw
from skillopt_webui.render.markup import (
    Markup,
    button,
    card,
    pairs,
    region,
    stop_button,
    table,
    tag,
)
from skillopt_webui.render.steps import steps_card
from skillopt_webui.report import page as report

LONGEST_LOG = 200
LATEST = 20
"""Steps that are on the page; the page Steps has all."""
_SIGNS = {"done": "✓", "now": "▶", "ahead": "·"}
_SPOKEN = {"done": "done", "now": "under way", "ahead": "to come"}
_ADOPT = (
    "It replaces the skill that the run began with; the fold 'Seed against best' shows how. What was there is"
    " kept in your own folder, and undo puts it back byte for byte."
)
_UNDO = "The files get back, byte for byte, what they held before. A file that was edited since is refused."


async def build(visit: Visit) -> Parts:
    """The one screen."""
    reader = await visit.read()
    view = reader.view()
    if view is None:
        waiting = tag("p", "Waiting for the run to begin.", cls="empty", role="status")
        return {"head": _head(visit, reader, None), "now": waiting}
    drawn, at = visit.app.drawn, (reader.decided, reader.state)
    if reader.folder not in drawn or drawn[reader.folder][0] != at:
        drawn[reader.folder] = (at, await asyncio.to_thread(_decided, visit, reader, view))
    return {
        "head": _head(visit, reader, view),
        "hero": draw.hero(view),
        "now": _now(visit, reader, view),
        **drawn[reader.folder][1],
        "spending": draw.spending(view),
        "log": _log(reader.lines),
        "task": await visit.task(view),
    }


def _decided(visit: Visit, reader: RunReader, view: RunView) -> Parts:
    """What changes only with a decision."""
    flagged = flagged_lines(reader)
    latest = list(view.changes)[-LATEST:]
    more = len(view.changes) - len(latest)
    earlier = tag("p", tag("a", f"All {len(view.changes):,} steps", href=visit.url("edits"))) if more else ""
    return {
        "screen": draw.screen(view, growth(view), flagged),
        "steps": steps_card(latest, earlier),
        "configuration": draw.configuration(view),
    }


def _head(visit: Visit, reader: RunReader, view: RunView | None) -> Markup:
    """What was trained, and what can be done with the run."""
    id = visit.run.id
    verbs: list[Markup] = []
    if reader.state == "running":
        verbs.append(stop_button())
    elif reader.state == "stopped":
        verbs.append(button("resume", "Resume", main=True))
    stands = is_adopted(reader.folder)
    if view is not None and view.best_diff and reader.state != "running":
        verbs.append(button("adopt", "Adopt", "Adopt the best skill?", _ADOPT, "Adopt"))
    if stands:
        verbs.append(
            button("undo", "Undo the adoption", "Undo the last adoption?", _UNDO, "Undo the adoption")
        )
    verbs.append(tag("a", "Compare", href=visit.url("runs", run=id), cls="button"))
    if view is not None and view.baseline is not None:
        here = visit.url("run")
        verbs.append(tag("a", "Report", href=f"{here}/report.html", cls="button", download=True))
        skill = f"{here}/best_skill.md"
        verbs.append(tag("a", "Export skill", href=skill, cls="button main", download=True))
    about = tag("span", reader.status.what(), cls="soft")
    if view is not None:
        about = draw.subject(view, is_adopted=stands)
    form = tag("form", *verbs, method="post", cls="actions", aria_label="What can be done with this run")
    return tag("div", about, tag("span", cls="spread"), form, cls="row-of")


def _now(visit: Visit, reader: RunReader, view: RunView) -> Markup:
    """Where a run at work stands; how to go on with one that nobody works on; nothing of a finished one."""
    status, paid, spending = reader.status, view.spent, reader.spending
    if reader.state == "stopped":
        started = visit.app.launches.of(reader.folder)
        goes_on = shlex.join(["skillopt", "train", str(reader.folder)])
        command = started.spoken() if started else goes_on
        text = "No process works on this run. Resume goes on at the same place, and so does its command:"
        return card("Stopped", tag("p", text), tag("pre", command), id="now")
    if reader.state != "running":
        return Markup()
    refused = paid.states.get("refused", 0)
    figures = [
        ("val, seed to current", _val(status)),
        ("cost", money(paid.dollars)),
        ("calls, tokens", f"{paid.calls:,}, {paid.tokens:,}"),
        ("in flight", str(spending.in_flight)),
        ("reserved for them", count(spending.tokens_reserved, "token")),
        *([("refused calls", f"{refused:,}")] if refused else []),
        ("time so far", duration(reader.seconds())),
        ("time left", status.left_in_words()),
    ]
    rows = tag("progress", value=status.done, max=status.total, aria_label="Rows of this stage that are in")
    rows_in = tag("span", status.rows(), cls="soft")
    progress = tag("div", rows, rows_in, cls="row-of") if status.total else ""
    slowed = tag("p", status.slowed(), cls="note") if status.slowed() else ""
    flights = [(one.role, one.stage, str(one.calls), f"{one.oldest:.0f} s") for one in spending.flights()]
    heads = ("role", "stage", "calls", "longest wait")
    waiting = table("Calls in flight", heads, flights, numbers=2) if flights else ""
    where = tag("p", status.position(), role="status")
    return card("Now", where, _strip(status), progress, slowed, pairs(figures), waiting, id="now")


def _val(status: RunStatus) -> str:
    state = status.fold.result
    return score(None) if state is None else f"{score(state.baseline_score)} → {score(state.score)}"


def _strip(status: RunStatus) -> Markup:
    stages = (
        tag(
            "li",
            f"{_SIGNS[one.state]} {one.name}",
            tag("span", f", {_SPOKEN[one.state]}", cls="unseen"),
            cls=one.state,
            aria_current="step" if one.state == "now" else None,
        )
        for one in status.strip()
    )
    return tag("ol", *stages, cls="strip", aria_label="Stages of this step")


def _log(lines: list[LogLine]) -> Markup:
    shown = [
        tag("li", tag("time", line.time[:19], datetime=line.time), tag("span", line.text, cls=line.tone))
        for line in reversed(lines[-LONGEST_LOG:])
    ]
    listed = region("What was decided, the newest first", tag("ol", *shown), cls="log")
    return card(f"Log: {count(len(lines), 'line')}", listed, id="log")


async def act(visit: Visit, form: MultiMapping[str]) -> ActionReply:
    """Stop or resume the run; adopt its best skill, or take that back."""
    folder, verb = visit.run.folder, form.get("verb")
    if verb in ("stop", "resume"):
        return visit.stop_or_resume(verb, folder)
    if verb == "adopt":
        plan = await asyncio.to_thread(plan_adoption, folder)
        if plan.doubts or plan.flagged:
            command = shlex.join(["skillopt", "adopt", str(folder)])
            ask = f"Nothing was changed; `{command}` asks about each of these."
            raise UsageError("\n".join([*plan.doubts, *map(str, plan.flagged), ask]))
        done = await asyncio.to_thread(adopt, plan)
        if done is not None and done.left_out:
            raise UsageError(f"{', '.join(done.left_out)} was changed by somebody else at this moment.")
        return ActionReply(note=f"Adopted: {plan.skill} is the best skill of this run now.")
    if verb == "undo":
        back = await asyncio.to_thread(undo_adoption, folder)
        return ActionReply(note=f"Undone: {', '.join(map(str, back.written))} is as it was before.")
    raise UsageError(f"There is no verb {str(verb)[:40]!r} here.")


def _report(visit: Visit) -> str:
    view = read_view(visit.run.folder)
    tasks = compare_tasks(view)
    return report(view, tasks, is_adopted=is_adopted(visit.run.folder))


def _skill(visit: Visit) -> str:
    """The whole SKILL.md: view know of a folder all files in one text, of a description that alone."""
    written = visit.run.folder / "best_skill.md"
    if not written.is_file():
        raise UsageError("Nothing is measured yet, so there is no best skill to export.")
    return written.read_bytes().decode()


PAGE = Page(
    path="/run/{run}",
    title="Overview",
    place=0,
    build=build,
    act=act,
    files={"report.html": _report, "best_skill.md": _skill},
)
