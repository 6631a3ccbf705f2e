"""The calls of a run by stage, from its plan: how many there are at most, and how many as a rule.

At most is a sum of products of what the settings say; calls that fail or are slow and are sent again come on
top. As a rule is the same plan with shares that were measured (figures: docs/decisions/050).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from skillopt.agents import driven
from skillopt.events.state import State
from skillopt.harnesses import works_alone
from skillopt.messages import Role
from skillopt.run.job import Division, Job
from skillopt.tasks.splits import Splits
from skillopt.train.plan import Plan
from skillopt.train.trials import ROUNDS, SHARED

FAILING = 0.65
"""Share of tasks that fail with the skill to start from; from the baseline on it is known."""
FIXED = 0.75
"""Share of failing train tasks that a step of `proof` or an epoch of `paper` fixes."""
LOOKS = 1.3
"""Looks of `proof` at a lane: the first, and those at what stayed open."""
TRIED = 3.8
"""Rows of trials for each failing task under `proof`."""
CONTROLLED = 1.5
"""Times half of the control rows that a step runs: once, and now and then again."""
BLAMED = 0.8
"""Share of `blame_rows`, or of fewer failing tasks, that a step runs to find guilty and weak edits."""
BUNDLES = 1.1
"""Candidates of a step of `proof`."""
CANDIDATES = 0.85
"""Candidates of a step of `paper` and of an epoch's end, unchanged ones and halves included."""
ROLLED_OUT = 0.95
"""Share of the planned train rollouts that `paper` pays: an epoch with the same skill finds them stored."""
NOTHING_NEW = 0.7
"""Chance that one more task of a batch brings no new candidate: few tasks bring the same one again."""
ENDS = 0.8
"""Share of epochs that change the skill, so that their end is compared with the one before it."""
NEW_PARTS: Mapping[str, float] = {"baseline": 0.25, "proof": 0.25, "gate": 0.8}
"""Share of a stage's calls in a cross-fitted part that no other part has paid for it; of others a half."""
JUDGED = 0.8
"""Share of answers that no other draw of their task gave: equal ones are judged once."""
MERGED, RANKED, REPAIRED = 0.4, 0.9, 0.2
"""Merges for each look of `paper`, and rankings and repairs for each step."""
TURNS = 6
"""Turns of a rollout that uses tools, where nothing better is known."""
ASKED = 2
"""An optimizer's or a judge's reply that cannot be used is asked for once more."""
_THIRDS = 9
"""Rows an edit takes at most where the guilty are looked for by thirds: half as many sets again, six rows."""
SALVAGED, TRIMMED = 3, 3
"""Candidates of a step: the bundle and its halves; the bundle, and without guilty and without weak edits."""

BASELINE, ROLLOUT, GATE, SLOW, TEST, PRUNE = "baseline", "rollout", "gate", "slow rollouts", "test", "prune"
PROOF, CONTROL, BLAME, JUDGE = "proof", "control", "blame", "judge"
FIXED_STAGES = (BASELINE, TEST)
"""Stages that do not grow with the steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What there is as a rule, and what there is at most; None where nothing limits it."""

    typical: float
    at_most: float | None

    def __add__(self, other: Figure) -> Figure:
        known = None if self.at_most is None or other.at_most is None else self.at_most + other.at_most
        return Figure(typical=self.typical + other.typical, at_most=known)

    def times(self, typical: float, at_most: float | None = None) -> Figure:
        """So many times as much; at most another number of times, if that is given."""
        factor = typical if at_most is None else at_most
        most = None if self.at_most is None or factor == math.inf else self.at_most * factor
        return Figure(typical=self.typical * typical, at_most=most)

    def as_json(self) -> dict[str, float | None]:
        """Both figures for programs."""
        most = None if self.at_most is None else round(self.at_most, 4)
        return {"typical": round(self.typical, 4), "at_most": most}


NOTHING = Figure(typical=0, at_most=0)
Calls: TypeAlias = Mapping[tuple[str, Role], Figure]
"""By stage and role, in the order of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run stands. What the plan still has depends on it."""

    has_baseline: bool = False
    steps: int = 0
    epochs: int = 0
    failing: float = FAILING
    finished: bool = False

    @classmethod
    def of(cls, state: State, plan: Plan) -> Progress:
        """As a checkpoint has it: a settled task needs no further study."""
        failing = 1 - (state.score if state.score is not None else 1 - FAILING)
        return cls(
            has_baseline=True,
            steps=state.step,
            epochs=state.epoch,
            failing=min(failing, 1 - len(set(state.settled)) / len(plan.train)),
            finished=state.finished,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutShape:
    """What a rollout asks: turns of the target, and questions to a judge about its answer."""

    turns: Figure
    questions: float = 0

    @classmethod
    def of(cls, job: Job, questions: float = 0) -> RolloutShape:
        """As the harness has it: one turn in a chat; nobody knows how many an agent makes, and one of
        somebody's own mostly tells of one.
        """
        if works_alone(job.target.harness):
            turns = TURNS if job.target.harness in driven() else 1
            return cls(turns=Figure(typical=turns, at_most=None), questions=questions)
        environment = job.benchmark.open(job.splits.train[0])
        most = 1 if environment is None else environment.max_turns
        return cls(turns=Figure(typical=min(TURNS, most), at_most=most), questions=questions)


@dataclass(frozen=True)
class PartPlan:
    """One run, or one part of a cross-fitted one."""

    job: Job
    shape: RolloutShape
    progress: Progress = field(default_factory=Progress)

    def calls(self) -> Calls:
        """What is still to come."""
        if self.progress.finished:
            return {}
        rows: dict[str, Figure] = {} if self.progress.has_baseline else {BASELINE: self.baseline}
        (of_steps, asked_in_steps), (of_ends, asked_at_ends) = self.steps, self.ends
        rows |= {**of_steps, **of_ends, GATE: of_steps[GATE] + of_ends[GATE]}
        if self.job.config.optimizer.prune:
            learned = Figure(typical=self.learned, at_most=None)
            rows[PRUNE] = learned.times(self.val + 2 * len(self.plan.train))
        rows[TEST] = self.test
        turns, questions = self.shape.turns, self.shape.questions
        found: dict[tuple[str, Role], Figure] = {
            (stage, "target"): figure.times(turns.typical, turns.at_most or math.inf)
            for stage, figure in rows.items()
        }
        found[JUDGE, "judge"] = sum(rows.values(), NOTHING).times(JUDGED * questions, ASKED * questions)
        for stage, figure in {**asked_in_steps, **asked_at_ends}.items():
            found[stage, "optimizer"] = figure.times(1, ASKED)
        return {key: figure for key, figure in found.items() if figure.typical or figure.at_most}

    @cached_property
    def plan(self) -> Plan:
        return self.job.plan

    @property
    def batch(self) -> int:
        """Tasks of a step."""
        return min(self.plan.batch_size, len(self.plan.train))

    @property
    def news(self) -> float:
        """Chance that a step of `paper` brings a candidate that was not measured before."""
        return 1 - NOTHING_NEW**self.batch

    @cached_property
    def val(self) -> int:
        """Rows of a gate that reads everything: with `confirm` the further draws too."""
        job, first = self.job, len(self.job.splits.val) * self.job.repeats * len(self.job.specs)
        if job.config.gate.policy != "confirm":
            return first
        return first + len(job.splits.val) * (job.config.gate.confirm_draws or job.repeats * len(job.specs))

    @property
    def baseline(self) -> Figure:
        skills = 1 if self.job.start is None else 2
        return Figure(typical=skills * self.val, at_most=skills * self.val)

    @property
    def test(self) -> Figure:
        """Seed and best; at most the last skill too."""
        rows = len(self.job.splits.test) * self.job.test_draws * len(self.job.specs)
        return Figure(typical=2 * rows, at_most=3 * rows)

    @cached_property
    def steps_left(self) -> Figure:
        """All that are planned; `proof` ends as a rule when few train tasks are open."""
        plan, done = self.plan, self.progress.steps
        left = max(0, plan.total_steps - done)
        if self.job.config.train.strategy != "proof":
            return Figure(typical=left, at_most=left)
        tasks = len(plan.train)
        least = min(self.job.config.train.proof.remaining, math.ceil(tasks / 4))
        passes, still = 0, tasks * self.progress.failing
        if done < plan.steps_per_epoch:
            passes, still = 1, still * (1 - FIXED)
        while still >= least and passes < plan.epochs - self.progress.epochs:
            passes, still = passes + 1, still * (1 - FIXED)
        inside = done % plan.steps_per_epoch
        return Figure(typical=min(left, max(0, passes * plan.steps_per_epoch - inside)), at_most=left)

    @property
    def failing(self) -> float:
        """Mean share of failing tasks over the steps to come."""
        passes = max(1.0, self.steps_left.typical / self.plan.steps_per_epoch)
        solved: float = (1 - FIXED) ** passes
        return self.progress.failing * (1 - solved) / (passes * FIXED)

    @property
    def learned(self) -> float:
        """Lines that the skill gains as a rule."""
        if self.job.config.train.strategy == "proof":
            return 0.25 * self.progress.failing * len(self.plan.train)
        return 0.4 * self.steps_left.typical * self.job.config.optimizer.learning_rate

    @property
    def steps(self) -> tuple[dict[str, Figure], dict[str, Figure]]:
        """Rows and questions of the steps to come, by stage."""
        if self.job.config.train.strategy == "proof":
            rows, asked = self._proof()
        else:
            rows, asked = self._paper()
        steps = self.steps_left
        rows, asked = (
            {stage: figure.times(steps.typical, steps.at_most) for stage, figure in each.items()}
            for each in (rows, asked)
        )
        planned = len(self.plan.train) * self.plan.draws / self.plan.steps_per_epoch
        share = 1.0 if self.job.config.train.strategy == "proof" else ROLLED_OUT * self.news
        passes = math.ceil((steps.at_most or 0) / self.plan.steps_per_epoch)
        most = len(self.plan.train) * self.plan.draws * passes
        rollouts = Figure(typical=planned * steps.typical * share, at_most=most)
        return {ROLLOUT: rollouts, **rows}, asked

    def _paper(self) -> tuple[dict[str, Figure], dict[str, Figure]]:
        """A step of the published loop; of a strategy of one's own nobody knows the most."""
        config, batch = self.job.config, self.batch
        size, mode = config.gradient.minibatch_size, config.optimizer.skill_update_mode
        both = not config.gradient.failure_only
        failed = self.failing * batch
        looks = Figure(
            typical=math.ceil(failed / size) + both * math.ceil((batch - failed) / size),
            at_most=min(batch, max(1, (batch - 2) // size + 2) if both else math.ceil(batch / size)),
        )
        asks = self.job.config.train.proposer == "analysts"
        ranks = asks and mode != "full_rewrite_minibatch" and config.optimizer.lr_control_mode != "none"
        autonomous = ranks and config.optimizer.lr_control_mode == "autonomous"
        notes = config.optimizer.use_skill_aware_reflection
        condenses = notes and config.optimizer.skill_aware_consolidate_threshold > 0
        merges = looks.at_most - 1 if looks.at_most else 0
        asked = {
            **(
                {
                    "analyst": looks,
                    "merge": Figure(typical=min(merges, MERGED * looks.typical), at_most=merges),
                }
                if asks
                else {"proposer": self._proposed(1)}
            ),
            "ranking": Figure(typical=RANKED, at_most=1).times(ranks),
            "repair": Figure(typical=REPAIRED, at_most=1).times(mode == "patch"),
            "rewrite": Figure(typical=1, at_most=1).times(mode == "rewrite_from_suggestions"),
            "lr_autonomous": Figure(typical=1, at_most=1).times(autonomous),
            "appendix_consolidate": Figure(typical=0.3, at_most=1).times(condenses),
        }
        most = SALVAGED if config.optimizer.salvage and mode == "patch" else 1
        rows = {GATE: Figure(typical=CANDIDATES * self.news * self.val, at_most=most * self.val)}
        if config.train.strategy != "paper":
            rows = {stage: replace(figure, at_most=None) for stage, figure in rows.items()}
            asked = {stage: replace(figure, at_most=None) for stage, figure in asked.items()}
        return rows, asked

    def _proposed(self, looks: float) -> Figure:
        """Turns of an agent that proposes, which nobody limits, or questions to a proposer of one's own."""
        turns = 1 if self.job.proposer is None else TURNS
        return Figure(typical=turns * looks, at_most=None)

    def _proof(self) -> tuple[dict[str, Figure], dict[str, Figure]]:
        """A step of `proof` where all tasks of its batch fail, at most, and all that can be tried is."""
        config, settings, batch = self.job.config, self.job.config.train.proof, self.batch
        size, mode = config.gradient.minibatch_size, config.optimizer.skill_update_mode
        asks = config.train.proposer == "analysts"
        failed = self.failing * batch
        passes = settings.depth + ROUNDS - 1
        shown = min(batch, size + (size - 1) // 2)  # a short last lane joins its neighbour
        edits, lanes = (2, batch) if self.job.asks_small else (shown, math.ceil(batch / size))
        every = passes * (2 * batch if self.job.asks_small else batch)
        tried = self._rows_of_look(edits, 1 if self.job.asks_small else shown)
        proof = passes * math.ceil(tried * batch / (1 if self.job.asks_small else shown))
        proof += every * SHARED + (settings.depth - 1 + ROUNDS) * batch  # joined, together, and sets
        blamed = every * max(settings.blame_rows, _THIRDS)
        looks = Figure(
            typical=max(1.0, math.ceil(failed / size) * LOOKS), at_most=passes * lanes if asks else passes
        )
        is_limited = mode == "patch" and asks  # a rewrite or an agent may bring any number of edits
        control = min(settings.control, batch - failed)
        rows = {
            PROOF: Figure(typical=TRIED * failed, at_most=proof),
            CONTROL: Figure(
                typical=CONTROLLED * math.ceil(control / 2),
                at_most=ROUNDS * (min(settings.control, batch) + blamed),
            ),
            BLAME: Figure(
                typical=BLAMED * min(settings.blame_rows, failed),
                at_most=blamed + (2 * every + 1) * settings.blame_rows,
            ),
            GATE: Figure(typical=BUNDLES * self.val, at_most=TRIMMED * self.val),
        }
        if not is_limited:
            rows |= {stage: replace(rows[stage], at_most=None) for stage in (PROOF, CONTROL, BLAME)}
        joins = asks and not self.job.asks_small
        asked = {
            **({"analyst": looks} if asks else {"proposer": self._proposed(LOOKS)}),
            "rewrite": looks.times(asks and mode == "rewrite_from_suggestions"),
            "joining": Figure(typical=1, at_most=1).times(joins),
        }
        return rows, asked

    def _rows_of_look(self, edits: int, shown: int) -> int:
        """The most rows on which so many edits for so many failures are tried: alone, together and by halves,
        and where only several fix a task, without each in turn. One fixed task is drawn twice more.
        """
        alone = min(self.job.config.train.proof.rows, shown)
        depth = math.ceil(math.log2(edits)) if edits > 1 else 0
        halves = (2 * edits - 1) * (shown + 2)
        without = depth * edits * (alone + 2) + (edits - 1) * alone
        return edits * (alone + 2) + halves + without

    @property
    def ends(self) -> tuple[dict[str, Figure], dict[str, Figure]]:
        """Rows and questions of the ends of epochs to come: the first has nothing to look back to."""
        plan, optimizer = self.plan, self.job.config.optimizer
        first = 1 if self.job.look_back is not None else 2
        begin = max(first, self.progress.epochs + 1)
        ends = max(0, plan.epochs - begin + 1)
        passes = self.progress.epochs + self.steps_left.typical / plan.steps_per_epoch
        reached = min(ends, max(0.0, passes - begin + 1)) * ENDS * self.news
        if not (optimizer.use_slow_update or optimizer.use_meta_skill):
            ends, reached = 0, 0.0
        sample = min(plan.slow_samples, max(len(plan.train), len(plan.past)))
        most = (
            max(len(plan.train), len(plan.past))
            if optimizer.longitudinal_pair_policy == "changed"
            else sample
        )
        advised = max(0, ends - 1) if ends else 0
        slow = Figure(typical=reached, at_most=ends).times(optimizer.use_slow_update)
        rows = {
            SLOW: Figure(typical=reached * sample / 4, at_most=ends * 2 * most),
            GATE: slow.times(CANDIDATES * self.val, self.val),
        }
        meta = Figure(typical=min(reached, advised), at_most=advised).times(optimizer.use_meta_skill)
        return rows, {"slow_update": slow, "meta_skill": meta}


def planned_calls(job: Job, shape: RolloutShape, progress: Progress | None = None) -> Calls:
    """The calls of a run that are still to come; of a cross-fitted run, those of all its parts anew."""
    now = progress or Progress()
    if not job.division.folds:
        return PartPlan(job, shape, now).calls()
    tasks = Figure(typical=len(job.splits.all), at_most=len(job.splits.all))
    found: dict[tuple[str, Role], Figure] = {
        (BASELINE, "target"): tasks.times(shape.turns.typical, shape.turns.at_most or math.inf)
    }
    for part in _parts(job):
        for key, figure in PartPlan(part, shape, Progress(failing=now.failing)).calls().items():
            found[key] = found.get(key, NOTHING) + figure.times(NEW_PARTS.get(key[0], 0.5), 1)
    return found


def _parts(job: Job) -> Iterable[Job]:
    """The rounds of the whole run and of each fold; only the last round of a fold is tested."""

    def part(base: Job, splits: Splits, number: int) -> Job:
        division = Division(splits=splits, is_fold=base.division.is_fold)
        start = base.start if number == 0 else base.skill
        return replace(base, division=division, start=start)

    whole = (*job.division.earlier, job.division.splits)
    runs = [(job, whole)] + [(job.fold(rounds), rounds) for rounds in job.division.folds]
    for base, rounds in runs:
        for number, splits in enumerate(rounds):
            yield part(base, splits, number)
