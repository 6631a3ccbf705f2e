"""Chooses among proven edits: those that say the same are joined, and as few as cover what was fixed are
taken, controlled on tasks that passed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from skillopt.evaluation.runner import PlannedRow
from skillopt.events import Aggregated, Reflected, Selected
from skillopt.gate.gate import Gate
from skillopt.optimizer.proof import Joiner
from skillopt.optimizer.select import Selection
from skillopt.process.waiting import together
from skillopt.skill.distinct import gist
from skillopt.skill.edits import Edit, Outcome
from skillopt.train.strategies._lanes import LaneSearch, ProvenEdits, by_strength, without_copies
from skillopt.train.trials import (
    ROUNDS,
    SHARED,
    EditTrial,
    Trials,
    blame,
    blamed_event,
    broken_in,
    edits_to_drop,
    fewest_beyond_chance,
    fixed_in,
)

_EXAMPLE = re.compile(r"(?:\bfor )?\bexamples?\b|\be\.g\b|->|→", re.IGNORECASE)
_FEWEST = 2
"""Words that a rule must have to be compared without its example."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditGroups:
    """Proven edits in groups that say the same, the strongest of each first, and where the others ended."""

    groups: tuple[tuple[ProvenEdits, ...], ...]
    ended: tuple[Outcome, ...]
    offered: int
    """How many edits there are to choose from."""


async def join(search: LaneSearch, gate: Gate, joiner: Joiner | None) -> EditGroups:
    """All proven edits of a step, those that say the same in one group."""
    step = search.step
    unique = by_strength(without_copies([proven for lane in search.lanes for proven in lane.proven]))
    single = [proven for proven in unique if len(proven.edits) == 1]
    alike = alike_groups([f"{proven.edits[0].op} {proven.edits[0].content}" for proven in single])
    if asks := joiner is not None and len(single) > 1:
        alike = await joiner.groups(step, [proven.edits[0] for proven in single])
    trials = Trials(gate, step, "proof")
    checked = await together(
        *(_same(trials, search, [single[number] for number in group]) for group in alike)
    )
    if tried := [trial for _, many in checked for trial in many]:
        trials.close()
        search.report("joining", tried)
    joined = {proven.id for group, _ in checked for proven in group}
    groups = [group for group, _ in checked] + [(proven,) for proven in unique if proven.id not in joined]
    groups.sort(key=lambda group: unique.index(group[0]))
    ended = [outcome for lane in search.lanes for outcome in lane.ended]
    for first, *others in groups:
        copies = [*first.copies, *(edit for other in others for edit in (*other.edits, *other.copies))]
        ended += [Outcome(edit=copy, state="merged", reason=f"into {first.id}") for copy in copies]
    heads = edits_of([head(group) for group in groups])
    step.emit(
        Aggregated(
            id=str(step.place.at("aggregate")),
            place=step.place,
            merges=int(asks),
            edits=heads,
            joined=[[proven.id for proven in group] for group in groups if len(group) > 1],
            copies=[ids for proven in unique for ids in copies_of(proven)],
            asked=[proven.id for proven in single] if asks else [],
        )
    )
    return EditGroups(groups=tuple(groups), ended=tuple(ended), offered=len(heads))


async def _same(
    trials: Trials, search: LaneSearch, group: Sequence[ProvenEdits]
) -> tuple[tuple[ProvenEdits, ...], list[EditTrial]]:
    """The first of a group with those whose tasks it fixes too: only for these it can stand."""
    first, *others = group
    rows = search.rows
    results = await together(
        *(trials.run(first.edits, [rows[task] for task in other.fixed[:SHARED]]) for other in others)
    )
    before = search.before
    same = [one for one, trial in zip(others, results, strict=True) if fixed_in(before, trials.worths(trial))]
    return (first, *same), results


class Choice:
    """The selection of one step. `harmful` are the edits that broke more than they fixed."""

    def __init__(self, search: LaneSearch, *, gate: Gate, control: int, blame_rows: int) -> None:
        """`control` is the number of passed tasks that the chosen edits are run on together, `blame_rows`
        that of the broken ones on which the guilty are looked for.
        """
        self.harmful: dict[str, Edit] = {}
        self.held: Sequence[Edit] = ()
        """What the latest control left in, or the first choice before that."""
        self._step = search.step
        self._search = search
        self._gate = gate
        self._control = control
        self._blame_rows = blame_rows
        self._ended: list[Outcome] = []
        self._patches = count(len(search.lanes))

    async def select(self, joined: EditGroups) -> Selection:
        """Choose edits, test them on tasks that passed, and choose again without the harmful edits. Analysts
        study again the tasks that only harmful edits had fixed.
        """
        groups = list(joined.groups)
        chosen: list[ProvenEdits] = []
        for number in range(ROUNDS):
            chosen = await self._chosen(groups, number)
            self.held = self.held or edits_of(chosen)
            guilty = await self._guilty(groups, chosen, number)
            if not guilty:
                break
            self.harmful |= {edit.id: edit for proven in chosen for edit in proven.edits if edit.id in guilty}
            chosen = [proven for proven in chosen if not self._has_harmful(proven)]
            self.held = edits_of(chosen)
            if number < ROUNDS - 1:
                groups += [(one,) for one in await self._looked_again(groups, number)]
        self.held = patch = edits_of(chosen)
        self._step.emit(
            Selected(
                id=str(self._step.place.at("select")),
                place=self._step.place,
                limit=None,
                ranked=False,
                edits=patch,
            )
        )
        ended = self._endings((*joined.ended, *self._ended), groups, {edit.id for edit in patch})
        return Selection(
            patch=patch,
            ended=tuple(ended),
            offered=joined.offered,
            limit=None,
        )

    async def _chosen(self, groups: Sequence[Sequence[ProvenEdits]], number: int) -> list[ProvenEdits]:
        """A cover of what was fixed, from edits that are not harmful: single ones first, and sets only for
        tasks that these do not fix together.
        """
        left = [
            head([proven for proven in group if not self._has_harmful(proven)], group)
            for group in groups
            if not all(map(self._has_harmful, group))
        ]
        chosen = cover([proven for proven in left if len(proven.edits) == 1])
        covered = {task for proven in chosen for task in proven.fixed}
        sets = [proven for proven in left if len(proven.edits) > 1]
        if chosen and (only := {task for proven in sets for task in proven.fixed} - covered):
            trials = Trials(self._gate, self._step, "proof")
            edits = [edit for proven in chosen for edit in proven.edits]
            trial = await trials.run(edits, [self._search.rows[task] for task in sorted(only)])
            covered |= {task for task, _ in fixed_in(self._search.before, trials.worths(trial))}
            self._search.report(f"sets-{number}", [trial])
        return chosen + cover(sets, covered)

    async def _guilty(
        self, groups: Sequence[Sequence[ProvenEdits]], chosen: Sequence[ProvenEdits], number: int
    ) -> list[str]:
        """The chosen edits that break passed tasks and are not worth it, or have others that say the same:
        all are run together on passed tasks of the batch, and where some break, the guilty are looked for.
        """
        passed = {
            (row, draw): worth
            for (row, draw), worth in self._gate.worths(self._search.rollouts).items()
            if draw == 0 and (row, 0) not in self._search.before
        }
        tasks = self._search.tasks
        order = sorted(passed)
        random.Random(self._step.seed).shuffle(order)
        rows = {row: PlannedRow(task=tasks[row[0]]) for row in order[: self._control]}
        edits = [edit for proven in chosen for edit in proven.edits]
        if not rows or not edits:
            return []
        trials = Trials(self._gate, self._step, "control")
        noise = self._search.noise
        first = list(rows.values())[: (len(rows) + 1) // 2]
        whole = await trials.run(edits, first)
        if len(broken_in(passed, trials.worths(whole))) < fewest_beyond_chance(noise, len(first)):
            self._emit_control(number, [whole], [], {})
            return []
        whole = await trials.run(edits, list(rows.values()))
        broken = broken_in(passed, trials.worths(whole))
        tried = {row: rows[row] for row in broken[: self._blame_rows]}
        blamed = await blame(trials, edits, tried, passed, noise=noise)
        trials.close()
        replaceable = {
            proven.id
            for group in groups
            if sum(not self._has_harmful(proven) for proven in group) > 1
            for proven in group
        }
        fixes = {
            edit.id: 0 if proven.id in replaceable else len(proven.fixed)
            for proven in chosen
            for edit in proven.edits
        }
        guilty = edits_to_drop(blamed, fixes, broken, scale=len(passed) / len(rows))
        self._emit_control(number, [whole, *blamed.trials], guilty, fixes)
        return guilty

    async def _looked_again(self, groups: Sequence[Sequence[ProvenEdits]], number: int) -> list[ProvenEdits]:
        """Further edits for tasks that only harmful edits fix; the prompt names the harmful ones."""
        good = {
            task
            for group in groups
            for proven in group
            if not self._has_harmful(proven)
            for task in proven.fixed
        }
        lost = dict.fromkeys(
            task for group in groups for proven in group for task in proven.fixed if task not in good
        )
        studied = {task: tries for lane in self._search.lanes for task, tries in lane.studied.items()}
        chunks = self._search.divide([studied[task] for task in lost])
        harmful = list(self.harmful.values())
        lanes = await together(
            *(
                self._search.study_again(f"again-{number}-{at}", chunk, harmful)
                for at, chunk in enumerate(chunks)
            )
        )
        patches = tuple(lane.look.model_copy(update={"index": next(self._patches)}) for lane in lanes)
        place = self._step.place
        self._step.emit(Reflected(id=str(place.at("reflect", str(number))), place=place, patches=patches))
        self._search.report(f"again-{number}", [trial for lane in lanes for trial in lane.trials])
        self._ended += [outcome for lane in lanes for outcome in lane.ended]
        return [proven for lane in lanes for proven in lane.proven]

    def _has_harmful(self, proven: ProvenEdits) -> bool:
        return any(edit.id in self.harmful for edit in proven.edits)

    def _endings(
        self, ended: Sequence[Outcome], groups: Sequence[Sequence[ProvenEdits]], chosen: Collection[str]
    ) -> list[Outcome]:
        """Where every proposal that was not chosen ended."""
        endings = {outcome.edit.id: outcome for outcome in ended if outcome.edit.id not in chosen}
        for edit in (edit for group in groups for proven in group for edit in proven.edits):
            if edit.id in self.harmful:
                why = "it broke train tasks that passed without it"
                endings[edit.id] = Outcome(edit=edit, state="harmful", reason=why)
            elif edit.id not in chosen and edit.id not in endings:
                why = "it fixes nothing that the chosen edits do not fix"
                endings[edit.id] = Outcome(edit=edit, state="covered", reason=why)
        return list(endings.values())

    def _emit_control(
        self, number: int, trials: Sequence[EditTrial], guilty: Sequence[str], fixes: Mapping[str, int]
    ) -> None:
        event = blamed_event(self._step.place, "control", trials, guilty, number=number, fixes=fixes)
        self._step.emit(event)


def copies_of(proven: ProvenEdits) -> list[list[str]]:
    """Ids of each of its edits that has copies, with theirs."""
    size = len(proven.edits)
    of_each = [(edit, proven.copies[at::size]) for at, edit in enumerate(proven.edits)]
    return [[edit.id, *(copy.id for copy in copies)] for edit, copies in of_each if copies]


def cover(proven: Sequence[ProvenEdits], covered: Collection[str] = ()) -> list[ProvenEdits]:
    """Choose greedily: each time the edits that fix most tasks which no chosen edit fixes yet, until no edit
    fixes a further task. Later choices together may still make an earlier choice superfluous.
    """
    left, covered, chosen = list(proven), set(covered), list[ProvenEdits]()
    while left:
        best = max(left, key=lambda candidate: len(set(candidate.fixed) - covered))  # the first of equals
        if not set(best.fixed) - covered:
            break
        chosen.append(best)
        covered |= set(best.fixed)
        left.remove(best)
    return chosen


def head(group: Sequence[ProvenEdits], whole: Sequence[ProvenEdits] = ()) -> ProvenEdits:
    """The first of a group, with the fixed tasks of the whole group: of `whole` where the group is a part."""
    fixed = tuple(dict.fromkeys(task for one in (whole or group) for task in one.fixed))
    return replace(group[0], fixed=fixed)


def edits_of(chosen: Sequence[ProvenEdits]) -> tuple[Edit, ...]:
    """Each of their edits once, saying what it fixed where it stands first."""
    by_id: dict[str, Edit] = {}
    for proven in chosen:
        support = {"support_count": len(proven.fixed), "source_type": "failure", "fixed": list(proven.fixed)}
        for edit in proven.edits:
            by_id.setdefault(edit.id, replace(edit, evidence={**edit.evidence, **support}))
    return tuple(by_id.values())


def alike_groups(texts: Sequence[str]) -> list[list[int]]:
    """The places of texts whose rules, without their examples, have the same words in any order: only a trial
    can tell which of them say the same.
    """
    groups: dict[tuple[str, ...], list[int]] = {}
    for at, text in enumerate(texts):
        rule = gist(_EXAMPLE.split(text, maxsplit=1)[0])
        groups.setdefault(tuple(sorted(rule if len(rule) >= _FEWEST else gist(text))), []).append(at)
    return [group for group in groups.values() if len(group) > 1]
