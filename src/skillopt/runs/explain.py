"""A verdict of the log explained: the policy reads its stored rows again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

from skillopt.config.schema import EvaluationConfig, GateConfig
from skillopt.errors import UsageError
from skillopt.events import Judged, Row, StageClosed, Updated
from skillopt.events.place import Place
from skillopt.events.records import CandidateRecord, StepRecord
from skillopt.events.state import Metric
from skillopt.gate.constraints import Constraints, Effort, GateRuling, too_long
from skillopt.gate.decision import Case, PolicyReader, RowId, worth_of, worths_of
from skillopt.gate.gate import STAGE
from skillopt.gate.policies import decide
from skillopt.runs.answers import measured_rows
from skillopt.runs.fold import LogSection
from skillopt.runs.log import DATABASE, EVENTS, read_sections
from skillopt.runs.reader import RunReader
from skillopt.runs.tail import asked_twice
from skillopt.runs.versions import judged_skill
from skillopt.skill.document import Document
from skillopt.skill.edits import Outcome

VERDICT = re.compile(r"(?P<step>\d+)(?:/c(?P<candidate>\d+))?|epoch-(?P<epoch>\d+)")
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredVerdict:
    """A verdict, and the log up to the end of the section it stands in."""

    judged: Judged
    sections: Sequence[LogSection]

    @property
    def section(self) -> LogSection:
        """What was decided together with it."""
        return self.sections[-1]

    @property
    def name(self) -> str:
        """What it is called, so that a person can give it back to `explain`."""
        return _name_of(self.judged.place, with_candidate=bool(self._beside))

    @property
    def others(self) -> Sequence[str]:
        """Verdicts of the same step beside this one, where it tried several candidates."""
        return [f"{_name_of(one.place, with_candidate=True)}: {one.action}" for one in self._beside]

    @cached_property
    def _beside(self) -> list[Judged]:
        root = self.judged.place.root
        judged = self.section.of(Judged)
        return [one for one in judged if one is not self.judged and one.place.root == root]

    @property
    def candidates(self) -> Sequence[CandidateRecord]:
        """What the step tried; nothing until it is closed."""
        record = None if self.section.closed_by is None else self.section.closed_by.record
        return record.candidates if isinstance(record, StepRecord) else ()

    @property
    def edits(self) -> Sequence[Outcome]:
        """The edits it is about and how they ended; the step's record says which are whose."""
        outcomes = [outcome for event in self.section.of(Updated) for outcome in event.outcomes]
        place = self.judged.place
        if not place.candidate or not self.candidates:
            return outcomes
        ids = set(self.candidates[place.candidate].edits)
        return [outcome for outcome in outcomes if outcome.id in ids]


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

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "task": self.row.task,
            "draw": self.row.draw,
            "incumbent": float(self.incumbent),
            "candidate": None if self.candidate is None else float(self.candidate),
            "invalid": self.row.invalid,
            "upper": float(self.upper),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What the policy rules when it reads the stored rows of a verdict again. Without rows there is nothing
    to replay: then `action`, `reason` and `decided_by` are those of the log.
    """

    verdict: StoredVerdict
    policy: str
    incumbent: str
    """Digest of the skill that it was compared with, as the target got it."""
    hedged: int
    """Calls behind the candidate and its rows that were asked twice."""
    action: str
    reason: str
    decided_by: str
    agrees: bool
    """Whether the verdict of the log, its scores and its bound follow from its rows."""
    reader: PolicyReader | None = None
    rows: Sequence[ReplayedRow] = ()
    read: int = 0
    """How many of the rows the policy read."""

    @property
    def judged(self) -> Judged:
        """The verdict as the log has it."""
        return self.verdict.judged

    @property
    def is_measured(self) -> bool:
        """Whether the log holds rows of it, or says that it should."""
        return self.reader is not None or self.judged.rows_used > 0

    def as_json(self) -> dict[str, Any]:
        """The same for programs; sums as exact fractions and as numbers."""
        return {
            "name": self.verdict.name,
            "place": str(self.judged.place),
            "recorded": self.judged.action,
            "recorded_why": self.judged.why,
            "recomputed": self.action,
            "reason": self.reason,
            "policy": self.policy,
            "decided_by": self.decided_by,
            "agrees": self.agrees,
            "others": self.verdict.others,
            "metric": self.judged.metric,
            "incumbent_sum": str(self.reader.bar if self.reader else 0),
            "upper_sum": str(self.reader.upper if self.reader else 0),
            "rows_total": self.reader.total if self.reader else 0,
            "rows_read": self.read,
            "hedged": self.hedged,
            "rows": [row.as_json() for row in self.rows],
            "edits": [edit.as_json() for edit in self.verdict.edits],
        }


def find(run: RunReader, step: str) -> StoredVerdict:
    """The verdict on a step (its number) or on an epoch's slow update (`epoch-N`).

    Of several candidates the number means the accepted one, else the first; `N/c0`, `N/c1` name each.
    """
    named = VERDICT.fullmatch(step)
    if named is None:
        raise UsageError(
            f"{step!r} names no verdict: give a step's number or 'epoch-N' (with several candidates: 'N/c0',"
            " 'N/c1', ...)."
        )
    scope = ("step", int(named["step"])) if named["step"] else ("end", int(named["epoch"]))
    fold = read_sections(run.folder)
    sections, others = [*fold.kept, fold.open_section], list[str]()
    for at, section in enumerate(sections):
        verdicts = [one for one in section.of(Judged) if scope == _scope_of(one.place)]
        found = [one for one in verdicts if one.place.candidate == int(named["candidate"] or 0)]
        if not named["candidate"]:
            found = [one for one in verdicts if one.action == "accept"][-1:] or found
        if found and not run.config:
            raise UsageError(
                f"{run.folder / 'settings.json'} is missing; it says how scores were weighed. Run the same"
                " training command again to write it."
            )
        if found:
            return StoredVerdict(judged=found[0], sections=sections[: at + 1])
        others += [f"{step.partition('/')[0]}/c{one.place.candidate}" for one in verdicts]
    had = sorted(record.step for record in run.fold.records)
    steps = f"it has closed steps {had[0]} to {had[-1]}" if had else "it has closed no step"
    if parts := sorted(one.parent for one in run.folder.glob(f"rounds/*/{EVENTS}")):
        steps += f"; its rounds are runs too, such as {parts[0]}"
    there = f"that step has {', '.join(others)}" if others else steps
    raise UsageError(f"{run.folder} holds no verdict on {step!r}; {there}.")


def _scope_of(place: Place) -> tuple[str, int]:
    return (place.scope, place.step if place.scope == "step" else place.epoch)


def _name_of(place: Place, *, with_candidate: bool) -> str:
    if place.scope == "end":
        return f"epoch-{place.epoch}"
    return f"step {place.step}" + (f"/c{place.candidate}" if with_candidate else "")


def replay(run: RunReader, verdict: StoredVerdict) -> Replay:
    """Let the policy read the stored rows of a verdict again."""
    judged, section, before = verdict.judged, verdict.section, verdict.section.before
    assert before is not None, "a verdict comes after the baseline"
    is_gated = bool(run.config["evaluation"]["use_gate"])
    policy = _policy(run.config, judged) if is_gated else "strict"
    over = [one.skill for one in section.of(Updated) if judged.over and one.digest == judged.over]
    incumbent = run.skills.get(over[0] if over else before.skill if is_gated else before.best)
    closed = (one for one in section.of(StageClosed) if one.stage == STAGE and one.place == judged.place)
    stage = next(closed, None)
    behind = [f"{judged.place.root}/"]
    behind += [f"rollout/{row.rollout}." for row in (stage.rows if stage else ()) if row.rollout]
    hedged = sum(place.startswith(tuple(behind)) for place in asked_twice(run.folder / DATABASE))
    about: dict[str, Any] = {
        "verdict": verdict,
        "policy": policy,
        "incumbent": incumbent.digest,
        "hedged": hedged,
    }
    if stage is None:  # nothing changed, the candidate was refused, or no reflection could be read
        return Replay(
            **about,
            action=judged.action,
            reason=judged.why,
            decided_by=judged.decided_by,
            agrees=not judged.rows_used,
        )
    candidate = judged_skill(section, judged.place, run.skills)
    if candidate is None:
        raise UsageError(
            f"{verdict.name} of {run.folder} is not closed yet: run the same training command again, then"
            " explain it."
        )
    measured = measured_rows(verdict.sections, run.skills)
    known = [row for split, skill, row in measured if (split, skill) == ("val", incumbent.digest)]
    known = [row for row in known if row.task not in before.left_out]
    if not known:
        raise UsageError(
            f"The log of {run.folder} does not hold the rows of the skill that {verdict.name} was compared"
            " with."
        )
    seed_chars = len(run.skills.get(before.seed).rendered)
    found = _ruled(judged, policy, run.config, seed_chars, known, stage.rows, incumbent, candidate)
    return Replay(**about, **found)


def _policy(config: Mapping[str, Any], judged: Judged) -> str:
    """The policy that had to decide: the configured one. Only `proof` may ask for `paired` instead of
    `strict`, and for no more than `strict` where a candidate replaces one that the step accepted.
    """
    configured, is_proof = str(config["gate"]["policy"]), config["train"].get("strategy") == "proof"
    if is_proof and judged.over:
        return "strict"
    return "paired" if is_proof and configured == "strict" and judged.policy == "paired" else configured


def _ruled(
    judged: Judged,
    policy: str,
    config: Mapping[str, Any],
    seed_chars: int,
    known: Sequence[Row],
    rows: Sequence[Row],
    incumbent: Document,
    candidate: Document,
) -> dict[str, Any]:
    """The gate's own arithmetic on the rows of incumbent (`known`) and candidate."""
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
    why = _reason(reader, shown)
    ruled = GateRuling(ruling=reader.ruling or "inconclusive", why=why, by=reader.decided_by)
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
    return {
        "action": action,
        "reason": ruled.why,
        "decided_by": ruled.by or "",
        "agrees": agrees,
        "reader": reader,
        "rows": shown if in_order else (),
        "read": len(uppers),
    }


def _effort(rows: Sequence[Row]) -> dict[RowId, Effort]:
    measured = [row for row in rows if row.hard is not None]
    return {(row.task, row.draw): Effort(tokens=row.tokens, seconds=row.seconds) for row in measured}


def _is_same(recorded: float | None, computed: Fraction | None) -> bool:
    if recorded is None or computed is None:
        return recorded is None and computed is None
    return abs(recorded - float(computed)) < _ROUNDING


def _reason(reader: PolicyReader, rows: Sequence[ReplayedRow]) -> str:
    if reader.decided_by == "score" and reader.ruling == "reject" and reader.upper <= reader.bar:
        return f"U <= I after {len(rows)} of {reader.total} rows"
    if reader.decided_by == "score" and reader.ruling == "accept":
        return f"all {reader.total} rows are there and their sum is above I"
    if reader.ruling == "inconclusive":
        lost = [one.row.task for one in rows if one.candidate is None]
        return f"U > I, and {len(lost)} rows that could decide are invalid: {', '.join(lost)}"
    return reader.why or "the rows in the log fix no verdict"
