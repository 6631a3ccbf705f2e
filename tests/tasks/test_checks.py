"""Rule checks: what each rule means, and that one which cannot pass or cannot fail is found before anything
is paid.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from skillopt.errors import ScoringError, TaskError
from skillopt.messages import Message, ToolCall
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers import get_scorer
from skillopt.tasks.scorers.patterns import example
from skillopt.tasks.scorers.rules import RULES
from skillopt.tasks.task import Task

OBJECT = {"type": "object", "required": ["total"], "properties": {"total": {"type": "integer"}}}
LONG_REFUSAL = (
    "I cannot recommend the first option, and here is why. " + "It costs more than it brings. " * 30
)


def task(*checks: Any, **data: Any) -> Task:
    return Task(id="t1", prompt="p", data={"checks": list(checks), **data})


def said(answer: str, *tools: str) -> Trajectory:
    calls = tuple(ToolCall(id=f"c{n}", name=name, arguments="{}") for n, name in enumerate(tools))
    messages = (
        Message(role="assistant", content="", tool_calls=calls),
        Message(role="assistant", content=answer),
    )
    return Trajectory(messages=messages, answer=answer, calls=1, usage=None)


async def score(answer: str, *checks: Any, tools: tuple[str, ...] = (), **options: Any) -> Score:
    return await get_scorer("checks", options=options).score(task(*checks), said(answer, *tools))


@pytest.mark.parametrize(
    ("op", "arg", "answer", "kept"),
    [
        ("contains", "Berlin", "In berlin.", True),
        ("contains", "straße", "STRASSE", True),
        ("contains", "Berlin", "Bonn", False),
        ("contains", "Berlin", "", False),
        ("not_contains", "as an AI", "As an AI model", False),
        ("not_contains", "as an AI", "", True),
        ("max_chars", 5, "12345", True),
        ("max_chars", 5, "123456", False),
        ("max_chars", 1, "", True),
        ("min_chars", 3, "ab", False),
        ("min_chars", 3, "äöü", True),
        ("section_present", "Key Risks", "# Brief\n\n## Key Risks\n- one", True),
        ("section_present", "Key Risks", "### 2. key risks ###", True),
        ("section_present", "Key Risks", "**Key Risks**\n- one", True),
        ("section_present", "Key Risks", "- **Key Risks and more**: one", True),
        ("section_present", "Key Risks", "Key risks: one, two", True),
        ("section_present", "Key Risks", "The key risks are one and two.", False),
        ("section_present", "Key Risks", "## Key Risks of the plan", False),  # a heading ends with the title
        ("section_present", "Key Risks", "", False),
        ("section_contains", "risk", "## Key Risks of the plan", True),
        ("section_contains", "risk", "Like this:\n\n    ## Key Risks", False),  # that is a code block
        ("section_contains", "risk", "Risks: many", False),
        ("regex", r"[Cc]onfidence\s*[:=]", "Confidence : high", True),
        ("regex", r"[Cc]onfidence\s*[:=]", "CONFIDENCE: high", False),
        ("no_refusal", None, "I can't do that.", False),
        ("no_refusal", None, "**I’m sorry**, but no.", False),
        ("no_refusal", None, "Sorry, I made an error above. The answer is 42.", True),
        ("no_refusal", None, "I apologize for the delay: 42.", True),
        ("no_refusal", None, "Apologies for the earlier mistake.\n\n42", True),
        ("no_refusal", None, "Sorry, this is not possible.", False),
        ("no_refusal", None, "I'm sorry.", False),
        ("no_refusal", None, "Unfortunately, I am not able to open files.", False),
        ("no_refusal", None, "We cannot share that.", False),
        ("no_refusal", None, "I will note the total: 42", True),
        ("no_refusal", None, "I can confirm that the total is 42.", True),
        ("no_refusal", None, "I cannot recommend A; B is cheaper: 42 EUR.", True),
        ("no_refusal", None, "I'm afraid I can't do that.", False),
        ("no_refusal", None, "", False),
        ("no_refusal", None, "  \n", False),
        ("no_refusal", None, "Done. I cannot see a problem.", True),
        ("no_refusal", None, LONG_REFUSAL, True),
        ("json_schema", OBJECT, '{"total": 3}', True),
        ("json_schema", OBJECT, 'Here:\n```json\n{"total": 3}\n```', True),
        ("json_schema", OBJECT, '{"total": "3"}', False),
        ("json_schema", OBJECT, "three", False),
    ],
)
async def test_a_rule_is_kept_or_broken(op: str, arg: Any, answer: str, kept: bool) -> None:
    check = {"op": op} if arg is None else {"op": op, "arg": arg}
    found = await score(answer, check)
    assert (found.hard, found.soft) == (float(kept), float(kept))
    assert (found.feedback == "") is kept


async def test_a_schema_whose_pattern_backtracks_for_ever_is_stopped_and_is_no_score() -> None:
    check = {"op": "json_schema", "arg": {"type": "string", "pattern": "^(a+)+$"}}
    scorer = get_scorer("checks", options={"timeout": 1.5})
    with pytest.raises(ScoringError, match="the schema of task 't1' took longer"):
        await scorer.score(task(check), said(json.dumps("a" * 60 + "!")))


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="needs an alarm clock of the system")
@pytest.mark.slow
def test_a_match_whose_parent_was_killed_ends_by_itself(tmp_path: Path) -> None:
    program = (
        "import asyncio\nfrom skillopt.tasks.scorers.patterns import matches\n"
        "asyncio.run(matches(['^(a+)+$'], 'a' * 60 + '!', whose='x', timeout=1))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    deadline = time.monotonic() + 30
    while not (children := _children(parent.pid)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline, "the child went on without its parent"
        time.sleep(0.1)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_every_rule_has_been_tried() -> None:
    marks = test_a_rule_is_kept_or_broken.pytestmark[0].args[1]
    assert {case[0] for case in marks} | {"tool_called"} == set(RULES)


async def test_only_a_real_call_counts_as_a_tool_called() -> None:
    check = {"op": "tool_called", "arg": "search"}
    assert (await score("done", check, tools=("read", "search"))).hard == 1
    assert (await score("done", check, tools=("read",))).hard == 0
    assert (await score("tool_call: search", check)).hard == 0


async def test_hard_is_all_and_soft_the_share_and_the_feedback_names_what_failed() -> None:
    found = await score(
        "<answer>short</answer> and more",
        {"op": "contains", "arg": "short"},
        {"op": "min_chars", "arg": 9},
        {"op": "no_refusal"},
    )
    assert (found.hard, found.soft) == (0, pytest.approx(2 / 3))
    assert found.feedback == "1 of 3 checks failed: min_chars 9."


async def test_checks_come_from_either_form_of_a_row_and_from_the_options() -> None:
    scorer = get_scorer("checks", options={"checks": [{"op": "no_refusal"}]})
    gbrain = Task(
        id="t1", prompt="p", data={"judge": {"kind": "rule", "checks": [{"op": "max_chars", "arg": 3}]}}
    )
    scorer.check_task(gbrain)
    assert (await scorer.score(gbrain, said("abcd"))).soft == 0.5


async def test_a_pattern_that_runs_for_ever_is_an_error_of_the_scorer_and_ends_in_time() -> None:
    """Time is what the child computed, so that a busy machine changes nothing."""
    before = os.times()
    with pytest.raises(ScoringError) as caught:
        await score(
            "a" * 40 + "!", {"op": "regex", "arg": r"^(a+)+$"}, {"op": "contains", "arg": "a"}, timeout=0.5
        )
    assert caught.value.kind == "timeout"
    assert 0.3 < os.times().children_user - before.children_user < 2


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("contains", "is no check; write an object"),
        ({"arg": "x"}, "is no check"),
        ({"op": "contians", "arg": "x"}, "no rule is named 'contians'. Did you mean 'contains'?"),
        ({"op": "contains", "arg": "x", "argument": 1}, "'contains' has no field 'argument'"),
        ({"op": "contains"}, "'contains' takes a text that is not empty"),
        ({"op": "contains", "arg": " "}, "takes a text that is not empty"),
        ({"op": "max_chars", "arg": True}, "takes a whole number"),
        ({"op": "max_chars", "arg": 0}, "at least 1"),
        ({"op": "min_chars", "arg": 1.5}, "takes a whole number"),
        ({"op": "regex", "arg": "(open"}, "takes a pattern, and this is none"),
        ({"op": "regex", "arg": ".*"}, "so it measures nothing"),
        ({"op": "regex", "arg": "a^"}, 'no text was found that passes regex "a^"'),
        ({"op": "regex", "arg": "(?=.*foo)bar"}, 'add it to the check as "passes"'),
        ({"op": "regex", "arg": "foo", "passes": "bar"}, "fails its own example 'bar'"),
        ({"op": "contains", "arg": "foo", "fails": "food"}, "passes its own example 'food'"),
        ({"op": "no_refusal", "arg": "x"}, "takes no argument"),
        ({"op": "json_schema", "arg": "object"}, "takes a JSON schema as an object"),
        ({"op": "json_schema", "arg": {"type": "objekt"}}, "takes a JSON schema, and this is none"),
        ({"op": "json_schema", "arg": OBJECT, "passes": "{}"}, "fails its own example"),
    ],
)
def test_a_check_that_cannot_work_is_found_before_anything_is_paid(check: Any, words: str) -> None:
    with pytest.raises(TaskError) as caught:
        get_scorer("checks").check_task(task({"op": "no_refusal"}, check))
    assert "Task 't1', check 2: " in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "checks",
    [
        [{"op": "min_chars", "arg": 10}, {"op": "max_chars", "arg": 9}],
        [{"op": "contains", "arg": "a long sentence"}, {"op": "max_chars", "arg": 9}],
        [{"op": "contains", "arg": "red wine"}, {"op": "not_contains", "arg": "WINE"}],
        [{"op": "section_present", "arg": "Risks"}, {"op": "not_contains", "arg": "risk"}],
    ],
)
def test_checks_that_contradict_each_other_are_refused(checks: list[dict[str, Any]]) -> None:
    with pytest.raises(TaskError, match="no answer can keep both"):
        get_scorer("checks").check_task(task(*checks))


def test_a_pattern_that_looks_around_is_believed_with_an_example_that_holds() -> None:
    check = {"op": "regex", "arg": "(?=.*foo)bar", "passes": "bar and foo"}
    get_scorer("checks").check_task(task(check))
    with pytest.raises(TaskError, match="fails its own example"):
        get_scorer("checks").check_task(task({**check, "passes": "foo and bar"}))


@pytest.mark.parametrize(
    "data", [{}, {"checks": []}, {"checks": None}, {"judge": {"kind": "rule", "checks": []}}]
)
def test_a_task_without_checks_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(TaskError, match="has no checks"):
        get_scorer("checks").check_task(Task(id="t1", prompt="p", data=data))


def test_patterns_are_protected_and_criteria_are_not() -> None:
    scorer = get_scorer("checks")
    found = scorer.protected(
        task(
            {"op": "regex", "arg": r"\d+"},
            {"op": "contains", "arg": "a text"},
            {"op": "max_chars", "arg": 99},
        )
    )  # type: ignore[attr-defined]
    assert (found.patterns, found.references, found.rubrics) == ((r"\d+",), (), ())


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d{4}-\d{2}",
        r"(a|b)+c\1",
        r"(?i)foo\b",
        r"^##\s+Key",
        r"[^x]y",
        r"\bRecommend(ation)?\b",
        r"(?P<q>[\"']).*?(?P=q)",
        r"x{30}",
        r"\W\S\D",
    ],
)
def test_an_example_of_a_pattern_matches_it(pattern: str) -> None:
    made = example(pattern)
    assert made is not None
    assert re.search(pattern, made)


def test_the_version_holds_the_options_and_not_the_tasks() -> None:
    one, two = get_scorer("checks"), get_scorer("checks", options={"checks": [{"op": "no_refusal"}]})
    assert one.version != two.version
    json.dumps(one.version)
