"""The page Tasks of a run: how every val task went with every version, the worst regressions first."""

from __future__ import annotations

from urllib.parse import urlencode

from skillopt.runs.answers import stored_tasks
from skillopt.runs.versions import SkillVersion, change_of
from skillopt.runs.view import RunView
from skillopt_webui._forms import box, choice, field, filters, pager
from skillopt_webui._page import Page, Parts, Visit
from skillopt_webui.render.markup import card, empty, tag
from skillopt_webui.render.run import heat

TASKS = 50
VERSIONS = 24
"""As many rows and columns are on the page at once; of larger tables one part after the other."""
_FILTERS = {
    "all": "all tasks, worst regressions first",
    "changed": "tasks that changed",
    "fail": "tasks the last skill fails",
    "invalid": "tasks with an invalid row",
}


async def build(visit: Visit) -> Parts:
    """The part of the table that was asked for, and the task that was pressed."""
    view = (await visit.look()).view()
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
    part, pages = pager(visit, len(rows), TASKS, "tasks")
    across, versions = pager(visit, len(columns), VERSIONS, "versions", key="versions", last=True)
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


PLUGIN = Page(path="/run/{run}/tasks", title="Tasks", place=30, build=build)
