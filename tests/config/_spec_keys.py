"""Keys that reach a provider or an agent program unchanged: which role they need, and where they arrive."""

from __future__ import annotations

from typing import Any

MODELS = {
    "openai": "openai:m",
    "anthropic": "anthropic:m",
    "gemini": "gemini:m",
    "compatible": "compatible:m",
    "azure": "azure:m",
    "qwen": "qwen:m",
    "minimax": "minimax:m",
    "local": "local:m",
    "handoff": "handoff",
    "claude_code": "claude_cli:m",
    "codex": "codex_cli:m",
    "copilot": "copilot_cli:m",
    "claude_cli": "claude_cli:m",
    "codex_cli": "codex_cli:m",
    "copilot_cli": "copilot_cli:m",
    "cursor": "cursor/m",
    "cursor_cli": "cursor/m",
}
OPTIONS: dict[str, tuple[str, Any]] = {
    "auth_mode": ("azure", "managed_identity"),
    "api_version": ("azure", "2025-01-01"),
    "ad_scope": ("azure", "https://scope/.default"),
    "managed_identity_client_id": ("azure", "client-1"),
    "api": ("openai", "responses"),
    "enable_thinking": ("qwen", True),
    "use_max_completion_tokens": ("qwen", True),
    "region": ("minimax", "cn_zh"),
    "n_ctx": ("local", 2048),
    "threads": ("local", 3),
    "parallel": ("local", 2),
    "folder": ("handoff", "questions"),
}
AGENT: dict[str, tuple[str, Any]] = {
    "path": ("claude_code", "/opt/claude"),
    "profile": ("claude_code", "p"),
    "use_sdk": ("codex", "cli"),
    "effort": ("claude_code", "high"),
    "max_thinking_tokens": ("claude_code", 100),
    "reasoning_effort": ("codex", "low"),
    "sandbox": ("codex", "read-only"),
    "network_access": ("codex", True),
    "web_search": ("codex", True),
    "approval_policy": ("codex", "on-request"),
    "home": ("copilot", "copilot-home"),
    "allow_all_tools": ("copilot", True),
    "activation": ("claude_code", "natural"),
}
SPEC_KEYS = {
    f"model.{role}.{section}.{name}": (owner, value)
    for role in ("optimizer", "target", "judge")
    for section, names in (("options", OPTIONS), ("agent", AGENT))
    for name, (owner, value) in names.items()
} | {"model.target.structured_output": ("openai", "json")}
"""Every key of a role that is handed on as it is."""
