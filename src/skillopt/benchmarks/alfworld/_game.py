"""One game of ALFWorld, played with TextWorld. Lives in a worker process: TextWorld can neither bear threads
nor leave stdout alone.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from skillopt.benchmarks.alfworld._names import short_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What an action led to."""

    text: str
    possible: tuple[str, ...]
    """Every action that would do something now."""
    won: bool


class Game:
    """A game at its beginning. An action that is not possible does nothing, and says so."""

    def __init__(self, path: str) -> None:
        arguments = sys.argv  # the translator writes its own there
        try:
            self._engine = _engine()
            self._engine.load(path)
            infos = self._engine._entity_infos
            for one, name in short_names(info.id for info in infos.values()).items():
                infos[one].name = name
            self._engine.reset()
        finally:
            sys.argv = arguments

    def act(self, action: str) -> Seen:
        """Do one action."""
        state, _, _ = self._engine.step(action)
        return Seen(
            text=state.feedback.strip(), possible=tuple(state["admissible_commands"]), won=bool(state["won"])
        )

    def look(self) -> str:
        """What a player reads first, in the game's own words."""
        return str(self._engine.state.feedback)


def _engine() -> Any:
    _share_work()
    core = importlib.import_module("textworld.core")
    return importlib.import_module("textworld.envs.pddl.pddl").PddlEnv(core.EnvInfos())


@cache
def _share_work() -> None:
    """Let TextWorld do once what it does several times, which makes a game start four times as fast.

    It translates a game when it is loaded and again at its reset, each time twice: as it is, and simplified
    for a planner that nobody asks here. And it parses the same few templates at every step.
    """
    downward: Any = importlib.import_module("fast_downward")
    textgen: Any = importlib.import_module("textworld.envs.pddl.textgen")
    downward.pddl2sas = _last_kept(downward.pddl2sas)
    textgen._parse_and_convert = lru_cache(4096)(textgen._parse_and_convert)


def _last_kept(translate: Callable[..., Any]) -> Callable[..., Any]:
    kept: dict[tuple[str, str], Any] = {}

    def translated(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        if (domain, problem) not in kept:
            kept.clear()
            kept[domain, problem] = translate(domain, problem, verbose=verbose)
        return kept[domain, problem]

    return translated
