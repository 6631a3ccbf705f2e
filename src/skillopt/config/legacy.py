"""The table of public names (`legacy.yaml`), and what a row of it says of one service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ENDPOINT: Mapping[str, str] = {"base_url": "base_url", "api_key": "api_key"}
"""The keys of a service that has an address and a key, and nothing else of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueAliases:
    """A public key whose values are other words for those of what it fills."""

    fills: str
    values: Mapping[str, Any]
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicNames:
    """The public keys, variables and backend names of a provider, of a login or of an agent program."""

    prefix: str = ""
    """What its keys and variables begin with; blank is its name."""
    keys: Mapping[str, str | ValueAliases] = field(default_factory=lambda: ENDPOINT)
    """The rest of each key, and the part of a role's settings that the key fills: `base_url`, `api_key`,
    `name`, `temperature`, `options.<name>`, `agent.<name>` ... Each also exists for one role, and as a
    variable.
    """
    role_keys: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    """Keys without the prefix, whole: the role each is for (None is both), and what it fills."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Further environment variables, by what they fill; those that follow from the keys come first."""
    backends: tuple[str, ...] = ()
    """Backend names that mean it, for a bare model name. The name of a provider is always one."""
    target_only: bool = False
    """Whether `model.backend` with one of these names leaves the optimizer as it is."""
    stands_in_for: str = ""
    """The service whose bare model names come here wherever an address of this one is configured."""
    open_backend: str = ""
    """The backend name that leaves the choice to an address: this service, or one that stands in for it."""

    def variable(self, name: str, part: str) -> str:
        """The first variable that fills a part of a role's settings."""
        last = next(key for key, fills in self.keys.items() if fills == part)
        return f"{self.prefix or name}_{last}".upper()


@cache
def table() -> Mapping[str, Any]:
    """The whole table."""
    import yaml  # here, as most commands need no configuration

    text = Path(__file__).with_name("legacy.yaml").read_text(encoding="utf-8")
    return dict(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def public_names(service: str, declared: PublicNames) -> PublicNames:
    """The names of a service: those of the table, else those that a plug-in declared."""
    row = table()["services"].get(service)
    if row is None:
        return declared
    keys = {
        key: ValueAliases(**fills) if isinstance(fills, dict) else fills for key, fills in row["keys"].items()
    }
    return PublicNames(**{**row, "keys": keys})
