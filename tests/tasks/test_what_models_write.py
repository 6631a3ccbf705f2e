"""Answers as chat models write them in several languages, and the score that a careful person would give."""

from __future__ import annotations

import time
from typing import Any

import pytest

from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.scorers import get_scorer
from skillopt.tasks.task import Task


async def hard(name: str, reference: Any, answer: str, *, data: Any = None, **options: Any) -> float:
    task = Task(id="t", prompt="p", reference=reference, data=data or {})
    said = Trajectory(messages=(), answer=answer, calls=1, usage=None)
    return (await get_scorer(name, options=options).score(task, said)).hard


@pytest.mark.parametrize(
    ("reference", "answer", "expected"),
    [
        # what is called the answer counts, not a number of the explanation
        (12, "Answer: 12\n\nExplanation: 3 boxes of 4.", 1),
        (42, "So the answer is: 42 apples (not 43).", 1),
        (12, "The answer is 12 out of 20.", 1),
        (7, "Answer: 3 + 4 = 7", 1),
        (-5, "Answer: (5)", 1),
        (42, "Answer:\n\n- 42", 1),
        (12.5, "Die Antwort ist 12,5 (gerundet auf 1 Stelle).", 1),
        (7, "The answer is 5. Wait, I made a mistake: it is 7.", 1),
        (7, "The answer is not 5. It is 7.", 1),
        (12, "The answer to part 1 is 5, so the total is 12.", 1),
        (72, "24 + 48 = 72\n#### 72", 1),
        (0.75, "So $x = \\boxed{\\frac{3}{4}}$, as 4 quarters make 1.", 1),
        # groups of digits and decimals
        (1234567, "1 234 567", 1),
        (1234567, "1\u202f234\u202f567", 1),
        (1234567, "1'234'567", 1),
        (1234567, "1.234.567 €", 1),
        (123456, "1,23,456", 1),
        (12345, "\\boxed{12{,}345}", 1),
        (1234.56, "1.234,56", 1),
        (3456.78, "3 456,78 €", 1),
        (3.5, "3,5", 1),
        (0.125, "0,125", 1),
        (1.234, "1.234", 1),
        (1234, "1,234", 1),
        (3, "1,2,3", 1),
        (300, "in 2020 there were 300", 1),
        # fractions and powers of ten
        (0.25, "1/4", 1),
        (-0.25, "-\\frac{1}{4}", 1),
        (0.5, "½", 1),
        (2.5, "2½", 1),
        (2.5, "2 1/2", 1),
        (2024, "8/2/2024", 1),
        (3e8, "3 × 10^8", 1),
        (3e8, "3 \\times 10^{8} m/s", 1),
        (6.02e23, "6.02×10²³ mol⁻¹", 1),
        (1e6, "10^6", 1),
        # signs, scales and units
        (-5, "minus 5", 1),
        (42, "- 42", 1),
        (20, "10 - 20", 1),
        (100_000, "£100k", 1),
        (100, "£100k", 0),
        (5_000_000, "$5M", 1),
        (5, "5 m", 1),
        (300, "300K", 1),
        (3e9, "3 Milliarden Euro", 1),
        (0.5, "50 percent", 1),
        (7, "<think>3 or 9?</think>7", 1),
    ],
)
async def test_the_number_is_the_one_that_the_answer_gives(
    reference: Any, answer: str, expected: float
) -> None:
    assert await hard("numeric", reference, answer) == expected


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "piece", ["1 ", "answer: ", "\\boxed{", "1/", "0,", "1'234", "<think>", "answer *_", "\\frac{1}"]
)
async def test_a_hostile_answer_is_searched_for_a_number_in_reasonable_time(piece: str) -> None:
    began = time.process_time()
    await hard("numeric", 1, piece * 20_000)
    assert time.process_time() - began < 10  # a second at most where reading is linear, minutes where not


@pytest.mark.parametrize(
    ("name", "reference", "answer", "options"),
    [
        ("exact_match", "é", "e\u0301", {}),
        ("exact_match", "a b", "a\u00a0b", {}),
        ("exact_match", "Lisbon", "\ufeffLisbon", {}),
        ("contains", "café", "LE CAFE\u0301", {"ignore_case": True}),
        ("json_equal", {"a": 1}, '~~~json\n{"a": 1}\n~~~', {}),
        ("json_equal", {"a": 1}, 'So:\n  ```json\n  {"a": 1}\n  ```\n', {}),
    ],
)
async def test_what_looks_the_same_is_the_same(
    name: str, reference: Any, answer: str, options: dict[str, Any]
) -> None:
    assert await hard(name, reference, answer, **options) == 1


@pytest.mark.parametrize(
    "answer",
    [
        *(
            "Die Antwort ist B.",
            "Die richtige Antwort lautet **B**.",
            "La réponse est B.",
            "La respuesta es B.",
        ),
        *(
            "La risposta è B.",
            "正确答案是B",
            "正确答案是 B。因为A不对。",
            "正解はBです。",
            "정답은 B",
            "Ответ: B",
        ),
        *("Answer: C... actually, B",),
    ],
)
async def test_a_choice_is_read_in_other_languages(answer: str) -> None:
    choices = {"A": "Paris", "B": "London", "C": "Rome"}
    assert await hard("multiple_choice", "B", answer, data={"choices": choices}) == 1


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("Es tut mir leid, aber dabei kann ich nicht helfen.", 0),
        ("Ich kann Ihnen dabei leider nicht helfen.", 0),
        ("Je suis désolé, mais je ne peux pas vous aider.", 0),
        ("Lo siento, pero no puedo ayudarte con eso.", 0),
        ("Mi dispiace, ma non posso aiutarti.", 0),
        ("Desculpe, não posso ajudar com isso.", 0),
        ("Извините, но я не могу помочь с этим.", 0),
        ("抱歉，我无法协助您。", 0),
        ("申し訳ありませんが、そのご要望にはお応えできません。", 0),
        ("죄송하지만 그 요청은 도와드릴 수 없습니다.", 0),
        ("Es tut mir leid, dass das Paket zu spät kam. Sie erhalten am Dienstag Ersatz.", 1),
        ("Désolé pour le retard : le total est de 42.", 1),
        ("Lo siento por la demora. El total es 42.", 1),
        ("对不起让您久等了，总数是42。", 1),
        ("Leider war der Zug nicht pünktlich.", 1),
    ],
)
async def test_a_refusal_is_seen_in_other_languages(answer: str, kept: float) -> None:
    assert await hard("checks", None, answer, data={"checks": [{"op": "no_refusal"}]}) == kept


@pytest.mark.parametrize(
    ("op", "arg", "answer", "kept"),
    [
        ("section_present", "Key Risks", "Key Risks\n=========\nx", 1),
        ("section_present", "Key Risks", "## Key Risks 🚨\nx", 1),
        ("section_present", "Key Risks", "We see key risks\nhere", 0),
        ("section_present", "C++", "## Notes on C++", 1),
        ("section_present", "???", "## Open", 0),
        ("section_contains", "risks", "The key risks of it\n---\nx", 1),
        ("section_contains", "risks", "- the risks\n---\nx", 0),
        ("contains", "don't", "We don’t do this", 1),
        ("not_contains", "don't", "We don’t do this", 0),
        ("json_schema", {"type": "object", "required": ["a"]}, '~~~json\n{"a":1}\n~~~', 1),
    ],
)
async def test_checks_read_what_models_write(op: str, arg: Any, answer: str, kept: float) -> None:
    assert await hard("checks", None, answer, data={"checks": [{"op": op, "arg": arg}]}) == kept
