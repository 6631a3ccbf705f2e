"""Checks and rubrics of mined tasks: what may be tried whoever wrote it, what tells good from bad, and what
no answer can get around.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.errors import ModelError, ScoringError, TaskError
from skillopt.evaluation.judge import ModelJudge
from skillopt.messages import Message, Reply, Request, ToolCall
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers.checks import kept_rules, read_rules
from skillopt.tasks.scorers.rules import CheckedWork, Rule
from skillopt.tasks.task import Task
from skillopt.testing import FunctionModel, ScriptedModel
from skillopt_sleep.measures import telling_rules
from skillopt_sleep.scorer import NightScorer, criteria_of


async def kept(checks: object, answer: str) -> list[bool]:
    rules, problems = read_rules(checks)
    assert problems == ()
    return await kept_rules(rules, CheckedWork(answer=answer), whose="a test")


@pytest.mark.parametrize(
    ("op", "arg", "good", "bad"),
    [
        ("contains", "Key", "the KEY point", "the point"),
        ("not_contains", "key", "the point", "the KEY point"),
        ("section_present", "Key Risks", "## 2. Key Risks", "We see key risks"),
        ("section_present", "Key Risks", "## Key Risks:", "# Risks"),
        ("section_present", "Key Risks", "**Key Risks** and more", "*key risks*"),
        ("section_present", "Key Risks", "key risks: many", "many key risks: none"),
        ("section_contains", "risk", "### The risks we run", "**The risks we run**"),
        ("regex", "[Cc]onfidence\\s*[:=]", "Confidence : high", "confident"),
        ("min_chars", 5, "12345", "1234"),
        ("max_chars", 5, "12345", "123456"),
        ("no_refusal", None, "The answer is 4.", "I'm sorry, I can't do that."),
        ("no_refusal", None, "Sorry state of affairs: a report", "  "),
        ("no_refusal", None, "I can't recommend it more. " * 40, "**I cannot** help"),
    ],
)
async def test_what_each_check_means(op: str, arg: str | int | None, good: str, bad: str) -> None:
    (rule,), problems = read_rules([{"op": op, "arg": arg}])
    assert problems == () and rule == Rule(op, arg) and rule.as_json() == {"op": op, "arg": arg}
    assert (await kept([rule.as_json()], good), await kept([rule.as_json()], bad)) == ([True], [False])


@pytest.mark.parametrize(
    "item",
    [
        {"op": "always_true", "arg": "x"},
        {"op": "contains", "arg": " "},
        {"op": "contains", "arg": 4},
        {"op": "contains"},
        {"op": "contains", "arg": "x" * 1000},
        {"op": "max_chars", "arg": True},
        {"op": "max_chars", "arg": 1.5},
        {"op": "max_chars", "arg": -1},
        {"op": "max_chars", "arg": "7"},
        {"op": "max_chars", "arg": float("inf")},
        {"op": "max_chars", "arg": float("nan")},
        {"op": "max_chars", "arg": 10**12},
        {"op": "min_chars", "arg": 0},
        {"op": "json_schema", "arg": {"pattern": "(a+)+$"}},
        {"op": "regex", "arg": "("},
        {"op": ["contains"], "arg": "x"},
        "contains",
        None,
    ],
)
def test_what_can_never_be_checked_is_refused_and_never_passes(item: object) -> None:
    rules, problems = read_rules([item])
    assert rules == () and len(problems) == 1


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../../x",
        "~/victim.txt",
        "a b",
        "x;rm",
        "$(x)",
        "",
        "C:\\x",
        "a/b",
        "..",
        "-x",
        "x\n",
        ".",
    ],
)
def test_a_tool_is_a_name_and_never_a_path_or_a_command(name: str) -> None:
    assert read_rules([{"op": "tool_called", "arg": name}])[0] == ()
    assert read_rules([{"op": "tool_called", "arg": "mcp__server.search-2"}])[0] == (
        Rule("tool_called", "mcp__server.search-2"),
    )


def test_more_checks_than_one_can_read_are_cut_and_said_so() -> None:
    rules, problems = read_rules([{"op": "contains", "arg": f"w{number}"} for number in range(20)])
    assert (len(rules), len(problems)) == (12, 1)


def test_a_whole_number_may_come_as_a_float_and_spaces_around_a_text_mean_nothing() -> None:
    rules, _ = read_rules(
        [
            {"op": "max_chars", "arg": 1200.0},
            {"op": "contains", "arg": " Ship "},
            {"op": "contains", "arg": "Ship"},
        ]
    )
    assert rules == (Rule("max_chars", 1200), Rule("contains", "Ship"))


async def test_a_pattern_that_backtracks_for_ever_is_ended_and_is_no_score() -> None:
    started = time.monotonic()
    with pytest.raises(ScoringError, match=r"longer than 0\.5 s"):
        await kept_rules(
            [Rule("regex", "(a+)+$")], CheckedWork(answer="a" * 40 + "!"), whose="a test", timeout=0.5
        )
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    "line",
    [
        "# " + "# " * 40_000 + "x",
        "**" * 40_000,
        "- " * 40_000,
        "#" * 80_000,
        " " * 80_000 + "x",
        "`" * 80_000,
    ],
)
async def test_a_long_line_takes_time_in_proportion(line: str) -> None:
    checks = [{"op": op, "arg": "Key Risks"} for op in ("contains", "section_present", "section_contains")]
    started = time.process_time()
    assert await kept([*checks, {"op": "no_refusal"}], f"{line}\n{line}") == [
        False,
        False,
        False,
        line.strip("# -*`") != "",
    ]
    assert time.process_time() - started < 10


async def test_a_check_tells_only_if_good_passes_and_bad_fails() -> None:
    section, short, word = Rule("section_present", "Risks"), Rule("max_chars", 30), Rule("contains", "Ship")
    good, bad = ["# Risks\nShip it."], ["A long text about everything and nothing.", ""]
    assert await telling_rules([section, short, word], good, bad) == (section, short, word)
    assert await telling_rules([section, short, word], ["# Risks\nNo, and here is why not."], bad) == (
        section,
    )
    assert await telling_rules([section, short], good, [""]) == (section,), (
        "a limit that only the empty answer was tried on holds for all"
    )
    assert await telling_rules([Rule("regex", "(a+)+$")], [], ["a" * 50 + "!"], timeout=0.3) == ()


def trajectory(answer: str, *tools: str) -> Trajectory:
    calls = tuple(ToolCall(id=name, name=name, arguments="{}") for name in tools)
    return Trajectory(
        messages=(Message(role="assistant", content=answer, tool_calls=calls),),
        answer=answer,
        calls=1,
        usage=None,
    )


def task(**reference: object) -> Task:
    return Task(id="t", prompt="Write a brief.", reference=reference)


def judged(*met: bool) -> FunctionModel:
    """A simulated judge that says of every answer whether each point is met."""
    found = [{"criterion": number, "evidence": "", "met": one} for number, one in enumerate(met, start=1)]
    return FunctionModel(lambda request: json.dumps({"findings": found}))


async def scored(model: FunctionModel | ScriptedModel, one: Task, answer: str) -> Score:
    return await NightScorer().score_with(
        ModelJudge(model, max_tokens=500, stage="selection"), one, trajectory(answer)
    )


async def test_hard_is_all_checks_and_soft_the_share_of_them() -> None:
    both = task(
        checks=[
            {"op": "contains", "arg": "a"},
            {"op": "regex", "arg": "b+"},
            {"op": "tool_called", "arg": "search"},
        ]
    )
    scorer = NightScorer()
    scorer.check_task(both)
    right = await scorer.score(both, trajectory("abb", "search"))
    claimed = await scorer.score(both, trajectory("abb TOOL_CALL: search"))
    assert (right.hard, right.soft, right.feedback) == (1.0, 1.0, "")
    assert (claimed.hard, round(claimed.soft, 2), claimed.feedback) == (
        0.0,
        0.67,
        '1 of 3 checks failed: tool_called "search".',
    )


@pytest.mark.parametrize(
    "reference",
    [None, "x", {}, {"checks": []}, {"checks": [{"op": "x"}]}, {"checks": "all"}, {"rubric": " - \n"}],
)
def test_a_task_that_cannot_be_measured_is_refused_before_a_call(reference: object) -> None:
    with pytest.raises(TaskError, match="Task 't'"):
        NightScorer().check_task(Task(id="t", prompt="p", reference=reference))


def test_a_rubric_is_points_one_a_line() -> None:
    assert criteria_of("- It has a verdict.\n\n* It names risks.\n3. It is short.\n- It has a verdict.") == [
        *("It has a verdict.", "It names risks.", "It is short.")
    ]
    assert len(criteria_of("\n".join(f"- point {number}" for number in range(40)))) == 8


async def test_a_rubric_is_judged_in_the_role_of_the_judge_by_a_model_that_sees_the_task_and_not_how_it_is_measured() -> (
    None
):
    model = judged(True, False)
    score = await scored(model, task(rubric="- It has a verdict.\n- It names risks."), "Yes.")
    assert (score.hard, score.soft, score.feedback) == (0.0, 0.5, "not met: It names risks.")
    (request,) = model.requests
    assert (request.role, request.stage) == ("judge", "selection")
    shown = request.messages[-1].content
    assert (
        "Write a brief." in shown
        and "1. It has a verdict.\n2. It names risks." in shown
        and "<reference>" not in shown
    )
    both = task(rubric="It has a verdict.", checks=[{"op": "contains", "arg": "never there"}])
    half = await scored(judged(True), both, "Yes.")
    assert (half.hard, half.soft) == (0.0, 0.0)


async def test_what_a_judge_gets_wrong_twice_is_a_fault_of_the_judge_and_never_a_score() -> None:
    model = FunctionModel(lambda request: '{"score": 95}')
    with pytest.raises(ScoringError) as caught:
        await scored(model, task(rubric="r"), "a")
    assert caught.value.kind == "judge" and len({request.place for request in model.requests}) == 2
    again = ScriptedModel(
        [
            Reply(text='{"findings": [', finish="length", usage=None),
            '{"findings": [{"criterion": 1, "met": true}]}',
        ]
    )
    assert (await scored(again, task(rubric="r"), "a")).hard == 1.0


async def test_a_judge_that_cannot_be_asked_and_one_that_is_not_there_are_no_zero() -> None:
    def dead(request: Request) -> str:
        raise ModelError("unavailable", "503")

    with pytest.raises(ScoringError, match="503"):
        await scored(FunctionModel(dead), task(rubric="r"), "a")
    with pytest.raises(ScoringError, match="no judge"):
        await NightScorer().score(task(rubric="r"), trajectory("a"))


@pytest.mark.parametrize(
    "answer", ["", "  \n", "I'm sorry, I can't help with that.", "Sorry, no.", "I must decline."]
)
async def test_no_answer_is_zero_and_asks_nobody(answer: str) -> None:
    assert (await scored(ScriptedModel([]), task(rubric="r"), answer)).soft == 0.0


@pytest.mark.slow
@given(st.text(max_size=300), st.text(min_size=1, max_size=30))
async def test_any_answer_can_be_checked(answer: str, arg: str) -> None:
    rules, _ = read_rules(
        [{"op": op, "arg": arg} for op in ("contains", "not_contains", "section_present", "section_contains")]
    )
    assert len(await kept_rules(rules, CheckedWork(answer=answer), whose="a test")) == len(rules)


@pytest.mark.parametrize("seed", ["seed-missing-structure", "seed-verbose"])
async def test_the_public_seeds_can_be_scored(test_data: Path, seed: str) -> None:
    rows = [
        json.loads(line)
        for line in (test_data / "gbrain" / seed / "benchmark.jsonl").read_text().splitlines()
    ]
    scorer = NightScorer()
    for row in rows:
        one = Task(id=row["task_id"], prompt=row["task"], reference={"checks": row["judge"]["checks"]})
        scorer.check_task(one)
    score = await scorer.score(one, trajectory("## Key Risks\n\nNone.\n\nConfidence: high"))
    worse = await scorer.score(one, trajectory("word " * 1_000))
    assert (score.hard, worse.hard) == (1.0, 0.0)
