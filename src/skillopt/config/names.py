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
FLAT: Mapping[str, str] = {
    **{
        name: f"{section}.{name}"
        for section in _SECTIONS
        for name, field in cast(Any, Config.model_fields[section].annotation).model_fields.items()
        if not field.exclude and (section == "model" or section_of(field.annotation) is None)
        if f"{section}.{name}" not in _TABLE["flat"].values()
    },
    **_TABLE["flat"],
}
"""Flag and flat name to dotted key. The keys of a service have the flat name of their last part. A name that
is nowhere is tried as a key of the benchmark (`env.<name>`).
"""
SHORT: Mapping[str, str] = _TABLE["short"]
DEAD: Mapping[str, tuple[str, Sequence[Any] | None]] = _TABLE["dead"]
DEAD_PREFIXES: Mapping[str, str] = _TABLE["dead_prefixes"]
REFUSED: Mapping[str, tuple[str, Sequence[Any]]] = _TABLE["refused"]
DEAD_VARIABLES: Mapping[str, tuple[str, Sequence[str]]] = _TABLE["dead_variables"]
ROLE_VARIABLES: Mapping[str, str] = _TABLE["variables"]
SECOND: Mapping[str, str] = _TABLE["second"]
WORDS: Mapping[str, Mapping[str, Sequence[str]]] = _TABLE["words"]
_NOT_SENT = ("none", "off")


def dotted(name: str) -> str:
    """The dotted key of a flag or flat name."""
    return name if "." in name else flat_names().get(name, f"env.{name}")


@while_known(PROVIDERS, AGENTS)
def flat_names() -> Mapping[str, str]:
    """Every flat name that is no benchmark's alone, and its key."""
    last_parts = {key.rpartition(".")[2]: key for key in (*declared().keys, *DEAD, *REFUSED, *SECOND)}
    return {**last_parts, **SHORT, **FLAT}


def flat_name(key: str) -> str | None:
    """The flat name that the pages show for a key."""
    if key in declared().keys:
        return key.removeprefix("model.")
    role = key.removesuffix(".name")
    return next((name for name, each in FLAT.items() if each in (key, role)), None)


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings under their public flat names; a role is the name of its model."""

    def at(key: str) -> Any:
        value: Any = settings
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value.get("name") if key in ("model.optimizer", "model.target") else value

    env: Mapping[str, Any] = settings.get("env", {})
    found = {**{name: value for name, value in env.items() if name != "name"}}
    found |= {name: at(key) for name, key in FLAT.items()}
    return {name: value for name, value in found.items() if value is not None and not isinstance(value, dict)}


def variables() -> Mapping[str, str]:
    """Environment variable to the key it sets."""
    return {**ROLE_VARIABLES, **declared().variables}


def canonical(key: str, value: Any) -> Any:
    """The value under its one name; what is no second name stays, and is judged by the key's type."""
    if key.endswith("temperature"):
        return None if _word(value) in _NOT_SENT else value
    return _names(key).get(_word(value), value)


def known_words(key: str) -> list[str]:
    """Every spelling a key knows, for the near miss."""
    return list(_names(key))


def _names(key: str) -> dict[str, str]:
    fills = declared().keys[key].fills if key in declared().keys else ".".join(key.split(".")[2:])
    words = WORDS.get(key) or WORDS.get(fills, {})
    return {word: name for name, others in words.items() for word in (name, *others)}


def _word(value: Any) -> str:
    if value is False:
        return "off"  # YAML reads an unquoted `off` as false
    return value.strip().lower().replace("-", "_") if isinstance(value, str) else ""
