"""Replays a verdict over the rows in the log, with the gate's own arithmetic."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

from skillopt.config.schema import EvaluationConfig, GateConfig
from skillopt.errors import UsageError
from skillopt.events import Judged, Row, StageClosed, Updated
from skillopt.events.place import Place
from skillopt.events.state import Metric
from skillopt.gate.constraints import Constraints, Effort, GateRuling, too_long
from skillopt.gate.decision import Case, PolicyReader, RowId, worth_of, worths_of
from skillopt.gate.gate import STAGE
from skillopt.gate.policies import decide
from skillopt.runs.evidence import FoundVerdict, measured_rows
from skillopt.runs.log import DATABASE, EVENTS, read_sections
from skillopt.runs.reader import RunReader
from skillopt.runs.tail import asked_twice
from skillopt.runs.versions import judged_skill
from skillopt.skill.document import Document
from skillopt.skill.edits import Outcome

VERDICT = re.compile(r"(?P<step>\d+)(?:/c(?P<candidate>\d+))?|epoch-(?P<epoch>\d+)")
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRow:
    """One row as the policy read it. `upper` is U after it."""

    row: Row
    incumbent: Fraction
    candidate: Fraction | None
    upper: Fraction

    @property
    def moved(self) -> int:
        """1 where the candidate did better, -1 where it did worse or could not be measured."""
        if self.candidate is None:
            return -1
        return (self.candidate > self.incumbent) - (self.candidate < self.incumbent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A verdict of the log, and what the policy rules when it reads the stored rows again. Without rows there
    is nothing to replay: then `action`, `reason` and `decided_by` are those of the log.
    """

    judged: Judged
    name: str
    incumbent: str
    """Digest of the skill that it was compared with, as the target got it."""
    others: Sequence[str]
    """Verdicts of the same step beside this one, where it tried several candidates."""
    edits: Sequence[Outcome]
    hedged: int
    """Calls behind the candidate and its rows that were asked twice."""
    action: str
    reason: str
    decided_by: str
    policy: str = "strict"
    reader: PolicyReader | None = None
    rows: Sequence[ReplayedRow] = ()
    read: int = 0
    """How many of the rows the policy read."""
    agrees: bool = True
    """Whether the verdict of the log, its scores and its bound follow from its rows."""

    @property
    def is_measured(self) -> bool:
        """Whether the log holds rows of it, or says that it should."""
        return self.reader is not None or self.judged.rows_used > 0

    def as_json(self) -> dict[str, Any]:
        """The same for programs; sums as exact fractions and as numbers."""
        rows = [
            {
                "task": one.row.task,
                "draw": one.row.draw,
                "incumbent": float(one.incumbent),
                "candidate": None if one.candidate is None else float(one.candidate),
                "invalid": one.row.invalid,
                "upper": float(one.upper),
            }
            for one in self.rows
        ]
        return {
            "name": self.name,
            "place": str(self.judged.place),
            "recorded": self.judged.action,
            "recorded_why": self.judged.why,
            "recomputed": self.action,
            "reason": self.reason,
            "policy": self.policy,
            "decided_by": self.decided_by,
            "agrees": self.agrees,
            "others": list(self.others),
            "metric": self.judged.metric,
            "incumbent_sum": str(self.reader.bar if self.reader else 0),
            "upper_sum": str(self.reader.upper if self.reader else 0),
            "rows_total": self.reader.total if self.reader else 0,
            "rows_read": self.read,
            "hedged": self.hedged,
            "rows": rows,
            "edits": [edit.as_json() for edit in self.edits],
        }


def find(run: RunReader, step: str) -> FoundVerdict:
    """The verdict on a step (its number) or on an epoch's slow update (`epoch-N`).

    Of several candidates the number means the accepted one, else the first; `N/c0`, `N/c1` name each.
    """
    named = VERDICT.fullmatch(step)
    if named is None:
        raise UsageError(
            f"{step!r} names no verdict: give a step's number or 'epoch-N' (with several candidates: 'N/c0',"
            " 'N/c1', ...)."
        )
    fold = read_sections(run.folder)
    sections, others = [*fold.kept, fold.open_section], list[str]()
    for at, section in enumerate(sections):
        verdicts = [one for one in section.of(Judged) if _is_of(one.place, named["step"], named["epoch"])]
        found = [one for one in verdicts if one.place.candidate == int(named["candidate"] or 0)]
        if not named["candidate"]:
            found = [one for one in verdicts if one.action == "accept"][-1:] or found
        if found and not run.config:
            raise UsageError(
                f"{run.folder / 'settings.json'} is missing; it says how scores were weighed. Run the same"
                " training command again to write it."
            )
        if found:
            return FoundVerdict(judged=found[0], sections=sections[: at + 1])
        others += [f"{step.partition('/')[0]}/c{one.place.candidate}" for one in verdicts]
    had = sorted(record.step for record in run.fold.records)
    steps = f"it has closed steps {had[0]} to {had[-1]}" if had else "it has closed no step"
    if parts := sorted(one.parent for one in run.folder.glob(f"rounds/*/{EVENTS}")):
        steps += f"; its rounds are runs too, such as {parts[0]}"
    there = f"that step has {', '.join(others)}" if others else steps
    raise UsageError(f"{run.folder} holds no verdict on {step!r}; {there}.")


def _is_of(place: Place, step: str | None, epoch: str | None) -> bool:
    if step:
        return (place.scope, place.step) == ("step", int(step))
    return (place.scope, place.epoch) == ("end", int(epoch or 0))


def replay(run: RunReader, found: FoundVerdict) -> Replay:
    """Let the policy read the stored rows of a verdict again."""
    judged, section, before = found.judged, found.section, found.section.before
    assert before is not None, "a verdict comes after the baseline"
    is_gated = bool(run.config["evaluation"]["use_gate"])
    policy = _policy(run.config, judged) if is_gated else "strict"
    over = [one.skill for one in section.of(Updated) if judged.over and one.digest == judged.over]
    incumbent = run.skills.get(over[0] if over else before.skill if is_gated else before.best)
    closed = (one for one in section.of(StageClosed) if one.stage == STAGE and one.place == judged.place)
    stage, root = next(closed, None), judged.place.root
    beside = [one for one in section.of(Judged) if one is not judged and one.place.root == root]
    name = _name_of(judged.place, with_candidate=bool(beside))
    behind = [f"{root}/"]
    behind += [f"rollout/{row.rollout}." for row in (stage.rows if stage else ()) if row.rollout]
    as_recorded = Replay(
        judged=judged,
        name=name,
        incumbent=incumbent.digest,
        others=[f"{_name_of(one.place, with_candidate=True)}: {one.action}" for one in beside],
        edits=_edits_of(found),
        hedged=sum(place.startswith(tuple(behind)) for place in asked_twice(run.folder / DATABASE)),
        action=judged.action,
        reason=judged.why,
        decided_by=judged.decided_by,
        policy=policy,
        agrees=not judged.rows_used,
    )
    if stage is None:  # nothing changed, the candidate was refused, or no reflection could be read
        return as_recorded
    candidate = judged_skill(section, judged.place, run.skills)
    if candidate is None:
        raise UsageError(
            f"{name} of {run.folder} is not closed yet: run the same training command again, then explain it."
        )
    measured = measured_rows(found.sections, run.skills)
    known = [row for split, skill, row in measured if (split, skill) == ("val", incumbent.digest)]
    known = [row for row in known if row.task not in before.left_out]
    if not known:
        raise UsageError(
            f"The log of {run.folder} does not hold the rows of the skill that {name} was compared with."
        )
    seed_chars = len(run.skills.get(before.seed).rendered)
    return _read_again(as_recorded, run.config, seed_chars, known, stage.rows, incumbent, candidate)


def _read_again(
    recorded: Replay,
    config: Mapping[str, Any],
    seed_chars: int,
    known: Sequence[Row],
    rows: Sequence[Row],
    incumbent: Document,
    candidate: Document,
) -> Replay:
    """The gate's own arithmetic on the rows of incumbent and candidate."""
    judged, policy = recorded.judged, recorded.policy
    settings, evaluation = GateConfig(**config["gate"]), EvaluationConfig(**config["evaluation"])
    metric, weight = cast(Metric, judged.metric), evaluation.gate_mixed_weight
    targets = (config["model"].get("targets") or "").count(",") + 1
    constraints = Constraints.of(settings, targets) if evaluation.use_gate else Constraints()
    worths, values = [worth_of(row, metric, weight) for row in rows], worths_of(known, metric, weight)
    draws = 1 + max((draw for _, draw in values), default=0)  # an incumbent has its further draws as well
    case = Case.of(
        values,
        further=(settings.confirm_draws or draws // 2) if policy == "confirm" else 0,
        settings=settings,
        seed_chars=seed_chars,
        chars=len(candidate.rendered),
        incumbent_chars=len(incumbent.rendered),
    )
    reader, uppers = decide(policy, case, worths)
    shown = [
        ReplayedRow(row=row, incumbent=bar, candidate=worth, upper=upper)
        for row, worth, bar, upper in zip(rows, worths, case.bar, uppers, strict=False)
    ]
    ids = [(row.task, row.draw) for row in rows]
    ruled = GateRuling(
        ruling=reader.ruling or "inconclusive", why=_reason(reader, shown), by=reader.decided_by
    )
    ruled = constraints.apply(ruled, _effort(known), _effort(rows))
    ruled = constraints.none_worse(ruled, values, dict(zip(ids, worths, strict=True)))
    unfit = next((row for row in rows if row.invalid == "too_long"), None)
    if unfit is not None:
        ruled = too_long(unfit.task, unfit.detail)
    action = "open" if reader.ruling is None and unfit is None else ruled.ruling
    is_whole = len(rows) == len(values) and None not in worths
    score = sum(filter(None, worths), Fraction(0)) / len(worths) if is_whole else None
    bound = None
    if ruled.ruling == "reject" and ruled.by not in ("length", "window"):
        bound = score if is_whole else reader.upper / reader.total
    in_order = ids == list(case.rows[: len(ids)])
    agrees = (
        (action, ruled.by or "", policy) == (judged.action, judged.decided_by, judged.policy)
        and in_order
        and (unfit is not None or len(rows) in (len(uppers), len(case.rows)))
        and candidate.digest == judged.skill
        and _is_same(judged.incumbent, sum(values.values(), Fraction(0)) / len(values))
        and _is_same(judged.candidate, score)
        and _is_same(judged.bound, bound)
    )
    return replace(
        recorded,
        action=action,
        reason=ruled.why,
        decided_by=ruled.by or "",
        reader=reader,
        rows=shown if in_order else (),
        read=len(uppers),
        agrees=agrees,
    )


def _name_of(place: Place, *, with_candidate: bool) -> str:
    """A verdict by its place, in words a person can give back to `explain`."""
    if place.scope == "end":
        return f"epoch-{place.epoch}"
    return f"step {place.step}" + (f"/c{place.candidate}" if with_candidate else "")


def _edits_of(found: FoundVerdict) -> Sequence[Outcome]:
    """The edits a verdict is about and how they ended; the step's record says which are whose."""
    outcomes = [edit for one in found.section.of(Updated) for edit in one.outcomes]
    place = found.judged.place
    if not place.candidate or not found.candidates:
        return outcomes
    ids = set(found.candidates[place.candidate].edits)
    return [outcome for outcome in outcomes if outcome.id in ids]


def _policy(config: Mapping[str, Any], judged: Judged) -> str:
    """The policy that had to decide: the configured one. Only `proof` may ask for `paired` instead of
    `strict`, and for no more than `strict` where a candidate replaces one that the step accepted.
    """
    told, own = str(config["gate"]["policy"]), config["train"].get("strategy") == "proof"
    if own and judged.over:
        return "strict"
    return "paired" if own and told == "strict" and judged.policy == "paired" else told


def _effort(rows: Sequence[Row]) -> dict[RowId, Effort]:
    return {
        (row.task, row.draw): Effort(tokens=row.tokens, seconds=row.seconds)
        for row in rows
        if row.hard is not None
    }


def _is_same(recorded: float | None, computed: Fraction | None) -> bool:
    if recorded is None or computed is None:
        return recorded is None and computed is None
    return abs(recorded - float(computed)) < _ROUNDING


def _reason(reader: PolicyReader, rows: Sequence[ReplayedRow]) -> str:
    if reader.decided_by == "score" and reader.ruling == "reject":
        return f"U <= I after {len(rows)} of {reader.total} rows"
    if reader.decided_by == "score":
        return f"all {reader.total} rows are there and their sum is above I"
    if reader.ruling == "inconclusive":
        lost = [one.row.task for one in rows if one.candidate is None]
        return f"U > I, and {len(lost)} rows that could decide are invalid: {', '.join(lost)}"
    return reader.why or "the rows in the log fix no verdict"
