"""Multiple choice answered in words: replies to questions of the form of LiveMathematicianBench, where choices
are long, alike, and contain each other.

What a fair person reads was written down before the reader of such replies.
"""

from __future__ import annotations

import pytest

from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.scorers import get_scorer, score_trajectory
from skillopt.tasks.task import Task

BOUNDS = {
    "A": r"There is a constant $C$ such that $|S_N| \le C N^{1/2}$ for every $N$.",
    "B": r"For every $\varepsilon > 0$ there is $C_\varepsilon$ with $|S_N| \le C_\varepsilon N^{1/2+\varepsilon}$.",
    "C": r"There is a constant $C$ such that $|S_N| \le C N^{1/2}$ for every $N$. The exponent is optimal.",
    "D": "None of the above",
}
UPPER, WEAK, OPTIMAL, NONE = BOUNDS.values()
MAPS = {
    "A": "Exactly one such map exists.",
    "B": "No such map exists.",
    "C": "Exactly one such map exists up to conjugation.",
    "D": "It is not true that exactly one such map exists.",
}
ONE, NO, CONJUGATE, DENIED = MAPS.values()
WORDS = {"A": "bounded", "B": "not bounded", "C": "bounded and closed", "D": "neither"}
NUMBERS = {"A": "1", "B": "12", "C": "-1", "D": "1/2"}
LINES = {
    "A": "$f$ is continuous\nand bounded",
    "B": "$f$ is continuous",
    "C": "$f$ is bounded",
    "D": "and bounded",
}

Reply = tuple[dict[str, str], str, str | None]
REPLIES: list[Reply] = [
    # The last line is the text of a choice.
    (BOUNDS, f"I checked all of them.\n{UPPER}", "A"),
    (BOUNDS, f"I checked all of them.\n{WEAK}", "B"),
    (BOUNDS, f"I checked all of them.\n\n{OPTIMAL}\n", "C"),
    (BOUNDS, "Reasoning.\nNone of the above", "D"),
    (BOUNDS, "Reasoning.\n\n**None of the above.**", "D"),
    (BOUNDS, f"A fails for small N, and so does B.\n\n{OPTIMAL}", "C"),
    (BOUNDS, f"First I thought the answer is A.\n\n{WEAK}", "B"),
    (BOUNDS, f"Reasoning.\n**{UPPER}**", "A"),
    (BOUNDS, f"Reasoning.\n> {UPPER}", "A"),
    (BOUNDS, f'Reasoning.\n"{UPPER}"', "A"),
    (BOUNDS, f"Reasoning.\n{UPPER.lower()}", "A"),
    (BOUNDS, f"Reasoning.\n{UPPER.rstrip('.')}", "A"),
    (BOUNDS, f"Reasoning.\n{UPPER.replace('$', '')}", "A"),
    (BOUNDS, f"The statements look alike; the exponent decides.\n\nB. {WEAK}", "B"),
    (BOUNDS, f"Reasoning.\n({'C'}) {OPTIMAL}", "C"),
    (MAPS, f"We compare degrees.\n{ONE}", "A"),
    (MAPS, f"We compare degrees.\n{CONJUGATE}", "C"),
    (MAPS, f"We compare degrees.\n{DENIED}", "D"),
    (MAPS, f"<think>{NO}</think>We compare degrees.\n{ONE}", "A"),
    (MAPS, f"{NO}\nThat was my first idea, and it is false.\n{ONE}", "A"),
    (WORDS, "The image is compact.\nbounded and closed", "C"),
    (WORDS, "The image is compact.\nNot bounded", "B"),
    (NUMBERS, "The index is computed from the degrees.\n12", "B"),
    (NUMBERS, "The index is computed from the degrees.\n-1", "C"),
    (NUMBERS, "The index is computed from the degrees.\n$1/2$", "D"),
    (LINES, "By the theorem of Weierstrass:\n$f$ is continuous\nand bounded", "A"),
    (LINES, "By the theorem of Weierstrass:\n$f$ is bounded", "C"),
    (LINES, "By the theorem of Weierstrass:\n$f$ is continuous and bounded", "A"),
    # Words before it say that it is the answer.
    (BOUNDS, f"Reasoning.\nAnswer: {UPPER}", "A"),
    (BOUNDS, f"Reasoning.\nThe right statement: {WEAK}", "B"),
    (BOUNDS, f"Reasoning.\n**Final answer:** {OPTIMAL}", "C"),
    (BOUNDS, f"Reasoning.\nThe correct choice is:\n\n{UPPER}", "A"),
    (MAPS, "Therefore, exactly one such map exists.", "A"),
    (MAPS, "Hence no such map exists.", "B"),
    (MAPS, f"So the right one is: {CONJUGATE}", "C"),
    (MAPS, "The answer is: it is not true that exactly one such map exists.", "D"),
    (MAPS, f"The others are ruled out, which leaves:\n{ONE}", "A"),
    (WORDS, "The answer is not bounded", "B"),
    (WORDS, "Answer: neither", "D"),
    # A reason behind the label.
    (MAPS, "<answer>B because of A</answer>", "B"),
    (MAPS, "<answer>B because A is false</answer>", "B"),
    (MAPS, "<answer>(B) because of A</answer>", "B"),
    (MAPS, "<answer>B since A and C fail</answer>", "B"),
    (MAPS, "<answer>B, because of A</answer>", "B"),
    (MAPS, "<answer>A because of B</answer>", "A"),
    (MAPS, "<answer>B (not A)</answer>", "B"),
    (MAPS, "<answer>B, not A</answer>", "B"),
    (MAPS, "Degrees are equal.\nB because A is false", "B"),
    (MAPS, "<answer>B as A is false</answer>", "B"),
    (MAPS, "<answer>B\n\nA fails in degree two.</answer>", "B"),
    (MAPS, "<answer>B rather than A</answer>", "B"),
    (MAPS, f"<answer>{NO}</answer>", "B"),
    (MAPS, f"<answer>B: {NO}</answer>", "B"),
    (MAPS, f"<answer>The degrees agree.\n{NO}</answer>", "B"),
    # Several are named, or none is meant.
    (MAPS, "<answer>A or B because of C</answer>", None),
    (MAPS, "<answer>A and B because of C</answer>", None),
    (MAPS, "<answer>Not B because of A</answer>", None),
    (MAPS, "<answer>either A because of B or B</answer>", None),
    (BOUNDS, f"I cannot decide between these two:\n{UPPER}\n{WEAK}", None),
    (BOUNDS, f"The statements are:\nA. {UPPER}\nB. {WEAK}\nC. {OPTIMAL}\nD. {NONE}", None),
    (BOUNDS, f"The statements are:\n{UPPER}\n{WEAK}\n{OPTIMAL}\n{NONE}", None),
    (BOUNDS, f"The statements are:\n\n- {UPPER}\n\n- {WEAK}\n\n- {OPTIMAL}\n\n- {NONE}", None),
    (BOUNDS, f"{UPPER}\nor\n{WEAK}", None),
    (BOUNDS, f"This is not the answer:\n{UPPER}", None),
    (BOUNDS, f"The following is false:\n{UPPER}", None),
    (BOUNDS, f"We can rule out this one:\n{UPPER}", None),
    (BOUNDS, f"Wrong: {UPPER}", None),
    (BOUNDS, f"Is it true?\n{UPPER}\nThat I could not settle.", None),
    (BOUNDS, f"One would have to know whether\n{UPPER}", None),
    (BOUNDS, f"I doubt that\n{UPPER}", None),
    (MAPS, "It is not the case that exactly one such map exists.", None),
    (MAPS, "Suppose that\nexactly one such map exists.", None),
    (MAPS, "It cannot be that exactly one such map exists.", None),
    (MAPS, "Exactly one such map exists, or no such map exists.", None),
    (MAPS, "Exactly one such map exists up to isotopy.", None),
    (MAPS, "Not: exactly one such map exists.", None),
    (MAPS, "The answer is not this one:\nNo such map exists.", None),
    (WORDS, "The image is not\nbounded", None),
    (WORDS, "It is hardly bounded", None),
    (WORDS, "It is unbounded", None),
    (NUMBERS, "The index is computed from the degrees.\n112", None),
    (NUMBERS, "The index is computed from the degrees.\n1/3", None),
    (NUMBERS, "The index is computed from the degrees.\n1 or 12", None),
    # Labels behind words that deny them.
    (MAPS, "Reasoning.\nWrong: B", None),
    (MAPS, "Reasoning.\nRuled out: B", None),
    (MAPS, "Reasoning.\nNot the answer: B", None),
    # Further replies, written for trying the reader out.
    (BOUNDS, f"Let me think.\n\nStep 1: bound the sum.\nStep 2: sharpen it.\n\nConclusion: {UPPER}", "A"),
    (BOUNDS, f"Options A and D are false.\n\n{WEAK}", "B"),
    (
        BOUNDS,
        f"I compared:\n- {UPPER}\n- {WEAK}\n- {OPTIMAL}\n\nOnly the last one survives.\n\n{OPTIMAL}",
        "C",
    ),
    (BOUNDS, f"A. {UPPER} (false)\nB. {WEAK} (true)\nC. {OPTIMAL} (false)\nD. {NONE}", None),
    (BOUNDS, f"A. {UPPER}\nFalse.\nB. {WEAK}\nFalse.\nC. {OPTIMAL}\nFalse.\nD. {NONE}", None),
    (BOUNDS, f"A. {UPPER}\nFalse.\nB. {WEAK}\nFalse.\nC. {OPTIMAL}\nFalse.\nSo:\nD. {NONE}", "D"),
    (BOUNDS, f"Reasoning.\n\n**C. {OPTIMAL}**", "C"),
    (BOUNDS, f"Reasoning.\n### Answer\n{OPTIMAL}", "C"),
    (BOUNDS, f"Reasoning.\n\\boxed{{{NONE}}}", "D"),
    (BOUNDS, f"Reasoning.\n\n```\n{WEAK}\n```", "B"),
    (BOUNDS, f"<answer>{UPPER}</answer>", "A"),
    (BOUNDS, f"<answer>\nA\n{UPPER}\n</answer>", "A"),
    (BOUNDS, f"<answer>Option A: {UPPER}</answer>", "A"),
    (BOUNDS, f"Option D: {NONE}", "D"),
    (BOUNDS, f"Hmm.\nOption D: {NONE}", "D"),
    (BOUNDS, f"Option A: {UPPER}\nOption B: {WEAK}\nOption C: {OPTIMAL}\nOption D: {NONE}", None),
    (BOUNDS, f"My pick: option B. {WEAK}", "B"),
    (MAPS, "We conclude that no such map exists.", "B"),
    (MAPS, "In conclusion, no such map exists.", "B"),
    (MAPS, f"Statement B is true: {NO}", "B"),
    (MAPS, f"Counterexample to: {NO}", None),
    (MAPS, f"Claim to refute: {NO}", None),
    (MAPS, f"If the field is finite, then\n{NO}", None),
    (MAPS, f"Otherwise:\n{NO}", None),
    (MAPS, f"This contradicts the statement:\n{NO}", None),
    (MAPS, f"Assume the contrary:\n{NO}", None),
    (MAPS, f"The negation of C is:\n{NO}", None),
    (MAPS, f"A common mistake is to say:\n{NO}", None),
    (MAPS, f"Not B, but\n{ONE}", "A"),
    (MAPS, "<answer>B because it is the only one left</answer>", "B"),
    (MAPS, "<answer>C: because of A</answer>", "C"),
    (MAPS, "<answer>D because neither A nor B holds</answer>", "D"),
    (MAPS, "<answer>Because of A: B</answer>", "B"),
    (MAPS, "<answer>The answer is B because of A</answer>", "B"),
    (MAPS, "<answer>I choose B because of A</answer>", "B"),
    (MAPS, "<answer>A or B</answer>", None),
    (MAPS, "<answer>A, B</answer>", None),
    (MAPS, "<answer>A because of B, or B because of A</answer>", None),
    (MAPS, "<answer>not A because of B</answer>", None),
    (MAPS, "A not uncommon error is to count twice.", None),
    (WORDS, "Answer: bounded and closed", "C"),
    (WORDS, "Answer: bounded or closed", None),
    (WORDS, "I am not sure that the answer is bounded", None),
    (WORDS, "I don't know whether the answer is bounded", None),
    (WORDS, "Is the answer bounded?\nneither", "D"),
    (WORDS, "not\nbounded", "B"),
    (NUMBERS, "Thus -1", "C"),
    (NUMBERS, "x = 1", None),
    (NUMBERS, "1\n12", None),
    (LINES, "$f$ is continuous\nand bounded\n\n$f$ is bounded", None),
    (
        LINES,
        "A) $f$ is continuous\nand bounded\nB) $f$ is continuous\nC) $f$ is bounded\nD) and bounded",
        None,
    ),
]


async def reads(choices: dict[str, str], reply: str, label: str) -> bool:
    task = Task(id="t1", prompt="Which?", reference=label, data={"choices": choices})
    score = await score_trajectory(
        get_scorer("multiple_choice"), task, Trajectory(messages=(), answer=reply, calls=1, usage=None)
    )
    return score.hard == 1.0


@pytest.mark.parametrize(("choices", "reply", "label"), REPLIES)
async def test_a_reply_is_read_as_a_fair_person_reads_it(
    choices: dict[str, str], reply: str, label: str | None
) -> None:
    assert [other for other in choices if await reads(choices, reply, other)] == ([label] if label else [])
