"""Decides how a resolved configuration is printed: every key with its value and source, and no credential."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from skillopt.benchmarks import benchmarks
from skillopt.config.complain import looks_secret
from skillopt.config.fields import Leaf
from skillopt.config.keys import FLAT
from skillopt.config.layers import LEAVES, leaf_of, settings_leaves
from skillopt.config.load import Resolved
from skillopt.config.roles import without_password
from skillopt.redact import Scrubber

SET = "[set]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One key for the reference table."""

    key: str
    type: str
    default: Any
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One command line flag: its flat name, the key it sets, and the type it has there."""

    name: str
    key: str
    type: str
    choices: tuple[str, ...]
    description: str


def render(resolved: Resolved) -> list[tuple[str, Any, str]]:
    """Rows (dotted key, value as JSON, source) in the order of the tree; a credential is shown as `[set]`."""
    scrubber = Scrubber(resolved.secrets)
    return [(key, scrubber.scrub_json(_value(resolved, key)), str(resolved.provenance[key])) for key in _keys(resolved)]


def as_json(resolved: Resolved) -> dict[str, Any]:
    """The tree as nested JSON values, without credentials."""
    tree: dict[str, Any] = {}
    for key, value, _source in render(resolved):
        *parents, last = key.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[last] = value
    return tree


def describe(benchmark: str | None = None) -> list[Described]:
    """Every key with type, default and meaning; with a benchmark, also the `env` keys it adds."""
    own = {leaf.key: leaf for leaf in (settings_leaves(benchmarks.get(benchmark).Settings) if benchmark is not None else ())}
    found = [{**LEAVES, **own}[key] for key in _with_own(list(LEAVES), list(own))]
    return [Described(key=leaf.key, type=leaf.type_words, default=_plain(leaf.default), description=leaf.description) for leaf in found]


def flags(benchmark: str | None = None) -> list[Flag]:
    """The public flags, typed by the schema; with a benchmark, also one for each of its own keys."""
    settings: type[BaseModel] | None = benchmarks.get(benchmark).Settings if benchmark is not None else None
    names = dict(FLAT) | {leaf.key.removeprefix("env."): leaf.key for leaf in (settings_leaves(settings) if settings else ())}
    return [_flag(name, key, settings) for name, key in names.items()]


def _flag(name: str, key: str, settings: type[BaseModel] | None) -> Flag:
    texts = {
        "budget": "What the run may spend: '$2', '200k tokens', '500 calls', or several with commas.",
        "env.max_completion_tokens": LEAVES["model.target.max_tokens"].description,
    }
    leaf: Leaf | None = leaf_of(f"{key}.name" if key in ("model.optimizer", "model.target") else key, settings)
    if leaf is None:
        kind = "int" if key == "env.max_completion_tokens" else "text"
        return Flag(name=name, key=key, type=kind, choices=(), description=texts.get(key, "A key of the benchmark."))
    return Flag(name=name, key=key, type=leaf.type_words, choices=tuple(map(str, leaf.choices)), description=leaf.description)


def _keys(resolved: Resolved) -> list[str]:
    settings = resolved.config.env.settings
    own = [leaf.key for leaf in settings_leaves(type(settings))] if settings is not None else []
    return _with_own(list(LEAVES), own)


def _with_own(keys: list[str], own: list[str]) -> list[str]:
    """A benchmark's keys stand behind the common ones of `env`."""
    after = max(place for place, key in enumerate(keys) if key.startswith("env.")) + 1
    return [*keys[:after], *own, *keys[after:]]


def _value(resolved: Resolved, key: str) -> Any:
    value: Any = resolved.config
    own = key not in LEAVES
    for part in key.split("."):
        value = getattr(value.settings if own and part != "env" else value, part, None)
    if value is not None and (isinstance(value, SecretStr) or looks_secret(key)):
        return SET
    if key.endswith(("base_url", "endpoint")) and isinstance(value, str):
        return without_password(value)
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
