"""One game of ALFWorld: played in a worker process, action by action, in a room that the target sees."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from skillopt.benchmarks.alfworld._load import short_names
from skillopt.executors import Executor, Handle
from skillopt.messages import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What an action led to."""

    text: str
    possible: tuple[str, ...]
    """Every action that would do something now."""
    won: bool


class Game:
    """A game at its beginning. An action that is not possible does nothing, and says so.

    It lives in a worker process: TextWorld can neither bear threads nor leave stdout alone.
    """

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


WON = "The task is done."
"""Ends the observation after which the game is won, and no other."""
NOTHING = "Nothing happens."
"""How the game answers an action that is not possible."""
_ACTION = re.compile(r"<action>((?:(?!<action>).)*?)</action>", re.IGNORECASE | re.DOTALL)
_GO = "go to "
_SHOWN = 200
ACT = Tool.of(
    "act",
    "Do one action in the room and see what happens. One call at a time: each action depends on what the last"
    " one showed.",
    ["action"],
    action="The action in the game's own words, for example: go to cabinet 1",
)


class Room:
    """One episode. The game itself is opened with the first action, in a process of its own."""

    tools: Sequence[Tool] = (ACT,)

    def __init__(self, executor: Executor, gamefile: Path, max_steps: int) -> None:
        self.max_turns = max_steps
        self.done = False
        self.failure: str | None = None
        self._executor = executor
        self._gamefile = gamefile
        self._left = max_steps
        self._game: Handle | None = None

    async def step(self, name: str, arguments: Mapping[str, object]) -> str:
        """Do what the call says."""
        action = arguments.get("action")
        if not isinstance(action, str) or not action.strip():
            return 'act needs a text "action", such as {"action": "look"}. Nothing was done.'
        return await self._act(action)

    async def hear(self, reply: str) -> str | None:
        """Do what stands in the last pair of tags."""
        found = _ACTION.findall(reply)
        if not found or not found[-1].strip():
            return (
                "Your reply holds no action, so nothing was done. End it with one, such as"
                " <action>look</action>."
            )
        return await self._act(found[-1])

    async def close(self) -> None:
        """Let go of the game."""
        if self._game is not None:
            await self._game.close()

    async def _act(self, action: str) -> str:
        if self._game is None:
            self._game = await self._executor.open(partial(Game, str(self._gamefile)))
        seen: Seen = await self._game.call("act", plain(action))
        self._left -= 1
        if seen.won:
            self.done = True
            return f"{seen.text}\n\n{WON}"
        if self._left <= 0:
            self.done, self.failure = True, "turns"
            return f"{seen.text}\n\nNo actions are left, and the task is not done."
        # The many places to go to are known from the task.
        near = [action for action in seen.possible if not action.startswith(_GO)]
        return f"{seen.text}\n\nPossible here: {'; '.join(near)}. Also: go to any other place."


def plain(action: str) -> str:
    """An action as the game knows it: small letters, single spaces, no quotes or full stop around it."""
    return " ".join(action.lower().split()).strip("\"'`. ")[:_SHOWN]
