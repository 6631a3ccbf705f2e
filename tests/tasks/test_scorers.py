"""The scorers that have a name, and how a user's words become a scorer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from skillopt.errors import ConfigError, ScoringError, TaskError, UnknownName
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers import SCORERS, Scorer, extract_answer, get_scorer, score_trajectory
from skillopt.tasks.task import Task


def task(reference: Any = None, **data: Any) -> Task:
    return Task(id="t1", prompt="question", reference=reference, data=data)


def said(answer: str, failure: str | None = None) -> Trajectory:
    return Trajectory(messages=(), answer=answer, calls=1, usage=None, failure=failure)


async def score(
    name: str, reference: Any, answer: str, data: dict[str, Any] | None = None, **options: Any
) -> Score:
    scorer = get_scorer(name, options=options)
    asked = task(reference, **(data or {}))
    scorer.check_task(asked)
    return await score_trajectory(scorer, asked, said(answer))


async def hard(name: str, reference: Any, answer: str, **options: Any) -> float:
    return (await score(name, reference, answer, **options)).hard


# Written by hand from the published description of the measure, not from our code: (answer, references, exact
# match, F1).
SQUAD = [
    ("Paris", ["Paris"], 1, 1),
    ("paris", ["PARIS"], 1, 1),
    ("The Paris", ["Paris"], 1, 1),
    ("a an the Paris", ["Paris"], 1, 1),
    ("theatre", ["atre"], 0, 0),
    ("Paris.", ["Paris"], 1, 1),
    ('"Paris"', ["Paris"], 1, 1),
    ("O'Hara", ["OHara"], 1, 1),
    ("rock-n-roll", ["rock n roll"], 0, 0),
    ("  new \t york ", ["New York"], 1, 1),
    ("Café", ["café"], 1, 1),
    ("cafe", ["café"], 0, 0),
    ("“Paris”", ["Paris"], 0, 0),
    ("日本", ["日本"], 1, 1),
    ("New York City", ["New York"], 0, 0.8),
    ("New York", ["New York City"], 0, 0.8),
    ("Barack Obama", ["Obama"], 0, 2 / 3),
    ("to be to be", ["to be"], 0, 2 / 3),
    ("London", ["Paris", "London"], 1, 1),
    ("London Bridge", ["Paris", "London"], 0, 2 / 3),
    ("Paris", [None, "Paris", ""], 1, 1),
    ("", ["Paris"], 0, 0),
    ("the", ["Paris"], 0, 0),
    ("!", ["The"], 1, 1),
    ("1984", [1984], 1, 1),
    ("Paris", "Paris", 1, 1),
    ("I think so.\nParis\n\n", ["Paris"], 1, 1),
    ("Berlin <answer>Rome</answer> or <ANSWER> Paris </Answer> done", ["Paris"], 1, 1),
    ("<answer></answer>", ["Paris"], 0, 0),
    ("<answer>Paris", ["answerParis"], 1, 1),
]


@pytest.mark.parametrize(("answer", "reference", "exact", "f1"), SQUAD)
async def test_squad_agrees_with_the_hand_written_table(
    answer: str, reference: Any, exact: float, f1: float
) -> None:
    found = await score("squad", reference, answer)
    assert (found.hard, found.soft) == (exact, pytest.approx(f1))
    assert bool(found.feedback) == (exact == 0)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("  whole\nreply ", "whole\nreply"),
        ("x <answer>one</answer> y <answer> two\nlines </answer> z", "two\nlines"),
        ("<Answer>Mixed</aNSWER>", "Mixed"),
        ("<answer>open <answer>inner</answer>", "inner"),
        ("<answer>never closed", "<answer>never closed"),
        ("", ""),
    ],
)
def test_the_last_complete_answer_tag_wins(reply: str, answer: str) -> None:
    assert extract_answer(reply) == answer


@pytest.mark.timeout(30)
def test_hostile_replies_are_read_in_reasonable_time() -> None:
    extract_answer("<answer>" * 50_000)
    get_scorer("numeric").grade(task("1"), " " * 200_000 + "x")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "reference", "answer", "options", "expected"),
    [
        ("exact_match", "Paris", " Paris\n", {}, 1),
        ("exact_match", "Paris", "paris", {}, 0),
        ("exact_match", "Paris", "pARIS", {"ignore_case": True}, 1),
        ("exact_match", ["a", "b"], "b", {}, 1),
        ("exact_match", 42, "42", {}, 1),
        ("exact_match", True, "true", {}, 1),
        ("exact_match", "42", "so\n<answer>42</answer>", {}, 1),
        ("contains", "Paris", "It is Paris.", {}, 1),
        ("contains", "Paris", "It is paris.", {}, 0),
        ("contains", "paris", "It is PARIS.", {"ignore_case": True}, 1),
        ("contains", ["x", "is"], "It is Paris.", {}, 1),
        ("contains", ["x", "is"], "It is Paris.", {"every": True}, 0),
        ("regex", r"^\d{3}$", "123", {}, 1),
        ("regex", r"\d{3}", "ab123", {}, 1),
        ("regex", r"\d{3}", "ab123", {"full": True}, 0),
        ("regex", ["x", "É+"], "éÉ", {"ignore_case": True, "full": True}, 1),
        ("regex", r"a.c", "<answer>a\nc</answer>", {}, 0),
        ("json_equal", {"a": [1, 2.0], "b": None}, '{"b": null, "a": [1.0, 2]}', {}, 1),
        ("json_equal", '{"a": 1}', '```json\n{"a": 1}\n```', {}, 1),
        ("json_equal", [1, 2], "[1, 2]", {}, 1),
        ("json_equal", [1, 2], "[2, 1]", {}, 0),
        ("json_equal", {"a": True}, '{"a": 1}', {}, 0),
        ("json_equal", {"a": 1}, '{"a": 1, "b": 2}', {}, 0),
        ("json_equal", {"a": 1}, "not json", {}, 0),
        ("json_equal", {"a": 1}, "NaN", {}, 0),
        ("json_equal", {"a": 1}, "[" * 100_000, {}, 0),
    ],
)
async def test_named_scorers_pass_and_fail(
    name: str, reference: Any, answer: str, options: dict[str, Any], expected: float
) -> None:
    found = await score(name, reference, answer, **options)
    assert (found.hard, found.soft) == (expected, expected)
    assert bool(found.feedback) == (expected == 0)


@pytest.mark.parametrize(
    ("reference", "answer", "expected"),
    [
        ("1234", "1,234.0", 1),
        (1234, "$1,234", 1),
        ("$1,234.50", "1234.5", 1),
        (-5, "(5)", 1),
        (-1234, "($1,234)", 1),
        (-1234, "$(1,234)", 1),
        (-5, "-5", 1),
        (-5, "−5", 1),
        (-5, "-$5", 1),
        (-5, "$-5", 1),
        (5, "-5", 0),
        (5, "The total (5 apples) is 5", 1),
        (20, "between 10-20", 1),
        (42, "The answer is 42.", 1),
        (42, "no number", 0),
        (42, "", 0),
        (0.5, ".5", 1),
        (2000, "2e3", 1),
        ("12%", "12%", 1),
        ("12%", "12", 1),
        ("12%", "0.12", 1),
        (0.12, "12%", 1),
        ("12%", "1.2", 0),
        ("12%", "0.12%", 0),
        ("5 million", "5,000,000", 1),
        ("5 million", "5 billion", 0),
        ("5 million", "5", 0),
        ([1, 2], "2", 1),
        (1, "1.0000001", 1),
        (1, "1.01", 0),
        (1, "1e999", 0),
        (123, "abc123", 0),
    ],
)
async def test_numbers_are_read_as_people_write_them(reference: Any, answer: str, expected: float) -> None:
    assert await hard("numeric", reference, answer) == expected


async def test_numeric_tolerance_is_absolute_or_relative() -> None:
    assert await hard("numeric", 100, "101", absolute=1) == 1
    assert await hard("numeric", 100, "102", absolute=1) == 0
    assert await hard("numeric", 100, "102", relative=0.03) == 1
    assert await hard("numeric", 3.14, "3.140001", absolute=0, relative=0) == 0


CHOICES = {"choices": ["Lyon", "Paris", "a"]}


@pytest.mark.parametrize(
    ("reference", "answer", "data", "expected"),
    [
        ("B", "B", {}, 1),
        ("B", "b", {}, 1),
        ("B", "(B)", {}, 1),
        ("B", "**B**", {}, 1),
        ("B", "C", {}, 0),
        ("B", "reasons\nB) Paris", {}, 1),
        ("B", "B. Paris", {}, 1),
        ("B", "So the answer is B.", {}, 1),
        ("B", "Answer: (B)", {}, 1),
        ("A", "A good question, but I do not know", {}, 0),
        ("B", "", {}, 0),
        ("2", "2", {}, 1),
        ("2", "2.5", {}, 0),
        (["A", "B"], "B", {}, 1),
        ("B", "Paris", CHOICES, 1),
        ("Paris", "B", CHOICES, 1),
        ("Paris", "  paris ", CHOICES, 1),
        ("Paris", "A", CHOICES, 0),
        ("y", "Y", {"choices": {"x": "one", "y": "two"}}, 1),
        ("y", "two", {"choices": {"x": "one", "y": "two"}}, 1),
    ],
)
async def test_a_choice_is_read_from_a_label_or_its_text(
    reference: Any, answer: str, data: dict[str, Any], expected: float
) -> None:
    assert (await score("multiple_choice", reference, answer, data)).hard == expected


async def test_a_missing_label_is_said_in_the_feedback() -> None:
    assert "No choice label" in (await score("multiple_choice", "A", "I do not know")).feedback


@pytest.mark.parametrize("name", SCORERS.names())
@pytest.mark.parametrize("reference", [None, [], ""])
def test_a_task_without_reference_is_refused_before_a_call(name: str, reference: Any) -> None:
    if name == "json_equal" and reference == []:
        return  # an empty list is a value
    with pytest.raises(TaskError, match="'t1'"):
        get_scorer(name).check_task(task(reference))


@pytest.mark.parametrize(
    ("name", "reference", "data", "words"),
    [
        ("regex", "(unclosed", {}, "not a pattern"),
        ("regex", ["fine", "a{2,1}"], {}, "not a pattern"),
        ("numeric", "many", {}, "not a number"),
        ("numeric", "1e999", {}, "not a number"),
        ("json_equal", "{broken", {}, "not JSON"),
        ("multiple_choice", "Rome", CHOICES, "nor the text of a choice"),
        ("multiple_choice", 1, CHOICES, "nor the text of a choice"),
    ],
)
def test_a_reference_its_scorer_cannot_use_is_refused_before_a_call(
    name: str, reference: Any, data: dict[str, Any], words: str
) -> None:
    with pytest.raises(TaskError, match=words):
        get_scorer(name).check_task(task(reference, **data))


@pytest.mark.timeout(30)
async def test_a_pattern_that_backtracks_for_ever_is_stopped_and_is_no_score() -> None:
    with pytest.raises(ScoringError) as caught:
        await score("regex", r"(a+)+$", "a" * 40 + "b", timeout=0.5)
    assert caught.value.kind == "timeout"


@pytest.mark.slow
async def test_many_patterns_at_once_do_not_run_into_each_others_time_limit() -> None:
    # Each takes about 0.1 s of a core; all at once on two cores, every one of them would need two seconds.
    found = await asyncio.gather(*(hard("regex", r"(a+)+$", "a" * 20 + "b", timeout=1.5) for _ in range(40)))
    assert found == [0.0] * 40


@pytest.mark.parametrize("failure", ["refusal", "empty", "length", "turns"])
async def test_what_the_target_did_wrong_is_zero_and_asks_no_scorer(failure: str) -> None:
    def never(task: Task, answer: str) -> bool:
        raise AssertionError("asked")

    found = await score_trajectory(get_scorer(never), task(), said("Paris", failure))
    assert (found.hard, found.soft) == (0, 0)
    assert failure in found.feedback


def test_an_unknown_scorer_names_the_near_miss() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'exact_match'"):
        get_scorer("exact_mach")


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("numeric", {"options": {"absolut": 1}}, "Did you mean 'absolute'"),
        ("numeric", {"options": {"absolute": "much"}}, "absolute = 'much'"),
        ("numeric", {"options": {"absolute": -1}}, "absolute = -1"),
        ("regex", {"options": {"timeout": 0}}, "timeout = 0"),
        ("squad", {"pass_at": 0.5}, "pass_at cannot be used"),
        ("squad", {"graded": True}, "graded cannot be used"),
        ("squad", {"options": {"name": "x"}}, "no option 'name'"),
        (lambda task, answer: 1.0, {"pass_at": 1.5}, "pass_at is 1.5"),
        (lambda task, answer: 1.0, {"pass_at": 0.0}, "pass_at is 0"),
        (lambda task, answer: 1.0, {"options": {"x": 1}}, "takes no options"),
        (lambda task, answer: 1.0, {"pass_at": 0.5, "graded": True}, "cannot be graded and have pass_at"),
    ],
)
def test_an_option_that_would_do_nothing_or_harm_is_refused(
    name: Any, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        get_scorer(name, **arguments)


def test_named_scorers_are_not_graded_and_their_version_holds_their_options() -> None:
    for name in SCORERS.names():
        scorer = get_scorer(name)
        assert isinstance(scorer, Scorer)
        assert not scorer.graded
        assert name in scorer.version
    assert get_scorer("numeric").version != get_scorer("numeric", options={"absolute": 0.1}).version
    assert get_scorer("numeric").version == get_scorer("numeric", options={"absolute": 1e-9}).version


def test_a_scorer_object_is_taken_as_it_is() -> None:
    scorer = get_scorer("squad")
    assert get_scorer(scorer) is scorer
    with pytest.raises(ConfigError, match="pass_at cannot be used"):
        get_scorer(scorer, pass_at=0.5)
