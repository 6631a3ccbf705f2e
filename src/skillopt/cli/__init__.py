"""The command line, one file a command; here, and nowhere else, an error becomes a sentence and an exit code.

A command's file has a docstring that says what it does, `PANEL, PLACE` (where the overview shows it), and
`add`. It is imported only when its command is wanted; the overview is read off the text of the files.
"""

from __future__ import annotations

import ast
import contextlib
import errno
import importlib
import pkgutil
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from skillopt.cli._console import echo, guard_streams, lost_output, os_trouble
from skillopt.errors import Interrupted, MachineFailed, SkillOptError, UsageError, stopped_once_paid

EXIT_CODES = (
    "Exit codes: 0 finished · 1 internal error · 2 bad input, nothing was paid · 3 stopped by an outage, by"
    " your own scorer or agent, by unusable replies or by bad input that showed after calls were paid: what"
    " was paid is kept, run the same command again to go on · 4 the budget was spent before the plan ended:"
    " the best skill so far is exported, raise the budget and run again · 5 questions by hand wait for"
    " answers, or drafted queries for a review: do that and run again · 130 interrupted, run the same command"
    " again to go on."
)
_INTERRUPTED = "stopped: interrupted. What was paid is kept; run the same command again to go on."
_OTHER_NAMES = {
    "explain": "runs explain",
    "diff": "runs diff",
    "prune": "runs prune",
    "replay": "report --replay",
    "cache": "config cache",
    "list": "config list",
    "data": "config data",
    "noise": "estimate --noise",
    "undo": "adopt --undo",
    "export": "adopt RUN --to AGENT",
    "run": "train",
    "optimize": "train",
    "resume": "train",
    "show": "runs show",
    "watch": "runs watch",
    "status": "runs",
    "test": "eval --split test",
    "help": "--help",
}
"""Names that are none here, those of earlier commands among them, and what is written instead."""
PANELS = ("Train and measure", "Look at runs", "Look things up")


def main(arguments: Sequence[str] | None = None) -> None:
    """The program `skillopt`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    wanted = next((argument for argument in given if not argument.startswith("-")), None)
    guard_streams()
    try:
        with _signals_as_ctrl_c():
            app(wanted)(args=given, prog_name="skillopt")
    except KeyboardInterrupt:  # before the command began
        echo(_INTERRUPTED, err=True)
        raise SystemExit(Interrupted.exit_code) from None
    except SystemExit as ended:
        sys.stdout.flush()
        if not ended.code and (why := lost_output()):
            echo(f"error: the output could not be written: {why}.", err=True)
            raise SystemExit(1) from None
        raise


def train_main() -> None:
    """The program `skillopt-train`, the same as `skillopt train`."""
    main(["train", *sys.argv[1:]])


def eval_main() -> None:
    """The program `skillopt-eval`, the same as `skillopt eval`."""
    main(["eval", *sys.argv[1:]])


def app(wanted: str | None = None) -> typer.Typer:
    """The whole command line. Only the `wanted` command is loaded; of the others there is name and help."""
    door = typer.Typer(
        cls=_Door,
        name="skillopt",
        help="Train the skill of an agent - the Markdown document it loads before it works - with the model"
        " frozen.",
        epilog=f"{EXIT_CODES} Of check: 6 worse · 7 cannot tell.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    door.callback()(_door)
    for name, command in _commands().items():
        if name == wanted:
            importlib.import_module(f"{__name__}.{name}").add(door, name, command.panel)
        else:
            door.command(name, help=command.help, rich_help_panel=command.panel)(_not_loaded)
    return door


@contextlib.contextmanager
def _signals_as_ctrl_c() -> Iterator[None]:
    """SIGTERM and a lost terminal end a command as Ctrl-C does, also before a run is open and after it is
    closed. Under `nohup` a lost terminal stays ignored.
    """
    numbers = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]  # Windows has no SIGHUP
    is_main = threading.current_thread() is threading.main_thread()
    ours = [number for number in numbers if number and is_main and signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


class _Door(TyperGroup):
    """Every command runs in here."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in _OTHER_NAMES:
            line = _OTHER_NAMES[args[0]]
            if line.islower():  # nothing is left for the person to fill in
                line = shlex.join([*line.split(), *args[1:]])
            echo(f"error: There is no command {args[0]!r}: write 'skillopt {line}'.", err=True)
            raise typer.Exit(2)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            with stopped_once_paid():
                return super().invoke(ctx)
        except SkillOptError as error:
            echo(f"{'stopped' if error.exit_code > UsageError.exit_code else 'error'}: {error}", err=True)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            echo(_INTERRUPTED, err=True)
            raise typer.Exit(Interrupted.exit_code) from None
        except OSError as error:
            echo(f"error: {os_trouble(error)}.", err=True)
            is_bad_input = error.errno == errno.ENAMETOOLONG
            raise typer.Exit((UsageError if is_bad_input else MachineFailed).exit_code) from None


def _print_version(wanted: bool) -> None:
    if wanted:
        from skillopt import __version__

        echo(f"skillopt {__version__}")
        raise typer.Exit


def _door(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """What stands before a command."""


def _not_loaded() -> None:
    """Stands for a command that is not wanted."""


class _Outline(NamedTuple):
    """A command as the overview shows it."""

    panel: str
    place: int
    help: str


@cache
def _commands() -> Mapping[str, _Outline]:
    names = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    found = {name: _outline(files(__name__).joinpath(f"{name}.py").read_text("utf-8")) for name in names}
    return dict(sorted(found.items(), key=lambda item: (PANELS.index(item[1].panel), item[1].place)))


def _outline(source: str) -> _Outline:
    """Read off the text: parsing all files would take longer than everything else of the overview."""
    text = " ".join(source.split('"""', 2)[1].split()).partition(": ")[2]
    panel, place = ast.literal_eval(source.split("\nPANEL, PLACE = ", 1)[1].partition("\n")[0])
    return _Outline(panel=panel, place=place, help=text[:1].upper() + text[1:])
