"""The port of search strategies: the stages of a step after its rollouts were sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from skillopt.config.schema import Config
from skillopt.evaluation.leaks import LeakGuard
from skillopt.evaluation.stage import Evaluation
from skillopt.events.state import MemoryEntry, State
from skillopt.events.step import Step
from skillopt.gate.gate import Gate, Verdict
from skillopt.optimizer.aggregate import Merged
from skillopt.optimizer.optimizer import Optimizer
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.select import Selection
from skillopt.optimizer.update import Update
from skillopt.skill.edits import OPS, REWRITE, Edit, Outcome
from skillopt.train.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCandidate:
    """A candidate of a step with the gate's verdict; the first is the bundle of everything selected."""

    update: Update
    verdict: Verdict

    @property
    def is_accepted(self) -> bool:
        return self.verdict.action == "accept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """What a step under way has found: a candidate, and the gate's policy for it."""

    step: Step
    update: Update
    policy: str


class Attempt(Protocol):
    """Puts a candidate to the gate: every change to the skill passes here."""

    async def __call__(
        self,
        step: Step,
        state: State,
        update: Update,
        *,
        number: int = 0,
        ended: Sequence[Outcome] = (),
        over: JudgedCandidate | None = None,
        policy: str = "",
    ) -> JudgedCandidate:
        """The candidate of that number, told and judged against the skill of the step.

        `ended` are proposals that came to an end before it. With `over`, an accepted candidate of this step,
        it is measured against that one. `policy` is that of the gate unless told.
        """
        ...


class Strategy(Protocol):
    """Stages 2 to 6 of a step. Every choice is a function of what the run's database holds, so that a run
    ends the same at any concurrency, killed or not; rows are measured by `Evaluation` alone, and nothing of
    val reaches a prompt.
    """

    hands_over: bool
    """Whether `so_far` may have something: then what a gate costs is set aside from the start."""

    async def reflect(self, step: Step, rollouts: Evaluation) -> Reflection:
        """Stage 2: proposals, while rollouts still come in."""
        ...

    async def aggregate(self, step: Step, reflection: Reflection) -> Merged:
        """Stage 3: one list of proposals."""
        ...

    async def select(self, step: Step, reflection: Reflection, merged: Merged) -> Selection:
        """Stage 4: those to take up."""
        ...

    async def update(self, step: Step, reflection: Reflection, selection: Selection) -> Update:
        """Stage 5: the candidate."""
        ...

    async def judge(
        self, step: Step, state: State, reflection: Reflection, selection: Selection, update: Update
    ) -> Sequence[JudgedCandidate]:
        """Stage 6: the candidates of the step by their numbers; the last accepted one is taken."""
        ...

    def so_far(self) -> Unfinished | None:
        """What the latest step has found, to be judged and handed over where the budget ended it. It takes no
        part in what follows: a larger budget goes on with the step.
        """
        ...

    def enough(self, state: State) -> str:
        """Why no further step would help, or nothing."""
        ...

    def memories(
        self,
        number: int,
        action: str,
        reflection: Reflection,
        tried: Sequence[JudgedCandidate],
        hide: Callable[[str], str],
    ) -> tuple[MemoryEntry, ...]:
        """What later analysts are told of that step; `hide` takes out what they may not read."""
        ...

    def settled(self, reflection: Reflection, tried: Sequence[JudgedCandidate]) -> tuple[str, ...]:
        """The train tasks that need no further study."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
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


def taken(tried: Sequence[JudgedCandidate]) -> JudgedCandidate:
    """The candidate that a step ends with: the last one accepted, else the first."""
    return next((one for one in reversed(tried) if one.is_accepted), tried[0])


def essentials(edits: Sequence[Edit], hide: Callable[[str], str]) -> tuple[Edit, ...]:
    """Edits as the memory keeps them: what was tried, without the evidence; of a whole skill only what it
    says has changed.
    """
    return tuple(
        Edit(
            op=edit.op,
            target="" if edit.op == "append" else hide(edit.target),
            content="" if edit.op in ("delete", REWRITE) else hide(edit.content),
            evidence={
                key: list(map(hide, said)) if isinstance(said, list) else hide(said)
                for key in ("type", "title", "change_summary")
                if edit.op not in OPS and (said := edit.evidence.get(key)) is not None
            },
            path=edit.path,
        )
        for edit in edits
    )
