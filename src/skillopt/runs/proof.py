"""The trials, joins and verdicts that the log stores of the edits of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from skillopt.events import Aggregated, Blamed, Proved, Updated
from skillopt.events.place import Place
from skillopt.runs.explain import StoredVerdict
from skillopt.skill.edits import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class EditProof:
    """What the log stores of one edit of a step of `proof`."""

    outcome: Outcome
    lane: str
    look: str
    tried_on: Sequence[str]
    """Train tasks on which it was tried, alone or in a set."""
    fixed: Sequence[str]
    """Of a chosen edit, the tasks that its trials showed to be fixed."""
    joined_into: str | None
    stands_for: Sequence[str]
    chosen: bool
    verdicts: Mapping[str, str]
    """The action on each candidate that it was in."""
    blamed: Sequence[str]
    """`control` or `blame`, where it was found guilty."""
    pruned: bool

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return self.outcome.as_json() | {key: item for key, item in asdict(self).items() if key != "outcome"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProof:
    """What is stored of the edits of a step of `proof`, the chosen ones first."""

    noise: float
    trials: int
    edits: Sequence[EditProof]

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {"noise": self.noise, "trials": self.trials, "edits": [one.as_json() for one in self.edits]}


def stored_proof(verdict: StoredVerdict) -> StepProof | None:
    """The proof of the verdict's step; None where no edit was tried before the gate."""
    section, proved = verdict.section, verdict.section.of(Proved)
    if not proved:
        return None
    trials = [trial for event in proved for trial in event.trials]
    families: dict[str, list[str]] = {}
    for event in section.of(Aggregated):
        for ids in (*event.joined, *event.copies):
            family = list(dict.fromkeys(each for id in ids for each in families.get(id, [id])))
            families |= dict.fromkeys(family, family)

    def proof_of(outcome: Outcome) -> EditProof:
        id, fixed = outcome.id, outcome.edit.evidence.get("fixed")
        family, (lane, look) = families.get(id, [id]), _lane_of(id)
        joined_into = family[0] if outcome.state == "merged" else None
        guilty = {event.stage for event in section.of(Blamed) if id in event.guilty}
        return EditProof(
            outcome=outcome,
            lane=lane,
            look=look,
            tried_on=list(dict.fromkeys(row.task for one in trials if id in one.edits for row in one.rows)),
            fixed=list(fixed or ()),
            joined_into=joined_into,
            stands_for=[] if joined_into else [each for each in family if each != id],
            chosen=fixed is not None,
            verdicts={f"c{each.id}": each.action for each in verdict.candidates if id in each.edits},
            blamed=[stage for stage in ("control", "blame") if stage in guilty],
            pruned="prune" in guilty,
        )

    outcomes = {outcome.id: outcome for event in section.of(Updated) for outcome in event.outcomes}
    edits = [proof_of(outcome) for outcome in outcomes.values()]
    edits.sort(key=lambda one: (one.outcome.state != "applied", not one.chosen))
    return StepProof(noise=proved[0].noise, trials=len(trials), edits=edits)


def _lane_of(id: str) -> tuple[str, str]:
    """Lane and look of an edit: `0#2`, `0-2#1` for the second look, `again-0-1#0` after a control."""
    lane, *more = Place.parse(id).item.split("-")
    if lane == "again" and len(more) == 2:
        return more[1], f"after control {more[0]}"
    return lane, more[0] if more else "1"
