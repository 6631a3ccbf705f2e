"""A run as its files tell it at one moment: its events, and what follows from them. Page, report, list and
comparison are functions of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from skillopt.errors import UsageError
from skillopt.evaluation.significance import Significance, significance
from skillopt.events import RunStarted, TestMeasured
from skillopt.events.records import StepRecord
from skillopt.events.state import Metric, State
from skillopt.gate.gate import SMALLEST_VERIFIED
from skillopt.messages import Role
from skillopt.money import Account, Total
from skillopt.redact import looks_secret, without_password
from skillopt.runs.fold import Fold
from skillopt.runs.versions import SkillVersion
from skillopt.runs.words import START_NAME, count, origin
from skillopt.skill.diff import unified
from skillopt.skill.store import Skills
from skillopt.train.claim import TestReport, claim, report_of

HIDDEN = "[set]"
RunState = Literal["waiting", "running", "stopped", "finished"]


def mixed_weight(config: Mapping[str, Any] | None) -> float:
    """The weight of the soft score in a mixed one."""
    return float((config or {}).get("evaluation", {}).get("gate_mixed_weight", 0.5))


def report_of_last(tests: Sequence[TestMeasured], state: State | None, weight: float) -> TestReport | None:
    """The last opening of the test split, compared as the run itself compares it; None before the first."""
    return report_of(tests[-1], "hard" if state is None else state.metric, weight) if tests else None


@dataclass(frozen=True, kw_only=True)
class RunView:
    """A run as far as it was decided. A list of runs leaves `versions` out."""

    started: RunStarted
    state: State | None
    """At the last checkpoint, with what an open step handed over since as its best skill."""
    skills: Skills = field(compare=False)
    versions: Sequence[SkillVersion] = ()
    """The seed, then every attempt to change it, in order."""
    records: Sequence[StepRecord] = ()
    """Of the closed steps."""
    tests: Sequence[TestMeasured] = ()
    report: TestReport | None = None
    """Of the last of `tests`."""
    under_way: str = ""
    """The place whose stages closed without a checkpoint yet."""
    taken_back: int = 0
    """Steps that were opened again."""
    folder: Path = field(default=Path(), compare=False)
    status: RunState = "stopped"
    config: Mapping[str, Any] | None = None
    summary: Mapping[str, Any] | None = None
    """What the run wrote when it ended; a claim of it that the log does not show is not believed."""
    evaluations: int = 0
    """How often `eval` opened the test split, as noted in the folder."""
    spending: Mapping[tuple[Role, str], Total] = field(default_factory=dict)
    """What was spent, by role and stage; `spent` is all of it. Calls in flight are not in it, those that a
    process left when it died are.
    """
    spent: Total = field(default_factory=lambda: Account().total())
    in_flight: int = 0
    tokens_reserved: int = 0
    """Set aside for the calls in flight, beside what was spent."""
    changed: float = field(default=0.0, compare=False)
    """When the log last grew, seconds since 1970."""

    @classmethod
    def of(cls, fold: Fold[Any], skills: Skills, *, account: Account | None = None, **beside: Any) -> RunView:
        """The view of what was folded so far; `beside` are the fields that the log does not tell."""
        if fold.started is None:
            raise UsageError(
                "The log does not begin a training run; there is nothing to report. A folder of 'skillopt"
                " eval' holds none."
            )
        account, is_at_work = account or Account(), beside.get("status") == "running"
        weight = mixed_weight(beside.get("config"))
        beside.setdefault("report", report_of_last(fold.tests, fold.state, weight))
        return cls(
            started=fold.started,
            state=fold.result,
            skills=skills,
            versions=[version for kept in (*fold.kept, *fold.kept_of_handover) for version in kept],
            records=fold.records,
            tests=list(fold.tests),
            under_way=fold.under_way,
            taken_back=fold.taken_back,
            spending=account.by_role_and_stage(settled=is_at_work),
            spent=account.settled() if is_at_work else account.total(),
            **beside,
        )

    @property
    def changes(self) -> Sequence[SkillVersion]:
        """The attempts to change the skill."""
        return self.versions[1:]

    @property
    def steps(self) -> list[SkillVersion]:
        """The closed steps alone."""
        return [version for version in self.versions if version.record is not None]

    @property
    def measured(self) -> list[SkillVersion]:
        """The versions that val tasks were run with."""
        return [version for version in self.versions if version.rows]

    @cached_property
    def tasks(self) -> Sequence[str]:
        """The val tasks in planned order."""
        return list(dict.fromkeys(task for version in self.versions for task in version.rows))

    def base_of(self, version: SkillVersion) -> SkillVersion:
        """The version that another was made from: the last taken one before it; of the seed itself."""
        before = self.measured[: self.measured.index(version)]
        return next((earlier for earlier in reversed(before) if earlier.is_taken), version)

    def is_best(self, version: SkillVersion) -> bool:
        """Whether a version is the best skill."""
        return version.is_taken and version.text == self.best_skill

    @property
    def metric(self) -> Metric:
        """The number that the gate reads."""
        return "hard" if self.state is None else self.state.metric

    @property
    def baseline(self) -> float | None:
        """The seed's val score."""
        return None if self.state is None else self.state.baseline_score

    @property
    def best(self) -> float | None:
        """The best skill's val score."""
        return None if self.state is None else self.state.best_score

    @cached_property
    def seed_skill(self) -> str:
        """The seed as the target gets it."""
        return "" if self.state is None else self.skills.get(self.state.seed).rendered

    @cached_property
    def best_skill(self) -> str:
        """The best skill as the target gets it."""
        return "" if self.state is None else self.skills.get(self.state.best).rendered

    @cached_property
    def best_diff(self) -> str:
        """What training changed."""
        return unified(self.seed_skill, self.best_skill, "seed", "best")

    @property
    def best_origin(self) -> str:
        """What the best skill is from, as a phrase; empty before the baseline."""
        if self.state is None:
            return ""
        name = self.state.best_origin
        is_seed = self.best_skill == self.seed_skill
        return ("from " if name[-1:].isdigit() else "") + origin(name, is_seed=is_seed)

    @property
    def test(self) -> TestReport:
        """What the last opening of the test split showed, or why there was none."""
        if self.report is not None:
            return self.report
        is_over = self.state is not None and self.state.finished
        waiting = "the log holds no look at it" if is_over else "it is opened at the end of the run"
        why = str((self.summary or {}).get("test", {}).get("why", ""))
        return TestReport(measured=False, why=why or waiting)

    @property
    def test_count(self) -> int:
        """How often the test split was opened, by the run and by `eval`."""
        return self.evaluations + len(self.tests)

    @property
    def significance(self) -> Significance:
        """What the test shows of the best skill."""
        state = self.state
        if state is None or (self.tests and self.tests[-1].skills["best"] != state.best):  # it went on since
            return significance(None, None)
        gain, p = self.test.gain_and_p
        return significance(gain, p, is_changed=state.best != state.seed, is_over=state.finished)

    @cached_property
    def settings(self) -> Sequence[tuple[str, str]]:
        """Dotted keys and values; a credential is shown as set and no more."""
        return _settings(self.config or {})

    @cached_property
    def claim(self) -> str:
        """What the run claims: what its summary says where that begins with what its log shows, else the
        latter.
        """
        claimed = "" if self.summary is None else str(self.summary.get("claim", ""))
        return self._shown_claim if self.is_summary_current and not self._is_believed else claimed

    @cached_property
    def _shown_claim(self) -> str:
        is_changed = self.best_skill != self.seed_skill
        return claim(replace(self.test, look=1), changed=is_changed, simulated=self.started.simulated)

    @property
    def _is_believed(self) -> bool:
        return str((self.summary or {}).get("claim", "")).startswith(self._shown_claim)

    @property
    def is_summary_current(self) -> bool:
        """Whether the summary is of the last session."""
        if self.summary is None:
            return False
        written = (self.summary.get("total_steps"), self.summary.get("test", {}).get("look", 0))
        return written == (len(self.records), self.test.look)

    @cached_property
    def remarks(self) -> Sequence[str]:
        """What a reader must know before he believes the figures."""
        return list(self._remarks())

    def _remarks(self) -> Iterator[str]:
        if self.is_summary_current and not self._is_believed:
            yield "summary.json claimed something else than the log shows, and is not believed."
        yield from self._about_the_gate()
        if self.test.comparison is None:
            yield f"Test was not measured: {self.test.why}."
        elif self.test.left_out:
            yield f"Left out of the test, not measurable: {', '.join(self.test.left_out)}."
        is_claimed = f"This was look {self.test_count} at" in self.claim and not self.evaluations
        if (self.test_count > 1 or self.evaluations) and not is_claimed:
            by_eval = f", {self.evaluations} of them outside this run" if self.evaluations else ""
            times = "time" if self.test_count == 1 else "times"
            yield f"The test split was looked at {self.test_count} {times}{by_eval}."
        if self.status == "finished" and self.best_origin == START_NAME and not self.test.folds:
            yield (
                "Nothing better than the skill it went on from was found; the change is that of the run"
                " before."
            )
        yield from self._about_the_end()
        yield from self._about_calls()
        if self.config is None:
            yield (
                "settings.json is missing: the configuration is not shown, and a mixed score is read with its"
                " default weight."
            )

    def _about_the_gate(self) -> Iterator[str]:
        gate_off = self.config is not None and self.config.get("evaluation", {}).get("use_gate") is False
        if gate_off or any(step.action == "force_accept" for step in self.steps):
            yield "The gate was off: every candidate was taken without proof."
        elif any(change.action == "force_accept" for change in self.changes):
            yield "Slow updates were taken without a gate and measured afterwards."
        left_out = () if self.state is None else self.state.left_out
        too_few = self.state is not None and len(self.tasks) - len(left_out) < SMALLEST_VERIFIED
        if too_few or any(one.judged is not None and not one.judged.verified for one in self.changes):
            yield f"Unverified: fewer than {SMALLEST_VERIFIED} val tasks decided."
        if left_out:
            yield f"Left out of the gate, not measurable at baseline: {', '.join(left_out)}."

    def _about_the_end(self) -> Iterator[str]:
        summary, closed, planned = self.summary or {}, len(self.records), self.started.steps
        if self.claim and not self.is_summary_current:
            yield "The claim was made by an earlier session; the run went on since."
        is_ended = self.is_summary_current and summary.get("status") != "finished"
        if self.status == "stopped" and is_ended:
            yield f"The budget ended training before its plan, after {closed} of {planned} steps."
            if summary.get("ended_early"):
                yield str(summary["ended_early"])
        elif self.status == "finished" and summary.get("stopped_because"):
            who = "The last round" if self.test.folds else "Training"
            ended = f"{who} stopped before its plan ended" if closed < planned else "Nothing was left to try"
            yield f"{ended}: {summary['stopped_because']}."
        elif self.status != "finished":
            yield f"The run is not finished: {closed} of {planned} steps are closed."
        if self.under_way:
            yield f"Under way and not part of this report's steps: {self.under_way}."
        if self.taken_back:
            yield (
                "Taken back because the optimizer's replies could not be read, and opened again:"
                f" {self.taken_back} of the steps."
            )

    def _about_calls(self) -> Iterator[str]:
        if refused := self.spent.states.get("refused", 0):
            yield f"Calls that a provider refused: {refused}."
        if unsettled := self.spent.unsettled:
            reserved = count(self.spent.as_reserved, "token")
            yield f"Calls without a usage report, charged at their most: {unsettled} ({reserved})."
        if overruns := (self.summary or {}).get("spending", {}).get("more_than_reserved"):
            yield f"Used more than was reserved: {'; '.join(overruns)}."


def _settings(config: Mapping[str, Any], path: str = "") -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for key, item in config.items():
        name = f"{path}.{key}" if path else str(key)
        if item is not None and looks_secret(name):
            pairs.append((name, HIDDEN))
        elif isinstance(item, Mapping):
            pairs += _settings(item, name)
        elif isinstance(item, str):
            pairs.append((name, without_password(item) if "://" in item else item))
        else:
            pairs.append((name, json.dumps(item, ensure_ascii=False)))
    return pairs
