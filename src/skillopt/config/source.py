"""Where a value came from, and how that is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Layer = Literal["flag", "cfg-options", "config", "environment", ".env", "default"]
LAYERS: tuple[Layer, ...] = ("default", ".env", "environment", "config", "cfg-options", "flag")
"""Weakest first."""
CHOSEN: frozenset[Layer] = frozenset({"config", "cfg-options", "flag"})
"""Layers in which the user wrote this run's own settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The layer a value comes from, and the file and line, flag or variable in it."""

    layer: Layer
    where: str = ""

    def __str__(self) -> str:
        return f"{self.layer} {self.where}".rstrip()

    def beats(self, other: Source) -> bool:
        """True when this layer has precedence over the other's."""
        return LAYERS.index(self.layer) > LAYERS.index(other.layer)


DEFAULT = Source(layer="default")
SET = "[set]"
"""Stands for a credential where settings are shown or kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One value as somebody wrote it: its key here, its key as written, and the folder of its file."""

    key: str
    value: Any = field(repr=False)
    source: Source
    written: str
    folder: Path | None = None

    @classmethod
    def by_default(cls, key: str, value: Any, where: str = "") -> ConfigEntry:
        """A value that nobody wrote."""
        return cls(key=key, value=value, source=Source(layer="default", where=where), written=key)

    @property
    def is_text(self) -> bool:
        """True for a flag, an option or a variable: its value is read by the type of its key."""
        return self.source.layer not in ("config", "default")

    def __str__(self) -> str:
        if self.source.layer == "config":
            return f"{self.written} ({self.source.where})"
        return self.written if self.written in self.source.where else f"{self.written} ({self.source})"
