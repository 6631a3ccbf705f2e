"""Whoever answers questions by hand in tests: the simulated world, reading what a program would read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from skillopt.messages import Message, Request
from skillopt.models.providers.world import World, WorldRules

Entry = Mapping[str, Any]
WORLD = World(WorldRules(noise=0.0))


def by_the_world(entry: Entry) -> str:
    """What the simulated model says to a question as the index tells it."""
    return WORLD.answer(
        Request(
            messages=tuple(
                Message(role=message["role"], content=message["content"]) for message in entry["messages"]
            ),
            max_tokens=entry["max_tokens"],
            role=entry["role"],
            stage=entry.get("stage", "rollout"),
            place=entry["place"],
            draw=entry["draw"],
        )
    )


def rounds(desk: Path) -> list[Path]:
    """The rounds of a desk in their order."""
    return sorted(desk.glob("round-*"))


def questions(folder: Path) -> list[Entry]:
    """The questions of a round, as its index tells them."""
    return list(json.loads((folder / "questions.json").read_text())["questions"])


def answer_all(desk: Path, answer: Callable[[Entry], str] = by_the_world) -> int:
    """Answer every open question; returns how many there were."""
    open_ones = [
        (folder, entry)
        for folder in rounds(desk)
        for entry in questions(folder)
        if not (folder / entry["answer"]).exists()
    ]
    for folder, entry in open_ones:
        (folder / entry["answer"]).write_text(answer(entry) + "\n", encoding="utf-8")
    return len(open_ones)
