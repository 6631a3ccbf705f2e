"""The form for small optimizers: which models get it, which failures are studied together, and what becomes of
a rule and its example.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from optimizer.test_stages import SKILL, evaluation, optimizer
from skillopt.evaluation.leaks import LeakGuard
from skillopt.events.place import Place
from skillopt.optimizer.minibatches import TriedTask
from skillopt.optimizer.proof import SHOWN, SmallLaneAnalyst, by_kind, is_small, worked_edits
from skillopt.optimizer.proposers.port import DeadEdit, Evidence
from skillopt.optimizer.replies import WorkedRule
from skillopt.skill.edits import Edit
from skillopt.tasks.protected import Protected
from skillopt.tasks.rollout import Score, Scored, Trajectory
from skillopt.tasks.splits import Splits
from skillopt.tasks.task import Task
from steps import step_at

HOUSE = Path(__file__).parents[2] / "examples" / "house-formats" / "tasks" / "train" / "tasks.jsonl"


PLACE = Place.parse("e1/s1/analyst_proof/0")


def failed(task: Task, answer: str = "It is wrong.") -> TriedTask:
    told = Trajectory(messages=(), answer=answer, calls=1, usage=None)
    return TriedTask(
        task=task,
        tries=(
            Scored(
                task_id=task.id,
                draw=0,
                attempt=0,
                key=task.id,
                trajectory=told,
                score=Score(hard=0.0, soft=0.0),
            ),
        ),
    )


def dates(n: int = 6, kind: str = "date") -> list[TriedTask]:
    return [
        failed(
            Task(
                id=f"d{day}",
                kind=kind,
                prompt=f"The ship left the port of Varna on {day} May 2001. On which date?",
                reference=f"2001-05-0{day}",
            )
        )
        for day in range(1, n + 1)
    ]


@pytest.mark.parametrize(
    ("model", "window", "small"),
    [
        ("/models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", 128_000, True),
        ("Qwen/Qwen3-4B", 128_000, True),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", 128_000, True),
        ("gemma-3n-e4b-it", 128_000, True),
        ("llama-3.1-8b-instruct", 8_000, False),
        ("qwen3-30b-a3b", 128_000, False),
        ("mixtral-8x7b", 128_000, False),
        ("qwen2.5-14b-instruct-1m", 128_000, False),
        ("claude-sonnet-4-5[1m]", 128_000, False),
        ("gpt-5-mini", 128_000, False),
        ("gpt-5-mini", 15_999, True),
        ("ft:gpt-4o:house::9b2c1d", 128_000, False),
        ("/models/3b/larger.gguf", 128_000, False),
    ],
)
def test_a_model_is_small_by_the_size_in_its_name_or_else_by_its_window(
    model: str, window: int, small: bool
) -> None:
    assert is_small(model, window) is small


def house(kinds: bool) -> list[TriedTask]:
    rows = [json.loads(line) for line in HOUSE.read_text().splitlines()]
    rows = [row for at in range(6) for row in rows[at::6]]  # families mixed
    return [
        failed(
            Task(
                id=row["id"],
                prompt=row["prompt"],
                reference=row["answer"],
                kind=row["kind"] if kinds else "",
            )
        )
        for row in rows
    ]


def families(lane: Sequence[TriedTask]) -> set[str]:
    return {one.task.id.split("-")[0] for one in lane}


def test_a_lane_holds_one_kind_and_no_task_is_lost() -> None:
    failures = house(kinds=True)
    lanes = by_kind(failures, 4)
    assert [len(lane) for lane in lanes] == [3] * 10
    assert all(len(families(lane)) == 1 for lane in lanes)
    assert {one.task.id for lane in lanes for one in lane} == {one.task.id for one in failures}


def test_tasks_without_a_kind_are_studied_with_those_most_like_them() -> None:
    lanes = by_kind(house(kinds=False), 8)
    assert sum(len(lane) for lane in lanes) == 30
    assert max(len(lane) for lane in lanes) == SHOWN
    mixed = [lane for lane in lanes if len(families(lane)) > 1]
    assert len(mixed) <= 3


def test_a_rule_is_tried_with_its_own_example_and_with_a_wanted_answer_but_not_by_heart() -> None:
    reply = WorkedRule(
        rule="- Answer dates as YYYY-MM-DD.",
        request="The shop shut on 3 June 1999. When?",
        answer="1999-06-03",
    )
    made, copied = worked_edits(reply, dates(3), PLACE)
    assert (
        made.content
        == '- Answer dates as YYYY-MM-DD. Example: "The shop shut on 3 June 1999. When?" -> 1999-06-03'
    )
    assert made.evidence["tasks"] == ["d1", "d2", "d3"]
    assert copied.content == "- Answer dates as YYYY-MM-DD. Example: 2001-05-01"
    assert copied.evidence["tasks"] == ["d2", "d3"]


def test_an_example_copied_from_a_task_quotes_none_and_is_not_tried_on_it() -> None:
    tasks = dates(3)
    splits = Splits(train=tuple(one.task for one in tasks), val=(Task(id="v", prompt="?"),), test=())
    guard = LeakGuard(splits, lambda task: Protected(), SKILL.text)
    reply = WorkedRule(rule="Answer dates.", request=tasks[1].task.prompt, answer="2001-05-02")
    made = worked_edits(reply, tasks, PLACE)[0]
    assert made.content == '- Answer dates. Example: "... on 2 May 2001. On which date?" -> 2001-05-02'
    assert guard.find(f"- Answer dates. Example: {reply.request}")
    assert not guard.find(made.content)
    assert made.evidence["tasks"] == ["d1", "d3"]


@pytest.mark.parametrize(
    ("failures", "reply", "edits"),
    [
        (dates(1), {"rule": "Answer dates.", "request": "When?", "answer": "2001-05-01"}, 0),
        (dates(2), {"rule": " ", "request": "When?", "answer": "1999-06-03"}, 0),
        (dates(2), {"rule": "Answer dates.", "request": "When?", "answer": ""}, 1),
        (
            [failed(Task(id="a", prompt="Walk.", reference=None))],
            {"rule": "Go.", "request": "", "answer": "Gone"},
            1,
        ),
        (
            [failed(Task(id="a", prompt="Write.", reference="a\nb"))],
            {"rule": "Go.", "request": "", "answer": ""},
            0,
        ),
    ],
)
def test_what_has_no_rule_no_answer_or_no_other_task_makes_no_edit(failures, reply, edits) -> None:
    assert len(worked_edits(WorkedRule(**reply), failures, PLACE)) == edits


async def test_the_small_question_is_short_varied_by_look_and_held_to_one_rule() -> None:
    reply = {"rule": "Answer dates as YYYY-MM-DD.", "request": "It shut on 3 June. When?", "answer": "06-03"}
    asked, model = optimizer(
        lambda request: json.dumps(reply), is_small=True, scoring_rule="Letter by letter."
    )
    lanes = asked.lanes(evaluation(set(), set(), 1))
    assert isinstance(lanes, SmallLaneAnalyst)
    failures = dates(6)
    step = step_at("e1/s1", skill=SKILL, seed=1)
    first = await lanes.study(step, "0", Evidence(failed=tuple(failures)))
    dead = DeadEdit(
        edit=Edit(op="append", content="- Say it."), answers=((failures[0].task, failures[0].tries[0]),)
    )
    await lanes.study(step, "0-2", Evidence(failed=tuple(failures), dead=(dead,)))
    one, other = (request.messages[1].content for request in model.requests)
    assert [edit.op for edit in first.edits] == ["append", "append"]
    assert first.tasks == tuple(one.task.id for one in failures)
    assert one.count("Request: ") == SHOWN
    assert "Letter by letter." in one and "- one\n- two" in one
    assert "Wanted: 2001-05-0" in one and "The assistant said: It is wrong." in one
    assert "- Say it.\nWith it the assistant said: It is wrong." in other
    assert [line for line in one.splitlines() if line.startswith("Request")] != [
        line for line in other.splitlines() if line.startswith("Request")
    ]
    schema = model.requests[0].schema
    assert schema is not None and list(schema["properties"]) == schema["required"] == [
        "rule",
        "request",
        "answer",
    ]
    assert len(model.requests[0].messages[0].content) < 1_500
