"""Draws one moment of a run for a terminal: the stairs so far, the skill as it was, and the val tasks."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from skillopt.render.stairs import told
from skillopt.runs.growth import GrownLine, Growth
from skillopt.runs.matrix import MARK_SIGNS
from skillopt.runs.values import Facts
from skillopt.runs.words import SIGNS, count, outcome, score

ROWS, LOW_ROWS, LOW = 9, 5, 30
"""Lines of the chart, and those in a terminal of fewer than `LOW` lines."""
WALL = 3
"""Lines of val tasks."""
SMALLEST = 5
"""Lines of the skill in the lowest of terminals."""
_AXIS = 7
_GUTTER = 9
_STYLES = {"pass": "green", "partial": "yellow", "fail": "red", "invalid": "magenta", "not evaluated": "dim"}


def frame(facts: Facts, grown: Growth, k: int, width: int, height: int) -> Group:
    """Moment `k` in `width` columns; the skill gets what is left of `height` lines."""
    moment = grown.moments[k]
    title = Text(f"SkillOpt  {facts.benchmark} · target {facts.target} · optimizer {facts.optimizer}", "bold")
    if facts.simulated:
        title.append("  simulated ", style="black on yellow")
    word = outcome(moment.action)
    style = {"accepted": "bold green", "rejected": "yellow"}.get(word, "bold")
    wall = _wall(facts, grown, k, width)
    around = [
        title,
        Text.assemble(
            (f"val {score(moment.score)}", "bold"),
            (f"   seed {score(facts.baseline)}   {k} of {count(len(grown.moments) - 1, 'change')}", "dim"),
        ),
        *_stairs(facts, grown, k, width, LOW_ROWS if height < LOW else ROWS),
        Text(told(moment), style),
        Text(),
    ]
    left = max(SMALLEST, height - len(around) - len(wall) - 4)
    return Group(*around, *_skill(grown, k, width, left), Text(), *wall)


def _stairs(facts: Facts, grown: Growth, k: int, width: int, rows: int) -> list[Text]:
    """The val score as far as moment `k`; a change that was not taken hangs at what it could reach."""
    wide = width - _AXIS
    last = max([1.0, float(facts.planned), *(one.at for one in grown.moments)])
    cells = [[(" ", "")] * wide for _ in range(rows)]

    def row(value: float) -> int:
        return round((1 - value) * (rows - 1))

    at, x = grown.moments[0].score, 0
    for one in grown.moments[: k + 1]:
        here = round(one.at / last * (wide - 1))
        if at is not None:
            cells[row(at)][x:here] = [("─", "blue")] * (here - x)
        y = row(at or 0.0)
        if one.is_taken and one.score is not None:
            top = row(one.score)
            for line in range(min(y, top), max(y, top)):
                cells[line][here] = ("│", "blue")
            cells[y][here] = ("╯" if top < y else "╮", "blue")
            y = top
        elif one.reached is not None and at is not None:
            y = row(min(one.reached, at))
        word = outcome(one.action)
        cells[y][here] = (SIGNS.get(word, "●"), "yellow" if word == "rejected" else "bold blue")
        at, x = one.score if one.score is not None else at, here + 1
    lines = []
    for number, signs in enumerate(cells):
        label = f"{1 - number / (rows - 1):.2f} ┤" if number % (rows // 2) == 0 else "┤"
        lines.append(Text.assemble((label.rjust(_AXIS), "dim"), *signs))
    end = f"step {last:g}"
    return [*lines, Text("seed".rjust(_AXIS + 2).ljust(width - len(end)) + end, "dim")]


def _skill(grown: Growth, k: int, width: int, most: int) -> list[Text]:
    """The skill at moment `k`, with the step that wrote each line; of a long one what changed last."""
    alive = [one for one in grown.lines if one.first <= k and (one.gone is None or k < one.gone)]
    newest = max((one.first for one in alive), default=0)
    place = next((at for at, one in enumerate(alive) if one.first == newest), 0)
    first = max(0, min(place - most // 3, len(alive) - most)) if newest else 0
    shown = [_line(grown, one, k, width) for one in alive[first : first + most]]
    named = f", lines {first + 1} to {first + len(shown)} of {len(alive)}" if len(shown) < len(alive) else ""
    return [Text(f"SKILL.md{named}", "bold"), *shown, *[Text()] * (most - len(shown))]


def _line(grown: Growth, line: GrownLine, k: int, width: int) -> Text:
    moment = grown.moments[line.first]
    name = "" if not line.first else moment.name if len(moment.name) < _GUTTER else moment.short
    style = "bold green" if line.first and line.first == k else ""
    return Text.assemble(
        (f"{name:>{_GUTTER - 1}} ", "dim"), (_whole_words(line.text, width - _GUTTER), style)
    )


def _whole_words(text: str, width: int) -> str:
    """A line as far as it fits, without a word that would be cut."""
    if len(text) <= width:
        return text
    return f"{text[: width - 1].rpartition(' ')[0] or text[: width - 2]} …"


def _wall(facts: Facts, grown: Growth, k: int, width: int) -> list[Text]:
    tasks = grown.most_changed(facts.tasks, WALL * width)
    moment = grown.moments[k]
    fixed, broke = set(moment.fixed), set(moment.broke)
    marks = [grown.mark(task, k) for task in tasks]
    moved = f"   fixed {len(fixed)}, broke {len(broke)}" if k else ""
    head = Text.assemble((f"Val tasks: {marks.count('pass')} of {len(tasks)} pass", "bold"), (moved, "dim"))
    squares = [
        (MARK_SIGNS[mark], f"{_STYLES[mark]} reverse" if task in fixed or task in broke else _STYLES[mark])
        for task, mark in zip(tasks, marks, strict=True)
    ]
    return [head, *(Text.assemble(*squares[at : at + width]) for at in range(0, len(squares), width))]
