"""The doubles of a rehearsal: target, optimizer, judge, harness and tasks of the simulated rule world, with
the job's own texts around them and replies of typical length.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from skillopt.errors import ScoringError
from skillopt.evaluation.judge import judge_prompt
from skillopt.events.step import Step
from skillopt.harnesses.port import Session, rollout_prompt, system_prompt
from skillopt.messages import Message, Reply, Request, Usage
from skillopt.models.world.optimizer import ALL_RULES, propose, shown_skill
from skillopt.models.world.rules import CASE, WorldRules, chance, code_of, is_solved
from skillopt.optimizer.ask import trajectory
from skillopt.optimizer.proposers.port import Evidence
from skillopt.run.estimation.counting import CHARS_A_TOKEN, CallCounter
from skillopt.skill.edits import Edit, parse_edit
from skillopt.tasks.benchmark import Benchmark, Environment
from skillopt.tasks.judge import Finding
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.splits import Splits
from skillopt.tasks.task import Split, Task

EDIT_SHARE = 8
"""An edit takes one part in so many of the reply that proposes it."""
OBSERVED_CHARS = 2_000
"""What a turn with tools shows the target."""
SHOWN_CHARS = 4_000
"""What an agent that proposes reads of a rollout."""
_WORDS = "and so on with some more words of the same kind "


@dataclass(slots=True, kw_only=True)
class _CountingModel:
    """A model of the rule world whose replies have the assumed length."""

    counter: CallCounter
    rules: WorldRules
    reply_tokens: int | None
    """None is as long as the simulated world's own."""
    endpoint: str = "rehearsal"
    fingerprint: Mapping[str, Any] = field(default_factory=lambda: {"provider": "rehearsal"})
    concurrency: int | None = None

    async def close(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class CountingTarget(_CountingModel):
    """A target that solves a case of the rule world as its skill allows."""

    carried_tokens: float = 0
    """What every question holds beside its text: images, and what an agent sends of its own."""

    async def complete(self, request: Request) -> Reply:
        """Answer, and count the call."""
        case = _case_of(request.messages[1].content)
        solved = is_solved(case, _rules_in(request.messages[0].content))
        if chance("noise", self.rules.seed, request.place, request.draw) < self.rules.noise:
            solved = not solved
        text = f"<answer>{code_of(case) if solved else 'unknown'}</answer>"
        if self.reply_tokens is not None:
            text += _filler(self.reply_tokens * CHARS_A_TOKEN - len(text))
        usage = _usage(request, text, self.carried_tokens)
        self.counter.target(request.stage, usage.input_tokens, usage.output_tokens)
        return Reply(text=text, finish="stop", usage=usage, seconds=1.0)


@dataclass(slots=True, kw_only=True)
class CountingOptimizer(_CountingModel):
    """The optimizer of the rule world, also with edits of the assumed length."""

    finds_nothing: bool = False

    async def complete(self, request: Request) -> Reply:
        """Propose, and count the call."""
        text = json.dumps(self.said(request), ensure_ascii=False)
        if self.reply_tokens is not None:
            text += " " * (self.reply_tokens * CHARS_A_TOKEN - len(text))
        usage = _usage(request, text)
        self.counter.optimizer(request.stage, usage.input_tokens, usage.output_tokens)
        return Reply(text=text, finish="stop", usage=usage, seconds=1.0)

    def said(self, request: Request) -> dict[str, Any]:
        """What it answers."""
        said = propose(request, self.rules)
        patch = said if request.stage == "analyst_proof" else said.get("patch", {})
        for name in ("edits", "revise_suggestions", "skill_candidates"):
            if name in patch:
                patch[name] = [] if self.finds_nothing else [self._worded(one) for one in patch[name]]
        if self.finds_nothing and "changes" in said:  # a whole skill without any
            said["new_skill"] = shown_skill("\n".join(message.content for message in request.messages))
        if self.finds_nothing:
            said |= {name: "" for name in ("slow_update_content", "meta_skill_content") if name in said}
        return said

    def _worded(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """The item as long as a real optimizer's; the rule keeps a line of its own, by which it is found."""
        if self.reply_tokens is None:
            return dict(item)
        size = self.reply_tokens * CHARS_A_TOKEN // EDIT_SHARE
        return {
            key: f"{value}\n  {_filler(size - len(value))}" if key in ("content", "instruction") else value
            for key, value in item.items()
        }


@dataclass(slots=True, kw_only=True)
class CountingProposer:
    """A proposer that finds what the optimizer of the rule world would, with so many tokens of an agent."""

    counter: CallCounter
    optimizer: CountingOptimizer
    turns: int
    turn_tokens: int

    async def propose(self, step: Step, item: str, evidence: Evidence) -> list[Edit]:
        """Propose, and count the turns of the agent that would."""
        failed = "\n".join(one.task.id for one in evidence.failed)
        asked = Message(role="user", content=f"<skill>\n{step.skill.text}\n</skill>\n{failed}")
        place = step.place.at("proposer", item)
        said = self.optimizer.said(
            Request(
                messages=(asked,), max_tokens=1, role="optimizer", stage="analyst_proof", place=str(place)
            )
        )
        shown = (*evidence.failed, *evidence.passed)
        read = sum(len(trajectory(one.task, one.tries[-1], SHOWN_CHARS)) for one in shown) / CHARS_A_TOKEN
        written = len(json.dumps(said)) / CHARS_A_TOKEN
        for turn in range(self.turns):
            told = self.turn_tokens + read * (turn + 1) / self.turns
            self.counter.optimizer("proposer", told, written / self.turns)
        return [
            parse_edit(edit, str(replace(place, number=number))) for number, edit in enumerate(said["edits"])
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingJudge:
    """Counts what a judge would be asked about a rollout; it finds nothing."""

    counter: CallCounter
    stage: str
    reply_tokens: int

    async def check(self, task: Task, trajectory: Trajectory, criteria: Sequence[str]) -> tuple[Finding, ...]:
        """One question about all criteria."""
        reference = "" if task.reference is None else str(task.reference)
        self._count("judge", task.prompt, reference, trajectory.answer, *criteria)
        return tuple(Finding(met=False, evidence="") for _ in criteria)

    async def prefer(
        self, task: Task, trajectory: Trajectory, other: str, rubric: str
    ) -> Literal["answer", "other", "tie"]:
        """Two questions, one for each order."""
        for _ in range(2):
            self._count("judge_pair", task.prompt, rubric, trajectory.answer, other)
        return "tie"

    def _count(self, prompt: str, *parts: str) -> None:
        tags = 25 * len(parts)
        characters = len(judge_prompt(prompt)) + sum(map(len, parts)) + tags
        self.counter.judge(self.stage, characters, self.reply_tokens)


class RehearsedTasks(Benchmark):
    """The job's tasks as cases of the rule world: its own words, and a case number that decides."""

    def __init__(self, real: Benchmark, splits: Splits, past: Sequence[Task] = ()) -> None:
        self.name = real.name
        self.prompts = real.prompts
        self.seed_skill = real.seed_skill
        self.scorer_version = "rehearsal"
        self.graded = real.graded
        self.real: dict[str, Task] = {}
        self.splits = Splits(
            train=self._cases(splits.train, 0),
            val=self._cases(splits.val, 3000),
            test=self._cases(splits.test, 6000),
        )
        self.past = self._cases(past, 9000)

    def _cases(self, tasks: Sequence[Task], first: int) -> tuple[Task, ...]:
        made = tuple(_as_case(task, f"W00{first + number:04d}") for number, task in enumerate(tasks))
        self.real |= {case.id: task for case, task in zip(made, tasks, strict=True)}
        return made

    def tasks(self, split: Split) -> Sequence[Task]:
        """The cases of a split."""
        return self.splits.of(split)

    def open(self, task: Task) -> None:
        """No environment: the harness counts what one would show."""

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Whether the case was solved."""
        right = code_of(task.id) in trajectory.answer
        return Score(hard=float(right), soft=float(right), feedback="" if right else "the code is wrong")


@dataclass(slots=True, kw_only=True)
class CountingHarness:
    """Asks the target so many turns, each with all that was said before, and counts the judge's part."""

    turns: int
    own_tools: bool
    tasks: RehearsedTasks
    counter: CallCounter
    judged: Benchmark | None
    judge_tokens: int
    name: str = "rehearsal"
    version: str = "1"
    asks_model: bool = True

    async def run(
        self,
        task: Task,
        environment: Environment | None,
        skill: str,
        prompts: Mapping[str, str],
        session: Session,
    ) -> Trajectory:
        """One rollout."""
        system = system_prompt(rollout_prompt(prompts, own_tools=self.own_tools), skill)
        asked = (Message(role="system", content=system), Message(role="user", content=task.prompt))
        said: tuple[Message, ...] = ()
        for turn in range(self.turns):
            reply = await session.ask(asked + said)
            said = (*said, Message(role="assistant", content=reply.text))
            if turn < self.turns - 1:
                said = (*said, Message(role="user", content=_filler(OBSERVED_CHARS)))
        done = Trajectory(
            messages=said,
            answer=reply.text,
            calls=session.calls,
            usage=session.usage,
            seconds=session.seconds,
        )
        if self.judged is not None:
            judge = CountingJudge(counter=self.counter, stage=session.stage, reply_tokens=self.judge_tokens)
            with contextlib.suppress(ScoringError):  # its questions are counted, whatever comes of them
                await self.judged.score_with(judge, self.tasks.real[task.id], done)
        return done


def _case_of(prompt: str) -> str:
    """The case number, which stands at the end unless the task is one of the simulated world itself."""
    found = CASE.search(prompt, max(0, len(prompt) - 8)) or CASE.search(prompt)
    assert found is not None, "every task of a rehearsal has a case number"
    return found.group()


@lru_cache(maxsize=64)
def _rules_in(text: str) -> str:
    """The rules of the world that a text holds; its other lines take none of the room of a skill there."""
    return "\n".join(rule for rule in ALL_RULES if rule in text)


def _as_case(task: Task, case: str) -> Task:
    if CASE.fullmatch(task.id):  # a case of the simulated world already
        return task
    return Task(id=case, prompt=f"{task.prompt}\n{case}", reference=code_of(case), kind=task.kind)


def _usage(request: Request, text: str, carried: float = 0) -> Usage:
    asked = sum(len(message.content) for message in request.messages) / CHARS_A_TOKEN + carried
    said = min(request.max_tokens, math.ceil(len(text) / CHARS_A_TOKEN))
    return Usage(input_tokens=math.ceil(asked), output_tokens=said)


def _filler(characters: int) -> str:
    return (_WORDS * (characters // len(_WORDS) + 1))[: max(0, characters)]
