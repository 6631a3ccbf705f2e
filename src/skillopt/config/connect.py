"""Connects a role: provider, endpoint, key, knobs. Settings of a provider reach only the roles on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skillopt.agents.port import Agent
from skillopt.config.files import resolve_path
from skillopt.config.keys import CHAT, Backend, Declared, ServiceKey, declared
from skillopt.config.layers import CHOSEN, DEFAULT, ConfigEntry, Entries, Source
from skillopt.config.roles import ModelString, parse_model_string
from skillopt.config.sections import DEFAULT_MODEL, WORKERS, RoleName
from skillopt.config.service import Service
from skillopt.errors import ConfigError, suggest
from skillopt.harnesses import located
from skillopt.models.port import DEFAULT_MAX_TOKENS
from skillopt.redact import without_password

SENTINELS = frozenset({"gpt-5.4", "gpt-5.5"})
"""Public default names: where the user does not insist, another backend's own default replaces them."""
_APART = ("name", "base_url", "api_key")
"""Parts that are decided one by one; the others are simply taken over."""


@dataclass(slots=True)
class RoleConnection:
    """One role while it is being decided, from all `entries` given. What is wrong and what the user should
    know is added to `problems` and `warnings`.
    """

    role: RoleName
    entries: Entries
    cwd: Path
    problems: list[str]
    warnings: list[str]
    declared: Declared = field(default_factory=declared)
    found: Entries = field(default_factory=dict)
    public: dict[tuple[str, str], list[tuple[ConfigEntry, ServiceKey]]] = field(default_factory=dict)
    """What was set for services and programs: by owner and part, the strongest first."""

    def __post_init__(self) -> None:
        for key, each in self.declared.keys.items():
            entry = self.given(key)
            if entry is not None and each.role in (None, self.role):
                self.public.setdefault((each.owner, each.fills), []).append((entry, each))
        for given in self.public.values():
            # A role's key beats the common one, unless that stands nearer to this run.
            given.sort(key=lambda one: (_nearness(one[0]), one[1].role is not None), reverse=True)

    def connect(self) -> Entries:
        """Decide which model the role calls and return the settings for it, as config entries.

        A model name without a provider goes to the role's backend.
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
        key = self.own("api_key") or self.best(provider, "api_key")
        if key is None and program is not None and program.login == provider:
            takes_vendors = parts.harness != CHAT or program.prefers_vendor_key
            key = self.best(program.vendor, "api_key") if takes_vendors else None
        url = self.one_url(provider, chosen)
        if url is not None and _is_foreign(service, url, key):
            self.warnings.append(_unused_url(url))
            url = None
        self.take("api_key", key)
        self.take("base_url", url or ConfigEntry.by_default(self.key("base_url"), None))
        effort = self.given("model.reasoning_effort")
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
        """Resolve the path `text`; `entry` names the folder of the config file that contains it."""
        return resolve_path(text, folder=entry.folder, cwd=self.cwd, output=False)

    def beside(self, text: str, entry: ConfigEntry) -> Path:
        """The same as it is best kept: from the working directory, where it lies below it."""
        path = self.path(text, entry)
        return path.relative_to(self.cwd) if path.is_relative_to(self.cwd) else path

    def given(self, key: str) -> ConfigEntry | None:
        """The entry of a key, unless it is blank."""
        entry = self.entries.get(key)
        return None if entry is None or entry.is_blank else entry

    def own(self, part: str) -> ConfigEntry | None:
        """What was written for this role itself."""
        return self.given(self.key(part))

    def best(self, owner: str, part: str) -> ConfigEntry | None:
        """What was set for a service or program: here, in the environment or `.env`."""
        given = self.public.get((owner, part))
        return given[0][0] if given else None

    def take(self, part: str, entry: ConfigEntry | None) -> None:
        """Make an entry this role's own."""
        if entry is not None and entry.problem:
            self.problems.append(entry.problem)
        elif entry is not None:
            self.found[self.key(part)] = replace(entry, key=self.key(part))

    # Which provider

    def backend(self, parts: ModelString, chosen: ConfigEntry | None) -> Backend:
        """The backend of a bare name: the harness' own login, the role's backend, else the common one."""
        nobody = next(each for each in self.declared.backends.values() if each.open)
        if parts.harness != CHAT:
            program = self.declared.programs.get(parts.harness)
            if program is not None and program.login:
                return Backend(provider=program.login, harness=parts.harness)
            return self.by_address(replace(nobody, harness=parts.harness), chosen)
        found = self.named_backend(f"model.{self.role}_backend") or nobody
        common = self.named_backend("model.backend") if found.open else None
        return self.by_address(common or found, chosen)

    def named_backend(self, key: str) -> Backend | None:
        """The backend that a key names, as this role has it: an optimizer talks, it runs in no harness."""
        entry = self.given(key)
        if entry is None:
            return None
        plain, known = entry.value.strip().lower().replace("-", "_"), self.declared.backends
        if plain not in known:
            raise ConfigError(f"{key}: no backend named {entry.value!r}. {suggest(plain, sorted(known))}")
        found = known[plain]
        if key == "model.backend" and self.role not in WORKERS and not found.fills_optimizer:
            return None
        if self.role == "target":
            return found
        if not found.optimizer:
            chats = {name: each for name, each in known.items() if each.harness == CHAT}
            same = [name for name, each in chats.items() if each.provider == found.provider]
            hint = f"; {same[0]!r} is the same program as a model" if same else ""
            raise ConfigError(
                f"{key}: {entry.value!r} is an agent that works on tasks, so only the target can have"
                f" it{hint}"
            )
        return replace(found, harness=CHAT)

    def by_address(self, backend: Backend, chosen: ConfigEntry | None) -> Backend:
        """The backend; if it is open and only its stand-in service has an address, that service."""
        stands_in = self.declared.stand_in(backend.provider)
        if not backend.open or stands_in is None:
            return backend
        key = self.own("api_key") or self.best(stands_in, "api_key")
        theirs = self.best(stands_in, "base_url")
        if theirs is not None and _is_foreign(self.declared.service(stands_in), theirs, key):
            self.warnings.append(_unused_url(theirs))  # without it the name might have gone there
            theirs = None
        other = chosen or self.best(backend.provider, "base_url")
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
        given = self.best(provider, "name")
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
        """Refuse a login that only its own harness can use where another one would."""
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
        options, agent = self.key("options."), self.key("agent.")
        for key in self.entries:
            entry = self.given(key)
            if entry is None:
                continue
            where = f"{key} ({entry.source})"
            if key.startswith(options):
                services = self.declared.services.items()
                owners = [
                    name for name, each in services if key.removeprefix(options) in each.Options.model_fields
                ]
                if parts.provider not in owners:
                    raise ConfigError(
                        f"{where} is an option of {' and '.join(owners)}, and model.{self.role} is '{parts}'"
                    )
            elif key.startswith(agent) and program is None:
                raise ConfigError(
                    f"{where} is a setting of an agent program, and model.{self.role} is '{parts}'"
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
        """The endpoint of this role; another one that was chosen for its provider contradicts it."""
        public = self.best(provider, "base_url")
        if chosen and public and public.source.layer in CHOSEN and not _same(chosen.value, public.value):
            raise self.two_endpoints(chosen, public, "keep one of them")
        return chosen or public

    def two_endpoints(self, one: ConfigEntry, other: ConfigEntry, remedy: str) -> ConfigError:
        """The error that names both."""
        named = " and ".join(f"{without_password(str(each.value))} ({each.source})" for each in (one, other))
        return ConfigError(f"model.{self.role} has two endpoints: {named}; {remedy}")

    # Which knobs

    def take_over(self, owner: str) -> None:
        """Take what was set for a service or program where nothing stronger was set for the role itself."""
        for (named, part), keys in self.public.items():
            if named != owner or part in _APART:
                continue
            own = self.own(part)
            given = self.in_words(keys) if own is None else keys[0][0]
            cap = given.value if part == "max_tokens" and not given.problem else None
            is_lower_cap = cap is not None and own is not None and cap < own.value
            if own is None or own.source.layer == "default" or is_lower_cap:
                self.take(part, given)
                if cap is not None and cap < DEFAULT_MAX_TOKENS:
                    self.warnings.append(f"{given}: every reply of the {self.role} is cut at {cap} tokens")

    def in_words(self, keys: list[tuple[ConfigEntry, ServiceKey]]) -> ConfigEntry:
        """The strongest entry; of a key in words what it means. No equally near switch contradicts it."""
        mode = next(((entry, key.words) for entry, key in keys if key.words), None)
        switch = next((entry for entry, key in keys if not key.words), None)
        if mode is None or mode[0].problem:
            return mode[0] if mode is not None else keys[0][0]
        entry, words = mode
        assert words is not None
        wanted = words.values[entry.value]
        # Public files carry `enable_thinking: false` beside `server_default`: there it asks for nothing.
        if switch is None or switch.value == wanted or (wanted is None and switch.value is False):
            return replace(entry, value=wanted)
        if _nearness(switch) == _nearness(entry):
            raise ConfigError(
                f"{entry} says {entry.value!r} and {switch} says {str(switch.value).lower()}: keep one of"
                " them"
            )
        return switch if _nearness(switch) > _nearness(entry) else replace(entry, value=wanted)


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
