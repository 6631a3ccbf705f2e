"""Decides provider, endpoint, key and knobs of a role: what is set for a provider reaches only the roles that
are on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillopt.config.backends import (
    CHAT,
    DEFAULT_MODELS,
    EITHER,
    LOGIN_ONLY,
    OWN_LOGIN,
    SENTINELS,
    VENDORS,
    Backend,
    find_backend,
    for_role,
)
from skillopt.config.files import resolve_path
from skillopt.config.provider_keys import PROVIDER_KEYS, THINKING_MODE, filled_by, keys_of
from skillopt.config.role_schema import DEFAULT_MODEL, RoleName
from skillopt.config.roles import (
    NEEDS_NAME,
    ModelString,
    check_own_settings,
    parse_model_string,
    program_of,
)
from skillopt.config.source import CHOSEN, DEFAULT, Entry, Source
from skillopt.errors import ConfigError, suggest
from skillopt.models.port import DEFAULT_MAX_TOKENS
from skillopt.redact import without_password

_KEEPS_DEFAULT = frozenset({"openai", "azure", "codex_cli"})
"""Providers at which the public default model exists."""
_APART = ("name", "base_url", "api_key", "options.enable_thinking")
"""Parts that are decided one by one; the others are simply taken over."""
_MODES = {"enabled": True, "disabled": False, "server_default": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """The settings of a role that follow from what was given, as entries of the tree, and what the user
    should know.
    """

    entries: Mapping[str, Entry]
    warnings: tuple[str, ...]


def connect(
    role: RoleName,
    entries: Mapping[str, Entry],
    *,
    cwd: Path,
    providers: Sequence[str],
    harnesses: Sequence[str],
) -> Connected:
    """Decide what a role talks to. `entries` is everything that was given, by key; a name without provider
    goes to the role's backend.
    """
    return _Role(role, entries, cwd, providers, harnesses).connect()


class _Role:
    """One role while it is being decided."""

    def __init__(
        self,
        role: RoleName,
        entries: Mapping[str, Entry],
        cwd: Path,
        providers: Sequence[str],
        harnesses: Sequence[str],
    ) -> None:
        self.role: RoleName = role
        self.entries = entries
        self.cwd = cwd
        self.providers = providers
        self.harnesses = harnesses
        self.found: dict[str, Entry] = {}
        self.warnings: list[str] = []

    def connect(self) -> Connected:
        name = self.own("name") or Entry(
            key=self.key("name"), value=DEFAULT_MODEL, source=DEFAULT, written=self.key("name")
        )
        parts = parse_model_string(name.value, self.role, providers=self.providers, harnesses=self.harnesses)
        chosen = self.chosen_url(parts, name)
        if parts.provider is None:
            backend = self.backend(parts, chosen)
            parts = replace(parts, provider=backend.provider, harness=backend.harness)
            parts, name = self.named(parts, name)
        provider = parts.provider or ""
        self.check_login(parts)
        check_own_settings(parts, self.role, self.own_names("options"), self.own_names("agent"))
        if provider == "local" and parts.name.endswith(".gguf"):
            parts = replace(
                parts, name=str(resolve_path(parts.name, folder=name.folder, cwd=self.cwd, output=False))
            )
        self.take("name", replace(name, value=str(replace(parts, base_url=None))))
        key = self.own("api_key") or self.public(provider, "api_key")
        if key is None and parts.harness != CHAT:
            key = self.public(VENDORS.get(provider, ""), "api_key")
        url = self.one_url(provider, chosen)
        if url is not None and self.is_foreign(provider, url, key):
            self.warnings.append(_unused_url(url))
            url = None
        self.take("api_key", key)
        self.take("base_url", url or _none(self.key("base_url")))
        for owner in filter(None, (provider, program_of(parts))):
            self.take_over(owner)
        if provider in ("qwen", "minimax") and self.own("options.enable_thinking") is None:
            self.take("options.enable_thinking", self.thinking(provider))
        return Connected(entries=self.found, warnings=tuple(self.warnings))

    # What was given

    def key(self, part: str) -> str:
        """The tree's key of a part of this role's settings."""
        return f"model.{self.role}.{part}"

    def own(self, part: str) -> Entry | None:
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

    def public(self, owner: str, part: str) -> Entry | None:
        """What was set for a provider or program: in this run's own settings, else in the environment, else
        in `.env`; the role's first.
        """
        return self.best(keys_of(owner, self.role, part))

    def best(self, keys: Sequence[str]) -> Entry | None:
        """The strongest entry; a key for one role beats the one for both, unless that one stands nearer to
        this run.
        """
        given = [entry for key in keys if (entry := _given(self.entries.get(key)))]
        return max(
            given,
            key=lambda entry: (_nearness(entry), PROVIDER_KEYS[entry.key].role is not None),
            default=None,
        )

    def take(self, part: str, entry: Entry | None) -> None:
        """Make an entry this role's own."""
        if entry is not None:
            self.found[self.key(part)] = replace(entry, key=self.key(part))

    # Which provider

    def backend(self, parts: ModelString, chosen: Entry | None) -> Backend:
        """The backend of a name without provider: the harness' own login, the role's backend, else the common
        one.
        """
        if parts.harness != CHAT:
            return Backend(provider=OWN_LOGIN.get(parts.harness, EITHER), harness=parts.harness)
        found = self.named_backend(f"model.{self.role}_backend") or Backend(provider=EITHER)
        common = self.named_backend("model.backend") if found.provider == EITHER else None
        found = common or found
        return replace(found, provider=self.openai_or_azure(chosen)) if found.provider == EITHER else found

    def named_backend(self, key: str) -> Backend | None:
        entry = _given(self.entries.get(key))
        if entry is None or not isinstance(entry.value, str):
            return None
        found = find_backend(entry.value, key, self.providers, self.harnesses)
        if key == "model.backend" and self.role != "target" and not found.fills_optimizer:
            return None
        found = for_role(found, self.role, entry.value, key)
        if (
            found.provider not in {*self.providers, *LOGIN_ONLY, EITHER}
            or found.harness not in self.harnesses
        ):
            missing = (
                f"provider {found.provider!r}"
                if found.harness in self.harnesses
                else f"harness {found.harness!r}"
            )
            raise ConfigError(
                f"{key}: {entry.value!r} needs the {missing}, which is not installed."
                f" {suggest('', list(self.providers))}"
            )
        return found

    def openai_or_azure(self, chosen: Entry | None) -> str:
        azure_url = self.public("azure", "base_url")
        if azure_url is not None and self.is_foreign(
            "azure", azure_url, self.own("api_key") or self.public("azure", "api_key")
        ):
            self.warnings.append(_unused_url(azure_url))  # without it the name might have gone to Azure
            azure_url = None
        other = chosen or self.public("openai", "base_url")
        if azure_url is None:
            return "openai"
        if other is None or azure_url.source.beats(other.source):
            return "azure"
        if other.source.beats(azure_url.source):
            return "openai"
        raise self.two_endpoints(azure_url, other, "write 'azure:NAME' or 'openai:NAME'")

    def named(self, parts: ModelString, name: Entry) -> tuple[ModelString, Entry]:
        """The model of a role whose name is the public default: it exists at OpenAI; elsewhere it stands for
        the provider's own default.

        A provider without one leaves the role without a model, which is an error when the role is built:
        `eval` needs no optimizer.
        """
        provider, layer = parts.provider or "", name.source.layer
        is_default = layer == "default" or (layer == "config" and parts.name in SENTINELS)
        if not is_default or provider in _KEEPS_DEFAULT or (provider == "compatible" and layer == "config"):
            return parts, name
        given = self.public(provider, "name")
        if given is not None:
            return replace(parts, name=str(given.value)), given
        own = DEFAULT_MODELS.get(provider) or provider
        if layer == "config" and (provider in DEFAULT_MODELS or provider not in NEEDS_NAME):
            instead = (
                f"{own!r}"
                if own != provider or provider not in DEFAULT_MODELS
                else "the program's own choice"
            )
            self.warnings.append(
                f"{name}: {parts.name!r} is the public default and no model of {provider}; {instead} is used."
                f" To insist, name it on the command line or as '{provider}:{parts.name}'"
            )
        source = Source(layer="default", where=f"of {provider}")
        return replace(parts, name=own), replace(
            name, source=source if provider in DEFAULT_MODELS else DEFAULT
        )

    def check_login(self, parts: ModelString) -> None:
        if parts.provider in LOGIN_ONLY and (
            self.role != "target" or OWN_LOGIN.get(parts.harness) != parts.provider
        ):
            harness = next(name for name, login in OWN_LOGIN.items() if login == parts.provider)
            raise ConfigError(
                f"model.{self.role}: '{parts}' is the login of the harness {harness!r}, which only a target"
                " can have"
            )

    # Which endpoint

    def chosen_url(self, parts: ModelString, name: Entry) -> Entry | None:
        """The endpoint written for this role: in its model string or as its base_url."""
        in_string = replace(name, value=parts.base_url) if parts.base_url else None
        as_key = self.own("base_url")
        if in_string and as_key and not _same(in_string.value, as_key.value):
            raise self.two_endpoints(in_string, as_key, "keep one of them")
        return in_string or as_key

    def one_url(self, provider: str, chosen: Entry | None) -> Entry | None:
        public = self.public(provider, "base_url")
        if chosen and public and public.source.layer in CHOSEN and not _same(chosen.value, public.value):
            raise self.two_endpoints(chosen, public, "keep one of them")
        return chosen or public

    def is_foreign(self, provider: str, url: Entry, key: Entry | None) -> bool:
        """A `.env` comes with a folder, maybe somebody else's: no key or login that it did not bring goes to
        an endpoint of its choice.
        """
        if url.source.layer != ".env":
            return False
        if key is None:
            return provider == "azure"  # where no key is known the person's own login would be used
        return key.source.layer != ".env"

    def two_endpoints(self, one: Entry, other: Entry, remedy: str) -> ConfigError:
        named = " and ".join(f"{without_password(str(each.value))} ({each.source})" for each in (one, other))
        return ConfigError(f"model.{self.role} has two endpoints: {named}; {remedy}")

    # Which knobs

    def take_over(self, owner: str) -> None:
        for part in filled_by(owner):
            given = self.public(owner, part) if part not in _APART else None
            own = self.own(part)
            if given is None:
                continue
            if (
                own is None
                or own.source.layer == "default"
                or (part == "max_tokens" and _smaller(given, own))
            ):
                self.take(part, given)
                if part == "max_tokens" and isinstance(given.value, int) and given.value < DEFAULT_MAX_TOKENS:
                    self.warnings.append(
                        f"{given}: every reply of the {self.role} is cut at {given.value} tokens"
                    )

    def thinking(self, provider: str) -> Entry | None:
        """Three states: on, off, and nothing sent. Two keys say it; where they stand equally near they must
        not contradict each other.
        """
        keys = keys_of(provider, self.role, "options.enable_thinking")
        mode = self.best([key for key in keys if key.endswith(THINKING_MODE)])
        switch = self.best([key for key in keys if not key.endswith(THINKING_MODE)])
        if mode is None:
            return switch
        if mode.value not in _MODES:
            raise ConfigError(
                f"{mode}: {mode.value!r} is not one of {', '.join(_MODES)}."
                f" {suggest(str(mode.value), _MODES)}"
            )
        wanted: Any = _MODES[str(mode.value)]
        # Public files carry `enable_thinking: false` beside `server_default`: there it asks for nothing.
        agrees = switch is None or switch.value == wanted or (wanted is None and switch.value is False)
        if switch is not None and not agrees and _nearness(switch) == _nearness(mode):
            raise ConfigError(
                f"{mode} says {mode.value!r} and {switch} says {str(switch.value).lower()}: keep one of them"
            )
        return (
            switch
            if switch is not None and not agrees and _nearness(switch) > _nearness(mode)
            else replace(mode, value=wanted)
        )


def _given(entry: Entry | None) -> Entry | None:
    """The entry, unless it is blank: public files carry blanks that mean unset."""
    return None if entry is None or entry.value is None or entry.value == "" else entry


def _none(key: str) -> Entry:
    return Entry(key=key, value=None, source=DEFAULT, written=key)


def _nearness(entry: Entry) -> int:
    return 2 if entry.source.layer in CHOSEN else 1 if entry.source.layer == "environment" else 0


def _smaller(one: Entry, other: Entry) -> bool:
    return isinstance(one.value, int) and isinstance(other.value, int) and one.value < other.value


def _unused_url(url: Entry) -> str:
    return (
        f"The endpoint of {url.source.where} in .env is not used: the API key does not come from the same"
        " file"
    )


def _same(one: Any, other: Any) -> bool:
    return str(one).rstrip("/") == str(other).rstrip("/")
