"""Every key of configuration: of the schema, providers, agent programs, trackers and benchmarks; and the
public names (`legacy.yaml`) that keys, values, variables and backends also go by.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, Optional, cast

from pydantic import BaseModel

from skillopt.agents import AGENTS, agent, driven
from skillopt.agents.port import Agent
from skillopt.benchmarks import benchmarks
from skillopt.config.fields import Leaf, leaves, section_of, sections
from skillopt.config.schema import Config
from skillopt.config.sections import RARE_ROLES, ROLES, RoleConfig, RoleName
from skillopt.config.service import PublicNames, Service, ValueAliases, public_names, table
from skillopt.models import PROVIDERS, provider
from skillopt.registry import while_known
from skillopt.trackers import trackers

CHAT = "chat"
ROLE_KEYS = tuple(f"model.{role}" for role in (*ROLES, *RARE_ROLES))
_TABLE = table()
FLAT_NAMES: Mapping[str, str] = {
    **{
        name: f"{section}.{name}"
        for section in ("model", "train", "gradient", "optimizer", "evaluation", "env")
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
_TEXTS = {
    "name": "Model of the roles on {owner} that name none.",
    "base_url": "Endpoint of the roles on {owner}.",
    "api_key": "Key of the roles on {owner}; better kept in the environment.",
}


# What providers and agent programs declare


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceKey:
    """One public key of a provider, a login or an agent program."""

    leaf: Leaf
    owner: str
    """The provider or login, or the agent."""
    role: RoleName | None
    """The role it is for; None is both."""
    fills: str
    """The part of a role's settings."""
    words: ValueAliases | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What a public backend name stands for."""

    provider: str
    harness: str = CHAT
    optimizer: bool = True
    """Whether an optimizer can have it."""
    fills_optimizer: bool = True
    """Whether it reaches the optimizer when it is the common `model.backend`."""
    open: bool = False
    """Whether an address decides: this provider, or one that stands in for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Everything that is declared."""

    services: Mapping[str, Service]
    """Providers, and the logins of agent programs, by the name that stands in a model string."""
    programs: Mapping[str, Agent]
    """Agent programs by the name of their harness."""
    names: Mapping[str, PublicNames]
    """The public names of both."""
    keys: Mapping[str, ServiceKey]
    """By dotted key."""
    variables: Mapping[str, str]
    """Environment variable to key; of two variables for one key the first in this order counts."""
    options: Mapping[str, Leaf]
    """Every option by its name, as a role has it below `options`."""
    backends: Mapping[str, Backend]

    def service(self, name: str | None) -> Service:
        """The declaration behind a provider's name."""
        return self.services.get(name or "") or Service()

    def stand_in(self, provider: str) -> str | None:
        """The service that takes the bare names of a provider where only that has an address."""
        return next((name for name, each in self.names.items() if each.stands_in_for == provider), None)

    def program_of(self, harness: str, provider: str | None) -> Agent | None:
        """The agent program a role runs in, by its harness or by its login."""
        if harness in self.programs:
            return self.programs[harness]
        return next((each for each in self.programs.values() if each.login == provider), None)

    def is_login_only(self, name: str | None) -> bool:
        """Whether no chat provider stands behind a login, so that only its harness can use it."""
        return name not in PROVIDERS.names() and any(each.login == name for each in self.programs.values())


@while_known(PROVIDERS, AGENTS)
def declared() -> Declared:
    """What is declared now."""
    programs = {name: agent(name) for name in driven()}
    services = {name: _service(name) for name in PROVIDERS.names()}
    services |= {each.login: each.account for each in programs.values() if each.login not in services}
    names = {name: public_names(name, each.names) for name, each in services.items()}
    names |= {name: public_names(name, each.names) for name, each in programs.items()}
    keys: dict[str, ServiceKey] = {}
    derived: dict[str, str] = {}
    second: dict[str, str] = {}
    backends: dict[str, Backend] = {}
    for name, public in names.items():
        prefix = public.prefix or name
        for each in _keys(name, prefix, public, services.get(name)):
            keys[each.leaf.key] = each
            derived |= dict.fromkeys(_spellings(each, prefix), each.leaf.key)
        for variable, fills in public.variables.items():
            last = next(last for last, filled in public.keys.items() if filled == fills)
            second[variable] = f"model.{prefix}_{last}"
        for backend, meaning in _backends(name, public, programs.get(name)):
            backends.setdefault(backend, meaning)
    return Declared(
        services=services,
        programs=programs,
        names=names,
        keys=keys,
        variables={**derived, **second},
        options=_options(services),
        backends=backends,
    )


def _service(name: str) -> Service:
    try:
        return provider(name)
    except Exception:  # noqa: BLE001 - a stranger's package fails in any way; it says so when it is used
        return Service()


def _keys(owner: str, prefix: str, names: PublicNames, service: Service | None) -> Iterator[ServiceKey]:
    """Each key for both roles, and for a service also for either."""
    parts = _parts((service or Service()).Options)
    for role in (None, *ROLES) if service is not None else (None,):
        for last, fills in names.keys.items():
            yield _key(owner, parts, f"{role}_{prefix}_{last}" if role else f"{prefix}_{last}", role, fills)
    for name, (only, part) in names.role_keys.items():
        yield _key(owner, parts, name, cast("RoleName | None", only), part)


def _key(
    owner: str, parts: Mapping[str, Leaf], name: str, role: RoleName | None, filled: str | ValueAliases
) -> ServiceKey:
    words = filled if isinstance(filled, ValueAliases) else None
    fills = filled.fills if isinstance(filled, ValueAliases) else filled
    part = parts[fills]
    annotation: Any = part.annotation if words is None else Literal[tuple(words.values)]
    text = _TEXTS.get(fills, part.description).format(owner=owner) if words is None else words.description
    leaf = replace(
        part,
        key=f"model.{name}",
        # Every public key may be blank, also where the setting it fills has a default.
        annotation=Optional[annotation],  # noqa: UP045 - the type is a value here, and may be a Literal
        default=None,
        description=text + (f" Only for the {role}." if role else ""),
    )
    return ServiceKey(leaf=leaf, owner=owner, role=role, fills=fills, words=words)


def _spellings(each: ServiceKey, prefix: str) -> Iterator[str]:
    name = each.leaf.key.removeprefix("model.")
    yield name.upper()
    if each.role is not None and name.startswith(f"{each.role}_{prefix}_"):
        # The other order of the same words, as in AZURE_OPENAI_TARGET_ENDPOINT.
        yield name.replace(f"{each.role}_{prefix}_", f"{prefix}_{each.role}_").upper()


@lru_cache(maxsize=64)
def _parts(options: type[BaseModel]) -> Mapping[str, Leaf]:
    return {leaf.key: leaf for leaf in (*leaves(RoleConfig), *leaves(options, "options."))}


def _options(services: Mapping[str, Service]) -> dict[str, Leaf]:
    found: dict[str, tuple[list[str], Leaf]] = {}
    for name, service in services.items():
        for leaf in leaves(service.Options):
            found.setdefault(leaf.key, ([], leaf))[0].append(name)
    return {
        key: replace(
            leaf, description=f"{', '.join(owners)}: {leaf.description[:1].lower()}{leaf.description[1:]}"
        )
        for key, (owners, leaf) in found.items()
    }


def _backends(name: str, public: PublicNames, program: Agent | None) -> Iterator[tuple[str, Backend]]:
    """Names with what they mean; of two meanings the first counts."""
    takes = not public.target_only
    if program is not None:
        meant = Backend(provider=program.login, harness=name, optimizer=takes, fills_optimizer=takes)
        yield from ((backend, meant) for backend in public.backends)
        yield name, replace(meant, optimizer=False, fills_optimizer=False)
        return
    if public.open_backend:
        yield public.open_backend, Backend(provider=name, open=True)
    for backend in (*public.backends, *([name] if name in PROVIDERS.names() else ())):
        yield backend, Backend(provider=name, fills_optimizer=takes)


# The keys


@while_known(PROVIDERS, AGENTS, trackers)
def tree() -> Mapping[str, Leaf]:
    """Every key that does not belong to one benchmark: those of the schema, with the options of all providers
    and the settings of all trackers.
    """
    keys: dict[str, Leaf] = {}
    for leaf in leaves(Config):
        if leaf.key in _OPTIONS:
            options = ((f"{leaf.key}.{option.key}", option) for option in declared().options.values())
            keys |= {key: replace(option, key=key) for key, option in options}
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


def key_of(name: str, settings: type[BaseModel] | None = None) -> str:
    """The dotted key of a flag, a flat name or an alias; a role stands for the name of its model.

    A benchmark's own key comes before an alias, not before a flat name.
    """
    if settings is not None and name in settings.model_fields and name not in FLAT_NAMES:
        return f"env.{name}"
    key = name if "." in name else flat_names().get(name, f"env.{name}")
    if key.startswith("tracking.") and key not in tree():  # `tracking.mlflow_uri` is `tracking.mlflow.uri`
        spelled = {leaf.replace(".", "_"): leaf for leaf in tree() if leaf.startswith("tracking.")}
        return spelled.get(key.replace(".", "_"), key)
    return f"{key}.name" if key in ROLE_KEYS else ALIASES.get(key, key)


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
        with contextlib.suppress(Exception):  # a package that fails to import says so when it is used
            found |= benchmarks.get(name).Settings.model_fields.keys()
    return frozenset(found)


def flag_leaf(name: str) -> Leaf | None:
    """The key that a flag of this name sets; a key of benchmarks as `own` describes it."""
    key = key_of(name)
    if key == "budget":
        return Leaf(key=key, annotation=str, default=None, description=_BUDGET)
    return leaf_of(key, benchmarks.get("own").Settings)


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
