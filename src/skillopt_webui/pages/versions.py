"""The pages Versions, Steps and Tasks of a run: what changed between two skills, every proposed edit, and how
every val task went.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlencode

from skillopt.runs.answers import stored_tasks
from skillopt.runs.versions import SkillVersion, change_of
from skillopt.runs.view import RunView
from skillopt.runs.words import outcome, score
from skillopt.skill.diff import unified
from skillopt_webui._page import Page, Parts, Visit
from skillopt_webui.render.markup import (
    Markup,
    box,
    card,
    choice,
    diff,
    empty,
    field,
    filters,
    region,
    soft,
    tag,
    verbatim,
)
from skillopt_webui.render.run import heat
from skillopt_webui.render.steps import edit_parts, steps

BASE = "base"
MOST_REJECTED = 200
"""Of candidates that were not taken the latest so many can be chosen."""
_VIEWS = {"inline": "Inline", "sides": "Side by side", "text": "Whole text"}
_CONTEXT = 3
SIZE = 20
LONGEST_STEPS = 500
_ALL = "all"
TASKS = 50
VERSIONS = 24
"""As many rows and columns are on the page at once; of larger tables one part after the other."""
_FILTERS = {
    "all": "all tasks, worst regressions first",
    "changed": "tasks that changed",
    "fail": "tasks the last skill fails",
    "invalid": "tasks with an invalid row",
}


async def build_versions(visit: Visit) -> Parts:
    """The version that the address names, the best where it names none, and the one it is compared with."""
    view = (await visit.read()).view()
    found = [] if view is None else view.measured
    if view is None or not found:
        return {"empty": empty("Nothing was measured yet: the seed appears here with the baseline.")}
    rejected = [one.short for one in found if not one.is_taken][-MOST_REJECTED:]
    versions = {one.short: one for one in reversed(found) if one.is_taken or one.short in rejected}
    best = next((one.short for one in found if view.is_best(one)), "seed")
    one = versions.get(visit.query.get("version", ""), versions[best])
    against = visit.query.get("against", "seed" if "version" not in visit.query else BASE)
    other, shown = versions.get(against), visit.query.get("view", "inline")
    offered = {short: _named(view, version) for short, version in versions.items()}
    wanted = filters(
        choice("version", "Version", offered, one.short),
        choice("against", "Compared with", {BASE: "the skill it was made from", **offered}, against),
        choice("view", "Shown", _VIEWS, shown),
    )
    before, name = (view.base_of(one), "before") if other is None else (other, other.name)
    about = soft(_named(view, one))
    return {"filter": wanted, "text": card("What changed", about, *_text(one, before.text, name, shown))}


def _named(view: RunView, one: SkillVersion) -> str:
    if one.short == "seed":
        return f"the seed · val {score(one.candidate)}"
    best = " · best" if view.is_best(one) else ""
    return f"{one.name} · {outcome(one.action)} · val {score(one.candidate)}{best}"


def _text(one: SkillVersion, before: str, name: str, shown: str) -> list[Markup]:
    if shown == "text":
        return [verbatim(one.text or "The log does not hold this text.", f"The skill of {one.name}")]
    if before == one.text:
        same = "The run began with this skill."
        if one.short != "seed":
            same = f"{one.name} reads the same as {name}."
        return [soft(same), verbatim(one.text, f"The skill of {one.name}")]
    if shown == "sides":
        label = f"{name} on the left, {one.name} on the right"
        return [region(label, *side_by_side(before, one.text), cls="columns")]
    label = f"Difference between {name} and {one.name}"
    return [diff(unified(before, one.text, name, one.name), label)]


def side_by_side(before: str, after: str) -> list[Markup]:
    """Two texts in two columns; lines have a minus or a plus, so that colour says nothing alone."""
    old, new = before.splitlines(), after.splitlines()
    rows: list[Markup] = []
    groups = difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_grouped_opcodes(_CONTEXT)
    for number, group in enumerate(groups):
        if number or group[0][1]:
            rows.append(tag("div", f"from line {group[0][3] + 1}", cls="where"))
        for kind, a0, a1, b0, b1 in group:
            left, right = old[a0:a1], new[b0:b1]
            for place in range(max(len(left), len(right))):
                rows += [_side(left, place, kind, "-"), _side(right, place, kind, "+")]
    return rows


def _side(lines: Sequence[str], place: int, kind: str, sign: str) -> Markup:
    if place >= len(lines):
        return tag("div", "")
    if kind == "equal":
        return tag("div", f"  {lines[place]}")
    return tag("div", f"{sign} {lines[place]}", cls="removed" if sign == "-" else "added")


SKILL_PAGE = Page(path="/run/{run}/skill", title="Versions", place=10, build=build_versions)


async def build_steps(visit: Visit) -> Parts:
    """The steps that hold what was asked for, the newest first."""
    view = (await visit.read()).view()
    changes = [] if view is None else list(reversed(view.changes))
    counted = Counter(change.state_of(edit) for change in changes for edit in change.outcomes)
    states = {_ALL: f"all ({counted.total():,})"}
    states |= {state: f"{state.replace('_', ' ')} ({number:,})" for state, number in counted.most_common()}
    state, words = visit.query.get("state", _ALL), visit.query.get("words", "")
    step = visit.query.get("step", _ALL)
    names = {one.short: f"{one.name} · {outcome(one.action)}" for one in changes[:LONGEST_STEPS]}
    wanted = filters(
        choice("state", "State", states, state),
        choice("step", "Step", {_ALL: "all", **names}, step),
        field("words", "Words in the edit", words),
    )
    chosen = [change for change in changes if step in (_ALL, change.short)]
    if state != _ALL or words:
        found = [_with(change, state, words.lower().split()) for change in chosen]
        chosen = [change for change in found if change.outcomes]
    part, pages = visit.pager(len(chosen), SIZE, "steps")
    edits = sum(len(change.outcomes) for change in chosen)
    count = tag("p", f"{edits:,} edits in {len(chosen):,} steps.", cls="soft", role="status")
    return {"filter": wanted, "steps": card("Steps", count, steps(chosen[part]), pages)}


def _with(change: SkillVersion, state: str, words: list[str]) -> SkillVersion:
    """The step with only those of its edits that were asked for."""
    kept = []
    for one in change.outcomes:
        text = " ".join([*edit_parts(one.edit), change.reason_of(one)]).lower()
        if state in (_ALL, change.state_of(one)) and all(word in text for word in words):
            kept.append(one)
    return replace(change, outcomes=kept)


EDITS_PAGE = Page(path="/run/{run}/edits", title="Steps", place=20, build=build_steps)


async def build_tasks(visit: Visit) -> Parts:
    """The part of the table that was asked for, and the task that was pressed."""
    view = (await visit.read()).view()
    if view is None or not view.tasks:
        return {"tasks": empty("No task was measured yet: the table begins with the baseline.")}
    taken = [version for version in view.measured if version.is_taken]
    kinds = {one.id: one.kind for one in stored_tasks(visit.run.folder) if one.kind}
    show, words, kind = (visit.query.get(name, "") for name in ("show", "words", "kind"))
    only = bool(visit.query.get("only"))
    fields = [
        choice("show", "Show", _FILTERS, show),
        field("words", "Task id", words),
        box("only", "Only skills that were taken", checked=only),
    ]
    if len(set(kinds.values())) > 1:
        named = {"": "all kinds", **{name: name for name in sorted(set(kinds.values()))}}
        fields.insert(1, choice("kind", "Kind", named, kind))
    rows = [
        task
        for task in _wanted(view, show, taken[-1])
        if words.lower() in task.lower() and kind in ("", kinds.get(task))
    ]
    columns = taken if only else view.measured
    part, pages = visit.pager(len(rows), TASKS, "tasks")
    across, versions = visit.pager(len(columns), VERSIONS, "versions", key="versions", last=True)
    query = [(key, value) for key, value in visit.query.items() if key not in ("task", "version")]
    base = f"{visit.page.url(visit.run.id)}?{urlencode(query)}"
    return {
        "filter": filters(*fields),
        "tasks": card("Tasks and versions", heat(rows[part], columns[across], base), pages, versions),
        "rollout": card("Rollout", tag("div", id="task", data_part="task")),
        "task": await visit.task(view) or tag("p", "Choose a cell of the table to see what the target did."),
    }


def _wanted(view: RunView, show: str, last: SkillVersion) -> list[str]:
    """The tasks of a filter; `last` is the current skill."""
    columns = [version.marks for version in view.measured]
    if show == "changed":
        return [task for task in view.tasks if len({marks[task] for marks in columns if task in marks}) > 1]
    if show == "invalid":
        return [task for task in view.tasks if any(marks.get(task) == "invalid" for marks in columns)]
    if show == "fail":
        return [task for task in view.tasks if last.marks.get(task) == "fail"]
    first = columns[0]
    return sorted(view.tasks, key=lambda task: change_of(first.get(task), last.marks.get(task)))


TASKS_PAGE = Page(path="/run/{run}/tasks", title="Tasks", place=30, build=build_tasks)
