"""Folds the log of a run into the facts a report shows; pure, and content with a run that only just began."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

from skillopt.config.complain import looks_secret
from skillopt.config.roles import without_password
from skillopt.errors import UsageError
from skillopt.evaluate.compare import compare
from skillopt.evaluate.runner import MOST_LOST
from skillopt.events import (
    Checkpoint,
    EpochEnded,
    Event,
    Judged,
    Reflected,
    RowFact,
    RunStarted,
    StageClosed,
    TestMeasured,
    Updated,
)
from skillopt.gate.decision import Metric, value
from skillopt.gate.gate import SMALLEST_VERIFIED, STAGE
from skillopt.ledger import Entry
from skillopt.report.proposals import edit_fact, kept_half, study
from skillopt.report.spending import paid_by_role_and_stage
from skillopt.report.values import Cell, Change, Facts, Mark, Test, Version
from skillopt.skill.diff import unified
from skillopt.skill.document import Document
from skillopt.tasks.rollout import Score

HIDDEN = "[set]"
LONGEST_DETAIL = 400
"""Error texts are cut here; the log holds them in full."""


def fold(
    events: Sequence[Event],
    *,
    config: Mapping[str, Any] | None = None,
    summary: Mapping[str, Any] | None = None,
    entries: Iterable[Entry] = (),
    status: str = "stopped",
    looks_by_eval: int = 0,
) -> Facts:
    """Everything a report says of a run. `config` and `summary` are its files, where they are there; `entries` is its spending."""
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    if started is None:
        raise UsageError("The log does not begin a training run; there is nothing to report. A folder of 'skillopt eval' holds none.")
    weight = float((config or {}).get("evaluation", {}).get("gate_mixed_weight", 0.5))
    states = [event.state for event in events if isinstance(event, Checkpoint)]
    state = states[-1] if states else {}
    metric = cast(Metric, state.get("metric", "hard"))
    folder = _Folder(metric, weight)
    for event in events:
        folder.take(event)
    test = _test(events, metric, weight, state, summary)
    facts = Facts(
        benchmark=started.benchmark,
        target=started.target,
        optimizer=started.optimizer,
        simulated=started.simulated,
        status=status,
        planned=started.steps,
        counts=started.counts,
        metric=metric,
        changes=folder.changes,
        versions=folder.versions,
        tasks=list(dict.fromkeys(task for version in folder.versions for task in version.cells)),
        test=test,
        looks=looks_by_eval + sum(isinstance(event, TestMeasured) for event in events),
        looks_by_eval=looks_by_eval,
        paid=paid_by_role_and_stage(entries),
        config=_settings(config or {}),
        claim="" if summary is None else str(summary.get("claim", "")),
    )
    if state:
        seed, best = Document(state["seed"]).rendered, Document(state["best"]).rendered
        facts = replace(
            facts,
            baseline=state["baseline_score"],
            best=state["best_score"],
            best_origin=_origin(state["best_origin"]),
            seed_skill=seed,
            best_skill=best,
            best_diff=unified(seed, best, "seed", "best"),
        )
    return replace(facts, remarks=list(_remarks(facts, state, config, summary, folder)))


class _Folder:
    """Reads events in order; what a checkpoint closes becomes a change, what a reopened one takes back is gone."""

    def __init__(self, metric: Metric, weight: float) -> None:
        self._metric = metric
        self._weight = weight
        self._open: list[Event] = []
        self._state: Mapping[str, Any] = {}
        self._kept: list[tuple[Change | None, Version | None]] = []
        self.taken_back = 0

    @property
    def changes(self) -> list[Change]:
        return [change for change, _ in self._kept if change is not None]

    @property
    def versions(self) -> list[Version]:
        return [version for _, version in self._kept if version is not None]

    @property
    def under_way(self) -> str:
        """The place whose stages closed without a checkpoint yet."""
        return next((event.place for event in self._open if isinstance(event, StageClosed)), "")

    def take(self, event: Event) -> None:
        if not isinstance(event, Checkpoint):
            if event.id is not None:
                self._open.append(event)
            return
        if event.kind == "reopened":
            first = event.record["from_step"]
            before = len(self.changes)
            self._kept = [kept for kept in self._kept if kept[0] is None or kept[0].at < first]
            self.taken_back += before - len(self.changes)
        elif event.kind == "baseline":
            self._kept.append((None, self._version("seed", "the seed skill", "baseline")))
        elif event.kind in ("step", "epoch"):
            change = self._step(event) if event.kind == "step" else self._epoch(event)
            if change is not None:
                self._kept.append((change, self._version(change.short, change.name, change.action)))
        self._state = event.state
        self._open = []

    def _step(self, event: Checkpoint) -> Change:
        record = event.record
        judged = self._judged()
        rollouts = [row for one in self._open if isinstance(one, StageClosed) and one.stage == "rollout" for row in one.rows]
        scored = [worth for row in rollouts if (worth := worth_of(row, self._metric, self._weight)) is not None]
        updated = next((one for one in self._open if isinstance(one, Updated)), None)
        patches = [patch for one in self._open if isinstance(one, Reflected) for patch in one.patches]
        return Change(
            name=f"step {record['step']}",
            short=str(record["step"]),
            at=float(record["step"]),
            step=record["step"],
            epoch=record["epoch"],
            action=record["action"],
            why=record["why"],
            train=float(sum(scored, Fraction(0)) / len(scored)) if scored else None,
            train_rows=len(scored),
            limit=record.get("edit_budget"),
            edits=[edit_fact(one, kept_half(record)) for one in (updated.outcomes if updated is not None else ())],
            studies=[study(patch) for patch in patches],
            notes=[note for patch in patches for note in patch.notes],
            tried=self._tried(updated, event.state),
            halves=[(half["action"], half["why"], half["rows"]) for half in record.get("salvage", {}).get("halves", ())],
            **self._verdict(judged, event.state),
        )

    def _epoch(self, event: Checkpoint) -> Change | None:
        """The slow update of an epoch, where one was proposed."""
        ended = next((one for one in self._open if isinstance(one, EpochEnded)), None)
        if ended is None or "why" not in ended.slow_update:
            return None
        told, step = ended.slow_update, int(event.state["step"])
        return Change(
            name=f"slow update of epoch {ended.epoch}",
            short=f"E{ended.epoch}",
            at=step + 0.5,
            step=step,
            epoch=ended.epoch,
            action=told["action"],
            why=told["why"],
            text=told.get("slow_update_content", ""),
            **self._verdict(self._judged(), event.state),
        )

    def _tried(self, updated: Updated | None, after: Mapping[str, Any]) -> str:
        """What a rewrite that was not taken would have changed: its proposals do not say that."""
        before = Document(self._state["skill"]).rendered
        if updated is None or updated.rewrite is None or Document(after["skill"]).rendered != before:
            return ""
        return unified(before, Document(updated.skill).rendered, "before", "candidate")

    def _judged(self) -> Judged | None:
        """The verdict that counts: the first, or that of the half which was accepted after the whole was not."""
        verdicts = [one for one in self._open if isinstance(one, Judged)]
        return next((one for one in verdicts[1:] if one.action == "accept"), verdicts[0] if verdicts else None)

    def _verdict(self, judged: Judged | None, after: Mapping[str, Any]) -> dict[str, Any]:
        rows = [(one, row) for one in self._open if isinstance(one, StageClosed) for row in one.rows if row.invalid is not None]
        lost = [(f"{row.task} ({one.stage})", str(row.invalid), _cut(row.detail)) for one, row in rows]
        before, now = Document(self._state["skill"]).rendered, Document(after["skill"]).rendered
        return {
            "candidate": None if judged is None else judged.candidate,
            "bound": None if judged is None else judged.bound,
            "rows_used": 0 if judged is None else judged.rows_used,
            "rows_total": 0 if judged is None else judged.rows_total,
            "verified": judged is None or judged.verified,
            "score": after["score"],
            "invalid": lost,
            "diff": unified(before, now, "before", "after"),
        }

    def _version(self, short: str, name: str, action: str) -> Version | None:
        judged = self._judged()
        stages = [one for one in self._open if isinstance(one, StageClosed) and one.stage == STAGE]
        closed = next((one for one in stages if judged is None or one.place == judged.place), None)
        if closed is None:
            return None
        by_task: dict[str, list[RowFact]] = {}
        for row in closed.rows:
            by_task.setdefault(row.task, []).append(row)
        cells = {task: self._cell(rows) for task, rows in by_task.items()}
        return Version(short=short, name=name, action=action, cells=cells)

    def _cell(self, rows: Sequence[RowFact]) -> Cell:
        lost = [row for row in rows if row.invalid is not None]
        if lost:
            return Cell(mark="invalid", note="; ".join(f"{row.invalid}: {_cut(row.detail)}" for row in lost))
        values = [worth_of(row, self._metric, self._weight) or Fraction(0) for row in rows]
        mean = sum(values, Fraction(0)) / len(values)
        mark: Mark = "pass" if mean >= 1 else "fail" if mean <= 0 else "partial"
        failures = "; ".join(dict.fromkeys(row.failure for row in rows if row.failure))
        return Cell(mark=mark, note=failures or (f"{float(mean):.3f}" if mark == "partial" else ""))


def worth_of(row: RowFact, metric: Metric, weight: float) -> Fraction | None:
    """What a row is worth to the gate; None for a row that could not be measured."""
    if row.hard is None or row.soft is None:
        return None
    return value(Score(hard=row.hard, soft=row.soft), metric, weight)


def _test(events: Sequence[Event], metric: Metric, weight: float, state: Mapping[str, Any], summary: Mapping[str, Any] | None) -> Test:
    """The last look at the test split, compared as the run itself compares it."""
    looks = [event for event in events if isinstance(event, TestMeasured)]
    if not looks:
        why = str((summary or {}).get("test", {}).get("why", ""))
        waiting = "it is opened at the end of the run" if not state.get("finished") else "the log holds no look at it"
        return Test(why=why or waiting)
    last = looks[-1]
    lost = sorted({row.task for name in ("seed", "best") for row in last.rows[name] if row.invalid is not None})
    total = len(last.rows["seed"])
    if not total or Fraction(len(lost), total) > MOST_LOST:
        return Test(why=f"{len(lost)} of {total} test tasks could not be measured", look=last.look, left_out=lost)
    values = {
        name: {row.task: float(worth) for row in rows if row.task not in lost and (worth := worth_of(row, metric, weight)) is not None}
        for name, rows in last.rows.items()
    }
    final = values.get("final")
    return Test(
        look=last.look,
        metric=metric,
        comparison=compare(values["seed"], values["best"]),
        final=sum(final.values()) / len(final) if final else None,
        left_out=lost,
    )


def _remarks(
    facts: Facts, state: Mapping[str, Any], config: Mapping[str, Any] | None, summary: Mapping[str, Any] | None, folder: _Folder
) -> Iterator[str]:
    gate_off = config is not None and config.get("evaluation", {}).get("use_gate") is False
    if gate_off or any(change.action == "force_accept" for change in facts.steps):
        yield "The gate was off: every candidate was taken without proof."
    elif any(change.action == "force_accept" for change in facts.changes):
        yield "Slow updates were taken without a gate and measured afterwards."
    left_out = list(state.get("left_out", ()))
    too_few = bool(state) and len(facts.tasks) - len(left_out) < SMALLEST_VERIFIED
    if too_few or any(not change.verified for change in facts.changes):
        yield f"Unverified: fewer than {SMALLEST_VERIFIED} val tasks decided."
    if left_out:
        yield f"Left out of the gate, not measurable at baseline: {', '.join(left_out)}."
    if facts.test.comparison is None:
        yield f"Test was not measured: {facts.test.why}."
    elif facts.test.left_out:
        yield f"Left out of the test, not measurable: {', '.join(facts.test.left_out)}."
    if facts.looks > 1 or facts.looks_by_eval:
        by_eval = f", {facts.looks_by_eval} of them by 'skillopt eval'" if facts.looks_by_eval else ""
        yield f"The test split was looked at {facts.looks} {'time' if facts.looks == 1 else 'times'}{by_eval}."
    is_current = summary is not None and (summary.get("total_steps"), summary.get("test", {}).get("look", 0)) == (
        len(facts.steps),
        facts.test.look,
    )
    if facts.claim and not is_current:
        yield "The claim was made by an earlier session; the run went on since."
    if facts.status == "stopped" and is_current and summary is not None and summary.get("status") != "finished":
        yield f"The budget ended training before its plan, after {len(facts.steps)} of {facts.planned} steps."
    elif facts.status != "finished":
        yield f"The run is not finished: {len(facts.steps)} of {facts.planned} steps are closed."
    if folder.under_way:
        yield f"Under way and not part of this report's steps: {folder.under_way}."
    if folder.taken_back:
        yield f"Taken back because the optimizer's replies could not be read, and opened again: {folder.taken_back} of the steps."
    unsettled = sum(one.unsettled for one in facts.paid)
    if unsettled:
        yield f"Calls without a usage report, charged as reserved: {unsettled}."
    if config is None:
        yield "config.json is missing: the configuration is not shown, and a mixed score is read with its default weight."


def _settings(config: Mapping[str, Any], path: str = "") -> list[tuple[str, str]]:
    """Dotted keys and values; a credential is shown as set and no more."""
    found: list[tuple[str, str]] = []
    for key, item in config.items():
        name = f"{path}.{key}" if path else str(key)
        if item is not None and looks_secret(name):
            found.append((name, HIDDEN))
        elif isinstance(item, Mapping):
            found += _settings(item, name)
        elif isinstance(item, str):
            found.append((name, without_password(item) if "://" in item else item))
        else:
            found.append((name, json.dumps(item, ensure_ascii=False)))
    return found


def _origin(name: str) -> str:
    """`step_0005` in words."""
    if name == "initial_skill":
        return "the seed"
    where, _, number = name.rpartition("_")
    return f"from {where.replace('_', ' ')} {int(number)}" if number.isdigit() else name


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_DETAIL else f"{text[:LONGEST_DETAIL]} ..."
