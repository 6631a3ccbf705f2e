"""What each layer says: files, options, flags and variables become entries under one dotted key, each with
its source. And what is wrong with an entry: a key that nobody reads, a value of another type.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from skillopt.config.fields import Leaf
from skillopt.config.files import BASE_KEY, ConfigFile
from skillopt.config.keys import (
    FLAT_NAMES,
    IGNORED_KEYS,
    IGNORED_PREFIXES,
    REFUSED_KEYS,
    canonical,
    declared,
    key_of,
    known_values,
    settings_leaves,
    tree,
    tree_sections,
    variables,
)
from skillopt.config.roles import parse_model_string
from skillopt.config.schema import Config
from skillopt.config.sections import parse_budget
from skillopt.config.service import EXPECTED
from skillopt.errors import ConfigError, SkillOptError, suggest
from skillopt.redact import looks_secret
from skillopt.registry import Registry

Layer = Literal["flag", "cfg-options", "config", "environment", ".env", "default"]
LAYERS: tuple[Layer, ...] = ("default", ".env", "environment", "config", "cfg-options", "flag")
"""Weakest first."""
CHOSEN: frozenset[Layer] = frozenset({"config", "cfg-options", "flag"})
"""Layers in which the user wrote this run's own settings."""
COMMON_KEYS = frozenset(
    f"env.{name}" for name in ("split_mode", "split_ratio", "split_seed", "split_dir", "data_path", "limit")
)
"""Keys of every benchmark whose tasks come from files; a base file may hold them without naming one."""
SET = "[set]"
"""Stands for a credential where settings are shown or kept."""
_BOUNDS = {
    **{"greater_than_equal": ("ge", "at least"), "greater_than": ("gt", "more than")},
    **{"less_than_equal": ("le", "at most"), "less_than": ("lt", "less than")},
}


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
    """One setting and its origin: its full key, the key as the user wrote it, and the folder of its file."""

    key: str
    value: Any = field(repr=False)
    source: Source
    written: str
    folder: Path | None = None
    problem: str = ""
    """What is wrong with the value, where that only matters to a role that takes it."""

    @classmethod
    def by_default(cls, key: str, value: Any, where: str = "") -> ConfigEntry:
        """A value that nobody wrote."""
        return cls(key=key, value=value, source=Source(layer="default", where=where), written=key)

    @property
    def is_blank(self) -> bool:
        """True for the blanks of public files, which mean unset."""
        return self.value is None or self.value == ""

    @property
    def is_text(self) -> bool:
        """True for a flag, an option or a variable: its value is read by the type of its key."""
        return self.source.layer not in ("config", "default")

    def __str__(self) -> str:
        if self.source.layer == "config":
            return f"{self.written} ({self.source.where})"
        return self.written if self.written in self.source.where else f"{self.written} ({self.source})"


Entries = dict[str, ConfigEntry]


# Layers


def file_layer(document: ConfigFile, problems: list[str]) -> Entries:
    """What one file says; within it the structured form beats the flat one."""
    forms: tuple[list[ConfigEntry], list[ConfigEntry]] = ([], [])
    for path, value in _values(document.values):
        where, name = document.line(*path), path[0]
        if len(path) == 1 and isinstance(value, dict):
            problems.append(f"{where}: no section named {name!r}. {suggest(name, Config.model_fields)}")
        elif len(path) == 1 and name in tree_sections() and name not in ("env", "budget"):
            problems.append(f"{where}: {name!r} is a section: expected keys below it")
        elif path != (BASE_KEY,):
            entry = ConfigEntry(
                key=key_of(".".join(path)),
                value=value,
                source=Source(layer="config", where=where),
                written=".".join(path),
                folder=document.path.parent,
            )
            forms[len(path) > 1].append(entry)
    flat, structured = (_layer(entries, problems) for entries in forms)
    return flat | structured


def _values(
    tree_of_values: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each value of a file with the keys that lead to it. A mapping that is no section of ours is one value:
    a benchmark's own key, or an unknown one to be named as a whole.
    """
    for name, value in tree_of_values.items():
        path = (*above, name)
        if ".".join(path) in tree_sections() and (value is None or isinstance(value, dict)):
            yield from _values(value or {}, path)
        else:
            yield path, value


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
        entry = ConfigEntry(key=key_of(name, settings), value=text, source=source, written=name)
        found |= _layer([entry], problems)
    return found


def flag_layer(flags: Mapping[str, object], settings: type[BaseModel] | None, problems: list[str]) -> Entries:
    """What flags say, by flat name (`batch_size`) or dotted key; None is a flag that was not given."""
    given = [
        ConfigEntry(
            key=key_of(name, settings),
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
        if layer == ".env" and _starts_something(key, given[name]):
            warnings.append(
                f"{name} in .env is not used: what is started belongs in the environment or in the"
                " configuration"
            )
            continue
        source = Source(layer=layer, where=name)
        found[key] = ConfigEntry(key=key, value=given[name], source=source, written=name)
    return _layer(found.values(), problems)


def _starts_something(key: str, value: str) -> bool:
    """Whether a variable names a program, a function, a service or a model file, or what a program may do."""
    if key.endswith(".name"):
        with contextlib.suppress(ConfigError):  # said where the model is built
            parts = parse_model_string(value, "target")
            return parts.is_own_agent or parts.provider == "local" or parts.name.lower().endswith(".gguf")
    public = declared().keys.get(key)
    return public is not None and public.fills.startswith("agent.")


def default_layer(defaults: Mapping[str, Any], benchmark: str, problems: list[str]) -> Entries:
    """What the benchmark sets when the user did not."""
    entries = [
        ConfigEntry.by_default(key_of(key), value, f"of {benchmark}") for key, value in defaults.items()
    ]
    return _layer(entries, problems)


def _layer(entries: Iterable[ConfigEntry], problems: list[str]) -> Entries:
    """Config entries by full key; two different values of one key are added to `problems`."""
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
    key, value = entry.key, entry.value
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


# What is wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownKey:
    """What becomes of keys that are none of ours, under one benchmark."""

    settings: type[BaseModel] | None
    benchmark: str | None
    registry: Registry

    def check(self, entry: ConfigEntry, problems: list[str], warnings: list[str]) -> None:
        """Warn of a key that is ignored, and refuse one that nobody reads, with the near miss."""
        key = entry.key
        if key in IGNORED_KEYS:
            why, harmless = IGNORED_KEYS[key]
            if harmless is not None and not is_harmless(entry.value, harmless):
                warnings.append(f"{entry}: this key has no effect ({why})")
        elif key.startswith(IGNORED_PREFIXES.get(self.benchmark or "", "\0")):
            return
        elif key in REFUSED_KEYS:
            why, harmless = REFUSED_KEYS[key]
            if not is_harmless(entry.value, harmless):
                owners = self._owners(key)
                elsewhere = f" (a key of {owners})" if owners else ""
                problems.append(f"{entry}: {entry.value!r} is refused: {why}{elsewhere}")
        elif key in tree_sections():
            problems.append(f"{entry}: is a section; expected keys below it")
        elif key.startswith("env.") and self.settings is None and self.benchmark is not None:
            return  # the benchmark itself is unknown and already named; whose key this is cannot be told
        elif key in COMMON_KEYS and self.benchmark is None:
            return  # a base file: whoever builds on it names the benchmark
        elif owners := self._owners(key):
            problems.append(f"{entry}: is a key of {owners}, and env.name is {self.benchmark}")
        else:
            problems.append(f"{entry}: unknown key. {self._near_miss(entry.written.lstrip('-'))}")

    def _owners(self, key: str) -> str:
        """The other benchmarks that have a key, where one is named."""
        found = []
        is_asked = self.benchmark is not None and key.startswith("env.")
        for each in self.registry.names() if is_asked else ():
            with contextlib.suppress(ImportError, SkillOptError):  # it lacks dependencies and cannot be asked
                if key.removeprefix("env.") in self.registry.get(each).Settings.model_fields:
                    found.append(each)
        return ", ".join(found)

    def _near_miss(self, written: str) -> str:
        own = [leaf.key for leaf in settings_leaves(self.settings)]
        if "." not in written:
            names = [key.rpartition(".")[2] for key in (*declared().keys, *own)]
            return suggest(written, [*FLAT_NAMES, *names])
        known = [*tree(), *declared().keys, *own]
        section, _, last = written.rpartition(".")
        elsewhere = [key for key in known if key.rpartition(".")[2] == last]
        if elsewhere:
            nearest = max(elsewhere, key=lambda key: difflib.SequenceMatcher(None, written, key).ratio())
            return f"Did you mean {nearest!r}?"
        if close := difflib.get_close_matches(written, known, n=1, cutoff=0.75):
            return f"Did you mean {close[0]!r}?"
        if section == "env" and self.benchmark is None:
            return "No benchmark is named (env.name), so only the common env keys exist."
        siblings = [key.rpartition(".")[2] for key in known if key.rpartition(".")[0] == section]
        if siblings:
            return suggest(last, siblings)
        return suggest(section.partition(".")[0], Config.model_fields)


def is_harmless(value: Any, harmless: Sequence[Any]) -> bool:
    """True if a key without effect holds a value that asks for none."""
    if value is None or value == "":
        return True
    # A flag or option arrives as text, so the public default is compared as text as well.
    return any(value == each or str(value).lower() == str(each).lower() for each in harmless)


def validation_messages(
    error: ValidationError,
    entries: Mapping[str, ConfigEntry],
    leaf_at: Callable[[str], Leaf | None],
    below: str = "",
) -> list[str]:
    """A line for each value that pydantic refused: where it stands, what was expected, what was written."""
    found = []
    for detail in error.errors(include_url=False, include_input=False):
        path = [*filter(None, [below]), *map(str, detail["loc"])]
        keys = [".".join(path[:end]) for end in range(len(path), 0, -1)]
        key = next((key for key in keys if key in entries), keys[0] if keys else "settings")
        found.append(_message(key, entries.get(key), leaf_at(key), detail))
    return found


def _message(key: str, entry: ConfigEntry | None, leaf: Leaf | None, detail: Any) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    said = str(detail["msg"]).removeprefix("Value error, ")
    if entry is None:
        return f"{key}: " + ("is missing" if kind == "missing" else said)
    shown = "the value" if (leaf is not None and leaf.secret) or looks_secret(key) else repr(entry.value)
    if leaf is not None and leaf.choices:
        close = difflib.get_close_matches(str(entry.value), [*leaf.spelled, *known_values(key)], n=1)
        near = f" Did you mean {close[0]!r}?" if close else ""
        return f"{entry}: {shown} is not one of {', '.join(leaf.spelled)}.{near}"
    if kind in EXPECTED:
        return f"{entry}: expected {EXPECTED[kind]}, not {shown}"
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return f"{entry}: expected {words} {context[bound]}, not {shown}"
    return f"{entry}: {shown} cannot be used ({said})"
