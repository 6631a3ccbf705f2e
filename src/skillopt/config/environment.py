"""Decides how a `.env` file is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from skillopt.config.source import Layer
from skillopt.errors import ConfigError

_LINE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$")

Variables = Mapping[Layer, Mapping[str, str]]
"""The variables of the environment and of `.env`."""


def read_dotenv(path: Path) -> dict[str, str]:
    """The variables of a `.env` file: `NAME=value`, optional `export`, quotes and comments. Nothing is substituted."""
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


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1]
    if text[:1] in ("'", '"') and text[0] in text[1:]:
        return text[1 : text.index(text[0], 1)]
    return re.split(r"\s+#", text, maxsplit=1)[0].strip()
