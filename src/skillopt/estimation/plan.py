"""Decides how many calls each stage of a run takes, how long its questions and replies are, and what that
costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import fmean
from typing import Any

from skillopt.agents import agents
from skillopt.build.job import Job
from skillopt.estimation.figures import NOTHING, Line, Range, Role
from skillopt.evaluation.judge import ATTEMPTS, judge_prompt
from skillopt.harnesses._rollout_budget import FIRST_TOKENS
from skillopt.messages import Usage
from skillopt.models.prices import Price, cost
from skillopt.optimizer._ask import packaged
from skillopt.optimizer.forms import FORMS
from skillopt.tasks.protected import protected_by
from skillopt.tasks.task import Task

CHARS_A_TOKEN = 4
"""Of English text; the providers' own counts are what is paid."""
REPLY_TOKENS = {"target": 300, "optimizer": 900, "judge": 120}
SIMULATED_REPLY_TOKENS = {"target": 6, "optimizer": 110, "judge": 120}
"""The simulated world answers in few words."""
IMAGE_TOKENS = 1_100
TURNS = 6
"""Turns of a rollout that uses tools, where nothing better is known."""
AGENT_TOKENS = 10_000
"""What an agent sends of its own with every turn: its instructions and the descriptions of its tools."""
JUDGED_OUTSIDE = "judge, baseline and test"
GROWTH_PER_STEP = 105
"""Characters a skill gains in a step, rejected ones included."""
WRITERS = {
    "rewrite_from_suggestions": frozenset({"rewrite"}),
    "full_rewrite_minibatch": frozenset({"analyst", "merge"}),
}
"""Stages whose replies hold a whole skill."""
MEMORY_PER_STEP = 420
"""Characters that one earlier step takes in the analysts' prompts."""


class Plan:
    """The run in numbers."""

    def __init__(self, job: Job, replies: dict[Any, int]) -> None:
        self.job = job
        config = job.config
        self.replies = replies
        self.batch = min(config.train.batch_size * config.train.accumulation, len(job.splits.train))
        self.steps = config.train.num_epochs * math.ceil(len(job.splits.train) / self.batch)
        self.draws = config.gradient.rollouts_per_task
        self.looks_back = config.train.num_epochs - (1 if job.look_back is None else 0)
        self.val_rows = len(job.splits.val) * job.repeats
        self.turns = (
            1 if job.target.harness == "chat" and job.benchmark.open(job.splits.train[0]) is None else TURNS
        )
        self.in_agent = job.target.harness in agents.names()
        self.skill = len(job.skill.rendered) + GROWTH_PER_STEP * min(self.steps, 12) * 0.6
        self.task = _mean_chars([*job.splits.train, *job.splits.val])
        self.answer = replies["target"] * CHARS_A_TOKEN
        self.mode = config.optimizer.skill_update_mode
        # Whole skills are not counted, so nobody sets a rate for them.
        self.control = "none" if self.mode == "full_rewrite_minibatch" else config.optimizer.lr_control_mode
        self.writers = WRITERS.get(self.mode, frozenset())

    def stages(self) -> list[tuple[str, Role, Range, float]]:
        """Stage, role, calls, and the characters of one call's question."""
        config = self.job.config
        rollout = len(self.job.benchmark.prompts.get("rollout", "")) + self.skill + self.task
        if self.turns > 1:  # each turn sends what came before once more
            rollout += (self.turns - 1) / 2 * (self.answer + 2_000)
        if self.in_agent:
            rollout += AGENT_TOKENS * CHARS_A_TOKEN
        seed = rollout - self.skill + len(self.job.skill.rendered)
        tests = 2 if config.evaluation.use_gate and config.optimizer.slow_update_gate_with_selection else 3
        compared = 2 * min(config.optimizer.slow_update_samples, len(self.job.splits.train))
        slow = (
            self.looks_back * compared
            if config.optimizer.use_slow_update or config.optimizer.use_meta_skill
            else 0
        )
        test_rows = len(self.job.splits.test)
        target: list[tuple[str, Role, Range, float]] = [
            ("baseline", "target", _exactly(self.val_rows * self.turns), seed),
            ("rollout", "target", _exactly(self.steps * self.batch * self.draws * self.turns), rollout),
            ("gate", "target", self._gate().times(self.turns), rollout),
            (
                "slow rollouts",
                "target",
                Range(low=0, likely=slow * 0.45, high=slow).times(self.turns),
                rollout,
            ),
            (
                "test",
                "target",
                Range(low=test_rows, likely=2 * test_rows, high=tests * test_rows).times(self.turns),
                rollout,
            ),
        ]
        return target + self._judging(target) + self._optimizer_stages()

    def _judging(self, target: list[tuple[str, Role, Range, float]]) -> list[tuple[str, Role, Range, float]]:
        """Every answer is judged, equal ones of a task once; outside of the steps it is paid whatever becomes
        of them.
        """
        if self.job.judge is None:
            return []
        splits = self.job.splits
        a_piece = (
            2 if getattr(self.job.config.env.settings, "scorer_options", {}).get("pairs") else 1
        )  # both orders
        asked = [protected_by(self.job.benchmark, task) for task in (*splits.train, *splits.val)]
        rubric = fmean(sum(map(len, (*one.references, *one.rubrics))) for one in asked)
        size = len(judge_prompt()) + self.task + self.answer + rubric + 120
        found: list[tuple[str, Role, Range, float]] = []
        for name, stages, tasks in (
            (JUDGED_OUTSIDE, ("baseline", "test"), len(splits.val) + len(splits.test)),
            ("judge, steps", ("rollout", "gate", "slow rollouts"), len(splits.train)),
        ):
            answers = sum(
                (calls.times(a_piece / self.turns) for stage, _, calls, _ in target if stage in stages),
                NOTHING,
            )
            least = min(answers.low, tasks * a_piece)
            found.append(
                (name, "judge", Range(low=least, likely=answers.likely, high=answers.high * ATTEMPTS), size)
            )
        return found

    def _gate(self) -> Range:
        """Rows the verdicts read: a reject ends early, a salvaged bundle is measured again in halves, the
        slow update once an epoch.
        """
        config = self.job.config
        if not config.evaluation.use_gate:
            share = Range(low=1.0, likely=1.0, high=1.0)
        elif config.optimizer.salvage and self.mode == "patch":
            share = Range(low=0.2, likely=1.2, high=3.0)
        else:
            share = Range(low=0.2, likely=0.85, high=1.0)
        if self.control == "autonomous":  # a step may take nothing
            share = Range(low=0.0, likely=share.likely * 0.75, high=share.high)
        if config.gate.policy == "confirm":
            share = Range(low=share.low, likely=share.likely * 1.9, high=share.high * 3)
        slow = self.looks_back * 0.8 if config.optimizer.use_slow_update else 0.0
        return share.times(self.steps * self.val_rows) + Range(
            low=0, likely=slow * self.val_rows, high=slow * self.val_rows * 1.25
        )

    def _optimizer_stages(self) -> list[tuple[str, Role, Range, float]]:
        config = self.job.config
        size, merge_size = config.gradient.minibatch_size, config.gradient.merge_batch_size
        least, most = (
            math.ceil(self.batch / size),
            math.ceil(self.batch / size) + (0 if config.gradient.failure_only else 1),
        )
        analysts = Range(low=least, likely=(least + most) / 2, high=most)
        if config.gradient.failure_only:
            analysts = Range(low=0, likely=most * 0.6, high=most)
        merges = Range(low=0, likely=min(2.0, 0.5 + most / merge_size), high=math.ceil(most / merge_size) + 3)
        fixed = self.skill + MEMORY_PER_STEP * min(12, self.steps) / 2 + len(self.mode)
        words = FORMS[self.mode].words()
        shown = 1.5 if self.draws > 1 else 1.0  # of a task whose tries differ, two of them
        analyst = (
            len(packaged("analyst_failure"))
            + len(words["form"])
            + fixed
            + min(size, self.batch) * (self.task + shown * self.answer + 260)
        )
        items = self.replies["optimizer"] * CHARS_A_TOKEN * 1.5
        if "merge" in self.writers:
            items += max(2.0, min(merge_size, 0.7 * analysts.likely)) * self.skill
        merge = len(packaged("merge")) + len(words["form"]) + self.skill + items
        ranked = 0.0 if self.control == "none" else 0.95
        ends = self.looks_back
        pairs = (
            min(config.optimizer.slow_update_samples, len(self.job.splits.train))
            * 0.6
            * (self.task + 2 * self.answer + 300)
        )
        longer = 2 * self.skill + 1_500 + pairs
        steps = self.steps
        found: list[tuple[str, Role, Range, float]] = [
            ("analyst", "optimizer", analysts.times(steps), analyst),
            ("merge", "optimizer", merges.times(steps), merge),
            (
                "ranking",
                "optimizer",
                Range(low=0, likely=ranked, high=1 if ranked else 0).times(steps),
                900 + fixed + items,
            ),
        ]
        if self.mode == "patch":
            found.append(
                ("repair", "optimizer", Range(low=0, likely=0.15, high=1).times(steps), 600 + self.skill)
            )
        if self.mode == "rewrite_from_suggestions":
            found.append(
                (
                    "rewrite",
                    "optimizer",
                    Range(low=0, likely=0.95, high=2).times(steps),
                    1_200 + fixed + items,
                )
            )
        if self.control == "autonomous":
            found.append(
                (
                    "lr_autonomous",
                    "optimizer",
                    Range(low=0, likely=1, high=2).times(steps),
                    1_000 + fixed + items,
                )
            )
        if config.optimizer.use_slow_update:
            found.append(("slow_update", "optimizer", Range(low=0, likely=ends * 0.85, high=ends), longer))
        if config.optimizer.use_meta_skill:
            found.append(
                (
                    "meta_skill",
                    "optimizer",
                    Range(low=0, likely=max(0, ends - 1) * 0.85, high=max(0, ends - 1)),
                    longer,
                )
            )
        return found

    def line(self, stage: str, role: Role, calls: Range, size: float, price: Price | None) -> Line:
        """A stage with its tokens and its price; replies may be half or twice as long as assumed."""
        asked = size / CHARS_A_TOKEN + (0 if role == "optimizer" else self._images())
        cap = {
            "target": self.job.target,
            "optimizer": self.job.optimizer,
            "judge": self.job.judge or self.job.optimizer,
        }[role].max_tokens
        said, written = min(self.replies[role], cap), 0.0
        if stage in self.writers:
            cap, written = self.job.config.model.rewrite_max_completion_tokens, self.skill / CHARS_A_TOKEN
        lengths = (
            min(cap, said * 0.5 + written * 0.8),
            min(cap, said + written),
            min(cap, said * 2.0 + written * 1.5),
        )
        bounds = list(
            zip(
                (calls.low, calls.likely, calls.high), (asked * 0.8, asked, asked * 1.4), lengths, strict=True
            )
        )
        least, likely, most = (n * (question + reply) for n, question, reply in bounds)
        tokens = Range(low=least, likely=likely, high=most)
        usd = None
        if price is not None:
            paid = [float(n * _price(price, question, reply)) for n, question, reply in bounds]
            usd = Range(low=paid[0], likely=paid[1], high=paid[2])
        return Line(stage=stage, role=role, calls=calls, tokens=tokens, usd=usd)

    def largest_reply(self) -> tuple[int, str]:
        """The most output that one call of a step must set aside, and the key that sets it."""
        config, budget = self.job.config.model, self.job.config.budget
        target = (self.job.target.max_tokens, "model.target.max_tokens")
        if self.in_agent:  # a rollout is paid as a whole
            target = (budget.per_rollout.tokens or FIRST_TOKENS, "budget.per_rollout.tokens")
        caps = [(self.job.optimizer.max_tokens, "model.optimizer.max_tokens")]
        if self.writers:
            caps.append((config.rewrite_max_completion_tokens, "model.rewrite_max_completion_tokens"))
        return max(target, *((min(cap, config.optimizer.context_window // 2), key) for cap, key in caps))

    def _images(self) -> float:
        return fmean(len(task.images) for task in self.job.splits.train) * IMAGE_TOKENS

    def assumptions(self) -> list[str]:
        """What the figures rest on, for the reader to doubt."""
        told = [
            f"a reply of the target has {self.replies['target']} tokens, one of the optimizer"
            f" {self.replies['optimizer']}"
            + (
                " (the simulated world's are short)"
                if "world" in (self.job.target.model.provider, self.job.optimizer.model.provider)
                else ""
            ),
            (
                f"{CHARS_A_TOKEN} characters are a token; tasks have {self.task:,.0f} characters, the skill"
                f" {self.skill:,.0f} on average"
            ),
            "nothing is in a cache, and no step is stopped early by patience or a perfect score",
        ]
        if self.writers:
            told.append(
                f"replies of the stage {' and '.join(sorted(self.writers))} hold the whole skill besides"
            )
        if self.turns > 1:
            told.append(
                f"a rollout takes {self.turns} turns"
                + (f", each with {AGENT_TOKENS:,} tokens of the agent's own" * self.in_agent)
            )
        if self.job.judge is not None:
            told.append(
                f"every answer is judged (equal ones of a task only once), in {self.replies['judge']} tokens"
            )
        return told


def _price(price: Price, asked: float, said: float) -> Fraction:
    return cost(Usage(input_tokens=math.ceil(asked), output_tokens=math.ceil(said)), price)


def _exactly(count: float) -> Range:
    return Range(low=count, likely=count, high=count)


def _mean_chars(tasks: Sequence[Task]) -> float:
    return fmean(len(task.prompt) for task in tasks) if tasks else 0.0
