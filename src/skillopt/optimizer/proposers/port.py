"""The port of proposers: who turns the rollouts of a step into edits in the place of analysts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from skillopt.evaluation.runner import Evaluator
from skillopt.events.step import Step
from skillopt.models.port import Model
from skillopt.optimizer.minibatches import TriedTask
from skillopt.skill.document import ONE_DOCUMENT, EditableFiles
from skillopt.skill.edits import Edit
from skillopt.skill.folder import Skill
from skillopt.tasks.benchmark import Benchmark
from skillopt.tasks.rollout import Scored
from skillopt.tasks.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadEdit:
    """An edit that was tried and fixed nothing, with what the target answered under it."""

    edit: Edit
    answers: tuple[tuple[Task, Scored], ...] = ()

    def is_about(self, chunk: Sequence[TriedTask]) -> bool:
        """Whether it was meant for, or tried on, one of these tasks."""
        tasks = {*map(str, self.edit.evidence.get("tasks") or ()), *(task.id for task, _ in self.answers)}
        return any(tries.task.id in tasks for tries in chunk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that whoever proposes may know of a step beside its `Step`; of train tasks alone."""

    failed: tuple[TriedTask, ...]
    passed: tuple[TriedTask, ...] = ()
    limit: int | None = None
    """Edits that the step may take; None is as many as are good."""
    dead: tuple[DeadEdit, ...] = ()
    """Edits that were tried on these failures and fixed none; `proof` alone knows."""
    harmful: tuple[Edit, ...] = ()
    """Edits that broke tasks which worked."""
    kinds: Mapping[str, int] = field(default_factory=dict)
    """Held-out failures by the kind of their task."""


class Proposer(Protocol):
    """Proposes edits for a whole batch at once, instead of analysts, merging and ranking."""

    async def propose(self, step: Step, item: str, evidence: Evidence) -> Sequence[Edit]:
        """Edits of the skill of the step (`step.skill`), the best first; `step.memory` is the history of
        verdicts. `hunks.split` makes edits of a rewritten text.

        `item` tells the looks of one step apart. Equal questions must get equal answers after a stop, so what
        costs goes through the setup: its model and its agent are asked once and remembered. Raises `Unusable`
        for an answer that says nothing, which loses the step but not the run.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposerSetup:
    """What a proposer is built from; a plug-in is a callable from this to a `Proposer`, or to None, which
    leaves the proposing to the optimizer's analysts.
    """

    model: Model
    """The optimizer model. Replies are stored by place, and paid once."""
    seed: Skill
    """The skill that training started from, whose folder may carry files that are not trained."""
    agent: Callable[[Benchmark], Evaluator] | None = None
    """Runs tasks in the agent that `model.proposer` names; None where it names none."""
    editable: EditableFiles = ONE_DOCUMENT
    """Which files of the skill may change."""
    target_prompt: str = ""
    """The target's system prompt, with `{skill}` in it."""
    scoring_rule: str = ""
    """What passes, in words."""
