"""Divides the tasks of a job: as its settings say, or as the run did that stands in the place of a config."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillopt.config.load import Resolved
from skillopt.config.model_string import provider_of
from skillopt.config.schema import Config
from skillopt.errors import ConfigError
from skillopt.runs.answers import TASKS, stored_tasks
from skillopt.runs.log import DATABASE
from skillopt.runs.stored import noted_identity
from skillopt.tasks.benchmark import Benchmark, Undivided
from skillopt.tasks.splits import FEWEST, FOLDS, MANY, Splits, in_folds, in_rounds, rounds_for
from skillopt.tasks.task import SPLITS, Split, Task


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
    undivided = isinstance(benchmark, Undivided) and benchmark.undivided
    if said is not None:
        if said > 1 and not undivided:
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
    is_few = undivided and FEWEST <= tasks < MANY
    is_tested = evaluation.eval_test is not False and evaluation.use_gate
    return FOLDS if is_few and is_tested and not (chosen or by_hand) else 1


def tasks_digest(tasks: Iterable[Task]) -> str:
    """What identifies a list of tasks: their content, in order."""
    return digest([task.full_hash for task in tasks])


def digest(value: Any) -> str:
    """A hash of plain values."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


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
    """The tasks of a run in its splits, found by their ids, and how many are gone or new."""
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
