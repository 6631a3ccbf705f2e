"""The options of a command as the arguments of a tool, and given arguments as a command line again."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

import typer
from typer.models import OptionInfo, ParameterInfo, ParamMeta
from typer.utils import get_params_from_function

from skillopt.errors import UsageError, suggest

CommandTree: TypeAlias = Callable[[str], typer.Typer]
"""The command line, with all options of the named command."""
PROJECT = "project"
_PROJECT_SCHEMA = {
    "type": "string",
    "description": (
        "The project's folder; paths are relative to it. Left out: the client's first root, or where the"
        " server was started."
    ),
}
_TYPES = {"int": "integer", "float": "number", "bool": "boolean"}
_KINDS = {"integer": int, "number": (int, float), "boolean": bool, "string": str}

_LONGEST_TEXT = 30_000
"""Systems limit a word of a command line: Linux to 128 KiB, Windows a whole line to 32,767."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a tool, made from one option of its command."""

    name: str
    option: str | None
    """How the command line spells it; None for one that is given by its place."""
    kind: str
    """A JSON type."""
    description: str
    is_list: bool = False
    is_switch: bool = False
    is_required: bool = False
    choices: tuple[str, ...] = ()
    default: Any = None
    least: float | None = None
    most: float | None = None

    def schema(self) -> dict[str, Any]:
        """As JSON Schema."""
        one: dict[str, Any] = {"type": self.kind}
        if self.choices:
            one["enum"] = list(self.choices)
        if self.least is not None:
            one["minimum"] = self.least
        if self.most is not None:
            one["maximum"] = self.most
        whole = {"type": "array", "items": one} if self.is_list else one
        if self.default not in (None, False, [], ()):
            whole["default"] = self.default
        return {**whole, "description": self.description} if self.description else whole

    def words(self, value: Any) -> list[str]:
        """The value on a command line, one word with its option, so that none can be read as an option."""
        values = value if self.is_list else [value]
        if self.option is None:
            return [_text(one) for one in values]
        if self.is_switch:
            return [self.option] if value else []
        return [f"{self.option}={_text(one)}" for one in values]

    def complaint(self, value: Any) -> str:
        """What is wrong with a value, in words; empty where nothing is."""
        if self.is_list and not isinstance(value, list):
            return f"{self.name} takes a list"
        for one in value if self.is_list else [value]:
            fits = isinstance(one, _KINDS[self.kind])  # type: ignore[arg-type]
            is_kind = fits and (self.kind == "boolean" or not isinstance(one, bool))
            if not is_kind:
                return (
                    f"{self.name} takes {'a list of ' if self.is_list else ''}{self.kind}, not"
                    f" {reprlib.repr(one)}"
                )
            if isinstance(one, str) and (fault := _fault_of(one)):
                return f"{self.name} {fault}"
            if self.choices and one not in self.choices:
                return f"{self.name} cannot be {one!r}. {suggest(str(one), self.choices)}"
            if self.least is not None and one < self.least:
                return f"{self.name} cannot be {one!r}: it is at least {self.least:g}"
            if self.most is not None and one > self.most:
                return f"{self.name} cannot be {one!r}: it is at most {self.most:g}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """All that a tool takes."""

    command: tuple[str, ...]
    offered: Mapping[str, Argument]
    speaks: tuple[str, ...]
    """The options by which the command speaks as a program wants it: `--json`, and plain lines of progress.
    """
    takes_project: bool
    """Whether the command itself has an option for the project."""

    def schema(self) -> dict[str, Any]:
        """The input schema of the tool."""
        required = [one.name for one in self.offered.values() if one.is_required]
        properties = {PROJECT: _PROJECT_SCHEMA, **{name: one.schema() for name, one in self.offered.items()}}
        whole = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**whole, "required": required} if required else whole

    def check(self, given: Mapping[str, Any]) -> None:
        """Raise on an argument that is unknown, missing or of another kind, naming the near miss."""
        known = [PROJECT, *self.offered]
        for name, value in given.items():
            if name not in known:
                raise UsageError(f"There is no argument {name!r}. {suggest(name, known)}")
            if name != PROJECT and (complaint := self.offered[name].complaint(value)):
                raise UsageError(f"{complaint}.")
        if PROJECT in given and (not isinstance(given[PROJECT], str) or _fault_of(given[PROJECT])):
            raise UsageError("project takes the path of a folder.")
        missing = [one.name for one in self.offered.values() if one.is_required and one.name not in given]
        if missing:
            raise UsageError(f"{', '.join(missing)} must be given.")

    def line(self, given: Mapping[str, Any], project: str, fixed: Sequence[str] = ()) -> list[str]:
        """The command line; what goes by place stands behind `--`, so that it cannot be read as an option."""
        words = [*self.command, *self.speaks]
        if self.takes_project:
            words.append(f"--{PROJECT}={project}")
        places: list[str] = list(fixed)
        for name, argument in self.offered.items():
            if name in given:
                (places if argument.option is None else words).extend(argument.words(given[name]))
        return [*words, "--", *places] if places else words


def arguments_of(tree: CommandTree, command: tuple[str, ...], takes: Sequence[str]) -> Arguments:
    """What a tool takes: these options of its command. Raises on one that the command does not have."""
    made = options_of(find_command(tree, command))
    for name in takes:
        if name not in made:
            raise UsageError(f"`skillopt {' '.join(command)}` has no option {name!r}. {suggest(name, made)}")
    return Arguments(
        command=command,
        offered={name: made[name] for name in takes},
        speaks=tuple(f"--{name}" for name in ("json", "plain") if name in made),
        takes_project=PROJECT in made,
    )


def options_of(command: Callable[..., None]) -> Mapping[str, Argument]:
    """All options of a command that its help shows, as arguments."""
    found = get_params_from_function(command).values()
    return {
        one.name: one for parameter in found if not parameter.default.hidden for one in [_argument(parameter)]
    }


def find_command(tree: CommandTree, words: tuple[str, ...]) -> Callable[..., None]:
    """The function behind a command, by its words; typer reads the options off its signature as well."""
    door = tree(words[0])
    for word in words[:-1]:
        door = next(
            group.typer_instance
            for group in door.registered_groups
            if group.name == word and group.typer_instance is not None
        )
    return next(
        command.callback
        for command in door.registered_commands
        if command.name == words[-1] and command.callback is not None
    )


def first_paragraph(command: Callable[..., None]) -> str:
    """What the command says it does, without what concerns a terminal."""
    return " ".join((command.__doc__ or "").split("\n\n")[0].replace("`", "").split())


def _argument(parameter: ParamMeta) -> Argument:
    told: ParameterInfo = parameter.default
    kind = parameter.annotation
    inside = (
        next(part for part in get_args(kind) if part is not type(None))
        if get_origin(kind) in (Union, UnionType)
        else kind
    )
    is_list = get_origin(inside) is list
    plain = get_args(inside)[0] if is_list else inside
    option = max(told.param_decls or (), key=len) if isinstance(told, OptionInfo) else None
    flag = _setting(parameter.name) if _is_setting(parameter) else None
    return Argument(
        name=parameter.name if option is None else option.lstrip("-").replace("-", "_"),
        option=option,
        kind=_TYPES.get(plain.__name__ if flag is None else flag.type, "string"),
        description=" ".join((told.help or "").split()),
        is_list=is_list,
        is_switch=plain is bool and option is not None,
        is_required=told.default is ...,
        choices=_choices(parameter.name, "" if flag is None else flag.type) if _is_setting(parameter) else (),
        default=told.default if isinstance(told.default, (str, int, float)) else None,
        least=told.min,
        most=told.max,
    )


def _choices(name: str, type: str) -> tuple[str, ...]:
    """The words a setting takes, where its schema names them."""
    from skillopt_sleep.settings import NightSettings

    if " | " in type and "bool" not in type:
        return tuple(type.split(" | "))
    field = NightSettings.model_fields.get(name)
    return get_args(field.annotation) if field is not None and get_origin(field.annotation) is Literal else ()


def _is_setting(parameter: ParamMeta) -> bool:
    """Whether an option stands for a setting of the configuration: only those have a panel in the help."""
    return parameter.default.rich_help_panel is not None


def _setting(name: str) -> Any:
    """The key of a setting: on the command line all of them are text, here they have their own types."""
    from skillopt.config.keys import flag_leaf

    return flag_leaf(name)


def _fault_of(text: str) -> str:
    """Why a text cannot be a word of a command line; empty where it can."""
    if "\0" in text:
        return "holds a NUL character"
    if len(text) > _LONGEST_TEXT:
        return f"is longer than a text may be ({len(text):,} characters; the most is {_LONGEST_TEXT:,})"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds half of a character"
    return ""


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
