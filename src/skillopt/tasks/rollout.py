"""What running one task once gives: a measurement, or the named reason why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from skillopt.errors import Fault, Kind
from skillopt.messages import Message, ToolCall, Usage
from skillopt.redact.printable import clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Hard (passed or not, as a number in [0, 1]) and soft (partial credit) with words for the optimizer."""

    hard: float
    soft: float
    feedback: str = ""

    @property
    def passed(self) -> bool:
        """Whether reflection counts it among the successes; a fraction of hard does."""
        return self.hard > 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """What the target did: the whole conversation, its final answer, and how it failed by itself, if it did.

    `failure` names the target's own fault: refusal, empty, length, turns. It is scored, with hard 0.
    """

    messages: tuple[Message, ...]
    answer: str
    calls: int
    usage: Usage | None
    failure: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """Files the target made or changed in its workspace: relative path to base64."""
    outcome: Mapping[str, str] = field(default_factory=dict)
    """What its workplace found after the work beside files, by name: such as the commits that were made."""
    loaded: tuple[str, ...] = ()
    """Files of the skill that provably came before the model; recorded by harnesses that install a skill."""
    seconds: float | None = None
    """How long its model calls took without waiting, or an agent program ran. None is unknown."""


def storable(done: Trajectory) -> Trajectory:
    """The same in text that UTF-8 can hold. An agent's JSON may hold half of an emoji, where it was cut."""
    messages = tuple(
        replace(
            one,
            content=clean_text(one.content),
            tool_calls=tuple(
                ToolCall(
                    id=clean_text(call.id), name=clean_text(call.name), arguments=clean_text(call.arguments)
                )
                for call in one.tool_calls
            ),
            tool_call_id=None if one.tool_call_id is None else clean_text(one.tool_call_id),
        )
        for one in done.messages
    )
    outcome = {name: clean_text(text) for name, text in done.outcome.items()}
    return replace(done, messages=messages, answer=clean_text(done.answer), outcome=outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A measurement."""

    task_id: str
    draw: int
    attempt: int
    key: str
    trajectory: Trajectory
    score: Score
    target: str | None = None
    """Whose it is, where a skill is measured with several targets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """No measurement, and why. Never averaged, never a zero."""

    task_id: str
    draw: int
    attempt: int
    kind: Kind
    detail: str
    target: str | None = None
    error: Fault | None = field(default=None, compare=False)
    """What a person's own code did wrong, where this process saw it."""


Rollout: TypeAlias = Scored | Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Mean scores over the scored rows; None where there is none."""

    hard: float | None
    soft: float | None
    n: int


def means(outcomes: Iterable[Rollout]) -> Means:
    """Average what was measured; invalid rows are left out, never counted as zero."""
    scores = [outcome.score for outcome in outcomes if isinstance(outcome, Scored)]
    n = len(scores)
    return Means(
        hard=sum(score.hard for score in scores) / n if n else None,
        soft=sum(score.soft for score in scores) / n if n else None,
        n=n,
    )
