"""Shows configuration: the values of a run with their sources and no credential, every key there is, and the
command line flags that follow from the keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic_core import to_jsonable_python

from skillopt.benchmarks import benchmarks
from skillopt.config.fields import Leaf, nested
from skillopt.config.layers import leaf_of, settings_leaves, tree
from skillopt.config.load import Resolved
from skillopt.config.names import DEAD, FLAT, REFUSED, aliases
from skillopt.config.sections import RARE_ROLES, ROLES
from skillopt.config.services import declared
from skillopt.config.source import SET
from skillopt.redact import Scrubber, looks_secret, without_password

OF_A_BENCHMARK = "A key of the benchmark."
_RARE = re.compile(r"model\.((optimizer|target)\.(options|agent)|judge|proposer)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One command line flag: its flat name, the key it sets, and the type it has there."""

    name: str
    key: str
    type: str
    description: str
    hidden: bool = False
    """Accepted for the sake of old command lines, and not offered."""


def render(resolved: Resolved) -> list[tuple[str, Any, str]]:
    """Rows (dotted key, value as JSON, source) in the order of the tree; a credential is shown as `[set]`.

    Of the many options and agent settings of a role, and of a judge or a proposer, only what is set is shown.
    """
    scrubber, settings = Scrubber(resolved.secrets), resolved.config.env.settings
    own = [] if settings is None else settings_leaves(type(settings))
    rows = [
        (key, scrubber.scrub_json(_value(resolved, key)), str(resolved.provenance[key]))
        for key in _with_own([leaf.key for leaf in own])
    ]
    return [row for row in rows if row[1] is not None or not _RARE.match(row[0])]


def as_json(resolved: Resolved) -> dict[str, Any]:
    """The tree as nested JSON values, without credentials."""
    return nested({key: value for key, value, _ in render(resolved)})


def describe(benchmark: str | None = None) -> list[Leaf]:
    """Every key with type, default and meaning; with a benchmark, also the `env` keys it adds."""
    own = [] if benchmark is None else settings_leaves(benchmarks.get(benchmark).Settings)
    known = {**tree(), **{leaf.key: leaf for leaf in own}}
    return [known[key] for key in _with_own([leaf.key for leaf in own])]


def flags() -> list[Flag]:
    """The public flags, typed by the schema."""
    names = dict(FLAT) | {key.removeprefix("model."): key for key in declared().keys}
    offered = {name: _flag(name, key, None) for name, key in names.items()}
    silent = {key.rpartition(".")[2]: key for key in (*DEAD, *REFUSED, *aliases())} | {
        "meta_edit_budget": "optimizer.meta_learning_rate"
    }
    return [*offered.values(), *(_silent(name, key) for name, key in silent.items() if name not in offered)]


def own_flags(benchmark: str) -> list[Flag]:
    """The flags of the keys that a benchmark adds."""
    settings = benchmarks.get(benchmark).Settings
    keys = [leaf.key for leaf in settings_leaves(settings)]
    names = {name: key for name, key in FLAT.items() if key in keys}
    names |= {key.removeprefix("env."): key for key in keys}
    return [_flag(name, key, settings) for name, key in names.items()]


def _flag(name: str, key: str, settings: type[BaseModel] | None) -> Flag:
    leaf = leaf_of(
        f"{key}.name" if key in (f"model.{role}" for role in (*ROLES, *RARE_ROLES)) else key, settings
    )
    if leaf is None:
        texts = {
            "budget": (
                "What the run may spend: '$2', '200k tokens', '500 calls', '30 minutes', or several with"
                " commas."
            ),
            "env.max_completion_tokens": tree()["model.target.max_tokens"].description,
        }
        kind = "int" if key == "env.max_completion_tokens" else "text"
        return Flag(name=name, key=key, type=kind, description=texts.get(key, OF_A_BENCHMARK))
    return Flag(name=name, key=key, type=leaf.type, description=leaf.description)


def _silent(name: str, key: str) -> Flag:
    if key in aliases():
        text = f"The same as --{aliases()[key].rpartition('.')[2]}."
    else:
        text = "Has no effect." if key in DEAD else "Is refused unless it asks for nothing."
    return Flag(name=name, key=key, type="text", description=text, hidden=True)


def _with_own(own: list[str]) -> list[str]:
    """The keys of the tree; a benchmark's stand behind the common ones of `env`."""
    keys = list(tree())
    after = max(place for place, key in enumerate(keys) if key.startswith("env.")) + 1
    return [*keys[:after], *own, *keys[after:]]


def _value(resolved: Resolved, key: str) -> Any:
    value: Any = resolved.config
    section, _, rest = key.partition(".")
    tracker = rest.partition(".")[0] if section == "tracking" else ""
    if key not in tree() and section == "env":
        value = getattr(value.env.settings, rest, None)
    elif tracker in value.tracking.settings:
        value = getattr(value.tracking.settings[tracker], rest.partition(".")[2], None)
    else:
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
    if value is not None and (isinstance(value, SecretStr) or looks_secret(key)):
        return SET
    if key.endswith(("base_url", "endpoint")) and isinstance(value, str):
        return without_password(value)
    return to_jsonable_python(value, fallback=str)
