"""Multiple choice: which answer a careful person reads out of a reply.

The table was written before the reader of labels, from the ways in which models answer.
"""

from __future__ import annotations

import time

import pytest

from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.scorers import get_scorer, score_trajectory
from skillopt.tasks.task import Task

CHOICES = {
    "A": "The set is compact",
    "B": "The set is closed\nbut not bounded",
    "C": "A bounded set",
    "D": "None of the above",
}
WAYS = [
    # The label alone, in its usual clothes.
    ("B", "B"),
    ("b", "B"),
    ("B.", "B"),
    ("(B)", "B"),
    ("B)", "B"),
    ("[B]", "B"),
    ("**B**", "B"),
    ("**B.**", "B"),
    ("`B`", "B"),
    ("$B$", "B"),
    ("B!", "B"),
    ("（B）", "B"),
    ("```\nB\n```", "B"),
    ("A", "A"),
    ("A.", "A"),
    # Named as the answer.
    ("Answer: B", "B"),
    ("The answer is B.", "B"),
    ("The answer is: B", "B"),
    ("The correct answer is (B).", "B"),
    ("The correct option is **B**", "B"),
    ("Option B", "B"),
    ("Choice B.", "B"),
    ("I choose B", "B"),
    ("I'd go with B.", "B"),
    ("So it must be B.", "B"),
    ("Final answer: B", "B"),
    ("**Final Answer:** B", "B"),
    ("**Answer: B**", "B"),
    ("### Answer\nB", "B"),
    ("Answer:\n\nB", "B"),
    ("Answer - B", "B"),
    ("Answer = B", "B"),
    ("答案：B", "B"),
    ("Antwort: B", "B"),
    ("The best choice would be option (b).", "B"),
    ("the answer is a.", "A"),
    ("B is correct.", "B"),
    ("Option B is the correct one.", "B"),
    ("Therefore, B.", "B"),
    ('{"answer": "B"}', "B"),
    ("I first thought A, but no: B.", "B"),
    ("Final: (B) The set is closed but not bounded", "B"),
    ("Answer (final): B", "B"),
    ("The answer is not A. The answer is B.", "B"),
    ("- A: false\n- B: true\n\n**B**", "B"),
    ("A? no: that one is open.", None),
    # In a tag or a box.
    ("<answer>B</answer>", "B"),
    ("<ANSWER>B</ANSWER>", "B"),
    ("<answer> B. </answer>", "B"),
    ("<answer>\nB\n</answer>", "B"),
    ("<answer>B", "B"),
    (r"\boxed{B}", "B"),
    (r"$\boxed{\text{B}}$", "B"),
    ("Thus the answer is\n\n$$\\boxed{B}$$", "B"),
    (r"Answer: \textbf{(B)}", "B"),
    # With the text of the choice, or by it alone.
    ("<answer>B) The set is closed\nbut not bounded</answer>", "B"),
    ("<answer>(B) The set is closed but not bounded</answer>", "B"),
    ("B) The set is closed\nbut not bounded", "B"),
    ("B: The set is closed but not bounded", "B"),
    ("B - The set is closed but not bounded", "B"),
    ("My answer: (B) The set is closed but not bounded.", "B"),
    ("The set is closed\nbut not bounded", "B"),
    ("The set is closed but not bounded.", "B"),
    ("Answer: C) A bounded set", "C"),
    ("C. A bounded set", "C"),
    ("A bounded set", "C"),
    ("<answer>A bounded set</answer>", "C"),
    ("The answer is a bounded set.", "C"),
    ("None of the above", "D"),
    ("Answer: D) None of the above", "D"),
    # After or before reasoning; the last commitment counts.
    ("A seems wrong at first.\n\nB", "B"),
    ("A is not bounded. C fails as well.\nTherefore:\n**(B)**", "B"),
    ("First I thought the answer is A. But the answer is B.", "B"),
    ("<answer>A</answer> Wait, no. <answer>B</answer>", "B"),
    ("The answer is A... no wait, it's B.", "B"),
    ("The answer is not A. The answer is B", "B"),
    ("A: wrong. B: right. C: wrong. D: wrong.\nAnswer: B", "B"),
    ("The answer is B because A is wrong.", "B"),
    ("Answer: B (A is not compact)", "B"),
    ("B, since A fails.", "B"),
    ("B\n\nExplanation: A fails since it is not bounded, and C is a trap.", "B"),
    ("**B) The set is closed but not bounded**\n\nA is wrong because it is not compact.", "B"),
    ("<think>The answer is A</think>B", "B"),
    ("The answer is option B, not option A.", "B"),
    ("That rules out A, C and D, which leaves B.", "B"),
    # No answer that one could hold somebody to.
    ("", None),
    ("I don't know.", None),
    ("A set is closed when it contains its limit points.", None),
    ("A careful look shows nothing.", None),
    ("I think a good answer cannot be given.", None),
    ("The answer is a matter of taste.", None),
    ("The answer is A matter of taste.", None),
    ("Let A be the set and B its closure.", None),
    ("It needs vitamin B", None),
    ("A and B", None),
    ("A or B", None),
    ("Answer: A or B", None),
    ("Both A and B are correct.", None),
    ("E", None),
    ("The answer is E.", None),
    ("The answer is not B.", None),
    ("Let me check.\nA) false\nB) true\nC) false\nD) false", None),
]


async def reads(answer: str, label: str, choices: object = CHOICES) -> bool:
    task = Task(id="t1", prompt="Which?", reference=label, data={"choices": choices})
    score = await score_trajectory(
        get_scorer("multiple_choice"), task, Trajectory(messages=(), answer=answer, calls=1, usage=None)
    )
    return score.hard == 1.0


@pytest.mark.parametrize(("answer", "label"), WAYS)
async def test_the_answer_is_the_one_that_a_careful_person_reads(answer: str, label: str | None) -> None:
    assert [other for other in CHOICES if await reads(answer, other)] == ([label] if label else [])


@pytest.mark.parametrize(
    "answer", [answer for answer, label in WAYS if label == "B" and "closed" not in answer]
)
async def test_labels_are_read_where_the_choices_are_not_known(answer: str) -> None:
    assert await reads(answer, "B", None)
    assert not await reads(answer, "A", None)


async def test_choices_that_differ_only_in_marks_are_told_apart() -> None:
    choices = ["the sum of $x_1$", "the sum of $x1$"]
    assert await reads("the sum of $x1$", "B", choices)
    assert await reads("<answer>A) the sum of $x_1$</answer>", "A", choices)


@pytest.mark.parametrize(
    "piece", ["<think>", "<answer>", "so ", "must be ", "(", "A, ", "-", "\n", "> \n", "is "]
)
async def test_reading_takes_linear_time(piece: str) -> None:
    start = time.process_time()
    await reads(piece * (200_000 // len(piece)), "A")
    assert time.process_time() - start < 10
