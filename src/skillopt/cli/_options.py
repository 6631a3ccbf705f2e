"""The options of commands: those that several take, and how a command is added with its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import typer

Add: TypeAlias = Callable[[typer.Typer, str, str], None]
"""Adds a command to the command line, by its name and in its panel."""


def option(flag: str, help: str, metavar: str | None = None, **more: Any) -> Any:
    """An option whose default is not worth showing."""
    return typer.Option(flag, help=help, metavar=metavar, show_default=False, **more)


def argument(metavar: str | None, help: str) -> Any:
    """An argument whose default is not worth showing."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


Json: TypeAlias = Annotated[bool, option("--json", "One JSON object on stdout and nothing else there.")]
NewestRun: TypeAlias = Annotated[
    Path | None,
    argument(
        "RUN",
        "A run folder; a folder with runs below it stands for the newest of them. Left out: the newest below"
        " 'outputs'.",
    ),
]
TakeFlagged: TypeAlias = Annotated[
    list[int] | None,
    option("--take-flagged", "Take the flagged line of this number too; may be repeated.", "N"),
]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress; only the outcome, and warnings.")
]
Plain: TypeAlias = Annotated[
    bool, option("--plain", "Progress as plain lines; the default when stderr is no terminal.")
]

SameModel: TypeAlias = Annotated[
    bool,
    option(
        "--same-model", "The model at this address is the one of an earlier address: go on with its answers."
    ),
]


def simple(command: Callable[..., None], **settings: Any) -> Add:
    """The `add` of a command that takes its own options only."""

    def add(app: typer.Typer, name: str, panel: str) -> None:
        app.command(name, rich_help_panel=panel, **settings)(command)

    return add


def group(help: str, commands: Mapping[str, Add], **settings: Any) -> Add:
    """The `add` of a group of commands."""

    def add(app: typer.Typer, name: str, panel: str) -> None:
        made = typer.Typer(help=help, no_args_is_help=True, **settings)
        made.callback()(lambda: None)  # a single command stays a command of the group
        for word, one in commands.items():
            one(made, word, "")
        app.add_typer(made, name=name, rich_help_panel=panel)

    return add


def with_options(
    command: Callable[..., None],
    name: str,
    options: Sequence[inspect.Parameter],
    made: Callable[[dict[str, Any]], Any],
) -> Callable[..., None]:
    """The command with one parameter spelled out as options; `made` makes its value of those given."""

    def run(**values: Any) -> None:
        found = {one.name: values.pop(one.name) for one in options}
        values[name] = made({word: value for word, value in found.items() if value not in (None, [])})
        command(**values)

    hints = get_type_hints(command, include_extras=True)
    own = [
        one.replace(annotation=_annotated(hints[one.name]), kind=inspect.Parameter.KEYWORD_ONLY)
        for one in inspect.signature(command).parameters.values()
        if one.name != name
    ]
    # typer reads a command's options off its signature.
    run.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
    run.__doc__ = command.__doc__
    return run


def parameter(name: str, kind: Any, told: Any) -> inspect.Parameter:
    """An option as a parameter that need not be given."""
    wanted = Annotated[kind | None, told]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=wanted)


def _annotated(hint: Any) -> Any:
    """The hint itself: before Python 3.11 a default of None wraps it once more, and hides it from typer."""
    parts = get_args(hint) if get_origin(hint) is Union else ()
    return next((part for part in parts if get_origin(part) is Annotated), hint)
