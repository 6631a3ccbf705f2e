"""Checks keys and values by what declares them: a typed tree, or what is wrong with a near miss."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from skillopt.config.fields import Leaf, nested
from skillopt.config.keys import (
    FLAT_NAMES,
    IGNORED_KEYS,
    IGNORED_PREFIXES,
    OF_BENCHMARKS,
    REFUSED_KEYS,
    known_values,
    leaf_of,
    settings_leaves,
    tracker_settings,
    tree,
    tree_sections,
)
from skillopt.config.layers import ConfigEntry
from skillopt.config.roles import provider_of
from skillopt.config.schema import Config
from skillopt.config.sections import RARE_ROLES, ROLES
from skillopt.config.service import EXPECTED
from skillopt.config.services import declared
from skillopt.errors import SkillOptError, suggest
from skillopt.gate.policies import POLICIES
from skillopt.optimizer.proposers import PROPOSERS
from skillopt.redact import looks_secret
from skillopt.registry import Registry
from skillopt.train.strategies import STRATEGIES

M = TypeVar("M", bound=BaseModel)
COMMON_KEYS = frozenset(f"env.{name}" for name in OF_BENCHMARKS)
"""Keys of every benchmark whose tasks come from files; a base file may hold them without naming one."""
_BOUNDS = {
    **{"greater_than_equal": ("ge", "at least"), "greater_than": ("gt", "more than")},
    **{"less_than_equal": ("le", "at most"), "less_than": ("lt", "less than")},
}
_PLUGINS = {"gate.policy": POLICIES, "train.strategy": STRATEGIES, "train.proposer": PROPOSERS}
"""Keys whose value is the name of a plug-in."""


def check_keys(
    entries: Iterable[ConfigEntry],
    settings: type[BaseModel] | None,
    benchmark: str | None,
    registry: Registry,
    problems: list[str],
) -> list[str]:
    """Refuse keys nobody reads; returns warnings about ignored keys and credentials on a command line."""
    warnings: list[str] = []
    for entry in entries:
        key, leaf = entry.key, leaf_of(entry.key, settings)
        if leaf is not None:
            if leaf.secret and entry.source.layer in ("flag", "cfg-options") and entry.value:
                warnings.append(
                    f"{entry.written}: a key on the command line can be read by other users; put it in the"
                    " environment"
                )
        elif key in IGNORED_KEYS:
            why, harmless = IGNORED_KEYS[key]
            if harmless is not None and not is_harmless(entry.value, harmless):
                warnings.append(f"{entry}: this key has no effect ({why})")
        elif key.startswith(IGNORED_PREFIXES.get(benchmark or "", "\0")):
            continue
        elif key in REFUSED_KEYS:
            why, harmless = REFUSED_KEYS[key]
            if not is_harmless(entry.value, harmless):
                owners = _owners(key, benchmark, registry)
                elsewhere = f" (a key of {owners})" if owners else ""
                problems.append(f"{entry}: {entry.value!r} is refused: {why}{elsewhere}")
        elif key in tree_sections():
            problems.append(f"{entry}: is a section; expected keys below it")
        elif key.startswith("env.") and settings is None and benchmark is not None:
            continue  # the benchmark itself is unknown and already named; whose key this is cannot be told
        elif key in COMMON_KEYS and benchmark is None:
            continue  # a base file: whoever builds on it names the benchmark
        elif owners := _owners(key, benchmark, registry):
            problems.append(f"{entry}: is a key of {owners}, and env.name is {benchmark}")
        else:
            near = _near_miss(entry.written.lstrip("-"), settings, benchmark)
            problems.append(f"{entry}: unknown key. {near}")
    return warnings


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


def is_harmless(value: Any, harmless: Sequence[Any]) -> bool:
    """True if a key without effect holds a value that asks for none."""
    if value is None or value == "":
        return True
    # A flag or option arrives as text, so the public default is compared as text as well.
    return any(value == each or str(value).lower() == str(each).lower() for each in harmless)


def _owners(key: str, benchmark: str | None, registry: Registry) -> str:
    """The other benchmarks that have a key, where one is named."""
    found = []
    for each in registry.names() if benchmark is not None and key.startswith("env.") else ():
        with contextlib.suppress(ImportError, SkillOptError):  # it lacks its dependencies and cannot be asked
            if key.removeprefix("env.") in registry.get(each).Settings.model_fields:
                found.append(each)
    return ", ".join(found)


def _near_miss(written: str, settings: type[BaseModel] | None, benchmark: str | None) -> str:
    own = [leaf.key for leaf in settings_leaves(settings)]
    if "." not in written:
        return suggest(written, [*FLAT_NAMES, *(key.rpartition(".")[2] for key in (*declared().keys, *own))])
    known = [*tree(), *declared().keys, *own]
    section, _, last = written.rpartition(".")
    elsewhere = [key for key in known if key.rpartition(".")[2] == last]
    if elsewhere:
        nearest = max(elsewhere, key=lambda key: difflib.SequenceMatcher(None, written, key).ratio())
        return f"Did you mean {nearest!r}?"
    if close := difflib.get_close_matches(written, known, n=1, cutoff=0.75):
        return f"Did you mean {close[0]!r}?"
    if section == "env" and benchmark is None:
        return "No benchmark is named (env.name), so only the common env keys exist."
    siblings = [key.rpartition(".")[2] for key in known if key.rpartition(".")[0] == section]
    tops = [name for name in tree_sections() if "." not in name]
    return suggest(last, siblings) if siblings else suggest(section.partition(".")[0], tops)


def typed(
    values: Mapping[str, Any],
    merged: Mapping[str, ConfigEntry],
    settings: type[BaseModel] | None,
    problems: list[str],
) -> Config | None:
    """The tree of values that were read one by one, with what benchmark, providers and trackers declare. What
    does not fit together is added to `problems`; None where there is no tree.
    """

    def valid(model: type[M], given: Any, below: str = "") -> M | None:
        try:
            return model.model_validate(given)
        except ValidationError as error:
            problems.extend(validation_messages(error, merged, lambda key: leaf_of(key, settings), below))
            return None

    whole = nested({key: value for key, value in values.items() if key in tree()})
    for role in (*ROLES, *RARE_ROLES):
        own_role = whole.get("model", {}).get(role, {})
        # A price of which every part is unset again is no price.
        if "price" in own_role and all(part is None for part in own_role["price"].values()):
            del own_role["price"]
        if "options" in own_role:
            given = {name: value for name, value in own_role["options"].items() if value is not None}
            service = declared().service(provider_of(str(own_role.get("name", ""))))
            valid(service.Options, given, f"model.{role}.options")
            own_role["options"] = {
                name: str(value) if isinstance(value, Path) else value for name, value in given.items()
            }
    tracking, kinds = whole.get("tracking", {}), tracker_settings()
    trackers = {name: tracking.pop(name) for name in kinds if name in tracking}
    config = valid(Config, whole)
    tracked = {name: valid(kinds[name], given, f"tracking.{name}") for name, given in trackers.items()}
    for key, registry in _PLUGINS.items():
        name, names = values.get(key), registry.names()
        if isinstance(name, str) and name not in names:
            problems.append(f"{merged[key]}: no {registry.what} named {name!r}. {suggest(name, names)}")
    own: dict[str, Any] = {"tracking.settings": {name: one for name, one in tracked.items() if one}}
    if settings is not None:
        mine = {key.removeprefix("env."): value for key, value in values.items() if key not in tree()}
        # A benchmark may also read a common key such as `workers`.
        shared = {key: values[f"env.{key}"] for key in settings.model_fields if f"env.{key}" in values}
        own["env.settings"] = valid(settings, {**mine, **shared}, "env")
    return config if config is None else config.having(own)
