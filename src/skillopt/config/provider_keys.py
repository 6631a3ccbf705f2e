"""Decides which public keys and variables belong to one provider or agent program, and what of a role's
settings each of them fills.

`model.qwen_chat_base_url` is the endpoint of every role on Qwen; `model.optimizer_qwen_chat_base_url` of the
optimizer, if it is on Qwen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Optional

from skillopt.config.fields import Leaf, leaves
from skillopt.config.role_schema import ROLES, RoleConfig, RoleName

THINKING_MODE = "thinking_mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderKey:
    """One public key."""

    leaf: Leaf
    owner: str
    """The provider, or the agent program."""
    role: RoleName | None
    """The role it is for; None is both."""
    fills: str
    """The part of a role's settings."""


_ENDPOINT = {"base_url": "base_url", "api_key": "api_key"}
_KNOBS = {
    "model": "name",
    "temperature": "temperature",
    "timeout_seconds": "timeout",
    "max_tokens": "max_tokens",
}
_PROVIDERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "openai": ("openai", {**_ENDPOINT, "api": "options.api"}),
    "anthropic": ("anthropic", _ENDPOINT),
    "gemini": ("gemini", _ENDPOINT),
    "compatible": ("openai_compatible", {**_ENDPOINT, **_KNOBS}),
    "azure": (
        "azure_openai",
        {
            "endpoint": "base_url",
            "api_key": "api_key",
            **{
                name: f"options.{name}"
                for name in ("auth_mode", "api_version", "ad_scope", "managed_identity_client_id")
            },
        },
    ),
    "qwen": (
        "qwen_chat",
        {
            **_ENDPOINT,
            **_KNOBS,
            "enable_thinking": "options.enable_thinking",
            THINKING_MODE: "options.enable_thinking",
            "use_max_completion_tokens": "options.use_max_completion_tokens",
        },
    ),
    "minimax": (
        "minimax",
        {"region": "options.region", **_ENDPOINT, **_KNOBS, "enable_thinking": "options.enable_thinking"},
    ),
    **{
        login: (login, {"api_key": "api_key"})
        for login in ("claude_cli", "codex_cli", "copilot_cli", "cursor_cli")
    },
}
"""Provider to the prefix of its keys, and what each key fills. All of them also exist per role."""
_PROGRAMS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "claude": ("claude_code_exec", ("path", "profile", "use_sdk", "effort", "max_thinking_tokens")),
    "codex": (
        "codex_exec",
        (
            "path",
            "sandbox",
            "profile",
            "reasoning_effort",
            "use_sdk",
            "network_access",
            "web_search",
            "approval_policy",
        ),
    ),
    "cursor": ("cursor_exec", ("path", "sandbox")),
    "copilot": ("copilot_exec", ("path", "home", "allow_all_tools")),
}
"""Agent program to the prefix of its keys, and the settings it takes."""
SECOND_VARIABLES: Mapping[str, str] = {
    "GOOGLE_API_KEY": "model.gemini_api_key",
    "CLAUDE_CODE_OAUTH_TOKEN": "model.claude_cli_api_key",
    **dict.fromkeys(("CODEX_API_KEY", "CODEX_ACCESS_TOKEN"), "model.codex_cli_api_key"),
    "COPILOT_GITHUB_TOKEN": "model.copilot_cli_api_key",
    "CURSOR_API_KEY": "model.cursor_cli_api_key",
    "CLAUDE_CLI_BIN": "model.claude_code_exec_path",
    **dict.fromkeys(("CODEX_CLI_BIN", "CODEX_PATH"), "model.codex_exec_path"),
    **dict.fromkeys(("CODEX_SANDBOX_MODE", "CODEX_SANDBOX"), "model.codex_exec_sandbox"),
    "CODEX_PROFILE": "model.codex_exec_profile",
}
"""Public and customary variables whose name does not follow from their key."""
_PARTS: Mapping[str, Leaf] = {leaf.key: leaf for leaf in leaves(RoleConfig)}
_TEXTS = {
    "name": "Model of the roles on {owner} that name none.",
    "base_url": "Endpoint of the roles on {owner}.",
    "api_key": "Key of the roles on {owner}; better kept in the environment.",
}


def _leaf(key: str, owner: str, name: str, fills: str, role: RoleName | None) -> Leaf:
    part = _PARTS[fills]
    # Every public key may be blank, also where the setting it fills has a default.
    annotation: Any = Optional[part.annotation]  # noqa: UP045 - the type is a value here, and may be a Literal
    if name == THINKING_MODE:
        annotation = Literal["server_default", "enabled", "disabled"] | None
    text = (
        "Thinking on, off, or as the server has it."
        if name == THINKING_MODE
        else _TEXTS.get(fills, part.description)
    )
    whose = f" Only for the {role}." if role else ""
    return Leaf(key=key, annotation=annotation, default=None, description=text.format(owner=owner) + whose)


def _keys() -> Iterator[ProviderKey]:
    for owner, (prefix, names) in _PROVIDERS.items():
        for role in (None, *ROLES):
            for name, fills in names.items():
                key = f"model.{role}_{prefix}_{name}" if role else f"model.{prefix}_{name}"
                yield ProviderKey(
                    leaf=_leaf(key, owner, name, fills, role), owner=owner, role=role, fills=fills
                )
    for owner, (prefix, settings) in _PROGRAMS.items():
        for name in settings:
            key = f"model.{prefix}_{name}"
            yield ProviderKey(
                leaf=_leaf(key, owner, name, f"agent.{name}", None),
                owner=owner,
                role=None,
                fills=f"agent.{name}",
            )
    for role in ROLES:
        key = f"model.copilot_chat_{role}_model"
        yield ProviderKey(
            leaf=_leaf(key, "copilot_cli", "model", "name", role),
            owner="copilot_cli",
            role=role,
            fills="name",
        )
    key = "model.copilot_chat_timeout"
    yield ProviderKey(
        leaf=_leaf(key, "copilot_cli", "timeout", "timeout", None),
        owner="copilot_cli",
        role=None,
        fills="timeout",
    )


PROVIDER_KEYS: Mapping[str, ProviderKey] = {each.leaf.key: each for each in _keys()}
"""Every such key by its dotted name."""


def _variables() -> Iterator[tuple[str, str]]:
    for key in PROVIDER_KEYS:
        yield key.removeprefix("model.").upper(), key
    for prefix, names in _PROVIDERS.values():
        for role in ROLES:
            for name in names:  # the other order of the same words, as in AZURE_OPENAI_TARGET_ENDPOINT
                yield f"{prefix}_{role}_{name}".upper(), f"model.{role}_{prefix}_{name}"
    yield from SECOND_VARIABLES.items()


PROVIDER_VARIABLES: Mapping[str, str] = dict(_variables())
"""Environment variable to key; of two variables for one key the first in this order counts."""


def of_program(key: str) -> bool:
    """True for a setting of an agent program: what starts on this machine, and what it may do there."""
    return key in PROVIDER_KEYS and PROVIDER_KEYS[key].fills.startswith("agent.")


def keys_of(owner: str, role: RoleName, fills: str) -> list[str]:
    """The keys that may fill a part of a role's settings."""
    return [
        key
        for key, each in PROVIDER_KEYS.items()
        if each.owner == owner and each.fills == fills and each.role in (None, role)
    ]


def filled_by(owner: str) -> list[str]:
    """The parts of a role's settings that the keys of a provider or program can fill."""
    return list(dict.fromkeys(each.fills for each in PROVIDER_KEYS.values() if each.owner == owner))
