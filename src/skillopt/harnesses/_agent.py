"""Runs a task inside an agent CLI: the skill installed, proof that it was loaded, the trajectory."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

from skillopt.agents import agent
from skillopt.agents import driver as driver_of
from skillopt.agents._run import InstalledAgent
from skillopt.agents._settings import choice
from skillopt.agents.port import OWN, Access, Activation, AgentPlace, AgentReport, AgentWork
from skillopt.errors import ConfigError, Fault
from skillopt.harnesses._workspace import (
    are_untouched,
    as_prompt,
    carried_digest,
    changed,
    install_skill,
    put_documents,
    put_files,
    snapshot,
)
from skillopt.harnesses.port import Session, Setup, rollout_prompt
from skillopt.messages import Message
from skillopt.tasks.benchmark import Environment, Reading
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
        access = Access(
            provider=(
                OWN if own and spec.base_url is None else _wire(driver.providers) if own else spec.provider
            ),
            model=spec.name,
            base_url=spec.base_url,
            key=spec.api_key,
            effort=spec.reasoning_effort,
        )
        self.name = name
        self._setup = setup
        self._activation: Activation = (
            "natural"
            if choice(setup.agent, "activation", get_args(Activation), "forced") == "natural"
            else "forced"
        )
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
        parts = [_REVISION, self._agent.cli.version, self._activation, carried_digest(setup.skill), said]
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
        if environment is not None and not documents:
            raise Fault(
                "contract",
                f"{self.name} has its own tools and cannot use the environment's. {_NO_ENVIRONMENT}",
            )
        if task.images and not self._agent.driver.images:
            raise Fault("contract", f"{self.name} takes no images. Choose another harness.")
        with self._agent.place() as place:
            if documents:
                place = replace(place, documents=put_documents(documents, place.workspace))
            name = install_skill(skill, place.workspace / self._agent.driver.skills, self._setup.skill)
            images = put_files(task, place.workspace, documents)
            pointer = _NO_SKILL if name is None else _POINTER[self._activation].replace("{name}", name)
            work = AgentWork(
                access=self._agent.access,
                place=place,
                settings=self._agent.settings,
                prompt=self._setup.scrub(
                    as_prompt(
                        fill(rollout_prompt(prompts, own_tools=True), {"skill": pointer}), task, documents
                    )
                ),
                skill=name,
                activation=self._activation,
                images=images,
            )
            before = snapshot(place.workspace)
            report = await self._paid(work, session)
            files = changed(place.workspace, before, self._setup.scrub, place.documents)
            if name is not None and self._activation == "forced" and not report.loaded:
                raise Fault(
                    "contract",
                    f"{self.name}: nothing proves that the skill {name!r} was loaded, so this is no"
                    " measurement of it",
                )
            done = self._trajectory(report, files, place, name)
            if place.documents is not None and not are_untouched(place.documents, before):
                # its own copy only, but an answer from evidence of its own making is none
                return replace(done, failure=_CHANGED)
            return done

    async def _paid(self, work: AgentWork, session: Session) -> AgentReport:
        launch = self._agent.driver.work(work)

        async def run() -> AgentReport:
            began = time.monotonic()  # after the reservation: waiting for money is no time of the agent's
            report = await self._agent.run(work.place, launch, skill=work.skill, walled=True)
            return replace(report, seconds=round(time.monotonic() - began, 3))

        if self._setup.rollout_budget is None:
            return await run()
        return await self._setup.rollout_budget.pay(
            session.stage,
            session.place,
            run,
            background=session.background,
            trusts_cost=work.access.base_url is None,
        )

    def _trajectory(
        self, report: AgentReport, files: Mapping[str, str], place: AgentPlace, skill: str | None
    ) -> Trajectory:
        def clean(text: str) -> str:
            return self._setup.scrub(_neutral(text, place))

        messages = tuple(
            replace(
                message,
                content=clean(message.content),
                tool_calls=tuple(
                    replace(call, arguments=clean(call.arguments)) for call in message.tool_calls
                ),
            )
            for message in _without_skill(report.messages, self._agent.driver.skills, skill)
        )
        answer = clean(report.answer)
        failure = _FAILURES.get(report.finish) or ("empty" if not answer.strip() and not files else None)
        return Trajectory(
            messages=messages,
            answer=answer,
            calls=report.calls,
            usage=report.usage,
            failure=failure,
            files=files,
            loaded=report.loaded,
            seconds=report.seconds,
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
    for folder, shown in (
        (place.workspace, "/workspace"),
        (place.home, "/home/agent"),
        (place.root, "/rollout"),
    ):
        text = text.replace(str(folder), shown)
    return text
