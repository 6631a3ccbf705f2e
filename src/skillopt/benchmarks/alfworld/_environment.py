"""Decides how a target acts in a game - by a tool, or by tags in its reply - and what it observes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from skillopt.benchmarks.alfworld._game import Game, Seen
from skillopt.executors import Executor, Handle
from skillopt.messages import Tool

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
        return f"{seen.text}\n\n{_possible(seen.possible)}"


def plain(action: str) -> str:
    """An action as the game knows it: small letters, single spaces, no quotes or full stop around it."""
    return " ".join(action.lower().split()).strip("\"'`. ")[:_SHOWN]


def _possible(actions: Sequence[str]) -> str:
    """The actions that would do something; the many places to go to are known from the task."""
    near = [action for action in actions if not action.startswith(_GO)]
    return f"Possible here: {'; '.join(near)}. Also: go to any other place."
