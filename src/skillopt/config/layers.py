"""What each layer says: files, options, flags and variables become entries under one dotted key, each with
its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from skillopt.config.files import BASE_KEY, ConfigFile
from skillopt.config.keys import (
    ALIASES,
    FLAT_NAMES,
    ROLE_KEYS,
    canonical,
    dotted,
    tracker_settings,
    tree,
    tree_sections,
    variables,
)
from skillopt.config.sections import parse_budget
from skillopt.config.services import declared
from skillopt.errors import ConfigError, suggest

Layer = Literal["flag", "cfg-options", "config", "environment", ".env", "default"]
LAYERS: tuple[Layer, ...] = ("default", ".env", "environment", "config", "cfg-options", "flag")
"""Weakest first."""
CHOSEN: frozenset[Layer] = frozenset({"config", "cfg-options", "flag"})
"""Layers in which the user wrote this run's own settings."""
SET = "[set]"
"""Stands for a credential where settings are shown or kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The layer a value comes from, and the file and line, flag or variable in it."""

    layer: Layer
    where: str = ""

    def __str__(self) -> str:
        return f"{self.layer} {self.where}".rstrip()

    def beats(self, other: Source) -> bool:
        """True when this layer has precedence over the other's."""
        return LAYERS.index(self.layer) > LAYERS.index(other.layer)


DEFAULT = Source(layer="default")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One value as somebody wrote it: its key here, its key as written, and the folder of its file."""

    key: str
    value: Any = field(repr=False)
    source: Source
    written: str
    folder: Path | None = None

    @classmethod
    def by_default(cls, key: str, value: Any, where: str = "") -> ConfigEntry:
        """A value that nobody wrote."""
        return cls(key=key, value=value, source=Source(layer="default", where=where), written=key)

    @property
    def is_text(self) -> bool:
        """True for a flag, an option or a variable: its value is read by the type of its key."""
        return self.source.layer not in ("config", "default")

    def __str__(self) -> str:
        if self.source.layer == "config":
            return f"{self.written} ({self.source.where})"
        return self.written if self.written in self.source.where else f"{self.written} ({self.source})"


Entries = dict[str, ConfigEntry]


def file_layer(document: ConfigFile, problems: list[str]) -> Entries:
    """What one file says; within it the structured form beats the flat one."""
    flat: list[ConfigEntry] = []
    structured: list[ConfigEntry] = []
    for key, value in document.values.items():
        if key == BASE_KEY:
            continue
        if key in tree_sections() and (value is None or isinstance(value, dict)):
            structured += _of_section((key,), value or {}, document)
        elif isinstance(value, dict):
            tops = [name for name in tree_sections() if "." not in name]
            problems.append(f"{document.line(key)}: no section named {key!r}. {suggest(key, tops)}")
        elif key in tree_sections() and key not in ("env", "budget"):
            problems.append(f"{document.line(key)}: {key!r} is a section: expected keys below it")
        else:
            flat.append(_of_file(dotted(key), value, (key,), document))
    return _layer(flat, problems) | _layer(structured, problems)


def option_layer(options: Sequence[str], settings: type[BaseModel] | None, problems: list[str]) -> Entries:
    """What `--cfg-options a.b=c` says; a later option beats an earlier one."""
    found: Entries = {}
    for option in options:
        name, equals, text = option.partition("=")
        name = name.strip()
        if not equals or not name:
            # Only the part before the first space or colon: the rest might be a credential in the wrong form.
            shown = (name.replace(":", " ").split() or [""])[0]
            problems.append(f"--cfg-options {shown!r}: expected section.key=value")
            continue
        source = Source(layer="cfg-options", where=name)
        entry = ConfigEntry(key=_key_of(name, settings), value=text, source=source, written=name)
        found |= _layer([entry], problems)
    return found


def flag_layer(flags: Mapping[str, object], settings: type[BaseModel] | None, problems: list[str]) -> Entries:
    """What flags say, by flat name (`batch_size`) or dotted key; None is a flag that was not given."""
    given = [
        ConfigEntry(
            key=_key_of(name, settings),
            value=str(value) if isinstance(value, Path) else value,
            source=Source(layer="flag", where=f"--{name}"),
            written=f"--{name}",
        )
        for name, value in flags.items()
        if value is not None
    ]
    return _layer(given, problems)


def variable_layer(
    given: Mapping[str, str], layer: Layer, problems: list[str], warnings: list[str]
) -> Entries:
    """What the variables say; a blank one says nothing, and of two for one key the first counts.

    A `.env` may be somebody else's: it does not decide which program starts and what that may do.
    """
    found: Entries = {}
    for name, key in variables().items():
        if not given.get(name) or key in found:
            continue
        public = declared().keys.get(key)
        if layer == ".env" and public is not None and public.fills.startswith("agent."):
            warnings.append(
                f"{name} in .env is not used: settings of a program belong in the environment or in the"
                " configuration"
            )
            continue
        source = Source(layer=layer, where=name)
        found[key] = ConfigEntry(key=key, value=given[name], source=source, written=name)
    return _layer(found.values(), problems)


def default_layer(defaults: Mapping[str, Any], benchmark: str, problems: list[str]) -> Entries:
    """What the benchmark sets when the user did not."""
    entries = [ConfigEntry.by_default(key, value, f"of {benchmark}") for key, value in defaults.items()]
    return _layer(entries, problems)


def _key_of(name: str, settings: type[BaseModel] | None) -> str:
    """The key of a flag; a benchmark's own key comes before an alias, not before a flat name."""
    is_own = settings is not None and name in settings.model_fields and name not in FLAT_NAMES
    return f"env.{name}" if is_own else dotted(name)


def _of_section(
    path: tuple[str, ...], values: Mapping[str, Any], document: ConfigFile
) -> Iterator[ConfigEntry]:
    for name, value in values.items():
        below = (*path, name)
        key = ".".join(below)
        # A mapping that is no section of ours is one value: a benchmark's own key, or an unknown one to be
        # named as a whole.
        if key in tree_sections() and (value is None or isinstance(value, dict)):
            yield from _of_section(below, value or {}, document)
        else:
            yield _of_file(key, value, below, document)


def _of_file(key: str, value: Any, path: tuple[str, ...], document: ConfigFile) -> ConfigEntry:
    source = Source(layer="config", where=document.line(*path))
    folder = document.path.parent
    return ConfigEntry(key=key, value=value, source=source, written=".".join(path), folder=folder)


def _layer(entries: Iterable[ConfigEntry], problems: list[str]) -> Entries:
    """Entries by key: shorthands spelled out, aliases joined."""
    found: Entries = {}
    for entry in entries:
        try:
            spelled = _spell_out(entry)
        except ConfigError as error:
            problems.append(f"{entry.source}: {error}")
            continue
        for each in spelled:
            other = found.get(each.key)
            if other is not None and other.value != each.value:
                problems.append(
                    f"{other} and {each} are the same key with different values; keep one of them"
                )
            found[each.key] = each
    return found


def _spell_out(entry: ConfigEntry) -> list[ConfigEntry]:
    key, value = _real_key(entry.key), entry.value
    if key in ROLE_KEYS and not isinstance(value, dict):
        key = f"{key}.name"
    if key == "budget":
        if not isinstance(value, str):
            raise ConfigError(
                "budget takes text ('$2', '200k tokens', '500 calls', '30 minutes') or the keys usd, tokens,"
                " calls, minutes"
            )
        # Text is the whole budget: what it does not name is unlimited, whatever a weaker layer says.
        limits = parse_budget(value).model_dump(exclude={"per_rollout"})
        return [replace(entry, key=f"budget.{name}", value=limit) for name, limit in limits.items()]
    value = canonical(key, value)
    if key == "optimizer.lr_scheduler" and value == "autonomous":
        key = "optimizer.lr_control_mode"  # the public scheduler of that name left the limit to nobody
    return [replace(entry, key=key, value=value)]


def _real_key(key: str) -> str:
    """The key that an alias stands for; `tracking.mlflow_uri` is `tracking.mlflow.uri`."""
    if key.startswith("tracking.") and key not in tree():
        for name, settings in tracker_settings().items():
            field = key.removeprefix(f"tracking.{name}_")
            if field in settings.model_fields:
                return f"tracking.{name}.{field}"
    return ALIASES.get(key, key)
