"""How rows of a file become splits: where they are read, which line is to blame, which settings say so."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from skillopt.errors import ConfigError, TaskError
from skillopt.executors import Executor
from skillopt.tasks.benchmark import Benchmark
from skillopt.tasks.judge import Judge, ScoredByJudge
from skillopt.tasks.protected import Protected, protected_by
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.rows import DataRow, load_rows
from skillopt.tasks.scorers import Scorer, rule_of, score_trajectory
from skillopt.tasks.scorers.own import CommandScorer
from skillopt.tasks.splits import ALIASES, Splits, format_bad_rows, listed, ratio_split
from skillopt.tasks.task import SPLITS, Split, Task


class CommonSettings(BaseModel):
    """The `env.*` keys of every benchmark whose tasks come from files."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
    usual: ClassVar[Path | None] = None
    """Where the splits of a published benchmark lie in a checkout, taken where nothing else is named."""

    split_mode: Literal["ratio", "split_dir"] | None = None
    """How tasks get their split: 'ratio' divides data_path, 'split_dir' reads folders. Unset: split_dir if
    that is given.
    """
    split_ratio: str = "2:1:7"
    """Weights of train, val and test under split_mode 'ratio'."""
    split_seed: int = 42
    """Seed of the shuffle under split_mode 'ratio'."""
    split_dir: Path | None = None
    """Folder with train/, val/ and perhaps test/, one data file in each."""
    data_path: Path | None = None
    """JSONL, JSON or CSV file with all tasks, or a folder that holds exactly one."""
    limit: int = Field(default=0, ge=0)
    """Use only the first tasks of each split; 0 is all of them."""


class LoadsRows(Protocol):
    """Reads the rows of a file or folder; those that cannot be read go to `bad`."""

    def __call__(self, path: Path, *, bad: list[TaskError]) -> list[DataRow]: ...


@dataclass(slots=True)
class TaskLoader:
    """Turns rows into tasks. A row that gives none, or the same task under the same id once more, is told in
    `bad` and left out; where all are bad, the first one's error is raised. Two tasks of one id are not for
    the loader to choose from.
    """

    to_task: Callable[[DataRow], Task]
    check: Callable[[Task], object] = bool
    """The scorer's word on a task; raises `TaskError`. Unset, every task is fine."""
    begin: Callable[[Sequence[DataRow]], object] = len
    """Called with the rows of a file before the first of them becomes a task."""
    bad: list[TaskError] = field(default_factory=list)

    def tasks(self, path: Path, load: LoadsRows = load_rows) -> list[Task]:
        """The tasks of a file or folder, in order."""
        bad: list[TaskError] = []
        rows = load(path, bad=bad)
        self.begin(rows)
        return self.usable(rows, bad)

    def usable(self, rows: Sequence[DataRow], bad: list[TaskError]) -> list[Task]:
        """The tasks of these rows, in order; `bad` is what could not even be read as a row."""
        made: list[Task] = []
        first: dict[str, tuple[Task, DataRow]] = {}
        twice: dict[str, str] = {}
        for row in rows:
            try:
                task = self.to_task(row)
                self.check(task)
                if "".join(task.id.splitlines()) != task.id:  # what follows would look like a line of ours
                    raise row.error(f"the id {task.id!r} holds a line break. Write it in one line")
                known, where = first.setdefault(task.id, (task, row))
                if where is not row and known == task:
                    raise row.error(f"is {task.id!r} of line {where.line} once more. Remove it")
            except TaskError as error:
                bad.append(error if str(row.path) in str(error) else row.error(str(error)))
            else:
                made.append(task)
                if where is not row:
                    twice.setdefault(task.id, f"{task.id} (lines {where.line} and {row.line})")
        if twice:
            are = "task id is" if len(twice) == 1 else "task ids are"
            raise TaskError(
                f"{rows[0].path}: {len(twice)} {are} used more than once: {listed(list(twice.values()))}."
                " Give every task its own id."
            )
        if bad and not made:
            raise bad[0]
        self.bad += bad
        return made


def load_splits(
    settings: CommonSettings,
    loader: TaskLoader,
    load: LoadsRows = load_rows,
    divide: Callable[[Sequence[Task]], Splits] | None = None,
) -> Splits:
    """Read what the settings name and split it. `load` reads the rows that a ratio divides, where they are
    spread over more than one file; `divide` divides them where it is not by ratio.
    """
    if divide is None:
        divide = partial(ratio_split, ratio=settings.split_ratio, seed=settings.split_seed)
    try:
        splits = _split(settings, loader, load, divide)
    except TaskError as error:
        if not loader.bad:
            raise
        raise TaskError(f"{error} {format_bad_rows(list(map(str, loader.bad)))}") from error
    return replace(splits, bad_rows=tuple(map(str, loader.bad))).limited(settings.limit)


def _split(
    settings: CommonSettings,
    loader: TaskLoader,
    load: LoadsRows,
    divide: Callable[[Sequence[Task]], Splits],
) -> Splits:
    folder = settings.split_dir
    if (
        folder is None
        and settings.data_path is None
        and settings.usual is not None
        and settings.usual.is_dir()
    ):
        folder = settings.usual
    mode = settings.split_mode or ("split_dir" if folder is not None else "ratio")
    if mode == "split_dir" or (folder is not None and folder == settings.usual):
        if folder is None:
            raise ConfigError(
                "env.split_mode is 'split_dir' but env.split_dir is not set. Name the folder that holds"
                " train/, val/ and test/."
            )
        return _from_folders(folder, loader)
    if settings.data_path is None:
        raise ConfigError(
            "There are no tasks: set env.data_path to a JSONL, JSON or CSV file, or env.split_dir"
            + (f" (without them, {settings.usual} is read where it exists)." if settings.usual else ".")
        )
    return divide(loader.tasks(settings.data_path, load))


def package_text(name: str, folder: str = "") -> str:
    """A prompt or seed skill that ships with the package, beside all benchmarks or in the folder of one."""
    return (files("skillopt.benchmarks") / folder / "texts" / name).read_text(encoding="utf-8")


def published_defaults(workers: int, **more: Any) -> dict[str, Any]:
    """The configuration under which the public figures of a benchmark were measured, without what we added to
    the loop.
    """
    return {
        "optimizer.skip_unchanged_epochs": False,
        "optimizer.salvage": False,
        "gate.leak_guard": False,
        "evaluation.repeats": 1,
        "env.workers": workers,
        "train.train_size": 0,
        "env.max_completion_tokens": 16384,
        **{f"env.{name}": value for name, value in more.items()},
    }


class SplitBenchmark(Benchmark):
    """What all benchmarks with tasks from files share."""

    def __init__(
        self, *, splits: Splits, system: str, seed_skill: str, prompts: Mapping[str, str] | None = None
    ) -> None:
        """`prompts` are those of the optimizer's stages that are not the generic ones."""
        self.prompts = {**(prompts or {}), "rollout": system}
        self.seed_skill = seed_skill
        self.bad_rows = splits.bad_rows
        self._splits = splits

    def tasks(self, split: Split) -> Sequence[Task]:
        """The tasks of a split in their fixed order."""
        return self._splits.of(split)


class QuestionBenchmark(SplitBenchmark):
    """A benchmark in which the question is all there is; its one scorer checks every task when made."""

    def __init__(self, *, scorer: Scorer, name: str = "", **texts: Any) -> None:
        """`texts` are those of `SplitBenchmark`; the name may be one of the class."""
        super().__init__(**texts)
        self.name = name or self.name
        self.scorer_version = scorer.version
        self.scoring_rule = rule_of(scorer)
        self.graded = scorer.graded
        self.wants_judge = isinstance(scorer, ScoredByJudge)
        self._scorer = scorer
        for split in SPLITS:
            for task in self.tasks(split):
                scorer.check_task(task)

    def programs_in(self, executor: Executor) -> Benchmark:
        """The program may be the scorer."""
        if not isinstance(self._scorer, CommandScorer):
            return self
        there = copy.copy(self)
        there._scorer = replace(self._scorer, executor=executor)
        return there

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Score with the benchmark's scorer."""
        return await score_trajectory(self._scorer, task, trajectory)

    async def score_with(self, judge: Judge, task: Task, trajectory: Trajectory) -> Score:
        """Score with a scorer that needs a judge."""
        return await score_trajectory(self._scorer, task, trajectory, judge)

    def protected(self, task: Task) -> Protected:
        """What the scorer says that a skill may not hold."""
        return protected_by(self._scorer, task)


def _from_folders(root: Path, loader: TaskLoader) -> Splits:
    if not root.is_dir():
        raise TaskError(f"env.split_dir: there is no folder {root}. Correct the path.")
    parts: dict[Split, tuple[Task, ...]] = {}
    for split in SPLITS:
        folders = [
            root / alias for alias, meant in ALIASES.items() if meant == split and (root / alias).is_dir()
        ]
        if len(folders) > 1:
            both = " and ".join(folder.name for folder in folders)
            raise TaskError(f"{root} has {both}, which are both the {split} split. Keep one.")
        if not folders and split != "test":
            raise TaskError(
                f"{root} has no folder {split}/ with the {split} tasks. Add it, or set env.data_path and"
                " env.split_mode: ratio."
            )
        parts[split] = tuple(loader.tasks(folders[0])) if folders else ()
    return Splits(train=parts["train"], val=parts["val"], test=parts["test"])
