"""Where transcripts come from, one file a source. The folder is the registry; `harvest` reads all of them."""

from __future__ import annotations

from collections.abc import Iterable

from skillopt.registry import Registry
from skillopt.transcripts._harvest import harvest
from skillopt.transcripts._source import Homes, Source

__all__ = ["ALIASES", "SOURCES", "Homes", "Source", "harvest", "pick", "present", "source"]

SOURCES = Registry("transcript source", "skillopt.transcripts.sources", group="skillopt.transcripts")

ALIASES = {"claude": "claude_code", "copilot": "copilot_chat", "vscode": "copilot_chat"}
"""Public and obvious names of sources."""


def source(name: str, homes: Homes) -> Source:
    """The source of that name; an unknown one is an error that names the near miss."""
    known = name.replace("-", "_")
    found: Source = SOURCES.get(ALIASES.get(known, known))(homes)
    return found


def present(homes: Homes) -> list[Source]:
    """Every source that has transcripts here."""
    return [one for one in (source(name, homes) for name in SOURCES.names()) if one.found()]


def pick(names: Iterable[str], homes: Homes) -> list[Source]:
    """The named sources, each once, in the order given; `auto` stands for all that are present."""
    picked: dict[str, Source] = {}
    for name in names:
        for one in present(homes) if name == "auto" else [source(name, homes)]:
            picked.setdefault(one.name, one)
    return list(picked.values())
