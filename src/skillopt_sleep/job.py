"""The training job of one skill: its tasks as a benchmark, a small plan, and what is left to spend."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillopt.config.load import load
from skillopt.errors import ConfigError, TaskError
from skillopt.optimizer.ask import packaged
from skillopt.run import Job, OpenRun, prepare
from skillopt.skill.document import Document, pack
from skillopt.tasks.benchmark import AGENT_PROMPT, Environment
from skillopt.tasks.data import QuestionBenchmark
from skillopt.tasks.protected import Protected
from skillopt.tasks.splits import Splits
from skillopt.tasks.task import Task
from skillopt.train.epoch_end import LookBack
from skillopt_sleep.judgement import Cost
from skillopt_sleep.plan import NightTarget
from skillopt_sleep.proposal import Decision
from skillopt_sleep.readings import prompt_text
from skillopt_sleep.scorer import NightScorer, has_rubric
from skillopt_sleep.settings import NightSettings, Roles
from skillopt_sleep.targets import without_frontmatter
from skillopt_sleep.texts import with_learned
from skillopt_sleep.worktrees import WORKTREE, Checkout, Worktree

BATCH = 10
WORKERS = 6
"""Calls in flight of either kind; a model that is asked by hand has no limit."""
SAMPLES = 10
"""Past tasks on which a slow update across nights compares two texts."""
_ANALYSTS = ("analyst_failure", "analyst_success")
_SHOWN = 300
_DECISIONS = 20
_LIMITS = {
    "tokens": "max_tokens_per_night",
    "dollars": "max_dollars_per_night",
    "minutes": "max_minutes_per_night",
}
"""The parts of tonight's allowance, by the part of a cost that counts against each."""


class NightBenchmark(QuestionBenchmark):
    """A person's own requests. A skill may state what a check demands, but not quote its pattern."""

    def protected(self, task: Task) -> Protected:
        """Patterns and rubrics: what a skill could quote without an answer getting better."""
        checks = task.reference.get("checks", ())
        rubric = task.reference.get("rubric")
        return Protected(
            patterns=tuple(str(check["arg"]) for check in checks if check["op"] == "regex"),
            rubrics=(rubric,) if rubric else (),
        )

    def open(self, task: Task) -> Environment | None:
        """The worktree of a task that is work in a repository."""
        tree = task.data.get(WORKTREE)
        return None if tree is None else Checkout(Worktree.model_validate(tree))


def benchmark_of(target: NightTarget, advice: str) -> NightBenchmark:
    """The tasks of a skill. A judge is only wanted where a task has a rubric."""
    made = NightBenchmark(
        name="sleep",
        splits=Splits(
            train=target.of_split("train"), val=target.of_split("val"), test=target.of_split("test")
        ),
        scorer=NightScorer(),
        system=_system(target, "rollout"),
        seed_skill=pack(target.seed, target.files),
        prompts=_prompts(target, advice),
    )
    earlier = () if target.earlier is None else target.earlier.tasks
    made.wants_judge = any(has_rubric(task.as_task()) for task in (*target.tasks, *earlier))
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class NightJobs:
    """Makes the jobs of a night: with its settings and models, and the rollouts that all nights share."""

    settings: NightSettings
    roles: Roles
    rollouts: Path
    environ: Mapping[str, str]
    cwd: Path

    def job(self, target: NightTarget, *, advice: str = "", spent: Cost | None = None, share: int = 1) -> Job:
        """Everything the training run of a skill works on; nothing is paid yet. It may use one part in
        `share` of what `spent` left of the allowance.

        The `.env` of the working directory is not read: a night runs in whatever repository it is pointed at.
        """
        every = {
            **self._defaults(target),
            **self.settings.options,
            **self._fixed(target, spent or Cost(), share),
        }
        options = [
            f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in every.items()
        ]
        job = prepare(
            load(None, flags={}, options=options, environ=self.environ, cwd=self.cwd, dotenv=False),
            benchmark=benchmark_of(target, advice),
        )
        if job.in_world:
            raise ConfigError(
                "The simulated world cannot learn from real sessions, so it is no model of a night. Name a"
                " real one."
            )
        if target.files:  # what else lies in the folder is not to be written over
            job = replace(job, seed=replace(job.seed, name=target.name, folder=target.path.parent))
        start = None if target.carried is None else Document.of(target.carried.edits[-1].text)
        return replace(job, look_back=_look_back(target), start=start)

    @property
    def reader(self) -> NightJobs:
        """The same for questions about sessions: the model that reads them stands for the optimizer."""
        named = self.settings.reader_model
        return replace(self, roles=replace(self.roles, optimizer=named)) if named else self

    @property
    def terms(self) -> str:
        """A hash of all that a night's result depends on, beside its tasks, texts and allowance."""
        settings = self.settings.model_dump(mode="json", exclude={*_LIMITS.values(), "notices"})
        terms = [self.roles.target, self.roles.optimizer, settings]
        return hashlib.sha256(json.dumps(terms, sort_keys=True).encode()).hexdigest()

    def spent_part(self, spent: Cost) -> str:
        """Which part of tonight's allowance is used up; empty while all of it has something left."""
        for part, key in _LIMITS.items():
            limit, used = getattr(self.settings, key), getattr(spent, part)
            if limit and used is not None and used >= limit:
                return part
        return ""

    def _defaults(self, target: NightTarget) -> dict[str, Any]:
        """What the person's `options` may change."""
        settings = self.settings
        return {
            "train.num_epochs": 1,
            "train.batch_size": BATCH,
            "train.seed": settings.seed,
            # A process that is killed leaves what its calls in flight had reserved charged. A night has time,
            # and a small allowance.
            "env.workers": WORKERS,
            "gradient.analyst_workers": WORKERS,
            "optimizer.learning_rate": settings.edit_budget,
            "evaluation.gate_metric": settings.gate_metric,
            "evaluation.gate_mixed_weight": settings.gate_mixed_weight,
            "optimizer.slow_update_samples": SAMPLES,
            # An agent's work in a repository costs many calls.
            **({"evaluation.repeats": 1} if any(task.worktree for task in target.tasks) else {}),
        }

    def _fixed(self, target: NightTarget, spent: Cost, share: int) -> dict[str, Any]:
        """What the night itself decides. Raises `ConfigError` where `options` says otherwise."""
        settings, roles = self.settings, self.roles
        fixed: dict[str, Any] = {
            "model.target": roles.target,
            "model.optimizer": roles.optimizer,
            **({"model.judge": roles.judge} if roles.judge is not None else {}),
            "evaluation.use_gate": settings.gate_mode == "on",
            "gradient.rollouts_per_task": settings.dream_rollouts,
            # One epoch has nothing to look back to but earlier nights, and no later epoch whose analysts a
            # meta skill could advise.
            "optimizer.use_slow_update": target.earlier is not None,
            "optimizer.use_meta_skill": False,
            "cache.path": str(self.rollouts),
        }
        if formal := target.formal:
            fixed["gate.veto_only"] = formal
        if settings.gate_no_regression:
            fixed["gate.policy"] = "no_regression"
        for key in ("max_tokens_increase", "max_latency_increase"):
            if (most := getattr(settings, key)) is not None:
                fixed[f"gate.{key}"] = most
        for key in settings.options:
            if key in fixed or key.startswith(("budget.", "env.skill_init", "env.out_root", "env.name")):
                raise ConfigError(
                    f"options: {key} is decided by the night itself; use its own key (docs/sleep.md)."
                )
        # The run's own spending is in its folder, so `spent` is what the rest of the night took.
        if settings.max_tokens_per_night:
            left = (settings.max_tokens_per_night - (spent.tokens or 0)) // share
            fixed["budget.tokens"] = max(1, left)
        if settings.max_dollars_per_night:
            fixed["budget.usd"] = (settings.max_dollars_per_night - (spent.dollars or 0.0)) / share
        if settings.max_minutes_per_night:
            fixed["budget.minutes"] = (settings.max_minutes_per_night - (spent.minutes or 0.0)) / share
        return fixed


def cost_of(opened: OpenRun) -> Cost:
    """What an open run took so far, over all its sessions."""
    paid = opened.spending()
    minutes = round(opened.elapsed() / 60, 2)
    return Cost(calls=paid["calls"], tokens=paid["tokens"], dollars=paid["usd"], minutes=minutes)


def with_allowance(settings: NightSettings, roles: Roles) -> NightSettings:
    """The settings with tonight's allowance as it is meant. Who answers by hand reports no tokens, and each
    answer would count as the most it could have taken: there the limit in tokens holds only where the person
    set it.
    """
    if not _by_hand(roles) or "max_tokens_per_night" in settings.model_fields_set:
        return settings
    return settings.model_copy(update={"max_tokens_per_night": 0})


def without_guesses(cost: Cost, roles: Roles) -> Cost:
    """The cost as a person is shown it: what somebody answered by hand took no tokens that were counted."""
    return cost.model_copy(update={"tokens": None, "dollars": None}) if _by_hand(roles) else cost


def _by_hand(roles: Roles) -> bool:
    return any(role.rpartition("/")[2].partition(":")[0] == "handoff" for role in roles.named())


def advice_of(
    settings: NightSettings, decisions: Sequence[Decision], refused: Sequence[tuple[str, str]] = ()
) -> str:
    """The person's preferences and earlier decisions, and what held-out tasks refused of a skill in earlier
    nights, as the optimizer reads them; may be empty.
    """
    lines = [f"- {' '.join(settings.preferences.split())}"] if settings.preferences.strip() else []
    for one in decisions[-_DECISIONS:]:
        cut, added = one.target.merged.part(one.edit.id)
        text = " ".join((added or cut).split())[:_SHOWN]
        what = "adding" if added else "removing"
        verdict = "agreed to" if one.decision == "adopted" else "decided against"
        lines.append(
            f"- The person {verdict} {what} this in {one.target.name}: {json.dumps(text, ensure_ascii=False)}"
        )
    for skill, text in dict.fromkeys(refused[-_DECISIONS:]):
        quoted = json.dumps(" ".join(text.split())[:_SHOWN], ensure_ascii=False)
        lines.append(
            f"- Measured in an earlier night for {skill}, and answers were no better with it: {quoted}"
        )
    return "\n" + "\n".join(lines) + "\n" if lines else ""


def _prompts(target: NightTarget, advice: str) -> dict[str, str]:
    """The optimizer's prompts that differ from the packaged ones: with what the person wants."""
    is_quoted = any(task.split == "train" and (task.objections or task.accepted) for task in target.tasks)
    further = (prompt_text("person") + advice if advice else "") + (prompt_text("said") if is_quoted else "")
    prompts = {stage: packaged(stage) + further for stage in _ANALYSTS} if further else {}
    if any(task.worktree for task in target.tasks):
        prompts[AGENT_PROMPT] = _system(target, "rollout_agent")
    return (
        prompts
        if target.earlier is None
        else {**prompts, "slow_update": prompt_text("slow_update") + further}
    )


def _look_back(target: NightTarget) -> LookBack | None:
    """What the slow update compares with, without tasks whose measure cannot be read any more."""
    if target.earlier is None:
        return None
    tasks = []
    for task in target.earlier.tasks:
        try:
            NightScorer().check_task(task.as_task())
        except TaskError:
            continue
        tasks.append(task.as_task())
    nights = target.earlier.nights_ago
    ago = f"{nights} night{'s' if nights > 1 else ''} ago"
    return (
        LookBack(older=Document(target.earlier.text, target.files), tasks=tuple(tasks), ago=ago)
        if tasks
        else None
    )


def _system(target: NightTarget, prompt: str) -> str:
    """The system prompt of the target; of a memory file also the person's own text around our block, of an
    overlay the skill that it comes beside.
    """
    title, own = "Another skill", target.beside
    if target.kind == "memory":
        title = "The person's own notes"
        own = without_frontmatter(with_learned(target.before or "", ""))
    # Braces of the person's own are no placeholder of ours.
    own = own.strip().replace("{skill}", "{ skill }")
    return prompt_text(prompt).replace(
        "## Skill\n", (f"## {title}\n\n{own}\n\n" if own else "") + "## Skill\n"
    )
