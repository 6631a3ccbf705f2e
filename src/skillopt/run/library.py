"""SkillOpt as a library: train, evaluate, compare and estimate with plain arguments, strings or objects."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypedDict, TypeGuard, TypeVar, cast

from pydantic import BaseModel, ConfigDict

from skillopt.benchmarks import benchmarks
from skillopt.benchmarks.own import OwnBenchmark, OwnSettings
from skillopt.config.load import Resolved, load
from skillopt.config.service import PublicNames
from skillopt.errors import ConfigError, UsageError, stopped_once_paid
from skillopt.events import Sink
from skillopt.harnesses import Harness, harnesses
from skillopt.harnesses.function import FunctionTarget
from skillopt.messages import Reply, Request
from skillopt.models import PROVIDERS, Model, Provider
from skillopt.process.waiting import run_gently
from skillopt.run import Job, open_run, prepare
from skillopt.run.addresses import asked_by, at_kept, kept_addresses
from skillopt.run.estimation import Estimate
from skillopt.run.estimation import estimate as estimated
from skillopt.run.evaluation import (
    Matrix,
    check_unseen,
    eval_folder,
    eval_splits,
    matrix,
    skill_named,
    target_only,
)
from skillopt.run.results import Evaluated, Versus
from skillopt.run.training import Result, train
from skillopt.runs.reader import is_run
from skillopt.skill.folder import Skill
from skillopt.tasks.benchmark import Benchmark
from skillopt.tasks.scorers import Scorer
from skillopt.tasks.task import Task

if TYPE_CHECKING:
    from typing_extensions import Unpack

Rows: TypeAlias = Sequence[Task | Mapping[str, Any]]
Tasks: TypeAlias = str | Path | Rows | Mapping[str, Rows]
"""A JSONL, JSON or CSV file, rows, or rows by split."""
Scoring: TypeAlias = str | Callable[..., Any] | Scorer
"""A scorer's name, a function `(task, answer) -> bool | float | Score`, `cmd: program`, or a `Scorer`."""
Target: TypeAlias = str | Model | Harness | Callable[..., Any]
"""A model string, `cmd: program`, an address, `file.py:function`, or an object: a function `(task, skill) ->
answer`, a `Model`, or a `Harness`.
"""
SkillLike: TypeAlias = str | Path | Skill
P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
_GIVEN = "given"
"""The provider and the harness under which objects stand in model strings."""


class Work(TypedDict, total=False):
    """What all functions of this module take: what to work on, and how."""

    tasks: Tasks | None
    """Your own tasks, which need a `scorer`."""
    scorer: Scoring | None
    benchmark: str | Benchmark | None
    """By name or as an object, in place of tasks of your own."""
    harness: str | Harness | None
    """How a model works on a task."""
    budget: str | None
    """Reads like "$2", "200k tokens" or "500 calls"."""
    out: str | Path | None
    """The run folder; calling again with the same arguments resumes."""
    options: Mapping[str, Any] | None
    """Dotted configuration keys such as {"train.num_epochs": 2}."""
    on_event: Sink | None
    """Hears every event."""
    same_model: bool | None
    """The models at these addresses are those of earlier ones: go on with what they answered there."""


def _spelled(function: F) -> F:
    """The function with the keys of `Work` in its signature, as help and errors show it."""
    own = inspect.signature(function)
    named = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind.__forward_arg__)
        for name, kind in Work.__annotations__.items()
    ]
    function.__signature__ = own.replace(parameters=[*named, *shared])  # type: ignore[attr-defined]
    return function


def _sync(work: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """The same function for callers without an event loop."""
    name, signature = work.__name__[1:], inspect.signature(work)

    @functools.wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            raise UsageError(
                f"skillopt.{name} starts an event loop, and one is running here. Use: await"
                f" skillopt.a{name}(...)"
            )
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None  # the caller knows no other name
        return run_gently(work(*args, **kwargs))

    run.__name__ = run.__qualname__ = name
    return run


@_spelled
async def aoptimize(
    *, target: Target, optimizer: str | Model, skill: str | Path | None = None, **work: Unpack[Work]
) -> Result:
    """Train a skill and return the result.

    `target` and `optimizer` are model strings such as `openai:gpt-5.4-mini`, or `Model` objects. An agent of
    your own as target is a function `(task, skill) -> answer`, `cmd: program`, an address, or a `Harness`
    that asks no model of ours; `harness` says how a model works on a task.
    Work on your own `tasks` (a file, rows, or rows by split) with a `scorer`, or on a `benchmark`, by name or
    as an object. `skill` is a folder with SKILL.md or one .md file; without it the benchmark's own seed is
    used. The other arguments are those of `Work`. Objects are closed with the run.

    `optimize` starts an event loop; inside a running one, await `aoptimize`.
    """
    given = _Given(target=target, optimizer=optimizer, skill=skill, **work)
    with given.lent() as resolved:
        job = given.job(resolved)
        folder, same = job.folder(Path.cwd()), bool(given.same_model)
        job = at_kept(job, kept_addresses(asked_by(job), folder, job.identity(), same_model=same))
        async with open_run(job, job.folder(Path.cwd()), sinks=given.sinks) as opened:
            return await train(opened)


@_spelled
async def aevaluate(
    skill: SkillLike | Mapping[str, SkillLike],
    *,
    target: Target,
    split: str = "all",
    repeats: int = 1,
    **work: Unpack[Work],
) -> list[Evaluated]:
    """Measure skills without changing them: one result for each skill and split, or it raises why not.

    `skill` is one, or several by the name that stands in the results; each is a folder with SKILL.md, an
    .md file, a run folder for its best skill, or `none` for no skill. `split` is train, val, test or all;
    `repeats` is the number of draws per task. The other arguments are those of `optimize`. What was measured
    before in the same folder is not paid again.
    """
    return (await _Given(target=target, **work).measure(_named(skill), split, repeats)).whole()


@_spelled
async def acompare(
    skill: SkillLike,
    against: SkillLike,
    *,
    target: Target,
    split: str = "all",
    repeats: int = 1,
    **work: Unpack[Work],
) -> list[Versus]:
    """Measure two skills on the same tasks and compare them in pairs: one comparison for each split.

    The arguments are those of `evaluate`.
    """
    (rival,) = _named(against)
    skills = {**_named(skill), **_named(against)}
    if len(skills) < 2:
        raise UsageError("A comparison needs two skills, and both arguments name the same one.")
    found = await _Given(target=target, **work).measure(skills, split, repeats, against=rival)
    found.whole()
    return list(found.compared)


optimize = _sync(aoptimize)
evaluate = _sync(aevaluate)
compare = _sync(acompare)


@_spelled
def estimate(
    *, target: Target, optimizer: str | Model, skill: str | Path | None = None, **work: Unpack[Work]
) -> Estimate:
    """Say what `optimize` will probably take, stage by stage. Nothing is sent, so no key is needed."""
    given = _Given(target=target, optimizer=optimizer, skill=skill, **work)
    with given.lent() as resolved:
        return estimated(given.job(resolved, needs_key=False))


class _NoSettings(BaseModel):
    """A benchmark object has no keys: it is complete."""

    model_config = ConfigDict(extra="forbid")


class _GivenBenchmark:
    """A benchmark object in the place of a plug-in."""

    Settings: type[BaseModel] = _NoSettings
    defaults: Mapping[str, Any] = {}

    def __init__(self, benchmark: Benchmark) -> None:
        self._benchmark = benchmark

    def __call__(self, settings: Any) -> Benchmark:
        return self._benchmark


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The arguments that the functions of this module share. Objects are lent to the registries under a name,
    so that everything behind works with names.
    """

    target: Target
    optimizer: str | Model | None = None
    harness: str | Harness | None = None
    skill: str | Path | None = None
    tasks: Tasks | None = None
    scorer: Scoring | None = None
    benchmark: str | Benchmark | None = None
    budget: str | None = None
    out: str | Path | None = None
    options: Mapping[str, Any] | None = None
    on_event: Sink | None = None
    same_model: bool | None = None

    @property
    def sinks(self) -> list[Sink]:
        return [] if self.on_event is None else [self.on_event]

    @contextmanager
    def lent(self) -> Iterator[Resolved]:
        """The configuration that the arguments mean, for as long as the objects are lent."""
        options = self.options or {}
        needs_tasks = options.get("train.part") != "description"
        if (self.tasks is None) is (self.benchmark is None) and (needs_tasks or self.tasks is not None):
            raise UsageError("Say what to work on: tasks with a scorer, or a benchmark, and not both.")
        if self.benchmark is not None and self.scorer is not None:
            raise UsageError("A benchmark scores its tasks itself, so a scorer cannot be used with it.")
        with stopped_once_paid(), ExitStack() as stack:
            flags = self._flags(stack)
            settings = [
                f"{key}={value if isinstance(value, str) else json.dumps(value)}"
                for key, value in options.items()
            ]
            yield load(None, flags=flags, options=settings, environ=os.environ, cwd=Path.cwd())

    def job(self, resolved: Resolved, *, needs_key: bool = True) -> Job:
        """What the arguments work on, loaded and checked."""
        benchmark, own = None, resolved.config.env.settings
        settings = own if isinstance(own, OwnSettings) else OwnSettings()
        if isinstance(self.tasks, (str, Path)):
            if not isinstance(self.scorer, (str, type(None))):
                benchmark = OwnBenchmark(settings, self.scorer)
        elif self.tasks is not None:
            benchmark = OwnBenchmark.from_tasks(self.tasks, scorer=self.scorer, settings=settings)
        return prepare(resolved, benchmark=benchmark, needs_key=needs_key)

    async def measure(
        self, skills: Mapping[str, SkillLike], split: str, repeats: int, against: str | None = None
    ) -> Matrix:
        """Every skill on every split that is named."""
        with self.lent() as resolved:
            job = self.job(target_only(resolved))
            asked = [(role, spec) for role, spec in asked_by(job) if role in ("target", "judge")]
            folder, same = eval_folder(job, resolved), bool(self.same_model)
            job = at_kept(job, kept_addresses(asked, folder, job.eval_identity(), same_model=same))
            loaded = {
                name: each if isinstance(each, Skill) else skill_named(str(each))
                for name, each in skills.items()
            }
            splits = eval_splits(split, job)
            paths = [Path(each) for each in skills.values() if isinstance(each, (str, Path))]
            check_unseen(loaded, [path for path in paths if is_run(path)], job, splits)
            folder = eval_folder(job, resolved)
            return await matrix(
                job, loaded, splits, folder, against=against, repeats=repeats, sinks=self.sinks
            )

    def _flags(self, stack: ExitStack) -> dict[str, object]:
        """The arguments as flags, with every object lent for as long as the stack is open."""
        models: dict[str, Model] = {}
        target, optimizer, harness = self.target, self.optimizer, self.harness
        if _is_harness(target):
            harness, target = target, _label(models, _NotAsked(target.name))
        elif _is_function(target):
            if harness is not None:
                raise UsageError("A function as target is an agent by itself. Remove harness.")
            stack.enter_context(harnesses.lend(_GIVEN, FunctionTarget(target)))
            harness, target = _GIVEN, _label(models, _NotAsked(getattr(target, "__name__", "function")))
        elif not isinstance(target, str):
            target = _label(models, cast("Model", target))
        if optimizer is not None and not isinstance(optimizer, str):
            optimizer = _label(models, optimizer)
        if models:
            names = PublicNames(keys={})
            provider = Provider(open=lambda spec: models[spec.name], names=names)
            stack.enter_context(PROVIDERS.lend(_GIVEN, provider))
        if harness is not None and not isinstance(harness, str):
            made = harness
            stack.enter_context(harnesses.lend(_GIVEN, lambda setup: made))
            harness = _GIVEN
        benchmark = self.benchmark or (None if self.tasks is None else "own")
        if benchmark is not None and not isinstance(benchmark, str):
            stack.enter_context(benchmarks.lend(benchmark.name, _GivenBenchmark(benchmark)))
            benchmark = benchmark.name
        return {
            "env": benchmark,
            "target_model": target if harness is None else f"{harness}/{target}",
            "optimizer_model": optimizer,
            "skill_init": self.skill if self.skill is None else str(self.skill),
            "out_root": self.out if self.out is None else str(self.out),
            "budget": self.budget,
            "data_path": str(self.tasks) if isinstance(self.tasks, (str, Path)) else None,
            "scorer": self.scorer if isinstance(self.scorer, str) else None,
        }


class _NotAsked:
    """Stands for the model of a harness that asks none of ours."""

    def __init__(self, name: str) -> None:
        self.endpoint = name
        self.fingerprint: Mapping[str, Any] = {"provider": _GIVEN, "model": name}

    async def complete(self, request: Request) -> Reply:
        raise ConfigError(
            f"The harness {self.endpoint!r} asks a model of ours. Name one: target=MODEL, harness=HARNESS."
        )

    async def close(self) -> None:
        """Nothing is open."""


def _is_harness(given: object) -> TypeGuard[Harness]:
    return hasattr(given, "run") and hasattr(given, "asks_model")


def _is_function(given: object) -> TypeGuard[Callable[..., Any]]:
    return callable(given) and not hasattr(given, "complete")


def _label(models: dict[str, Model], model: Model) -> str:
    """The model string of an object; the same in every process, so that a run can be resumed."""
    name = str(model.fingerprint.get("model") or type(model).__name__)
    while models.get(name, model) is not model:
        name = f"{name}-2"
    models[name] = model
    return f"{_GIVEN}:{name}"


def _named(skills: SkillLike | Mapping[str, SkillLike]) -> dict[str, SkillLike]:
    if isinstance(skills, Mapping):
        return dict(skills)
    return {skills.name if isinstance(skills, Skill) else str(skills): skills}
