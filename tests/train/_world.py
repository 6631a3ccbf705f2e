"""A small simulated run, and everything it left behind."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt import run as api
from skillopt.config.load import load
from skillopt.events import Event
from skillopt.run import open_run, prepare
from skillopt.runs.tail import StoredTexts
from skillopt.skill.document import Document

SMALL = {
    "env.name": "world",
    "model.target": "world",
    "model.optimizer": "world",
    "env.train_cases": 40,
    "env.val_cases": 30,
}
SMALL |= {"env.test_cases": 60, "train.batch_size": 20, "train.num_epochs": 3}


@dataclass
class Trained:
    """A finished run."""

    folder: Path
    result: api.Result
    events: list[Event]

    def json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def skill(self, digest: str) -> Document:
        """A skill that an event names."""
        return Document(StoredTexts(self.folder / "run.db")(digest) or "")

    def replies(self) -> list[tuple[str, str, str]]:
        """Stage, place and text of every stored reply."""
        with sqlite3.connect(self.folder / "run.db") as db:
            rows = db.execute("SELECT stage, place, reply FROM replies").fetchall()
        return [(stage, place, json.loads(reply)["text"]) for stage, place, reply in rows]


def train(folder: Path, **settings: Any) -> Trained:
    """Train on the simulated world with dotted settings (`__` for the dot)."""
    events: list[Event] = []
    given = {**SMALL, **{name.replace("__", "."): value for name, value in settings.items()}}

    async def run() -> api.Result:
        options = [
            f"{name}={value if isinstance(value, str) else json.dumps(value)}"
            for name, value in given.items()
        ]
        job = prepare(load(None, flags={}, options=options, environ={}, cwd=folder.parent))
        async with open_run(job, folder, sinks=[events.append]) as opened:
            return await api.train(opened)

    return Trained(folder, asyncio.run(run()), events)
