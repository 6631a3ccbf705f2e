"""What each layer says: files, options, flags and variables become entries under one dotted key."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from skillopt.agents import AGENTS
from skillopt.config.fields import Leaf, leaves, sections
from skillopt.config.files import BASE_KEY, ConfigFile
from skillopt.config.names import FLAT, SECOND, canonical, dotted, variables
from skillopt.config.schema import Config
from skillopt.config.sections import RARE_ROLES, ROLES, parse_budget
from skillopt.config.services import declared
from skillopt.config.source import ConfigEntry, Layer, Source
from skillopt.config.yaml_file import Node
from skillopt.errors import ConfigError, suggest
from skillopt.models import PROVIDERS
from skillopt.registry import while_known
from skillopt.trackers import trackers

_NAMED = tuple(f"model.{role}" for role in (*ROLES, *RARE_ROLES))
_OPTIONS = tuple(f"{role}.options" for role in _NAMED)


@while_known(trackers)
def tracker_settings() -> Mapping[str, type[BaseModel]]:
    """The settings that trackers declare, by name; one whose package fails says so when it is used."""
    found = {}
    for name in trackers.names():
        with contextlib.suppress(Exception):
            found[name] = trackers.get(name).Settings
    return found


@while_known(PROVIDERS, AGENTS, trackers)
def tree() -> Mapping[str, Leaf]:
    """Every key: those of the schema, with all providers' options and all trackers' settings."""
    found: dict[str, Leaf] = {}
    for leaf in leaves(Config):
        below = declared().options.values() if leaf.key in _OPTIONS else None
        for each in [leaf] if below is None else [replace(one, key=f"{leaf.key}.{one.key}") for one in below]:
            found[each.key] = each
    for name, settings in tracker_settings().items():
        found |= {leaf.key: leaf for leaf in leaves(settings, f"tracking.{name}.")}
    return found


@while_known(trackers)
def tree_sections() -> tuple[str, ...]:
    """Every dotted key that holds further keys."""
    return (*sections(Config), *_OPTIONS, *(f"tracking.{name}" for name in tracker_settings()))


def file_layer(document: ConfigFile, problems: list[str]) -> dict[str, ConfigEntry]:
    """What one file says; within it the structured form beats the flat one."""
    flat: list[ConfigEntry] = []
    structured: list[ConfigEntry] = []
    for key, node in (document.root.children or {}).items():
        if key == BASE_KEY:
            continue
        if key in tree_sections() and (node.children is not None or node.value is None):
            structured += _walk(key, node, document)
        elif node.children is not None:
            tops = [name for name in tree_sections() if "." not in name]
            problems.append(f"{document.shown}:{node.line}: no section named {key!r}. {suggest(key, tops)}")
        elif key in tree_sections() and key not in ("env", "budget"):
            problems.append(f"{document.shown}:{node.line}: {key!r} is a section: expected keys below it")
        else:
            flat.append(_entry(dotted(key), node.plain(), key, node.line, document))
    return _layer(flat, problems) | _layer(structured, problems)


def option_layer(
    options: Sequence[str], settings: type[BaseModel] | None, problems: list[str]
) -> dict[str, ConfigEntry]:
    """What `--cfg-options a.b=c` says; a later option beats an earlier one."""
    found: dict[str, ConfigEntry] = {}
    for option in options:
        written, equals, text = option.partition("=")
        written = written.strip()
        if not equals or not written:
            # Only the part before the first space or colon: the rest might be a credential in the wrong form.
            problems.append(
                f"--cfg-options {(written.replace(':', ' ').split() or [''])[0]!r}: expected"
                " section.key=value"
            )
            continue
        source = Source(layer="cfg-options", where=written)
        entry = ConfigEntry(key=_key_of(written, settings), value=text, source=source, written=written)
        found |= _layer([entry], problems)
    return found


def flag_layer(
    flags: Mapping[str, object], settings: type[BaseModel] | None, problems: list[str]
) -> dict[str, ConfigEntry]:
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
) -> dict[str, ConfigEntry]:
    """What the variables say; a blank one says nothing, and of two for one key the first counts.

    A `.env` may be somebody else's: it does not decide which program starts and what that may do.
    """
    found: dict[str, ConfigEntry] = {}
    for name, key in variables().items():
        if not given.get(name) or key in found:
            continue
        each = declared().keys.get(key)
        if layer == ".env" and each is not None and each.fills.startswith("agent."):
            warnings.append(
                f"{name} in .env is not used: settings of a program belong in the environment or in the"
                " configuration"
            )
            continue
        source = Source(layer=layer, where=name)
        found[key] = ConfigEntry(key=key, value=given[name], source=source, written=name)
    return _layer(found.values(), problems)


def default_layer(defaults: Mapping[str, Any], benchmark: str, problems: list[str]) -> dict[str, ConfigEntry]:
    """What the benchmark sets when the user did not."""
    entries = [ConfigEntry.by_default(key, value, f"of {benchmark}") for key, value in defaults.items()]
    return _layer(entries, problems)


def leaf_of(key: str, settings: type[BaseModel] | None) -> Leaf | None:
    """The key of the tree, of a provider or of the benchmark, or None."""
    if (known := tree().get(key)) is not None:
        return known
    if (of_service := declared().keys.get(key)) is not None:
        return of_service.leaf
    name = key.removeprefix("env.")
    if name != key and settings is not None and name in settings.model_fields:
        return next(leaf for leaf in leaves(settings, "env.") if leaf.key == key)
    return None


def _key_of(name: str, settings: type[BaseModel] | None) -> str:
    """The key of a flag; a benchmark's own key comes before an old second name, not before a flat name."""
    is_own = settings is not None and name in settings.model_fields and name not in FLAT
    return f"env.{name}" if is_own else dotted(name)


def settings_leaves(settings: type[BaseModel]) -> list[Leaf]:
    """The keys a benchmark adds to `env`; one that the tree already has stays the tree's."""
    return [leaf for leaf in leaves(settings, "env.") if leaf.key not in tree()]


def _walk(prefix: str, node: Node, document: ConfigFile) -> list[ConfigEntry]:
    found: list[ConfigEntry] = []
    for key, child in (node.children or {}).items():
        full = f"{prefix}.{key}"
        # A mapping that is no section of ours is one value: a benchmark's own key, or an unknown one to be
        # named as a whole.
        if full in tree_sections() and (child.children is not None or child.value is None):
            found += _walk(full, child, document)
        else:
            found.append(_entry(full, child.plain(), full, child.line, document))
    return found


def _entry(key: str, value: Any, written: str, line: int, document: ConfigFile) -> ConfigEntry:
    source = Source(layer="config", where=f"{document.shown}:{line}")
    return ConfigEntry(key=key, value=value, source=source, written=written, folder=document.path.parent)


def _layer(entries: Iterable[ConfigEntry], problems: list[str]) -> dict[str, ConfigEntry]:
    """Entries by key: shorthands spelled out, second names joined."""
    found: dict[str, ConfigEntry] = {}
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
    key, value = _first_name(entry.key), entry.value
    if key in _NAMED and not isinstance(value, dict):
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


def _first_name(key: str) -> str:
    """The key that a second name stands for; `tracking.mlflow_uri` is `tracking.mlflow.uri`."""
    if key.startswith("tracking.") and key not in tree():
        for name, settings in tracker_settings().items():
            field = key.removeprefix(f"tracking.{name}_")
            if field in settings.model_fields:
                return f"tracking.{name}.{field}"
    return SECOND.get(key, key)
