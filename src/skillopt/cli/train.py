"""`skillopt train`: train a skill. Running the same command again goes on where it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from skillopt.cli import EXIT_CODES
from skillopt.cli._console import echo, print_json
from skillopt.cli._flags import BRIEF, Given, flagged
from skillopt.cli._options import Json, Plain, Quiet, SameModel, option
from skillopt.errors import BudgetSpent, UnknownName, UsageError

PANEL, PLACE = "Train and measure", 1
_BRIEF = BRIEF | {"targets", "num_epochs", "strategy", "part", "prune", "seed", "eval_test"}
PRESETS: Mapping[str, Mapping[str, str]] = {
    "quick": {
        "train.num_epochs": "1",
        "train.folds": "1",
        "train.proof.depth": "2",
        "train.proof.control": "10",
        "evaluation.repeats": "1",
    },
    "standard": {},
    "thorough": {
        "train.num_epochs": "6",
        "train.proof.rows": "3",
        "evaluation.repeats": "3",
        "gate.policy": "confirm",
        "optimizer.prune": "true",
    },
}
"""Settings by effort; `docs/your-own-task.md#how-much-a-run-takes` says why each."""
SAME = "If the same model answers at both, --same-model goes on with it."
Effort: TypeAlias = Annotated[
    str | None,
    option("--effort", "quick, standard or thorough: several settings in a word.", "|".join(PRESETS)),
]


def train(
    given: Given,
    source: Annotated[
        Path | None,
        option(
            "--from", "A run to go on from in a new folder: its best skill, settings and rollouts.", "RUN"
        ),
    ] = None,
    effort: Effort = None,
    same_model: SameModel = False,
    json: Json = False,
    quiet: Quiet = False,
    plain: Plain = False,
) -> None:
    """Train a skill. Running the same command again goes on where it stopped, as does 'skillopt train RUN'.

    Ctrl-C sends nothing further; what was sent is waited for and kept. A second Ctrl-C ends at once.
    """
    # here, so that the help, which people ask for most, comes without the engine
    from skillopt.cli import _run
    from skillopt.process.waiting import run_gently
    from skillopt.redact import Scrubber
    from skillopt.run import prepare_training
    from skillopt.run.addresses import asked_by, at_kept, kept_addresses, stopped_elsewhere
    from skillopt.run.continuing import continued, corrected
    from skillopt.runs.log import EARLIER
    from skillopt.runs.reader import find_run, is_part

    source = None if source is None else find_run(source)
    if source is not None and given.config is None:
        given = replace(given, config=str(source))
        if "out_root" not in given.flags:
            given = given.with_flag("out_root", "")
    elif given.run is not None and "out_root" not in given.flags:
        if is_part(given.run) and given.run.parent.name != EARLIER:
            whole = given.run.parent.parent
            raise UsageError(
                f"{given.run} is a part of a run, which goes on as a whole: skillopt train {whole}"
            )
        given = given.with_flag("out_root", str(given.run))
    resolved = _run.configure(with_effort(given, effort))
    if resolved.config.train.part == "description":
        from skillopt.run.description import draft_queries, wants_draft

        if wants_draft(resolved.config):
            with _run.scrubbed(Scrubber(resolved.secrets)):
                run_gently(draft_queries(resolved, Path.cwd() / "outputs" / "drafted_queries"))
    job = prepare_training(resolved)
    if source is not None:
        job = continued(job, source)
    folder = job.folder(Path.cwd())
    runs = [] if source is None else [source]
    kept = kept_addresses(asked_by(job), folder, job.identity(), runs=runs, same_model=same_model)
    job = at_kept(job, kept)
    folder = job.folder(Path.cwd())
    for run in stopped_elsewhere(asked_by(job), folder, job.identity()):
        echo(f"note: {run} is this run at another address, stopped. {SAME}", err=True)
    job, correction = corrected(job, folder)
    if correction:
        echo(correction, err=True)
    said = ""
    if job.division.folds and not quiet:  # many small runs
        from skillopt.run.estimation import estimate as estimated

        said = f"{estimated(job).in_words()}; 'skillopt estimate' has the parts."
    view = _run.choose_view(job, quiet=quiet, plain=plain)
    result = _run.train(job, folder, view, said)
    if json:
        print_json(job.scrubber.scrub_json(_run.as_json(result)))
    else:
        _run.show(job, result, quiet=quiet)
    if result.status == "budget":
        raise typer.Exit(BudgetSpent.exit_code)


add = flagged(train, short=("target", "optimizer"), epilog=EXIT_CODES, brief=_BRIEF)


def with_effort(given: Given, effort: str | None) -> Given:
    """The same with the settings of a preset, where they are not said by option; flags count more anyway."""
    if effort is None:
        return given
    if effort not in PRESETS:
        raise UnknownName("effort", effort, PRESETS)
    said = {one.partition("=")[0].strip() for one in given.options}
    preset = [f"{key}={value}" for key, value in PRESETS[effort].items() if key not in said]
    return replace(given, options=[*preset, *given.options])
