"""`skillopt train`: train a skill."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from skillopt.cli import EXIT_CODES, _options
from skillopt.cli._options import CfgOptions, ConfigArgument, ConfigOption, Json, Plain, Quiet
from skillopt.errors import ConfigError

PANEL, PLACE = "Train and measure", 1


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    _options.register(app, "train", train, panel=PANEL, full=full, epilog=EXIT_CODES)


def train(
    flags: Mapping[str, str],
    config_argument: ConfigArgument = None,
    config: ConfigOption = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="MODEL", help="The same as --target_model, shorter.", show_default=False)
    ] = None,
    optimizer: Annotated[
        str | None, typer.Option("--optimizer", metavar="MODEL", help="The same as --optimizer_model, shorter.", show_default=False)
    ] = None,
    cfg_options: CfgOptions = None,
    json: Json = False,
    quiet: Quiet = False,
    plain: Plain = False,
) -> None:
    """Train a skill. Running the same command again goes on where it stopped.

    Ctrl-C stops cleanly: nothing further is sent, what was sent is waited for and kept. A second Ctrl-C ends at once.
    """
    from skillopt.build import prepare
    from skillopt.cli import _report, _run

    models = _models(flags, target=target, optimizer=optimizer)
    resolved = _run.configure(_options.config_name(config_argument, config), {**flags, **models}, cfg_options)
    job = prepare(resolved)
    trained = _run.train(job, job.folder(Path.cwd()), _run.choose_view(job, quiet=quiet, plain=plain))
    if json:
        _report.print_json(job.scrubber.scrub_json(_report.as_json(trained)))
    else:
        _report.show(trained, quiet=quiet)
    _run.leave(trained)


def _models(flags: Mapping[str, str], **given: str | None) -> dict[str, str]:
    """The models that were named in the short way, as flags."""
    for role, model in given.items():
        if model is not None and f"{role}_model" in flags:
            raise ConfigError(f"--{role} and --{role}_model both name a model. Keep one of them.")
    return {f"{role}_model": model for role, model in given.items() if model is not None}
