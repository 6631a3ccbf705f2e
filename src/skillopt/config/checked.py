"""Keys and values are checked by whoever declares them: a typed tree, or what is wrong with a near miss."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from skillopt.config.fields import Leaf, nested
from skillopt.config.layers import leaf_of, settings_leaves, tracker_settings, tree, tree_sections
from skillopt.config.model_string import provider_of
from skillopt.config.names import (
    DEAD,
    DEAD_PREFIXES,
    DEAD_VARIABLES,
    FLAT,
    OF_BENCHMARKS,
    REFUSED,
    known_words,
)
from skillopt.config.schema import Config
from skillopt.config.sections import RARE_ROLES, ROLES
from skillopt.config.services import declared
from skillopt.config.source import ConfigEntry, Layer
from skillopt.errors import SkillOptError, suggest
from skillopt.gate.policies import POLICIES
from skillopt.optimizer.proposers import PROPOSERS
from skillopt.redact import looks_secret
from skillopt.registry import Registry
from skillopt.services import EXPECTED
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


def about_dead(variables: Mapping[Layer, Mapping[str, str]]) -> list[str]:
    """A warning for every variable that somebody set and that changes nothing here."""
    given = {name: value for names in variables.values() for name, value in names.items() if value}
    return [
        f"The variable {name} has no effect here: {why}."
        for name, (why, unasking) in DEAD_VARIABLES.items()
        if name in given and given[name] not in unasking
    ]


def check_keys(
    entries: Iterable[ConfigEntry],
    settings: type[BaseModel] | None,
    benchmark: str | None,
    registry: Registry,
    problems: list[str],
) -> list[str]:
    """Refuse keys nobody reads; returns warnings about dead keys and credentials on a command line."""
    warnings: list[str] = []
    for entry in entries:
        leaf = leaf_of(entry.key, settings)
        if leaf is not None:
            if leaf.secret and entry.source.layer in ("flag", "cfg-options") and entry.value:
                warnings.append(
                    f"{entry.written}: a key on the command line can be read by other users; put it in the"
                    " environment"
                )
        elif entry.key in DEAD:
            why, unasking = DEAD[entry.key]
            if unasking is not None and not asks_for_nothing(entry.value, unasking):
                warnings.append(f"{entry}: this key has no effect ({why})")
        elif entry.key.startswith(DEAD_PREFIXES.get(benchmark or "", "\0")):
            continue
        elif entry.key in REFUSED:
            why, harmless = REFUSED[entry.key]
            if not asks_for_nothing(entry.value, harmless):
                owners = ", ".join(_owners(entry, benchmark, registry))
                elsewhere = f" (a key of {owners})" if owners else ""
                problems.append(f"{entry}: {entry.value!r} is refused: {why}{elsewhere}")
        elif entry.key in tree_sections():
            problems.append(f"{entry}: is a section; expected keys below it")
        elif entry.key.startswith("env.") and settings is None and benchmark is not None:
            continue  # the benchmark itself is unknown and already named; whose key this is cannot be told
        elif entry.key in COMMON_KEYS and benchmark is None:
            continue  # a base file: whoever builds on it names the benchmark
        else:
            owners = ", ".join(_owners(entry, benchmark, registry))
            why = f"is a key of {owners}, and env.name is {benchmark}" if owners else ""
            problems.append(f"{entry}: {why or f'unknown key. {_near_miss(entry, settings, benchmark)}'}")
    return list(dict.fromkeys(warnings))


def value_problem(key: str, entry: ConfigEntry | None, leaf: Leaf | None, detail: Any) -> str:
    """One line about a value that pydantic refused: where it stands, what was expected, what was written."""
    kind, context = detail["type"], detail.get("ctx", {})
    if entry is None:
        message = "is missing" if kind == "missing" else str(detail["msg"]).removeprefix("Value error, ")
        return f"{key}: {message}"
    where = str(entry)
    shown = "the value" if (leaf is not None and leaf.secret) or looks_secret(key) else repr(entry.value)
    if leaf is not None and leaf.choices:
        close = difflib.get_close_matches(str(entry.value), [*leaf.spelled, *known_words(key)], n=1)
        near = f" Did you mean {close[0]!r}?" if close else ""
        return f"{where}: {shown} is not one of {', '.join(leaf.spelled)}.{near}"
    if kind in EXPECTED:
        return f"{where}: expected {EXPECTED[kind]}, not {shown}"
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return f"{where}: expected {words} {context[bound]}, not {shown}"
    return f"{where}: {shown} cannot be used ({str(detail['msg']).removeprefix('Value error, ')})"


def _owners(entry: ConfigEntry, benchmark: str | None, registry: Registry) -> list[str]:
    """The other benchmarks that have this key."""
    name = entry.key.removeprefix("env.")
    if name == entry.key or benchmark is None:
        return []
    found = []
    for each in registry.names():
        with contextlib.suppress(ImportError, SkillOptError):  # it lacks its dependencies and cannot be asked
            if name in registry.get(each).Settings.model_fields:
                found.append(each)
    return found


def _near_miss(entry: ConfigEntry, settings: type[BaseModel] | None, benchmark: str | None) -> str:
    own = [leaf.key for leaf in settings_leaves(settings)] if settings else []
    known = [*tree(), *declared().keys, *own]
    written = entry.written.lstrip("-")
    if "." not in written:
        return suggest(written, [*FLAT, *(key.rpartition(".")[2] for key in (*declared().keys, *own))])
    section, _, last = written.rpartition(".")
    elsewhere = [key for key in known if key.rpartition(".")[2] == last]
    if elsewhere:
        nearest = max(elsewhere, key=lambda key: difflib.SequenceMatcher(None, written, key).ratio())
        return f"Did you mean {nearest!r}?"
    close = difflib.get_close_matches(written, known, n=1, cutoff=0.75)
    if close:
        return f"Did you mean {close[0]!r}?"
    if section == "env" and benchmark is None:
        return "No benchmark is named (env.name), so only the common env keys exist."
    siblings = [key.rpartition(".")[2] for key in known if key.rpartition(".")[0] == section]
    if siblings:
        return suggest(last, siblings)
    return suggest(section.partition(".")[0], [name for name in tree_sections() if "." not in name])


def asks_for_nothing(value: Any, harmless: Sequence[Any]) -> bool:
    """Whether the value of a key that has no effect is one that wants none."""
    if value is None or value == "":
        return True
    # A flag or option arrives as text, so the public default is compared as text as well.
    return any(value == each or str(value).lower() == str(each).lower() for each in harmless)


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
            for detail in error.errors(include_url=False, include_input=False):
                key = ".".join([*filter(None, [below]), *map(str, detail["loc"])])
                problems.append(value_problem(key, merged.get(key), leaf_of(key, settings), detail))
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
    own: dict[str, Any] = {
        "tracking.settings": {name: one for name, one in tracked.items() if one is not None}
    }
    if settings is not None:
        mine = {key.removeprefix("env."): value for key, value in values.items() if key not in tree()}
        # A benchmark may also read a common key such as `workers`.
        shared = {key: values[f"env.{key}"] for key in settings.model_fields if f"env.{key}" in values}
        own["env.settings"] = valid(settings, {**mine, **shared}, "env")
    return config if config is None else config.having(own)
