"""Runs a task inside an agent CLI: the skill installed, proof that it was loaded, the trajectory."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from skillopt.agents import agent
from skillopt.agents import driver as driver_of
from skillopt.errors import ConfigError, Fault
from skillopt.executors import Executor
from skillopt.files import temporary_folder
from skillopt.harnesses._workspace import (
    are_untouched,
    as_prompt,
    changed,
    each_text,
    put_documents,
    put_files,
    scrubbed_file,
    snapshot,
)
from skillopt.harnesses.port import Session, Setup, rollout_prompt
from skillopt.messages import Message
from skillopt.programs.port import OWN, Access, Activation, AgentPlace, AgentReport, AgentWork, choice
from skillopt.programs.run import InstalledAgent
from skillopt.skill.install import carried_digest, install_listed, install_skill
from skillopt.tasks.benchmark import Environment, Reading, Workplace
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import Task
from skillopt.tasks.template import fill

_REVISION = "2"
_NOT_SAID = ("path", "home")
_POINTER: Mapping[Activation, str] = {
    "forced": "Follow the skill `{name}`, which is installed in this workspace.",
    "natural": "(There is nothing here; use what is installed in this workspace where it fits.)",
}
_NO_SKILL = "(There is none.)"
_THE_SKILL = "[the text of the skill]"
_NO_ENVIRONMENT = (
    "Choose a mode of the benchmark that has none (such as env.mode: single), or another harness."
)
_CHANGED = "changed documents"
_FAILURES = {"refusal": "refusal", "length": "length", "turns": "turns"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMeasured:
    """What came of one rollout: what it cost in any case, and the trajectory or why there is none."""

    report: AgentReport
    done: Trajectory | None = None
    unproven: str = ""

    def trajectory(self) -> Trajectory:
        """The trajectory; a forced skill that was not provably loaded is no measurement."""
        if self.done is None:
            raise Fault("contract", self.unproven)
        return self.done


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rollout:
    """What one rollout is about."""

    task: Task
    documents: tuple[Path, ...]
    skill: str
    prompts: Mapping[str, str]


class AgentHarness:
    """One agent CLI as a harness. Every rollout has a home, a workspace and a process of its own."""

    asks_model = False

    def __init__(self, name: str, setup: Setup) -> None:
        driver = driver_of(name)
        spec = setup.model
        knobs = [knob for knob in ("temperature", "top_p", "seed") if getattr(spec, knob) is not None]
        if knobs:
            raise ConfigError(f"{name}: an agent CLI takes no {' or '.join(knobs)}. Unset it.")
        own = spec.provider == agent(name).login
        provider = spec.provider
        if own:
            provider = OWN if spec.base_url is None else _wire(driver.providers)
        access = Access(
            provider=provider,
            model=spec.name,
            base_url=spec.base_url,
            key=spec.api_key,
            effort=spec.reasoning_effort,
        )
        self.name = name
        self._setup = setup
        activation = choice(setup.agent, "activation", get_args(Activation), "forced")
        if setup.listing is not None and setup.agent.get("activation") == "forced":
            raise ConfigError(
                f"{name}: a description is measured by whether the agent loads the skill by itself. Unset"
                " model.target.agent.activation."
            )
        is_natural = activation == "natural" or setup.listing is not None
        self._activation: Activation = "natural" if is_natural else "forced"
        self._agent = InstalledAgent(driver, access, setup.agent, timeout=spec.timeout)
        if not self._agent.can_isolate_login and not setup.agent.get("home"):
            wanted = " or ".join(driver.credentials) or f"a provider, as in '{name}/anthropic:MODEL'"
            raise ConfigError(
                f"{name}: a rollout runs in a home of its own, where the login of {driver.binary!r} is not."
                f" Set {wanted} (docs/agents.md says how to get one)."
            )
        if setup.rollout_budget is not None and not driver.reports_usage:
            setup.rollout_budget.require_allowance(name)
        said = {
            key: value for key, value in setup.agent.items() if key not in _NOT_SAID and value is not None
        }
        files = carried_digest(setup.skill)
        parts: list[Any] = [_REVISION, self._agent.cli.version, self._activation, files, said]
        if setup.listing is not None:
            parts.append([*map(asdict, setup.listing.others), setup.listing.skill.document.text_digest])
        self.version = json.dumps(parts, sort_keys=True)

    async def run(
        self,
        task: Task,
        environment: Environment | None,
        skill: str,
        prompts: Mapping[str, str],
        session: Session,
    ) -> Trajectory:
        """One rollout in its own place. A forced skill that was not provably loaded is no measurement."""
        documents = tuple(environment.documents) if isinstance(environment, Reading) else ()
        workplace = environment if isinstance(environment, Workplace) else None
        if environment is not None and workplace is None and not documents:
            raise Fault(
                "contract",
                f"{self.name} has its own tools and cannot use the environment's. {_NO_ENVIRONMENT}",
            )
        if task.images and not self._agent.driver.images:
            raise Fault("contract", f"{self.name} takes no images. Choose another harness.")
        rollout = _Rollout(task=task, documents=documents, skill=skill, prompts=prompts)
        if self._setup.executor is None or workplace is not None:  # a workplace is of this machine
            measured = await self._here(rollout, session, workplace)
        else:
            measured = await self._elsewhere(self._setup.executor, rollout, session)
        return measured.trajectory()

    async def _elsewhere(self, executor: Executor, rollout: _Rollout, session: Session) -> AgentMeasured:
        """The same in a worker that gets every file as content, and of our credentials this model's alone."""
        setup, scrub = self._setup, self._setup.scrub
        carried = [] if setup.skill is None or setup.skill.folder is None else setup.skill.folder.rglob("*")
        paths = (*rollout.task.files, *rollout.documents, *carried)
        files = {path.absolute(): path.read_bytes() for path in paths if path.is_file()}
        sent = replace(
            rollout,
            task=replace(rollout.task, prompt=scrub(rollout.task.prompt), reference=None),
            prompts={name: scrub(text) for name, text in rollout.prompts.items()},
        )
        there = replace(setup, rollout_budget=None, executor=None, scrub=str)
        work = partial(_on_a_worker, self.name, self.version, there, files, sent)
        measured: AgentMeasured | None = None

        async def run() -> AgentReport:
            nonlocal measured
            measured = await executor.run(work)
            return measured.report

        await self._paid(run, session)
        assert measured is not None, "paid work has run"
        return measured if measured.done is None else replace(measured, done=_scrubbed(measured.done, scrub))

    async def _here(
        self, rollout: _Rollout, session: Session | None, workplace: Workplace | None = None
    ) -> AgentMeasured:
        """The rollout in this process; without a session nobody pays."""
        task, documents, skill = rollout.task, rollout.documents, rollout.skill
        with self._agent.place() as place:
            if workplace is not None:
                await workplace.furnish(place.workspace)
            if documents:
                place = replace(place, documents=put_documents(documents, place.workspace))
            skills, listing = place.workspace / self._agent.driver.skills, self._setup.listing
            whole = skill if listing is None else listing.whole(skill)
            name = install_skill(whole, skills, self._setup.skill)
            if listing is not None:
                install_listed(listing.others, skills)
            images = put_files(task, place.workspace, documents)
            pointer = _NO_SKILL if name is None else _POINTER[self._activation].replace("{name}", name)
            system = fill(rollout_prompt(rollout.prompts, own_tools=True), {"skill": pointer})
            work = AgentWork(
                access=self._agent.access,
                place=place,
                settings=self._agent.settings,
                prompt=self._setup.scrub(as_prompt(system, task, documents)),
                skill=name,
                activation=self._activation,
                images=images,
            )
            before = snapshot(place.workspace)
            launch = self._agent.driver.work(work)

            async def run() -> AgentReport:
                began = time.monotonic()  # after the reservation: waiting for money is no time of the agent's
                report = await self._agent.run(place, launch, skill=name, walled=True)
                return replace(report, seconds=round(time.monotonic() - began, 3))

            report = await (run() if session is None else self._paid(run, session))
            files = changed(place.workspace, before, self._setup.scrub, place.documents)
            if name is not None and self._activation == "forced" and not report.loaded:
                return AgentMeasured(
                    report=report,
                    unproven=f"{self.name}: nothing proves that the skill {name!r} was loaded, so this is no"
                    " measurement of it",
                )
            done = self._trajectory(report, files, place, name)
            if workplace is not None:
                found = await workplace.outcome(place.workspace)
                done = replace(done, outcome={key: self._setup.scrub(text) for key, text in found.items()})
            if listing is not None and done.loaded:  # whatever came after it
                done = replace(done, failure=None)
            if place.documents is not None and not are_untouched(place.documents, before):
                # its own copy only, but an answer from evidence of its own making is none
                done = replace(done, failure=_CHANGED)
            return AgentMeasured(report=report, done=done)

    async def _paid(
        self, run: Callable[[], Coroutine[Any, Any, AgentReport]], session: Session
    ) -> AgentReport:
        return await self._setup.paid(session, run, trusts_cost=self._agent.access.base_url is None)

    def _trajectory(
        self, report: AgentReport, files: Mapping[str, str], place: AgentPlace, skill: str | None
    ) -> Trajectory:
        def clean(text: str) -> str:
            return self._setup.scrub(_neutral(text, place))

        answer = clean(report.answer)
        failure = _FAILURES.get(report.finish) or ("empty" if not answer.strip() and not files else None)
        return Trajectory(
            messages=each_text(_without_skill(report.messages, self._agent.driver.skills, skill), clean),
            answer=answer,
            calls=report.calls,
            usage=report.usage,
            failure=failure,
            files=files,
            loaded=report.loaded,
            seconds=report.seconds,
        )


class AgentTarget:
    """The harness of the agent of that name."""

    asks_model = False

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, setup: Setup) -> AgentHarness:
        return AgentHarness(self._name, setup)


def _on_a_worker(
    name: str, version: str, setup: Setup, files: Mapping[Path, bytes], rollout: _Rollout
) -> AgentMeasured:
    """One rollout where its files are not: they are written into a folder that ends with it."""
    with temporary_folder("skillopt-work-") as root:

        def there(path: Path) -> Path:
            return root / path.absolute().relative_to(path.absolute().anchor)

        for path, content in files.items():
            there(path).parent.mkdir(parents=True, exist_ok=True)
            there(path).write_bytes(content)
        if setup.skill is not None and setup.skill.folder is not None:
            setup = replace(setup, skill=replace(setup.skill, folder=there(setup.skill.folder)))
        harness = AgentHarness(name, setup)
        if harness.version != version:
            where = socket.gethostname()
            raise Fault("contract", f"{name} on {where} is not the one of this run: {harness.version}")
        task = replace(rollout.task, files=tuple(map(there, rollout.task.files)))
        moved = replace(rollout, task=task, documents=tuple(map(there, rollout.documents)))
        return asyncio.run(harness._here(moved, None))


def _scrubbed(done: Trajectory, scrub: Callable[[str], str]) -> Trajectory:
    """A trajectory without our credentials."""
    return replace(
        done,
        answer=scrub(done.answer),
        messages=each_text(done.messages, scrub),
        files={name: scrubbed_file(content, scrub) for name, content in done.files.items()},
    )


def _wire(providers: frozenset[str]) -> str:
    """What a CLI speaks to an endpoint that takes its own service's place."""
    return next((name for name in ("anthropic", "openai") if name in providers), OWN)


def _without_skill(messages: tuple[Message, ...], skills: str, skill: str | None) -> list[Message]:
    """The conversation without the skill's own text where the agent read it: the optimizer has it."""
    if skill is None:
        return list(messages)
    asked = {
        call.id
        for message in messages
        for call in message.tool_calls
        if f"{skills}/{skill}/SKILL.md" in call.arguments
    }
    return [
        replace(message, content=_THE_SKILL) if message.tool_call_id in asked else message
        for message in messages
    ]


def _neutral(text: str, place: AgentPlace) -> str:
    """A text without the random names of this rollout's folders, which would make equal ones differ."""
    text = text.replace(str(place.workspace), "/workspace").replace(str(place.home), "/home/agent")
    return text.replace(str(place.root), "/rollout")
