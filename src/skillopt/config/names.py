"""Public names of configuration, as `legacy.yaml` holds them, and what they are names of here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from skillopt.agents import AGENTS
from skillopt.config.fields import section_of
from skillopt.config.legacy import table
from skillopt.config.schema import Config
from skillopt.config.services import declared
from skillopt.models import PROVIDERS
from skillopt.registry import while_known

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


def dotted(name: str) -> str:
    """The dotted key of a flag or flat name."""
    return name if "." in name else flat_names().get(name, f"env.{name}")


@while_known(PROVIDERS, AGENTS)
def flat_names() -> Mapping[str, str]:
    """Every flat name that is no benchmark's alone, and its key."""
    keys = (*declared().keys, *IGNORED_KEYS, *REFUSED_KEYS, *ALIASES)
    return {**{key.rpartition(".")[2]: key for key in keys}, **SHORT_NAMES, **FLAT_NAMES}


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
    found = {**{name: value for name, value in env.items() if name != "name"}}
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
