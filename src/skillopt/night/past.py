"""Decides what a night looks back to: the skill before the oldest adopted night of the window, and the tasks
it was trained on since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skillopt.changes.status import Decision
from skillopt.night.recall import lessons
from skillopt.night.state import NightRecord
from skillopt.night.tonight import Group, Past, PinnedTask, Tonight

TASKS = 20
"""Past tasks that are kept for the comparison, the newest."""


def with_past(
    group: Group,
    earlier: Sequence[Tonight],
    ended: Iterable[NightRecord],
    decisions: Iterable[Decision],
    *,
    tonight: int,
    window: int,
) -> tuple[Group, str]:
    """The group with what its slow update looks back to, or why there is none, in words."""
    adopted = {one.proposal for one in decisions if one.decision == "adopted" and one.path == group.path}
    nights = {
        record.number
        for record in ended
        if record.proposal in adopted and tonight - window <= record.number < tonight
    }
    found = [
        (night.number, other)
        for night in earlier
        if night.number in nights
        for other in night.groups
        if other.path == group.path
    ]
    if not found:
        return (
            group,
            (
                f"no slow update: nothing of the last {window} nights was adopted, so there is no older text"
                " to compare with."
            ),
        )
    number, then = found[0]
    tasks = _tasks(group, [other for night in earlier for other in night.groups])
    if not tasks:
        return group, "no slow update: no train task of an earlier night is left to compare the two texts on."
    past = Past(night=number, nights_ago=tonight - number, text=then.seed, tasks=tuple(tasks))
    return group.model_copy(update={"past": past}), ""


def _tasks(group: Group, earlier: Sequence[Group]) -> list[PinnedTask]:
    """Each task once, the newest ones; of one that is asked tonight too, tonight's form of it, with tonight's
    measure.
    """
    mine = {task.id: task for task in group.tasks}
    newest = {task.id: mine.get(task.id, task) for task in lessons(group, earlier)}
    return list(newest.values())[-TASKS:]
