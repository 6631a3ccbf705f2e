"""What can be read off a field of the schema: its key, its type in words, and how its value is read."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, SecretStr, TypeAdapter
from pydantic_core import to_jsonable_python

from skillopt.config.files import yaml_value
from skillopt.config.service import WRITES

PATH_KEYS = frozenset({"env.split_dir", "env.data_path", "env.data_root", "env.data_dirs"})
"""Public keys that are paths whatever type a benchmark gives them."""
FILE_OR_TEXT_KEYS = frozenset({"env.prompt", "env.system", "env.scorer"})
"""Keys that hold text or name a file: a template, or a scorer in a Python file."""

_FILE = re.compile(r"^(?P<file>[^\n]+\.(?:md|txt)|[^\n:]+\.py)(?P<rest>(?::\w+)?)$")
_WORDS: Mapping[Any, str] = {str: "text", Path: "path", SecretStr: "secret"}
"""What a person calls a type, where that is not its name."""


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """One key of the tree."""

    key: str
    annotation: Any
    default: Any
    """As JSON."""
    description: str
    bounds: tuple[Any, ...] = ()
    """What pydantic checks beside the type."""
    writes: bool = False
    """True for a path that is written."""

    @cached_property
    def options(self) -> tuple[Any, ...]:
        """The types a value may have, without None."""
        return tuple(option for option in _options(self.annotation) if option is not type(None))

    @property
    def optional(self) -> bool:
        """True when the key may be left unset."""
        return type(None) in _options(self.annotation)

    @property
    def choices(self) -> tuple[Any, ...]:
        """The allowed values, where the type lists them."""
        return tuple(
            choice for option in self.options if get_origin(option) is Literal for choice in get_args(option)
        )

    @property
    def spelled(self) -> list[str]:
        """The allowed values as they are written."""
        return [str(one).lower() if isinstance(one, bool) else str(one) for one in self.choices]

    @property
    def secret(self) -> bool:
        """True for credentials: never shown."""
        return SecretStr in self.options

    @property
    def path(self) -> bool:
        """True for files and folders."""
        return is_path(self.key, self.annotation)

    def is_structure(self, text: str) -> bool:
        """True for the text of a list or mapping; in brackets where the key also takes other text."""
        scalars = {option for option in self.options if option in (int, float, bool, str, Path, SecretStr)}
        if scalars or self.choices:
            return text.startswith("[") and any(get_origin(option) is list for option in self.options)
        return True

    @property
    def type(self) -> str:
        """The type as a person reads it."""
        if self.choices:
            return " | ".join([*(["bool"] if bool in self.options else []), *self.spelled])
        return " | ".join(
            _WORDS.get(option, getattr(get_origin(option) or option, "__name__", str(option)))
            for option in self.options
        )

    def read(self, value: Any, *, is_text: bool) -> Any:
        """The value in the type of its key, or a `ValidationError`. What YAML or Python has typed is taken
        strictly; text is converted: of a flag, option or variable, and in quotes as public files have it.
        """
        if self.optional and (value in ("", None) or (is_text and value in ("null", "~"))):
            return None
        if is_text and isinstance(value, str) and self.is_structure(value):
            value = yaml_value(value)
        is_lax = isinstance(value, str) and Path not in self.options  # a blank is no path
        return self._adapter.validate_python(value, strict=not is_lax)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        kind: Any = self.annotation
        for bound in self.bounds:
            kind = Annotated[kind, bound]
        return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))


def leaves(model: type[BaseModel], prefix: str = "") -> Iterator[Leaf]:
    """Every key below a model, depth first in the order it is written."""
    for name, field in model.model_fields.items():
        if field.exclude:
            continue
        key = f"{prefix}{name}"
        section = section_of(field.annotation)
        if section is not None:
            yield from leaves(section, f"{key}.")
        else:
            default = None if field.is_required() else field.get_default(call_default_factory=True)
            yield Leaf(
                key=key,
                annotation=field.annotation,
                default=to_jsonable_python(default, fallback=str),
                description=" ".join((field.description or "").split()),
                bounds=tuple(field.metadata),
                writes=field.json_schema_extra == WRITES,
            )


def sections(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every dotted key that holds further keys."""
    for name, field in model.model_fields.items():
        section = section_of(field.annotation)
        if section is not None and not field.exclude:
            yield f"{prefix}{name}"
            yield from sections(section, f"{prefix}{name}.")


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The model below a key, if it has one."""
    for option in _options(annotation):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def is_path(key: str, annotation: Any) -> bool:
    """True when a key holds a file or a folder."""
    return key in PATH_KEYS or Path in _options(annotation)


def file_in(key: str, text: str) -> tuple[str, str]:
    """The file that a text of `FILE_OR_TEXT_KEYS` names, and what follows it; blank where it names none."""
    match = _FILE.match(text) if key in FILE_OR_TEXT_KEYS else None
    return (match["file"], match["rest"]) if match else ("", "")


def _options(annotation: Any) -> tuple[Any, ...]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _options(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return tuple(option for part in get_args(annotation) for option in _options(part))
    return (annotation,)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key as a tree."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *parents, last = key.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[last] = value
    return tree
