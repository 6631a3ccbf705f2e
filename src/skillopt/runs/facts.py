"""The facts that a report shows, from the fold of the log and the files beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from skillopt.errors import UsageError
from skillopt.evaluation.significance import Significance, significance
from skillopt.gate.gate import SMALLEST_VERIFIED
from skillopt.money import Account
from skillopt.redact import looks_secret, without_password
from skillopt.runs.fold import Fold
from skillopt.runs.values import Facts
from skillopt.runs.versions import SkillVersion
from skillopt.runs.words import START_NAME, count, origin
from skillopt.skill.diff import unified
from skillopt.train.claim import TestReport, claim, report_of

HIDDEN = "[set]"


def mixed_weight(config: Mapping[str, Any] | None) -> float:
    """The weight of the soft score in a mixed one."""
    return float((config or {}).get("evaluation", {}).get("gate_mixed_weight", 0.5))


def facts_of(
    fold: Fold[Sequence[SkillVersion]],
    *,
    rendered: Callable[[str], str],
    config: Mapping[str, Any] | None = None,
    summary: Mapping[str, Any] | None = None,
    account: Account | None = None,
    status: str = "stopped",
    looks_by_eval: int = 0,
) -> Facts:
    """Everything a report says of what was folded so far. `rendered` looks up the text of a skill; `config`
    and `summary` are the run's files, where they are there.
    """
    started, state = fold.started, fold.result
    if started is None:
        raise UsageError(
            "The log does not begin a training run; there is nothing to report. A folder of 'skillopt eval'"
            " holds none."
        )
    versions = [version for kept in (*fold.kept, *fold.kept_of_handover) for version in kept]
    weight = mixed_weight(config)
    account, is_at_work = account or Account(), status == "running"
    test = last_look(fold, weight, summary)
    facts = Facts(
        benchmark=started.benchmark,
        target=started.target,
        optimizer=started.optimizer,
        simulated=started.simulated,
        status=status,
        planned=started.steps,
        counts=started.counts,
        weight=weight,
        versions=versions,
        tasks=list(dict.fromkeys(task for version in versions for task in version.rows)),
        test=test,
        looks=looks_by_eval + len(fold.looks),
        looks_by_eval=looks_by_eval,
        spending=account.by_role_and_stage(settled=is_at_work),
        spent=account.settled() if is_at_work else account.total(),
        config=_settings(config or {}),
        significance=significance_of(fold, *test.gain_and_p),
        claim="" if summary is None else str(summary.get("claim", "")),
    )
    if state is not None:
        seed, best = rendered(state.seed), rendered(state.best)
        facts = replace(
            facts,
            metric=state.metric,
            baseline=state.baseline_score,
            current=state.score,
            best=state.best_score,
            best_origin=_from(state.best_origin, is_seed=best == seed),
            seed_skill=seed,
            best_skill=best,
            best_diff=unified(seed, best, "seed", "best"),
        )
    # What a summary claims begins with what its log shows; one that was written over is not believed.
    shown = claim(
        replace(test, look=1), changed=facts.best_skill != facts.seed_skill, simulated=facts.simulated
    )
    if _is_current(facts, summary) and not facts.claim.startswith(shown):
        remarks = ["summary.json claimed something else than the log shows, and is not believed."]
        facts = replace(facts, claim=shown, remarks=remarks)
    return replace(facts, remarks=[*facts.remarks, *_remarks(facts, fold, config, summary)])


def significance_of(fold: Fold[Any], gain: float | None, p: float | None) -> Significance:
    """What a run proves so far; `gain` and `p` are of its last look at the test, if there was one."""
    state, looks = fold.result, fold.looks
    if state is None or (looks and looks[-1].skills["best"] != state.best):  # it went on since
        return significance(None, None)
    is_over = fold.state is not None and fold.state.finished
    return significance(gain, p, is_changed=state.best != state.seed, is_over=is_over)


def last_look(
    fold: Fold[Sequence[SkillVersion]], weight: float, summary: Mapping[str, Any] | None
) -> TestReport:
    """The last look at the test split, compared as the run itself compares it."""
    state = fold.state
    if not fold.looks:
        why = str((summary or {}).get("test", {}).get("why", ""))
        is_over = state is not None and state.finished
        waiting = "the log holds no look at it" if is_over else "it is opened at the end of the run"
        return TestReport(measured=False, why=why or waiting)
    return report_of(fold.looks[-1], "hard" if state is None else state.metric, weight)


def _remarks(
    facts: Facts,
    fold: Fold[Sequence[SkillVersion]],
    config: Mapping[str, Any] | None,
    summary: Mapping[str, Any] | None,
) -> Iterator[str]:
    gate_off = config is not None and config.get("evaluation", {}).get("use_gate") is False
    if gate_off or any(change.action == "force_accept" for change in facts.steps):
        yield "The gate was off: every candidate was taken without proof."
    elif any(change.action == "force_accept" for change in facts.changes):
        yield "Slow updates were taken without a gate and measured afterwards."
    left_out = () if fold.state is None else fold.state.left_out
    too_few = fold.state is not None and len(facts.tasks) - len(left_out) < SMALLEST_VERIFIED
    if too_few or any(one.judged is not None and not one.judged.verified for one in facts.changes):
        yield f"Unverified: fewer than {SMALLEST_VERIFIED} val tasks decided."
    if left_out:
        yield f"Left out of the gate, not measurable at baseline: {', '.join(left_out)}."
    if facts.test.comparison is None:
        yield f"Test was not measured: {facts.test.why}."
    elif facts.test.left_out:
        yield f"Left out of the test, not measurable: {', '.join(facts.test.left_out)}."
    is_told = f"This was look {facts.looks} at" in facts.claim and not facts.looks_by_eval
    if (facts.looks > 1 or facts.looks_by_eval) and not is_told:
        by_eval = f", {facts.looks_by_eval} of them outside this run" if facts.looks_by_eval else ""
        times = "time" if facts.looks == 1 else "times"
        yield f"The test split was looked at {facts.looks} {times}{by_eval}."
    if facts.status == "finished" and facts.best_origin == START_NAME and not facts.test.folds:
        yield "Nothing better than the skill it went on from was found; the change is that of the run before."
    yield from _about_the_end(facts, summary)
    if fold.under_way:
        yield f"Under way and not part of this report's steps: {fold.under_way}."
    if fold.taken_back:
        yield (
            "Taken back because the optimizer's replies could not be read, and opened again:"
            f" {fold.taken_back} of the steps."
        )
    if refused := facts.spent.states.get("refused", 0):
        yield f"Calls that a provider refused: {refused}."
    if unsettled := facts.spent.unsettled:
        reserved = count(facts.spent.as_reserved, "token")
        yield f"Calls without a usage report, charged at their most: {unsettled} ({reserved})."
    told = summary or {}
    if overruns := told.get("spending", {}).get("more_than_reserved"):
        yield f"Used more than was reserved: {'; '.join(overruns)}."
    if config is None:
        yield (
            "settings.json is missing: the configuration is not shown, and a mixed score is read with its"
            " default weight."
        )


def _is_current(facts: Facts, summary: Mapping[str, Any] | None) -> bool:
    """Whether a summary is of the last session."""
    told = None if summary is None else (summary.get("total_steps"), summary.get("test", {}).get("look", 0))
    return told == (len(facts.steps), facts.test.look)


def _about_the_end(facts: Facts, summary: Mapping[str, Any] | None) -> Iterator[str]:
    is_current = _is_current(facts, summary)
    if facts.claim and not is_current:
        yield "The claim was made by an earlier session; the run went on since."
    is_ended = is_current and summary is not None and summary.get("status") != "finished"
    if facts.status == "stopped" and is_ended:
        yield f"The budget ended training before its plan, after {len(facts.steps)} of {facts.planned} steps."
        if summary is not None and summary.get("ended_early"):
            yield str(summary["ended_early"])
    elif facts.status == "finished" and summary is not None and summary.get("stopped_because"):
        is_cut = len(facts.steps) < facts.planned
        who = "The last round" if facts.test.folds else "Training"
        ended = f"{who} stopped before its plan ended" if is_cut else "Nothing was left to try"
        yield f"{ended}: {summary['stopped_because']}."
    elif facts.status != "finished":
        yield f"The run is not finished: {len(facts.steps)} of {facts.planned} steps are closed."


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


def _from(name: str, *, is_seed: bool) -> str:
    """`step_0005` as what a best skill is from."""
    return ("from " if name[-1:].isdigit() else "") + origin(name, is_seed=is_seed)
