"""What a scorer is, how an answer is read out of a reply, and what counts as a score."""

from __future__ import annotations

import inspect
import json
import math
import numbers
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Protocol, runtime_checkable

from skillopt.errors import ScoringError
from skillopt.tasks.judge import Judge, ScoredByJudge
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.task import Task

# An opening tag ends the text before it, so the innermost pair wins and many unclosed tags stay cheap.
_ANSWER = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.IGNORECASE | re.DOTALL)
_FENCE = re.compile(r"^ {0,3}(```|~~~)[^\n]*\n(.*?)^ {0,3}\1", re.DOTALL | re.MULTILINE)
_BLANKS = str.maketrans(dict.fromkeys("\u00a0\u2007\u2009\u202f", " "))
_SHOWN = 300
NO_REFERENCE = "has no reference to compare with. Give it one, or use a scorer that needs none."


@runtime_checkable
class Scorer(Protocol):
    """Turns what the target did into a score.

    `score` raises `ScoringError` when the scorer itself failed; a wrong answer is a score. `check_task`
    raises `TaskError` for a task that this scorer can never score (no reference, a pattern that does not
    compile), before anything is paid.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Changes whenever the same answer could get another score."""
        ...

    @property
    def graded(self) -> bool | None:
        """True when it gives partial credit and has no pass mark; None when only its scores will tell."""
        ...

    def check_task(self, task: Task) -> None: ...

    async def score(self, task: Task, trajectory: Trajectory) -> Score: ...


def no_answer(failure: str) -> Score:
    """The score of a target that failed by itself: refusal, empty, length, turns."""
    return Score(hard=0.0, soft=0.0, feedback=f"The target gave no answer to score: {failure}.")


async def score_trajectory(
    scorer: Scorer, task: Task, trajectory: Trajectory, judge: Judge | None = None
) -> Score:
    """Score one trajectory. What the target itself got wrong is hard 0 and asks no scorer."""
    if trajectory.failure is not None:
        return no_answer(trajectory.failure)
    if judge is not None and isinstance(scorer, ScoredByJudge):
        return await scorer.score_with(judge, task, trajectory)
    return await scorer.score(task, trajectory)


def rule_of(scorer: Scorer) -> str:
    """How a scorer decides, in words for whoever writes skills: the first paragraph of the documentation of a
    named scorer, with its options that are switches or numbers, or of a function; empty for others.
    """
    if isinstance(scorer, NamedScorer):
        chosen = [
            f"{field.name}: {value}"
            for field in fields(scorer)
            if isinstance(value := getattr(scorer, field.name), (bool, int, float)) and value != field.default
        ]
        return _first_paragraph(type(scorer)) + (f" ({', '.join(chosen)})" if chosen else "")
    function = getattr(scorer, "function", None)
    return _first_paragraph(getattr(function, "func", function))  # `func`: functools.partial


def _first_paragraph(documented: object) -> str:
    words = None if documented is None else inspect.getdoc(documented)
    return " ".join((words or "").split("\n\n")[0].split())


def extract_answer(text: str) -> str:
    """The last `<answer>...</answer>` of a reply, in any case; the whole reply when there is none."""
    found = _ANSWER.findall(text)
    return str(found[-1] if found else text).strip()


def extract_short_answer(text: str) -> str:
    """Like `extract_answer`, but without tags the last line that holds anything: for a few words."""
    found = _ANSWER.findall(text)
    if found:
        return str(found[-1]).strip()
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def last_block(text: str) -> str:
    """The last fenced block of a text, or all of it."""
    blocks = _FENCE.findall(text)
    return str(blocks[-1][1] if blocks else text)


def same_signs(text: str) -> str:
    """Text in which what looks the same is the same: letters with their accents in one piece, blanks that
    do not break as blanks, no byte order mark.
    """
    return unicodedata.normalize("NFC", text).translate(_BLANKS).replace("\ufeff", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedScorer(ABC):
    """A scorer of ours, which compares the answer with the task's reference. Its fields are its options."""

    name: ClassVar[str]
    revision: ClassVar[int] = 1
    """Raise it when the same options would now score differently."""
    graded: ClassVar[bool] = False

    @property
    def version(self) -> str:
        """Name, revision and options."""
        return f"{self.name}-{self.revision} {json.dumps(asdict(self), sort_keys=True)}"

    def check_task(self, task: Task) -> None:
        """The task has a reference."""
        references(task)

    @abstractmethod
    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Read the answer out of the reply and score it."""


class TextScorer(NamedScorer):
    """A scorer of ours that needs nothing but the text of the answer."""

    __slots__ = ()
    is_short: ClassVar[bool] = False
    """Whether an answer is a few words: without tags it is then the last line."""

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Read the answer and grade it."""
        read = extract_short_answer if self.is_short else extract_answer
        return self.grade(task, read(trajectory.answer))

    @abstractmethod
    def grade(self, task: Task, answer: str) -> Score:
        """The score of an answer that was read out of a reply."""


def given_references(task: Task) -> tuple[str, ...]:
    """The acceptable answers as text: a reference is one value or a list of them; empty ones do not count."""
    given = task.reference if isinstance(task.reference, (list, tuple)) else [task.reference]
    return tuple(text for text in map(as_text, given) if text.strip())


def references(task: Task) -> tuple[str, ...]:
    """The acceptable answers; raises `TaskError` where there is none."""
    if not (texts := given_references(task)):
        raise task.error(NO_REFERENCE)
    return texts


def as_text(value: Any) -> str:
    """A JSON value as one would write it in an answer."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def passed(is_right: bool, answer: str, expected: Iterable[str], note: str = "") -> Score:
    """All or nothing, with words about what was missed."""
    if is_right:
        return Score(hard=1.0, soft=1.0)
    return Score(hard=0.0, soft=0.0, feedback=missed(answer, expected, note))


def missed(answer: str, expected: Iterable[str], note: str = "") -> str:
    """What was expected and what came, short enough for a prompt."""
    wanted = " or ".join(repr(clip(text)) for text in list(expected)[:5])
    return f"Expected {wanted}; answered {clip(answer)!r}.{' ' + note if note else ''}"


def clip(text: str) -> str:
    """The beginning of a text."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def to_score(value: Any, *, pass_at: float | None, who: str) -> Score:
    """What a user's scorer returned, as a score: bool, a number in [0, 1], or `Score`. Anything else is a
    broken contract.
    """
    if isinstance(value, Score):
        return Score(hard=_unit(value.hard, who), soft=_unit(value.soft, who), feedback=value.feedback)
    if callable(getattr(value, "item", None)):  # a numpy or torch scalar
        value = value.item()
    if isinstance(value, bool):
        return Score(hard=float(value), soft=float(value))
    soft = _unit(value, who)
    return Score(hard=float(soft >= (1.0 if pass_at is None else pass_at)), soft=soft)


def _unit(value: Any, who: str) -> float:
    if not isinstance(value, numbers.Real):
        raise ScoringError(
            "contract",
            f"{who} returned {clip(repr(value))}; a score is True, False, a number from 0 to 1, or a Score",
        )
    try:
        number = float(value)
    except OverflowError:  # a whole number that no float can hold
        number = math.inf
    if not 0 <= number <= 1:  # also true of NaN
        raise ScoringError("contract", f"{who} returned {number:g}; a score lies between 0 and 1")
    return number
