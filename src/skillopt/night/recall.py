"""Decides which tasks of earlier nights are learned from again: of the same project and skill, like
tonight's, and never a held-out one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from skillopt.errors import UsageError
from skillopt.night import tonight as pinned
from skillopt.night._kinds import normal
from skillopt.night.state import ProjectHome
from skillopt.night.tonight import Group, PinnedTask, Tonight

_WORD = re.compile(r"[a-z0-9]{3,}")


def recalled(group: Group, earlier: Iterable[Group], count: int) -> Group:
    """The group with up to `count` earlier train tasks of the same skill that share most words with
    tonight's.

    What was held out in any night, or is asked tonight already, is left alone.
    """
    tonight = {task.id for task in group.tasks}
    texts = {task.prompt for task in group.tasks}
    mine = [_words(task.prompt) for task in group.tasks if task.split == "train"]
    found: dict[str, tuple[float, PinnedTask]] = {}
    for task in lessons(group, list(earlier)):
        if task.id not in tonight and task.prompt not in texts:
            found[task.id] = max(_alike(_words(task.prompt), words) for words in mine), task
    best = sorted((pair for pair in found.values() if pair[0] > 0), key=lambda pair: (-pair[0], pair[1].id))[
        :count
    ]
    return group.model_copy(update={"tasks": (*group.tasks, *(task for _, task in best))})


def lessons(group: Group, earlier: Sequence[Group]) -> list[PinnedTask]:
    """The tasks the same skill was trained on in earlier nights, the oldest first: asked by the person, and
    never held out, in no night.
    """
    held_out = held_out_forms([group, *earlier])
    same = (task for other in earlier if other.path == group.path for task in other.tasks)
    return [
        task
        for task in same
        if task.split == "train" and task.origin == "real" and normal(task.prompt) not in held_out
    ]


def held_out_forms(groups: Iterable[Group]) -> frozenset[str]:
    """The normal forms of all requests that decide or are sealed, for whichever skill."""
    return frozenset(normal(task.prompt) for group in groups for task in group.tasks if task.split != "train")


def earlier_groups(kept: ProjectHome, before: int) -> list[Group]:
    """The skills of all earlier nights of the project, as far as they can be read, the oldest first."""
    return [group for night in earlier_nights(kept, before) for group in night.groups]


def earlier_nights(kept: ProjectHome, before: int) -> list[Tonight]:
    """All earlier nights of the project, as far as they can be read, the oldest first."""
    nights: list[Tonight] = []
    for number in range(1, before):
        try:
            nights.append(pinned.load(kept.night(number)))
        except UsageError:  # a night that somebody cleared away teaches nothing, and hinders nothing
            continue
    return nights


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _alike(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0
