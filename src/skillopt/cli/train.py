"""`skillopt train`: train a skill."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer

from skillopt.cli import EXIT_CODES, _options
from skillopt.cli._options import (
    CfgOptions,
    ConfigArgument,
    ConfigOption,
    Json,
    Plain,
    Quiet,
    ShortOptimizer,
    ShortTarget,
)

PANEL, PLACE = "Train and measure", 1


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    _options.register(app, "train", train, panel=PANEL, full=full, epilog=EXIT_CODES)


def train(
    flags: Mapping[str, str],
    config_argument: ConfigArgument = None,
    config: ConfigOption = None,
    target: ShortTarget = None,
    optimizer: ShortOptimizer = None,
    cfg_options: CfgOptions = None,
    json: Json = False,
    quiet: Quiet = False,
    plain: Plain = False,
) -> None:
    """Train a skill. Running the same command again goes on where it stopped.

    Ctrl-C stops cleanly: nothing further is sent, what was sent is waited for and kept. A second Ctrl-C ends
    at once.
    """
    from skillopt.build import prepare
    from skillopt.cli import _report, _run

    named = _options.with_models(flags, target=target, optimizer=optimizer)
    resolved = _run.configure(_options.config_name(config_argument, config), named, cfg_options)
    job = prepare(resolved)
    result = _run.train(job, job.folder(Path.cwd()), _run.choose_view(job, quiet=quiet, plain=plain))
    if json:
        _report.print_json(job.scrubber.scrub_json(_report.as_json(result)))
    else:
        _report.show(result, subject=_run.subject(job), quiet=quiet)
    _run.leave(result)
