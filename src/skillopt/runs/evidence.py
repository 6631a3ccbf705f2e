"""Recomputes a verdict from the rows of incumbent and candidate in the log, with the gate's arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, cast

from skillopt.config.schema import EvaluationConfig, GateConfig
from skillopt.errors import UsageError
from skillopt.events import Judged, Notice, Reflected, RowFact, StageClosed, Updated
from skillopt.events.records import EditRecord, StepRecord
from skillopt.events.state import Metric
from skillopt.gate.constraints import Constraints, Effort, Ruled, outgrows, too_long
from skillopt.gate.decision import Case, PolicyReader, RowId, worth_of, worths_of
from skillopt.gate.gate import RULE, STAGE
from skillopt.gate.policies import decide
from skillopt.place import START, Place
from skillopt.runs.fold import LogSection
from skillopt.runs.log import DATABASE
from skillopt.runs.reader import RunReader
from skillopt.runs.steps import judged_skill
from skillopt.runs.stored import asked_twice
from skillopt.runs.verdicts import FoundVerdict, name_of
from skillopt.skill.description import problem_with
from skillopt.skill.document import Document
from skillopt.skill.store import Skills
from skillopt.train.trainer import LEAK_GUARD

_ROUNDING = 1e-9


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
class VerdictEvidence:
    """Everything a verdict rests on, and what comes out when it is computed again."""

    name: str
    judged: Judged
    recomputed: str
    reason: str
    policy: str = "strict"
    decided_by: str = ""
    incumbent: str = ""
    """Digest of the skill that it was compared with, as the target got it."""
    others: Sequence[str] = ()
    """Verdicts of the same step beside this one, where it tried several candidates."""
    bar: Fraction = Fraction(0)
    upper: Fraction = Fraction(0)
    total: int = 0
    read: int = 0
    rows: Sequence[JudgedRow] = ()
    edits: Sequence[EditRecord] = ()
    hedged: int = 0
    """Calls behind the candidate and its rows that were asked twice."""
    same_rows: bool = True
    """Whether the record holds the rows that the reading order asks for."""
    same_skill: bool = True
    """Whether the candidate's text in the log is the one that was judged."""
    same_scores: bool = True
    """Whether the scores and the bound that the verdict names are those of the rows."""

    @property
    def agrees(self) -> bool:
        """Whether the log's verdict, and what decided it, follows from its rows."""
        told = (self.judged.action, self.judged.decided_by, self.judged.policy)
        same = self.same_rows and self.same_skill and self.same_scores
        return told == (self.recomputed, self.decided_by, self.policy) and same

    def as_json(self) -> dict[str, Any]:
        """The same for programs; sums as exact fractions and as numbers."""
        rows = [
            {key: float(item) if isinstance(item, Fraction) else item for key, item in asdict(row).items()}
            for row in self.rows
        ]
        return {
            "name": self.name,
            "place": str(self.judged.place),
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
            "hedged": self.hedged,
            "rows": rows,
            "edits": [edit.model_dump(mode="json") for edit in self.edits],
        }


def gather(run: RunReader, found: FoundVerdict) -> VerdictEvidence:
    """Recompute a verdict."""
    return _Recomputing(run, found).evidence()


class _Recomputing:
    """The log around one verdict, read once."""

    def __init__(self, run: RunReader, found: FoundVerdict) -> None:
        self._run, self._found = run, found
        self._judged, self._section, self._before = found.judged, found.section, found.before
        self._is_gated = bool(run.config["evaluation"]["use_gate"])
        self._policy = _policy(run.config, found.judged) if self._is_gated else "strict"
        self._incumbent = self._compared_with()
        at = found.judged.place
        self._updated = next((one for one in self._section.of(Updated) if one.place == at), None)
        self._closed = next((one for one in _stages(self._section) if one.place == at), None)
        beside = [
            one for one in self._section.of(Judged) if one is not self._judged and one.place.root == at.root
        ]
        behind = [f"{at.root}/"] + [
            f"rollout/{row.rollout}."
            for row in (() if self._closed is None else self._closed.rows)
            if row.rollout
        ]
        self._about: dict[str, Any] = {
            "name": name_of(at, with_candidate=bool(beside)),
            "judged": self._judged,
            "incumbent": self._incumbent.digest,
            "policy": self._policy,
            "others": [f"{name_of(one.place, with_candidate=True)}: {one.action}" for one in beside],
            "edits": _edits(self._section, at),
            "hedged": sum(place.startswith(tuple(behind)) for place in asked_twice(run.folder / DATABASE)),
        }

    def evidence(self) -> VerdictEvidence:
        """What comes out when the verdict is computed again."""
        if self._closed is None:
            return self._without_rows()
        candidate = judged_skill(self._section, self._judged.place, self._run.skills)
        folder, name = self._run.folder, self._about["name"]
        if candidate is None:
            raise UsageError(
                f"{name} of {folder} is not closed yet: run the same training command again, then explain it."
            )
        rows = measured_in_full(self._found.sections, self._run.skills).get(self._incumbent.digest)
        if rows is None:
            raise UsageError(
                f"The log of {folder} does not hold the rows of the skill that {name} was compared with."
            )
        return self._recomputed(rows, self._closed.rows, candidate)

    def _compared_with(self) -> Document:
        """What a candidate was measured against: the skill of the step, or one that the step had accepted."""
        over, skills = self._judged.over, self._run.skills
        accepted = [one.skill for one in self._section.of(Updated) if one.digest == over]
        if over and accepted:
            return skills.get(accepted[0])
        return skills.get(self._before.skill if self._is_gated else self._before.best)

    def _recomputed(
        self, incumbent_rows: Sequence[RowFact], candidate_rows: Sequence[RowFact], candidate: Document
    ) -> VerdictEvidence:
        """The gate's own arithmetic on these rows."""
        config, metric = self._run.config, cast(Metric, self._judged.metric)
        settings, evaluation = GateConfig(**config["gate"]), EvaluationConfig(**config["evaluation"])
        targets = (config["model"].get("targets") or "").count(",") + 1
        worths = [worth_of(row, metric, evaluation.gate_mixed_weight) for row in candidate_rows]
        values = worths_of(incumbent_rows, metric, evaluation.gate_mixed_weight)
        draws = 1 + max((draw for _, draw in values), default=0)  # an incumbent has its further draws as well
        case = Case.of(
            values,
            further=(settings.confirm_draws or draws // 2) if self._policy == "confirm" else 0,
            settings=settings,
            seed_chars=len(self._run.skills.get(self._before.seed).rendered),
            chars=len(candidate.rendered),
            incumbent_chars=len(self._incumbent.rendered),
        )
        reader, uppers = decide(self._policy, case, worths)
        told = [(row.task, row.draw) for row in candidate_rows]
        in_order = told == list(case.rows[: len(told)])
        rows = [
            JudgedRow(
                task=row.task, draw=row.draw, incumbent=bar, candidate=worth, invalid=row.invalid, upper=upper
            )
            for row, worth, bar, upper in zip(candidate_rows, worths, case.bar, uppers, strict=False)
        ]
        ruled = Ruled(ruling=reader.ruling or "inconclusive", why=_reason(reader, rows), by=reader.decided_by)
        constraints = Constraints.of(settings, targets) if evaluation.use_gate else Constraints()
        ruled = constraints.apply(ruled, _effort(incumbent_rows), _effort(candidate_rows))
        ruled = constraints.none_worse(ruled, values, dict(zip(told, worths, strict=True)))
        unfit = [row for row in candidate_rows if row.invalid == "too_long"]
        if unfit:
            ruled = too_long(unfit[0].task, unfit[0].detail)
        is_gated_slow_update = self._run.config["optimizer"]["slow_update_gate_with_selection"]
        to_the_end = not self._is_gated or (self._updated is None and not is_gated_slow_update)
        return VerdictEvidence(
            **self._about,
            recomputed="open" if reader.ruling is None and not unfit else ruled.ruling,
            reason=ruled.why,
            decided_by=ruled.by or "",
            bar=reader.bar,
            upper=reader.upper,
            total=reader.total,
            read=len(uppers),
            rows=rows if in_order else (),
            same_rows=in_order and len(told) == (len(case.rows) if to_the_end and not unfit else len(uppers)),
            same_skill=candidate.digest == self._judged.skill,
            same_scores=self._has_scores(list(values.values()), worths, reader, ruled),
        )

    def _has_scores(
        self,
        incumbent: Sequence[Fraction],
        worths: Sequence[Fraction | None],
        reader: PolicyReader,
        ruled: Ruled,
    ) -> bool:
        """Whether the verdict names the means of its rows, and a bound where it has to."""
        measured = [worth for worth in worths if worth is not None]
        is_whole = len(measured) == len(worths) == len(incumbent)
        candidate = _mean(measured) if is_whole else None
        bound = None
        if ruled.ruling == "reject" and ruled.by not in ("length", "window"):
            bound = candidate if is_whole else reader.upper / reader.total
        judged = self._judged
        told = ((judged.incumbent, _mean(incumbent)), (judged.candidate, candidate), (judged.bound, bound))
        return all(_is_same(recorded, computed) for recorded, computed in told)

    def _without_rows(self) -> VerdictEvidence:
        """Verdicts without a measurement: nothing changed, the guard refused, or reflections were lost."""
        recomputed, reason, by = self._unmeasured()
        return VerdictEvidence(**self._about, recomputed=recomputed, reason=reason, decided_by=by)

    def _unmeasured(self) -> tuple[str, str, str]:
        """Action, reason, and who decided."""
        judged, updated = self._judged, self._updated
        rendered = "" if updated is None else self._run.skills.get(updated.skill).rendered
        # The tasks that a guard read are not in the log; what it found is.
        if judged.decided_by in (LEAK_GUARD, RULE):
            leaks = str(judged.place.at("leaks"))
            found = next((one.text for one in self._section.of(Notice) if one.id == leaks), "")
            if judged.decided_by == RULE and updated is not None:
                window = self._run.config["model"]["target"].get("context_window")
                found = outgrows(rendered, window) or problem_with(rendered)
            return "reject" if found else "open", found or "no leak is in the log", judged.decided_by
        if updated is not None and rendered == self._incumbent.rendered:
            return "unchanged", "the candidate reads the same as the incumbent", ""
        if updated is not None:
            return "open", "the candidate differs, and no row of it is in the log", ""
        reflected = next(iter(self._section.of(Reflected)), None)
        if reflected is None:
            return judged.action, "nothing was proposed", ""
        dropped, asked = sum(patch.dropped is not None for patch in reflected.patches), len(reflected.patches)
        lost = 2 * dropped > asked
        half = f"{'more' if lost else 'not more'} than half"
        reason = f"{dropped} of {asked} reflections were unreadable, {half}"
        return "inconclusive" if lost else "open", reason, ""


def _mean(worths: Sequence[Fraction]) -> Fraction:
    return sum(worths, Fraction(0)) / len(worths) if worths else Fraction(0)


def _is_same(recorded: float | None, computed: Fraction | None) -> bool:
    if recorded is None or computed is None:
        return recorded is None and computed is None
    return abs(recorded - float(computed)) < _ROUNDING


def _policy(config: Mapping[str, Any], judged: Judged) -> str:
    """The policy that had to decide: the configured one. Only `proof` may ask for `paired` instead of
    `strict`, and for no more than `strict` where a candidate replaces one that the step accepted.
    """
    told, own = str(config["gate"]["policy"]), config["train"].get("strategy") == "proof"
    if own and judged.over:
        return "strict"
    return "paired" if own and told == "strict" and judged.policy == "paired" else told


def _stages(section: LogSection) -> list[StageClosed]:
    return [one for one in section.of(StageClosed) if one.stage == STAGE]


def _edits(section: LogSection, place: Place) -> Sequence[EditRecord]:
    """The edits a verdict is about and how they ended; the step's record says which are whose."""
    outcomes = [edit for one in section.of(Updated) for edit in one.outcomes]
    record = None if section.closed_by is None else section.closed_by.record
    if not place.candidate or not isinstance(record, StepRecord):
        return outcomes
    ids = set(record.candidates[place.candidate].edits)
    return [outcome for outcome in outcomes if outcome.id in ids]


def measured_in_full(sections: Sequence[LogSection], skills: Skills) -> dict[str, Sequence[RowFact]]:
    """The rows of every skill that was measured in full, by the digest of its rendered text."""
    known: dict[str, Sequence[RowFact]] = {}
    seed: set[RowId] = set()
    for section in sections:
        after = section.after
        if section.before is None and after is not None:  # the baseline
            for one in _stages(section):
                first = [row for row in one.rows if row.task not in after.left_out]
                measured = after.skill if one.place == START else after.seed
                known[skills.get(measured).digest], seed = first, _measured(first)
            continue
        rows = {one.place: one.rows for one in _stages(section)}
        for judged in section.of(Judged):
            if judged.place in rows and _measured(rows[judged.place]) == seed:
                known[judged.skill] = rows[judged.place]
    return known


def _measured(rows: Sequence[RowFact]) -> set[RowId]:
    return {(row.task, row.draw) for row in rows if row.hard is not None and row.soft is not None}


def _effort(rows: Sequence[RowFact]) -> dict[RowId, Effort]:
    return {
        (row.task, row.draw): Effort(tokens=row.tokens, seconds=row.seconds)
        for row in rows
        if row.hard is not None
    }


def _reason(reader: PolicyReader, rows: Sequence[JudgedRow]) -> str:
    if reader.decided_by == "score" and reader.ruling == "reject":
        return f"U <= I after {len(rows)} of {reader.total} rows"
    if reader.decided_by == "score":
        return f"all {reader.total} rows are there and their sum is above I"
    if reader.ruling == "inconclusive":
        lost = [row.task for row in rows if row.candidate is None]
        return f"U > I, and {len(lost)} rows that could decide are invalid: {', '.join(lost)}"
    return reader.why or "the rows in the log fix no verdict"
