"""Which configuration keys exist, their types, their defaults and what each one means."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, SerializeAsAny, model_validator

from skillopt.config.sections import (
    BudgetConfig,
    Effort,
    OptimizerRoleConfig,
    RoleConfig,
    RoleName,
    Section,
    TargetRoleConfig,
    TrainConfig,
    TriggersConfig,
)
from skillopt.config.service import WRITES
from skillopt.errors import ConfigError

Metric = Literal["hard", "soft", "mixed"]


class ModelConfig(Section):
    """The two roles, and what they share; and a judge, where a scorer wants one."""

    optimizer: OptimizerRoleConfig = OptimizerRoleConfig()
    """The model that writes edits."""
    target: TargetRoleConfig = TargetRoleConfig()
    """The frozen agent whose skill is trained."""
    targets: str | None = None
    """Several targets, with commas, that one skill is trained for; beats model.target."""
    judge: RoleConfig | None = None
    """The model behind the scorer 'judge'; unset means the optimizer."""
    proposer: RoleConfig | None = None
    """The agent behind the proposer 'agent': 'claude_code/anthropic:MODEL', 'codex/openai:MODEL', 'cmd:
    program' or whatever else a target can be that works by itself.
    """
    backend: str | None = None
    """Public backend name for bare model names; some of them are for the target only."""
    optimizer_backend: str | None = None
    """Backend of a bare optimizer name; beats model.backend."""
    target_backend: str | None = None
    """Backend of a bare target name; beats model.backend."""
    reasoning_effort: Effort | None = None
    """Reasoning effort of both roles unless a role sets its own; a compatible or Qwen endpoint gets it only
    from the command line.
    """
    rewrite_reasoning_effort: Effort | None = None
    """Reasoning effort of the call that rewrites a whole skill; unset means the optimizer's."""
    rewrite_max_completion_tokens: int = Field(default=64_000, ge=1)
    """Output cap of calls that write a whole skill."""


class GradientConfig(Section):
    """How rollouts become proposed edits."""

    minibatch_size: int = Field(default=8, ge=1)
    """Rollouts one analyst call reads."""
    merge_batch_size: int = Field(default=8, ge=2)
    """Patches one merge call joins."""
    analyst_workers: int = Field(default=16, ge=1)
    """Optimizer calls in flight; changes speed, never the result."""
    failure_only: bool = False
    """Reflect on failures only."""
    rollouts_per_task: int = Field(default=1, ge=1)
    """Draws per train task of a step; where they differ, analysts read the best against the worst."""


class OptimizerConfig(Section):
    """How far a step may move the skill."""

    learning_rate: int = Field(default=4, ge=1)
    """Most edits a step may apply, and one analyst may propose."""
    min_learning_rate: int = Field(default=2, ge=1)
    """Where the schedule ends."""
    lr_scheduler: Literal["constant", "linear", "cosine"] = "cosine"
    """Shape of the limit over the steps."""
    lr_control_mode: Literal["fixed", "autonomous", "none"] = "fixed"
    """Who sets the limit of a step: the schedule, the optimizer model, or nobody."""
    skill_update_mode: Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"] = "patch"
    """How a skill changes: by edits, by one rewrite from suggestions, or by rewrites of whole skills."""
    use_slow_update: bool = True
    """Compare epochs and write the slow-update region."""
    slow_update_samples: int = Field(default=20, ge=1)
    """Train tasks the slow update compares."""
    slow_update_gate_with_selection: bool = True
    """The slow update passes the gate like every other change; off takes it and measures it afterwards."""
    longitudinal_pair_policy: Literal["mixed", "changed", "unchanged"] = "mixed"
    """Which pairs the slow update reads: all, those whose outcome changed, or those that stayed."""
    use_meta_skill: bool = True
    """Keep notes for the optimizer across epochs."""
    skip_unchanged_epochs: bool = True
    """Ask for no slow update and no meta skill where the skill is the one of an epoch ago."""
    use_skill_aware_reflection: bool = False
    """Tell defects of the skill (edits) from lapses in following it (notes in the appendix)."""
    skill_aware_appendix_source: Literal["both", "failure_only"] = "both"
    """Which analysts may write notes for the appendix."""
    skill_aware_consolidate_threshold: int = Field(default=0, ge=0)
    """Notes above which the appendix is condensed by one call; 0 is never."""
    salvage: bool = True
    """Try a rejected bundle of several edits once more as its two halves."""
    prune: bool = False
    """At the end, leave out learned lines that no val or train task needs, as long as val is no worse."""

    @model_validator(mode="after")
    def _ordered(self) -> OptimizerConfig:
        if self.min_learning_rate > self.learning_rate:
            raise ValueError(
                f"min_learning_rate ({self.min_learning_rate}) is above learning_rate ({self.learning_rate})"
            )
        return self


class EvaluationConfig(Section):
    """What is measured, and on which number the gate decides."""

    use_gate: bool = True
    """Keep a change only when it is better on val; off is stated in every report."""
    gate_metric: Metric | None = None
    """Number the gate reads; unset means hard, or soft for a graded scorer."""
    gate_mixed_weight: float = Field(default=0.5, ge=0, le=1)
    """Weight of soft in the mixed metric."""
    sel_env_num: int = Field(default=0, ge=0)
    """First N val tasks only; 0 is all."""
    test_env_num: int = Field(default=0, ge=0)
    """First N test tasks only; 0 is all."""
    eval_test: bool | None = None
    """Measure seed and best on the sealed test split; unset means where a better skill was found."""
    repeats: int | None = Field(default=None, ge=1)
    """Draws per val task; unset means enough for 24 rows."""
    check_baseline: bool = True
    """Warn after the baseline where all answers fail for one reason; stop where the target gave none."""


class EnvConfig(Section):
    """The benchmark, places, how much runs at once. Further `env` keys are the benchmark's (`settings`)."""

    name: str | None = None
    """Benchmark to train on."""
    skill_init: Path | None = None
    """Skill to start from; unset means the benchmark's seed skill."""
    out_root: Path | None = Field(default=None, json_schema_extra=WRITES)
    """Run folder; unset makes one under outputs/."""
    workers: int = Field(default=24, ge=1)
    """Rollouts in flight; changes speed, never the result."""
    executor: str | None = None
    """Where games, agent programs and sandboxed programs run: processes, in_process, ray; unset: here."""
    exec_timeout: float = Field(default=120.0, gt=0)
    """Seconds one model call may take unless the role says otherwise."""
    settings: SerializeAsAny[BaseModel] | None = Field(default=None, exclude=True)
    """The benchmark's own keys, as its typed model."""


class GateConfig(Section):
    """Who decides."""

    policy: str = "strict"
    """Decision rule of the gate: strict, confirm, no_regression, paired, size_capped, or your own."""
    alpha: float = Field(default=0.05, gt=0, lt=1)
    """Largest chance of an accident that `paired` accepts."""
    max_chars: int = Field(default=0, ge=0)
    """Longest skill `size_capped` accepts, in characters; 0 is twice the seed, at least 4,000."""
    confirm_draws: int = Field(default=0, ge=0)
    """Further draws per val task that `confirm` takes; 0 is as many as the first time."""
    max_tokens_increase: float | None = Field(default=None, ge=0)
    """Largest share of further target tokens on the val rows that a better skill may take; 0.2 is 20 %."""
    max_latency_increase: float | None = Field(default=None, ge=0)
    """Largest share of further seconds of the target's calls that a better skill may take; 0.2 is 20 %."""
    veto_only: list[str] = Field(default_factory=list)
    """Val tasks, by id, that may speak against a candidate and never for it."""
    targets: Literal["mean", "none_worse"] = "mean"
    """With several targets: their mean decides, or besides no target may get worse."""
    unknown_effort: Literal["reject", "allow"] = "reject"
    """What happens to a candidate whose tokens or seconds are limited and unknown."""
    leak_guard: bool = True
    """Refuse a skill that quotes val or test answers, the words of tasks, patterns or rubrics of the scorer.
    """


class SkillConfig(Section):
    """Which files of a skill folder are trained beside SKILL.md; all others are carried as they are."""

    references: bool | None = None
    """Train references/*.md and let new ones be proposed; unset means where the folder has some."""
    scripts: bool = False
    """Let scripts/ be changed and added to; only agents run them, inside their own isolation."""


class CacheConfig(Section):
    """Results shared between runs."""

    path: Path | None = Field(default=None, json_schema_extra=WRITES)
    """SQLite file that runs share scored rollouts through."""
    shared: bool = True
    """Without a path, share those of models with a key at temperature 0 through the person's own cache."""
    limit_mb: int = Field(default=500, ge=1)
    """Megabytes that each file of the person's own cache may take; what was used longest ago goes first."""


class OutputConfig(Section):
    """Files beyond the usual ones."""

    predictions: bool = False
    """Also write predictions/ with one folder per task."""


class StoreConfig(Section):
    """What a run keeps beyond figures and answers."""

    tasks: bool = True
    """Keep questions and expected answers in tasks.jsonl and results.jsonl; conversations stay in run.db."""


class TrackingConfig(Section):
    """Where else the facts of a run go. Nothing here changes a result."""

    use: str | None = None
    """Trackers, with commas: tensorboard, mlflow, wandb, otel, or your own."""
    project: str = Field(default="skillopt", min_length=1)
    """Name of the experiment, project or service at the tracker."""
    texts: bool = False
    """Send skill texts and verdicts in words too, not only figures."""
    settings: dict[str, Any] = Field(default_factory=dict, exclude=True)
    """By tracker: its own keys (`tracking.<name>.*`), as its typed model."""


class Config(Section):
    """The whole tree."""

    model: ModelConfig = ModelConfig()
    """Models."""
    train: TrainConfig = TrainConfig()
    """Plan."""
    triggers: TriggersConfig = TriggersConfig()
    """Queries."""
    gradient: GradientConfig = GradientConfig()
    """Reflection."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """Edits."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Measuring."""
    env: EnvConfig = EnvConfig()
    """Benchmark."""
    gate: GateConfig = GateConfig()
    """Deciding."""
    skill: SkillConfig = SkillConfig()
    """Files of the skill."""
    budget: BudgetConfig = BudgetConfig()
    """Spending."""
    cache: CacheConfig = CacheConfig()
    """Sharing."""
    output: OutputConfig = OutputConfig()
    """Writing."""
    store: StoreConfig = StoreConfig()
    """Keeping."""
    tracking: TrackingConfig = TrackingConfig()
    """Tracking."""

    def role(self, role: RoleName) -> RoleConfig:
        """The settings of one role; where no judge is named, the optimizer judges."""
        if role == "judge":
            return self.model.judge or self.model.optimizer
        if role == "proposer":
            if self.model.proposer is None:
                raise ConfigError(
                    "model.proposer names no agent. Set it, or leave train.proposer at analysts."
                )
            return self.model.proposer
        return self.model.optimizer if role == "optimizer" else self.model.target
