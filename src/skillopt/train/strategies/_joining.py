"""Joins proven edits that say the same: copies in code, other wordings where the optimizer model - or where
none is asked, a rule of thumb - says so and a trial agrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from skillopt.evaluation.runner import Row
from skillopt.events import Aggregated, Proved
from skillopt.events.place import Place
from skillopt.events.step import Step
from skillopt.gate.decision import RowId
from skillopt.gate.gate import Gate
from skillopt.optimizer.aggregate import Merged
from skillopt.optimizer.proof import Joiner
from skillopt.optimizer.reflect import Reflection
from skillopt.process.waiting import together
from skillopt.skill.edits import Edit, Outcome
from skillopt.tasks.task import Task
from skillopt.train.strategies._alike import alike_groups
from skillopt.train.strategies._cover import Proven, by_strength, copies_of, without_copies
from skillopt.train.strategies._lanes import Lane, LaneSearch
from skillopt.train.trials import EditTrial, Trials, fixed_in

SHARED = 2
"""Tasks of another edit on which one must show that it can stand for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes(Reflection):
    """A reflection whose proposals were tried."""

    lanes: tuple[Lane, ...]
    shared: tuple[str, ...]
    """Tasks that come right with all proven edits together."""
    noise: float
    """Chance that the target answers differently to the same question; 0 where that was not seen."""
    batch: Sequence[Row]
    search: LaneSearch
    """What studied them, for another look."""

    @property
    def rows(self) -> dict[str, Row]:
        """The rows of failed tasks, by task."""
        return {task: row for lane in self.lanes for task, row in lane.rows.items()}

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks of the batch, by id."""
        return {row.task.id: row.task for row in self.batch}

    @property
    def before(self) -> dict[RowId, Fraction]:
        """What the rows of failed tasks are worth without any edit."""
        return {row: worth for lane in self.lanes for row, worth in lane.before.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(Merged):
    """Proven edits in groups that say the same, the strongest of each first."""

    groups: tuple[tuple[Proven, ...], ...]


async def join(step: Step, reflection: Lanes, gate: Gate, joiner: Joiner | None) -> Joined:
    """All proven edits of a step, those that say the same in one group."""
    unique = by_strength(without_copies([one for lane in reflection.lanes for one in lane.proven]))
    single = [one for one in unique if len(one.edits) == 1]
    said = alike_groups([f"{one.edits[0].op} {one.edits[0].content}" for one in single])
    if asks := joiner is not None and len(single) > 1:
        said = await joiner.groups(step, [one.edits[0] for one in single])
    trials = Trials(gate, step, "proof")
    checked = await together(
        *(_same(trials, reflection, [single[number] for number in group]) for group in said)
    )
    if tried := [trial for _, many in checked for trial in many]:
        trials.close()
        step.emit(proved(step.place, "joining", tried, noise=reflection.noise))
    joined = {one.id for group, _ in checked for one in group}
    groups = [group for group, _ in checked] + [(one,) for one in unique if one.id not in joined]
    groups.sort(key=lambda group: unique.index(group[0]))
    ended = [outcome for lane in reflection.lanes for outcome in lane.ended]
    for first, *others in groups:
        copies = [*first.copies, *(edit for one in others for edit in (*one.edits, *one.copies))]
        ended += [Outcome(edit=copy, state="merged", reason=f"into {first.id}") for copy in copies]
    heads = edits_of([head(group) for group in groups])
    step.emit(
        Aggregated(
            id=str(step.place.at("aggregate")),
            place=step.place,
            merges=int(asks),
            edits=heads,
            joined=[[one.id for one in group] for group in groups if len(group) > 1],
            copies=[ids for one in unique for ids in copies_of(one)],
            asked=[one.id for one in single] if asks else [],
        )
    )
    return Joined(edits=heads, ended=tuple(ended), calls=int(asks), groups=tuple(groups))


async def _same(
    trials: Trials, reflection: Lanes, group: Sequence[Proven]
) -> tuple[tuple[Proven, ...], list[EditTrial]]:
    """The first of a group with those whose tasks it fixes too: only for these it can stand."""
    first, *others = group
    rows = reflection.rows
    results = await together(
        *(trials.run(first.edits, [rows[task] for task in one.fixed[:SHARED]]) for one in others)
    )
    before = reflection.before
    same = [one for one, trial in zip(others, results, strict=True) if fixed_in(before, trials.worths(trial))]
    return (first, *same), results


def proved(place: Place, item: str, trials: Sequence[EditTrial], *, noise: float) -> Proved:
    """Trials on failed train tasks, as the log tells them."""
    facts = [trial.fact for trial in trials]
    return Proved(id=str(place.at("proof", item)), place=place, noise=noise, trials=facts)


def head(group: Sequence[Proven], whole: Sequence[Proven] = ()) -> Proven:
    """The first of a group, with the evidence of all of it."""
    fixed = tuple(dict.fromkeys(task for one in (whole or group) for task in one.fixed))
    return replace(group[0], fixed=fixed)


def edits_of(chosen: Sequence[Proven]) -> tuple[Edit, ...]:
    """Each of their edits once, saying what it fixed where it stands first."""
    found: dict[str, Edit] = {}
    for one in chosen:
        told = {"support_count": len(one.fixed), "source_type": "failure", "fixed": list(one.fixed)}
        for edit in one.edits:
            found.setdefault(edit.id, replace(edit, evidence={**edit.evidence, **told}))
    return tuple(found.values())
