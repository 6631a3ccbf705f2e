"""What configuration has to know of a service that a role's model string can name: a model provider, the
login of an agent program, or such a program itself. Each declares it in its own file, and its public names
stand in `legacy.yaml`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

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
        """The first variable that fills a part of a role's settings; blank where none does."""
        last = next((key for key, fills in self.keys.items() if fills == part), "")
        return last and f"{self.prefix or name}_{last}".upper()


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


_NAMES = PublicNames()
WRITES: dict[str, Any] = {"writes": True}
"""`json_schema_extra` of an option that is a path and is written: it belongs to the working directory, never
to the folder of a config file.
"""


class Options(BaseModel):
    """Base of a service's options, and the options of a service that has none. Unset is None."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class AnyOptions(Options):
    """Options that whoever takes them checks: of a chat through an agent program, which has the program's."""

    model_config = ConfigDict(extra="allow")


EXPECTED: Mapping[str, str] = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "is_instance_of": "a path",
    "list_type": "a list",
    "dict_type": "keys with values",
    "string_too_short": "text",
}
"""Kinds of pydantic errors to what was expected, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The declaration. All of it can be left out: a service named `acme` then has the keys
    `model.acme_api_key` and `model.acme_base_url`, and the variables `ACME_API_KEY` and `ACME_BASE_URL`.
    """

    Options: type[BaseModel] = Options
    """`model.<role>.options` of a role that is on it: one typed, documented field each. An option that is not
    in it is an error.
    """
    routing: frozenset[str] = frozenset()
    """Options that only say where and as whom to call. All others can change an answer, so they are part of
    what makes two runs the same run.
    """
    needs_key: bool | Callable[[Mapping[str, Any]], bool] = False
    """Whether nothing can be asked without a key; a function decides by the options that are set."""
    takes_common_effort: bool = True
    """Whether `model.reasoning_effort`, which is for both roles, reaches it also from a file. Where many
    endpoints do not know it, only a role's own setting and the command line ask for it.
    """
    may_lack_key: bool = False
    """Whether an endpoint may be without a key after all: on this machine, or where the key is `none`."""
    needs_url: bool = False
    """Whether it has no address of its own."""
    urls: tuple[str, ...] = ()
    """Its own addresses, the one first that is called where none is given."""
    needs_name: bool = True
    """Whether it serves many models, so that its name alone is no model."""
    uses_own_login: bool = False
    """Whether the person's own login on this machine is used where no key is known."""
    default_model: str | None = None
    """The model of a role that names none; blank leaves the choice to the service."""
    seconds: float | None = None
    """How long a call may take where `timeout` is not set; None is `env.exec_timeout`."""
    role_defaults: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = lambda model, options: {}
    """Values of a role's settings where nobody set them, from the model's name and the options: such as
    `max_tokens`, or a `context_window`, which not every role has.
    """
    model_files: str = ""
    """The ending of model names that are files, such as `.gguf`: such a name is resolved like any path."""
    simulates_both: bool = False
    """Whether a target on it needs an optimizer on it, which is then meant where none is named."""
    names: PublicNames = _NAMES
    """Its public keys, variables and backend names, where `legacy.yaml` has no row of it: a plug-in's own."""

    def address(self, url: str | None) -> str:
        """A base URL as it identifies a measurement; empty for the service's own."""
        found = "" if url is None else plain_address(url)
        return "" if found in map(plain_address, self.urls) else found

    def variable(self, name: str, part: str) -> str:
        """The first variable that fills a part of a role's settings."""
        return public_names(name, self.names).variable(name, part)

    def wants_key(self, options: Mapping[str, Any]) -> bool:
        """Whether a role with these options cannot do without a key."""
        return self.needs_key(options) if callable(self.needs_key) else self.needs_key


_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def plain_address(url: str) -> str:
    """A URL without what makes no other endpoint of it: credentials, query, default port, upper case in the
    host, a trailing slash.
    """
    scheme, _, rest = url.strip().partition("://")
    place, slash, path = re.split(r"[?#]", rest)[0].partition("/")
    host = place.rpartition("@")[2].lower().removesuffix(_DEFAULT_PORTS.get(scheme.lower(), ":"))
    return f"{scheme.lower()}://{host}{slash}{path}".rstrip("/")


def is_loopback(url: str) -> bool:
    """True when the URL's host is this machine by its loopback address or as `localhost`."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
