"""What the log stores as the proof of an edit: its trials, joins, candidates, and who found it guilty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, cast

from skillopt.events import Aggregated, Blamed, Proved, Row, StageClosed, Updated
from skillopt.events.place import Place
from skillopt.events.state import Metric
from skillopt.gate.decision import worth_of, worths_of
from skillopt.runs.explain import FoundVerdict
from skillopt.runs.reader import RunReader
from skillopt.skill.edits import Outcome
from skillopt.train.trials import is_fixed


@dataclass(frozen=True, slots=True, kw_only=True)
class EditProof:
    """How one edit of a step of `proof` ended, and what the log stores of its trials."""

    outcome: Outcome
    lane: str
    look: str
    tried_on: Sequence[str]
    """Failed train tasks on which it was tried alone, or in a set where it never was."""
    fixed: Sequence[str]
    """Of a chosen edit what the record says; of another one the tasks that every trial of it alone
    fixed and that never came right by themselves."""
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
    """What is stored of the edits of a step of `proof`, the chosen ones first."""

    noise: float
    trials: int
    edits: Sequence[EditProof]

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        edits = [one.outcome.as_json() | asdict(one) for one in self.edits]
        for each in edits:
            each.pop("outcome")
        return {"noise": self.noise, "trials": self.trials, "edits": edits}


def stored_proof(run: RunReader, found: FoundVerdict) -> StepProof | None:
    """The proof of the verdict's step; None where no edit was tried before the gate."""
    section, metric = found.section, cast(Metric, found.judged.metric)
    proved = section.of(Proved)
    if not proved:
        return None
    weight = float(run.config["evaluation"]["gate_mixed_weight"])
    trials = [trial for one in proved for trial in one.trials]
    rollouts = [row for one in section.of(StageClosed) if one.stage == "rollout" for row in one.rows]
    before: dict[str, Fraction] = {}
    for (task, _), worth in worths_of(rollouts, metric, weight).items():
        before[task] = min(worth, before.get(task, worth))
    families: dict[str, list[str]] = {}
    for event in section.of(Aggregated):
        for ids in (*event.joined, *event.copies):
            family = list(dict.fromkeys(each for id in ids for each in families.get(id, [id])))
            families |= dict.fromkeys(family, family)

    def comes_right(row: Row) -> bool:
        worth = worth_of(row, metric, weight)
        return worth is not None and is_fixed(before.get(row.task, worth), worth)

    by_themselves = {row.task for one in trials if not one.edits for row in one.rows if comes_right(row)}

    def proof_of(one: Outcome) -> EditProof:
        alone = [row for trial in trials if trial.edits == [one.id] for row in trial.rows]
        tried = alone or [row for trial in trials if one.id in trial.edits for row in trial.rows]
        tasks = list(dict.fromkeys(row.task for row in tried))
        still_open = by_themselves | {row.task for row in tried if not alone or not comes_right(row)}
        family, (lane, look) = families.get(one.id, [one.id]), _look_of(one.id)
        joined_into = family[0] if one.state == "merged" else None
        guilty = {event.stage for event in section.of(Blamed) if one.id in event.guilty}
        return EditProof(
            outcome=one,
            lane=lane,
            look=look,
            tried_on=tasks,
            fixed=list(one.edit.evidence.get("fixed") or [task for task in tasks if task not in still_open]),
            joined_into=joined_into,
            stands_for=[] if joined_into else [id for id in family if id != one.id],
            chosen="fixed" in one.edit.evidence,
            verdicts={f"c{each.id}": each.action for each in found.candidates if one.id in each.edits},
            blamed=[stage for stage in ("control", "blame") if stage in guilty],
            pruned="prune" in guilty,
        )

    outcomes = {one.id: one for event in section.of(Updated) for one in event.outcomes}
    edits = [proof_of(one) for one in outcomes.values()]
    edits.sort(key=lambda one: (one.outcome.state != "applied", not one.chosen))
    return StepProof(noise=proved[0].noise, trials=len(trials), edits=edits)


def _look_of(id: str) -> tuple[str, str]:
    """Lane and look of an edit: `0#2`, `0-2#1` for the second look, `again-0-1#0` after a control."""
    lane, *more = Place.parse(id).item.split("-")
    if lane == "again" and len(more) == 2:
        return more[1], f"after control {more[0]}"
    return lane, more[0] if more else "1"
