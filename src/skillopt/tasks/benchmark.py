"""The port every benchmark implements, and the one for tasks that need more than a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from pydantic import BaseModel

from skillopt.executors import Executor
from skillopt.messages import Tool
from skillopt.tasks.judge import ScoredByJudge
from skillopt.tasks.rollout import Score, Trajectory
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
        """Do what the reply says and return what is observed; None when nothing more is to be said."""
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
    """An environment that is a folder, in which an agent works with its own tools; it has none for others."""

    async def furnish(self, folder: Path) -> None:
        """Fill the agent's empty folder. Raises `Fault` where it cannot."""
        ...

    async def outcome(self, folder: Path) -> Mapping[str, str]:
        """What there is to know after the work beside changed files, by name. Trusts no file of it."""
        ...


@runtime_checkable
class Benchmark(Protocol):
    """Tasks with a way to score them."""

    name: str
    prompts: Mapping[str, str]
    """Stage to text. `rollout` is the system prompt with `{skill}` in it, `rollout_agent` perhaps another one
    for agents with tools of their own; optimizer stages override the generic prompt of that name.
    """
    seed_skill: str
    """The skill a run starts from when the user names none."""
    scorer_version: str
    """Changes whenever the same answer could get another score."""
    graded: bool | None
    """True when the scorer gives partial credit and has no pass mark of its own: the gate then reads soft
    unless told otherwise.

    None when that is not known before the first scores are in.
    """

    def tasks(self, split: Split) -> Sequence[Task]:
        """The tasks of a split in their fixed order; the same call gives equal tasks."""
        ...

    def open(self, task: Task) -> Environment | None:
        """A fresh environment for one rollout, or None where the question is all there is."""
        ...

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Score a finished trajectory. Raise `ScoringError` when the scorer itself failed: never a zero."""
        ...


@runtime_checkable
class UsesExecutor(Protocol):
    """A benchmark whose environments work outside the event loop: a run calls `open_in`, not `open`."""

    def open_in(self, executor: Executor, task: Task) -> Environment:
        """A fresh environment for one rollout that does its work in the executor."""
        ...


@runtime_checkable
class RunsPrograms(Protocol):
    """A benchmark that runs programs: those of the target, or one that scores."""

    def programs_in(self, executor: Executor) -> Benchmark:
        """The same benchmark, whose programs the executor runs."""
        ...


@runtime_checkable
class SaysRule(Protocol):
    """A benchmark that can say how it scores; who proposes edits is told."""

    scoring_rule: str
    """In words, and nothing that a skill may not hold."""


@runtime_checkable
class Undivided(Protocol):
    """A benchmark whose splits may be a ratio that nobody chose: a run may divide its tasks otherwise."""

    undivided: bool


@runtime_checkable
class TellsBadRows(Protocol):
    """A benchmark read from files, of which a row that gives no task costs that row alone."""

    bad_rows: Sequence[str]
    """File, line and reason of each."""


@runtime_checkable
class WantsJudge(ScoredByJudge, Protocol):
    """A benchmark that may be scored by a judge; `score_with` is then called instead of `score`."""

    wants_judge: bool
    """Whether it really is: one class of benchmark may serve scorers of both kinds."""


class BenchmarkPlugin(Protocol):
    """`PLUGIN` of every file in `benchmarks/`: builds a benchmark from its own part of the `env` section."""

    Settings: type[BaseModel]
    """The `env.*` keys this benchmark reads, typed and documented per field; any other key is an error."""
    defaults: Mapping[str, Any]
    """Dotted configuration keys this benchmark sets when the user did not, e.g. `{"evaluation.repeats": 1}`.
    """

    def __call__(self, settings: Any) -> Benchmark: ...


@runtime_checkable
class ChoosesHarness(Protocol):
    """A benchmark plug-in whose tasks are not worked on in one reply."""

    def harness(self, settings: Any) -> str:
        """The harness that the tasks run under when the target names none."""
        ...


@runtime_checkable
class OffersDocuments(Protocol):
    """A benchmark plug-in whose environments are all `Reading`, so that agents can work in it too."""

    offers_documents: ClassVar[Literal[True]]


@runtime_checkable
class ShowsImages(Protocol):
    """A benchmark plug-in whose tasks are about images: what takes none cannot run it."""

    shows_images: ClassVar[Literal[True]]
