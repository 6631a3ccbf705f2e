"""Which answers are right: amounts with sign, percent and scale, dates, words; every verdict here was decided
by hand.
"""

from __future__ import annotations

from typing import Any

import pytest

from skillopt.benchmarks.officeqa._score import OfficeAnswer, is_right
from skillopt.errors import TaskError
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import Task

RIGHT = [
    ("1234", "1,234.0"),
    ("$1,234.50", "1234.5"),
    ("5 million", "$5,000,000"),
    ("5,000 million", "5 billion"),
    ("US$ 2.5 billion dollars", "2.5 billion"),
    ("(45.6)", "-45.6"),
    ("($1,200)", "-1200"),
    ("−45.6", "-45.6"),
    ("-$45.6", "$-45.6"),
    ("minus 45.6", "(45.6)"),
    ("negative 3%", "-3 percent"),
    ("12.34%", "12.34 percent"),
    ("12.34", "12.34%"),
    ("0.1234", "12.34%"),
    ("about 507.3", "507.3"),
    ("507.4", "507.3"),
    ("1.2e3", "1,200"),
    (".5", "0.5"),
    ("0", "0.00"),
    ("[1.5, (2.5)]", "1.5, -2.5"),
    ("1.5 and 2.5", "[1.5, 2.5]"),
    ("12 fine ounces", "12 Fine Ounces"),
    ("12", "12 fine ounces"),
    ("1941", "1941"),
    ("March 1977", "Mar. 1977"),
    ("June 30, 1944", "1944-06-30"),
    ("30 June 1944", "June 30th, 1944"),
    ("the 30th of June 1944", "6/30/1944"),
    ("The Federal Reserve", "federal reserve."),
    ("Café", "CAFE\u0301"),
    ("１２．５％", "12.5%"),
    ("1\u00a0234", "1 234"),
    ("Straße", "STRASSE"),
    ("Q3 2010", "q3, 2010"),
    ("Series E", "series-E"),
    ("Yes", "yes"),
]
WRONG = [
    ("5 billion", "5 million"),
    ("5", "5 million"),
    ("5 million", "5"),
    ("45.6", "-45.6"),
    ("45.6", "(45.6)"),
    ("508", "507"),
    ("1942", "1941"),
    ("1,945", "1,941.0"),
    ("13.34%", "12.34%"),
    ("1234%", "12.34%"),
    ("1.5", "[1.5, 2.5]"),
    ("[2.5, 1.5]", "[1.5, 2.5]"),
    ("507.3 or 600", "507.3"),
    ("In 1941: 507.3", "507.3"),
    ("12 pounds", "12 ounces"),
    ("March 1978", "March 1977"),
    ("June 1944", "June 30, 1944"),
    ("June 31, 1944", "June 30, 1944"),
    ("Q4 2010", "Q3 2010"),
    ("Series F", "Series E"),
    ("", "5"),
    ("", "yes"),
    ("None", "5"),
    ("n/a", "0"),
    ("five", "5"),
    ("no", "yes"),
]


@pytest.mark.parametrize(("answer", "reference"), RIGHT)
def test_right(answer: str, reference: str) -> None:
    assert is_right(answer, reference)


@pytest.mark.parametrize(("answer", "reference"), WRONG)
def test_wrong(answer: str, reference: str) -> None:
    assert not is_right(answer, reference)


@pytest.mark.parametrize(
    ("answer", "reference", "question", "right"),
    [
        ("507 million", "507", "What were receipts, in millions of nominal dollars?", True),
        ("507", "507 million", "What were receipts, in millions of dollars?", True),
        ("507 billion", "507", "What were receipts, in millions of dollars?", False),
        ("507 million", "507", "How many dollars were received?", False),
        ("507 billion", "507 million", "In millions or in billions?", False),
        ("0.507 billion", "507 million", "In millions of dollars?", True),
        ("507,000,000", "507 million", "How much?", True),
    ],
)
def test_a_scale_word_may_stand_in_the_question_instead(
    answer: str, reference: str, question: str, right: bool
) -> None:
    assert is_right(answer, reference, question) == right


@pytest.mark.parametrize(
    ("answer", "reference", "tolerance", "right"),
    [
        ("510", "507", 0.01, True),
        ("510", "507", 0.001, False),
        ("507.0001", "507", 0.0, False),
        ("1950", "1941", 0.01, False),
    ],
)
def test_the_tolerance_is_relative_and_years_have_none(
    answer: str, reference: str, tolerance: float, right: bool
) -> None:
    assert is_right(answer, reference, tolerance=tolerance) == right


@pytest.mark.parametrize(
    ("said", "hard", "soft"),
    [
        ("<answer>12</answer> no: <ANSWER>5 million</ANSWER>", 1.0, 1.0),
        ("It is 5 million.", 0.0, 0.0),
        ("<answer></answer>", 0.0, 0.0),
        ("<answer>5 billion</answer>", 0.0, 0.5),
        ("", 0.0, 0.0),
    ],
)
async def test_the_answer_stands_in_the_last_tags(said: str, hard: float, soft: float) -> None:
    task = Task(id="t", prompt="p", reference="5 million", data={"question": "How much?"})
    found = await OfficeAnswer().score(task, Trajectory(messages=(), answer=said, calls=1, usage=None))
    assert (found.hard, found.soft) == (hard, pytest.approx(soft))
    assert bool(found.feedback) == (hard == 0.0)


@pytest.mark.parametrize("reference", [None, "", []])
def test_a_task_without_a_reference_is_refused_at_load(reference: Any) -> None:
    with pytest.raises(TaskError, match="no reference"):
        OfficeAnswer().check_task(Task(id="t", prompt="p", reference=reference))


def test_the_version_tells_another_tolerance() -> None:
    assert OfficeAnswer().version != OfficeAnswer(tolerance=0.01).version
