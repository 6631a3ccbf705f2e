"""A lane of `proof`: some failures, the edits an analyst proposes for them, and what each does when tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction

from skillopt.evaluation.leaks import LeakGuard, refusal_reason
from skillopt.evaluation.runner import PlannedRow
from skillopt.events import Minibatch, Proved
from skillopt.events.step import Step
from skillopt.gate.decision import RowId
from skillopt.optimizer.minibatches import TriedTask
from skillopt.optimizer.proof import LaneAnalyst, SmallLaneAnalyst
from skillopt.optimizer.proposers.port import DeadEdit, Evidence
from skillopt.optimizer.reflect import WholeBatch
from skillopt.process.waiting import together
from skillopt.skill.distinct import MARKS, alike, distinct, plain
from skillopt.skill.document import SKILL_FILE
from skillopt.skill.edits import Edit, Outcome, apply
from skillopt.tasks.rollout import Rollout, Scored
from skillopt.tasks.task import Task
from skillopt.train.trials import EditTrial, Trials, Worths, fixed_in

HARDLY_ANY = 0.1
"""Share of an analyst's edits that must fix something for it to be asked again; a tenth comes right by luck
where a target is noisy.
"""
AGAIN = 1
"""The draw that repeats a trial under noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenEdits:
    """Edits that fixed tasks: one edit, or several where only together they did."""

    edits: tuple[Edit, ...]
    fixed: tuple[str, ...]
    """Train tasks, in planned order."""
    copies: tuple[Edit, ...] = ()
    """Edits that say the same, whose fixed tasks are counted here."""

    @property
    def id(self) -> str:
        """That of its first edit."""
        return self.edits[0].id

    def with_copy(self, other: ProvenEdits) -> ProvenEdits:
        """Both as one, with their evidence added up."""
        fixed = tuple(dict.fromkeys((*self.fixed, *other.fixed)))
        return replace(self, fixed=fixed, copies=(*self.copies, *other.edits, *other.copies))


@dataclass(slots=True, kw_only=True)
class Lane:
    """One analysis of a group of failures: the analyst's reply, every trial in planned order, the edits that
    fixed tasks, and where the other edits ended.
    """

    look: Minibatch = field(default_factory=lambda: Minibatch(kind="failure", index=0, tasks=()))
    trials: list[EditTrial] = field(default_factory=list)
    proven: list[ProvenEdits] = field(default_factory=list)
    ended: list[Outcome] = field(default_factory=list)
    dead: list[DeadEdit] = field(default_factory=list)
    studied: dict[str, TriedTask] = field(default_factory=dict)
    rows: dict[str, PlannedRow] = field(default_factory=dict)
    """One of each failed task."""
    before: dict[RowId, Fraction] = field(default_factory=dict)
    """What they are worth without any edit."""


@dataclass(eq=False)
class LaneSearch:
    """Studies and tries, lane by lane, side by side, and holds what came of it.

    With `confirms` a single fixed task must show it twice. `kinds` counts held-out failures by kind of
    task; `earlier` edits fixed nothing in steps before, `harmful` ones broke tasks that worked.
    """

    step: Step
    batch: Sequence[PlannedRow]
    _: KW_ONLY
    analyst: LaneAnalyst | SmallLaneAnalyst | WholeBatch
    trials: Trials
    guard: LeakGuard | None
    confirms: bool
    most_rows: int
    depth: int
    kinds: Mapping[str, int]
    earlier: Sequence[DeadEdit]
    harmful: Sequence[Edit]
    divide: Callable[[Sequence[TriedTask]], list[list[TriedTask]]]
    """Failures into lanes, as the first look had them."""
    expect: Callable[[], None]
    """Called for every lane that has proven an edit."""

    def __post_init__(self) -> None:
        self.done: list[Lane] = []
        """The lanes that are in, as they came."""
        self.lanes: list[Lane] = []
        """Those of the looks before the choice, in planned order."""
        self.shared: set[str] = set()
        """Tasks that come right with all proven edits together."""
        self.rollouts: tuple[Rollout, ...] = ()
        self.noise = 1.0
        """Share of tasks that come out differently when drawn again; until all lanes are in, the worst."""
        self._joint_trials: list[EditTrial] = []

    @property
    def tried(self) -> list[EditTrial]:
        """Every trial of these lanes, in planned order."""
        return [*(trial for lane in self.lanes for trial in lane.trials), *self._joint_trials]

    @property
    def rows(self) -> dict[str, PlannedRow]:
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

    def report(self, item: str, trials: Sequence[EditTrial]) -> None:
        """Log trials on failed train tasks."""
        place, facts = self.step.place, [trial.fact for trial in trials]
        event = Proved(id=str(place.at("proof", item)), place=place, noise=self.noise, trials=facts)
        self.step.emit(event)

    async def study(self, index: int, chunk: list[TriedTask]) -> Lane:
        """Study a group of failures for the first time."""
        return await self._study(str(index), chunk, self.earlier, self.harmful)

    async def study_again(self, name: str, chunk: list[TriedTask], harmful: Sequence[Edit]) -> Lane:
        """Study failures again whose edits turned out to break other tasks."""
        return await self._study(name, chunk, self.earlier, (*self.harmful, *harmful))

    async def deepen(self, rollouts: tuple[Rollout, ...], lanes: Sequence[Lane]) -> None:
        """Study the tasks that no edit fixes once all lanes are in; the analysts see what failed there.

        Whatever was proven anywhere is first tried together on every open task: what another lane found is
        not looked for again.
        """
        self.rollouts, self.lanes, latest = rollouts, list(lanes), list(lanes)
        for number in range(1, self.depth):
            left = self._left()
            if not self._goes_on(number, latest):
                break
            proven = without_copies([one for lane in self.lanes for one in lane.proven])
            if left and proven:
                edits = list({edit.id: edit for one in proven for edit in one.edits}.values())
                trial = await self.trials.run(edits, [PlannedRow(task=tries.task) for tries in left])
                self._joint_trials.append(trial)
                self.shared |= {task for task, _ in fixed_in(self.before, self.trials.worths(trial))}
                left = self._left()
            dead = [dead_edit for lane in self.lanes for dead_edit in lane.dead]
            chunks = self.divide(left)
            known = [[dead_edit for dead_edit in dead if dead_edit.is_about(chunk)] for chunk in chunks]
            # Where nothing new is known, the same question would get the same answer.
            latest = await together(
                *(
                    self._study(f"{at}-{number + 1}", chunk, about, self.harmful)
                    for at, (chunk, about) in enumerate(zip(chunks, known, strict=True))
                    if about or self.shared or self.analyst.varies
                )
            )
            self.lanes += latest

    def _left(self) -> list[TriedTask]:
        """The failures that nothing fixes yet, in planned order."""
        done = self.shared | {task for lane in self.lanes for proven in lane.proven for task in proven.fixed}
        studied = {task: tries for lane in self.lanes for task, tries in lane.studied.items()}
        return [tries for task, tries in studied.items() if task not in done]

    def _goes_on(self, looks: int, latest: Sequence[Lane]) -> bool:
        """Whether another round of analysis is worth its price. A second round always is, as it sees what the
        target answered. A third is not where hardly any edit fixes anything, because those that seem to were
        lucky; a fourth is not after a round that proved nothing.
        """
        tried = sum(len(lane.look.edits) for lane in self.lanes)
        found = sum(len(lane.proven) for lane in self.lanes)
        if looks > 1 and not self.analyst.varies and found < HARDLY_ANY * tried:
            return False
        return looks <= 2 or any(lane.proven for lane in latest)

    async def _study(
        self, name: str, chunk: list[TriedTask], dead: Sequence[DeadEdit], harmful: Sequence[Edit]
    ) -> Lane:
        lane = Lane(
            studied={tries.task.id: tries for tries in chunk},
            rows={tries.task.id: PlannedRow(task=tries.task) for tries in chunk},
            before={(tries.task.id, 0): self.trials.worth(tries.tries[-1]) for tries in chunk},
        )
        known = [dead_edit for dead_edit in dead if dead_edit.is_about(chunk)]
        evidence = Evidence(failed=tuple(chunk), dead=tuple(known), harmful=tuple(harmful), kinds=self.kinds)
        lane.look = await self.analyst.study(self.step, name, evidence)
        await self._try(lane, known, chunk)
        self.done.append(lane)
        if lane.proven:
            self.expect()
        return lane

    async def _try(self, lane: Lane, known: Sequence[DeadEdit], left: Sequence[TriedTask]) -> None:
        """Each edit alone on tasks that it names; those that fixed none together, then by halves."""
        edits = self._usable(lane, known)
        rows = lane.rows
        alone = await together(*(self._alone(lane, edit, rows) for edit in edits))
        covered: set[str] = set()
        loose: list[Edit] = []
        answers: dict[str, list[EditTrial]] = {}
        for edit, (trials, fixed) in zip(edits, alone, strict=True):
            lane.trials += trials
            answers[edit.id] = trials
            if fixed:
                lane.proven.append(ProvenEdits(edits=(edit,), fixed=tuple(fixed)))
                covered.update(fixed)
            else:
                loose.append(edit)
        rest = [row for task, row in rows.items() if task not in covered]
        groups = await self._together(lane, tuple(loose), rest) if loose and rest else []
        lane.proven += groups
        saved = {edit.id for group in groups for edit in group.edits}
        tasks = {tries.task.id: tries.task for tries in left}
        for edit in loose:
            if edit.id not in saved:
                shown = [row for trial in answers[edit.id] for row in trial.rows if isinstance(row, Scored)]
                lane.dead.append(
                    DeadEdit(edit=edit, answers=tuple((tasks[row.task_id], row) for row in shown))
                )
                reason = "tried on failed train tasks, and fixed none"
                lane.ended.append(Outcome(edit=edit, state="unproven", reason=reason))

    def _usable(self, lane: Lane, known: Sequence[DeadEdit]) -> list[Edit]:
        """The edits that can be tried: readable, applicable, new, without a quotation."""
        tried = {wording(dead_edit.edit) for dead_edit in known}
        usable: list[Edit] = []
        for adapted in map(self._adapted, lane.look.edits):
            kept, repeated = distinct([adapted], self.step.skill)
            lane.ended += repeated
            if repeated:
                continue
            edit, applied = kept[0], apply(kept, self.step.skill)
            outcome, after = applied.outcomes[0], applied.document
            if outcome.state == "applied" and wording(edit) in tried:
                why_not = "the same was tried on these tasks before"
                outcome = Outcome(edit=edit, state="duplicate", reason=why_not)
            elif outcome.state == "applied" and self.guard is not None:
                leaks = self.guard.find(after.rendered)
                if leaks:
                    outcome = Outcome(edit=edit, state="invalid", reason=refusal_reason(leaks))
            if outcome.state == "applied":
                usable.append(edit)
                tried.add(wording(edit))
            else:
                lane.ended.append(outcome)
        return usable

    def _adapted(self, edit: Edit) -> Edit:
        """A line that says nearly what one of the skill says is offered in its place; an insertion whose
        place is misquoted goes to the end. A trial shows what either is worth.
        """
        if not edit.adds_prose:
            return edit
        near = line_to_replace(edit.content, self.step.skill.body) if edit.path == SKILL_FILE else None
        if near is not None:
            instead = replace(edit, op="replace", target=near[0], content=near[1])
            if apply([instead], self.step.skill).outcomes[0].state == "applied":
                return instead
        if edit.op == "insert_after" and apply([edit], self.step.skill).outcomes[0].state == "unmatched":
            return replace(edit, op="append", target="")
        return edit

    async def _alone(
        self, lane: Lane, edit: Edit, rows: Mapping[str, PlannedRow]
    ) -> tuple[list[EditTrial], list[str]]:
        """An edit on the first tasks that it names, as far as they still fail."""
        named = edit.evidence.get("tasks")
        wanted = [str(task) for task in named] if isinstance(named, list) else []
        chosen = [rows[task] for task in dict.fromkeys(wanted) if task in rows][: self.most_rows]
        return await self._fixes(lane.before, (edit,), chosen) if chosen else ([], [])

    async def _fixes(
        self, before: Worths, edits: tuple[Edit, ...], rows: Sequence[PlannedRow]
    ) -> tuple[list[EditTrial], list[str]]:
        """The trials of edits on rows that fail, and the tasks they fix.

        One task alone counts as fixed only if the edits fix it in a second draw, and if it fails in a second
        draw without them: it may have come right by itself.
        """
        trial = await self.trials.run(edits, rows)
        fixed = [task for task, _ in fixed_in(before, self.trials.worths(trial))]
        if len(fixed) != 1 or not self.confirms:
            return [trial], fixed
        again = [replace(row, draw=AGAIN) for row in rows if row.task.id in set(fixed)]
        repeated, control = await self.trials.each([edits, ()], again)
        failed = {(task, AGAIN): before[task, 0] for task in fixed}
        held = {task for task, _ in fixed_in(failed, self.trials.worths(repeated))}
        flukes = {task for task, _ in fixed_in(failed, self.trials.worths(control))}
        return [trial, repeated, control], [task for task in fixed if task in held - flukes]

    async def _together(
        self, lane: Lane, edits: tuple[Edit, ...], rows: Sequence[PlannedRow]
    ) -> list[ProvenEdits]:
        """Find the edits that fix some of these rows by halving, as few trials as that takes."""
        trials, fixed = await self._fixes(lane.before, edits, rows)
        lane.trials += trials
        if not fixed:
            return []
        if len(edits) == 1:
            return [ProvenEdits(edits=edits, fixed=tuple(fixed))]
        rows = [row for row in rows if row.task.id in set(fixed)]
        half = (len(edits) + 1) // 2
        parts = (edits[:half], edits[half:])
        lanes = [Lane(before=lane.before), Lane(before=lane.before)]
        found = await together(
            *(self._together(part_lane, part, rows) for part_lane, part in zip(lanes, parts, strict=True))
        )
        for part_lane in lanes:
            lane.trials += part_lane.trials
        proven = [one for part in found for one in part]
        covered = {task for one in proven for task in one.fixed}
        only = [row for row in rows if row.task.id not in covered]
        return proven + (await self._least(lane, edits, only) if only else [])

    async def _least(
        self, lane: Lane, edits: tuple[Edit, ...], rows: Sequence[PlannedRow]
    ) -> list[ProvenEdits]:
        """Edits that fix rows only together: each is left out in turn, for good where it is not missed. What
        is left must show it again, as one lucky row would make a set of anything.
        """
        rows = rows[: self.most_rows]
        for edit in edits:
            rest = tuple(other for other in edits if other.id != edit.id)
            if not rest:
                break
            trials, fixed = await self._fixes(lane.before, rest, rows)
            lane.trials += trials
            if len(fixed) == len(rows):
                edits = rest
        again = await self.trials.run(edits, [replace(row, draw=AGAIN) for row in rows])
        lane.trials.append(again)
        failed = {(row.task.id, AGAIN): lane.before[row.task.id, 0] for row in rows}
        held = fixed_in(failed, self.trials.worths(again))
        return [ProvenEdits(edits=edits, fixed=tuple(task for task, _ in held))] if held else []


def wording(edit: Edit) -> tuple[str, ...]:
    """What two edits share that differ in case, blanks, marks around words, list marks or the place of an
    insertion alone.
    """
    inserts = edit.op in ("append", "insert_after")
    texts = ("insert" if inserts else f"{edit.op} {edit.path}", "" if inserts else edit.target, edit.content)
    return tuple(map(plain, texts))


def without_copies(proven: Sequence[ProvenEdits]) -> list[ProvenEdits]:
    """Copies and near-copies joined; the one that fixed most stands for them."""
    by_words: dict[tuple[tuple[str, ...], ...], ProvenEdits] = {}
    for one in by_strength(proven):
        words = tuple(wording(edit) for edit in one.edits)
        by_words[words] = by_words[words].with_copy(one) if words in by_words else one
    return list(by_words.values())


def by_strength(proven: Sequence[ProvenEdits]) -> list[ProvenEdits]:
    """Those that fixed most first, else as they were."""
    return sorted(proven, key=lambda set_of_edits: -len(set_of_edits.fixed))


def line_to_replace(content: str, text: str) -> tuple[str, str] | None:
    """The line of a text that content of one line says nearly again, and what would stand in its place; None
    where a line has the very words.
    """
    rule = content.strip()
    if "\n" in rule or plain(rule) in map(plain, text.splitlines()):
        return None
    line = next((line for line in text.splitlines() if alike(line, rule)), None)
    if line is None:
        return None
    mark = MARKS.match(line)
    return line, (mark.group() if mark else "") + MARKS.sub("", rule)
