"""Model strings: which harness, provider, model and endpoint `[harness/]provider:model[@url]` names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillopt.config.sections import WORKERS, RoleName
from skillopt.config.services import CHAT, declared
from skillopt.errors import ConfigError, UnknownName
from skillopt.harnesses import harness_of, harnesses

_NO_MODEL = re.compile(
    r"\s|^\.{0,2}/|^[~\\]|^[A-Za-z]:[\\]|:/|^[\w.-]+:\d+(?=/|$)|\b(?:cmd|python[\d.]*)\b"
    r"|\.(?:py|js|mjs|ts|sh|bash|exe|bat|ps1|rb|jar)\b"
)
"""Signs that a bare name is a command line, a path or an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelString:
    """The parts of a model string; `provider` is None for a bare name."""

    harness: str
    provider: str | None
    name: str
    base_url: str | None = None
    says_harness: bool = False
    """Whether the harness was written: `chat` may be meant on purpose, or be there as nothing was said."""

    @property
    def is_own_agent(self) -> bool:
        """Whether it is a function, a program or a service, and no model."""
        return self.provider == self.harness == harness_of(self.name)

    def __str__(self) -> str:
        harness = f"{self.harness}/" if self.says_harness or self.harness != CHAT else ""
        if self.provider is None:
            return harness + self.name
        if self.is_own_agent:
            return self.name
        return harness + (self.provider if self.name == self.provider else f"{self.provider}:{self.name}")


def parse_model_string(text: str, role: RoleName) -> ModelString:
    """Split `[harness/]provider:model[@url]`. Registered prefixes are providers; `qwen2.5:7b` is a name."""
    known = declared().services
    rest, harness, says_harness = text.strip(), CHAT, False
    own = harness_of(rest)
    if own is not None:
        if role not in WORKERS:
            raise ConfigError(
                f"model.{role}: {text!r} is an agent of your own, which only a target or a proposer can be;"
                " name a model"
            )
        return ModelString(harness=own, provider=own, name=rest)
    before, slash, after = rest.partition("/")
    before = before.replace("-", "_")
    if slash and ":" not in before and (before in harnesses.names() or _prefix(after) in known):
        if role not in WORKERS:
            raise ConfigError(
                f"model.{role}: {text!r} names a harness ({before!r}), and only target and proposer have one;"
                f" write {after!r}"
            )
        if before not in harnesses.names():
            raise UnknownName("harness", before, harnesses.names())
        rest, harness, says_harness = after, before, True
    rest, base_url = _split_url(rest)
    prefix = _prefix(rest)
    bare = ModelString(
        harness=harness, provider=None, name=rest, base_url=base_url, says_harness=says_harness
    )
    if prefix not in known:
        _refuse_slips(rest, prefix, role, list(known))
        return bare
    name = rest.partition(":")[2]
    if not name and (":" in rest or known[prefix].needs_name):
        what = "names no model" if ":" in rest else "is a provider"
        raise ConfigError(f"model.{role}: {rest!r} {what}; write '{prefix}:MODEL'")
    return replace(bare, provider=prefix, name=name or prefix)


def provider_of(text: str) -> str | None:
    """The provider that a resolved model string names."""
    rest = text.partition("/")[2] if text.partition("/")[0].replace("-", "_") in harnesses.names() else text
    return _prefix(rest) if _prefix(rest) in declared().services else None


def names_no_model(text: str) -> bool:
    """Whether a text is a provider alone that is no model by itself: an error where the role is built."""
    return text in declared().services and declared().services[text].needs_name


def in_harness(target: str, default: str) -> str:
    """The target's model string with the benchmark's own harness, where none or only `chat` was written."""
    if names_no_model(target):
        return target
    parts = parse_model_string(target, "target")
    if parts.harness != CHAT:
        return str(parts)
    if default == CHAT:
        return str(replace(parts, says_harness=False))
    return str(parts if parts.says_harness else replace(parts, harness=default))


def passwords_in(text: str) -> list[str]:
    """The passwords inside the endpoints of a text, which are credentials like any other."""
    return re.findall(r"://[^/\s:@]*:([^/\s]+)@", text)


def _prefix(text: str) -> str:
    """What stands before the colon, as providers are named: `claude-cli` is `claude_cli`."""
    return text.partition(":")[0].replace("-", "_")


def _split_url(text: str) -> tuple[str, str | None]:
    for scheme in ("@http://", "@https://"):
        name, found, rest = text.partition(scheme)
        if found:
            return name, scheme[1:] + rest
    return text, None


def _refuse_slips(rest: str, prefix: str, role: RoleName, known: Sequence[str]) -> None:
    """A bare name that looks like a misspelt provider is an error: as a name it would fail late."""
    files = tuple(each.model_files for each in declared().services.values() if each.model_files)
    sign = None if rest.endswith(files) else _NO_MODEL.search(rest)
    if sign:
        raise ConfigError(
            f"model.{role}: {rest!r} is no model's name ({sign[0].strip() or 'a blank'!r} is in it). An agent"
            " of your own is written 'cmd: PROGRAM ARGUMENTS', 'http://HOST:PORT/PATH' or 'FILE.py:FUNCTION';"
            f" a model with such a name is written with its provider, as in 'openai:{rest}'"
        )
    alone = [name for name in known if not declared().services[name].needs_name]
    meant = known if ":" in rest else alone  # `wrold` is no model of somebody's, but `gpt-5` may be
    close = difflib.get_close_matches(prefix, meant, n=1, cutoff=0.8)
    if close:
        slip = f"model.{role}: no provider named {prefix!r}. Did you mean '{close[0]}{rest[len(prefix) :]}'?"
        raise ConfigError(f"{slip} If this is a model's name, write its provider before it.")
