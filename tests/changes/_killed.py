"""Kills adoptions with SIGKILL at every step and at every call that touches a file, and tells what was found
afterwards, as JSON lines.

Run with a folder and `hook` or `call`. A child does the adoption; the parent looks at what it left, as the
next command would.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from changes._adoption import MEMORY, SKILL, THIRD, World
from skillopt_sleep.texts import with_learned

NEW = {"notes": THIRD.encode(), "CLAUDE.md": with_learned(MEMORY, "- Run make.").encode()}
OLD = {"notes": SKILL.encode(), "CLAUDE.md": MEMORY.encode()}
TOUCHING = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.truncate")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def touches(event: str, arguments: tuple[Any, ...]) -> bool:
    return event in TOUCHING or (event == "open" and bool(arguments[2] & WRITING))


def act(world: World, action: str, number: int, how: str) -> None:
    """In the child: one adopt or undo that dies when it comes to the numbered step or call."""
    seen = 0

    def count() -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            die()

    adoption = world.adoption(hook=(lambda step: count()) if how == "hook" else (lambda step: None))
    if how == "call":
        os.fsync = lambda descriptor: count()
        sys.addaudithook(lambda event, arguments: count() if touches(event, arguments) else None)
    adoption.adopt() if action == "adopt" else adoption.undo()


def look(world: World) -> dict[str, str]:
    paths = {"notes": world.skill, "CLAUDE.md": world.memory}
    data = {name: path.read_bytes() for name, path in paths.items()}
    return {
        name: "old" if data[name] == OLD[name] else "new" if data[name] == NEW[name] else "mixed"
        for name in data
    }


def main(folder: Path, how: str) -> None:
    # What a process wrote outlives it without this; only a power cut asks for more, and it would take most of
    # the time.
    os.fsync = lambda descriptor: None
    for action in ("adopt", "undo"):
        number = 0
        while True:
            number += 1
            world = World(home=folder / f"{action}-{number}").write()
            world.stage()
            if action == "undo":
                world.adoption().adopt()
            child = os.fork()
            if child == 0:
                act(world, action, number, how)
                os._exit(0)
            ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if ended == 0:
                break
            row: dict[str, Any] = {"action": action, "number": number, "signal": -ended, "disk": look(world)}
            (shown,) = world.adoption().status().proposals
            row["status"] = world.disks()
            row["state"] = shown.state
            row["recovered"] = list(world.adoption().recover())
            row["after"] = look(world)
            (shown,) = world.adoption().status().proposals
            row["state_after"] = shown.state
            row["left"] = [name for name in world.files() if name.endswith(".tmp")]
            again = world.adoption().adopt if shown.state == "pending" else world.adoption().undo
            again()
            row["again"] = look(world)
            print(json.dumps(row))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
