"""`skillopt sleep`: learn from your own sessions at night, and decide in the morning."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from skillopt.cli import EXIT_CODES, _sleep
from skillopt.cli import _sleep_show as show
from skillopt.cli._console import echo, tell
from skillopt.cli._morning import asked, at_terminal, morning
from skillopt.cli._options import Json, Plain, Quiet, option
from skillopt.errors import ConfigError, UsageError
from skillopt.process.waiting import run_gently
from skillopt_sleep import (
    REMEDY,
    NightContext,
    check_night,
    find_tasks,
    preview,
    project_id,
    read_sessions,
    roles_of,
    run_night,
    since_of,
)
from skillopt_sleep import clean as take_away
from skillopt_sleep.adoption import Adoption, AdoptionResult
from skillopt_sleep.notices import give_notices
from skillopt_sleep.schedule import PRINTED, Schedule
from skillopt_sleep.schedulers import Scheduler, available, scheduler_for
from skillopt_sleep.schedulers import unschedule as take_out
from skillopt_sleep.tasks_file import check_new, write_tasks

PANEL, PLACE = "Train and measure", 6
HELP = "Learn from your own sessions at night, and decide in the morning."

Flags: TypeAlias = Mapping[str, Any]
"""The common options that were given, by setting."""
Id: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="[PROPOSAL]",
        help="Id of a proposal; unset: the newest of this project that is open.",
        show_default=False,
    ),
]
Skills: TypeAlias = Annotated[list[str] | None, option("--skill", "Only this skill; may be repeated.")]
TasksPath: TypeAlias = Annotated[
    Path | None,
    option("--tasks-file", "Use the tasks of this file instead of sessions; `harvest --output` writes one."),
]
Edits: TypeAlias = Annotated[
    list[int] | None, option("--edit", "Only the edit of this number; may be repeated.")
]


def add(app: typer.Typer, name: str, panel: str) -> None:
    """Add the group."""
    group = typer.Typer(help=HELP, epilog=EXIT_CODES)
    group.callback(invoke_without_command=True)(_group)
    for word, command in COMMANDS.items():
        _sleep.register(group, word, command)
    app.add_typer(group, name=name, rich_help_panel=panel)


def harvest(
    flags: Flags,
    since: Annotated[str | None, option("--since", "From when on: 2026-11-14, 12h, 7d; UTC.")] = None,
    output: Annotated[
        Path | None, option("--output", "Write the tasks found to this file, for you to read.")
    ] = None,
    json: Json = False,
) -> None:
    """Read the sessions of your agents and say what was read, kept and dropped. Nothing is sent, and nothing
    written without --output, for which a model that you name reads the sessions first, as in a night.
    """
    context = _sleep.context_of(flags)
    now = _sleep.utc_now()
    start = since_of(context.settings, now, None) if since is None else _sleep.moment(since, now)
    if output is None:
        shown = show.harvest_json(*read_sessions(context, start), start)
    else:
        check_new(output)
        found = run_gently(find_tasks(context, roles_of(context.settings), start, environ=_sleep.environ()))
        shown = show.harvest_json(found.harvest, found.sessions, start)
        tasks = found.tasks
        shown |= {"tasks": len(tasks), "output": str(output.absolute()) if tasks else None}
        shown["notes"] += found.notes
        if tasks:
            write_tasks(
                output,
                tasks,
                project=str(context.project),
                sources=",".join(sorted({session.source for session in found.sessions})),
                sessions=len(found.sessions),
                target=str(context.settings.target_skill_path or ""),
            )
    tell(shown, show.harvest(shown, output), json=json)


def dry_run(flags: Flags, tasks_file: TasksPath = None, json: Json = False) -> None:
    """Harvest and mine, and say what a night would work on and cost. Nothing is written or sent."""
    context = _sleep.context_of(flags, tasks_file)
    roles = roles_of(context.settings)
    seen = asyncio.run(preview(context, roles, environ=_sleep.environ(), now=_sleep.utc_now()))
    shown = show.preview_json(seen)
    tell(shown, show.preview(shown), json=json)


def run(
    flags: Flags,
    tasks_file: TasksPath = None,
    reviewed: Annotated[
        bool, option("--reviewed", "You have read the file of tasks; it need not say so itself.")
    ] = False,
    restart: Annotated[
        bool, option("--restart", "Leave a night that is open and begin anew, also without news.")
    ] = False,
    log: Annotated[
        Path | None, option("--log", "Add what is printed to this file, where a scheduler cannot.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    plain: Plain = False,
) -> None:
    """Run a night: harvest, mine, train behind the gate, stage a proposal. The same command goes on with a
    night that was stopped.

    No live file changes; `skillopt sleep adopt` does that.
    """
    if log is not None:
        _sleep.print_to(log)
    context = _sleep.context_of(flags, tasks_file)
    roles, environ = roles_of(context.settings), _sleep.environ()
    if roles is None:
        if not json:
            seen = asyncio.run(preview(context, None, environ=environ, now=_sleep.utc_now()))
            for line in show.preview({**show.preview_json(seen), "remedy": ""}):  # told once, by the error
                echo(line)
        raise ConfigError(REMEDY)
    if context.tasks is not None and not (reviewed or context.tasks.reviewed):
        raise UsageError(
            f"{tasks_file} was not reviewed, and its tasks would be sent to {', '.join(roles.named())}. Read"
            ' it, then set "reviewed": true in it, or say --reviewed.'
        )
    view = _sleep.NightView(quiet=quiet, plain=plain)
    ended = run_gently(
        run_night(context, roles, environ=environ, now=_sleep.utc_now, observer=view, restart=restart)
    )
    shown = show.night_json(ended, context, give_notices(context, ended, environ))
    tell(shown, show.night(shown), json=json)


def status(flags: Flags, json: Json = False) -> None:
    """Say how the nights of the project ended, where every proposal stands, and what is scheduled."""
    context = _sleep.context_of(flags)
    schedules: list[Schedule] = []
    trouble = ""
    try:
        for kind in _kinds(None):
            if kind in PRINTED:
                command = PRINTED[kind].how_to_look(project_id(context.project))
                trouble = f"what you gave to {kind} is not read; ask it: {command}"
            else:
                schedules += _scheduler(kind, context).entries()
    except UsageError as error:
        trouble = str(error)
    shown = show.status_json(context, context.adoption(_sleep.utc_now).status(), schedules, trouble)
    tell(shown, show.status(shown), json=json)


def diff(flags: Flags, proposal: Id = None, skill: Skills = None, edit: Edits = None) -> None:
    """Show what adopting would change."""
    adoption, targets, edits = _adoption(flags), skill or (), edit or ()
    show.findings(adoption.findings(proposal, targets=targets, edits=edits))
    show.diff(adoption.diff(proposal, targets=targets, edits=edits))


def adopt(
    flags: Flags,
    proposal: Id = None,
    skill: Skills = None,
    edit: Edits = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask: take only what is shown to help.")
    ] = False,
    json: Json = False,
) -> None:
    """Write the changes of a proposal to the live files: what held-out tasks show to help and is not flagged,
    and what you name by its number. At a terminal you are asked about what is left and not flagged.
    """
    adoption, targets, edits = _adoption(flags), skill or (), edit or []
    if at_terminal() and not (edits or yes or json):
        edits = asked(adoption, proposal, targets)
        if not edits:
            echo("Nothing was adopted.")
            return
    _decided(adoption.adopt(proposal, targets=targets, edits=edits), json)


def discard(
    flags: Flags, proposal: Id = None, skill: Skills = None, edit: Edits = None, json: Json = False
) -> None:
    """Decide against the changes of a proposal; no live file is touched, and the next night is told."""
    _decided(_adoption(flags).discard(proposal, targets=skill or (), edits=edit or ()), json)


def undo(
    flags: Flags,
    proposal: Id = None,
    force: Annotated[
        bool, option("--force", "Also put a file back that was edited since; its text is kept.")
    ] = False,
    json: Json = False,
) -> None:
    """Take the last adoption back, byte for byte."""
    _decided(_adoption(flags).undo(proposal, force=force), json)


def schedule(
    flags: Flags,
    hour: Annotated[int, typer.Option("--hour", help="Hour of the day, 0 to 23.")] = 3,
    minute: Annotated[int, typer.Option("--minute", help="Minute of the hour.")] = 17,
    scheduler: Annotated[
        str | None, option("--scheduler", "systemd, cron, launchd or task_scheduler; unset: the best here.")
    ] = None,
) -> None:
    """Run a night of this project every night, with exactly the options given here. Nothing is
    adopted by it.

    What would stop such a night is said now: a scheduler knows the keys of ~/.skillopt-sleep/.env alone.
    systemd and cron are set up; for launchd and the Task Scheduler the definition is printed with the command
    to run.
    """
    context = _sleep.context_of(flags)
    if (roles := roles_of(context.settings)) is None:
        raise ConfigError(REMEDY)
    try:
        check_night(context, roles, _sleep.scheduled_environ())
    except ConfigError as error:
        raise ConfigError(
            f"{error}. A scheduled night finds keys in ~/.skillopt-sleep/.env alone."
        ) from error
    kind, log = _kinds(scheduler)[0], context.kept.log
    # The Task Scheduler can neither redirect output nor set variables; it knows those of the user.
    is_bare = kind == "task_scheduler"
    arguments = _sleep.as_arguments({**flags, "invoked_project": str(context.project)})
    entry = Schedule(
        id=project_id(context.project),
        hour=hour,
        minute=minute,
        command=(*_sleep.program(), "run", "--plain", *([f"--log={log}"] if is_bare else []), *arguments),
        folder=context.project,
        log=None if is_bare else log,
        environment=() if is_bare else _sleep.places_of(context.homes.env),
    )
    if kind in PRINTED:
        echo(PRINTED[kind].how_to_install(entry, context.homes.home))
    else:
        _scheduler(kind, context).install(entry)
        echo(f"Every night at {entry.time}, by {kind}: {' '.join(entry.command)}")
    echo(f"Log: {log}. Nothing is adopted by it: see `skillopt sleep status` in the morning.")
    if entry.environment:
        echo(f"Kept of your shell's variables: {', '.join(name for name, _ in entry.environment)}.")
    echo("A scheduler knows no others of your shell: keys it needs go into ~/.skillopt-sleep/.env.")


def unschedule(
    flags: Flags, every: Annotated[bool, option("--all", "The nights of all projects.")] = False
) -> None:
    """Take the schedule of this project out again; nobody else's entry is touched."""
    context = _sleep.context_of(flags)
    gone: list[Schedule] = []
    for kind in _kinds(None):
        if kind in PRINTED:
            projects = context.home.projects() if every else [context.project]
            for project in projects:
                echo(PRINTED[kind].how_to_remove(project_id(project), context.homes.home))
            return
        gone += take_out(_scheduler(kind, context), None if every else project_id(context.project))
    for entry in gone:
        echo(f"No longer scheduled: {entry.folder} at {entry.time}.")
    if not gone:
        echo("Nothing of ours was scheduled.")


def clean(
    flags: Flags,
    older_than: Annotated[
        str, typer.Option("--older-than", help="How long ago it was decided or ended: 90d, 12h, or a date.")
    ] = "90d",
    dry_run: Annotated[bool, option("--dry-run", "Only say what would be taken away.")] = False,
    json: Json = False,
) -> None:
    """Take away what old nights left: decided proposals and the run folders of nights that ended, of all
    projects.

    Nothing that is open goes, and the last adoption of each file stays, so that it can be undone.
    """
    before = _sleep.moment(older_than, _sleep.utc_now(), "--older-than")
    done = take_away(_sleep.context_of(flags), before=before, dry=dry_run)
    shown = show.cleaned_json(done, dry=dry_run)
    tell(shown, show.cleaned(shown), json=json)


_ALL = (harvest, dry_run, run, status, diff, adopt, discard, undo, schedule, unschedule, clean)
COMMANDS: Mapping[str, Callable[..., None]] = {one.__name__.replace("_", "-"): one for one in _ALL}


def _group(context: typer.Context) -> None:
    """Learn from your own sessions at night, and decide in the morning.

    Without a command: what waits for your decision.
    """
    if context.invoked_subcommand is None:
        morning()


def _decided(done: AdoptionResult, json: bool) -> None:
    shown = show.done_json(done)
    tell(shown, show.done(shown), json=json)


def _adoption(flags: Flags) -> Adoption:
    return _sleep.context_of(flags).adoption(_sleep.utc_now)


def _kinds(wanted: str | None) -> tuple[str, ...]:
    """The scheduler that was named, or those that work here, the best first."""
    kinds = (wanted,) if wanted is not None else available(_sleep.run_program, sys.platform)
    if not kinds:
        raise UsageError(
            "No scheduler answers here: neither `systemctl --user` nor `crontab`. Start `skillopt sleep run`"
            " by your own means."
        )
    return kinds


def _scheduler(kind: str, context: NightContext) -> Scheduler:
    return scheduler_for(kind, _sleep.run_program, context.homes.home)
