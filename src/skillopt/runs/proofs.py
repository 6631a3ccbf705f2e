"""Recomputes what a step of `proof` rests on from the rows in the log: which trials fixed what, whether every
chosen edit is backed by them, and which edits are guilty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, TypeAlias, cast

from skillopt.events import (
    Aggregated,
    Blamed,
    Judged,
    Proved,
    Reflected,
    RowFact,
    StageClosed,
    TrialFact,
    Updated,
)
from skillopt.events.records import EditRecord, StepRecord
from skillopt.events.state import Metric
from skillopt.gate.decision import RowId, worths_of
from skillopt.gate.gate import STAGE
from skillopt.models.reading import Unusable, read
from skillopt.optimizer.proof import JOINING, groups_in
from skillopt.optimizer.replies import Groups
from skillopt.place import Place
from skillopt.runs.evidence import measured_in_full
from skillopt.runs.log import DATABASE
from skillopt.runs.reader import RunReader
from skillopt.runs.stored import stored_replies
from skillopt.runs.verdicts import FoundVerdict
from skillopt.train.blame import (
    Blame,
    beyond,
    halves_of,
    not_worth_it,
    parts_of,
    suspects,
    without_flakes,
)
from skillopt.train.trials import broken_in, fixed_in, noise_in

Worths: TypeAlias = dict[RowId, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditProof:
    """One edit of a step: where it comes from, what it did when it was tried, and what became of it."""

    id: str
    lane: str
    look: str
    state: str
    reason: str
    edit: Mapping[str, Any]
    tried_on: Sequence[str]
    """Failed train tasks on which it was tried alone, or in a set where it never was."""
    fixed: Sequence[str]
    """Of a chosen edit what the record says; of another one what it fixed alone."""
    unbacked: Sequence[str]
    """Tasks that a chosen edit is said to fix, and no trial in the log shows it."""
    joined_into: str | None
    stands_for: Sequence[str]
    chosen: bool
    verdicts: Mapping[str, str]
    """The action on each candidate that it was in."""
    blamed: Sequence[str]
    """`control` or `blame`, where it was found guilty."""
    pruned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProof:
    """The edits of a step, the chosen ones first, and where the log contradicts itself."""

    noise: float
    trials: int
    edits: Sequence[EditProof]
    differences: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {**asdict(self), "agrees": not self.differences}


def read_proof(run: RunReader, found: FoundVerdict) -> StepProof | None:
    """What the edits of the verdict's step rest on; None where no edit was tried before the gate."""
    if not found.section.of(Proved):
        return None
    return _ProofReading(run, found).read()


class _ProofReading:
    """The log of one step of `proof`, read once."""

    def __init__(self, run: RunReader, found: FoundVerdict) -> None:
        section = found.section
        self._run = run
        self._found = found
        self._section = section
        self._metric = cast(Metric, found.judged.metric)
        self._weight = float(run.config["evaluation"]["gate_mixed_weight"])
        self._stages = {(one.place, one.stage): one.rows for one in section.of(StageClosed)}
        self._rollouts = self._stages[found.judged.place.root, "rollout"]
        studied = {task for one in section.of(Reflected) for patch in one.patches for task in patch.tasks}
        worst = sorted((row for row in self._rollouts if row.hard is not None), key=_score, reverse=True)
        self._before = {(task, 0): one for (task, _), one in self._worths(worst).items() if task in studied}
        self._proved = [trial for one in section.of(Proved) for trial in one.trials]
        self._noise = section.of(Proved)[0].noise
        self._outcomes = {one.id: one for event in section.of(Updated) for one in event.outcomes}
        self._applied = [one.id for one in self._outcomes.values() if one.state == "applied"]
        self._differences: list[str] = []
        self._proven = self._all_proven()
        self._families = self._all_families()
        closed = section.closed_by
        record = None if closed is None else closed.record
        self._candidates = record.candidates if isinstance(record, StepRecord) else ()

    def read(self) -> StepProof:
        """Everything, with the differences found on the way."""
        again = [row for one in self._section.of(Proved)[0].trials if not one.edits for row in one.rows]
        noise = noise_in(self._worths(self._rollouts), self._worths(again))
        if noise != self._noise:
            self._differences.append(f"noise is recorded as {self._noise:g} and comes out as {noise:g}")
        self._check_joins()
        chosen = [one for one in self._outcomes.values() if "fixed" in one.edit]
        unbacked = {one.id: self._unbacked(one, chosen) for one in chosen}
        self._differences += [
            f"no trial shows that {id} fixes {', '.join(tasks)}" for id, tasks in unbacked.items() if tasks
        ]
        guilty = self._guilty()
        edits = [self._edit(one, unbacked, guilty) for one in self._outcomes.values()]
        edits.sort(key=lambda one: (one.state != "applied", not one.chosen))
        return StepProof(
            noise=noise, trials=len(self._proved), edits=edits, differences=tuple(self._differences)
        )

    def _worths(self, rows: Sequence[RowFact]) -> Worths:
        return worths_of(rows, self._metric, self._weight)

    def _all_proven(self) -> dict[tuple[str, ...], set[str]]:
        """The tasks that each set of edits fixed. One edit's trial that was repeated at once must hold there,
        and the task must not come right in that draw by itself; several edits count by their second draw.
        """
        proven: dict[tuple[str, ...], set[str]] = {}
        for at, trial in enumerate(self._proved):
            ids, (again, bare) = tuple(trial.edits), (*self._proved[at + 1 : at + 3], None, None)[:2]
            if not ids or _is_repeated(trial) == (len(ids) == 1):
                continue
            fixed = self._fixed_in(trial)
            if again is not None and again.edits == trial.edits and _is_repeated(again):
                fixed &= self._fixed_in(again)
                fixed -= self._fixed_in(bare) if bare is not None and not bare.edits else set()
            proven.setdefault(ids, set()).update(fixed)
        return proven

    def _fixed_in(self, trial: TrialFact) -> set[str]:
        """Tasks that came right in a trial, in whichever draw."""
        after = self._worths(trial.rows)
        before = {row: self._before[row[0], 0] for row in after if (row[0], 0) in self._before}
        return {task for task, _ in fixed_in(before, after)}

    def _check_joins(self) -> None:
        """Edits in other words are joined only where the stored reply says that they say the same. Where no
        model was asked, as with small optimizers, code joined them and there is no reply.
        """
        for event in self._section.of(Aggregated):
            if not event.asked:
                continue
            said: list[list[str]] = []
            for reply in stored_replies(self._run.folder / DATABASE, str(event.place.at(JOINING, "0"))):
                with suppress(Unusable):  # then the next attempt counts
                    groups = groups_in(read(reply, Groups), len(event.asked))
                    said = [[event.asked[number] for number in group] for group in groups]
            self._differences += [
                f"the stored reply does not join {', '.join(ids)}"
                for ids in event.joined
                if not any(ids[0] == group[0] and set(ids) <= set(group) for group in said)
            ]

    def _all_families(self) -> dict[str, list[str]]:
        """The edits that say the same as an edit, itself included; the one that stands for them first."""
        families: dict[str, list[str]] = {}
        for one in self._section.of(Aggregated):
            for ids in (*one.joined, *one.copies):
                family = list(dict.fromkeys(each for id in ids for each in families.get(id, [id])))
                families |= dict.fromkeys(family, family)
        return families

    def _family(self, one: EditRecord) -> list[str]:
        return self._families.get(one.id, [one.id])

    def _unbacked(self, one: EditRecord, chosen: Sequence[EditRecord]) -> list[str]:
        """Tasks that no trial shows fixed by the edit or its family, alone or with other chosen ones."""
        own = set(self._family(one))
        taken = {id for each in chosen for id in self._family(each)}
        shown = {
            task
            for ids, tasks in self._proven.items()
            if not own.isdisjoint(ids) and taken.issuperset(ids)
            for task in tasks
        }
        return [task for task in one.edit["fixed"] if task not in shown]

    def _edit(
        self, one: EditRecord, unbacked: Mapping[str, Sequence[str]], guilty: Mapping[str, Collection[str]]
    ) -> EditProof:
        alone = [trial for trial in self._proved if trial.edits == [one.id]]
        tried = alone or [trial for trial in self._proved if one.id in trial.edits]
        tried_on = list(dict.fromkeys(row.task for trial in tried for row in trial.rows))
        shown, family = self._proven.get((one.id,), ()), self._family(one)
        joined_into = family[0] if one.state == "merged" else None
        lane, look = _origin(one.id)
        return EditProof(
            id=one.id,
            lane=lane,
            look=look,
            state=one.state,
            reason=one.reason,
            edit=one.edit,
            tried_on=tried_on,
            fixed=list(one.edit.get("fixed") or [task for task in tried_on if task in shown]),
            unbacked=unbacked.get(one.id, ()),
            joined_into=joined_into,
            stands_for=[] if joined_into else [id for id in family if id != one.id],
            chosen=one.id in unbacked,
            verdicts={f"c{each.id}": each.action for each in self._candidates if one.id in each.edits},
            blamed=[stage for stage in ("control", "blame") if one.id in guilty.get(stage, ())],
            pruned=one.id in guilty.get("prune", ()),
        )

    def _guilty(self) -> dict[str, set[str]]:
        """The recorded guilty by stage, each record computed again."""
        by_stage: dict[str, set[str]] = {}
        accepted = self._found.judged.place.root
        for event in self._section.events:
            if isinstance(event, Judged) and event.action == "accept":
                accepted = event.place
            if not isinstance(event, Blamed):
                continue
            trials = _StoredTrials(event.trials, self._worths)
            try:
                if event.stage == "control":
                    computed = self._controlled(event, trials)
                elif event.stage == "blame":
                    computed = self._broken_on_val(trials)
                else:
                    out = by_stage.get("blame", set()) if accepted.candidate else set()
                    computed = self._in_the_way(accepted, out, trials)
                trials.close()
            except _Missing as error:
                self._differences.append(f"{event.id}: {error}")
            else:
                if computed != sorted(event.guilty):
                    told, shown = _named(event.guilty), _named(computed)
                    self._differences.append(f"{event.id}: guilty by the record {told}, by its rows {shown}")
            by_stage.setdefault(event.stage, set()).update(event.guilty)
        return by_stage

    def _controlled(self, event: Blamed, trials: _StoredTrials) -> list[str]:
        """Chosen edits that break tasks of the batch which passed."""
        passed = {
            row: worth
            for row, worth in self._worths(self._rollouts).items()
            if row[1] == 0 and row not in self._before
        }
        edits = tuple(event.trials[0].edits) if event.trials else ()
        rows = event.trials[0].rows if event.trials else []
        after = trials.take(edits)
        first = rows if len(event.trials) == 1 else rows[: (len(rows) + 1) // 2]
        if len(broken_in(passed, self._worths(first))) < beyond(self._noise, len(first)):
            return []
        found = self._blamed(trials, edits, trials.next_rows, passed)
        if unknown := [id for id in found.guilty if id not in event.fixes]:
            raise _Missing(f"what {_named(unknown)} should fix is not there")
        return not_worth_it(found, event.fixes, broken_in(passed, after), scale=len(passed) / len(rows))

    def _broken_on_val(self, trials: _StoredTrials) -> list[str]:
        """Edits of the bundle that break val rows."""
        skills = self._run.skills
        incumbent = skills.get(self._found.before.skill).digest
        before = self._worths(measured_in_full(self._found.sections, skills)[incumbent])
        place = self._found.judged.place.root
        broken = broken_in(before, self._worths(self._stages[place, STAGE]))
        tried = trials.next_rows
        if tried != set(broken[: len(tried)]):
            raise _Missing("parts were tried on rows that the candidate did not break")
        share = len(before) / max(1, len(self._rollouts))
        fixes = {id: share * self._support(id) for id in self._applied}
        return not_worth_it(self._blamed(trials, self._applied, tried, before), fixes, broken)

    def _blamed(
        self, trials: _StoredTrials, edits: Sequence[str], rows: Collection[RowId], before: Worths
    ) -> Blame:
        """`blame`, with rows that are known."""
        parts = parts_of(edits, len(rows))
        broken_by = [broken_in(before, trials.take(part)) for part in parts]
        suspected = suspects(parts, broken_by, len(rows), self._noise)
        guilty = {part[0]: broken for part, broken in suspected if len(part) == 1}
        for part, broken in suspected:
            if len(part) > 1:
                guilty |= self._blamed(trials, part, broken, before).guilty
        return Blame(guilty=guilty, rows=set(rows))

    def _in_the_way(self, place: Place, out: Collection[str], trials: _StoredTrials) -> list[str]:
        """`freed`, with rows that are known: weak edits without which val rows come right."""
        edits = [id for id in self._applied if id not in out]
        weak = tuple(id for id in edits if self._support(id) == 1)
        now = self._worths(self._stages[place, STAGE])
        tried_on = len(trials.next_rows)
        open_parts = [(weak, fixed_in(now, trials.take(_without(edits, weak))), tried_on)]
        guilty: list[str] = []
        while open_parts:
            part, right, tried_on = open_parts.pop(0)
            if len(right) < beyond(self._noise, tried_on):
                continue
            if len(part) == 1:
                guilty.append(part[0])
                continue
            halves = halves_of(part)
            rights = without_flakes([fixed_in(now, trials.take(_without(edits, one))) for one in halves])
            open_parts += [(one, each, len(right)) for one, each in zip(halves, rights, strict=True)]
        return sorted(guilty)

    def _support(self, id: str) -> int:
        return int(self._outcomes[id].edit.get("support_count") or 0)


class _Missing(Exception):
    """The log does not hold a trial that its other rows ask for."""


class _StoredTrials:
    """Trials of the log, taken in the order in which they were planned."""

    def __init__(self, facts: Sequence[TrialFact], worths: Callable[[Sequence[RowFact]], Worths]) -> None:
        self._left = list(facts)
        self._worths = worths

    @property
    def next_rows(self) -> set[RowId]:
        """The rows of the trial that comes next."""
        return {(row.task, row.draw) for row in self._left[0].rows} if self._left else set()

    def take(self, edits: Sequence[str]) -> Worths:
        """The next trial, which must be that of these edits."""
        if not self._left or self._left[0].edits != list(edits):
            raise _Missing(f"the rows ask for a trial of {_named(edits)}, and it is not there")
        return self._worths(self._left.pop(0).rows)

    def close(self) -> None:
        """Nothing more is asked for."""
        if self._left:
            raise _Missing(f"the rows do not ask for the trial of {_named(self._left[0].edits)}")


def _is_repeated(trial: TrialFact) -> bool:
    return any(row.draw for row in trial.rows)


def _score(row: RowFact) -> tuple[float, float]:
    return row.hard or 0.0, row.soft or 0.0


def _origin(id: str) -> tuple[str, str]:
    """Lane and look of an edit: `0#2`, `0-2#1` for the second look, `again-0-1#0` after a control."""
    item = Place.parse(id).item
    again = re.fullmatch(r"again-(\d+)-(\d+)", item)
    if again:
        return again[2], f"after control {again[1]}"
    lane, _, look = item.partition("-")
    return lane, look or "1"


def _without(edits: Sequence[str], out: Collection[str]) -> list[str]:
    return [id for id in edits if id not in out]


def _named(ids: Sequence[str]) -> str:
    return ", ".join(ids) or "none"
