"""What the sealed test showed, the one claim it supports, and the public summary of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from skillopt.evaluation.compare import Comparison, by_task, compare_rows, row_means
from skillopt.evaluation.significance import significance
from skillopt.events import Row, TestMeasured
from skillopt.events.records import StepRecord
from skillopt.events.state import Metric, State
from skillopt.gate.decision import worth_of
from skillopt.gate.gate import Gate, SkillMeasurement
from skillopt.tasks.rollout import Means
from skillopt.tasks.triggers import LEAVE, LOAD

_UNSURE = " This difference can be chance; more tasks would tell."


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggering:
    """Figures of one description on queries; None where there is nothing to divide by."""

    recall: float | None
    """Of the queries that should load the skill: the share that did."""
    precision: float | None
    """Of the loads: the share that should have been."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestReport:
    """What the test showed, or why it shows nothing."""

    __test__ = False  # not a test class

    measured: bool
    why: str = ""
    look: int = 0
    metric: str = "hard"
    """The number that is compared: the one the gate decided on."""
    comparison: Comparison | None = None
    scores: Mapping[str, Means] = field(default_factory=dict)
    """Hard and soft of seed, best and (with the gate off) final, over the tasks that are compared."""
    final: float | None = None
    """Of the last skill on the number that is compared; None where it is the best one."""
    left_out: tuple[str, ...] = ()
    targets: Mapping[str, Comparison] = field(default_factory=dict)
    """The same comparison with each of several targets."""
    folds: int = 0
    """Where tasks were cross-fitted, in how many parts; 0 is a sealed test split."""
    draws: int = 1
    """Of how many draws of a cross-fitted task the one in the middle counts."""
    triggering: Mapping[str, Triggering] = field(default_factory=dict)
    """Recall and precision of the same skills, where a description was trained."""

    @property
    def gain_and_p(self) -> tuple[float | None, float | None]:
        """Of the comparison; None where there is none."""
        return (None, None) if self.comparison is None else (self.comparison.delta, self.comparison.p)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingEnd:
    """What training ended with. Where it ended before its plan did, `stopped` says why no further step would
    have helped, and `ended_early` that the budget was spent.
    """

    state: State
    report: TestReport
    stopped: str = ""
    ended_early: str = ""


def triggering(rows: Iterable[Row]) -> Triggering | None:
    """Recall and precision of loading the skill; None unless every row is a query of that kind.

    A reply without a choice is a miss if the skill was wanted, and no load if it was not.
    """
    measured = [row for row in rows if row.hard is not None]
    wanted = [row for row in measured if row.task.startswith(f"{LOAD}-")]
    unwanted = [row for row in measured if row.task.startswith(f"{LEAVE}-")]
    if not measured or len(wanted) + len(unwanted) < len(measured):
        return None
    hits = sum(row.hard == 1.0 for row in wanted)
    strays = sum(row.hard == 0.0 and row.failure is None for row in unwanted)
    return Triggering(
        recall=hits / len(wanted) if wanted else None,
        precision=hits / (hits + strays) if hits + strays else None,
    )


def report_of(measured: TestMeasured, metric: Metric, weight: float) -> TestReport:
    """Figures of the tasks that seed and best were both measured on; the rest is left out by name."""

    def worth(row: Row) -> float | None:
        exact = worth_of(row, metric, weight)
        return None if exact is None else float(exact)

    folds = measured.folds
    found = compare_rows(
        measured.rows["seed"],
        measured.rows["best"],
        worth,
        split="cross-fitted" if folds else "test",
        one_sided=bool(folds),
    )
    if found.comparison is None:
        why, lost = found.why, found.left_out
        return TestReport(measured=False, why=why, look=measured.look, left_out=lost, folds=folds)
    kept = {
        name: [row for row in rows if row.task not in found.left_out] for name, rows in measured.rows.items()
    }
    final = by_task(kept.get("final", ()), worth).values()
    return TestReport(
        measured=True,
        look=measured.look,
        metric=metric,
        comparison=found.comparison,
        scores={name: row_means(rows) for name, rows in kept.items()},
        final=sum(final) / len(final) if final else None,
        left_out=found.left_out,
        targets=_by_target(kept, worth),
        folds=folds,
        draws=measured.draws,
        triggering={name: one for name, rows in kept.items() if (one := triggering(rows)) is not None},
    )


def _by_target(
    kept: Mapping[str, Sequence[Row]], worth: Callable[[Row], float | None]
) -> dict[str, Comparison]:
    comparisons = {}
    for name in dict.fromkeys(row.target for row in kept["seed"] if row.target is not None):
        seed, best = ([row for row in kept[arm] if row.target == name] for arm in ("seed", "best"))
        comparisons[name] = compare_rows(seed, best, worth, split="test").comparison
    return {name: comparison for name, comparison in comparisons.items() if comparison is not None}


def claim(
    report: TestReport, *, changed: bool, simulated: bool, verified: bool = True, ungated: str = ""
) -> str:
    """What the test showed and no more; `ungated` is the sentence on changes that passed no gate."""
    if not report.measured or report.comparison is None:
        sentence = f"Test was not measured: {report.why}."
    elif report.folds:
        sentence = _pooled(report, report.comparison, changed=changed)
    elif not changed:
        sentence = (
            f"No better skill was found: the best skill is the seed, {report.comparison.before:.3f} on"
            f" {report.comparison.n} test tasks."
        )
    else:
        c = report.comparison
        what = "" if report.metric == "hard" else f" ({report.metric} score)"
        sure = _UNSURE if c.delta and c.direction == "cannot tell" else ""
        found = _found("is", c)
        sentence = f"The trained skill {found} the seed on {c.n} sealed test tasks{what}: {c.sentence}{sure}"
    if report.targets:
        by_target = (f"{name} {one.before:.3f} to {one.after:.3f}" for name, one in report.targets.items())
        sentence += f" By target: {'; '.join(by_target)}."
    if report.triggering:
        sentence += f" {format_triggering(report.triggering['seed'], report.triggering['best'])}"
    if ungated:
        sentence += f" {ungated}"
    if not verified:
        sentence += " Fewer than 5 val tasks decided along the way: unverified."
    if report.look > 1:
        sentence += f" This was look {report.look} at the test split."
    return ("Simulated: " if simulated else "") + sentence


def _pooled(report: TestReport, c: Comparison, *, changed: bool) -> str:
    """The claim of cross-fitting: about skills that are trained this way, not about one text."""
    draws = f", by the middle one of {report.draws} scores" if report.draws > 1 else ""
    how = f"{report.folds} folds, each task judged by a skill that never saw it{draws}"
    what = "" if report.metric == "hard" else f" ({report.metric} score)"
    sure = _UNSURE if c.significance == "could be chance" else ""
    text = "the skill handed over is one of them, trained on all tasks"
    if not changed:
        text = "the one trained on all tasks is the seed, as nothing better was found"
    return (
        f"Skills trained this way {_found('are', c)} the seed on {c.n} cross-fitted tasks{what} ({how}):"
        f" {c.sentence}{sure} The claim is about skills trained this way; {text}."
    )


def _found(verb: str, c: Comparison) -> str:
    """What the figures say: who is better only where that is more than chance."""
    if c.delta == 0:
        return f"{verb} as good as"
    if c.direction != "cannot tell":
        return f"{verb} {c.direction} than"
    return f"scored {'higher' if c.delta > 0 else 'lower'} than"


def format_triggering(seed: Triggering, best: Triggering) -> str:
    """Recall and precision before and after, in words."""
    figures = [
        " to ".join("none" if figure is None else f"{figure:.3f}" for figure in pair)
        for pair in ((seed.recall, best.recall), (seed.precision, best.precision))
    ]
    return f"Recall {figures[0]}, precision {figures[1]}."


def epoch_stats(history: Sequence[StepRecord]) -> list[dict[str, Any]]:
    """Accepts, rejects and skips per epoch."""
    stats: dict[int, dict[str, Any]] = {}
    for record in history:
        row = stats.setdefault(
            record.epoch, {"epoch": record.epoch, "steps": 0, "accepts": 0, "rejects": 0, "skips": 0}
        )
        row["steps"] += 1
        row[_group(record.action)] += 1
        row["best_score_at_epoch_end"] = record.best_score
        row["current_score_at_epoch_end"] = record.current_score
    return list(stats.values())


def summary(
    end: TrainingEnd,
    history: Sequence[StepRecord],
    *,
    about: Mapping[str, Any],
    measured: Mapping[str, SkillMeasurement | None],
    gate: Gate,
    ungated: str,
    spending: Mapping[str, Any],
    seconds: float,
) -> dict[str, Any]:
    """`summary.json`. `about` says what is known of the run as a whole. Scores that were not measured are
    null: `final` is the current skill, where it was measured in full.
    """
    state, groups = end.state, Counter(_group(record.action) for record in history)
    nothing = Means(hard=None, soft=None, n=0)
    ended = {"is_changed": state.best != state.seed, "is_over": not end.ended_early}
    test = {name: end.report.scores.get(name, nothing) for name in ("seed", "best", "final")}
    val = {name: nothing if one is None else one for name, one in measured.items()}
    return {
        "version": 1,
        **about,
        "significance": significance(*end.report.gain_and_p, **ended),
        "verified": gate.verified,
        "gate": ungated or "Every change passed the gate.",
        "gate_metric": gate.metric,
        "baseline_selection_hard": val["seed"].hard,
        "baseline_selection_soft": val["seed"].soft,
        "baseline_gate_score": state.baseline_score,
        "best_selection_hard": val["best"].hard,
        "best_selection_soft": val["best"].soft,
        "best_gate_score": state.best_score,
        "final_selection_hard": val["final"].hard,
        "final_selection_soft": val["final"].soft,
        "best_step": state.best_step,
        "current_origin": state.origin,
        "best_origin": state.best_origin,
        "val_tasks_left_out": list(state.left_out),
        "total_steps": len(history),
        "total_accepts": groups["accepts"],
        "total_rejects": groups["rejects"],
        "total_skips": groups["skips"],
        "epoch_stats": epoch_stats(history),
        "baseline_test_hard": test["seed"].hard,
        "baseline_test_soft": test["seed"].soft,
        "test_hard": test["best"].hard,
        "test_soft": test["best"].soft,
        "final_test_hard": test["final"].hard,
        "final_test_soft": test["final"].soft,
        "test_delta_hard": _difference(test["seed"].hard, test["best"].hard),
        "final_test_delta_hard": _difference(test["seed"].hard, test["final"].hard),
        "test": asdict(end.report),
        "spending": dict(spending),
        "token_summary": dict(spending["stages"]),
        "total_wall_time_s": round(seconds, 3),
    }


def _group(action: str) -> str:
    if action in ("accept", "accept_new_best", "force_accept"):
        return "accepts"
    return "rejects" if action == "reject" else "skips"


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
