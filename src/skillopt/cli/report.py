"""`skillopt report`: write a run as one HTML page that works offline and a summary, or show it again."""

from __future__ import annotations

import contextlib
import time
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from skillopt.changes.best_skill import is_adopted
from skillopt.cli._console import SafeConsole, coloured, open_console, tell
from skillopt.cli._options import Json, NewestRun, option, simple
from skillopt.errors import UsageError
from skillopt.files import as_usage_error, check_links_stay, write_text
from skillopt.runs.comparison import tested
from skillopt.runs.reader import find_run, read_view
from skillopt.runs.tasks import MARK_SIGNS, GrownLine, Growth, compare_tasks, growth
from skillopt.runs.view import RunView
from skillopt.runs.words import NOT_MEASURED, SIGNS, count, interval, outcome, score, subject
from skillopt_webui.render.stairs import moment_text
from skillopt_webui.report import page as render_page
from skillopt_webui.report import summary

PANEL, PLACE = "Look at runs", 3
_OURS = "SkillOpt report"
"""Stands near the top of every report; a file without it is somebody else's."""
ROWS, LOW_ROWS, LOW = 9, 5, 30
"""Lines of the chart, and those in a terminal of fewer than `LOW` lines."""
WALL = 3
"""Lines of val tasks."""
SMALLEST = 5
"""Lines of the skill in the lowest of terminals."""
_AXIS = 7
_GUTTER = 9
_STYLES = {"pass": "green", "partial": "yellow", "fail": "red", "invalid": "magenta", "not evaluated": "dim"}


def report(
    run: NewestRun = None,
    out: Annotated[
        Path | None, option("--out", "Where the page goes; by default RUN/report.html.", "FILE.html")
    ] = None,
    replay: Annotated[
        bool, option("--replay", "Show the run again in the terminal: scores climb, SKILL.md grows.")
    ] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.0, help="How long --replay takes, from the seed to the end.")
    ] = 30.0,
    page: Annotated[
        bool,
        option("--page", "--replay as a page that plays by itself: RUN/replay.html, opened in a browser."),
    ] = False,
    no_open: Annotated[bool, option("--no-open", "With --page: open no browser.")] = False,
    json: Json = False,
) -> None:
    """Write a run as one offline HTML page, and a Markdown summary beside it. A run at work goes on.

    --replay shows it again from its files, without a call; where the output is no terminal, every change is
    a line and nothing is waited for. Ctrl-C ends it.
    """
    folder = find_run(run or Path("outputs"))
    if (page or no_open) and not replay:
        raise UsageError("--page and --no-open go with --replay: a report is a page by itself.")
    if replay and not page and (json or out is not None):
        raise UsageError("--replay writes nothing: --out and --json go with --replay --page.")
    view = read_view(folder)
    if replay and view.baseline is None:
        raise UsageError(f"The seed of {folder} was never measured, so there is nothing to show again.")
    if replay and not page:
        _replay(view, seconds)
        return
    check_links_stay(folder)
    target = out or folder / ("replay.html" if replay else "report.html")
    beside = target.with_suffix(".md")
    _check(target, *([] if replay else [beside]))
    tasks = compare_tasks(view)
    html = render_page(view, tasks, is_adopted=is_adopted(folder), play=seconds if replay else None)
    files = {"html": (target, html)}
    if not replay:
        files["markdown"] = (beside, summary(view))
    for path, text in files.values():
        with as_usage_error(path, "written", "Name another file with --out."):
            write_text(path, text, durable=False)
    written = {kind: str(path) for kind, (path, _) in files.items()}
    tell(written, written.values(), json=json)
    if replay and not no_open:
        webbrowser.open(target.absolute().as_uri())


add = simple(report)


def _check(target: Path, *beside: Path) -> None:
    """Only an earlier report is written over: the Markdown could land on a README or the best skill."""
    if target.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{target} is no name for a page: --out takes a file that ends in .html.")
    for path in (target, *beside):
        if path.is_dir():
            raise UsageError(f"{path} is a folder; name another file with --out.")
        if path.exists() and _OURS not in path.read_bytes()[:2000].decode("utf-8", "replace"):
            raise UsageError(
                f"{path} is there already and is no report of ours; nothing was changed. Name another file"
                " with --out."
            )


def _replay(view: RunView, seconds: float) -> None:
    """Show the run in the terminal, then its claim."""
    console, grown = open_console(), growth(view)
    with contextlib.suppress(KeyboardInterrupt):
        _play(console, view, grown, seconds)
    compared, scores = view.test.comparison, NOT_MEASURED
    if compared is not None:
        scores = f"{score(compared.before)} -> {score(compared.after)}, {interval(compared)}"
    console.say(f"{tested(view)}: {scores}: {view.significance}", f"bold {coloured(view.significance)}")
    console.say(view.claim or "The run has made no claim yet.")
    for remark in view.remarks:
        if remark not in view.claim:
            console.say(remark, "yellow")


def _play(console: SafeConsole, view: RunView, grown: Growth, seconds: float) -> None:
    if not console.is_terminal:
        for moment in grown.moments:
            console.say(moment_text(moment))
        return
    last = len(grown.moments) - 1
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for k in range(last + 1):
            live.update(frame(view, grown, k, console.width, console.height), refresh=True)
            time.sleep(seconds / (last + 1))
    console.print(frame(view, grown, last, console.width, console.height))


def frame(view: RunView, grown: Growth, k: int, width: int, height: int) -> Group:
    """Moment `k` in `width` columns; the skill gets what is left of `height` lines."""
    moment = grown.moments[k]
    title = Text(f"SkillOpt  {subject(view.started)}", "bold")
    word = outcome(moment.action)
    style = {"accepted": "bold green", "rejected": "yellow"}.get(word, "bold")
    wall = _wall(view, grown, k, width)
    around = [
        title,
        Text.assemble(
            (f"val {score(moment.score)}", "bold"),
            (f"   seed {score(view.baseline)}   {k} of {count(len(grown.moments) - 1, 'change')}", "dim"),
        ),
        *_stairs(view, grown, k, width, LOW_ROWS if height < LOW else ROWS),
        Text(moment_text(moment), style),
        Text(),
    ]
    left = max(SMALLEST, height - len(around) - len(wall) - 4)
    return Group(*around, *_skill(grown, k, width, left), Text(), *wall)


def _stairs(view: RunView, grown: Growth, k: int, width: int, rows: int) -> list[Text]:
    """The val score as far as moment `k`; a change that was not taken hangs at what it could reach."""
    wide = width - _AXIS
    last = max([1.0, float(view.started.steps), *(one.at for one in grown.moments)])
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


def _wall(view: RunView, grown: Growth, k: int, width: int) -> list[Text]:
    tasks = grown.most_changed(view.tasks, WALL * width)
    fixed, broke = set(grown.fixed[k]), set(grown.broke[k])
    marks = [grown.mark(task, k) for task in tasks]
    moved = f"   fixed {len(fixed)}, broke {len(broke)}" if k else ""
    most = f"   {len(tasks)} most changed shown" if len(tasks) < len(view.tasks) else ""
    head = Text.assemble((f"Val tasks: {grown.counts[k]}", "bold"), (moved + most, "dim"))
    squares = [
        (MARK_SIGNS[mark], f"{_STYLES[mark]} reverse" if task in fixed or task in broke else _STYLES[mark])
        for task, mark in zip(tasks, marks, strict=True)
    ]
    return [head, *(Text.assemble(*squares[at : at + width]) for at in range(0, len(squares), width))]
