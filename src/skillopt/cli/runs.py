"""`skillopt runs`: list runs, compare them, and look into one: answers, verdicts, what it learned."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from skillopt.cli import EXIT_CODES, _run
from skillopt.cli._console import SafeConsole, coloured, echo, open_console, print_json, tell
from skillopt.cli._explain import explain, show
from skillopt.cli._flags import Given, flagged
from skillopt.cli._options import Json, NewestRun, Plain, Quiet, argument, group, option, simple
from skillopt.cli._progress import LiveView, PlainLines, panel
from skillopt.errors import UsageError
from skillopt.files import check_links_stay
from skillopt.run.pruning import prune_run, pruning_job
from skillopt.runs import comparison, words
from skillopt.runs.reader import (
    RunList,
    RunReader,
    find_run,
    is_in_rounds,
    is_part,
    is_run,
    read_run,
    read_view,
    run_named,
)
from skillopt.runs.view import RunView
from skillopt.skill.diff import print_coloured, unified
from skillopt.skill.folder import load_skill
from skillopt.tasks.splits import listed
from skillopt.train.pruning import PrunedSkill

PANEL, PLACE = "Look at runs", 0
EVERY = 0.5
"""Seconds between two looks."""
FIRST_LINES = 8
"""How many of the latest decisions are shown at the start."""
_PRUNE_KEYS = ("model.", "env.", "budget")
_OF_THE_RUN = tuple(
    f"{key}="
    for key in (
        *("budget.usd", "budget.tokens", "budget.calls", "budget.minutes"),
        *("env.out_root", "tracking.use", "cache.path"),
    )
)
"""What the run spent and wrote to is its own: none of its settings here."""
LONGEST_LINE = 100


def list_runs(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER...",
            help="Runs, or folders with runs below them; 'outputs' when left out. Two or more are compared.",
        ),
    ] = None,
    compare: Annotated[bool, option("--compare", "Compare all runs that are found, side by side.")] = False,
    json: Json = False,
) -> None:
    """List runs, the newest first, or compare them: scores, spending, settings that differ. Reads only."""
    places = folders or [Path("outputs")]
    found = []
    for folder, run in RunList().read(_below(places)).items():
        if isinstance(run, RunView):
            found.append(run)
        elif folder in places:
            raise UsageError(run)
        else:  # one damaged folder must not hide the others
            echo(f"{folder}: {run}", err=True)
    if compare or len(places) > 1:
        compared = comparison.compare([read_view(run.folder) for run in found])
        if json:
            print_json(compared.as_json())
        else:
            _show_side_by_side(compared)
        return
    found.sort(key=lambda run: run.changed, reverse=True)
    if json:
        print_json({"runs": [comparison.row(run) for run in found]})
    elif not found:
        echo(f"No runs in {places[0]}.")
    else:
        for run in found:
            _show(run)


def _below(places: Sequence[Path]) -> list[Path]:
    """The runs in and below some folders, each once."""
    found: dict[Path, Path] = {}
    for place in places:
        if not place.is_dir() and ("outputs" / place).is_dir():
            place = "outputs" / place
        if not place.is_dir():
            raise UsageError(f"There is no folder {place}. Name one that holds runs: skillopt runs FOLDER.")
        below = {path.parent for path in place.rglob("events.jsonl")}
        homes = sorted(
            home for home in below if is_run(home) and (place in (home, home.parent) or not is_part(home))
        )
        if len(places) > 1 and not homes:
            raise UsageError(f"{place} holds no run, and there is none below it.")
        for home in homes:
            found.setdefault(home.resolve(), home)
    return list(found.values())


def _show(run: RunView) -> None:
    """One line: when, where, how it stands, of which skill, scores, cost."""
    line = Text.assemble((f"{datetime.fromtimestamp(run.changed):%Y-%m-%d %H:%M}  ", "dim"))
    line.append(str(run.folder), style="bold")
    line.append(f"  {run.status}", style={"finished": "", "running": "cyan"}.get(run.status, "yellow"))
    compared, step = run.test.comparison, 0 if run.state is None else run.state.step
    test = words.NOT_MEASURED
    if compared is not None:
        test = f"{words.score(compared.before)} -> {words.score(compared.after)}"
    looks = f" ({run.test_count} looks)" if run.test_count > 1 else ""
    val = f"{words.score(run.baseline)} -> {words.score(run.best)}"
    name = comparison.skill_name(run) or run.started.benchmark
    line.append(f"  step {step}/{run.started.steps}  {name}  val {val}  test {test}{looks}  ")
    line.append(run.significance, style=coloured(run.significance))
    line.append(f"  cost {words.money(run.spent.dollars)}{'  simulated' if run.started.simulated else ''}")
    open_console().say(line)


def _show_side_by_side(compared: comparison.RunComparison) -> None:
    """A column a run; claims and remarks below."""
    console = open_console()
    names = comparison.short_names([view.folder for view in compared.views])
    drawn = Table(show_edge=False, pad_edge=False, box=box.SIMPLE_HEAD)
    drawn.add_column("", style="dim", overflow="fold")
    for name in names:
        drawn.add_column(Text(name), overflow="fold")
    figures = [comparison.in_words(one) for one in compared.views]
    for row in figures[0]:
        styles = [coloured(one.significance) if row == comparison.PROVEN else "" for one in compared.views]
        drawn.add_row(row, *(Text(one[row], style) for one, style in zip(figures, styles, strict=True)))
    if compared.settings:
        drawn.add_section()
    for key, values in compared.settings.items():
        drawn.add_row(key, *(Text("-" if value is None else value) for value in values))
    console.print(drawn)
    for name, one in zip(names, compared.views, strict=True):
        console.say(f"{name}: {one.claim or 'no claim yet'}")
    for remark in compared.remarks:
        console.say(remark, "yellow")


def diff(
    a: Annotated[Path, typer.Argument(help="A skill (folder or .md file), or a run folder.")],
    b: Annotated[
        Path | None, argument(None, "The other one; left out, A is a run: its seed against its best.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the difference of two skills. A run stands for its best skill; alone, for seed against best."""
    a, b = run_named(a), None if b is None else run_named(b)
    if b is None and not a.exists():
        raise UsageError(f"There is neither a run nor a skill at {a}.")
    if b is None and not is_run(a):
        raise UsageError(f"{a} is no run folder: name a second skill to compare it with.")
    before, after = (_of_run(a, "seed"), _of_run(a, "best")) if b is None else (_text(a), _text(b))
    difference = unified(before[1], after[1], before[0], after[0])
    if json:
        print_json({"before": before[0], "after": after[0], "equal": not difference, "diff": difference})
        return
    if not difference:
        echo(f"{before[0]} and {after[0]} are equal.")
    print_coloured(difference)


def _text(path: Path) -> tuple[str, str]:
    return _of_run(path, "best") if is_run(path) else (str(path), load_skill(path).document.rendered)


def _of_run(folder: Path, which: str) -> tuple[str, str]:
    run = read_run(folder)
    state = run.fold.state
    if state is None:
        raise UsageError(f"{folder} has measured nothing yet; there is no skill to compare.")
    return f"{folder}:{which}", run.skills.get(getattr(state, which)).rendered


def watch(
    run: NewestRun = None,
    wait: Annotated[bool, option("--wait", "Wait for a run that is not there yet.")] = False,
    once: Annotated[bool, option("--once", "Show where it stands and end.")] = False,
    json_lines: Annotated[
        bool, option("--json-lines", "Print every event as one line of JSON instead.")
    ] = False,
    plain: Annotated[
        bool, option("--plain", "Plain lines instead of a live view, also on a terminal.")
    ] = False,
) -> None:
    """Watch a run that any process works on: stage, scores, verdicts, calls, cost, what is left. Reads only.

    Ends with the run. Ctrl-C ends the watching and leaves the run alone.
    """
    console = open_console()
    is_ahead = run is not None and wait and not run.exists()
    watcher = RunReader(run if run is not None and is_ahead else find_run(run or Path("outputs")))
    try:
        if json_lines:
            _print_events(watcher, once=once)
        elif once:
            watcher.follow()
            _conclude(watcher, console)
        else:
            _follow(watcher, open_console(stderr=True), plain=plain)
            _conclude(watcher, console)
    except KeyboardInterrupt:
        echo("No longer watching; the run goes on.", err=True)


def _follow(watcher: RunReader, console: Console, *, plain: bool) -> None:
    """Follow a run to its end: what was decided last, then everything as it comes."""
    watcher.follow()
    is_plain = plain or not console.is_terminal
    view = PlainLines(watcher.status, console) if is_plain else LiveView(watcher.status, console)
    if watcher.state == "waiting":
        echo(f"Waiting for a run in {watcher.folder}. Ctrl-C ends the waiting.", err=True)
    view.start()
    try:
        for line in watcher.lines[-FIRST_LINES:]:
            view.say(line.text)
        while watcher.state in ("waiting", "running"):
            time.sleep(EVERY)
            watcher.follow(view.tell)
    finally:
        view.close()


def _print_events(watcher: RunReader, *, once: bool) -> None:
    while True:
        watcher.follow(lambda event: print(event.model_dump_json()))
        sys.stdout.flush()
        if once or watcher.state in ("finished", "stopped"):
            return
        time.sleep(EVERY)


def _conclude(watcher: RunReader, console: SafeConsole) -> None:
    """Where it stands, and what that means."""
    view = watcher.view()
    if view is None:
        raise UsageError(f"The run in {watcher.folder} has not begun.")
    console.print(panel(watcher.status))
    said = {
        "running": "It is running.",
        "finished": view.claim or "It is finished.",
        "stopped": "No process works on it. Run the same training command again to go on.",
    }
    console.say(said.get(watcher.state, ""), coloured(view.significance))


def prune(
    given: Given, run: NewestRun = None, json: Json = False, quiet: Quiet = False, plain: Plain = False
) -> None:
    """Leave out learned lines of a run's best skill that no val or train task needs, as long as val is no
    worse, and say what each line is worth.

    The run itself stays as it is: what is left goes to RUN/pruned. Models and tasks are those of the run.
    Running the same command again goes on where it stopped.
    """
    folder = find_run(run or Path("outputs"))
    check_links_stay(folder)
    given = replace(given, config=str(folder), options=[*_OF_THE_RUN, *given.options])
    resolved = _run.configure(given)
    job = pruning_job(resolved, folder)
    view = _run.choose_view(job, quiet=quiet, plain=plain)
    out = folder / "pruned"
    with _run.scrubbed(job.scrubber):
        found = _run.measured(prune_run(job, folder, out, sinks=[view]), out, view)
        data = {"run": str(folder), "folder": str(out), "simulated": job.simulated}
        data |= {"before": found.before, "after": found.score}
        data["lines"] = [line.model_dump() for line in found.lines]
        if note := _note_on_rounds(folder):
            data["note"] = note
        lines = map(job.scrubber.scrub, _pruned_lines(found, out, note, simulated=job.simulated))
        tell(job.scrubber.scrub_json(data), lines, json=json)


def _note_on_rounds(run: Path) -> str:
    """What the figures of a run do not say whose val tasks have taught it; empty for others."""
    if not is_in_rounds(run):
        return ""
    view = read_run(run).view()
    claim = "" if view is None or not view.claim else f" The run's own figure: {view.claim}"
    return (
        "The val tasks of this run have taught its skill in other rounds: the figures tell the lines apart,"
        f" not what the skill is worth.{claim}"
    )


def _pruned_lines(found: PrunedSkill, folder: Path, note: str, *, simulated: bool) -> Iterator[str]:
    if simulated:
        yield "Simulated."
    for line in found.lines:
        text = words.one_line(line.text, LONGEST_LINE)
        yield f"{'out ' if line.removed else 'stays'} {line.val:+.3f} on val  {text}"
        if line.needed:
            yield f"      needed by {words.count(len(line.needed), 'task')}: {listed(line.needed, 5)}"
    out = sum(line.removed for line in found.lines)
    learned = words.count(len(found.lines), "learned line")
    yield f"{out} of {learned} left out: {found.before:.3f} to {found.score:.3f} on val."
    if note:
        yield note
    yield f"Pruned skill: {folder / 'best_skill.md'}"


class RunsGroup(TyperGroup):
    """`runs`, which lists where no command follows. A folder with the name of a command is `./watch`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


add = group(
    "List runs, compare them, and look into them. 'skillopt runs [FOLDER...]' is 'skillopt runs list'.",
    {
        "list": simple(list_runs),
        "show": simple(show),
        "watch": simple(watch),
        "explain": simple(explain),
        "diff": simple(diff),
        "prune": flagged(prune, _PRUNE_KEYS, short=("target",), epilog=EXIT_CODES, config_argument=False),
    },
    cls=RunsGroup,
)
