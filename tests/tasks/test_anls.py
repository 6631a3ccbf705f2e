"""ANLS against values worked out by hand and by a second, naive implementation."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers import get_scorer
from skillopt.tasks.scorers.text import distance, similarity
from skillopt.tasks.task import Task


async def score(reference: Any, answer: str) -> Score:
    trajectory = Trajectory(messages=(), answer=answer, calls=1, usage=None)
    return await get_scorer("anls").score(Task(id="t1", prompt="p", reference=reference), trajectory)


@pytest.mark.parametrize(
    ("reference", "answer", "soft"),
    [
        ("kitten", "sitting", 1 - 3 / 7),
        ("1997", "1998", 0.75),
        ("hello", "hallo", 0.8),
        ("abcd", "abxy", 0.0),  # half of the letters are wrong: a similarity of exactly 0.5 is none
        ("abcde", "abcxy", 0.6),
        ("May 2, 1997", "  MAY   2,\t1997 ", 1.0),
        ("Müller", "müller", 1.0),
        ("Müller", "Muller", 1 - 1 / 6),
        ("$5.00", "5.00", 0.8),
        ("a", "", 0.0),
        ("no", "The answer to this question stands in the second line of the letter", 0.0),
        (["Dr. Smith", "Smith"], "smith", 1.0),
        (["Dr. Smith", "Smith"], "dr smith", 1 - 1 / 9),
        (12, "12", 1.0),
    ],
)
async def test_the_best_acceptable_answer_decides(reference: Any, answer: str, soft: float) -> None:
    found = await score(reference, f"Looking at the page.\n<answer>{answer}</answer>")
    assert found.soft == pytest.approx(soft)
    assert found.hard == float(soft == 1.0)


@pytest.mark.parametrize(
    ("reply", "soft"),
    [
        ("It says:\n1997\n\n", 1.0),
        ("<answer>1995</answer> no, <ANSWER>1997</ANSWER>", 1.0),
        ("<answer></answer>", 0.0),
        ("1997 it is", 0.0),
    ],
)
async def test_the_last_tag_counts_and_else_the_last_line(reply: str, soft: float) -> None:
    assert (await score("1997", reply)).soft == soft


def test_two_empty_texts_are_alike() -> None:
    assert similarity("", " ") == 1.0


@given(st.text("abc ", max_size=7), st.text("abc ", max_size=7))
def test_the_distance_is_the_textbook_recursion(one: str, other: str) -> None:
    @cache
    def naive(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        return min(
            naive(i - 1, j) + 1, naive(i, j - 1) + 1, naive(i - 1, j - 1) + (one[i - 1] != other[j - 1])
        )

    assert distance(one, other) == naive(len(one), len(other))
