"""Decides how a resolved configuration is printed: every key with its value and source, and no credential."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from skillopt.benchmarks import benchmarks
from skillopt.config.fields import Leaf
from skillopt.config.layers import LEAVES, settings_leaves
from skillopt.config.load import Resolved
from skillopt.config.provider_keys import PROVIDER_KEYS
from skillopt.redact import Scrubber, looks_secret, without_password

SET = "[set]"
_RARE = re.compile(r"model\.((optimizer|target)\.(options|agent)|judge)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One key for the reference table."""

    key: str
    type: str
    default: Any
    description: str


def render(resolved: Resolved) -> list[tuple[str, Any, str]]:
    """Rows (dotted key, value as JSON, source) in the order of the tree; a credential is shown as `[set]`.

    Of the many options and agent settings of a role, and of a judge, only what is set is shown.
    """
    scrubber = Scrubber(resolved.secrets)
    rows = [
        (key, scrubber.scrub_json(_value(resolved, key)), str(resolved.provenance[key]))
        for key in _keys(resolved)
    ]
    return [row for row in rows if row[1] is not None or not _RARE.match(row[0])]


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
    own = {
        leaf.key: leaf
        for leaf in (settings_leaves(benchmarks.get(benchmark).Settings) if benchmark is not None else ())
    }
    return [_described({**LEAVES, **own}[key]) for key in _with_own(list(LEAVES), list(own))]


def describe_providers() -> list[Described]:
    """The public keys that belong to a provider or an agent program."""
    return [_described(each.leaf) for each in PROVIDER_KEYS.values()]


def _described(leaf: Leaf) -> Described:
    return Described(
        key=leaf.key, type=leaf.type_words, default=_plain(leaf.default), description=leaf.description
    )


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
