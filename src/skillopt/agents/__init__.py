"""Agent programs, one folder each: drivers, places of skills, memory and transcripts, what is installed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath, PurePosixPath
from typing import TYPE_CHECKING

from skillopt.agents.port import Agent
from skillopt.errors import UnknownName
from skillopt.registry import Offer, Registry

if TYPE_CHECKING:
    from skillopt.programs.port import AgentDriver
    from skillopt.transcripts.session import Homes, TranscriptSource

AGENTS = Registry("agent", "skillopt.agents")


def agents() -> list[Agent]:
    """Every agent there is, by name."""
    return [AGENTS.get(name) for name in AGENTS.names()]


def agent(name: str) -> Agent:
    """The agent of that name or alias, with dashes or underscores. Raises `UnknownName`."""
    plain = name.replace("-", "_")
    if plain not in AGENTS.names():
        plain = next((one.name for one in agents() if plain in (*one.aliases, one.login)), plain)
    found: Agent = AGENTS.get(plain)
    return found


def driven() -> list[str]:
    """The names of the agents that can be driven."""
    return [one.name for one in agents() if one.driver is not None]


def driver(name: str) -> AgentDriver:
    """The driver of an agent; raises `UnknownName` for one that cannot be driven."""
    if name not in driven():
        raise UnknownName("agent", name, driven())
    part = agent(name).driver
    assert part is not None
    return part()


def skill_folders() -> tuple[str, ...]:
    """Where agents look for skills, below a project."""
    return tuple(dict.fromkeys(one.skills for one in agents() if one.skills))


def memory_files() -> tuple[str, ...]:
    """The files of a project that agents read into every conversation, in the order they are looked for."""
    return tuple(dict.fromkeys(name for one in agents() for name in one.memory))


def is_memory_file(path: PurePath) -> bool:
    """Whether an agent reads this file into every conversation, by its name and place."""
    folded = PurePosixPath(path.as_posix().casefold())
    patterns = (pattern for one in agents() for pattern in (*one.memory, *one.rules))
    return any(folded.match(pattern.casefold()) for pattern in patterns)


def _sources() -> dict[str, Offer]:
    return {
        one.source: Offer(load=one.transcripts, says=f"{one.title}.")
        for one in agents()
        if one.transcripts is not None
    }


SOURCES = Registry("transcript source", group="skillopt.transcripts", offers=_sources)


def source(name: str, homes: Homes) -> TranscriptSource:
    """The transcripts of that name, or of the agent of that alias. Raises `UnknownName`."""
    plain = name.replace("-", "_")
    if plain not in SOURCES.names():
        plain = next((one.source for one in agents() if one.source and plain in one.aliases), plain)
    found: TranscriptSource = SOURCES.get(plain)(homes)
    return found


def present(homes: Homes) -> list[TranscriptSource]:
    """Every source that has transcripts here."""
    return [one for one in (source(name, homes) for name in SOURCES.names()) if one.found()]


def pick(names: Iterable[str], homes: Homes) -> list[TranscriptSource]:
    """The named sources, each once, in the order given; `auto` stands for all that are present."""
    picked: dict[str, TranscriptSource] = {}
    for name in names:
        for one in present(homes) if name == "auto" else [source(name, homes)]:
            picked.setdefault(one.name, one)
    return list(picked.values())
