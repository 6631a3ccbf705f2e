"""Scores an answer to a mined task: by its checks, by its rubric with a judge, or by both."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from skillopt.errors import Fault, ScoringError, TaskError
from skillopt.messages import Message, Request
from skillopt.models._model import Model
from skillopt.optimizer._replies import Unusable, read
from skillopt.sleep.checks import Check, holding, is_refusal, read_checks
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.task import Task

PASS = 0.8
"""The judge's score from which a rubric counts as met."""
_REVISION = 1
_CAP = 1_024
_SHOWN = 30_000
_OURS = re.compile(r"<(?=/?(?:task|rubric|answer)\b)", re.IGNORECASE)


class Judgement(BaseModel):
    """What a judge answers; anything else, also a number outside the range or NaN, is no judgement."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    reason: str = Field(default="", max_length=4_000)
    score: float = Field(ge=0, le=1)


class MinedScorer:
    """The scorer of mined tasks. A task's reference is `{"checks": [...], "rubric": "..."}` with at least one of the two."""

    name = "mined"
    graded = False

    def __init__(self, judge: Model | None = None) -> None:
        self._judge = judge

    @property
    def version(self) -> str:
        """Changes with this module's rules and with the judge."""
        return json.dumps(["mined", _REVISION, None if self._judge is None else dict(self._judge.fingerprint)], sort_keys=True)

    def check_task(self, task: Task) -> None:
        """The task has valid checks or a rubric, and a rubric has somebody to judge by it."""
        checks, rubric = _measure(task)
        if not checks and not rubric:
            raise TaskError(f"Task {task.id!r} has neither checks nor a rubric. Give it one of them.")
        if rubric and self._judge is None:
            raise TaskError(f"Task {task.id!r} has a rubric, and there is no model to judge by it. Configure an optimizer, or use checks.")

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Hard 1 when every check holds and the rubric is met; soft is the mean of the parts."""
        checks, rubric = _measure(task)
        parts: list[float] = []
        words: list[str] = []
        if checks:
            called = {call.name for message in trajectory.messages for call in message.tool_calls}
            held = await holding(checks, trajectory.answer, called)
            parts += [float(one) for one in held]
            words += [f"failed: {check}" for check, one in zip(checks, held, strict=True) if not one]
        is_met = not words
        if rubric:
            said = await self._judged(task, rubric, trajectory.answer)
            parts.append(said.score)
            is_met = is_met and said.score >= PASS
            if said.score < PASS:
                words.append(f"judge, {said.score:g}: {said.reason[:500]}")
        return Score(hard=float(is_met), soft=sum(parts) / len(parts), feedback="; ".join(words))

    async def _judged(self, task: Task, rubric: str, answer: str) -> Judgement:
        if self._judge is None:
            raise ScoringError("judge", f"task {task.id!r} has a rubric and there is no judge")
        return await judge(self._judge, prompt=task.prompt, rubric=rubric, answer=answer)


async def judge(model: Model, *, prompt: str, rubric: str, answer: str) -> Judgement:
    """A judge's score of an answer by a rubric. No answer and a refusal are 0 without asking; two unusable replies are a `judge` fault."""
    if is_refusal(answer):
        return Judgement(reason="there is no answer", score=0.0)
    asked = judge_messages(prompt=prompt, rubric=rubric, answer=answer)
    place = "judge/" + hashlib.sha256("\0".join(message.content for message in asked).encode("utf-8", "replace")).hexdigest()[:24]
    trouble = ""
    for attempt in (0, 1):
        request = Request(
            messages=asked,
            max_tokens=_CAP,
            role="judge",
            stage="judge",
            place=f"{place}/a{attempt}",
            schema=Judgement.model_json_schema(),
        )
        try:
            return read(await model.complete(request), Judgement)
        except Unusable as error:
            trouble = str(error)
        except Fault as fault:
            raise ScoringError(fault.kind, f"the judge could not be asked: {fault.detail}") from fault
    raise ScoringError("judge", f"the judge's reply cannot be used: {trouble}")


def judge_messages(*, prompt: str, rubric: str, answer: str) -> tuple[Message, ...]:
    """What a judge is asked. Task and answer are data: they cannot close the tags they stand in."""
    told = f"<task>\n{_data(prompt)}\n</task>\n\n<rubric>\n{_data(rubric)}\n</rubric>\n\n<answer>\n{_data(answer)}\n</answer>"
    return Message(role="system", content=prompt_text("judge")), Message(role="user", content=told)


def prompt_text(name: str) -> str:
    """A prompt of ours by its name."""
    return files("skillopt.sleep").joinpath("prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")


def _data(text: str) -> str:
    cut = text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}\n[...]\n{text[-_SHOWN // 2 :]}"
    return _OURS.sub("&lt;", cut)


def _measure(task: Task) -> tuple[tuple[Check, ...], str]:
    reference = task.reference
    if not isinstance(reference, Mapping):
        raise TaskError(f"Task {task.id!r}: the reference is no object with checks or a rubric. Correct it.")
    raw: Any = reference.get("checks") or []
    checks, problems = read_checks(raw)
    if problems:
        raise TaskError(f"Task {task.id!r}: {'; '.join(problems)}. Correct it.")
    return checks, str(reference.get("rubric") or "").strip()
