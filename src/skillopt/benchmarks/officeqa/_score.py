"""Decides whether an answer is right: amounts within a tolerance and scale, dates and words exactly."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers import NamedScorer, extract_answer, missed, references
from skillopt.tasks.scorers.text import squad_f1
from skillopt.tasks.task import Task

SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_AMOUNT = re.compile(
    r"""
    (?P<open>\()? \s*
    (?P<sign>(?<![\w.)])[-+−–] | \b(?:minus|negative)\b)? \s*
    (?: (?:US)?[$€£¥] \s* (?P<inner>[-−–](?=[\d.]))? )?
    (?P<digits> (?<![\w.]) (?:\d{1,3}(?:,\d{3})+(?!\d)|\d+) (?:\.\d+)? | (?<![\w.])\.\d+ )
      (?P<power>[eE][-+]?\d+)?
    (?!\w) \s* (?P<percent>%|percent\b|per\ cent\b|pct\b)? \s*
      (?P<scale>\b(?:thousand|million|billion|trillion)s?\b)?
    \s* (?P<close>\))?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+")
_UNSAID = frozenset({"a", "an", "the", "dollar", "dollars", "usd", "us", "nominal"})
"""Words that change nothing: articles, and the money of every amount in these documents."""
MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october"),
    *("november", "december"),
)
_ISO = re.compile(r"(\d{4})-(\d{1,2})(?:-(\d{1,2}))?")
_AMERICAN = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureAmount:
    """A number as it was written."""

    number: float
    """Without its scale word: 5 in `5 million`."""
    scale: str
    percent: bool
    is_plain: bool
    """Four bare digits, such as a year."""

    @property
    def value(self) -> float:
        """With its scale word."""
        return self.number * SCALES.get(self.scale, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Date:
    """A day or a month."""

    year: int
    month: int
    day: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """An answer taken apart."""

    amounts: tuple[FigureAmount, ...]
    before: tuple[str, ...]
    """Words in front of the first amount."""
    after: tuple[str, ...]
    """Words behind it: a unit, perhaps."""
    date: Date | None
    words: tuple[str, ...]
    """The whole answer in words and canonical numbers, for answers that are no amounts."""


def read(text: str) -> Read:
    """Take an answer apart."""
    text = " ".join(unicodedata.normalize("NFKC", text).split())
    found = list(_AMOUNT.finditer(text))
    first = found[0].start() if found else len(text)
    rest = _AMOUNT.sub(" ", text[first:])
    return Read(
        amounts=tuple(map(_amount, found)),
        before=_words(text[:first]),
        after=_words(rest),
        date=_date(text),
        words=_words(_AMOUNT.sub(lambda match: f" {_canonical(match)} ", text)),
    )


def _amount(match: re.Match[str]) -> FigureAmount:
    number = float(match["digits"].replace(",", "") + (match["power"] or ""))
    is_bracketed = match["open"] and match["close"]
    negative = (match["sign"] or "+") != "+" or bool(match["inner"] or is_bracketed)
    return FigureAmount(
        number=-number if negative else number,
        scale=(match["scale"] or "").lower().removesuffix("s"),
        percent=match["percent"] is not None,
        is_plain=re.fullmatch(r"\d{4}", match[0].strip()) is not None,
    )


def _canonical(match: re.Match[str]) -> str:
    amount = _amount(match)
    sign = "minus " if amount.number < 0 else ""
    digits = f"{abs(amount.number):.12g}".replace(".", "point").replace("+", "")
    return f"{sign}{digits}{' percent' if amount.percent else ''} {amount.scale}"


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in _WORD.findall(text.casefold()) if word not in _UNSAID)


def _date(text: str) -> Date | None:
    """The date that all of a text is: `June 30, 1944`, `30 June 1944`, `1944-06-30`, `6/30/1944`..."""
    bare = text.strip(" .").casefold()
    if match := _ISO.fullmatch(bare):
        return _checked(int(match[1]), int(match[2]), match[3] and int(match[3]))
    if match := _AMERICAN.fullmatch(bare):
        return _checked(int(match[3]), int(match[1]), int(match[2]))
    parts = [part for part in re.split(r"[\s,.]+", bare) if part and part not in ("the", "of")]
    months = [
        number
        for part in parts
        for number, name in enumerate(MONTHS, 1)
        if len(part) >= 3 and name.startswith(part)
    ]
    numbers = [int(match[1]) for part in parts if (match := re.fullmatch(r"(\d{1,4})(?:st|nd|rd|th)?", part))]
    years, days = [n for n in numbers if n > 999], [n for n in numbers if n <= 31]
    if len(months) != 1 or len(years) != 1 or len(days) > 1 or 2 + len(days) != len(parts):
        return None
    return _checked(years[0], months[0], days[0] if days else None)


def _checked(year: int, month: int, day: int | str | None) -> Date | None:
    number = int(day) if day else None
    is_one = 1 <= month <= 12 and (number is None or 1 <= number <= 31)
    return Date(year=year, month=month, day=number) if is_one else None


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
