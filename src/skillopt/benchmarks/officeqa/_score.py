"""Decides whether an answer is right: amounts within a tolerance and scale, dates and words exactly."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from skillopt.benchmarks.officeqa._answers import SCALES, FigureAmount, read
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers import NamedScorer, extract_answer, missed, references, squad_f1
from skillopt.tasks.task import Task

TOLERANCE = 0.001
_TAGS = re.compile(r"<answer>.*</answer>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeAnswer(NamedScorer):
    """Hard is right or wrong, soft the token F1 of a wrong answer. An answer stands in tags; without them
    there is none.
    """

    name: ClassVar[str] = "officeqa"
    tolerance: Annotated[float, Field(ge=0)] = TOLERANCE

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Read the answer out of the last reply and compare it."""
        wanted = references(task)
        if _TAGS.search(trajectory.answer) is None:
            told = "The last reply holds neither a tool call nor an <answer>."
            return Score(hard=0.0, soft=0.0, feedback=told)
        answer = extract_answer(trajectory.answer)
        question = str(task.data.get("question", ""))
        if any(is_right(answer, reference, question, self.tolerance) for reference in wanted):
            return Score(hard=1.0, soft=1.0)
        soft = max(squad_f1(answer, reference) for reference in wanted)
        return Score(hard=0.0, soft=soft, feedback=missed(answer, wanted))


def is_right(answer: str, reference: str, question: str = "", tolerance: float = TOLERANCE) -> bool:
    """Whether an answer says what the reference does.

    Amounts must be as many, in the same order, each within the relative `tolerance`; four bare digits (a
    year) must be equal. Percent signs may be left out. A scale word counts: 5 million is not 5 billion, nor 5
    - unless the question itself asks for millions. A unit may be left out, but not be another one.
    """
    given, wanted = read(answer), read(reference)
    if wanted.date is not None:
        return given.date == wanted.date
    if not wanted.amounts or wanted.before:
        return bool(wanted.words) and given.words == wanted.words
    is_other_unit = bool(wanted.after and given.after) and given.after != wanted.after
    return (
        len(given.amounts) == len(wanted.amounts)
        and not is_other_unit
        and all(
            _is_close(ours, theirs, question.casefold(), tolerance)
            for ours, theirs in zip(given.amounts, wanted.amounts, strict=True)
        )
    )


def _is_close(given: FigureAmount, wanted: FigureAmount, question: str, tolerance: float) -> bool:
    if wanted.is_plain:
        tolerance = 0.0
    ours, theirs = [given.value], [wanted.value]
    if given.percent != wanted.percent:
        (ours if given.percent else theirs).append((given if given.percent else wanted).value / 100)
    said = {given.scale, wanted.scale} - {""}
    if "" in (given.scale, wanted.scale) and any(_asks_for(scale, question) for scale in said):
        ours.append(given.number)
        theirs.append(wanted.number)
    return any(math.isclose(one, other, rel_tol=tolerance, abs_tol=1e-9) for one in ours for other in theirs)


def _asks_for(scale: str, question: str) -> bool:
    """Whether a question wants its answer in that scale: `in millions of dollars`, `in million`."""
    return scale in SCALES and re.search(rf"\b{scale}s\b|\bin {scale}\b", question) is not None
