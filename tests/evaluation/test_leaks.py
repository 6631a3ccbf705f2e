"""The leak guard: what counts as quoting a task or its scorer, and what a skill may say."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from skillopt.evaluation.leaks import LeakGuard, refusal_reason
from skillopt.tasks.protected import Protected, protected_by
from skillopt.tasks.scorers import get_scorer
from skillopt.tasks.splits import Splits
from skillopt.tasks.task import Task

SEED = "# Skill\n\nAnswer in one line.\n"


def task(name: str, prompt: str = "", reference: Any = None, **data: Any) -> Task:
    return Task(id=name, prompt=prompt or f"Question {name}", reference=reference, data=data)


def guard(
    *,
    train: list[Task] | None = None,
    val: list[Task] | None = None,
    test: list[Task] | None = None,
    scorer: Any = None,
) -> LeakGuard:
    splits = Splits(train=tuple(train or [task("a")]), val=tuple(val or [task("b")]), test=tuple(test or ()))
    return LeakGuard(splits, partial(protected_by, scorer), SEED)


def kinds(found: LeakGuard, addition: str) -> list[str]:
    return [leak.kind for leak in found.find(SEED + addition)]


@pytest.mark.parametrize(
    ("reference", "addition", "leaks"),
    [
        ("Lake Titicaca", "The lake is lake titicaca.", True),
        ("Lake Titicaca", "The lake is Lake\n  Titicaca", True),
        ("Lake Titicaca.", "Lake Titicaca", True),
        (["Titicaca", "Lake Titicaca"], "Lake Titicaca", True),
        ({"name": "Lake Titicaca"}, "Lake Titicaca", True),
        ("Lake Titicaca", "Lake Titicacans live there", False),  # other words
        ("Lake Titicaca", "A lake in Peru: Titicaca", False),
        ("Lake Geneva", "Lake Geneva", False),  # eleven characters
        ("$\\frac{12}{35}$", "for example $\\frac{12}{35}$", True),
        (123456789012, "123456789012", False),  # a number is no text
        (None, "anything", False),
    ],
)
def test_a_held_out_answer_of_twelve_characters_is_a_leak(reference: Any, addition: str, leaks: bool) -> None:
    for split in ("val", "test"):
        found = kinds(guard(**{split: [task("x", reference=reference)]}), addition)
        assert found == (["reference"] if leaks else [])
    # the optimizer is shown the answers of train
    assert kinds(guard(train=[task("x", reference=reference)]), addition) == []


@pytest.mark.parametrize(("sharing", "leaks"), [(1, True), (2, True), (3, False)])
def test_an_answer_that_more_than_two_tasks_share_is_no_secret(sharing: int, leaks: bool) -> None:
    tasks = [task(f"v{n}", reference="not enough information") for n in range(sharing)]
    assert bool(kinds(guard(val=tasks), "Say: not enough information.")) is leaks
    spread = guard(train=tasks[1:] or None, val=tasks[:1])  # those of train count as sharing
    assert bool(kinds(spread, "Say: not enough information.")) is leaks


WORDS = "Write a brief on whether a seed-stage startup should ship a free tier"


@pytest.mark.parametrize(
    ("addition", "leaks"),
    [
        ("For briefs on whether a seed-stage startup should ship a free tier, lead with no.", True),
        ("a brief ON whether\na seed stage startup should", True),  # exactly eight words, other layout
        ("brief on whether a seed-stage startup", False),  # seven
        ("a brief on whether a late-stage startup should ship", False),
    ],
)
def test_eight_consecutive_words_of_any_task_are_a_leak(addition: str, leaks: bool) -> None:
    for split in ("train", "val", "test"):
        assert kinds(guard(**{split: [task("x", WORDS)]}), addition) == (["task"] if leaks else [])


def test_words_that_every_task_shares_are_their_form_and_no_leak() -> None:
    form = "Answer the question below in one word and nothing else"
    assert kinds(guard(val=[task(f"v{n}", f"{form}: {n}") for n in range(3)]), form) == []
    assert kinds(guard(val=[task(f"v{n}", f"{form}: {n}") for n in range(2)]), form) == ["task"]


@pytest.mark.parametrize(
    ("pattern", "addition", "leaks"),
    [
        (r"[Cc]onfidence\s*[:=]", r"End with a line that matches [Cc]onfidence\s*[:=]", True),
        (r"[Cc]onfidence\s*[:=]", "End with a line that says Confidence: high or low", False),
        ("Confidence", "Confidence", False),  # a plain word as a pattern is a text to contain
    ],
)
def test_the_source_of_a_pattern_is_a_leak_and_what_it_asks_for_is_not(
    pattern: str, addition: str, leaks: bool
) -> None:
    checks = [{"op": "regex", "arg": pattern}]
    for split in ("train", "val", "test"):
        found = guard(**{split: [task("x", checks=checks)]}, scorer=get_scorer("checks"))
        assert kinds(found, addition) == (["pattern"] if leaks else [])
    by_reference = guard(
        train=[task("a", reference="plain")], val=[task("x", reference=pattern)], scorer=get_scorer("regex")
    )
    assert bool(kinds(by_reference, addition)) is leaks


def test_arguments_of_criteria_may_be_written() -> None:
    checks = [
        {"op": "section_present", "arg": "Risks of the whole undertaking"},
        {"op": "contains", "arg": "Reviewed by a second person"},
    ]
    checks += [{"op": "max_chars", "arg": 1200}, {"op": "tool_called", "arg": "search_the_archive"}]
    said = (
        "Have a section Risks of the whole undertaking, the words 'Reviewed by a second person', 1200"
        " characters; call search_the_archive."
    )
    assert kinds(guard(val=[task("x", checks=checks)], scorer=get_scorer("checks")), said) == []


@pytest.mark.parametrize(
    ("addition", "leaks"),
    [
        ("names the exact date of the meeting", True),
        ("It must name the date on which the meeting was held, word for word as the letter says", True),
        ("Give dates exactly.", False),
    ],
)
def test_rubric_text_is_a_leak(addition: str, leaks: bool) -> None:
    rubric = [
        "Names the exact date of the meeting.",
        "The date on which the meeting was held, word for word as the letter says, stands first",
    ]
    found = kinds(guard(train=[task("x", rubric=rubric)], scorer=get_scorer("judge")), addition)
    assert bool(found) is leaks
    assert set(found) <= {"rubric"}


def test_what_the_seed_already_held_is_the_users_own() -> None:
    splits = Splits(
        train=(task("a"),),
        val=(task("b", WORDS, "Lake Titicaca", checks=[{"op": "regex", "arg": r"\d+x?"}]),),
    )
    seed = f"# Skill\n\n{WORDS}. Lake Titicaca. \\d+x?\n"
    one = LeakGuard(splits, lambda one: Protected(references=("Lake Titicaca",), patterns=(r"\d+x?",)), seed)
    assert one.find(seed + "More.\n") == []
    assert (
        len(
            LeakGuard(
                splits, lambda one: Protected(references=("Lake Titicaca",), patterns=(r"\d+x?",)), SEED
            ).find(seed)
        )
        == 3
    )


def test_the_evidence_names_task_and_words_and_the_reason_gives_nothing_away() -> None:
    found = guard(val=[task("v7", WORDS, "Lake Titicaca")]).find(SEED + f"{WORDS}: Lake Titicaca")
    assert [str(leak) for leak in found] == [
        "reference of val task 'v7': 'Lake Titicaca'",
        f"task of val task 'v7': {WORDS!r}",
    ]
    reason = refusal_reason(found)
    assert (
        reason == "refused before measuring: it holds the answer of a held-out task and it repeats 8 or more"
        " consecutive words of a task; say it in general words instead"
    )


def test_hiding_takes_every_quotation_out_and_leaves_the_rest() -> None:
    one = guard(val=[task("v7", WORDS, "Lake Titicaca")])
    text = f"Lake Titicaca and lake titicaca; then {WORDS}, and be brief."
    assert one.hide(text) == "[left out] and [left out]; then [left out], and be brief."
    assert one.hide("nothing to hide") == "nothing to hide"


@pytest.mark.slow
def test_a_benchmark_of_the_public_size_is_searched_quickly() -> None:
    tasks = [
        task(
            f"q{n}",
            " ".join(f"word{(n * 7919 + at * 104729) % 50021}" for at in range(1000)),
            f"answer number {n}",
        )
        for n in range(400)
    ]
    one = guard(val=tasks[:100], test=tasks[100:])
    skill = SEED + "\n".join(
        f"- Rule {n}: read the question twice and answer with the shortest form." for n in range(100)
    )
    assert one.find(skill) == []  # builds the index
    started = time.process_time()
    assert one.find(skill) == []
    assert time.process_time() - started < 10
