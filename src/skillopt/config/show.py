"""Shows configuration: the values of a run with their sources and no credential, and every key there is."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr
from pydantic_core import to_jsonable_python

from skillopt.agents import AGENTS
from skillopt.benchmarks import benchmarks
from skillopt.config.fields import Leaf, nested
from skillopt.config.layers import SET, leaf_of, settings_leaves, tree
from skillopt.config.load import Resolved
from skillopt.config.names import dotted, flat_names
from skillopt.config.sections import RARE_ROLES, ROLES
from skillopt.errors import SkillOptError
from skillopt.models import PROVIDERS
from skillopt.redact import Scrubber, looks_secret, without_password
from skillopt.registry import while_known

_BUDGET = "What the run may spend: '$2', '200k tokens', '500 calls', '30 minutes', or several with commas."
_RARE = re.compile(r"model\.((optimizer|target)\.(options|agent)|judge|proposer)\.")


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


def setting(name: str) -> Leaf | None:
    """The key that a flag of this name sets; a key of benchmarks as `own` describes it."""
    key = dotted(name)
    if key == "budget":
        return Leaf(key=key, annotation=str, default=None, description=_BUDGET)
    role = key.removeprefix("model.") in (*ROLES, *RARE_ROLES)
    return leaf_of(f"{key}.name" if role else key, benchmarks.get("own").Settings)


@while_known(PROVIDERS, AGENTS, benchmarks)
def setting_names() -> frozenset[str]:
    """Every name that a flag may have beside the dotted keys."""
    found = set(flat_names())
    for name in benchmarks.names():
        with contextlib.suppress(ImportError, SkillOptError):  # it says so when it is used
            found |= benchmarks.get(name).Settings.model_fields.keys()
    return frozenset(found)


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
