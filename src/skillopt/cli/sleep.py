"""`skillopt sleep`: learn from your own sessions at night, and decide in the morning."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from skillopt.aio import run_gently
from skillopt.cli import EXIT_CODES, _sleep
from skillopt.cli._options import Json, Plain, Quiet
from skillopt.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from skillopt.changes.adoption import Adoption, Done
    from skillopt.night import NightContext
    from skillopt.night.timer import Schedule, Timer

PANEL, PLACE = "Train and measure", 6

Id: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="[PROPOSAL]",
        help="Id of a proposal; unset: the newest of this project that is open.",
        show_default=False,
    ),
]
Skills: TypeAlias = Annotated[
    list[str] | None, typer.Option("--skill", help="Only this skill; may be repeated.", show_default=False)
]
TasksPath: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--tasks-file",
        help="Use the tasks of this file instead of sessions; `harvest --output` writes one.",
        show_default=False,
    ),
]
Edits: TypeAlias = Annotated[
    list[int] | None,
    typer.Option("--edit", help="Only the edit of this number; may be repeated.", show_default=False),
]


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the group; its many options are only made when it is wanted."""
    group = typer.Typer(
        help="Learn from your own sessions at night, and decide in the morning.",
        no_args_is_help=True,
        epilog=EXIT_CODES,
    )
    group.callback()(_group)
    if full:
        for name, command in COMMANDS.items():
            _sleep.register(group, name, command)
    app.add_typer(group, name="sleep", rich_help_panel=PANEL)


def harvest(
    flags: Mapping[str, Any],
    since: Annotated[
        str | None,
        typer.Option("--since", help="From when on: 2026-11-14, 12h, 7d; UTC.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", help="Write the tasks found to this file, for you to read.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Read the sessions of your agents and say what was read, kept and dropped. Nothing is sent, and nothing
    written without --output.
    """
    from skillopt.cli import _report, _sleep_show
    from skillopt.night import gather, read_sessions, since_of

    around = _sleep.surroundings(flags)
    now = _sleep.utc_now()
    start = since_of(around.settings, now, None) if since is None else _sleep.moment(since, now)
    if output is None:
        found, sessions = read_sessions(around, start)
        told = _sleep_show.harvest_json(found, sessions, start)
    else:
        gathered = asyncio.run(gather(around, start))
        told = _sleep_show.harvest_json(gathered.harvest, gathered.sessions, start)
        told["tasks"] = len(gathered.mined.tasks)
        told["output"] = _sleep.write_output(output, around, gathered) if gathered.mined.tasks else None
    if json:
        _report.print_json(told)
    else:
        _sleep_show.harvest(told)


def dry_run(flags: Mapping[str, Any], tasks_file: TasksPath = None, json: Json = False) -> None:
    """Harvest and mine, and say what a night would work on and cost. Nothing is written or sent."""
    from skillopt.cli import _report, _sleep_show
    from skillopt.night import preview, roles_of

    around = _sleep.surroundings(flags, tasks_file)
    seen = asyncio.run(
        preview(around, roles_of(around.settings), environ=_sleep.environ(), now=_sleep.utc_now())
    )
    told = _sleep_show.preview_json(seen)
    if json:
        _report.print_json(told)
    else:
        _sleep_show.preview(told)


def run(
    flags: Mapping[str, Any],
    tasks_file: TasksPath = None,
    reviewed: Annotated[
        bool, typer.Option("--reviewed", help="You have read the file of tasks; it need not say so itself.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Leave a night that is open and begin anew.")
    ] = False,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log", help="Add what is printed to this file, where a scheduler cannot.", show_default=False
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    plain: Plain = False,
) -> None:
    """Run a night: harvest, mine, train behind the gate, stage a proposal. The same command goes on with a
    night that was stopped.

    No live file changes; `skillopt sleep adopt` does that.
    """
    from skillopt.cli import _report, _sleep_show
    from skillopt.night import REMEDY, preview, roles_of, run_night

    if log is not None:
        _sleep.print_to(log)
    around = _sleep.surroundings(flags, tasks_file)
    roles = roles_of(around.settings)
    if roles is None:
        if not json:
            seen = asyncio.run(preview(around, None, environ=_sleep.environ(), now=_sleep.utc_now()))
            _sleep_show.preview({**_sleep_show.preview_json(seen), "remedy": ""})  # told once, by the error
        raise ConfigError(REMEDY)
    if around.tasks is not None and not (reviewed or around.tasks.reviewed):
        raise UsageError(
            f"{tasks_file} was not reviewed, and its tasks would be sent to {', '.join(roles.named())}. Read"
            ' it, then set "reviewed": true in it, or say --reviewed.'
        )
    onlooker = _sleep.Onlooker(quiet=quiet, plain=plain)
    ended = run_gently(
        run_night(
            around, roles, environ=_sleep.environ(), now=_sleep.utc_now, observer=onlooker, restart=restart
        )
    )
    told = _sleep_show.night_json(ended, around)
    if json:
        _report.print_json(told)
    else:
        _sleep_show.night(told)


def status(flags: Mapping[str, Any], json: Json = False) -> None:
    """Say how the nights of the project ended, where every proposal stands, and what is scheduled."""
    from skillopt.cli import _report, _sleep_show

    around = _sleep.surroundings(flags)
    told = _sleep_show.status_json(around, _adoption(around).status(), *_schedules(around))
    if json:
        _report.print_json(told)
    else:
        _sleep_show.status(told)


def diff(flags: Mapping[str, Any], proposal: Id = None, skill: Skills = None, edit: Edits = None) -> None:
    """Show what adopting would change."""
    from skillopt.cli import _sleep_show

    adoption = _adoption(_sleep.surroundings(flags))
    _sleep_show.diff(adoption.diff(proposal, targets=skill or (), edits=edit or ()))


def adopt(
    flags: Mapping[str, Any],
    proposal: Id = None,
    skill: Skills = None,
    edit: Edits = None,
    json: Json = False,
) -> None:
    """Write the changes of a proposal to the live files: all that are open, those of a skill, or single
    edits.
    """
    _told(_adoption(_sleep.surroundings(flags)).adopt(proposal, targets=skill or (), edits=edit or ()), json)


def discard(
    flags: Mapping[str, Any],
    proposal: Id = None,
    skill: Skills = None,
    edit: Edits = None,
    json: Json = False,
) -> None:
    """Decide against the changes of a proposal; no live file is touched, and the next night is told."""
    adoption = _adoption(_sleep.surroundings(flags))
    _told(adoption.discard(proposal, targets=skill or (), edits=edit or ()), json)


def undo(
    flags: Mapping[str, Any],
    proposal: Id = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also put a file back that was edited since; its text is kept.")
    ] = False,
    json: Json = False,
) -> None:
    """Take the last adoption back, byte for byte."""
    _told(_adoption(_sleep.surroundings(flags)).undo(proposal, force=force), json)


def schedule(
    flags: Mapping[str, Any],
    hour: Annotated[int, typer.Option("--hour", help="Hour of the day, 0 to 23.")] = 3,
    minute: Annotated[int, typer.Option("--minute", help="Minute of the hour.")] = 17,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            help="systemd, cron, launchd or task_scheduler; unset: the best here.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run a night of this project every night, with exactly the options given here. Nothing is
    adopted by it.
    """
    from skillopt.night import roles_of
    from skillopt.night.timer import Schedule, schedule_id

    around = _sleep.surroundings(flags)
    if roles_of(around.settings) is None:
        typer.echo(
            "warning: no model is configured, so the nights will say what they found and stop; see `skillopt"
            " sleep dry-run`",
            err=True,
        )
    arguments = _sleep.as_arguments({**flags, "invoked_project": str(around.project)})
    timer = _timers(around, scheduler)[0]
    log = around.home.project(around.project).log
    # The Task Scheduler can neither redirect output nor set variables; it knows those of the user.
    is_bare = timer.name == "task_scheduler"
    entry = Schedule(
        id=schedule_id(around.project),
        hour=hour,
        minute=minute,
        command=(*_sleep.program(), "run", "--plain", *([f"--log={log}"] if is_bare else []), *arguments),
        folder=around.project,
        log=None if is_bare else log,
        environment=() if is_bare else _sleep.places_of(around.homes.env),
    )
    timer.install(entry)
    typer.echo(f"Every night at {entry.time}, by {timer.name}: {' '.join(entry.command)}")
    typer.echo(f"Log: {log}. Nothing is adopted by it: see `skillopt sleep status` in the morning.")
    if entry.environment:
        typer.echo(f"Kept of your shell's variables: {', '.join(name for name, _ in entry.environment)}.")
    typer.echo("A scheduler knows no others of your shell: keys it needs go into ~/.skillopt-sleep/.env.")


def unschedule(
    flags: Mapping[str, Any],
    every: Annotated[bool, typer.Option("--all", help="The nights of all projects.")] = False,
) -> None:
    """Take the schedule of this project out again; nobody else's entry is touched."""
    from skillopt.night.timer import schedule_id
    from skillopt.night.timer import unschedule as take_out

    around = _sleep.surroundings(flags)
    gone = [
        entry
        for timer in _timers(around, None)
        for entry in take_out(timer, None if every else schedule_id(around.project))
    ]
    for entry in gone:
        typer.echo(f"No longer scheduled: {entry.folder} at {entry.time}.")
    if not gone:
        typer.echo("Nothing of ours was scheduled.")


def clean(
    flags: Mapping[str, Any],
    older_than: Annotated[
        str, typer.Option("--older-than", help="How long ago it was decided or ended: 90d, 12h, or a date.")
    ] = "90d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be taken away.")] = False,
    json: Json = False,
) -> None:
    """Take away what old nights left: decided proposals and the run folders of nights that ended, of all
    projects.

    Nothing that is open goes, and the last adoption of each file stays, so that it can be undone.
    """
    from skillopt.cli import _report, _sleep_show
    from skillopt.night import clean as take_away

    around = _sleep.surroundings(flags)
    done = take_away(around, before=_sleep.moment(older_than, _sleep.utc_now(), "--older-than"), dry=dry_run)
    told = _sleep_show.cleaned_json(done, dry=dry_run)
    if json:
        _report.print_json(told)
    else:
        _sleep_show.cleaned(told)


COMMANDS: Mapping[str, Callable[..., None]] = {
    "harvest": harvest,
    "dry-run": dry_run,
    "run": run,
    "status": status,
    "diff": diff,
    "adopt": adopt,
    "discard": discard,
    "undo": undo,
    "schedule": schedule,
    "unschedule": unschedule,
    "clean": clean,
}


def _adoption(around: NightContext) -> Adoption:
    from skillopt.changes.adoption import Adoption

    return Adoption(
        store=around.home.store, roots=around.roots(), now=_sleep.utc_now, project=str(around.project)
    )


def _told(done: Done, json: bool) -> None:
    from skillopt.cli import _report, _sleep_show

    if json:
        _report.print_json(_sleep_show.done_json(done))
    else:
        _sleep_show.done(done)


def _timers(around: NightContext, wanted: str | None) -> list[Timer]:
    from skillopt.night.timer import available, timer_for

    kinds = (wanted,) if wanted is not None else available(_sleep.ask_system, sys.platform)
    if not kinds:
        raise UsageError(
            "No scheduler answers here: neither `systemctl --user` nor `crontab`. Start `skillopt sleep run`"
            " by your own means."
        )
    uid = os.getuid() if hasattr(os, "getuid") else 0
    return [
        timer_for(kind, _sleep.ask_system, home=around.homes.home, state=around.home.folder, uid=uid)
        for kind in kinds
    ]


def _schedules(around: NightContext) -> tuple[list[Schedule], str]:
    """Our entries, and why they could not be read."""
    try:
        return [entry for timer in _timers(around, None) for entry in timer.entries()], ""
    except UsageError as error:
        return [], str(error)


def _group() -> None:
    """Learn from your own sessions at night, and decide in the morning."""
