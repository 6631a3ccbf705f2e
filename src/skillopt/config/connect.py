"""Connects a role: provider, endpoint, key, knobs. Settings of a provider reach only the roles on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skillopt.agents.port import Agent
from skillopt.config.files import resolve_path
from skillopt.config.layers import CHOSEN, DEFAULT, ConfigEntry, Source
from skillopt.config.roles import ModelString, parse_model_string
from skillopt.config.sections import DEFAULT_MODEL, WORKERS, RoleName
from skillopt.config.service import Service
from skillopt.config.services import (
    CHAT,
    SENTINELS,
    Backend,
    Declared,
    ServiceKey,
    declared,
    find_backend,
    for_role,
)
from skillopt.errors import ConfigError, suggest
from skillopt.harnesses import located
from skillopt.models.port import DEFAULT_MAX_TOKENS
from skillopt.redact import without_password

_APART = ("name", "base_url", "api_key")
"""Parts that are decided one by one; the others are simply taken over."""


@dataclass(slots=True, kw_only=True)
class RoleConnection:
    """One role while it is being decided, from all `entries` given. What the user should know is added to
    `warnings`.
    """

    role: RoleName
    entries: Mapping[str, ConfigEntry]
    cwd: Path
    warnings: list[str]
    declared: Declared = field(default_factory=declared)
    found: dict[str, ConfigEntry] = field(default_factory=dict)

    def connect(self) -> dict[str, ConfigEntry]:
        """Decide what the role talks to: the settings that follow, as entries of the tree.

        A name without provider goes to the role's backend.
        """
        name = self.own("name") or ConfigEntry.by_default(self.key("name"), DEFAULT_MODEL)
        parts = parse_model_string(name.value, self.role)
        chosen = self.chosen_url(parts, name)
        if parts.provider is None:
            backend = self.backend(parts, chosen)
            parts = replace(parts, provider=backend.provider, harness=backend.harness)
            parts, name = self.named(parts, name)
        provider = parts.provider or ""
        service = self.declared.service(provider)
        program = self.declared.program_of(parts.harness, provider)
        self.check_login(parts, program)
        self.check_own_settings(parts, program)
        if parts.is_own_agent:
            parts = replace(parts, name=located(parts.name, lambda text: self.beside(text, name)))
        if service.model_files and parts.name.endswith(service.model_files):
            parts = replace(parts, name=str(self.path(parts.name, name)))
        self.take("name", replace(name, value=str(replace(parts, base_url=None))))
        key = self.own("api_key") or self.public(provider, "api_key")
        own = program is not None and program.login == provider
        if (
            key is None
            and program is not None
            and own
            and (parts.harness != CHAT or program.prefers_vendor_key)
        ):
            key = self.public(program.vendor, "api_key")
        url = self.one_url(provider, chosen)
        if url is not None and _is_foreign(service, url, key):
            self.warnings.append(_unused_url(url))
            url = None
        self.take("api_key", key)
        self.take("base_url", url or ConfigEntry.by_default(self.key("base_url"), None))
        effort = _given(self.entries.get("model.reasoning_effort"))
        is_chosen = effort is not None and effort.source.layer in ("flag", "cfg-options")
        if is_chosen and not service.takes_common_effort and not self.own("reasoning_effort"):
            self.take("reasoning_effort", effort)
        self.take_over(provider)
        if program is not None:
            self.take_over(program.name)
        return self.found

    # What was given

    def key(self, part: str) -> str:
        """The tree's key of a part of this role's settings."""
        return f"model.{self.role}.{part}"

    def path(self, text: str, entry: ConfigEntry) -> Path:
        """Where a path that was written in an entry points."""
        return resolve_path(text, folder=entry.folder, cwd=self.cwd, output=False)

    def beside(self, text: str, entry: ConfigEntry) -> Path:
        """The same as it is best kept: from the working directory, where it lies below it."""
        path = self.path(text, entry)
        return path.relative_to(self.cwd) if path.is_relative_to(self.cwd) else path

    def own(self, part: str) -> ConfigEntry | None:
        """What was written for this role itself."""
        return _given(self.entries.get(self.key(part)))

    def own_names(self, section: str) -> list[str]:
        """What was written for this role below one section."""
        prefix = self.key(f"{section}.")
        return [
            key.removeprefix(prefix)
            for key, entry in self.entries.items()
            if key.startswith(prefix) and _given(entry)
        ]

    def public(self, owner: str, part: str) -> ConfigEntry | None:
        """What was set for a service or program, the role's own first: here, in the environment or `.env`."""
        return self.best(self.declared.keys_of(owner, self.role, part))

    def best(self, keys: Sequence[ServiceKey]) -> ConfigEntry | None:
        """The strongest entry; a role's key beats the common one, unless that stands nearer to this run."""
        given = [
            (entry, each.role is not None)
            for each in keys
            if (entry := _given(self.entries.get(each.leaf.key)))
        ]
        return max(given, key=lambda each: (_nearness(each[0]), each[1]), default=(None, False))[0]

    def take(self, part: str, entry: ConfigEntry | None) -> None:
        """Make an entry this role's own."""
        if entry is not None:
            self.found[self.key(part)] = replace(entry, key=self.key(part))

    # Which provider

    def backend(self, parts: ModelString, chosen: ConfigEntry | None) -> Backend:
        """The backend of a bare name: the harness' own login, the role's backend, else the common one."""
        nobody = next(each for each in self.declared.backends.values() if each.open)
        if parts.harness != CHAT:
            login = self.declared.login_of(parts.harness)
            found = replace(nobody, harness=parts.harness)
            return Backend(provider=login, harness=parts.harness) if login else self.by_address(found, chosen)
        found = self.named_backend(f"model.{self.role}_backend") or nobody
        common = self.named_backend("model.backend") if found.open else None
        return self.by_address(common or found, chosen)

    def named_backend(self, key: str) -> Backend | None:
        entry = _given(self.entries.get(key))
        if entry is None or not isinstance(entry.value, str):
            return None
        found = find_backend(entry.value, key)
        if key == "model.backend" and self.role not in WORKERS and not found.fills_optimizer:
            return None
        return for_role(found, self.role, entry.value, key)

    def by_address(self, backend: Backend, chosen: ConfigEntry | None) -> Backend:
        """The backend, or where it is open the service that stands in for it, if only that has an address."""
        stands_in = self.declared.stand_in(backend.provider)
        if not backend.open or stands_in is None:
            return backend
        key = self.own("api_key") or self.public(stands_in, "api_key")
        theirs = self.public(stands_in, "base_url")
        if theirs is not None and _is_foreign(self.declared.service(stands_in), theirs, key):
            self.warnings.append(_unused_url(theirs))  # without it the name might have gone there
            theirs = None
        other = chosen or self.public(backend.provider, "base_url")
        if theirs is None or (other is not None and other.source.beats(theirs.source)):
            return backend
        if other is None or theirs.source.beats(other.source):
            return replace(backend, provider=stands_in)
        raise self.two_endpoints(theirs, other, f"write '{stands_in}:NAME' or '{backend.provider}:NAME'")

    def named(self, parts: ModelString, name: ConfigEntry) -> tuple[ModelString, ConfigEntry]:
        """The model of a role with the public default name, which elsewhere is the provider's own default.

        A provider without one leaves no model, an error when the role is built: `eval` needs no optimizer.
        """
        provider, layer = parts.provider or "", name.source.layer
        service = self.declared.service(provider)
        is_default = layer == "default" or (layer == "config" and parts.name in SENTINELS)
        # A public file may well name a model of an endpoint that is the person's own.
        if not is_default or service.default_model in SENTINELS or (service.needs_url and layer == "config"):
            return parts, name
        given = self.public(provider, "name")
        if given is not None:
            return replace(parts, name=str(given.value)), given
        own = service.default_model
        if layer == "config" and (own is not None or not service.needs_name):
            instead = "the program's own choice" if own == "" else f"{own or provider!r}"
            self.warnings.append(
                f"{name}: {parts.name!r} is the public default and no model of {provider}; {instead} is used."
                f" To insist, name it on the command line or as '{provider}:{parts.name}'"
            )
        source = DEFAULT if own is None else Source(layer="default", where=f"of {provider}")
        return replace(parts, name=own or provider), replace(name, source=source)

    def check_login(self, parts: ModelString, program: Agent | None) -> None:
        if program is None or not self.declared.is_login_only(parts.provider):
            return
        if self.role not in WORKERS or parts.harness != program.name:
            owner = self.declared.program_of(CHAT, parts.provider) or program
            raise ConfigError(
                f"model.{self.role}: '{parts}' is the login of the harness {owner.name!r}, which only a"
                " target can have"
            )

    def check_own_settings(self, parts: ModelString, program: Agent | None) -> None:
        """Refuse options and agent settings that the role's provider or program does not have."""
        for name in self.own_names("options"):
            owners = self.declared.owners(name)
            if parts.provider not in owners:
                raise ConfigError(
                    f"{self.key('options')}.{name} is an option of {' and '.join(owners)}, and"
                    f" model.{self.role} is '{parts}'"
                )
        for name in self.own_names("agent") if program is None else ():
            raise ConfigError(
                f"{self.key('agent')}.{name} is a setting of an agent program, and model.{self.role} is"
                f" '{parts}'"
            )

    # Which endpoint

    def chosen_url(self, parts: ModelString, name: ConfigEntry) -> ConfigEntry | None:
        """The endpoint written for this role: in its model string or as its base_url."""
        in_string = replace(name, value=parts.base_url) if parts.base_url else None
        as_key = self.own("base_url")
        if in_string and as_key and not _same(in_string.value, as_key.value):
            raise self.two_endpoints(in_string, as_key, "keep one of them")
        return in_string or as_key

    def one_url(self, provider: str, chosen: ConfigEntry | None) -> ConfigEntry | None:
        public = self.public(provider, "base_url")
        if chosen and public and public.source.layer in CHOSEN and not _same(chosen.value, public.value):
            raise self.two_endpoints(chosen, public, "keep one of them")
        return chosen or public

    def two_endpoints(self, one: ConfigEntry, other: ConfigEntry, remedy: str) -> ConfigError:
        named = " and ".join(f"{without_password(str(each.value))} ({each.source})" for each in (one, other))
        return ConfigError(f"model.{self.role} has two endpoints: {named}; {remedy}")

    # Which knobs

    def take_over(self, owner: str) -> None:
        for part in self.declared.filled_by(owner):
            if part in _APART:
                continue
            keys = self.declared.keys_of(owner, self.role, part)
            own = self.own(part)
            given = self.spoken(keys) if any(each.words for each in keys) and own is None else self.best(keys)
            if given is None:
                continue
            caps = [one.value for one in (given, own) if one is not None and isinstance(one.value, int)]
            is_lower_cap = part == "max_tokens" and len(caps) == 2 and caps[0] < caps[1]
            if own is None or own.source.layer == "default" or is_lower_cap:
                self.take(part, given)
                if part == "max_tokens" and isinstance(given.value, int) and given.value < DEFAULT_MAX_TOKENS:
                    self.warnings.append(
                        f"{given}: every reply of the {self.role} is cut at {given.value} tokens"
                    )

    def spoken(self, keys: Sequence[ServiceKey]) -> ConfigEntry | None:
        """One part that two keys say, one in words; equally near ones must not contradict each other."""
        words = next(each.words for each in keys if each.words)
        mode = self.best([each for each in keys if each.words])
        switch = self.best([each for each in keys if not each.words])
        if mode is None:
            return switch
        if mode.value not in words.values:
            raise ConfigError(
                f"{mode}: {mode.value!r} is not one of {', '.join(words.values)}."
                f" {suggest(str(mode.value), words.values)}"
            )
        wanted: Any = words.values[str(mode.value)]
        # Public files carry `enable_thinking: false` beside `server_default`: there it asks for nothing.
        agrees = switch is None or switch.value == wanted or (wanted is None and switch.value is False)
        if switch is not None and not agrees and _nearness(switch) == _nearness(mode):
            raise ConfigError(
                f"{mode} says {mode.value!r} and {switch} says {str(switch.value).lower()}: keep one of them"
            )
        is_nearer = switch is not None and not agrees and _nearness(switch) > _nearness(mode)
        return switch if is_nearer else replace(mode, value=wanted)


def role_defaults(role: RoleName, entries: Mapping[str, ConfigEntry]) -> dict[str, Any]:
    """What the provider of a role sets where nobody does, by key; nothing where no model is named."""
    prefix, section = f"model.{role}.", f"model.{role}.options."
    try:
        parts = parse_model_string(str(entries[f"{prefix}name"].value), role)
    except (KeyError, ConfigError):
        return {}
    options = {
        key.removeprefix(section): one.value for key, one in entries.items() if key.startswith(section)
    }
    filled = declared().service(parts.provider).role_defaults(parts.name, options)
    return {f"{prefix}{part}": value for part, value in filled.items()}


def _given(entry: ConfigEntry | None) -> ConfigEntry | None:
    """The entry, unless it is blank: public files carry blanks that mean unset."""
    return None if entry is None or entry.value is None or entry.value == "" else entry


def _nearness(entry: ConfigEntry) -> int:
    return 2 if entry.source.layer in CHOSEN else 1 if entry.source.layer == "environment" else 0


def _is_foreign(service: Service, url: ConfigEntry, key: ConfigEntry | None) -> bool:
    """A `.env` may be somebody else's: no key or login that it did not bring goes to its endpoint."""
    if url.source.layer != ".env":
        return False
    return service.uses_own_login if key is None else key.source.layer != ".env"


def _unused_url(url: ConfigEntry) -> str:
    why = "the API key does not come from the same file"
    return f"The endpoint of {url.source.where} in .env is not used: {why}"


def _same(one: Any, other: Any) -> bool:
    return str(one).rstrip("/") == str(other).rstrip("/")
