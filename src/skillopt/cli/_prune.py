"""`skillopt runs prune`: leave out learned lines that no task needs, and say what each line is worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from skillopt.cli import EXIT_CODES, _run
from skillopt.cli._console import tell
from skillopt.cli._flags import Given, flagged
from skillopt.cli._options import Json, NewestRun, Plain, Quiet
from skillopt.files import check_links_stay
from skillopt.run.pruning import prune_run, pruning_job
from skillopt.runs import words
from skillopt.runs.reader import find_run, is_in_rounds, read_run
from skillopt.tasks.splits import listed
from skillopt.train.pruning import PrunedSkill

_KEYS = ("model.", "env.", "budget")
_OF_THE_RUN = tuple(
    f"{key}="
    for key in (
        *("budget.usd", "budget.tokens", "budget.calls", "budget.minutes"),
        *("env.out_root", "tracking.use", "cache.path"),
    )
)
"""What the run spent and wrote to is its own: none of its settings here."""
_LONGEST = 100


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
        told = {"run": str(folder), "folder": str(out), "simulated": job.simulated}
        told |= {"before": found.before, "after": found.score}
        told["lines"] = [line.model_dump() for line in found.lines]
        if note := _note(folder):
            told["note"] = note
        lines = map(job.scrubber.scrub, _lines(found, out, note, simulated=job.simulated))
        tell(job.scrubber.scrub_json(told), lines, json=json)


add = flagged(prune, _KEYS, short=("target",), epilog=EXIT_CODES, config_argument=False)


def _note(run: Path) -> str:
    """What the figures of a run do not say whose val tasks have taught it; empty for others."""
    if not is_in_rounds(run):
        return ""
    view = read_run(run).view()
    claim = "" if view is None or not view.claim else f" The run's own figure: {view.claim}"
    return (
        "The val tasks of this run have taught its skill in other rounds: the figures tell the lines apart,"
        f" not what the skill is worth.{claim}"
    )


def _lines(found: PrunedSkill, folder: Path, note: str, *, simulated: bool) -> Iterator[str]:
    if simulated:
        yield "Simulated."
    for line in found.lines:
        text = words.one_line(line.text, _LONGEST)
        yield f"{'out ' if line.removed else 'stays'} {line.val:+.3f} on val  {text}"
        if line.needed:
            yield f"      needed by {words.count(len(line.needed), 'task')}: {listed(line.needed, 5)}"
    out = sum(line.removed for line in found.lines)
    learned = words.count(len(found.lines), "learned line")
    yield f"{out} of {learned} left out: {found.before:.3f} to {found.score:.3f} on val."
    if note:
        yield note
    yield f"Pruned skill: {folder / 'best_skill.md'}"
