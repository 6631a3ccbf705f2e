"""Loads, divides and checks everything a run works on; nothing is paid yet and nothing written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from skillopt.benchmarks import benchmarks
from skillopt.config.load import Resolved
from skillopt.config.record import as_json, refuse_foreign
from skillopt.config.roles import provider_of, resolve_role
from skillopt.config.schema import Config
from skillopt.errors import ConfigError, SkillError, TaskError
from skillopt.files import read_text
from skillopt.harnesses import works_alone
from skillopt.models.port import ModelSpec
from skillopt.redact import Scrubber
from skillopt.run.job import Division, Job, Target, distinct_targets, tasks_digest
from skillopt.runs.answers import TASKS, stored_tasks
from skillopt.runs.log import DATABASE, EVENTS
from skillopt.runs.tail import noted_identity
from skillopt.skill.document import SKILL_FILE, Document
from skillopt.skill.folder import Skill, load_skill
from skillopt.tasks.benchmark import Benchmark, as_benchmark
from skillopt.tasks.functions import own_code_blamed
from skillopt.tasks.splits import FEWEST, FOLDS, MANY, Splits, in_folds, in_rounds, rounds_for
from skillopt.tasks.task import SPLITS, Split, Task


def prepare(resolved: Resolved, *, benchmark: Benchmark | None = None, needs_key: bool = True) -> Job:
    """Load and check all inputs. `benchmark` stands in for the configured one when it was made in Python.

    Without `needs_key` a missing key is no error: for a job that is only looked at.
    """
    refuse_foreign(resolved)
    config, listing = resolved.config, None
    if config.train.part == "description":
        from skillopt.run.description import for_description, listing_of, trigger_benchmark

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
    benchmark = as_benchmark(benchmark)
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
    found = tuple(distinct_targets([Target.of(config, needs_key=needs_key) for config in resolved.targets]))
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


def _proposer(config: Config, needs_key: bool) -> ModelSpec | None:
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


def _judge(config: Config, benchmark: Benchmark, needs_key: bool) -> ModelSpec | None:
    if not benchmark.wants_judge:
        return None
    judge = resolve_role(config, "judge", needs_key=needs_key)
    if judge.provider == "world":
        raise ConfigError(
            "Answers are to be judged, and the simulated world judges none. Name a model that does:"
            " model.judge (--judge)."
        )
    return judge


def divide(resolved: Resolved, benchmark: Benchmark, scrub: Callable[[str], str]) -> Division:
    """The division of a job's tasks. `scrub` is what the run wrote the ids of its tasks with."""
    config, run = resolved.config, resolved.run
    size, sealed = config.evaluation, config.evaluation.eval_test is not False
    splits = Splits(
        train=tuple(benchmark.tasks("train")),
        val=_first(benchmark.tasks("val"), size.sel_env_num),
        test=_first(benchmark.tasks("test"), size.test_env_num) if sealed else (),
    )
    if run is None:
        return _crossed(splits, fold_count(config, benchmark, splits))
    identity = noted_identity(run / DATABASE)
    folds, digests = identity.get("folds") or 1, identity.get("tasks", {})
    found = _crossed(splits, folds if folds <= len(splits.all) // 2 else 1)
    if config.train.folds == 1:  # only to be measured
        found = Division(splits=found.splits)
    if _are(found.splits, digests):
        return found
    kept = _as_in(run, splits, benchmark, scrub, is_crossed=folds > 1)
    is_whole = not kept.changed and _are(kept.splits, digests) and not found.folds
    changed = kept.changed or "some are others, or in another order"
    return kept if is_whole else replace(kept, changed=f"The tasks of {run} have changed since: {changed}.")


def fold_count(config: Config, benchmark: Benchmark, splits: Splits) -> int:
    """In how many folds the tasks are cross-fitted; 1 is one split."""
    if config.model.targets:  # a train task of one fold, measured with one target, is a val task of another
        if (config.train.folds or 1) > 1:
            raise ConfigError("train.folds cannot be used with model.targets. Set train.folds to 1.")
        return 1
    said, tasks = config.train.folds, len(splits.all)
    if said is not None:
        if said > 1 and not benchmark.undivided:
            raise ConfigError(
                f"train.folds {said} divides one list of tasks, and settings or the benchmark divide it"
                " already. Leave env.split_ratio, env.split_dir, env.split_field (and a field 'split' of the"
                " rows), env.test_path and env.limit out, or set train.folds to 1."
            )
        if said > tasks // 2:
            raise ConfigError(f"train.folds {said} is too many for {tasks} tasks. Set at most {tasks // 2}.")
        return said
    evaluation, model = config.evaluation, config.model
    chosen = evaluation.sel_env_num or evaluation.test_env_num or config.train.train_size
    by_hand = any(provider_of(role.name) == "handoff" for role in (model.target, model.optimizer))
    is_few = benchmark.undivided and FEWEST <= tasks < MANY
    is_tested = evaluation.eval_test is not False and evaluation.use_gate
    return FOLDS if is_few and is_tested and not (chosen or by_hand) else 1


def _crossed(splits: Splits, folds: int) -> Division:
    if folds == 1:
        return Division(splits=splits)
    rounds = rounds_for(len(splits.all))
    *before, last = in_rounds(splits.all, rounds)
    return Division(splits=last, earlier=tuple(before), folds=tuple(in_folds(splits.all, folds, rounds)))


def _are(splits: Splits, digests: Mapping[str, str]) -> bool:
    """Whether these are the tasks of a run. One side may have left the test out."""
    has_test = splits.test and digests.get("test") != tasks_digest(())
    compared = [split for split in SPLITS if has_test or split != "test"]
    return all(digests.get(split) == tasks_digest(splits.of(split)) for split in compared)


def _as_in(
    run: Path, splits: Splits, benchmark: Benchmark, scrub: Callable[[str], str], *, is_crossed: bool
) -> Division:
    """Divide the tasks as an earlier run did, by their ids; also says how many tasks are gone or new."""
    stored = {one.id: one.split for one in stored_tasks(run)}
    if not stored:
        raise ConfigError(
            f"Which tasks of {run} were train, val and test cannot be told: it kept no {TASKS}, and its"
            " settings do not divide the tasks as it did. Name the config that it was trained with instead."
        )
    there = {scrub(task.id): task for split in SPLITS for task in benchmark.tasks(split)}
    parts: dict[Split, tuple[Task, ...]] = {
        split: tuple(there[id] for id, its in stored.items() if its == split and id in there)
        for split in SPLITS
    }
    if not (parts["train"] and parts["val"]):
        raise ConfigError(
            f"The train and val tasks of {run} are no longer where its settings name them. Put them back, or"
            " name the config to use instead."
        )
    if "test" not in stored.values() and not is_crossed:  # the run left it out
        parts["test"] = tuple(task for task in splits.test if scrub(task.id) not in stored)
    elif not splits.test:
        parts["test"] = ()
    gone = len(stored.keys() - there.keys())
    new = len({scrub(task.id) for task in splits.all} - stored.keys() - {task.id for task in parts["test"]})
    told = [f"{gone} gone"] * bool(gone) + [f"{new} new, which are left out"] * bool(new)
    return Division(
        splits=Splits(train=parts["train"], val=parts["val"], test=parts["test"]), changed=", ".join(told)
    )


def _first(tasks: Sequence[Task], count: int) -> tuple[Task, ...]:
    return tuple(tasks[:count] if count else tasks)
