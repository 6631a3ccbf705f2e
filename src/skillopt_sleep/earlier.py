"""What earlier nights teach: tasks that come again, and an older text to compare with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from skillopt.changes.status import Decision
from skillopt.errors import UsageError
from skillopt_sleep.kinds import normal
from skillopt_sleep.plan import EarlierSkill, NightPlan, NightTarget
from skillopt_sleep.state import NightRecord, ProjectHome
from skillopt_sleep.tasks import NightTask

COMPARED = 20
"""Past tasks that are kept for the comparison, the newest."""


def earlier_nights(home: ProjectHome, before: int) -> list[NightPlan]:
    """All earlier nights of the project, as far as they can be read, the oldest first."""
    nights: list[NightPlan] = []
    for number in range(1, before):
        try:
            nights.append(NightPlan.load(home.night(number)))
        except UsageError:  # a night that somebody cleared away teaches nothing, and hinders nothing
            continue
    return nights


def remembered_tasks(nights: Sequence[NightPlan]) -> list[NightTask]:
    """The person's tasks of all these nights as they were measured last, the newest first."""
    found: dict[str, NightTask] = {}
    for night in nights:
        every = [*(task for target in night.targets for task in target.tasks), *night.waiting]
        for task in every:
            found.pop(task.id, None)
            found[task.id] = task
    return list(found.values())[::-1]


def _proposed_for(
    target: NightTarget, earlier: Sequence[NightPlan], ended: Iterable[NightRecord], ids: Collection[str]
) -> list[tuple[int, NightTarget]]:
    """The same file in the earlier nights that made one of these proposals, the oldest first."""
    numbers = {one.number for one in ended if one.proposal in ids}
    nights = [night for night in earlier if night.number in numbers]
    return [(night.number, other) for night in nights for other in night.targets if other.path == target.path]


def with_open_proposal(
    target: NightTarget,
    earlier: Sequence[NightPlan],
    ended: Iterable[NightRecord],
    open_ones: Collection[str],
) -> tuple[NightTarget, str]:
    """The target with what the newest earlier night proposed for this very text, where nobody has decided on
    it yet: tonight's tasks judge it again, with those that came since. And that in words.
    """
    for number, other in reversed(_proposed_for(target, earlier, ended, open_ones)):
        is_same = (other.before, other.seed, other.files) == (target.before, target.seed, target.files)
        if is_same and other.outcome is not None and other.outcome.edits:
            said = f"what night {number} proposed waits for you, and is measured again tonight."
            return target.model_copy(update={"carried": other.outcome}), said
    return target, ""


def with_earlier_skill(
    target: NightTarget,
    earlier: Sequence[NightPlan],
    ended: Iterable[NightRecord],
    decisions: Iterable[Decision],
    *,
    tonight: int,
    window: int,
) -> tuple[NightTarget, str]:
    """The target with what its slow update looks back to, or why there is nothing, in words."""
    path = str(target.path)
    adopted = {one.proposal for one in decisions if one.decision == "adopted" and one.path == path}
    recent = [night for night in earlier if tonight - window <= night.number < tonight]
    found = _proposed_for(target, recent, ended, adopted)
    if not found:
        return target, (
            f"no slow update: nothing of the last {window} nights was adopted, so there is no older text to"
            " compare with."
        )
    # Each task once; of one that is asked tonight too, tonight's form of it, with tonight's measure.
    mine = {task.id: task for task in target.tasks}
    before = [other for night in earlier for other in night.targets]
    tasks = {task.id: mine.get(task.id, task) for task in _lessons(target, before)}
    if not tasks:
        return (
            target,
            "no slow update: no train task of an earlier night is left to compare the two texts on.",
        )
    number, then = found[0]
    past = EarlierSkill(
        night=number,
        nights_ago=tonight - number,
        text=then.seed,
        tasks=tuple(tasks.values())[-COMPARED:],
    )
    return target.model_copy(update={"earlier": past}), ""


def _lessons(target: NightTarget, earlier: Sequence[NightTarget]) -> list[NightTask]:
    """The person's tasks this skill was trained on in earlier nights, oldest first; none ever held out."""
    every = [task for other in (target, *earlier) for task in other.tasks]
    held_out = {normal(task.prompt) for task in every if task.split != "train"}
    same = (task for other in earlier if other.path == target.path for task in other.tasks)
    return [task for task in same if task.split == "train" and normal(task.prompt) not in held_out]
