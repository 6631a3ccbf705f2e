"""Scorers that compare values: numbers as people and chat models write them, within a tolerance, and JSON
whatever its spelling.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NoReturn

from pydantic import Field

from skillopt.tasks.rollout import Score
from skillopt.tasks.scorers._scorer import NO_REFERENCE, TextScorer, as_text, last_block, passed, references
from skillopt.tasks.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric(TextScorer):
    """The answer's number is within `absolute` or `relative` tolerance of an acceptable one.

    Groups of thousands (1,234; 1 234 567; 1.234,56), decimals with a point or a comma, fractions, powers of
    ten, LaTeX, a currency sign, `%`, scale words (thousand to trillion) and an answer that is a number in
    brackets (negative, as in accounts) are understood; scale words count, so 5 million is not 5 billion. Of
    several numbers the one that is boxed or called the answer counts, else the last one.
    """

    name: ClassVar[str] = "numeric"
    revision: ClassVar[int] = 2
    absolute: Annotated[float, Field(ge=0)] = 1e-9
    relative: Annotated[float, Field(ge=0)] = 1e-6

    def check_task(self, task: Task) -> None:
        """Every reference is a finite number."""
        for text in references(task):
            quantity = read_quantity(text)
            if quantity is None or not math.isfinite(quantity.value):
                raise task.error(f"has a reference {text!r} that is not a number. Correct it.")

    def grade(self, task: Task, answer: str) -> Score:
        """All or nothing."""
        wanted = references(task)
        given = read_quantity(answer)
        if given is None:
            return passed(False, answer, wanted, "No number was found.")
        return passed(any(self._close(given, read_quantity(text)) for text in wanted), answer, wanted)

    def _close(self, given: Quantity, wanted: Quantity | None) -> bool:
        return wanted is not None and any(
            math.isclose(ours, theirs, rel_tol=self.relative, abs_tol=self.absolute)
            for ours in given.readings(wanted)
            for theirs in wanted.readings(given)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonEqual(TextScorer):
    """The answer is JSON of the same value: key order and spacing do not count, 1 equals 1.0, true is not 1.

    The last fenced block of the answer is read, or all of it. The reference is the value itself - a list is
    one value, not alternatives - or JSON text.
    """

    name: ClassVar[str] = "json_equal"
    revision: ClassVar[int] = 2

    def check_task(self, task: Task) -> None:
        """The reference is JSON."""
        try:
            _expected(task)
        except (ValueError, RecursionError) as error:
            raise task.error(
                f"has a reference that is text and not JSON: {error}. A plain string needs quotes inside."
            ) from error
        if task.reference is None:
            raise task.error(NO_REFERENCE)

    def grade(self, task: Task, answer: str) -> Score:
        """All or nothing."""
        expected = _expected(task)
        try:
            given = _loads(last_block(answer))
        except (ValueError, RecursionError) as error:
            return passed(False, answer, [as_text(expected)], f"The answer is not JSON: {error}.")
        return passed(_same(given, expected), answer, [as_text(expected)])


def _expected(task: Task) -> Any:
    return _loads(task.reference) if isinstance(task.reference, str) else task.reference


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_not_json)


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


_SCALES = {
    **{"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "lakh": 1e5, "crore": 1e7},
    **{"millionen": 1e6, "mio": 1e6, "millones": 1e6, "milliarde": 1e9, "milliarden": 1e9, "mrd": 1e9},
    **{"milliard": 1e9, "bn": 1e9, "mn": 1e6, "mln": 1e6, "k": 1e3, "m": 1e6, "b": 1e9},
}
_WORDS = "|".join(sorted((word for word in _SCALES if len(word) > 1), key=len, reverse=True))
_PLAIN = r"\d{1,3}(?:,\d{3})+(?!\d) | \d{1,2}(?:,\d{2})+,\d{3}(?!\d) | \d{1,3}(?:'\d{3})+(?!\d) | \d+"
_CORE = rf"""
    (?P<sign>(?<![\w.)])(?:[-+](?=[\d.$€£¥₹])|[-+]\s(?=[$€£¥₹])|−\s?|–(?=\d)) | (?<!\w)(?:minus|negative)\s)?
    \s* (?P<currency>[$€£¥₹] \s* (?P<inner>[-+−](?=[\d.]))?)?
    (?:
        (?P<whole>(?<![\w./,])\d+\s)? (?P<over>(?<![\w./,])\d+) \s? / \s? (?P<under>\d+)(?![\w/]|\.\d|,\d)
      | (?P<comma> (?<![\w.,]) (?: (?:0|[1-9]\d*),(?:\d{{1,2}}|\d{{4,}}) | 0,\d{{3}}
            | \d{{1,3}}(?:[.']\d{{3}})+,\d+ | \d{{1,3}}(?:\.\d{{3}}){{2,}} ) (?!\d|[.,]\d) )
      | (?P<digits> (?<![\w.]) (?: {_PLAIN} ) (?:\.\d+)? | (?<![\w.])\.\d+ )
    )
    (?P<power>e[-+]?\d+ | \s?[×x*·]\s?10\s?\^\s?\(?[-+−]?\d+\)?)?
    \s* (?P<percent>%|(?:percent|per\ cent|pct|prozent)\b)?
    \s* (?P<scale>\b(?:{_WORDS})s?\b | (?<=\d)[kmb]\b)?
"""
_NUMBER = re.compile(_CORE, re.VERBOSE | re.IGNORECASE)
_BRACKETED = re.compile(rf"\s*[$€£¥₹]?\s*\({_CORE}\)\s*%?\s*", re.VERBOSE | re.IGNORECASE)
_CUE = re.compile(
    r"""(?<!\w)(?:
        (?:answer|result)[\s*_]* (?:\bis\b|:|=)
      | (?:antwort|ergebnis)[\s*_]* (?:\b(?:ist|lautet|beträgt)\b|:|=)
      | (?:respuesta|resultado)[\s*_]* (?:\bes\b|:|=)
      | (?:réponse|résultat)[\s*_]* (?:\best\b|:|=)
      | (?:risposta|risultato)[\s*_]* (?:\bè|:|=)
      | 答案[\s*_]*[是为:：]
    )[\s*_:]*""",
    re.VERBOSE | re.IGNORECASE,
)
_RETRACTED = re.compile(
    r"(?<!\w)(?:wait|actually|correction|mistake|instead|recalculat\w*)(?!\w)", re.IGNORECASE
)
_NOT = re.compile(r"(?:not|nicht|no|pas)(?!\w)", re.IGNORECASE)
_CLAUSE = re.compile(r"[.!?;](?:\s|$)|\n|\s\(|,\s|\s(?:because|since|which|as)\s", re.IGNORECASE)
_OPERATOR = re.compile(r"\s?[-+×*·/^]\s?[\d($]")
_BOXED = re.compile(r"\\boxed\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
_GSM = re.compile(r"^####[ \t]*([-−$€£\d.,%' ]+)$", re.MULTILINE)
_FRACTION = re.compile(r"\\[dt]?frac\s*\{\s*([-−]?)(\d+)\s*\}\s*\{\s*(\d+)\s*\}")
_SUPERSCRIPT = re.compile(r"(?<=10)[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_RAISED = re.compile("[⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_TEN = re.compile(r"(?<![\w.×*·^])(?<![×x*·]\s)10\s?\^\s?\(?([-+−]?\d+)\)?")
_VULGAR = re.compile("[¼-¾⅐-⅞]")
_SPACED = re.compile(r"(?<=\d)[\u00a0\u2007\u2009\u202f’](?=\d{3}(?!\d))")  # as groups of digits are parted
_GROUPS = re.compile(r"\D*(?<![\w.,/'])\d{1,3}(?: \d{3})+(?!\d)(?:[.,]\d{1,2})?\D*")
_THINKING = re.compile(r"<think(?:ing)?>(?:(?!<think).)*?</think(?:ing)?>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number as written, and whether a percent sign stood behind it."""

    value: float
    percent: bool

    def readings(self, other: Quantity) -> tuple[float, ...]:
        """The values this may stand for beside `other`: `12%` against a plain number is 12 (same unit) or
        0.12.
        """
        return (self.value, self.value / 100) if self.percent and not other.percent else (self.value,)


def read_quantity(text: str) -> Quantity | None:
    """The number an answer gives, or None: what it boxes or calls the answer, else the last one in it."""
    text = _THINKING.sub("", text)
    if boxes := _BOXED.findall(text):
        return _last(_undressed(boxes[-1]))
    if lines := _GSM.findall(text):
        return _last(_undressed(lines[-1]))
    text = _undressed(text)
    return _called_answer(text) or _last(text)


def _called_answer(text: str) -> Quantity | None:
    """What follows `the answer is`, up to the end of its clause. A reply that corrects itself afterwards is
    read to its end instead.
    """
    cue = next(iter(reversed(list(_CUE.finditer(text)))), None)
    if cue is None or _NOT.match(text, cue.end()) or _RETRACTED.search(text, cue.end()):
        return None
    rest = text[cue.end() : cue.end() + 300]
    end = _CLAUSE.search(rest)
    clause = rest[: end.start()] if end else rest
    clause = re.split("[=≈]", clause)[-1]
    if _BRACKETED.fullmatch(clause) or _GROUPS.fullmatch(clause):
        return _last(clause)
    first = _NUMBER.search(clause)
    if first is None:
        return None
    return _last(clause) if _OPERATOR.match(clause, first.end()) else _quantity(first)


def _last(text: str) -> Quantity | None:
    text = " ".join(text.split())  # long runs of white space would make the pattern backtrack
    if _GROUPS.fullmatch(text):  # nothing but `1 234 567`: the blanks part groups, not numbers
        text = re.sub(r"(?<=\d) (?=\d{3})", "'", text)
    if bracketed := _BRACKETED.fullmatch(text):
        return _quantity(bracketed, is_negative=True)
    match = next(iter(reversed(list(_NUMBER.finditer(text)))), None)
    return None if match is None else _quantity(match)


def _quantity(match: re.Match[str], is_negative: bool = False) -> Quantity:
    if match["over"] is not None:
        under = float(match["under"])
        value = float(match["whole"] or 0) + (float(match["over"]) / under if under else float("nan"))
    elif match["comma"] is not None:
        value = float(re.sub("[.']", "", match["comma"]).replace(",", "."))
    else:
        value = float(match["digits"].replace(",", "").replace("'", ""))
    if power := match["power"]:
        exponent = re.sub(r".*[e^]|[\s()]", "", power.replace("−", "-"), flags=re.IGNORECASE)
        value = float(f"{value!r}e{int(exponent)}") if abs(int(exponent)) < 400 else float("inf")
    value *= _scale(match)
    signs = {(match["sign"] or "").strip().lower(), (match["inner"] or "").strip()}
    negative = is_negative or bool(signs & {"-", "−", "–", "minus", "negative"})
    return Quantity(value=-value if negative else value, percent=bool(match["percent"]) or "%" in match[0])


def _scale(match: re.Match[str]) -> float:
    """`$5M` is money in millions, and `5m` is a length; `100k` is as many thousands, and `300K` a heat."""
    written = match["scale"] or ""
    if len(written) == 1 and not match["currency"] and written != "k":
        return 1.0
    name = written.lower()
    return _SCALES.get(name) or _SCALES.get(name.removesuffix("s"), 1.0)


def _undressed(text: str) -> str:
    """Text without the marks of Markdown and LaTeX, its characters as a keyboard has them."""
    text = _FRACTION.sub(r"\1\2/\3 ", re.sub(r"(?<=\d)\s?(?=\\[dt]?frac)", " ", text))
    text = re.sub(r"\\(?:times|cdot)\b", "×", text)
    text = re.sub(
        r"\\(?:text\w*|math\w*|mbox|approx|left|right|displaystyle|quad)\b|\\[,;:! ()\[\]]", " ", text
    )
    text = text.replace("{,}", ",").replace("\\", "")
    text = re.sub(r"\^\{([-−+]?\d+)\}", r"^\1", text)
    text = _SUPERSCRIPT.sub(lambda found: "^" + unicodedata.normalize("NFKC", found[0]), text)
    text = _TEN.sub(lambda found: "1e" + found[1].replace("−", "-"), _RAISED.sub("", text))
    text = _VULGAR.sub(lambda found: " " + unicodedata.normalize("NFKC", found[0]).replace("⁄", "/"), text)
    text = unicodedata.normalize("NFKC", _SPACED.sub("'", text))
    return re.sub(r"\*\*|__|[`{}]|\$(?!\s?[-+−]?[\d.])|(?<=\d)\$", "", text)
