"""Every key of configuration, and the public names (`legacy.yaml`) that keys and values also go by."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic import BaseModel

from skillopt.agents import AGENTS
from skillopt.benchmarks import benchmarks
from skillopt.config.fields import Leaf, leaves, section_of, sections
from skillopt.config.schema import Config
from skillopt.config.sections import RARE_ROLES, ROLES
from skillopt.config.service import table
from skillopt.config.services import declared
from skillopt.errors import SkillOptError
from skillopt.models import PROVIDERS
from skillopt.registry import while_known
from skillopt.trackers import trackers

ROLE_KEYS = tuple(f"model.{role}" for role in (*ROLES, *RARE_ROLES))
OF_BENCHMARKS = ("split_mode", "split_ratio", "split_seed", "split_dir", "data_path", "limit")
"""The last parts of the keys that every benchmark of files has."""
_TABLE = table()
_SECTIONS = ("model", "train", "gradient", "optimizer", "evaluation", "env")
FLAT_NAMES: Mapping[str, str] = {
    **{
        name: f"{section}.{name}"
        for section in _SECTIONS
        for name, field in cast(Any, Config.model_fields[section].annotation).model_fields.items()
        if not field.exclude and (section == "model" or section_of(field.annotation) is None)
        if f"{section}.{name}" not in _TABLE["flat_names"].values()
    },
    **_TABLE["flat_names"],
}
"""Flag and flat name to dotted key. The keys of a service have the flat name of their last part. A name that
is nowhere is tried as a key of the benchmark (`env.<name>`).
"""
SHORT_NAMES: Mapping[str, str] = _TABLE["short_names"]
ALIASES: Mapping[str, str] = _TABLE["aliases"]
VALUE_ALIASES: Mapping[str, Mapping[str, Sequence[str]]] = _TABLE["value_aliases"]
ROLE_VARIABLES: Mapping[str, str] = _TABLE["role_variables"]
IGNORED_KEYS: Mapping[str, tuple[str, Sequence[Any] | None]] = _TABLE["ignored_keys"]
IGNORED_PREFIXES: Mapping[str, str] = _TABLE["ignored_prefixes"]
IGNORED_VARIABLES: Mapping[str, tuple[str, Sequence[str]]] = _TABLE["ignored_variables"]
REFUSED_KEYS: Mapping[str, tuple[str, Sequence[Any]]] = _TABLE["refused_keys"]
_OPTIONS = tuple(f"{role}.options" for role in ROLE_KEYS)
_BUDGET = "What the run may spend: '$2', '200k tokens', '500 calls', '30 minutes', or several with commas."


# The keys


@while_known(PROVIDERS, AGENTS, trackers)
def tree() -> Mapping[str, Leaf]:
    """Every key that does not belong to one benchmark: those of the schema, with the options of all providers
    and the settings of all trackers.
    """
    keys: dict[str, Leaf] = {}
    for leaf in leaves(Config):
        if leaf.key in _OPTIONS:
            for option in declared().options.values():
                key = f"{leaf.key}.{option.key}"
                keys[key] = replace(option, key=key)
        else:
            keys[leaf.key] = leaf
    for name, settings in tracker_settings().items():
        keys |= {leaf.key: leaf for leaf in leaves(settings, f"tracking.{name}.")}
    return keys


@while_known(trackers)
def tracker_settings() -> Mapping[str, type[BaseModel]]:
    """The settings that trackers declare, by name."""
    found = {}
    for name in trackers.names():
        with contextlib.suppress(Exception):  # a package that fails to import says so when it is used
            found[name] = trackers.get(name).Settings
    return found


@while_known(trackers)
def tree_sections() -> tuple[str, ...]:
    """Every dotted key that holds further keys."""
    return (*sections(Config), *_OPTIONS, *(f"tracking.{name}" for name in tracker_settings()))


def settings_leaves(settings: type[BaseModel] | None) -> list[Leaf]:
    """The keys that a benchmark adds to `env`; one that the tree already has stays the tree's."""
    return [] if settings is None else [leaf for leaf in leaves(settings, "env.") if leaf.key not in tree()]


def leaf_of(key: str, settings: type[BaseModel] | None) -> Leaf | None:
    """The key of the tree, of a provider or of the benchmark, or None."""
    if key in tree():
        return tree()[key]
    if key in declared().keys:
        return declared().keys[key].leaf
    if settings is None or key.removeprefix("env.") not in settings.model_fields:
        return None
    return next((leaf for leaf in settings_leaves(settings) if leaf.key == key), None)


def keys_with(settings: type[BaseModel] | None) -> list[Leaf]:
    """Every key with those of a benchmark, which stand behind the common ones of `env`."""
    common = list(tree().values())
    after = max(place for place, leaf in enumerate(common) if leaf.key.startswith("env.")) + 1
    return [*common[:after], *settings_leaves(settings), *common[after:]]


def describe(benchmark: str | None = None) -> list[Leaf]:
    """Every key with type, default and meaning; with a benchmark, also the `env` keys it adds."""
    return keys_with(None if benchmark is None else benchmarks.get(benchmark).Settings)


# The names


def dotted(name: str) -> str:
    """The dotted key of a flag or flat name."""
    return name if "." in name else flat_names().get(name, f"env.{name}")


@while_known(PROVIDERS, AGENTS)
def flat_names() -> Mapping[str, str]:
    """Every flat name that is no benchmark's alone, and its key."""
    keys = (*declared().keys, *IGNORED_KEYS, *REFUSED_KEYS, *ALIASES)
    return {**{key.rpartition(".")[2]: key for key in keys}, **SHORT_NAMES, **FLAT_NAMES}


@while_known(PROVIDERS, AGENTS, benchmarks)
def flag_names() -> frozenset[str]:
    """Every name that a flag may have beside the dotted keys."""
    found = set(flat_names())
    for name in benchmarks.names():
        with contextlib.suppress(ImportError, SkillOptError):  # it says so when it is used
            found |= benchmarks.get(name).Settings.model_fields.keys()
    return frozenset(found)


def flag_leaf(name: str) -> Leaf | None:
    """The key that a flag of this name sets; a key of benchmarks as `own` describes it."""
    key = dotted(name)
    if key == "budget":
        return Leaf(key=key, annotation=str, default=None, description=_BUDGET)
    return leaf_of(f"{key}.name" if key in ROLE_KEYS else key, benchmarks.get("own").Settings)


def flat_name(key: str) -> str | None:
    """The flat name that the pages show for a key."""
    if key in declared().keys:
        return key.removeprefix("model.")
    role = key.removesuffix(".name")
    return next((name for name, each in FLAT_NAMES.items() if each in (key, role)), None)


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings under their public flat names; a role is the name of its model."""

    def at(key: str) -> Any:
        value: Any = settings
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value.get("name") if key in ("model.optimizer", "model.target") else value

    env: Mapping[str, Any] = settings.get("env", {})
    found = {name: value for name, value in env.items() if name != "name"}
    found |= {name: at(key) for name, key in FLAT_NAMES.items()}
    return {name: value for name, value in found.items() if value is not None and not isinstance(value, dict)}


def variables() -> Mapping[str, str]:
    """Environment variable to the key it sets."""
    return {**ROLE_VARIABLES, **declared().variables}


def canonical(key: str, value: Any) -> Any:
    """The value under its one name; what is no alias stays, and is judged by the key's type."""
    word = value.strip().lower().replace("-", "_") if isinstance(value, str) else ""
    if value is False:
        word = "off"  # YAML reads an unquoted `off` as false
    if key.endswith("temperature"):
        return None if word in ("none", "off") else value
    return known_values(key).get(word, value)


def known_values(key: str) -> dict[str, str]:
    """Every spelling of a value that a key knows, and the value."""
    fills = declared().keys[key].fills if key in declared().keys else ".".join(key.split(".")[2:])
    names = VALUE_ALIASES.get(key) or VALUE_ALIASES.get(fills, {})
    return {word: name for name, others in names.items() for word in (name, *others)}
