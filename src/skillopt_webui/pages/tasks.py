"""The page Tasks of a run: how every val task went with every version, the worst regressions first."""

from __future__ import annotations

from urllib.parse import urlencode

from skillopt.runs.evidence import stored_tasks
from skillopt.runs.tasks import MARKS, TaskMatrix, matrix
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
_WORTH = {MARKS.index("fail"): 0, MARKS.index("partial"): 1, MARKS.index("pass"): 2}


async def build(visit: Visit) -> Parts:
    """The part of the table that was asked for, and the task that was pressed."""
    facts = (await visit.look()).facts()
    if facts is None or not facts.tasks:
        return {"tasks": empty("No task was measured yet: the table begins with the baseline.")}
    found = matrix(facts)
    taken = [place for place, one in enumerate(found.versions) if one.is_taken]
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
        row
        for row in _wanted(found, show, taken[-1])
        if words.lower() in found.tasks[row].lower() and kind in ("", kinds.get(found.tasks[row]))
    ]
    columns = taken if only else list(range(len(found.versions)))
    part, pages = pager(visit, len(rows), TASKS, "tasks")
    across, versions = pager(visit, len(columns), VERSIONS, "versions", key="versions", last=True)
    query = [(key, value) for key, value in visit.query.items() if key not in ("task", "version")]
    base = f"{visit.page.url(visit.run.id)}?{urlencode(query)}"
    return {
        "filter": filters(*fields),
        "tasks": card("Tasks and versions", heat(found, rows[part], columns[across], base), pages, versions),
        "rollout": card("Rollout", tag("div", id="task", data_part="task")),
        "task": await visit.task(facts) or tag("p", "Choose a cell of the table to see what the target did."),
    }


def _wanted(found: TaskMatrix, show: str, last: int) -> list[int]:
    """The rows of a filter; `last` is the column of the current skill."""
    rows = list(range(len(found.tasks)))
    cells = found.cells
    if show == "changed":
        return [row for row in rows if len({column[row] for column in cells if column[row]}) > 1]
    if show == "invalid":
        return [row for row in rows if any(column[row] == MARKS.index("invalid") for column in cells)]
    if show == "fail":
        return [row for row in rows if cells[last][row] == MARKS.index("fail")]
    return sorted(rows, key=lambda row: _moved(cells[0][row], cells[last][row]))


def _moved(before: int, after: int) -> int:
    """How much better a task went; what was not measured with both did not move."""
    return _WORTH[after] - _WORTH[before] if before in _WORTH and after in _WORTH else 0


PLUGIN = Page(path="/run/{run}/tasks", title="Tasks", place=30, build=build)
