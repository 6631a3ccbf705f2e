"""The page Tasks of a run: how every val task went with every version, and the rollout behind each cell."""

from __future__ import annotations

from typing import Any

from nicegui import run, ui

from skillopt.dashboard import _live as live
from skillopt.dashboard import _widgets as w
from skillopt.dashboard._markup import Markup, block, joined, tag
from skillopt.dashboard._page import Page, Visit
from skillopt.errors import SkillOptError
from skillopt.runs.matrix import MARKS, Shown, TaskMatrix, matrix, trajectories
from skillopt.runs.reader import RunReader
from skillopt.runs.values import Facts
from skillopt.runs.words import outcome

TASKS = 50
VERSIONS = 24
"""As many rows and columns are on the page at once; of larger tables one part after the other."""
SIGNS = ("–", "✓", "~", "✗", "!")
_FILTERS = {
    "all": "all tasks",
    "changed": "tasks that changed",
    "fail": "tasks the last skill fails",
    "invalid": "tasks with an invalid row",
}
# Arrow keys walk through the cells, which are one stop of the tabulator; Enter and Space are the button's
# own.
_WALK = """event => {
  const here = event.target.closest('button');
  const step = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0]}[event.key];
  if (!here || !step) return;
  event.preventDefault();
  const cell = here.parentElement, row = cell.parentElement;
  const column = [...row.children].indexOf(cell) + step[1];
  const rows = [...row.parentElement.children];
  const next = rows[rows.indexOf(row) + step[0]]?.children[column]?.querySelector('button');
  if (!next) return;
  here.tabIndex = -1; next.tabIndex = 0; next.focus();
}"""
_PRESS = (
    "event => { const cell = event.target.closest('button'); if (cell) emit(cell.dataset.task,"
    " cell.dataset.version); }"
)


class _Tasks:
    """The table of one visit."""

    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.decided = -1
        self.facts: Facts | None = None
        self.matrix: TaskMatrix | None = None
        self.wanted = ("", "")
        with w.section("Tasks and versions", hidden_title=True):
            with ui.element("div").classes("so-row"):
                self.filter = ui.select(_FILTERS, label="Show", value="all", on_change=self.again).props(
                    "outlined dense options-dense"
                )
                self.words = ui.input("Task id", on_change=self.again).props("outlined dense clearable")
                self.only = ui.checkbox("Only skills that were taken", on_change=self.draw)
            _legend()
            self.map = w.named(
                block(joined([])), "Val tasks by version; arrow keys walk, Enter opens the rollout"
            ).classes("so-window")
            self.map.on("keydown", js_handler=_WALK)
            self.map.on("click", self.open, js_handler=_PRESS)
            with ui.element("div").classes("so-row"):
                self.tasks = live.Pages(TASKS, self.draw, "tasks")
                self.versions = live.Pages(VERSIONS, self.draw, "versions", ends_full=True)
            self.empty = w.empty("No task was measured yet: the table begins with the baseline of the seed.")
        with w.section("Rollout") as self.rollout:
            self.title = (
                ui.label("Choose a cell of the table to see what the target did.")
                .classes("so-soft")
                .props('role="status"')
            )
            self.shown = ui.element("div").classes("so-main so-bare")

    def show(self, watcher: RunReader) -> None:
        """Take in versions that were measured since."""
        facts = watcher.facts()
        if facts is None or watcher.decided == self.decided:
            return
        self.decided, self.facts = watcher.decided, facts
        if self.matrix is None or len(facts.versions) != len(self.matrix.versions):
            if self.matrix is None:  # the latest first
                self.versions.at = max(0, (len(facts.versions) - 1) // VERSIONS)
            self.matrix = matrix(facts)
            self.draw()

    def again(self) -> None:
        """Another choice begins at its first page."""
        self.tasks.at = 0
        self.draw()

    def draw(self) -> None:
        """The part of the table that was asked for."""
        found = self.matrix
        self.empty.set_visibility(found is None or not found.tasks)
        if found is None:
            return
        wanted = self._wanted(found)
        rows = wanted[self.tasks.part(len(wanted))]
        taken = self._taken() if self.only.value else range(len(found.versions))
        columns = list(taken)[self.versions.part(len(taken))]
        self.map.set_content(_map(found, rows, columns))

    async def open(self, event: Any) -> None:
        """Show the rollout behind a cell. What the browser says is looked up in the table, never used as a
        path or key.
        """
        said = event.args if isinstance(event.args, list) else []
        if self.facts is None or self.matrix is None or len(said) != 2:
            return
        task, version = self.wanted = str(said[0]), str(said[1])
        trouble, found = "", None
        try:
            found = await run.io_bound(trajectories, self.visit.run.folder, self.facts, version, task)
        except SkillOptError as error:
            trouble = str(error)
        if self.wanted != (task, version):
            return  # another cell was pressed meanwhile
        self.shown.clear()
        if trouble:
            with self.shown:
                w.trouble(trouble)
            return
        version_of = next(one for one in self.facts.versions if one.short == version)
        cell = version_of.cells.get(task)
        mark = MARKS[0] if cell is None else cell.mark
        self.title.text = f"{task} with {version_of.name}: {mark}" + (
            f" ({cell.note})" if cell is not None and cell.note else ""
        )
        with self.shown:
            for one in found or ():
                _rollout(one, len(found or ()))
            if not found:
                w.paragraph(
                    (
                        "This task was not run with this version."
                        if cell is None
                        else "No rollout is stored for this row."
                    ),
                    soft=True,
                )

    def _wanted(self, found: TaskMatrix) -> list[int]:
        words = (self.words.value or "").lower()
        rows = [place for place, task in enumerate(found.tasks) if words in task.lower()]
        if self.filter.value == "changed":
            return [row for row in rows if len({column[row] for column in found.cells if column[row]}) > 1]
        if self.filter.value == "invalid":
            return [row for row in rows if any(column[row] == 4 for column in found.cells)]
        if self.filter.value == "fail" and self.facts is not None:
            last = self._taken()[-1]
            return [row for row in rows if found.cells[last][row] == 3]
        return rows

    def _taken(self) -> list[int]:
        """The columns of the skills that the run had, one after the other; the last is the current one."""
        assert self.facts is not None and self.matrix is not None, "there is a table"
        taken = {change.short for change in self.facts.changes if change.diff}
        return [place for place, short in enumerate(self.matrix.versions) if short in taken or not place]


def _legend() -> None:
    block(
        joined(
            tag("span", tag("span", sign, data_m=place), mark)
            for place, (sign, mark) in enumerate(zip(SIGNS, MARKS, strict=True))
        )
    ).classes("so-legend so-map")


def _map(found: TaskMatrix, rows: list[int], columns: list[int]) -> Markup:
    head = [tag("th", "task", scope="col")]
    for column in columns:
        counts = found.counts(column)
        title = (
            f"{found.names[column]}, {outcome(found.actions[column])}: {counts['pass']} of {len(found.tasks)}"
            " passed"
        )
        head.append(tag("th", found.versions[column], scope="col", title=title))
    body = []
    for row in rows:
        cells = [
            _cell(found, row, column, is_first=row == rows[0] and column == columns[0]) for column in columns
        ]
        body.append(tag("tr", tag("th", found.tasks[row], scope="row", title=found.tasks[row]), *cells))
    return tag("table", tag("thead", tag("tr", *head)), tag("tbody", joined(body)), cls="so-map")


def _cell(found: TaskMatrix, row: int, column: int, *, is_first: bool) -> Markup:
    mark = found.cells[column][row]
    button = tag(
        "button",
        SIGNS[mark],
        type="button",
        data_m=mark,
        data_task=found.tasks[row],
        data_version=found.versions[column],
        tabindex=0 if is_first else -1,
        aria_label=f"{found.tasks[row]}, {found.names[column]}: {MARKS[mark]}",
    )
    return tag("td", button)


def _rollout(one: Shown, draws: int) -> None:
    if draws > 1:
        w.heading(f"Draw {one.draw + 1}", level=3)
    scored = (
        "no score is stored"
        if one.hard is None
        else f"{one.hard:g}" + (f", soft {one.soft:g}" if one.soft != one.hard else "")
    )
    pairs = [("score", scored), ("calls", str(one.calls)), ("attempt", str(one.attempt + 1))]
    if one.failure:
        pairs.append(("failed by itself", one.failure))
    if one.files:
        pairs.append(("files made", ", ".join(one.files)))
    w.facts(pairs)
    if one.feedback:
        w.verbatim(one.feedback, "What the scorer said")
    for turn in one.turns:
        with ui.element("div").classes("so-turn"):
            w.heading(turn.role, level=3)
            w.verbatim(turn.text or "(nothing)", f"Message of {turn.role}")
    if not one.turns:
        w.verbatim(one.answer or "(no answer)", "Answer")


async def build(visit: Visit) -> None:
    """Make the page."""
    tasks = _Tasks(visit)
    await live.watch(visit.run.folder, tasks.show)


PLUGIN = Page(path="/run/{run}/tasks", title="Tasks", place=30, build=build, icon="grid_on")
