"""Decides how a `.env` file is read, and which public variables do nothing here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from skillopt.config.source import Layer
from skillopt.errors import ConfigError

_LINE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$")

DEAD_VARIABLES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "EXEC_EMPTY_RESPONSE_RETRIES": (
        "an agent's empty answer is its own failure and scores 0; it is not asked again",
        ("0",),
    ),
    "CLAUDE_PERMISSION_MODE": (
        "nobody is asked: a chat has no tools, and a rollout those that work inside its own workspace",
        ("dontAsk",),
    ),
    "CLAUDE_SETTING_SOURCES": (
        "settings of yours are never read, so that they are no part of a measurement",
        (),
    ),
    "CLAUDE_ALLOW_ATTACHMENT_READ": ("the images of a task are always shown", ("1", "true")),
    "CODEX_WORKING_DIRECTORY": ("every rollout has a fresh workspace of its own", ()),
    "CODEX_EXEC_FULL_AUTO": ("use the sandbox settings of the agent", ("0", "false")),
    "OFFICEQA_SEARCH_API_URL": ("documents are searched where they lie, by no service", ()),
    "OFFICEQA_CUSTOM_SEARCH_AUTH": ("documents are searched where they lie, by no service", ()),
    "ALFWORLD_WORKER_START_METHOD": ("games run in worker programs of their own", ()),
}
"""Public variables without an effect, why, and the values that ask for what happens anyway."""

Variables = Mapping[Layer, Mapping[str, str]]
"""The variables of the environment and of `.env`."""


def read_dotenv(path: Path) -> dict[str, str]:
    """The variables of a `.env` file: `NAME=value`, optional `export`, quotes and comments. Nothing is
    substituted.
    """
    if not path.is_file():  # a folder of that name is somebody's virtual environment
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({type(error).__name__})") from None
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = None if line.lstrip().startswith("#") else _LINE.match(line)
        if match:
            found[match[1]] = _unquoted(match[2])
    return found


def about_dead(variables: Variables) -> list[str]:
    """A warning for every variable that somebody set and that changes nothing here."""
    set_here = {
        name: value
        for names in variables.values()
        for name, value in names.items()
        if name in DEAD_VARIABLES and value
    }
    return [
        f"The variable {name} has no effect here: {why}."
        for name, (why, unasking) in DEAD_VARIABLES.items()
        if name in set_here and set_here[name] not in unasking
    ]


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1]
    if text[:1] in ("'", '"') and text[0] in text[1:]:
        return text[1 : text.index(text[0], 1)]
    return re.split(r"\s+#", text, maxsplit=1)[0].strip()
