"""Folds the log of a run into the facts a report shows; pure, and content with a run that only just began."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from skillopt.account import Account
from skillopt.errors import UsageError
from skillopt.evaluation.compare import by_task, compare_rows
from skillopt.events import Event, RowFact, TestMeasured
from skillopt.events.state import Metric, State
from skillopt.gate.gate import SMALLEST_VERIFIED
from skillopt.redact import looks_secret, without_password
from skillopt.runs.fold import Fold, worth_of
from skillopt.runs.values import Facts, Test
from skillopt.skill.diff import unified
from skillopt.skill.store import Skills

HIDDEN = "[set]"


def fold(
    events: Iterable[Event],
    skills: Skills,
    *,
    config: Mapping[str, Any] | None = None,
    summary: Mapping[str, Any] | None = None,
    account: Account | None = None,
    status: str = "stopped",
    looks_by_eval: int = 0,
) -> Facts:
    """Everything a report says of a run. `config` and `summary` are its files, where they are there."""
    folded = Fold(skills, mixed_weight(config))
    for event in events:
        folded.take(event)
    return facts_of(
        folded,
        config=config,
        summary=summary,
        account=account,
        status=status,
        looks_by_eval=looks_by_eval,
    )


def mixed_weight(config: Mapping[str, Any] | None) -> float:
    """The weight of the soft score in a mixed one."""
    return float((config or {}).get("evaluation", {}).get("gate_mixed_weight", 0.5))


def facts_of(
    folder: Fold,
    *,
    config: Mapping[str, Any] | None = None,
    summary: Mapping[str, Any] | None = None,
    account: Account | None = None,
    status: str = "stopped",
    looks_by_eval: int = 0,
) -> Facts:
    """Everything a report says of what was folded so far."""
    started, state, metric = folder.started, folder.state, folder.metric
    if started is None:
        raise UsageError(
            "The log does not begin a training run; there is nothing to report. A folder of 'skillopt eval'"
            " holds none."
        )
    versions = folder.versions
    account = account or Account()
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
        versions=versions,
        tasks=list(dict.fromkeys(task for version in versions for task in version.cells)),
        test=_test(folder.looks, metric, folder.weight, state, summary),
        looks=looks_by_eval + len(folder.looks),
        looks_by_eval=looks_by_eval,
        spending=account.by_role_and_stage(),
        spent=account.total(),
        config=_settings(config or {}),
        claim="" if summary is None else str(summary.get("claim", "")),
    )
    if state is not None:
        seed, best = folder.rendered(state.seed), folder.rendered(state.best)
        facts = replace(
            facts,
            baseline=state.baseline_score,
            best=state.best_score,
            best_origin=_origin(state.best_origin),
            seed_skill=seed,
            best_skill=best,
            best_diff=unified(seed, best, "seed", "best"),
        )
    return replace(facts, remarks=list(_remarks(facts, state, config, summary, folder)))


def _test(
    looks: Sequence[TestMeasured],
    metric: Metric,
    weight: float,
    state: State | None,
    summary: Mapping[str, Any] | None,
) -> Test:
    """The last look at the test split, compared as the run itself compares it."""
    if not looks:
        why = str((summary or {}).get("test", {}).get("why", ""))
        waiting = (
            "it is opened at the end of the run"
            if state is None or not state.finished
            else "the log holds no look at it"
        )
        return Test(why=why or waiting)
    last = looks[-1]

    def worth(row: RowFact) -> float | None:
        value = worth_of(row, metric, weight)
        return None if value is None else float(value)

    found = compare_rows(last.rows["seed"], last.rows["best"], worth, split="test")
    final = [
        value
        for task, value in by_task(last.rows.get("final", ()), worth).items()
        if task not in found.left_out and found.comparison is not None
    ]
    return Test(
        why=found.why,
        look=last.look,
        metric=metric,
        comparison=found.comparison,
        final=sum(final) / len(final) if final else None,
        left_out=found.left_out,
    )


def _remarks(
    facts: Facts,
    state: State | None,
    config: Mapping[str, Any] | None,
    summary: Mapping[str, Any] | None,
    folder: Fold,
) -> Iterator[str]:
    gate_off = config is not None and config.get("evaluation", {}).get("use_gate") is False
    if gate_off or any(change.action == "force_accept" for change in facts.steps):
        yield "The gate was off: every candidate was taken without proof."
    elif any(change.action == "force_accept" for change in facts.changes):
        yield "Slow updates were taken without a gate and measured afterwards."
    left_out = [] if state is None else list(state.left_out)
    too_few = state is not None and len(facts.tasks) - len(left_out) < SMALLEST_VERIFIED
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
        yield (
            f"The test split was looked at {facts.looks} {'time' if facts.looks == 1 else 'times'}{by_eval}."
        )
    is_current = summary is not None and (
        summary.get("total_steps"),
        summary.get("test", {}).get("look", 0),
    ) == (
        len(facts.steps),
        facts.test.look,
    )
    if facts.claim and not is_current:
        yield "The claim was made by an earlier session; the run went on since."
    if (
        facts.status == "stopped"
        and is_current
        and summary is not None
        and summary.get("status") != "finished"
    ):
        yield f"The budget ended training before its plan, after {len(facts.steps)} of {facts.planned} steps."
    elif facts.status != "finished":
        yield f"The run is not finished: {len(facts.steps)} of {facts.planned} steps are closed."
    if folder.under_way:
        yield f"Under way and not part of this report's steps: {folder.under_way}."
    if folder.taken_back:
        yield (
            "Taken back because the optimizer's replies could not be read, and opened again:"
            f" {folder.taken_back} of the steps."
        )
    if facts.spent.unsettled:
        yield f"Calls without a usage report, charged as reserved: {facts.spent.unsettled}."
    if config is None:
        yield (
            "config.json is missing: the configuration is not shown, and a mixed score is read with its"
            " default weight."
        )


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
