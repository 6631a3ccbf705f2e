"""The port of search strategies: the stages of a step after its rollouts were sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from skillopt.config.schema import Config
from skillopt.evaluation.leaks import LeakGuard
from skillopt.evaluation.stage import Evaluation
from skillopt.events.state import MemoryEntry, State
from skillopt.events.step import Step
from skillopt.gate.gate import Gate, Verdict
from skillopt.optimizer.optimizer import Optimizer
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.select import Selection
from skillopt.optimizer.update import Update
from skillopt.skill.edits import OPS, REWRITE, Edit
from skillopt.train.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCandidate:
    """A candidate of a step with the gate's verdict; the first is the bundle of everything selected."""

    update: Update
    verdict: Verdict

    @property
    def is_accepted(self) -> bool:
        return self.verdict.action == "accept"


@dataclass(eq=False, kw_only=True)
class StepFindings:
    """What a strategy has found in a step; each stage adds to it."""

    step: Step
    state: State
    """Where the run stood before the step."""
    rollouts: Evaluation
    """Those of the batch, which may still come in."""
    reflection: Reflection = field(default_factory=Reflection)
    selection: Selection = field(default_factory=Selection)
    tried: list[JudgedCandidate] = field(default_factory=list)
    """The candidates by their numbers, as `attempt` adds them."""
    memories: tuple[MemoryEntry, ...] | None = None
    """What later analysts read about the step; None is the bundle and its verdict."""
    settled: tuple[str, ...] = ()
    """The train tasks that need no further study."""
    unfinished: Callable[[], tuple[Update, str] | None] = lambda: None
    """A candidate of what was found so far and the gate's policy for it: judged and handed over where the
    budget ends the step. It takes no part in what follows: a larger budget goes on with the step.
    """

    @property
    def taken(self) -> JudgedCandidate:
        """The candidate that the step ends with: the last one accepted, else the first."""
        return next((trial for trial in reversed(self.tried) if trial.is_accepted), self.tried[0])


class Attempt(Protocol):
    """Puts a candidate to the gate: every change to the skill passes here."""

    async def __call__(
        self,
        findings: StepFindings,
        update: Update,
        *,
        over: JudgedCandidate | None = None,
        policy: str = "",
    ) -> JudgedCandidate:
        """The candidate, judged against the skill of the step and added to those tried.

        With `over`, an accepted candidate of this step, it is measured against that one. `policy` is that of
        the gate by default.
        """
        ...


class Strategy(Protocol):
    """Stages 2 to 6 of a step. Every choice is a function of what the run's database holds, so that a run
    ends the same at any concurrency, killed or not; rows are measured by `Evaluation` alone, and nothing of
    val reaches a prompt.
    """

    hands_over: bool = False
    """Whether a step may have something `unfinished`: then a gate's cost is set aside from the start."""

    def stages(self, findings: StepFindings) -> AsyncGenerator[str, None]:
        """Yield the name of every stage when it ends: `reflect`, which waits for the rollouts, `aggregate`,
        `select`, `update`, `evaluate`. A step most of whose reflections are unreadable is left after the
        first.
        """
        ...

    def enough(self, state: State) -> str:
        """Why no further step would help, or nothing: then the plan alone ends training."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyContext:
    """What a strategy works with; a plug-in is a callable from this to a `Strategy`."""

    optimizer: Optimizer
    gate: Gate
    plan: Plan
    attempt: Attempt
    expect: Callable[[], None]
    """To be called when a step has something that the gate will most likely take: what is needed only then
    may begin, in slots that stand empty.
    """
    guard: LeakGuard | None
    config: Config

    @property
    def hide(self) -> Callable[[str], str]:
        """Takes out of a text what later analysts may not read."""
        return str if self.guard is None else self.guard.hide


def edits_for_memory(edits: Sequence[Edit], hide: Callable[[str], str]) -> tuple[Edit, ...]:
    """Edits as the memory keeps them: what was tried, without the evidence; of a whole skill only what it
    says has changed.
    """
    return tuple(
        Edit(
            op=edit.op,
            target="" if edit.op == "append" else hide(edit.target),
            content="" if edit.op in ("delete", REWRITE) else hide(edit.content),
            evidence={
                key: list(map(hide, value)) if isinstance(value, list) else hide(value)
                for key in ("type", "title", "change_summary")
                if edit.op not in OPS and (value := edit.evidence.get(key)) is not None
            },
            path=edit.path,
        )
        for edit in edits
    )
