"""Reads rows and game files into tasks: the goal, the places by their short names, a digest of the game."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from skillopt.tasks.rows import DataRow
from skillopt.tasks.task import Task
from skillopt.tasks.template import fill

_BAR = "_bar_"


def short_names(ids: Iterable[str]) -> dict[str, str]:
    """Short name of every id, as ALFWorld numbers them: the first in the alphabet has the highest."""
    ordered = sorted(set(ids))
    left = Counter(_kind(one) for one in ordered if _BAR in one)
    names = {}
    for one in ordered:
        if _BAR not in one:
            names[one] = one
            continue
        kind = _kind(one)
        names[one] = f"{kind} {left[kind]}"
        left[kind] -= 1
    return names


def by_number(name: str) -> tuple[str, int]:
    """Sorts `cabinet 2` before `cabinet 10`."""
    kind, _, number = name.rpartition(" ")
    return (kind, int(number)) if re.fullmatch(r"\d+", number) else (name, 0)


def _kind(one: str) -> str:
    kind = one.partition(_BAR)[0]
    # `sink_bar_..._bar_sinkbasin` is the basin, and has places to go to
    return f"{kind}basin" if "basin" in one else kind


_PARTS = ("pddl_domain", "pddl_problem", "grammar")
_GOAL = re.compile(r'"rhs":\s*"Your task is to: ([^"]+?)\s*"')
_INIT = re.compile(r"\(:init\b(.*)", re.DOTALL)
_PLACE = re.compile(r"\(receptacleatlocation\s+(\S+)\s+\S+?\s*\)")
_ID = re.compile(r"[^\s()]+_bar_[^\s()]+")


def to_task(row: DataRow, root: Path, template: str) -> Task:
    """The task of a row, whose `gamefile` lies below `root`."""
    gamefile = row.text("gamefile")
    path = root / gamefile
    try:
        content = path.read_bytes()
        game = json.loads(content)
    except OSError as error:
        raise row.error(
            f"the game file {path} cannot be read: {error.strerror or error}. Set env.data_root (or"
            " ALFWORLD_DATA) to the folder that game files are named from."
        ) from error
    except (ValueError, RecursionError) as error:
        raise row.error(f"the game file {path} is not JSON: {error}.") from error
    if not isinstance(game, dict) or not all(isinstance(game.get(part), str) for part in _PARTS):
        raise row.error(f"the game file {path} lacks one of {', '.join(_PARTS)}: it is no game of ALFWorld.")
    goal = _GOAL.search(game["grammar"])
    if goal is None:
        raise row.error(f"the game file {path} does not say what the task is.")
    values = {"goal": goal[1], "places": ", ".join(places(game["pddl_problem"]))}
    return Task(
        id=row.id("id"),
        prompt=fill(template, values).strip(),
        kind=row.text("task_type"),
        surroundings=hashlib.sha256(content).hexdigest(),
        data={"gamefile": gamefile},
    )


def places(problem: str) -> list[str]:
    """The places of a room that one can go to, by the names they have in the game."""
    init = _INIT.search(problem.lower())
    facts = init[1] if init else ""
    names = short_names(_ID.findall(facts))
    return sorted({names[one] for one in _PLACE.findall(facts) if one in names}, key=by_number)
