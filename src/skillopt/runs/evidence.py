"""Recomputes a verdict: the incumbent's and the candidate's rows from the log, through the gate's own
arithmetic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, cast

from skillopt.errors import UsageError
from skillopt.events import Checkpoint, EpochEnded, Judged, Notice, Reflected, RowFact, StageClosed, Updated
from skillopt.events.records import EditRecord, StepRecord
from skillopt.events.state import Metric, State
from skillopt.gate.constraints import Constraints, Effort, Ruled
from skillopt.gate.decision import Case, GateLimits, PolicyReader, RowId, value
from skillopt.gate.gate import STAGE
from skillopt.gate.policies import decide
from skillopt.place import BASELINE, Place
from skillopt.runs.folder import RunView
from skillopt.skill.document import Document
from skillopt.tasks.rollout import Score
from skillopt.train.trainer import LEAK_GUARD


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRow:
    """One row as the verdict read it. `upper` is U after it."""

    task: str
    draw: int
    incumbent: Fraction
    candidate: Fraction | None
    invalid: str | None
    upper: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything a verdict rests on, and what comes out when it is computed again."""

    name: str
    judged: Judged
    recomputed: str
    reason: str
    policy: str = "strict"
    decided_by: str = ""
    others: Sequence[str] = ()
    """Verdicts of the same step beside this one, where it tried several candidates."""
    bar: Fraction = Fraction(0)
    upper: Fraction = Fraction(0)
    total: int = 0
    read: int = 0
    rows: Sequence[JudgedRow] = ()
    edits: Sequence[EditRecord] = ()
    same_rows: bool = True
    """Whether the record holds the rows that the reading order asks for."""
    same_skill: bool = True
    """Whether the candidate's text in the log is the one that was judged."""

    @property
    def agrees(self) -> bool:
        """Whether the log's verdict, and what decided it, follows from its rows."""
        told = (self.judged.action, self.judged.decided_by, self.judged.policy)
        return told == (self.recomputed, self.decided_by, self.policy) and self.same_rows and self.same_skill

    def as_json(self) -> dict[str, Any]:
        """The same for programs; sums as exact fractions and as numbers."""
        rows = [
            {
                **asdict(row),
                **{name: _number(getattr(row, name)) for name in ("incumbent", "candidate", "upper")},
            }
            for row in self.rows
        ]
        return {
            "name": self.name,
            "place": self.judged.place,
            "recorded": self.judged.action,
            "recorded_why": self.judged.why,
            "recomputed": self.recomputed,
            "reason": self.reason,
            "policy": self.policy,
            "decided_by": self.decided_by,
            "agrees": self.agrees,
            "others": list(self.others),
            "metric": self.judged.metric,
            "incumbent_sum": str(self.bar),
            "upper_sum": str(self.upper),
            "rows_total": self.total,
            "rows_read": self.read,
            "rows": rows,
            "edits": [edit.model_dump(mode="json") for edit in self.edits],
        }


def gather(run: RunView, step: str) -> Evidence:
    """Recompute the verdict on a step (its number) or on an epoch's slow update (`epoch-N`).

    A step that tried several candidates has several: its number means the one that its record rests on, which
    is that of the accepted candidate or else of the first; `N/c0`, `N/c1` and so on name each.
    """
    judged, of_step = _find(run, step)
    name = _name(judged.place, with_candidate=len(of_step) > 1)
    config = run.config()
    is_gated = bool(config["evaluation"]["use_gate"])
    policy = str(config["gate"]["policy"]) if is_gated else "strict"
    weight = float(config["evaluation"]["gate_mixed_weight"])
    at = run.events.index(judged)
    before = _state_before(run, at)
    incumbent = run.skills.get(before.skill if is_gated else before.best)
    updated = _updated(run, judged.place)
    about: dict[str, Any] = {
        "name": name,
        "judged": judged,
        "policy": policy,
        "others": [
            f"{_name(other.place, with_candidate=True)}: {other.action}"
            for other in of_step
            if other is not judged
        ],
        "edits": _edits(run, judged.place),
    }
    closed = next(
        (
            event
            for event in run.events
            if isinstance(event, StageClosed) and event.id == str(judged.place.at(STAGE))
        ),
        None,
    )
    if closed is None:
        return _without_rows(run, about, updated, incumbent.rendered)
    metric = cast(Metric, judged.metric)
    known = _known(run, at)
    if incumbent.digest not in known:
        raise UsageError(
            f"The log of {run.folder} does not hold the rows of the skill that {name} was compared with."
        )
    values = _scored(known[incumbent.digest], metric, weight)
    candidate = _candidate(run, judged, before, updated)
    if candidate is None:
        raise UsageError(
            f"{name} of {run.folder} is not closed yet: run the same training command again, then explain it."
        )
    seed = run.skills.get(before.seed)
    case = _case(config["gate"], policy, values, seed, candidate, incumbent)
    reader, uppers = decide(policy, case, [_value(row, metric, weight) for row in closed.rows])
    read = len(uppers)
    told = [(row.task, row.draw) for row in closed.rows]
    in_order = told == list(case.rows[: len(told)])
    rows = [
        JudgedRow(
            task=row.task,
            draw=row.draw,
            incumbent=bar,
            candidate=_value(row, metric, weight),
            invalid=row.invalid,
            upper=upper,
        )
        for row, bar, upper in zip(closed.rows, case.bar, uppers, strict=False)
    ]
    ruled = Ruled(ruling=reader.ruling or "inconclusive", why=_reason(reader, rows), by=reader.decided_by)
    if is_gated:
        ruled = _constraints(config["gate"]).apply(
            ruled, _effort(known[incumbent.digest]), _effort(closed.rows)
        )
    to_the_end = not is_gated or (
        updated is None and not config["optimizer"]["slow_update_gate_with_selection"]
    )
    return Evidence(
        **about,
        recomputed="open" if reader.ruling is None else ruled.ruling,
        reason=ruled.why,
        decided_by=ruled.by or "",
        bar=reader.bar,
        upper=reader.upper,
        total=reader.total,
        read=read,
        rows=rows if in_order else (),
        same_rows=in_order and len(told) == (len(case.rows) if to_the_end else read),
        same_skill=candidate.digest == judged.skill,
    )


def _find(run: RunView, step: str) -> tuple[Judged, list[Judged]]:
    """The verdict of that name, and all of the same step."""
    named = re.fullmatch(r"(?P<step>\d+)(?:/c(?P<candidate>\d+))?|epoch-(?P<epoch>\d+)", step)
    if named is None:
        raise UsageError(
            f"{step!r} names no verdict: give a step's number or 'epoch-N' (with several candidates: 'N/c0',"
            " 'N/c1', ...)."
        )
    verdicts = [
        event
        for event in run.events
        if isinstance(event, Judged)
        and (
            (event.place.scope, event.place.step) == ("step", int(named["step"]))
            if named["step"]
            else (event.place.scope, event.place.epoch) == ("end", int(named["epoch"]))
        )
    ]
    # A step that was opened again has later verdicts.
    of_step = [event for event in verdicts if event.place.root == verdicts[-1].place.root]
    found = [event for event in of_step if event.place.candidate == int(named["candidate"] or 0)]
    if not named["candidate"]:
        found = [event for event in of_step if event.action == "accept"] or found
    if not found:
        had = sorted({record.step for record in run.steps})
        steps = f"steps {had[0]} to {had[-1]}" if had else "no step"
        raise UsageError(f"{run.folder} holds no verdict on {step!r}; it has closed {steps}.")
    return found[0], of_step


def _name(place: Place, *, with_candidate: bool) -> str:
    """A verdict by its place, in words a person can give back to `explain`."""
    if place.scope == "end":
        return f"epoch-{place.epoch}"
    return f"step {place.step}" + (f"/c{place.candidate}" if with_candidate else "")


def _updated(run: RunView, place: Place) -> Updated | None:
    return next((event for event in run.events if isinstance(event, Updated) and event.place == place), None)


def _edits(run: RunView, place: Place) -> Sequence[EditRecord]:
    """The edits a verdict is about and how they ended; those of a later candidate are told with the first,
    and the step's record says which.
    """
    updated = _updated(run, place.root)
    outcomes = () if updated is None else updated.outcomes
    if not place.candidate:
        return outcomes
    closed = str(place.root.at("step"))
    ids = {
        edit
        for event in run.events
        if isinstance(event, Checkpoint) and event.id == closed and isinstance(event.record, StepRecord)
        for edit in event.record.candidates[place.candidate].edits
    }
    return [outcome for outcome in outcomes if outcome.id in ids]


def _state_before(run: RunView, at: int) -> State:
    states = [event.state for event in run.events[:at] if isinstance(event, Checkpoint)]
    return states[-1]


def _known(run: RunView, before: int) -> dict[str, Sequence[RowFact]]:
    """The rows of every skill that was measured in full before that place of the log, by the digest of its
    rendered text.
    """
    known: dict[str, Sequence[RowFact]] = {}
    rows: dict[Place, Sequence[RowFact]] = {}
    seed: set[RowId] = set()
    for event in run.events[:before]:
        if isinstance(event, StageClosed) and event.stage == STAGE:
            rows[event.place] = event.rows
        elif isinstance(event, Checkpoint) and event.kind == "baseline":
            left_out = set(event.state.left_out)
            first = [row for row in rows[BASELINE] if row.task not in left_out]
            known[run.skills.get(event.state.seed).digest], seed = first, _measured(first)
        elif isinstance(event, Judged) and event.place in rows and _measured(rows[event.place]) == seed:
            known[event.skill] = rows[event.place]
    return known


def _measured(rows: Sequence[RowFact]) -> set[RowId]:
    return {(row.task, row.draw) for row in rows if row.hard is not None and row.soft is not None}


def _effort(rows: Sequence[RowFact]) -> dict[RowId, Effort]:
    return {
        (row.task, row.draw): Effort(tokens=row.tokens, seconds=row.seconds)
        for row in rows
        if row.hard is not None
    }


def _constraints(gate: Mapping[str, Any]) -> Constraints:
    """Those of the run; one that began before there were any has none."""
    return Constraints(
        tokens=gate.get("max_tokens_increase"),
        latency=gate.get("max_latency_increase"),
        unknown=gate.get("unknown_effort", "reject"),
    )


def _scored(rows: Sequence[RowFact], metric: Metric, weight: float) -> dict[RowId, Fraction]:
    return {(row.task, row.draw): each for row in rows if (each := _value(row, metric, weight)) is not None}


def _candidate(run: RunView, judged: Judged, before: State, updated: Updated | None) -> Document | None:
    """The text that was judged: a step's candidate, or the skill with an epoch's guidance; None while the
    epoch is open.
    """
    if updated is not None:
        return run.skills.get(updated.skill)
    ended = next(
        (
            event
            for event in run.events
            if isinstance(event, EpochEnded) and event.id == str(judged.place.at("ended"))
        ),
        None,
    )
    if ended is None:
        return None
    guidance = ended.slow_update.slow_update_content or ""
    return run.skills.get(before.skill).with_region("slow_update", guidance)


def _case(
    gate: Mapping[str, Any],
    policy: str,
    values: Mapping[RowId, Fraction],
    seed: Document,
    candidate: Document,
    incumbent: Document,
) -> Case:
    """What the policy was told, put together again from configuration and log."""
    limits = GateLimits(
        alpha=gate["alpha"],
        max_chars=gate["max_chars"],
        confirm_draws=gate["confirm_draws"],
        seed_chars=len(seed.rendered),
    )
    draws = 1 + max((draw for _, draw in values), default=0)  # an incumbent has its further draws as well
    further = (limits.confirm_draws or draws // 2) if policy == "confirm" else 0
    return Case.of(
        values,
        further=further,
        limits=limits,
        chars=len(candidate.rendered),
        incumbent_chars=len(incumbent.rendered),
    )


def _without_rows(
    run: RunView, about: Mapping[str, Any], updated: Updated | None, incumbent: str
) -> Evidence:
    """Verdicts that needed no measurement: nothing changed, the guard refused, or the step's reflections were
    lost.
    """
    if (
        about["judged"].decided_by == LEAK_GUARD
    ):  # the tasks it looked at are not in the log, but what it found is
        found = next(
            (
                event.text
                for event in run.events
                if isinstance(event, Notice) and event.id == str(about["judged"].place.at("leaks"))
            ),
            "",
        )
        return Evidence(
            **about,
            recomputed="reject" if found else "open",
            reason=found or "no leak is in the log",
            decided_by=LEAK_GUARD,
        )
    if updated is not None:
        same = run.skills.get(updated.skill).rendered == incumbent
        reason = (
            "the candidate reads the same as the incumbent"
            if same
            else "the candidate differs, and no row of it is in the log"
        )
        return Evidence(**about, recomputed="unchanged" if same else "open", reason=reason)
    judged: Judged = about["judged"]
    reflected = next(
        (event for event in run.events if isinstance(event, Reflected) and event.place == judged.place), None
    )
    if reflected is None:
        return Evidence(**about, recomputed=judged.action, reason="nothing was proposed")
    dropped = sum(patch.dropped is not None for patch in reflected.patches)
    lost = 2 * dropped > len(reflected.patches)
    reason = (
        f"{dropped} of {len(reflected.patches)} reflections were unreadable, {'more' if lost else 'not more'}"
        " than half"
    )
    return Evidence(**about, recomputed="inconclusive" if lost else "open", reason=reason)


def _value(row: RowFact, metric: Metric, weight: float) -> Fraction | None:
    if row.hard is None or row.soft is None:
        return None
    return value(Score(hard=row.hard, soft=row.soft), metric, weight)


def _reason(reader: PolicyReader, rows: Sequence[JudgedRow]) -> str:
    if reader.decided_by == "score" and reader.ruling == "reject":
        return f"U <= I after {len(rows)} of {reader.total} rows"
    if reader.decided_by == "score":
        return f"all {reader.total} rows are there and their sum is above I"
    if reader.ruling == "inconclusive":
        lost = [row.task for row in rows if row.candidate is None]
        return f"U > I, and {len(lost)} rows that could decide are invalid: {', '.join(lost)}"
    return reader.why or "the rows in the log fix no verdict"


def _number(amount: Fraction | None) -> float | None:
    return None if amount is None else float(amount)
