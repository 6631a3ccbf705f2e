"""Decides which options a command takes: one for every public configuration flag, made from the
configuration's own schema.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from skillopt.errors import ConfigError

if TYPE_CHECKING:
    from skillopt.config import Flag

_LIST_FLAG = ("--cfg-options", "--cfg_options")
_EITHER_SPELLING = {"token_normalize_func": lambda name: name.replace("-", "_")}
"""`--batch-size` and `--batch_size` are one option."""
_PANELS = {
    "model": "Models",
    "budget": "Models",
    "train": "Training",
    "gradient": "Training",
    "optimizer": "Training",
    "evaluation": "Gate and test",
    "env": "Tasks and files",
}
_METAVARS = {
    "bool": "true|false",
    "int": "N",
    "float": "X",
    "path": "PATH",
    "secret": "SECRET",
    "text": "TEXT",
}

ConfigArgument: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="CONFIG",
        help="Config file, packaged name, or a folder with train.yaml; the same as --config.",
        show_default=False,
    ),
]
ConfigOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="CONFIG",
        help="Config file, or a packaged name such as searchqa.",
        show_default=False,
    ),
]
CfgOptions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        _LIST_FLAG[0],
        metavar="A.B=C ...",
        help="Set any configuration key, several after one flag; 'skillopt config show' lists them.",
        show_default=False,
    ),
]
ShortTarget: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="MODEL",
        help="The same as --target_model, shorter; or an agent of your own: 'cmd: program', an address,"
        " file.py:function.",
        show_default=False,
    ),
]
ShortOptimizer: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--optimizer", metavar="MODEL", help="The same as --optimizer_model, shorter.", show_default=False
    ),
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout and nothing else there.")
]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress; only the outcome, and warnings.")
]
Plain: TypeAlias = Annotated[
    bool, typer.Option("--plain", help="Progress as plain lines; the default when stderr is no terminal.")
]


class FlagCommand(TyperCommand):
    """A command whose `--cfg-options` takes all the values that follow it, as the public
    command line does.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spread(args))


def spread(arguments: Sequence[str]) -> list[str]:
    """`--cfg-options a=1 b=2` written as `--cfg-options a=1 --cfg-options b=2`; a value is what holds `=` and
    starts with no dash.
    """
    found: list[str] = []
    following = False
    for argument in arguments:
        is_value = "=" in argument and not argument.startswith("-")
        if following and is_value and found[-1] not in _LIST_FLAG:
            found.append(_LIST_FLAG[0])
        following = argument in _LIST_FLAG or (following and is_value)
        found.append(argument)
    return found


def register(
    app: typer.Typer,
    name: str,
    command: Callable[..., None],
    *,
    panel: str,
    full: bool,
    epilog: str | None = None,
    wanted: Callable[[str], bool] = lambda key: True,
) -> None:
    """Add a command that takes `flags`; with `full` it gets an option for every flag whose key is wanted."""
    made = with_flags(command, wanted) if full else _brief(command)
    app.command(
        name, cls=FlagCommand, context_settings=_EITHER_SPELLING, rich_help_panel=panel, epilog=epilog
    )(made)


def with_flags(command: Callable[..., None], wanted: Callable[[str], bool]) -> Callable[..., None]:
    """The command with its parameter `flags` spelled out: one option per public flag, as text that the schema
    reads later.
    """
    options = _flag_options(wanted)

    def run(**values: Any) -> None:
        flags = {name: values.pop(name) for name in options}
        command(flags={name: value for name, value in flags.items() if value is not None}, **values)

    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=_annotated(hints[name]), kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "flags"
    ]
    # typer reads a command's options off its signature.
    run.__signature__ = inspect.Signature([*own, *options.values()])  # type: ignore[attr-defined]
    run.__doc__ = command.__doc__
    return run


def _annotated(hint: Any) -> Any:
    """The hint itself: before Python 3.11 a default of None wraps it once more, and typer would not see what
    is in it.
    """
    inside = (
        [part for part in get_args(hint) if get_origin(part) is Annotated]
        if get_origin(hint) is Union
        else []
    )
    return inside[0] if inside else hint


def with_models(flags: Mapping[str, str], **given: str | None) -> dict[str, str]:
    """The flags with the models that were named in the short way."""
    for role, model in given.items():
        if model is not None and f"{role}_model" in flags:
            raise ConfigError(f"--{role} and --{role}_model both name a model. Keep one of them.")
    return {**flags, **{f"{role}_model": model for role, model in given.items() if model is not None}}


def config_name(argument: str | None, option: str | None) -> str | None:
    """The config that was named, in whichever of the two ways."""
    if argument is not None and option is not None and argument != option:
        raise ConfigError(f"Two configs are named: {argument!r} and --config {option!r}. Keep one of them.")
    return option if argument is None else argument


def _flag_options(wanted: Callable[[str], bool]) -> dict[str, inspect.Parameter]:
    from skillopt.benchmarks import benchmarks
    from skillopt.config import FLAT, flags

    found = {flag.name: (flag, _panel(flag.key)) for flag in flags() if wanted(flag.key)}
    for benchmark in benchmarks.names():
        try:
            own = flags(benchmark)
        except (
            ImportError
        ):  # a plug-in without its dependencies says so when it is used, not when another one is
            continue
        for flag in own:
            if not wanted(flag.key) or (flag.name in found and not _is_thin(found[flag.name][0])):
                continue
            found[flag.name] = (flag, _panel(flag.key) if flag.name in FLAT else f"Keys of {benchmark}")
    return {name: _option(flag, panel) for name, (flag, panel) in found.items()}


def _is_thin(flag: Flag) -> bool:
    """Whether only a benchmark can describe the flag."""
    from skillopt.config.show import OF_A_BENCHMARK

    return flag.hidden or flag.description == OF_A_BENCHMARK


def _option(flag: Flag, panel: str) -> inspect.Parameter:
    metavar = _METAVARS.get(flag.type, flag.type.replace(" | ", "|"))
    option = typer.Option(
        f"--{flag.name}",
        help=flag.description,
        metavar=metavar,
        rich_help_panel=panel,
        show_default=False,
        hidden=flag.hidden,
    )
    annotation = Annotated[str | None, option]
    return inspect.Parameter(flag.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _panel(key: str) -> str:
    from skillopt.config.services import declared

    return (
        "Providers and agent programs"
        if key in declared().keys
        else _PANELS.get(key.partition(".")[0], "Other")
    )


def _brief(command: Callable[..., None]) -> Callable[..., None]:
    def run() -> None: ...

    run.__doc__ = command.__doc__
    return run
