"""What the optimizer and the target are really asked, word by word. Update with `pytest --snapshot-update`
and read the difference.
"""

from __future__ import annotations

import json

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from gate._tables import Memory
from optimizer._made import aware
from optimizer.test_stages import (
    SKILL,
    Lesson,
    add,
    analysis,
    at,
    evaluation,
    merged_of,
    optimizer,
    reflected,
)
from skillopt.benchmarks.own import OwnBenchmark
from skillopt.benchmarks.searchqa import PLUGIN as SEARCHQA
from skillopt.evaluation.runner import Evaluator, PlannedRow
from skillopt.events import Minibatch
from skillopt.harnesses.chat import Chat
from skillopt.messages import Request
from skillopt.optimizer.epoch import EPOCH_AGO, TaskPair
from skillopt.optimizer.minibatches import TriedTask
from skillopt.optimizer.proposers.port import Evidence
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.replies import PAYLOADS
from skillopt.optimizer.select import MergedEdits
from skillopt.skill.document import Document
from skillopt.tasks.rollout import Score, Scored, Trajectory
from skillopt.tasks.task import Task
from skillopt.testing import FunctionModel


class Markdown(SingleFileSnapshotExtension):
    """One readable file per prompt."""

    _write_mode = WriteMode.TEXT
    file_extension = "md"


@pytest.fixture
def prompts(snapshot):
    return snapshot.use_extension(Markdown)


def shown(request: Request) -> str:
    head = f"place: {request.place}\nstage: {request.stage}\n"
    return head + "".join(
        f"\n===== {message.role} =====\n{message.content}\n" for message in request.messages
    )


async def test_failure_analyst(prompts):
    asked, model = optimizer(lambda request: analysis())
    await asked.reflect(at("e1/s2", 1), evaluation({0, 1}, set(), 2))
    assert shown(model.requests[0]) == prompts


async def test_success_analyst(prompts):
    asked, model = optimizer(lambda request: analysis())
    await asked.reflect(at("e1/s2", 1), evaluation(set(), set(), 2))
    assert shown(model.requests[0]) == prompts


async def test_the_second_asking(prompts):
    asked, model = optimizer(lambda request: "I would add a rule.")
    await asked.reflect(at("e1/s2", 1), evaluation({0}, set(), 1))
    assert shown(model.requests[1]) == prompts


async def test_merge(prompts):
    asked, model = optimizer(lambda request: json.dumps({"edits": []}))
    await asked.aggregate(at("e1/s2"), reflected(("failure", [add("- a")]), ("failure", [add("- b")])))
    assert shown(model.requests[0]) == prompts


async def test_ranking(prompts):
    asked, model = optimizer(lambda request: '{"selected_indices": [0]}')
    await asked.select(at("e1/s2", limit=1), reflected(), merged_of(add("- a"), add("- b")))
    assert shown(model.requests[0]) == prompts


async def test_repair(prompts):
    asked, model = optimizer(lambda request: '{"edits": []}')
    await asked.select(at("e1/s2", limit=1), reflected(), merged_of({"op": "delete", "target": "- ONE"}))
    assert shown(model.requests[0]) == prompts


def pair(name: str, before: float, after: float) -> TaskPair:
    def rollout(hard: float) -> Scored:
        told = Trajectory(messages=(), answer="", calls=1, usage=None)
        return Scored(
            task_id=name, draw=0, attempt=0, key=name, trajectory=told, score=Score(hard=hard, soft=hard)
        )

    return TaskPair(
        task=Task(id=name, prompt=f"question of {name}", reference="gold"),
        before=rollout(before),
        after=rollout(after),
    )


@pytest.mark.parametrize("mode", sorted(PAYLOADS))
async def test_analyst_of_a_lane(mode, prompts):
    told = {"revise_suggestions": [{"type": "add_rule", "title": "t", "instruction": "Add: - three"}]}
    written = {"new_skill": f"{SKILL.text}- three\n", "changes": [{"words": "three", "tasks": ["stuck"]}]}

    def answer(request: Request) -> str:
        return json.dumps(
            told if "revise_suggestions" in json.dumps(request.schema) else {**written, "edits": []}
        )

    asked, model = optimizer(answer, skill_update_mode=mode)
    failed = pair("stuck", 0.0, 0.0)
    look = await asked.lanes(evaluation({0}, set(), 1)).study(
        at("e1/s2"),
        "0",
        Evidence(failed=(TriedTask(task=failed.task, tries=(failed.before,)),), kinds={"dates": 2}),
    )
    assert "\n".join(map(shown, model.requests)) == prompts
    assert [edit.as_json() for edit in look.edits] == {
        "patch": [],
        "full_rewrite_minibatch": [{"op": "append", "content": "- three\n", "tasks": ["stuck"]}],
        "rewrite_from_suggestions": [{"op": "append", "content": "- three\n"}],
    }[mode]
    assert [edit.id for edit in look.edits] == ["e1/s2/analyst_proof/0#0"] * len(look.edits)


class Later(Lesson):
    skill = SKILL.with_region("slow_update", "keep it short")


OLDER = Document("older text\n")
PAIRS = [pair("worse", 1.0, 0.0), pair("stuck", 0.0, 0.0), pair("better", 0.0, 1.0), pair("fine", 1.0, 1.0)]


async def test_slow_update(prompts):
    asked, model = optimizer(lambda request: '{"slow_update_content": "x"}')
    await asked.advisor.slow_update(at("e2/end", lesson=Later), OLDER, PAIRS, EPOCH_AGO)
    assert shown(model.requests[0]) == prompts


async def test_meta_skill(prompts):
    asked, model = optimizer(lambda request: '{"meta_skill_content": "x"}')
    await asked.advisor.meta_skill(at("e2/end", lesson=Later), OLDER, PAIRS)
    assert shown(model.requests[0]) == prompts


ROW = {"id": "q1", "question": "Who?", "context": "[DOC] It was Ada. [DOC] Not Bob.", "answers": ["Ada"]}


@pytest.mark.parametrize("name", ["own", "searchqa"])
async def test_rollout(name, prompts, tmp_path):
    if name == "own":
        benchmark = OwnBenchmark.from_tasks(
            [{"id": f"q{n}", "prompt": f"Who {n}?", "answer": "Ada"} for n in range(5)]
        )
    else:
        for split in ("train", "val"):
            (tmp_path / split).mkdir()
            (tmp_path / split / "rows.json").write_text(
                json.dumps([{**ROW, "id": split, "question": f"Who, in {split}?"}])
            )
        benchmark = SEARCHQA(SEARCHQA.Settings(split_dir=tmp_path))
    model = FunctionModel(lambda request: "<answer>Ada</answer>")
    evaluator = Evaluator(
        harness=Chat(),
        model=model,
        benchmark=benchmark,
        rollouts=Memory(),
        workers=1,
        max_tokens=9,
    )
    row = PlannedRow(task=benchmark.tasks("train")[0])
    outcome = await evaluator.measure(SKILL.rendered, row, stage="rollout")
    assert isinstance(outcome, Scored) and outcome.score.hard == 1.0
    asked = "".join(
        f"===== {message.role} =====\n{message.content}\n" for message in model.requests[0].messages
    )
    assert asked == prompts


@pytest.mark.parametrize("mode", ["rewrite_from_suggestions", "full_rewrite_minibatch"])
async def test_analyst_of_another_mode(mode, prompts):
    asked, model = optimizer(lambda request: analysis(), skill_update_mode=mode)
    await asked.reflect(at("e1/s2", 1), evaluation({0}, set(), 1))
    assert model.requests[0].messages[0].content == prompts


@pytest.mark.parametrize("mode", ["rewrite_from_suggestions", "full_rewrite_minibatch"])
async def test_merge_of_another_mode(mode, prompts):
    asked, model = optimizer(lambda request: "{}", skill_update_mode=mode)
    await asked.aggregate(at("e1/s2"), reflected(("failure", [add("- a")]), ("failure", [add("- b")])))
    assert model.requests[0].messages[0].content == prompts


@pytest.mark.parametrize("source", ["both", "failure_only"])
async def test_skill_aware_analysts(source, prompts):
    asked, model = optimizer(lambda request: analysis(), skill_aware=aware(source=source))
    await asked.reflect(at("e1/s2", 1), evaluation({0}, set(), 2))
    failure, success = sorted(model.requests, key=lambda request: request.stage)[:2]
    assert f"{failure.messages[0].content}\n=====\n{success.messages[0].content}" == prompts


async def test_rewrite(prompts):
    asked, model = optimizer(
        lambda request: '{"new_skill": "# New"}', skill_update_mode="rewrite_from_suggestions"
    )
    item = {
        "type": "add_rule",
        "title": "dates",
        "motivation": "m",
        "instruction": "Add it.",
        "priority_hint": "high",
    }
    merged = MergedEdits(
        edits=(PAYLOADS["rewrite_from_suggestions"].edit_of(item, "e#0"),), ended=(), calls=0
    )
    await asked.update(at("e1/s2"), reflected(), await asked.select(at("e1/s2"), reflected(), merged))
    assert shown(model.requests[0]) == prompts


async def test_learning_rate(prompts):
    asked, model = optimizer(lambda request: '{"learning_rate": 1}', lr_control_mode="autonomous")
    await asked.select(at("e1/s2"), reflected(), merged_of(add("- a")))
    assert shown(model.requests[0]) == prompts


async def test_consolidation(prompts):
    asked, model = optimizer(
        lambda request: '{"appendix_notes": ["all"]}', skill_aware=aware(consolidate_above=1)
    )
    made = Minibatch(kind="failure", index=0, tasks=(), notes=("one", "two"))
    reflection = Reflection(rollouts=(), minibatches=(made,))
    await asked.update(at("e1/s2"), reflection, await asked.select(at("e1/s2"), reflection, merged_of()))
    assert shown(model.requests[0]) == prompts
