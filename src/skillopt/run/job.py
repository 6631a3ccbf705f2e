"""Everything a run works on: its settings, tasks, skill and models, and what identifies it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillopt.config.record import run_identity
from skillopt.config.roles import resolve_role
from skillopt.config.schema import Config
from skillopt.config.sections import RoleName
from skillopt.errors import ConfigError
from skillopt.harnesses import identity_of, works_alone
from skillopt.models.port import ModelSpec
from skillopt.models.world.rules import unanswerable
from skillopt.optimizer.proof import is_small
from skillopt.redact import Scrubber
from skillopt.skill.document import ONE_DOCUMENT, Document, EditableFiles
from skillopt.skill.folder import Skill
from skillopt.skill.install import SkillListing, carried_digest, description_of
from skillopt.tasks.benchmark import Benchmark
from skillopt.tasks.splits import Splits, format_bad_rows
from skillopt.tasks.task import Task
from skillopt.train.epoch_end import LookBack
from skillopt.train.plan import SCHEDULES, Plan

ROWS_WANTED = 24
"""Rows the gate should read at least; small val sets are drawn several times until they give as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target to measure with."""

    model: str
    """Its model string."""
    settings: str
    """Hash of all that can change what it does: model, sampling, cap, harness; not address and key."""
    spec: ModelSpec
    has_namesake: bool = False
    """Whether the same model at another address is a target beside it."""

    @property
    def name(self) -> str:
        """The model string, with the address where that alone tells it from another target."""
        return f"{self.model}@{self.spec.address}" if self.has_namesake else self.model

    @property
    def digest(self) -> str:
        """Hash of all that can change what it does, the address among it."""
        address = self.spec.address
        return _short_hash(self.settings + address) if address else self.settings

    @classmethod
    def of(cls, config: Config, *, needs_key: bool = True) -> Target:
        """The target that a configuration names; raises `ConfigError` where key or endpoint is missing."""
        spec = resolve_role(config, "target", needs_key=needs_key)
        identity = json.dumps(run_identity(config)["model"]["target"], sort_keys=True)
        identity += identity_of(spec.harness, spec)
        return cls(model=config.model.target.name, settings=_short_hash(identity), spec=spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The tasks of a job by split and, where they are cross-fitted, by round and fold."""

    splits: Splits
    earlier: tuple[Splits, ...] = ()
    """Rounds of training before this one, each with another part of the tasks as val."""
    folds: tuple[tuple[Splits, ...], ...] = ()
    """Where tasks are cross-fitted, the rounds of each fold; its last one has the tasks that judge it."""
    is_fold: bool = False
    """Whether its test is a part of a larger one, which is opened also where the best skill is the seed."""
    changed: str = ""
    """In what the tasks differ from those that the run had whose splits these are; empty where in nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything a run works on."""

    config: Config
    benchmark: Benchmark
    division: Division
    seed: Skill
    target: ModelSpec
    optimizer: ModelSpec
    scrubber: Scrubber
    settings: dict[str, Any]
    """The resolved configuration without secrets, for `settings.json`."""
    judge: ModelSpec | None = None
    """The model that scores, where the benchmark wants one."""
    proposer: ModelSpec | None = None
    """The agent that proposes edits, where one does."""
    look_back: LookBack | None = None
    """What the run goes on from, where it is not the first of its skill."""
    targets: tuple[Target, ...] = ()
    """All targets, where the skill is trained for several; `target` is the first."""
    start: Document | None = None
    """The skill that training starts from, where it is not the seed."""
    listing: SkillListing | None = None
    """Set where the description is trained, among the skills that the agent lists."""
    reuses: tuple[Path, ...] = ()
    """Folders of runs whose rollouts need not be paid again."""

    @property
    def splits(self) -> Splits:
        """The tasks that this run trains on, decides by and is tested with."""
        return self.division.splits

    @property
    def skill(self) -> Document:
        """What training starts from."""
        return self.trained(self.seed)

    def trained(self, skill: Skill) -> Document:
        """The part of a skill that is trained: its text, or its description alone."""
        return skill.document if self.listing is None else Document(description_of(skill))

    def whole(self, trained: str) -> str:
        """The text of SKILL.md with that part in it."""
        return trained if self.listing is None else self.listing.whole(trained)

    @property
    def target_name(self) -> str:
        """The target, or all of them, in words."""
        return ", ".join(one.name for one in self.targets) or self.config.model.target.name

    @property
    def specs(self) -> tuple[ModelSpec, ...]:
        """What each target is built from."""
        return tuple(one.spec for one in self.targets) or (self.target,)

    @property
    def in_world(self) -> bool:
        """Whether the simulated world has a part in the run."""
        asked = (*self.specs, self.optimizer)
        return "world" in (*(role.provider for role in asked), self.benchmark.name)

    @property
    def world_trouble(self) -> str:
        """Why a simulated target cannot answer these tasks; empty where it can, and for a real one."""
        is_world = all(role.provider == "world" for role in self.specs)
        return unanswerable(task.prompt for task in self.splits.val) if is_world else ""

    @property
    def simulated(self) -> bool:
        """Whether anything of the run is simulated. A model called simulated is taken at its word."""
        return self.in_world or any(
            role.name.startswith("simulated") for role in (*self.specs, self.optimizer)
        )

    @property
    def repeats(self) -> int:
        """How often the gate draws each val task."""
        return self.config.evaluation.repeats or max(1, math.ceil(ROWS_WANTED / len(self.splits.val)))

    @property
    def test_draws(self) -> int:
        """How often each test task is asked: in a fold as often as one of val, and an odd number of times, as
        most draws of a task that passes or fails then say the same.
        """
        return self.repeats | 1 if self.division.is_fold else 1

    @property
    def asks_small(self) -> bool:
        """Whether the optimizer is asked in the form for small models."""
        role = self.config.model.optimizer
        if role.prompts == "auto":
            is_wanted = is_small(self.optimizer.name, role.context_window)
        else:
            is_wanted = role.prompts == "small"
        return is_wanted and self.config.optimizer.skill_update_mode == "patch"

    @property
    def plan(self) -> Plan:
        """The epochs, batches and limits of the run. `proof` takes its own large batches, of equal size."""
        config, tasks = self.config, len(self.splits.train)
        batch_size = config.train.batch_size * config.train.accumulation
        if config.train.strategy == "proof":
            batch_size = math.ceil(tasks / math.ceil(tasks / config.train.proof.batch))
        return Plan(
            train=self.splits.train,
            epochs=config.train.num_epochs,
            batch_size=batch_size,
            seed=config.train.seed,
            schedule=SCHEDULES[config.optimizer.lr_scheduler],
            largest_limit=config.optimizer.learning_rate,
            smallest_limit=config.optimizer.min_learning_rate,
            slow_samples=config.optimizer.slow_update_samples,
            patience=config.train.patience,
            draws=config.gradient.rollouts_per_task,
            past=() if self.look_back is None else self.look_back.tasks,
        )

    def fold(self, rounds: Sequence[Splits]) -> Job:
        """One fold of a cross-fitted job."""
        *before, last = rounds
        return replace(self, division=Division(splits=last, earlier=tuple(before), is_fold=True))

    @property
    def editable(self) -> EditableFiles:
        """The files of the skill that edits may change."""
        wanted, files = self.config.skill, self.skill.files
        references = wanted.references
        if references is None:
            references = any(path.startswith("references/") for path in files)
        if self.listing is not None or not (references or wanted.scripts):
            return ONE_DOCUMENT
        return EditableFiles(references=references, scripts=wanted.scripts, taken=self.seed.others())

    @property
    def bad_rows(self) -> str:
        """The rows of the tasks file that gave no task, by name; empty where there are none."""
        bad = self.benchmark.bad_rows
        return format_bad_rows(bad) if bad else ""

    @property
    def roles(self) -> dict[RoleName, ModelSpec]:
        """What the models are built from, by role; of several targets the first."""
        every: dict[RoleName, ModelSpec | None] = {"target": self.target, "optimizer": self.optimizer}
        every |= {"judge": self.judge, "proposer": self.proposer}
        return {role: spec for role, spec in every.items() if spec is not None}

    @property
    def addresses(self) -> dict[RoleName, str]:
        """What the addresses of the models are in a measurement, by role."""
        return {role: spec.address or "" for role, spec in self.roles.items()}

    def identity(self) -> dict[str, Any]:
        """What can change a result; a folder belongs to one identity."""
        tasks = {split: tasks_digest(self.splits.of(split)) for split in ("train", "val", "test")}
        # Only agents get the files that a skill carries beside its text.
        carried = carried_digest(self.seed) if works_alone(self.target.harness) else ""
        past, proposer = self.look_back, self.proposer
        rare = {
            "skill_files": carried or None,
            "targets": [one.digest for one in self.targets] or None,
            "body": None if self.listing is None else self.seed.document.digest,
            "target_version": identity_of(self.target.harness, self.target) or None,
            "start": None if self.start is None else self.start.digest,
            "folds": len(self.division.folds) or None,
            "proposer_version": None if proposer is None else identity_of(proposer.harness, proposer),
            "look_back": None if past is None else [past.older.digest, tasks_digest(past.tasks)],
        }
        return {
            **run_identity(self.config, self.addresses),
            "skill": self.skill.digest,
            "tasks": tasks,
            "prompts": digest(sorted(self.benchmark.prompts.items())),
            "scorer": self.benchmark.scorer_version,
            **{name: value for name, value in rare.items() if value is not None},
        }

    def eval_identity(self) -> dict[str, Any]:
        """What the folder of an evaluation belongs to; rows of two judges do not add up."""
        whole = self.identity()
        judge = whole["model"].get("judge", whole["model"]["optimizer"])
        kept = {"kind": "eval", "env": whole["env"], "tasks": whole["tasks"]}
        return kept if self.judge is None else {**kept, "judge": judge}

    def folder(self, cwd: Path) -> Path:
        """Where the run lives: as told, else a folder by its identity, which the same command finds again."""
        if self.config.env.out_root is not None:
            return self.config.env.out_root
        return cwd / "outputs" / f"skillopt_{self.benchmark.name}_{digest(self.identity())[:10]}"


def distinct_targets(targets: Sequence[Target]) -> list[Target]:
    """The targets, each with a name of its own. Raises `ConfigError` where one of them is there twice."""
    digests = [target.digest for target in targets]
    twice = sorted({target.name for target in targets if digests.count(target.digest) > 1})
    if twice:
        raise ConfigError(
            f"The target {', '.join(twice)} is named more than once. Name it once; --repeats N draws each"
            " task N times."
        )
    places = {(target.model, target.spec.address) for target in targets}
    models = [model for model, _ in places]
    return [replace(target, has_namesake=models.count(target.model) > 1) for target in targets]


def tasks_digest(tasks: Iterable[Task]) -> str:
    """What identifies a list of tasks: their content, in order."""
    return digest([task.full_hash for task in tasks])


def digest(value: Any) -> str:
    """A hash of plain values."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
