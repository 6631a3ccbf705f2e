"""A model as judge of criteria, or between two answers; without a quotation there is no verdict."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Literal, TypeVar

from pydantic import BaseModel, StrictBool

from skillopt.errors import Fault, ScoringError
from skillopt.events.place import Place
from skillopt.messages import Message, Request
from skillopt.models.port import Model
from skillopt.models.reading import Unusable, asked_again, read, schema_of
from skillopt.process.waiting import together
from skillopt.tasks.judge import Finding
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.scorers import as_text, extract_answer
from skillopt.tasks.task import Task

ATTEMPTS = 2
"""A reply that cannot be used is asked for once more; then there is no score."""
MOST_SHOWN = 48_000
"""Characters of each part that a judge is shown; of longer ones the head and the tail."""
_REVISION = 1
_TAGS = re.compile(r"<(?=/?(?:task|reference|work|file|criteria|good|first|second)\b)", re.IGNORECASE)
_LEFT_OUT = re.compile(r"\[(?:\.{3}|…)\]|\.{3}|…")
_NO_LETTERS = re.compile(r"[\s*_`\"'“”‘’]+")

R = TypeVar("R", bound=BaseModel)


class _Finding(BaseModel):
    criterion: int
    evidence: str = ""
    met: StrictBool


class _Findings(BaseModel):
    findings: list[_Finding]


class _Preference(BaseModel):
    evidence_first: str = ""
    evidence_second: str = ""
    better: Literal["first", "second", "tie"]


class ModelJudge:
    """A model that judges for one stage of a run.

    A question is placed by its content alone, so equal answers to a task are judged once.
    """

    def __init__(
        self, model: Model, *, max_tokens: int, stage: str = "judge", background: bool = False
    ) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._stage = stage
        self._background = background
        prompts = judge_prompt("judge"), judge_prompt("judge_pair")
        parts = [dict(model.fingerprint), max_tokens, *prompts, _REVISION]
        self.version = f"judge {hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]}"
        """Changes whenever the same answer could be judged otherwise: another model, another prompt."""

    def at(self, stage: str, *, background: bool = False) -> ModelJudge:
        """The same judge for another stage, whose money it then spends."""
        return ModelJudge(self._model, max_tokens=self._max_tokens, stage=stage, background=background)

    async def check(self, task: Task, trajectory: Trajectory, criteria: Sequence[str]) -> tuple[Finding, ...]:
        """A finding for each criterion; see `Judge`."""
        work = shown_work(trajectory)
        reference = [] if task.reference is None else [_part("reference", as_text(task.reference))]
        listed = "\n".join(f"{number}. {criterion}" for number, criterion in enumerate(criteria, start=1))
        user = "\n\n".join(
            [_part("task", task.prompt), *reference, _part("work", work), _part("criteria", listed)]
        )

        def accept(reply: _Findings) -> None:
            numbers = [finding.criterion for finding in reply.findings]
            if numbers != list(range(1, len(criteria) + 1)):
                raise Unusable(
                    f"the findings are about the criteria {numbers}, and wanted is one for each of 1 to"
                    f" {len(criteria)} in order"
                )
            for finding in reply.findings:
                _check_quote(finding.evidence, work, f"the evidence for criterion {finding.criterion}")

        reply = await self._ask("judge", task, user, _Findings, accept)
        return tuple(Finding(met=one.met, evidence=one.evidence.strip()) for one in reply.findings)

    async def prefer(
        self, task: Task, trajectory: Trajectory, other: str, rubric: str
    ) -> Literal["answer", "other", "tie"]:
        """Which of two answers is better, asked in both orders; see `Judge`."""
        ours = shown_work(trajectory)
        forwards, backwards = await together(
            self._compare(task, ours, other, rubric), self._compare(task, other, ours, rubric)
        )
        worth = {"first": 1, "tie": 0, "second": -1}
        ahead = worth[forwards] - worth[backwards]
        return "answer" if ahead > 0 else "other" if ahead < 0 else "tie"

    async def _compare(
        self, task: Task, first: str, second: str, rubric: str
    ) -> Literal["first", "second", "tie"]:
        parts = {"task": task.prompt, "good": rubric, "first": first, "second": second}
        user = "\n\n".join(_part(name, text) for name, text in parts.items())

        def accept(reply: _Preference) -> None:
            _check_quote(reply.evidence_first, first, "evidence_first")
            _check_quote(reply.evidence_second, second, "evidence_second")

        return (await self._ask("judge_pair", task, user, _Preference, accept)).better

    async def _ask(
        self, prompt: str, task: Task, user: str, shape: type[R], accept: Callable[[R], None]
    ) -> R:
        messages: tuple[Message, ...] = (
            Message(role="system", content=judge_prompt(prompt)),
            Message(role="user", content=user, images=task.images),
        )
        digest = hashlib.sha256(
            "\0".join([judge_prompt(prompt), user, *(image.data for image in task.images)]).encode()
        ).hexdigest()[:40]
        trouble = ""
        for attempt in range(ATTEMPTS):
            request = Request(
                messages=messages,
                max_tokens=self._max_tokens,
                role="judge",
                stage=self._stage,
                place=str(Place.named("judge", digest, attempt=attempt)),
                schema=schema_of(shape),
                background=self._background,
            )
            try:
                reply = await self._model.complete(request)
            except Fault as fault:
                raise ScoringError(
                    "judge", f"the judge could not be asked about task {task.id!r}: {fault}"
                ) from fault
            try:
                judged = read(reply, shape)
                accept(judged)
            except Unusable as error:
                trouble = str(error)
                messages = asked_again(messages, reply.text[:4_000], error)
            else:
                return judged
        raise ScoringError("judge", f"the judge's replies about task {task.id!r} cannot be used: {trouble}")


def shown_work(trajectory: Trajectory) -> str:
    """What a judge sees of a rollout: the answer, the tools called, and the text files left."""
    calls = [
        f"{call.name}({_cut(call.arguments, 400)})"
        for message in trajectory.messages
        for call in message.tool_calls
    ]
    parts = [extract_answer(trajectory.answer)]
    parts += ["Tools called:\n" + "\n".join(calls)] if calls else []
    parts += [f"File {name}:\n{text}" for name, text in _texts(trajectory.files).items()]
    return "\n\n".join(parts)


def _texts(left: Mapping[str, str]) -> dict[str, str]:
    texts = {}
    for name, content in left.items():
        try:
            texts[name] = base64.b64decode(content).decode()
        except UnicodeDecodeError:
            texts[name] = "(no text)"
    return texts


def _check_quote(quote: str, text: str, what: str) -> None:
    """A quotation stands in the text, apart from layout and from what it says to leave out."""
    words = f"{_plain(text)} {_plain(_TAGS.sub('&lt;', text))}"
    missing = [part for part in _LEFT_OUT.split(quote) if _plain(part) and _plain(part) not in words]
    if missing:
        raise Unusable(
            f"{what} is not in the work: {missing[0].strip()[:200]!r}; copy the words exactly, or leave it"
            " empty"
        )


def _plain(text: str) -> str:
    return _NO_LETTERS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def _part(name: str, text: str) -> str:
    """A part of the question between tags; it cannot close the tag it stands in."""
    return f"<{name}>\n{_TAGS.sub('&lt;', _cut(text, MOST_SHOWN))}\n</{name}>"


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[len(text) - half :]}"


@cache
def judge_prompt(name: str = "judge") -> str:
    """The system prompt of a judge: `judge` for criteria, `judge_pair` for two answers."""
    return files("skillopt.evaluation").joinpath("prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")
