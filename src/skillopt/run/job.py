"""Loads and checks everything a run works on; nothing is paid yet and nothing written."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillopt.benchmarks import benchmarks
from skillopt.config.foreign import refuse_foreign
from skillopt.config.identity import run_identity
from skillopt.config.load import Resolved
from skillopt.config.roles import RoleSpec, resolve_role
from skillopt.config.schema import Config
from skillopt.config.sections import RoleName
from skillopt.config.show import as_json
from skillopt.errors import ConfigError, SkillError, TaskError
from skillopt.files import read_text
from skillopt.harnesses import identity_of, works_alone
from skillopt.models.world.rules import unanswerable
from skillopt.redact import Scrubber
from skillopt.run.description import for_description, listing_of, trigger_benchmark
from skillopt.run.division import Division, digest, divide, tasks_digest
from skillopt.run.target import Target, told_apart
from skillopt.runs.log import EVENTS
from skillopt.skill.description import SkillListing, description_of
from skillopt.skill.document import Document
from skillopt.skill.folder import Skill, load_skill
from skillopt.skill.install import carried_digest
from skillopt.skill.paths import ONE_DOCUMENT, SKILL_FILE, EditableFiles
from skillopt.tasks.benchmark import Benchmark, TellsBadRows, WantsJudge
from skillopt.tasks.functions import own_code_blamed
from skillopt.tasks.splits import Splits, told_bad_rows
from skillopt.train.epoch_end import LookBack

ROWS_WANTED = 24
"""Rows the gate should read at least; small val sets are drawn several times until they give as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything a run works on."""

    config: Config
    benchmark: Benchmark
    division: Division
    seed: Skill
    target: RoleSpec
    optimizer: RoleSpec
    scrubber: Scrubber
    settings: dict[str, Any]
    """The resolved configuration without secrets, for `settings.json`."""
    judge: RoleSpec | None = None
    """The model that scores, where the benchmark wants one."""
    proposer: RoleSpec | None = None
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
    def specs(self) -> tuple[RoleSpec, ...]:
        """What each target is built from."""
        return tuple(one.spec for one in self.targets) or (self.target,)

    @property
    def in_world(self) -> bool:
        """Whether the simulated world has a part in the run."""
        asked = (*self.specs, self.optimizer)
        return "world" in (*(role.model.provider for role in asked), self.benchmark.name)

    @property
    def world_trouble(self) -> str:
        """Why a simulated target cannot answer these tasks; empty where it can, and for a real one."""
        is_world = all(role.model.provider == "world" for role in self.specs)
        return unanswerable(task.prompt for task in self.splits.val) if is_world else ""

    @property
    def simulated(self) -> bool:
        """Whether anything of the run is simulated. A model called simulated is taken at its word."""
        return self.in_world or any(
            role.model.name.startswith("simulated") for role in (*self.specs, self.optimizer)
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
        bad = self.benchmark.bad_rows if isinstance(self.benchmark, TellsBadRows) else ()
        return told_bad_rows(bad) if bad else ""

    @property
    def addresses(self) -> dict[RoleName, str]:
        """What the addresses of the models are in a measurement, by role."""
        every: dict[RoleName, RoleSpec | None] = {"target": self.target, "optimizer": self.optimizer}
        every |= {"judge": self.judge, "proposer": self.proposer}
        return {role: spec.model.address or "" for role, spec in every.items() if spec is not None}

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
            "target_version": identity_of(self.target.harness, self.target.model) or None,
            "start": None if self.start is None else self.start.digest,
            "folds": len(self.division.folds) or None,
            "proposer_version": None if proposer is None else identity_of(proposer.harness, proposer.model),
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


def prepare(resolved: Resolved, *, benchmark: Benchmark | None = None, needs_key: bool = True) -> Job:
    """Load and check all inputs. `benchmark` stands in for the configured one when it was made in Python.

    Without `needs_key` a missing key is no error: for a job that is only looked at.
    """
    refuse_foreign(resolved)
    config, listing = resolved.config, None
    if config.train.part == "description":
        config = for_description(resolved)
        resolved = replace(resolved, config=config)
        listing = listing_of(config)
        benchmark = trigger_benchmark(config, listing, resolved.targets)
    if benchmark is None:
        if config.env.name is None:
            raise ConfigError(
                "No tasks are named. Name the folder of a train.yaml ('skillopt init NAME' makes one), or"
                " --env own --data_path FILE, or another benchmark with --env:"
                f" {', '.join(name for name in benchmarks.names() if name != 'own')}."
            )
        with own_code_blamed(f"The benchmark {config.env.name!r}", stops=True):
            benchmark = benchmarks.get(config.env.name)(config.env.settings)
    scrubber = Scrubber(resolved.secrets)
    with own_code_blamed(f"The benchmark {benchmark.name!r}", stops=True):
        divided = divide(resolved, benchmark, scrubber.scrub)
    splits = divided.splits
    if 0 < config.train.train_size < len(splits.train):
        raise TaskError(
            f"train.train_size is {config.train.train_size}, but the train split has {len(splits.train)}"
            " tasks. Set 0 to take them."
        )
    if config.train.strategy == "proof":
        _check_proof(config)
    if config.optimizer.prune and not config.evaluation.use_gate:
        raise ConfigError(
            "optimizer.prune asks the gate, which evaluation.use_gate switches off. Change one."
        )
    seed = _seed(config, benchmark) if listing is None else listing.skill
    target, targets = resolve_role(config, "target", needs_key=needs_key), _targets(resolved, needs_key)
    if scrubber.scrub(seed.document.whole) != seed.document.whole:
        raise SkillError(
            "The skill holds a credential that this configuration also uses. Remove it from the skill before"
            " it is sent anywhere."
        )
    return Job(
        config=config,
        benchmark=benchmark,
        division=divided,
        seed=seed,
        target=target,
        optimizer=resolve_role(config, "optimizer", needs_key=needs_key),
        scrubber=scrubber,
        settings=as_json(resolved),
        judge=_judge(config, benchmark, needs_key),
        proposer=_proposer(config, needs_key),
        listing=listing,
        targets=targets,
    )


def prepare_training(resolved: Resolved, *, needs_key: bool = True) -> Job:
    """The job of a training run. Where the tasks of the run that is named have changed since, its splits are
    not kept: training starts anew with all tasks, divided as its settings say.
    """
    job = prepare(resolved, needs_key=needs_key)
    return prepare(replace(resolved, run=None), needs_key=needs_key) if job.division.changed else job


def _targets(resolved: Resolved, needs_key: bool) -> tuple[Target, ...]:
    found = tuple(told_apart([Target.of(config, needs_key=needs_key) for config in resolved.targets]))
    draws = resolved.config.gate.confirm_draws
    if found and draws % len(found):
        raise ConfigError(
            f"gate.confirm_draws {draws} cannot be divided among {len(found)} targets. Set a multiple of"
            f" {len(found)}, or 0."
        )
    return found


def _check_proof(config: Config) -> None:
    """Refuse settings that only the published loop has a meaning for."""
    mode = config.optimizer.skill_update_mode
    if mode != "patch" and config.model.optimizer.prompts == "small":
        raise ConfigError(
            f"model.optimizer.prompts small asks for one rule, and optimizer.skill_update_mode {mode}"
            " for whole skills. Set it to patch, or the prompts to standard."
        )
    if config.optimizer.use_skill_aware_reflection:
        raise ConfigError(
            "train.strategy proof writes no notes: switch optimizer.use_skill_aware_reflection off, or set"
            " train.strategy to paper."
        )


def _proposer(config: Config, needs_key: bool) -> RoleSpec | None:
    """The agent that proposes; refuses what would have no effect beside a proposer."""
    name = config.train.proposer
    if name == "analysts":
        if config.model.proposer is not None:
            raise ConfigError("model.proposer names an agent that nobody asks. Set train.proposer to agent.")
        return None
    if config.optimizer.skill_update_mode != "patch" or config.optimizer.use_skill_aware_reflection:
        raise ConfigError(
            f"train.proposer {name} proposes edits: set optimizer.skill_update_mode to patch and switch"
            " optimizer.use_skill_aware_reflection off, or leave train.proposer at analysts."
        )
    if config.model.proposer is None:
        return None
    spec = resolve_role(config, "proposer", needs_key=needs_key)
    if not works_alone(spec.harness):
        raise ConfigError(
            f"model.proposer: {config.model.proposer.name!r} is no agent that works by itself. Name one, as"
            " in 'claude_code/anthropic:MODEL', 'codex/openai:MODEL' or 'cmd: PROGRAM'."
        )
    return spec


def _seed(config: Config, benchmark: Benchmark) -> Skill:
    if config.env.skill_init is None:
        return Skill(path=None, name=benchmark.name, document=Document.of(benchmark.seed_skill))
    wanted = config.skill
    seed = load_skill(
        config.env.skill_init, references=wanted.references is not False, scripts=wanted.scripts
    )
    if seed.folder is None and (wanted.references or wanted.scripts):
        raise ConfigError(
            f"{seed.path} is one document, and skill.references or skill.scripts wants files beside it. Make"
            f" it a folder: {seed.name}/{SKILL_FILE}."
        )
    return _with_regions(seed)


def _with_regions(skill: Skill) -> Skill:
    """The skill with its protected regions, where it is the `best_skill.md` of a run: that file is what was
    measured, without their marks, which the run's own copies have.
    """
    assert skill.path is not None
    for home in skill.path.resolve().parents[:3]:  # RUN/best_skill.md, RUN/best_skill/NAME/SKILL.md
        if not (home / EVENTS).is_file():
            continue
        for copy in sorted((home / "skills").glob("skill_v*.md"), reverse=True):
            kept = Document.of(read_text(copy))
            if kept.layout.regions and kept.rendered_text == skill.document.rendered_text:
                return replace(skill, document=replace(skill.document, text=kept.text))
    return skill


def _judge(config: Config, benchmark: Benchmark, needs_key: bool) -> RoleSpec | None:
    if not (isinstance(benchmark, WantsJudge) and benchmark.wants_judge):
        return None
    judge = resolve_role(config, "judge", needs_key=needs_key)
    if judge.model.provider == "world":
        raise ConfigError(
            "Answers are to be judged, and the simulated world judges none. Name a model that does:"
            " model.judge (--judge)."
        )
    return judge
