"""Decides what a public backend name means for each role, and which model a role gets that names none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillopt.config.role_schema import RoleName
from skillopt.errors import ConfigError, suggest

CHAT = "chat"
EITHER = "openai_chat"
"""The public backend that means Azure where an Azure endpoint is configured, else the OpenAI API."""
SENTINELS = frozenset({"gpt-5.4", "gpt-5.5"})
"""Public default names: where the user did not insist on the command line, another backend's own default
takes their place.
"""

OWN_LOGIN: Mapping[str, str] = {
    "claude_code": "claude_cli",
    "codex": "codex_cli",
    "copilot": "copilot_cli",
    "cursor": "cursor_cli",
    "opencode": "opencode_cli",
}
"""Harness to the name of its program's own login, which serves a target that names no provider."""
LOGIN_ONLY = frozenset({"cursor_cli", "opencode_cli"})
"""Logins that no chat provider stands behind: only their harness can use them."""
VENDORS: Mapping[str, str] = {"claude_cli": "anthropic", "codex_cli": "openai"}
"""Login to the provider whose key serves a harness as well: its rollouts have homes of their own, where
nobody is logged in.
"""
PROGRAMS: Mapping[str, str] = {login: harness.removesuffix("_code") for harness, login in OWN_LOGIN.items()}
"""Login to the agent program it belongs to."""
DEFAULT_MODELS: Mapping[str, str] = {
    "anthropic": "claude-sonnet-4-6",
    "claude_cli": "claude-sonnet-4-6",
    "cursor_cli": "composer-2.5",
    "qwen": "Qwen/Qwen3.5-4B",
    "minimax": "MiniMax-M3",
    "copilot_cli": "",
    "opencode_cli": "",
}
"""Provider to the model it runs when none is named; blank leaves the choice to the program."""
OURS = frozenset(
    {
        "openai",
        "azure",
        "anthropic",
        "compatible",
        "qwen",
        "minimax",
        "gemini",
        "local",
        "handoff",
        "world",
        *PROGRAMS,
    }
)
"""Every provider and login this configuration knows, installed or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What a backend name stands for."""

    provider: str
    harness: str = CHAT
    optimizer: bool = True
    """Whether an optimizer can have it."""
    fills_optimizer: bool = True
    """Whether it reaches the optimizer when it is the common `model.backend`."""


_BACKENDS: Mapping[str, Backend] = {
    "azure_openai": Backend(provider="azure"),
    EITHER: Backend(provider=EITHER),
    "openai": Backend(provider="openai"),
    "openai_compatible": Backend(provider="compatible"),
    "anthropic": Backend(provider="anthropic"),
    "claude_chat": Backend(provider="claude_cli"),
    "copilot_chat": Backend(provider="copilot_cli"),
    "codex_exec": Backend(provider="codex_cli", harness="codex"),
    "qwen_chat": Backend(provider="qwen", fills_optimizer=False),
    "minimax_chat": Backend(provider="minimax", fills_optimizer=False),
    "claude_code_exec": Backend(
        provider="claude_cli", harness="claude_code", optimizer=False, fills_optimizer=False
    ),
    "cursor_exec": Backend(provider="cursor_cli", harness="cursor", optimizer=False, fills_optimizer=False),
    "copilot_exec": Backend(
        provider="copilot_cli", harness="copilot", optimizer=False, fills_optimizer=False
    ),
}
_ALIASES: Mapping[str, str] = {
    "azure": "azure_openai",
    "claude": "claude_chat",
    "codex": "codex_exec",
    **dict.fromkeys(("cursor", "cursor_agent"), "cursor_exec"),
    **dict.fromkeys(("copilot", "copilot_cli", "github_copilot"), "copilot_chat"),
    "qwen": "qwen_chat",
    "minimax": "minimax_chat",
    **dict.fromkeys(("openai_compatible_chat", "compat", "compatible"), "openai_compatible"),
}
"""Public second names. Two differ on purpose: `openai` and `anthropic` mean those APIs here, not an agent
program.
"""


def backend_names() -> list[str]:
    """Every public backend name."""
    return sorted({*_BACKENDS, *_ALIASES})


def find_backend(name: str, key: str, providers: Sequence[str], harnesses: Sequence[str]) -> Backend:
    """What a backend name means: a public name, else a provider or a harness of ours; anything else is an
    error with the near miss.
    """
    plain = name.strip().lower().replace("-", "_")
    public = _BACKENDS.get(_ALIASES.get(plain, plain))
    if public is not None:
        return public
    if plain in providers:
        return Backend(provider=plain)
    if plain in harnesses and plain in OWN_LOGIN:
        return Backend(provider=OWN_LOGIN[plain], harness=plain, optimizer=False, fills_optimizer=False)
    raise ConfigError(
        f"{key}: no backend named {name!r}. {suggest(plain, sorted({*backend_names(), *providers}))}"
    )


def for_role(backend: Backend, role: RoleName, name: str, key: str) -> Backend:
    """The backend as one role has it: an optimizer talks, it runs in no harness."""
    if role == "target":
        return backend
    if not backend.optimizer:
        talking = next(
            (
                each
                for each, other in _BACKENDS.items()
                if other.provider == backend.provider and other.harness == CHAT
            ),
            None,
        )
        hint = f"; {talking!r} is the same program as a model" if talking else ""
        raise ConfigError(
            f"{key}: {name!r} is an agent that works on tasks, so only the target can have it{hint}"
        )
    return Backend(provider=backend.provider)
