"""Reads the settings of an agent CLI: typed where a driver uses them, refused where they would do nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillopt.errors import ConfigError, suggest

_CLI_WORDS = (None, "", "auto", "cli", "false", False)


def check_settings(agent: str, settings: Mapping[str, Any], known: frozenset[str]) -> None:
    """Every setting that is set is one the agent has."""
    for name, value in settings.items():
        if value not in (None, "") and name not in known:
            raise ConfigError(f"{agent} has no setting {name!r}. {suggest(name, sorted(known))}")


def text_setting(settings: Mapping[str, Any], name: str) -> str | None:
    """A text, or None where it is unset or empty."""
    value = settings.get(name)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"The agent setting {name!r} is {value!r}; write a text.")
    return value or None


def choice(settings: Mapping[str, Any], name: str, choices: tuple[str, ...], default: str) -> str:
    """One of a few words."""
    value = text_setting(settings, name) or default
    if value not in choices:
        raise ConfigError(f"The agent setting {name!r} has no value {value!r}. {suggest(value, choices)}")
    return value


def switch(settings: Mapping[str, Any], name: str, default: bool) -> bool:
    """On or off; unset is the default."""
    value = settings.get(name)
    if value is None or value == "":
        return default
    if not isinstance(value, bool):
        raise ConfigError(f"The agent setting {name!r} is {value!r}; write true or false.")
    return value


def refuse_sdk(agent: str, settings: Mapping[str, Any]) -> None:
    """The agents' Python SDKs are not used: they start the same CLI, with the user's environment."""
    value = settings.get("use_sdk")
    word = value.lower() if isinstance(value, str) else value
    if word not in _CLI_WORDS:
        raise ConfigError(
            f"{agent}: use_sdk {value!r} is not supported: the CLI itself is driven. Set it to 'auto' or"
            " 'cli', or remove it."
        )
