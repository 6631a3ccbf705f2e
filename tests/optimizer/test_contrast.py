"""Several draws of a train task: where they went differently, analysts read the best against the worst; with
one draw nothing changes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from claims.promises._runs import assert_same_run, committed, facts, in_world, make_job, quick_folder, run
from gate._tables import Memory
from optimizer._made import aware
from optimizer.test_prompts import Markdown, shown
from optimizer.test_stages import SKILL, Quiz, analysis, at, optimizer
from skillopt.errors import Interrupted
from skillopt.evaluation.runner import Evaluator, rows_of
from skillopt.evaluation.stage import Evaluation
from skillopt.events import Reflected, StageClosed
from skillopt.harnesses.chat import Chat
from skillopt.messages import Reply, Request, Usage
from skillopt.optimizer.reflect import Reflection
from skillopt.tasks.task import Task
from skillopt.testing import FunctionModel
from steps import step_at
from train._world import train

RIGHT, WRONG, LOST = "right", "wrong", "lost"


def drawn(*tasks: tuple[str, ...]) -> Evaluation:
    """Each task with what its draws come to."""
    every = [
        Task(id=f"t{number}", prompt=f"question {number}", reference=f"gold {number}")
        for number in range(len(tasks))
    ]

    def answer(request: Request) -> str | Reply:
        number = int(request.messages[-1].content.split()[1])
        came = tasks[number][request.draw]
        if came == LOST:
            return Reply(
                text="", finish="length", usage=Usage(input_tokens=1, output_tokens=request.max_tokens)
            )
        return f"gold {number}" if came == RIGHT else f"guess {request.draw} of {number}"

    evaluator = Evaluator(
        harness=Chat(),
        model=FunctionModel(answer),
        benchmark=Quiz(),
        rollouts=Memory(),
        workers=4,
        max_tokens=9,
    )
    return Evaluation(
        evaluator, step_at("e1/s1"), SKILL.rendered, rows_of(every, len(tasks[0])), stage="rollout"
    )


async def reflected(*tasks: tuple[str, ...], **changes: object) -> tuple[Reflection, FunctionModel]:
    asked, model = optimizer(lambda request: analysis(), rollouts_per_task=2, minibatch_size=8, **changes)
    return await asked.reflect(at("e1/s2", 1), drawn(*tasks)), model


async def test_a_task_whose_draws_differ_is_shown_best_against_worst(snapshot: SnapshotAssertion) -> None:
    prompts = snapshot.use_extension(Markdown)
    reflection, model = await reflected((WRONG, RIGHT, WRONG), (WRONG, WRONG, WRONG), (RIGHT, RIGHT, RIGHT))
    failure, success = reflection.minibatches
    assert (set(failure.tasks), failure.contrasted, success.tasks, success.contrasted) == (
        {"t0", "t1"},
        ("t0",),
        ("t2",),
        (),
    )
    assert (
        "\n----------\n".join(map(shown, sorted(model.requests, key=lambda request: request.stage)))
        == prompts
    )


async def test_a_lost_draw_is_no_try() -> None:
    reflection, model = await reflected(
        (LOST, RIGHT, LOST), (LOST, WRONG, RIGHT), (LOST, LOST, LOST), (RIGHT, RIGHT, RIGHT)
    )
    assert {one.kind: one.tasks for one in reflection.minibatches}["failure"] == ("t1",)
    assert (
        "2 tries, 1 passed. The best try:"
        in next(r for r in model.requests if r.stage == "analyst_failure").messages[1].content
    )
    assert "t2" not in {task for one in reflection.minibatches for task in one.tasks}


async def test_what_was_never_wrong_is_no_failure_and_what_was_once_wrong_is() -> None:
    reflection, _ = await reflected((RIGHT, RIGHT), (RIGHT, WRONG), failure_only=True)
    assert [(one.kind, one.tasks) for one in reflection.minibatches] == [("failure", ("t1",))]


async def test_analysts_who_tell_defects_from_lapses_are_told_about_tries_too() -> None:
    _, model = await reflected((RIGHT, WRONG), (RIGHT, RIGHT), skill_aware=aware())
    for request in model.requests:
        system = request.messages[0].content
        assert system.count("tried each task several times") == system.count("`appendix_notes`") == 1


@pytest.mark.slow
@pytest.mark.parametrize("draws", [1, 3])
def test_a_run_draws_as_often_as_told_and_draw_0_is_the_one_every_stage_shares(
    tmp_path: Path, draws: int
) -> None:
    ran = train(
        tmp_path / "run",
        gradient__rollouts_per_task=draws,
        train__num_epochs=2,
        model__target="world:noise=0.2",
    )
    batches = [
        event.rows
        for event in ran.of(StageClosed)
        if event.stage == "rollout" and "end" not in str(event.place)
    ]
    assert all(
        sorted({row.draw for row in rows}) == list(range(draws)) and len(rows) == 20 * draws
        for rows in batches
    )
    contrasted = {task for event in ran.of(Reflected) for patch in event.patches for task in patch.contrasted}
    assert bool(contrasted) == (draws > 1)
    rows = batches[0]
    told = {task for patch in ran.of(Reflected)[0].patches for task in patch.contrasted}
    assert told == {
        row.task for row in rows if len({other.hard for other in rows if other.task == row.task}) > 1
    }
    assert all(("n_contrasted_tasks" in record) <= (draws > 1) for record in ran.json("history.json"))


@pytest.mark.slow
async def test_a_run_with_several_draws_is_the_same_when_stopped_and_pays_nothing_twice() -> None:
    small = (
        "env.train_cases=12",
        "env.val_cases=8",
        "env.test_cases=0",
        "train.batch_size=6",
        "train.num_epochs=2",
        "evaluation.repeats=1",
    )
    job = make_job(
        in_world(
            "world:seed=2,noise=0.2", *small, "gradient.rollouts_per_task=3", "gradient.minibatch_size=2"
        )
    )
    with quick_folder() as folder:
        await run(job, folder / "undisturbed")
        total = len(facts(folder / "undisturbed"))
        for number, at_fact in enumerate(range(2, total, max(1, total // 3))):
            heard = 0

            def stop(event: object, at_fact: int = at_fact) -> None:
                nonlocal heard
                heard += getattr(event, "id", None) is not None
                if heard == at_fact:
                    raise Interrupted("stopped by the test")

            with pytest.raises(Interrupted):
                await run(job, folder / str(number), sinks=[stop])
            before = committed(folder / str(number))
            await run(job, folder / str(number))
            assert_same_run(folder / str(number), folder / "undisturbed")
            assert before <= committed(folder / str(number))


def test_several_draws_are_part_of_what_a_run_is_and_one_draw_is_not() -> None:
    plain, one, three = (
        make_job(in_world("world", *more)).identity()
        for more in ((), ("gradient.rollouts_per_task=1",), ("gradient.rollouts_per_task=3",))
    )
    assert plain == one != three
