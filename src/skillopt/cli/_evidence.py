"""Recomputes a verdict: the incumbent's and the candidate's rows from the log, through the gate's own arithmetic."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, cast

from skillopt.cli._folder import RunView
from skillopt.errors import UsageError
from skillopt.events import Checkpoint, Judged, Reflected, RowFact, StageClosed, Updated
from skillopt.gate.decision import Metric, RowId, decide, reading_order, value
from skillopt.skill.document import Document
from skillopt.tasks.rollout import Score


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
    bar: Fraction = Fraction(0)
    upper: Fraction = Fraction(0)
    total: int = 0
    read: int = 0
    rows: Sequence[JudgedRow] = ()
    edits: Sequence[Mapping[str, Any]] = ()
    same_rows: bool = True
    """Whether the record holds the rows that the reading order asks for."""

    @property
    def agrees(self) -> bool:
        """Whether the log's verdict follows from its rows."""
        return self.recomputed == self.judged.action and self.same_rows

    def as_json(self) -> dict[str, Any]:
        """The same for programs; sums as exact fractions and as numbers."""
        rows = [{**asdict(row), **{name: _number(getattr(row, name)) for name in ("incumbent", "candidate", "upper")}} for row in self.rows]
        return {
            "name": self.name,
            "place": self.judged.place,
            "recorded": self.judged.action,
            "recorded_why": self.judged.why,
            "recomputed": self.recomputed,
            "reason": self.reason,
            "agrees": self.agrees,
            "metric": self.judged.metric,
            "incumbent_sum": str(self.bar),
            "upper_sum": str(self.upper),
            "rows_total": self.total,
            "rows_read": self.read,
            "rows": rows,
            "edits": [dict(edit) for edit in self.edits],
        }


def gather(run: RunView, step: str) -> Evidence:
    """Recompute the verdict on a step (its number) or on an epoch's slow update (`epoch-N`)."""
    judged = _find(run, step)
    name = f"step {step}" if step.isdigit() else step
    config = run.config()["evaluation"]
    is_gated = bool(config["use_gate"])
    weight = float(config["gate_mixed_weight"])
    at = run.events.index(judged)
    before = _state_before(run, at)
    incumbent = Document(before["skill"] if is_gated else before["best"]).rendered
    updated = next((event for event in run.events if isinstance(event, Updated) and event.place == judged.place), None)
    edits = updated.outcomes if updated is not None else ()
    closed = next((event for event in run.events if isinstance(event, StageClosed) and event.id == f"{judged.place}/selection"), None)
    if closed is None:
        return _without_rows(run, judged, name, updated, incumbent, edits)
    metric = cast(Metric, judged.metric)
    values = _known(run, at, metric, weight).get(incumbent)
    if values is None:
        raise UsageError(f"The log of {run.folder} does not hold the rows of the skill that {name} was compared with.")
    order = reading_order(values)
    bar = [values[row] for row in order]
    found = {(row.task, row.draw): row for row in closed.rows}
    candidate = [_value(row, metric, weight) for row in closed.rows]
    ruling, read = decide(run.config()["gate"]["policy"], bar, candidate)
    total = len(order)
    rows = _rows(order[:read], values, found, metric, weight, total) if set(order[: len(found)]) == set(found) else []
    upper = rows[-1].upper if rows else Fraction(total)
    same = [(row.task, row.draw) for row in closed.rows] == order[: len(closed.rows)] and (not is_gated or len(closed.rows) == read)
    return Evidence(
        name=name,
        judged=judged,
        recomputed=ruling or "open",
        reason=_reason(ruling, rows, total),
        bar=sum(bar, Fraction(0)),
        upper=upper,
        total=total,
        read=read,
        rows=rows,
        edits=edits,
        same_rows=same,
    )


def _find(run: RunView, step: str) -> Judged:
    verdicts = [event for event in run.events if isinstance(event, Judged)]
    if step.isdigit():
        pattern = re.compile(rf"e\d+/s{int(step)}(\.\d+)?")
    elif re.fullmatch(r"epoch-\d+", step):
        pattern = re.compile(rf"e{int(step[6:])}/end(\.\d+)?")
    else:
        raise UsageError(f"{step!r} names no verdict: give a step's number or 'epoch-N'.")
    found = [event for event in verdicts if pattern.fullmatch(event.place)]
    if not found:
        had = sorted({record["step"] for record in run.steps})
        steps = f"steps {had[0]} to {had[-1]}" if had else "no step"
        raise UsageError(f"{run.folder} holds no verdict on {step!r}; it has closed {steps}.")
    return found[-1]  # a step that was opened again has a later verdict


def _state_before(run: RunView, at: int) -> Mapping[str, Any]:
    states = [event.state for event in run.events[:at] if isinstance(event, Checkpoint)]
    return states[-1]


def _known(run: RunView, before: int, metric: Metric, weight: float) -> dict[str, dict[RowId, Fraction]]:
    """The rows of every skill that was measured in full before that place of the log, by the skill's rendered text."""
    known: dict[str, dict[RowId, Fraction]] = {}
    rows: Sequence[RowFact] = ()
    for event in run.events[:before]:
        if isinstance(event, StageClosed) and event.stage == "selection":
            rows = event.rows
        elif isinstance(event, Checkpoint):
            left_out = set(event.state["left_out"])
            values = {(row.task, row.draw): _value(row, metric, weight) for row in rows if row.task not in left_out}
            full = {row: each for row, each in values.items() if each is not None}
            whole = len(full) == len(values) and (not known or len(full) == len(next(iter(known.values()))))
            if rows and whole:
                known.setdefault(Document(event.state["skill"]).rendered, full)
            rows = ()
    return known


def _without_rows(
    run: RunView, judged: Judged, name: str, updated: Updated | None, incumbent: str, edits: Sequence[Mapping[str, Any]]
) -> Evidence:
    """Verdicts that needed no measurement: nothing changed, or the step's reflections were lost."""
    if updated is not None:
        same = Document(updated.skill).rendered == incumbent
        reason = "the candidate reads the same as the incumbent" if same else "the candidate differs, and no row of it is in the log"
        return Evidence(name=name, judged=judged, recomputed="unchanged" if same else "open", reason=reason, edits=edits)
    reflected = next((event for event in run.events if isinstance(event, Reflected) and event.place == judged.place), None)
    if reflected is None:
        return Evidence(name=name, judged=judged, recomputed=judged.action, reason="nothing was proposed")
    dropped = sum(patch.dropped is not None for patch in reflected.patches)
    lost = 2 * dropped > len(reflected.patches)
    reason = f"{dropped} of {len(reflected.patches)} reflections were unreadable, {'more' if lost else 'not more'} than half"
    return Evidence(name=name, judged=judged, recomputed="inconclusive" if lost else "open", reason=reason)


def _rows(
    order: Sequence[RowId], values: Mapping[RowId, Fraction], found: Mapping[RowId, RowFact], metric: Metric, weight: float, total: int
) -> list[JudgedRow]:
    upper = Fraction(total)
    rows = []
    for row in order:
        mine = _value(found[row], metric, weight)
        upper -= 1 - (1 if mine is None else mine)
        rows.append(JudgedRow(task=row[0], draw=row[1], incumbent=values[row], candidate=mine, invalid=found[row].invalid, upper=upper))
    return rows


def _value(row: RowFact, metric: Metric, weight: float) -> Fraction | None:
    if row.hard is None or row.soft is None:
        return None
    return value(Score(hard=row.hard, soft=row.soft), metric, weight)


def _reason(ruling: str | None, rows: Sequence[JudgedRow], total: int) -> str:
    if ruling == "reject":
        return f"U <= I after {len(rows)} of {total} rows"
    if ruling == "accept":
        return f"all {total} rows are there and their sum is above I"
    if ruling == "inconclusive":
        lost = [row.task for row in rows if row.candidate is None]
        return f"U > I, and {len(lost)} rows that could decide are invalid: {', '.join(lost)}"
    return "the rows in the log fix no verdict"


def _number(amount: Fraction | None) -> float | None:
    return None if amount is None else float(amount)
