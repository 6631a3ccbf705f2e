"""What a command line says of the configuration: a config, `-o key=value`, an option for each usual setting,
and `--key value` for every other key.
"""

from __future__ import annotations

import difflib
import inspect
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from skillopt.cli._options import Add, argument, option, parameter, with_options
from skillopt.config.keys import flag_leaf, flag_names, key_of
from skillopt.config.load import Resolved, load
from skillopt.errors import ConfigError, UsageError

_LISTS, _SETTING = ("--cfg_options", "-o"), "--setting"
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
    {"env", "skill_init", "data_path", "scorer", "out_root", "budget", "workers", "judge", "prompt"}
    | {"reference_field"}
)
"""Settings that most people need, whatever they do."""
_PANELS: Mapping[str, tuple[str, ...]] = {
    "Models": (
        *("optimizer_model", "target_model", "targets", "judge", "backend", "optimizer_backend"),
        *("target_backend", "reasoning_effort", "budget"),
    ),
    "Training": (
        *("part", "strategy", "folds", "num_epochs", "batch_size", "seed", "minibatch_size"),
        *("merge_batch_size", "analyst_workers", "failure_only", "edit_budget", "min_edit_budget"),
        *("lr_scheduler", "lr_control_mode", "skill_update_mode", "use_slow_update", "use_meta_skill"),
        "prune",
    ),
    "Gate and test": ("use_gate", "gate_metric", "sel_env_num", "test_env_num", "eval_test", "repeats"),
    "Tasks and files": (
        *("env", "skill_init", "data_path", "split_mode", "split_ratio", "split_dir", "limit", "prompt"),
        *("scorer", "reference_field", "triggers", "out_root", "workers"),
    ),
}
"""The settings that `--help-all` lists, by panel; every other one is taken as well."""
_EITHER_SPELLING = {"token_normalize_func": lambda name: name.replace("-", "_")}
"""`--batch-size` and `--batch_size` are one option."""
_METAVARS = {
    **{"bool": "true|false", "int": "N", "float": "X"},
    **{"path": "PATH", "secret": "SECRET", "text": "TEXT"},
}


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    """Print the help with every usual option, and end."""
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
        typer.Option(
            "--help-all",
            callback=_show_all,
            is_eager=True,
            help="Show every usual option and exit; any other key is an option too, as --KEY VALUE.",
        ),
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
    """The `add` of a command with a parameter `given`: it takes a config, `-o key=value`, a short option for
    the models of `short` roles, and every setting whose key starts with one of `keys`. Without
    `config_argument` the config is only named by `--config`: the command has an argument of its own. Its help
    shows its own options and those of `brief`, and `--help-all` every usual one.
    """

    def add(app: typer.Typer, name: str, panel: str) -> None:
        own = inspect.signature(command).parameters
        models = [
            parameter(role, str, option(f"--{role}", f"{_ROLES[role]} The same as --{role}_model.", "MODEL"))
            for role in short
        ]
        config = _config_options(config_argument, short_option="out" not in own)
        options = [*config, _HELP_ALL, *models, *_usual_settings(keys)]
        run = with_options(command, "given", options, _given)
        settings: Any = {"context_settings": _EITHER_SPELLING, "rich_help_panel": panel, "epilog": epilog}
        shown = {*brief, *own, *(one.name for one in (*config, *models)), "all_options", "help"}
        app.command(name, cls=_command(shown, keys), **settings)(run)

    return add


def _config_options(argument_too: bool, short_option: bool) -> list[inspect.Parameter]:
    named = "Config file, packaged name, folder with train.yaml, or a run; the same as --config."
    anything = "Set any configuration key, several after one flag; 'skillopt config show' lists them."
    alone = "Start also what the settings of a run that was not made here name; do not ask."
    names = ("--cfg-options", "-o") if short_option else ("--cfg-options",)
    return [
        *([parameter("config_argument", str, argument("CONFIG", named))] if argument_too else []),
        parameter(
            "config", str, option("--config", "Config file, or a packaged name such as searchqa.", "CONFIG")
        ),
        parameter(
            "cfg_options",
            list[str],
            typer.Option(*names, help=anything, metavar="A.B=C ...", show_default=False),
        ),
        parameter("settings", list[str], typer.Option(_SETTING, hidden=True)),
        parameter("force", bool, option("--force", alone)),
    ]


def _usual_settings(keys: tuple[str, ...]) -> list[inspect.Parameter]:
    """The options of `_PANELS`; what each means is looked up by the help alone."""
    return [
        parameter(name, str, option(f"--{name}", "", rich_help_panel=panel))
        for panel, names in _PANELS.items()
        for name in names
        if key_of(name).startswith(keys)
    ]


def _command(brief: Collection[str], keys: tuple[str, ...]) -> type[TyperCommand]:
    """A command that takes every setting; its help shows the `brief` options unless all are asked for."""

    class FlagCommand(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            taking = {
                _plain(name): not getattr(one, "is_flag", False)
                for one in self.get_params(ctx)
                for name in one.opts
            }
            return super().parse_args(ctx, spelled_out(args, taking, keys))

        def format_help(self, ctx: Any, formatter: Any) -> None:
            options: list[Any] = list(self.params)
            for one in options:
                is_usual = getattr(one, "rich_help_panel", None) in _PANELS
                if is_usual and (leaf := flag_leaf(one.name)) is not None:
                    one.help = leaf.description
                    one.metavar = _METAVARS.get(leaf.type, leaf.type.replace(" | ", "|"))
            is_whole = ctx.meta.get(_WHOLE, False)
            rest = [one for one in options if not (is_whole or one.name in brief or one.hidden)]
            for one in rest:
                one.hidden = True
            try:
                super().format_help(ctx, formatter)
            finally:
                for one in rest:
                    one.hidden = False

    return FlagCommand


def spelled_out(
    arguments: Sequence[str], options: Mapping[str, bool], keys: tuple[str, ...] = ("",)
) -> list[str]:
    """The arguments as click reads them; `options` says by name which take a value. `--cfg-options a=1 b=2`,
    as the public command line has it, and a bare `a.b=1` become one option a value. A setting that is no
    option becomes `--setting=NAME=VALUE`; what is neither is an error that names the near miss.
    """
    words, found = deque(arguments), list[str]()
    while words:
        word = words.popleft()
        name, equals, value = word.partition("=")
        name = _plain(name)
        if word == "--":
            return [*found, word, *words]
        if _BARE.match(word) or (name in _LISTS and name in options):
            first = (
                word if not name.startswith("-") else value if equals else words.popleft() if words else None
            )
            values = [] if first is None else [first]
            while words and "=" in words[0] and not words[0].startswith("-"):
                values.append(words.popleft())
            found += [part for one in values for part in (_LISTS[0], one)] or [word]
        elif name in options or not name.startswith("--"):
            found.append(word)
            if options.get(name) and not equals and words:
                found.append(words.popleft())
        else:
            _check_setting(name[2:], options, keys)
            if not equals and not words:
                raise UsageError(f"--{name[2:]} takes a value.")
            found.append(f"{_SETTING}={name[2:]}={value if equals else words.popleft()}")
    return found


def _check_setting(name: str, options: Mapping[str, bool], keys: tuple[str, ...]) -> None:
    """Raise where a word is neither an option of the command nor a setting that it takes."""
    if name in MEANT:
        raise UsageError(f"There is no option --{name}: {MEANT[name]}.")
    if "." in name or (name in flag_names() and key_of(name).startswith(keys)):
        return  # whether there is such a key is said with all else that is wrong
    known = [one.lstrip("-") for one in options if one.startswith("--")]
    known += [one for one in flag_names() if key_of(one).startswith(keys)]
    close = difflib.get_close_matches(name, known, n=1)
    near = f"Did you mean '--{close[0]}'?" if close else "'skillopt config show' lists all settings."
    raise UsageError(f"No such option: --{name}. {near}")


def _plain(name: str) -> str:
    return f"--{name[2:].replace('-', '_')}" if name.startswith("--") else name


def _given(said: dict[str, Any]) -> Given:
    said.pop("all_options", None)
    by_place, by_option = said.pop("config_argument", None), said.pop("config", None)
    if None not in (by_place, by_option) and by_place != by_option:
        raise ConfigError(
            f"Two configs are named: {by_place!r} and --config {by_option!r}. Keep one of them."
        )
    options, force = said.pop("cfg_options", []), said.pop("force", False)
    for one in said.pop("settings", []):
        name, _, said[name] = one.partition("=")
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
