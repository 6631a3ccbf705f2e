"""Loads what a run would work on: the tasks of the configured benchmark and the skill to start from."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from functools import partial

from skillopt.benchmarks import benchmarks
from skillopt.build.job import fold_count
from skillopt.config import Config
from skillopt.doctor._result import CheckResult
from skillopt.errors import SkillOptError
from skillopt.evaluation.look import scorer_trouble
from skillopt.redact import Scrubber
from skillopt.skill.document import Document
from skillopt.skill.folder import load_skill
from skillopt.tasks.benchmark import Benchmark, TellsBadRows
from skillopt.tasks.splits import Splits, told_bad_rows
from skillopt.tasks.task import SPLITS

_result = partial(CheckResult.of, "data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What loading found, and what the tasks ask of the models."""

    findings: tuple[CheckResult, ...]
    has_images: bool = False


def load_data(config: Config, scrubber: Scrubber) -> Loaded:
    """Load tasks and skill as a run would; nothing is sent and nothing written."""
    name = config.env.name
    if name is None:
        remedy = f"Name one with --env or in a config: {', '.join(benchmarks.names())}."
        return Loaded(findings=(_result("benchmark", "note", "none is configured", remedy),))
    try:
        benchmark: Benchmark = benchmarks.get(name)(config.env.settings)
        train, val, test = (tuple(benchmark.tasks(split)) for split in SPLITS)
        splits = Splits(train=train, val=val, test=test)
        folds = fold_count(config, benchmark, splits)
    # An import: a benchmark of another package without its dependencies.
    except (SkillOptError, ImportError, OSError) as error:
        return Loaded(findings=(_result(name, "fix", "its tasks do not load", str(error)),))
    counts: dict[str, int] = {split: len(splits.of(split)) for split in SPLITS}
    told = ", ".join(f"{count:,} {split}" for split, count in counts.items())
    if folds > 1:
        told = f"{sum(counts.values())} cross-fitted"
    return Loaded(
        findings=(
            _result(name, "fine", f"{told} tasks", facts=counts),
            *_bad_rows(name, benchmark),
            _skill(config, benchmark, scrubber),
            *_scorer(benchmark, splits),
        ),
        has_images=any(task.images for split in SPLITS for task in splits.of(split)),
    )


def _bad_rows(name: str, benchmark: Benchmark) -> list[CheckResult]:
    bad = benchmark.bad_rows if isinstance(benchmark, TellsBadRows) else ()
    return [_result(name, "fix", "rows give no task", told_bad_rows(bad))] if bad else []


def _scorer(benchmark: Benchmark, splits: Splits) -> list[CheckResult]:
    """Whether the scorer passes the first reference and fails nonsense; nothing where it cannot be tried."""
    trouble = asyncio.run(scorer_trouble(benchmark, splits.train[0]))
    return [_result("scorer", "fix", trouble, "Correct the reference or env.scorer.")] if trouble else []


def _skill(config: Config, benchmark: Benchmark, scrubber: Scrubber) -> CheckResult:
    path = config.env.skill_init
    try:
        document = Document(benchmark.seed_skill) if path is None else load_skill(path).document
    except (SkillOptError, OSError) as error:
        return _result("skill", "fix", "it does not load", str(error))
    if scrubber.scrub(document.whole) != document.whole:
        return _result(
            "skill", "fix", "it holds a credential", "Remove the credential from the skill's text."
        )
    where = "the benchmark's own" if path is None else os.path.normpath(path)
    return _result("skill", "fine", f"{where}, {len(document.rendered):,} characters")
