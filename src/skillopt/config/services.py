"""What providers and agent programs are to configuration: their public keys and variables, the options of a
role, and the backend names that mean them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, Optional, cast

from pydantic import BaseModel

from skillopt.agents import AGENTS, agent, driven
from skillopt.agents.port import Agent
from skillopt.config.fields import Leaf, leaves
from skillopt.config.sections import ROLES, RoleConfig, RoleName
from skillopt.config.service import PublicNames, Service, ValueAliases, public_names
from skillopt.errors import ConfigError, suggest
from skillopt.models import PROVIDERS, provider
from skillopt.registry import while_known

CHAT = "chat"
SENTINELS = frozenset({"gpt-5.4", "gpt-5.5"})
"""Public default names: where the user does not insist, another backend's own default replaces them."""
_TEXTS = {
    "name": "Model of the roles on {owner} that name none.",
    "base_url": "Endpoint of the roles on {owner}.",
    "api_key": "Key of the roles on {owner}; better kept in the environment.",
}


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
    second_variables: Mapping[str, str]
    """Those of them whose name does not follow from their key."""
    options: Mapping[str, Leaf]
    """Every option by its name, as a role has it below `options`."""
    backends: Mapping[str, Backend]

    def keys_of(self, owner: str, role: RoleName, fills: str) -> list[ServiceKey]:
        """The keys that may fill a part of a role's settings."""
        return [
            each
            for each in self.keys.values()
            if each.owner == owner and each.fills == fills and each.role in (None, role)
        ]

    def filled_by(self, owner: str) -> list[str]:
        """The parts of a role's settings that the keys of a service or program can fill."""
        return list(dict.fromkeys(each.fills for each in self.keys.values() if each.owner == owner))

    def owners(self, option: str) -> list[str]:
        """The services that have an option."""
        return [name for name, service in self.services.items() if option in service.Options.model_fields]

    def service(self, name: str | None) -> Service:
        """The declaration behind a provider's name."""
        return self.services.get(name or "") or Service()

    def stand_in(self, provider: str) -> str | None:
        """The service that takes the bare names of a provider where only that has an address."""
        return next((name for name, each in self.names.items() if each.stands_in_for == provider), None)

    def login_of(self, harness: str) -> str | None:
        """The login of the program that a harness drives, which serves a target that names no provider."""
        return self.programs[harness].login if harness in self.programs else None

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
    names = {
        **{name: public_names(name, each.names) for name, each in services.items()},
        **{name: public_names(name, each.names) for name, each in programs.items()},
    }
    keys = {
        each.leaf.key: each
        for name, public in names.items()
        for each in _keys(name, public, services.get(name, Service()).Options, name in services)
    }
    second = {
        variable: f"model.{public.prefix or name}_{last}"
        for name, public in names.items()
        for variable, fills in public.variables.items()
        for last in [next(last for last, filled in public.keys.items() if filled == fills)]
    }
    derived = {
        variable: key
        for key, each in keys.items()
        for variable in _spellings(key, each, names[each.owner].prefix or each.owner)
    }
    backends: dict[str, Backend] = {}
    for backend, meaning in _backends(names, programs):
        backends.setdefault(backend, meaning)
    return Declared(
        services=services,
        programs=programs,
        names=names,
        keys=keys,
        variables={**derived, **second},
        second_variables=second,
        options=_options(services),
        backends=backends,
    )


def _service(name: str) -> Service:
    try:
        return provider(name)
    except Exception:  # noqa: BLE001 - a stranger's package fails in any way; it says so when it is used
        return Service()


def _keys(
    owner: str, names: PublicNames, options: type[BaseModel], has_role_keys: bool
) -> Iterator[ServiceKey]:
    prefix = names.prefix or owner
    for role in (None, *ROLES) if has_role_keys else (None,):
        for name, fills in names.keys.items():
            yield _key(owner, options, f"{role}_{prefix}_{name}" if role else f"{prefix}_{name}", role, fills)
    for key, (only, part) in names.role_keys.items():
        yield _key(owner, options, key, cast("RoleName | None", only), part)


def _key(
    owner: str, options: type[BaseModel], name: str, role: RoleName | None, filled: str | ValueAliases
) -> ServiceKey:
    words = filled if isinstance(filled, ValueAliases) else None
    fills = filled.fills if isinstance(filled, ValueAliases) else filled
    part = _parts(options)[fills]
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


def _spellings(key: str, each: ServiceKey, prefix: str) -> Iterator[str]:
    name = key.removeprefix("model.")
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


def _backends(
    names: Mapping[str, PublicNames], programs: Mapping[str, Agent]
) -> Iterator[tuple[str, Backend]]:
    """Names with what they mean; of two meanings the first counts."""
    for name, public in names.items():
        if name in programs:
            login, takes = programs[name].login, not public.target_only
            meant = Backend(provider=login, harness=name, optimizer=takes, fills_optimizer=takes)
            yield from ((backend, meant) for backend in public.backends)
            yield name, replace(meant, optimizer=False, fills_optimizer=False)
            continue
        if public.open_backend:
            yield public.open_backend, Backend(provider=name, open=True)
        own = (name,) if name in PROVIDERS.names() else ()
        for backend in (*public.backends, *own):
            yield backend, Backend(provider=name, fills_optimizer=not public.target_only)


def find_backend(name: str, key: str) -> Backend:
    """What a backend name means; any other is an error with the near miss."""
    plain, known = name.strip().lower().replace("-", "_"), declared().backends
    if plain in known:
        return known[plain]
    raise ConfigError(f"{key}: no backend named {name!r}. {suggest(plain, sorted(known))}")


def for_role(backend: Backend, role: RoleName, name: str, key: str) -> Backend:
    """The backend as one role has it: an optimizer talks, it runs in no harness."""
    if role == "target":
        return backend
    if not backend.optimizer:
        same = [each for each, other in declared().backends.items() if other.provider == backend.provider]
        talking = next((each for each in same if declared().backends[each].harness == CHAT), None)
        hint = f"; {talking!r} is the same program as a model" if talking else ""
        raise ConfigError(
            f"{key}: {name!r} is an agent that works on tasks, so only the target can have it{hint}"
        )
    return replace(backend, harness=CHAT)
