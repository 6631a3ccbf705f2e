"""The base class of every benchmark, and the ports of the environments that tasks are worked on in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from pydantic import BaseModel

from skillopt.errors import TaskError
from skillopt.executors import Executor
from skillopt.messages import Tool
from skillopt.tasks.judge import Judge
from skillopt.tasks.protected import Protected, texts_of
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.rows import DataRow, load_rows
from skillopt.tasks.task import Split, Task

OPTIMIZER_STAGES = (
    *("analyst_failure", "analyst_success", "merge", "ranking", "repair", "rewrite", "lr_autonomous"),
    *("appendix_consolidate", "slow_update", "meta_skill", "analyst_proof", "joining"),
)
"""The optimizer's stages whose prompt a benchmark may bring along."""
AGENT_PROMPT = "rollout_agent"
"""The prompt that takes the place of `rollout` for an agent with tools of its own, where `rollout` speaks of
the environment's.
"""


class Environment(Protocol):
    """The surroundings of one rollout. The harness drives it; it never calls a model."""

    tools: Sequence[Tool]
    max_turns: int
    """Replies of the model that a rollout may take; a rollout that needs more ends with the failure `turns`.
    """

    async def step(self, name: str, arguments: Mapping[str, object]) -> str:
        """Do what the tool call says and return what is seen: a wrong call is an observation, no error."""
        ...

    async def close(self) -> None:
        """Free everything; called once, also after an error."""
        ...


@runtime_checkable
class Conversation(Environment, Protocol):
    """An environment that can also be worked in by plain text, as the harness `chat` does."""

    async def hear(self, reply: str) -> str | None:
        """Do what the reply says and return what is observed; None at the end of the conversation."""
        ...


@runtime_checkable
class Episode(Environment, Protocol):
    """An environment that can come to an end of its own, such as a game that is won."""

    done: bool
    """True once nothing more can happen: the harness ends the rollout without asking the model again."""
    failure: str | None
    """How the target failed when it is done, in the words of `Trajectory.failure`; None: the score tells."""


@runtime_checkable
class Reading(Environment, Protocol):
    """An environment whose tools only read documents: an agent is given these themselves, read-only."""

    documents: Sequence[Path]
    """Files with different names, and nothing that the target may not see."""


@runtime_checkable
class Workplace(Environment, Protocol):
    """An environment that is a folder, for agents with tools of their own; other harnesses get no tools."""

    async def furnish(self, folder: Path) -> None:
        """Fill the agent's empty folder. Raises `Fault` where it cannot."""
        ...

    async def outcome(self, folder: Path) -> Mapping[str, str]:
        """What there is to know after the work beside changed files, by name. Trusts no file of it."""
        ...


class Benchmark:
    """Tasks with a way to score them: the base class, with a default for all that is optional.

    A subclass has a name, prompts, a seed skill and a scorer's version, and says what `tasks` and `score` do.
    It is also its own plug-in: a class with `Settings` that is made from them. An object of another class
    with the same attributes and methods will do as well, see `as_benchmark`.
    """

    name: str
    prompts: Mapping[str, str]
    """Stage to text. `rollout` is the system prompt with `{skill}` in it, `rollout_agent` perhaps another one
    for agents with tools of their own; optimizer stages override the generic prompt of that name.
    """
    seed_skill: str
    """The skill a run starts from when the user names none."""
    scorer_version: str
    """Changes whenever the same answer could get another score."""
    graded: bool | None = None
    """True when the scorer gives partial credit and has no pass mark of its own: the gate then reads soft
    unless told otherwise.

    None when that is not known before the first scores are in.
    """
    scoring_rule: str = ""
    """How it scores, in words that a skill may hold; whoever proposes edits reads it."""
    own_scorer: bool = False
    """Whether a person chose the scorer: it is tried before anything is paid, and others are advised."""
    undivided: bool = False
    """Whether nobody chose how the tasks are divided: a run may then divide them otherwise."""
    bad_rows: Sequence[str] = ()
    """File, line and reason of each row that gave no task and was left out."""
    wants_judge: bool = False
    """Whether a judge scores: `score_with` is then called instead of `score`."""
    uses_executor: bool = False
    """Whether environments work outside the event loop: a run then calls `open_in` instead of `open`."""

    Settings: ClassVar[type[BaseModel]]
    """The `env.*` keys that the plug-in reads, typed and documented per field; any other key is an error."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Dotted configuration keys that it sets when the user did not, e.g. `{"evaluation.repeats": 1}`."""
    has_environment: ClassVar[bool] = False
    """Whether its tasks are worked on in an environment, in one of its modes at least."""
    offers_documents: ClassVar[bool] = False
    """Whether all its environments are `Reading`, so that agents can work in it too."""
    shows_images: ClassVar[bool] = False
    """Whether its tasks are about images: what takes none cannot run it."""
    published_ids: ClassVar[tuple[str, ...]] = ()
    """The fields that hold a row's id, where splits are published as ids (`skillopt config data`)."""

    def tasks(self, split: Split) -> Sequence[Task]:
        """The tasks of a split in their fixed order; the same call gives equal tasks."""
        raise NotImplementedError

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Score a finished trajectory. Raise `ScoringError` when the scorer itself failed: never a zero."""
        raise NotImplementedError

    async def score_with(self, judge: Judge, task: Task, trajectory: Trajectory) -> Score:
        """The same with a judge, whose errors go on to the caller."""
        return await self.score(task, trajectory)

    def open(self, task: Task) -> Environment | None:
        """A fresh environment for one rollout, or None where the question is all there is."""
        return None

    def open_in(self, executor: Executor, task: Task) -> Environment | None:
        """The same, with its work done in the executor."""
        return self.open(task)

    def programs_in(self, executor: Executor) -> Benchmark:
        """The same benchmark, whose programs - the target's, or one that scores - the executor runs."""
        return self

    def protected(self, task: Task) -> Protected:
        """What a skill may not hold of a task: by default every text of its reference."""
        return Protected(references=tuple(texts_of(task.reference)))

    @classmethod
    def harness(cls, settings: Any) -> str:
        """The harness that tasks run under when the target names none."""
        return "chat"

    @classmethod
    def raw_rows(cls, source: Path, bad: list[TaskError]) -> list[DataRow]:
        """The rows of the published data; what is wrong with those that cannot be read goes to `bad`."""
        return load_rows(source, bad=bad)

    @classmethod
    def row_id(cls, row: DataRow) -> str | None:
        """What a list of ids calls the row; None where it has no id."""
        return row.name(*cls.published_ids)

    @classmethod
    def moved(cls, row: DataRow, folder: Path) -> Mapping[str, Any]:
        """The row as it is written into a folder of its own: paths in it still lead to their files."""
        return row.data


def as_benchmark(given: object) -> Benchmark:
    """The benchmark itself; an object of another class becomes one, with defaults for what it lacks."""
    if isinstance(given, Benchmark):
        return given
    made = Benchmark()
    for name in {*vars(Benchmark), *Benchmark.__annotations__}:
        if not name.startswith("_") and hasattr(given, name):
            setattr(made, name, getattr(given, name))
    return made


class BenchmarkPlugin(Protocol):
    """`PLUGIN` of every file in `benchmarks/`: builds a benchmark from its own part of the `env` section.

    A subclass of `Benchmark` with `Settings` is one. Any other may leave out the members that `Benchmark`
    has for plug-ins.
    """

    Settings: type[BaseModel]
    defaults: Mapping[str, Any]

    def __call__(self, settings: Any) -> Benchmark: ...


def usual_harness(plugin: BenchmarkPlugin, settings: Any) -> str:
    """The harness of a benchmark's tasks when the target names none."""
    return str(getattr(plugin, "harness", Benchmark.harness)(settings))
