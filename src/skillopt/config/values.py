"""Decides which spellings of a value are one value: public second names become the one name that the rest of
the program knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MODES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "optimizer.lr_control_mode": {
        "fixed": ("manual", "scheduler", "scheduled"),
        "autonomous": ("auto", "optimizer"),
        "none": ("off", "no_lr"),
    },
    "optimizer.skill_update_mode": {
        "patch": (),
        "rewrite_from_suggestions": ("rewrite", "suggestions", "rewrite_suggestions"),
        "full_rewrite_minibatch": ("full_rewrite", "minibatch_full_rewrite", "skill_rewrite_minibatch"),
    },
    "optimizer.longitudinal_pair_policy": {
        "mixed": ("default", "random", "all"),
        "changed": ("change", "delta", "10_01", "01_10"),
        "unchanged": ("stable", "same", "00_11"),
    },
    "auth_mode": {
        "api_key": ("key",),
        "azure_cli": (),
        "managed_identity": ("aad", "azure_ad"),
        "openai_compatible": ("compat", "openai"),
    },
}
"""Key (or the end of it) to its values, each with its second names."""
_NOT_SENT = ("none", "off")


def canonical(key: str, value: Any) -> Any:
    """The value under its one name; a value that is no second name stays as it is and is judged by the key's
    type.
    """
    if key.endswith("temperature"):
        return None if _word(value) in _NOT_SENT else value
    return _names(key).get(_word(value), value)


def known_words(key: str) -> list[str]:
    """Every spelling a key knows, for the near miss."""
    return list(_names(key))


def _names(key: str) -> dict[str, str]:
    modes = MODES.get("auth_mode" if key.endswith("auth_mode") else key, {})
    return {word: name for name, others in modes.items() for word in (name, *others)}


def _word(value: Any) -> str:
    if value is False:
        return "off"  # YAML reads an unquoted `off` as false
    return value.strip().lower().replace("-", "_") if isinstance(value, str) else ""
