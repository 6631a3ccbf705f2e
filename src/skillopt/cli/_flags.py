"""What a command line says of the configuration: a config, `--cfg-options`, and an option for every public
flag, made from the configuration's own schema.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from skillopt.benchmarks import benchmarks
from skillopt.cli._options import Add, argument, option, parameter, with_options
from skillopt.config.load import Resolved, load
from skillopt.config.names import FLAT
from skillopt.config.services import declared
from skillopt.config.show import OF_A_BENCHMARK, Flag, flags, own_flags
from skillopt.errors import ConfigError, UsageError

_LIST_FLAG = ("--cfg-options", "--cfg_options")
_BARE = re.compile(r"[a-z_]+(\.[a-z_0-9]+)+=")
MEANT = {
    "epochs": "write --num_epochs N",
    "set": "write --cfg-options A.B=C",
    "resume": "the same command goes on where it stopped, and 'skillopt train RUN' with it",
    "model": "write --target MODEL, and --optimizer MODEL for the one that proposes edits",
    "tasks": "write --data_path FILE",
    "data": "write --data_path FILE",
    "skill": "write --skill_init PATH",
    "out": "write --out_root FOLDER",
    "dry_run": "'skillopt estimate' says what a run takes, and 'skillopt try' shows three answers",
    "effort": "'skillopt train' and 'skillopt estimate' have it",
    "output": "write --out_root FOLDER",
}
"""What people type for options of another name, unless a command has such an option."""
_ROLES = {
    "target": "The model or agent that works with the skill.",
    "optimizer": "The model that proposes edits.",
}
_WHOLE = "skillopt.help_all"
BRIEF = frozenset(
    (
        "env",
        "skill_init",
        "data_path",
        "scorer",
        "out_root",
        "budget",
        "workers",
        "judge",
        "prompt",
        "reference_field",
    )
)
"""Settings that most people need, whatever they do."""
_EITHER_SPELLING = {"token_normalize_func": lambda name: name.replace("-", "_")}
"""`--batch-size` and `--batch_size` are one option."""
_PANELS = {
    **dict.fromkeys(("model", "budget"), "Models"),
    **dict.fromkeys(("train", "gradient", "optimizer"), "Training"),
    "evaluation": "Gate and test",
    "env": "Tasks and files",
    "triggers": "Tasks and files",
}
_METAVARS = {
    **{"bool": "true|false", "int": "N", "float": "X"},
    **{"path": "PATH", "secret": "SECRET", "text": "TEXT"},
}
_CONFIG = (
    parameter(
        "config_argument",
        str,
        argument(
            "CONFIG", "Config file, packaged name, folder with train.yaml, or a run; the same as --config."
        ),
    ),
    parameter(
        "config", str, option("--config", "Config file, or a packaged name such as searchqa.", "CONFIG")
    ),
    parameter(
        "cfg_options",
        list[str],
        option(
            _LIST_FLAG[0],
            "Set any configuration key, several after one flag; 'skillopt config show' lists them.",
            "A.B=C ...",
        ),
    ),
    parameter(
        "force",
        bool,
        option("--force", "Start also what the settings of a run that was not made here name; do not ask."),
    ),
)


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    """Print the help with every option, and end."""
    if wanted:
        ctx.meta[_WHOLE] = True
        typer.echo(ctx.get_help(), nl=False)
        raise typer.Exit


_HELP_ALL = inspect.Parameter(
    "all_options",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option("--help-all", callback=_show_all, is_eager=True, help="Show every option and exit."),
    ],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What was said of the configuration; `flags` by flat name, `options` as `a.b=c`."""

    config: str | None
    flags: Mapping[str, str]
    options: Sequence[str]
    force: bool = False
    """Whether the person agrees to all that the settings of somebody else's run would start."""

    def load(self) -> Resolved:
        """The configuration of this, the environment and the working directory."""
        return load(self.config, flags=self.flags, options=self.options, environ=os.environ, cwd=Path.cwd())

    @property
    def run(self) -> Path | None:
        """The training run that stands in the place of a config: it is its own."""
        from skillopt.runs.reader import is_run

        return Path(self.config) if self.config is not None and is_run(Path(self.config)) else None

    def with_flag(self, name: str, value: str) -> Given:
        """The same with one flag more."""
        return replace(self, flags={**self.flags, name: value})


def flagged(
    command: Callable[..., None],
    keys: tuple[str, ...] = ("",),
    *,
    short: Sequence[str] = (),
    epilog: str | None = None,
    config_argument: bool = True,
    brief: Collection[str] = BRIEF,
) -> Add:
    """The `add` of a command with a parameter `given`: it takes a config, `--cfg-options`, a short option for
    the models of `short` roles, and one for every public flag whose key starts with one of `keys`. Without
    `config_argument` the config is only named by `--config`: the command has an argument of its own. Its help
    shows its own options and those of `brief`, and `--help-all` every one.
    """

    def add(app: typer.Typer, name: str, panel: str) -> None:
        models = [
            parameter(role, str, option(f"--{role}", f"{_ROLES[role]} The same as --{role}_model.", "MODEL"))
            for role in short
        ]
        config = _CONFIG if config_argument else _CONFIG[1:]
        run = with_options(command, "given", [*config, _HELP_ALL, *models, *_flag_options(keys)], _given)
        settings: Any = {"context_settings": _EITHER_SPELLING, "rich_help_panel": panel, "epilog": epilog}
        shown = {*brief, *inspect.signature(command).parameters, *(one.name for one in (*config, *models))}
        app.command(name, cls=_brief_command({*shown, "all_options", "help"}), **settings)(run)

    return add


class FlagCommand(TyperCommand):
    """A command whose `--cfg-options` takes all values that follow it, as the public command line does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        flags = {word.partition("=")[0].replace("-", "_").lstrip("_") for word in args if word[:2] == "--"}
        known = {option.removeprefix("--") for one in self.params for option in one.opts}
        for flag in sorted(flags & (MEANT.keys() - known)):
            raise UsageError(f"There is no option --{flag}: {MEANT[flag]}.")
        switches = {option for one in self.params if getattr(one, "is_flag", False) for option in one.opts}
        return super().parse_args(ctx, spread(args, switches))


def _brief_command(brief: Collection[str]) -> type[FlagCommand]:
    """A command whose help shows some options, unless all are asked for."""

    class BriefCommand(FlagCommand):
        def format_help(self, ctx: Any, formatter: Any) -> None:
            is_whole = ctx.meta.get(_WHOLE, False)
            shown: list[Any] = [] if is_whole else list(self.params)
            rest = [one for one in shown if one.name not in brief and not one.hidden]
            for one in rest:
                one.hidden = True
            try:
                super().format_help(ctx, formatter)
            finally:
                for one in rest:
                    one.hidden = False

    return BriefCommand


def spread(arguments: Sequence[str], switches: Collection[str] = ()) -> list[str]:
    """`--cfg-options a=1 b=2` written as `--cfg-options a=1 --cfg-options b=2`; a value is what holds `=` and
    starts with no dash. So is a bare `a.b=1` that is no option's value; `switches` are options without one.
    """
    found: list[str] = []
    following = False
    for word in arguments:
        is_value = "=" in word and not word.startswith("-")
        is_bare = bool(_BARE.match(word)) and not (
            found and found[-1].startswith("-") and found[-1] not in switches
        )
        if (is_bare or (following and is_value)) and not (found and found[-1] in _LIST_FLAG):
            found.append(_LIST_FLAG[0])
        following = word in _LIST_FLAG or ((following or is_bare) and is_value)
        found.append(word)
    return found


def _given(said: dict[str, Any]) -> Given:
    said.pop("all_options", None)
    by_place, by_option = said.pop("config_argument", None), said.pop("config", None)
    if None not in (by_place, by_option) and by_place != by_option:
        raise ConfigError(
            f"Two configs are named: {by_place!r} and --config {by_option!r}. Keep one of them."
        )
    options, force = said.pop("cfg_options", []), said.pop("force", False)
    for role in ("target", "optimizer"):
        if role in said and f"{role}_model" in said:
            raise ConfigError(f"--{role} and --{role}_model both name a model. Keep one of them.")
        if role in said:
            said[f"{role}_model"] = said.pop(role)
    config = by_option if by_place is None else by_place
    if config is not None:
        from skillopt.runs.reader import LATEST, run_named

        config = str(run_named(Path(config))) if config == LATEST else config
    return Given(config=config, flags=said, options=options, force=force)


def _flag_options(keys: tuple[str, ...]) -> list[inspect.Parameter]:
    found = {flag.name: (flag, _panel(flag.key)) for flag in flags() if flag.key.startswith(keys)}
    for benchmark in benchmarks.names():
        try:
            own = own_flags(benchmark)
        except ImportError:  # a plug-in without its dependencies says so when it is used, not when another is
            continue
        for flag in own:
            known = found[flag.name][0] if flag.name in found else None
            is_thin = known is None or known.hidden or known.description == OF_A_BENCHMARK
            if is_thin and flag.key.startswith(keys):  # only a benchmark can describe it
                found[flag.name] = (flag, _panel(flag.key) if flag.name in FLAT else f"Keys of {benchmark}")
    return [_option(flag, panel) for flag, panel in found.values()]


def _option(flag: Flag, panel: str) -> inspect.Parameter:
    metavar = _METAVARS.get(flag.type, flag.type.replace(" | ", "|"))
    told = option(f"--{flag.name}", flag.description, metavar, rich_help_panel=panel, hidden=flag.hidden)
    return parameter(flag.name, str, told)


def _panel(key: str) -> str:
    if key in declared().keys:
        return "Providers and agent programs"
    return _PANELS.get(key.partition(".")[0], "Other")
