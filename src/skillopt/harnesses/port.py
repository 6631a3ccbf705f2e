"""The port every harness implements, and the session through which it asks the model."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

from skillopt.errors import Fault
from skillopt.events.place import Place
from skillopt.executors import Executor
from skillopt.harnesses._rollout_budget import RolloutBudget
from skillopt.messages import Message, Reply, Request, Tool, Usage
from skillopt.models.port import Model, ModelSpec
from skillopt.skill.document import as_prompt
from skillopt.tasks.benchmark import AGENT_PROMPT, Conversation, Environment, Episode
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import Task
from skillopt.tasks.template import fill

if TYPE_CHECKING:
    from skillopt.programs.port import AgentReport
    from skillopt.skill.folder import Skill
    from skillopt.skill.install import SkillListing


@dataclass(eq=False)
class Session:
    """The model as one rollout sees it; every turn has its place, so half a rollout can be continued."""

    model: Model
    _: KW_ONLY
    key: str
    stage: str
    draw: int
    max_tokens: int
    attempt: int = 0
    background: bool = False
    cap_is_own_limit: bool = False
    calls: int = field(default=0, init=False)
    usage: Usage | None = field(default=Usage(input_tokens=0, output_tokens=0), init=False)
    seconds: float | None = field(default=0.0, init=False)

    @property
    def place(self) -> str:
        """Where in the run the next turn is; unique."""
        return str(Place.of_turn(self.key, self.attempt, self.calls))

    async def ask(self, messages: tuple[Message, ...], tools: tuple[Tool, ...] = ()) -> Reply:
        """The next turn. A reply cut by our cap is `Fault("truncated")`; one cut by the model's own limit
        returns.
        """
        request = Request(
            messages=messages,
            tools=tools,
            max_tokens=self.max_tokens,
            role="target",
            stage=self.stage,
            place=self.place,
            draw=self.draw,
            background=self.background,
        )
        self.calls += 1
        reply = await self.model.complete(request)
        self.usage = _add(self.usage, reply.usage)
        self.seconds = (
            None if self.seconds is None or reply.seconds is None else round(self.seconds + reply.seconds, 3)
        )
        if reply.finish != "length" or self.cap_is_own_limit:
            return reply
        length = len(reply.text) + sum(len(call.arguments) for call in reply.tool_calls)
        if reply.usage is None and length < self.max_tokens:  # a token has a letter or more
            raise Fault(
                "truncated",
                f"the endpoint ended the reply for its length after {length:,} characters and reports no"
                f" usage, so nobody knows at whose limit; ours is {self.max_tokens:,} tokens. It is asked"
                " again when the run goes on.",
            )
        if reply.usage is None or reply.usage.output_tokens >= self.max_tokens:
            raise Fault("truncated", f"the reply was cut at our cap of {self.max_tokens} tokens")
        return reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a harness is built from."""

    model: ModelSpec
    agent: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the agent CLI that it drives, those that are set."""
    skill: Skill | None = None
    """The skill that training started from: its other files go wherever the skill is installed."""
    listing: SkillListing | None = None
    """Set where the description is trained: then that is what `run` gets as the skill."""
    rollout_budget: RolloutBudget | None = None
    """Pays for rollouts whose model calls are not ours."""
    executor: Executor | None = None
    """Where rollouts inside agent programs run; unset is this process."""
    scrub: Callable[[str], str] = str
    """Takes the credentials we loaded out of a text; where the calls are not ours, nobody else does."""

    async def paid(
        self, session: Session, run: Callable[[], Coroutine[Any, Any, AgentReport]], *, trusts_cost: bool
    ) -> AgentReport:
        """The report of a whole rollout, paid where there is a budget; see `RolloutBudget.pay`."""
        if self.rollout_budget is None:
            return await run()
        told = {"background": session.background, "trusts_cost": trusts_cost}
        return await self.rollout_budget.pay(session.stage, session.place, run, **told)


class NotAsked:
    """Stands where a model would, for a harness that asks none: it only says which model it is."""

    def __init__(self, spec: ModelSpec) -> None:
        self.endpoint = spec.base_url or spec.provider
        name = "service" if spec.provider == "service" else spec.name  # whose name is its address
        self.fingerprint: Mapping[str, Any] = replace(spec, name=name).fingerprint()
        self.concurrency: int | None = None

    async def complete(self, request: Request) -> Reply:
        """Never called: the agent's calls are its own."""
        raise Fault("contract", f"the harness asked a model of ours at {request.place}")

    async def close(self) -> None:
        """Nothing was opened."""


class Harness(Protocol):
    """Runs one task with one skill. The target's errors are the trajectory's `failure`, ours a `Fault`."""

    name: str
    version: str
    """Changes whenever the same task could go another way; for an agent CLI its own version is part of it."""
    asks_model: bool
    """Whether it asks the session's model. An agent CLI does not: its rollout is paid as a whole."""

    async def run(
        self,
        task: Task,
        environment: Environment | None,
        skill: str,
        prompts: Mapping[str, str],
        session: Session,
    ) -> Trajectory:
        """Drive the environment to its end; what happened, without system prompt and task text.

        `skill` is one text; of a skill with several files `skillopt.skill.document` has what to show of it
        (`as_prompt`) and its files (`unpack`).
        """
        ...


HarnessPlugin: TypeAlias = Callable[[Setup], Harness]
"""`PLUGIN` of every file in this folder. An attribute `asks_model` that is False tells before a run is opened
that the harness asks its models itself.
"""


@runtime_checkable
class HasIdentity(Protocol):
    """A harness plug-in that tells from the target's name what would run; part of a run's identity."""

    def identity(self, spec: ModelSpec) -> str:
        """Changes whenever another program or function would run."""
        ...


def rollout_prompt(prompts: Mapping[str, str], *, own_tools: bool) -> str:
    """The prompt a rollout begins with; with `own_tools` one that speaks of no tools of ours."""
    return prompts.get(AGENT_PROMPT, prompts["rollout"]) if own_tools else prompts["rollout"]


class TurnByTurn:
    """A harness that asks the session's model until there is nothing to observe, the environment is over, or
    its turns are: that failure is `turns`. It understands environments that answer plain text; a subclass
    says what else a turn may hold.
    """

    asks_model = True

    def __init__(self, setup: Setup | None = None) -> None:
        """Nothing is set up: the session's model is all it needs."""

    async def run(
        self,
        task: Task,
        environment: Environment | None,
        skill: str,
        prompts: Mapping[str, str],
        session: Session,
    ) -> Trajectory:
        """See `Harness`. Without an environment there is one turn."""
        system = Message(role="system", content=system_prompt(prompts["rollout"], skill))
        asked = (system, Message(role="user", content=task.prompt, images=task.images))
        said: tuple[Message, ...] = ()
        tools = self.tools(task, environment)
        for _ in range(1 if environment is None else environment.max_turns):
            reply = await session.ask(asked + tuple(map(self.sent, said)), tools)
            said = (*said, Message(role="assistant", content=reply.text, tool_calls=reply.tool_calls))
            failure = self.failure(reply)
            observed = () if failure or environment is None else await self.observe(environment, reply)
            if not observed:
                break
            said = (*said, *observed)
            if is_over(environment):
                failure = environment.failure
                break
        else:
            failure = "turns"
        return Trajectory(
            messages=said,
            answer=reply.text,
            calls=session.calls,
            usage=session.usage,
            failure=failure,
            seconds=session.seconds,
        )

    def tools(self, task: Task, environment: Environment | None) -> tuple[Tool, ...]:
        """What the model may call; raises `Fault` for an environment that this harness cannot drive."""
        return ()

    def sent(self, message: Message) -> Message:
        """How an earlier turn is shown to the model."""
        return message

    def failure(self, reply: Reply) -> str | None:
        """The target's own fault that a reply shows, if any: it ends the rollout."""
        if reply.finish in ("refusal", "length"):
            return reply.finish
        return "empty" if not reply.text.strip() else None

    async def observe(self, environment: Environment, reply: Reply) -> tuple[Message, ...]:
        """What the target is shown after a reply; nothing where the reply stands as the answer."""
        heard = await environment.hear(reply.text) if isinstance(environment, Conversation) else None
        return () if heard is None else (Message(role="user", content=heard),)


def is_over(environment: Environment | None) -> TypeGuard[Episode]:
    """Whether the environment has come to an end of its own, so that the model is not asked again."""
    return isinstance(environment, Episode) and environment.done


def system_prompt(template: str, skill: str) -> str:
    """The rollout prompt with the skill in its place: of several files those that it mentions."""
    return fill(template, {"skill": as_prompt(skill).strip() or "(This skill is still empty.)"})


def _add(one: Usage | None, other: Usage | None) -> Usage | None:
    if one is None or other is None:
        return None
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cached_tokens=_plus(one.cached_tokens, other.cached_tokens),
        cache_write_tokens=_plus(one.cache_write_tokens, other.cache_write_tokens),
        reasoning_tokens=_plus(one.reasoning_tokens, other.reasoning_tokens),
    )


def _plus(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other
