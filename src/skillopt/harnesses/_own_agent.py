"""A person's own agent as a target: what it is told, what it may answer, and how a rollout of it is paid."""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from skillopt.errors import Fault, Kind, ModelError
from skillopt.harnesses._workspace import changed, each_text, put_documents, put_files, snapshot
from skillopt.harnesses.port import Session, Setup, rollout_prompt
from skillopt.messages import Message, Speaker, ToolCall, Usage
from skillopt.models.wires.http import HttpRefusal
from skillopt.programs.events import kind_of
from skillopt.programs.port import AgentReport
from skillopt.programs.run import fresh_place
from skillopt.redact import Scrubber, looks_secret
from skillopt.skill.document import SKILL_FILE, as_prompt
from skillopt.skill.install import install_skill
from skillopt.tasks.benchmark import Environment, Reading
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import Task
from skillopt.tasks.template import fill

_SHOWN = 500
_MOST_CHARS = 8 << 20
_SKILL_APART = "(It is given to you separately.)"
_SPEAKERS: Mapping[str, Speaker] = {
    **{name: name for name in ("system", "user", "assistant", "tool")},
    **{"human": "user", "ai": "assistant", "function": "tool", "developer": "system"},
}
_KINDS: Mapping[type[OSError], Kind] = {TimeoutError: "timeout", ConnectionError: "unavailable"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAgentWork:
    """One task for an agent."""

    task: Task
    """Without what only the scorer knows; `data` holds the benchmark's `instructions` on how to answer."""
    skill: str
    """SKILL.md, and below it the references that it mentions."""
    folder: Path
    """The skill as a folder with SKILL.md and the files beside it."""
    workspace: Path
    """A fresh folder with the task's files. What the agent leaves in it is part of its work."""
    images: tuple[Path, ...]
    """The task's images as files of the workspace."""

    def told(self, files: object, images: object) -> dict[str, Any]:
        """The task and the skill as JSON, with files and images in a form of the caller's."""
        task = {name: getattr(self.task, name) for name in ("id", "prompt")}
        task |= {"instructions": self.task.data["instructions"], "files": files, "images": images}
        return {"task": task, "skill": self.skill}


class OwnAgent(ABC):
    """Runs tasks in a person's own agent, which a subclass calls. What the agent raises, or answers in no
    known form, is no measurement.
    """

    name: str
    asks_model = False

    def __init__(self, setup: Setup, *, version: str, place: str = "") -> None:
        """`place` says where on this machine the agent's code is."""
        self.version = version
        self._setup = setup
        self._place = place
        secrets = [value for key, value in os.environ.items() if value and looks_secret(key)]
        self._scrubber = Scrubber(secrets)  # its own keys are not ours, and belong in no file either

    @abstractmethod
    async def call(self, work: OwnAgentWork) -> object:
        """Give one task to the agent and return its answer, as `answered` reads it."""

    async def run(
        self,
        task: Task,
        environment: Environment | None,
        skill: str,
        prompts: Mapping[str, str],
        session: Session,
    ) -> Trajectory:
        """One rollout with folders of its own, paid as a whole."""
        documents = tuple(environment.documents) if isinstance(environment, Reading) else ()
        if environment is not None and not documents:
            raise Fault(
                "contract",
                f"task {task.id!r} is worked on with the benchmark's tools, which {self.name} does not get."
                " Choose a mode of the benchmark that has none, or a model with another harness.",
            )
        instructions = fill(rollout_prompt(prompts, own_tools=True), {"skill": _SKILL_APART})
        with fresh_place() as place:
            folder = place.root / "skill"
            name = install_skill(skill, folder, self._setup.skill)
            folder = folder if name is None else folder / name
            if name is None:
                folder.mkdir()
                (folder / SKILL_FILE).touch()
            if documents:
                put_documents(documents, place.workspace)
            images = put_files(task, place.workspace, documents)
            found = sorted(path for path in place.workspace.rglob("*") if path.is_file())
            files = tuple(path for path in found if path not in images)
            shown = replace(task, reference=None, data={"instructions": instructions}, files=files)
            work = OwnAgentWork(
                task=shown, skill=as_prompt(skill), folder=folder, workspace=place.workspace, images=images
            )
            before = snapshot(place.workspace)
            report = await self._paid(work, session)
            left = changed(place.workspace, before, self._clean)
        return self._trajectory(report, left, task)

    async def _paid(self, work: OwnAgentWork, session: Session) -> AgentReport:
        """The agent's report. What fails after the agent was started stays charged: it may have cost."""
        problems: list[Fault] = []

        async def run() -> AgentReport:
            began = time.monotonic()
            try:
                report = answered(await self.call(work), self.name)
            except Fault as fault:
                if _never_began(fault):
                    raise
                problems.append(fault)
                return AgentReport(messages=(), answer="", finish="stop", calls=1, usage=None)
            return replace(report, seconds=report.seconds or round(time.monotonic() - began, 3))

        try:
            report = await self._setup.paid(session, run, trusts_cost=True)
        except Fault as fault:
            raise Fault(fault.kind, self._clean(fault.detail)) from None
        if problems:
            first = problems[0]
            where = first.where or (self._place if first.kind == "contract" else "")
            raise Fault(first.kind, self._clean(first.detail), where=where) from first
        return report

    def _clean(self, text: str) -> str:
        return self._setup.scrub(self._scrubber.scrub(text))

    def _trajectory(self, report: AgentReport, files: Mapping[str, str], task: Task) -> Trajectory:
        answer = self._clean(report.answer)
        said = each_text(_without_question(report.messages, task), self._clean)
        if answer.strip() and not (said and answer.strip() in said[-1].content):
            said = (*said, Message(role="assistant", content=answer))
        own = report.finish if report.finish in ("refusal", "turns") else None
        return Trajectory(
            messages=said,
            answer=answer,
            calls=report.calls,
            usage=report.usage,
            failure=own or ("empty" if not answer.strip() and not files else None),
            files=files,
            seconds=report.seconds,
        )


def answered(value: object, who: str) -> AgentReport:
    """What an agent answered: a text, a `Trajectory`, or an object with `answer` and, where it likes, `trace`
    and `usage`. Raises `Fault("contract")` for everything else.
    """
    if isinstance(value, str):
        value = {"answer": value}
    if isinstance(value, Trajectory):
        finish = value.failure if value.failure in ("refusal", "turns") else "stop"
        return AgentReport(
            messages=value.messages,
            answer=value.answer,
            finish=finish,  # type: ignore[arg-type]  # one of the two, or stop
            calls=value.calls,
            usage=value.usage,
            seconds=value.seconds,
        )
    if not isinstance(value, Mapping):
        raise _broken(who, f"returned {_kind(value)}; return the answer as text, or an object with 'answer'")
    answer, trace, usage = value.get("answer"), value.get("trace"), value.get("usage")
    if not isinstance(answer, str):
        raise _broken(who, f"gave {_kind(answer)} as 'answer'; write the answer as text")
    unknown = sorted(set(map(str, value)) - {"answer", "trace", "usage"})
    if unknown:
        raise _broken(who, f"gave {', '.join(unknown)}; an answer has 'answer', 'trace' and 'usage'")
    messages = _messages(trace, who)
    if len(answer) + sum(len(each.content) for each in messages) > _MOST_CHARS:
        raise _broken(who, f"answered with more than {_MOST_CHARS >> 20} million characters")
    tokens, calls, usd = _usage(usage, who)
    return AgentReport(messages=messages, answer=answer, finish="stop", calls=calls, usage=tokens, usd=usd)


def raised(error: BaseException, who: str, where: str) -> Fault:
    """The fault that an agent's error is: a limit or an outage where it shows one, else a bug of its code."""
    if isinstance(error, Fault):
        return error
    text = f"{type(error).__name__}: {error}"
    by_type = next((kind for each, kind in _KINDS.items() if isinstance(error, each)), None)
    kind = by_type or kind_of(text)
    return Fault(kind or "contract", f"{who} raised {text[:_SHOWN]} ({where})", where="" if kind else where)


def _never_began(fault: Fault) -> bool:
    """Whether the agent cannot have worked: nothing was started, no connection made, a request refused."""
    if isinstance(fault, HttpRefusal):
        return fault.status < 500
    return fault.kind == "spawn" or (isinstance(fault, ModelError) and fault.refused)


def _broken(who: str, what: str) -> Fault:
    return Fault("contract", f"{who} {what}")


def _kind(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:80]!r}"


def _without_question(messages: tuple[Message, ...], task: Task) -> tuple[Message, ...]:
    """The conversation without its beginning: system prompts and the task, which are shown anyway."""
    for index, message in enumerate(messages):
        is_question = message.role == "user" and task.prompt.strip() in message.content
        if message.role != "system" and not is_question:
            return messages[index:]
    return ()


def _messages(trace: object, who: str) -> tuple[Message, ...]:
    """A trace as messages: a text, or a list of texts and of messages as chat APIs write them."""
    if trace is None:
        return ()
    if isinstance(trace, str):
        return (Message(role="assistant", content=trace),)
    if not isinstance(trace, list | tuple):
        raise _broken(who, f"gave {_kind(trace)} as 'trace'; write a text, or a list of messages")
    return tuple(_message(each, who) for each in trace)


def _message(each: object, who: str) -> Message:
    if isinstance(each, Message):
        return each
    if isinstance(each, str):
        return Message(role="assistant", content=each)
    if not isinstance(each, Mapping):
        raise _broken(who, f"gave {_kind(each)} in 'trace'; a message has 'role' and 'content'")
    role = _SPEAKERS.get(str(each.get("role")))
    if role is None:
        raise _broken(who, f"gave the role {each.get('role')!r} in 'trace'; known: {', '.join(_SPEAKERS)}")
    called, calls = each.get("tool_call_id"), each.get("tool_calls") or ()
    if not isinstance(calls, list | tuple):
        raise _broken(who, f"gave {_kind(calls)} as 'tool_calls'; write a list of calls")
    return Message(
        role=role,
        content=_text(each.get("content")),
        tool_calls=tuple(_tool_call(call, who) for call in calls),
        tool_call_id=None if called is None else str(called),
    )


def _tool_call(call: object, who: str) -> ToolCall:
    if not isinstance(call, Mapping):
        raise _broken(who, f"gave {_kind(call)} in 'tool_calls'; a call has 'name' and 'arguments'")
    inner = call.get("function")
    said: Mapping[str, Any] = inner if isinstance(inner, Mapping) else call
    arguments = next((said[key] for key in ("arguments", "args", "input") if key in said), "")
    return ToolCall(
        id=str(call.get("id") or ""), name=str(said.get("name") or ""), arguments=_text(arguments)
    )


def _text(content: object) -> str:
    """Text as it is, the text parts of a list of parts, anything else as JSON where it can be."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) == len(parts):
            return "\n".join(texts)
    try:
        return json.dumps(content, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that JSON has not, or an object inside itself
        return str(content)


def _usage(usage: object, who: str) -> tuple[Usage | None, int, Fraction | None]:
    """Tokens, calls and dollars as reported; what is not reported is unknown."""
    if usage is None:
        return None, 1, None
    if isinstance(usage, Usage):
        return usage, 1, None
    if not isinstance(usage, Mapping):
        raise _broken(who, f"gave {_kind(usage)} as 'usage'; write input_tokens and output_tokens")

    def number(*names: str) -> int | float | None:
        for name in names:
            value = usage.get(name)
            if value is not None:
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
                    raise _broken(who, f"gave usage.{name} = {value!r}; write a number")
                return value
        return None

    given, written = number("input_tokens", "prompt_tokens"), number("output_tokens", "completion_tokens")
    cached, usd = number("cached_tokens"), number("usd", "cost")
    tokens = None
    if given is not None and written is not None:
        read = None if cached is None else int(cached)
        tokens = Usage(input_tokens=int(given), output_tokens=int(written), cached_tokens=read)
    return tokens, int(number("calls", "requests") or 1), None if usd is None else Fraction(str(usd))
