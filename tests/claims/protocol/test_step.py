"""One step as the protocol documents it (sections 1.2 and 1.3): the order of the data, six stages, what is
remembered.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from fractions import Fraction
from types import SimpleNamespace

import pytest

from claims._product import (
    Answer,
    Chat,
    Checkpoint,
    Document,
    Evaluation,
    Evaluator,
    FunctionModel,
    Judged,
    LoopbackProvider,
    Measured,
    Model,
    Notice,
    Optimizer,
    OptimizerSettings,
    Plan,
    Reply,
    Request,
    RunStarted,
    Score,
    StageClosed,
    State,
    Task,
    TaskError,
    Updated,
    Verdict,
    adopt,
    cosine,
    rows_of,
    world_answers,
)
from claims.protocol._told import BAD, GOOD, QUIET, edits, job_of, root_of, rule, run, stage_of
from gate._tables import Memory
from optimizer.test_modes import chosen, suggestion
from optimizer.test_stages import Quiz, add, analysis, at, evaluation, merged_of, optimizer, reflected
from steps import step_at
from train._world import train

# 1.2 data order


@pytest.mark.slow
def test_accumulation_is_a_larger_batch_in_which_no_task_is_seen_twice(folder):
    """The public plan rolls out and reflects batch after batch and refills an empty last one; ours is one
    larger batch, which waits for nothing and repeats nothing.
    """
    told = train(folder, train__batch_size=5, train__accumulation=3, train__num_epochs=2)
    assert told.of(RunStarted)[0].steps == 2 * 3
    batches = [
        event for event in told.of(StageClosed) if event.stage == "rollout" and "/end" not in str(event.place)
    ]
    assert [len(event.rows) for event in batches] == [15, 15, 10] * 2
    for epoch in ("e1/", "e2/"):
        seen = [row.task for event in batches if str(event.place).startswith(epoch) for row in event.rows]
        assert len(seen) == len(set(seen)) == 40


def test_limits_on_val_and_test_take_the_first_tasks_in_file_order(folder):
    told = train(folder, evaluation__sel_env_num=7, evaluation__test_env_num=5, train__num_epochs=1)
    (baseline,) = [event for event in told.of(StageClosed) if str(event.place) == "baseline"]
    assert list(dict.fromkeys(row.task for row in baseline.rows)) == [
        f"W00300{number}" for number in range(7)
    ]
    assert told.json("summary.json")["test"]["comparison"]["n"] == 5


async def test_a_train_size_that_does_not_match_is_refused_before_a_call():
    async with LoopbackProvider(lambda call: pytest.fail("nothing may be asked")) as provider:
        with pytest.raises(TaskError, match="train_size is 9, but the train split has 16"):
            job_of(provider, {"train__train_size": 9})


async def test_a_train_size_above_the_split_is_the_whole_split_and_said_once(folder):
    told = await run(folder, train__train_size=400, train__num_epochs=1)
    notices = [event.text for event in told.of(Notice) if "train_size" in event.text]
    assert notices == ["train.train_size is 400; the train split has 16 tasks, all of which are taken."]
    assert told.json("config.json")["train_size"] == 16


async def test_settings_that_only_the_published_loop_reads_are_named_where_proof_trains(folder):
    told = await run(folder, train__strategy="proof", train__batch_size=7, optimizer__salvage=False)
    (notice,) = [event.text for event in told.of(Notice) if "does not read" in event.text]
    assert "does not read train.batch_size, optimizer.salvage;" in notice


# stage 1, rollout


@pytest.mark.slow
async def test_a_batch_is_rolled_out_with_the_current_skill_and_scored_by_the_plain_mean(folder):
    told = await run(folder)
    states = {
        f"e{1 + step // 2}/s{step + 1}": state
        for step, state in enumerate([*told.states("baseline"), *told.states("step")][:-1])
    }
    closed = {str(event.place): event.rows for event in told.of(StageClosed) if event.stage == "rollout"}
    assert any(record["action"].startswith("accept") for record in told.steps), (
        "the skill should change at least once"
    )
    for record in told.steps:
        rows = closed[f"e{record['epoch']}/s{record['step']}"]
        assert record["rollout_hard"] == sum(row.hard for row in rows) / len(rows)
        assert record["rollout_soft"] == sum(row.soft for row in rows) / len(rows)
    prompts = {call.place.split("/")[1].partition(".")[0]: call.text for call in told.asked("rollout")}
    for place, rows in closed.items():
        if "/end" not in place:
            skill = told.skill((states | {"e2/s3": told.states("epoch")[0]})[place].skill).rendered
            assert all(skill.strip() in prompts[row.rollout] for row in rows), place


# stage 2, reflect


def optimizer_of(model: Model, **changes) -> Optimizer:
    settings = {
        "max_tokens": 1000,
        "context_window": 32_000,
        "minibatch_size": 3,
        "merge_batch_size": 2,
        "learning_rate": 2,
        "failure_only": False,
    }
    return Optimizer(model, OptimizerSettings(**{**settings, **changes}))


class HalfRight(Quiz):
    """Right answers are worth a half."""

    async def score(self, task, trajectory):
        full = await super().score(task, trajectory)
        return Score(hard=full.hard / 2, soft=full.soft / 2)


async def test_a_fraction_of_hard_counts_as_a_success():
    asked, model = optimizer(lambda request: analysis())
    evaluator = Evaluator(
        harness=Chat(),
        model=FunctionModel(lambda request: "gold"),
        benchmark=HalfRight(),
        rollouts=Memory(),
        workers=1,
        max_tokens=9,
    )
    task = Task(id="t", prompt="question", reference="gold")
    await asked.reflect(at("p"), Evaluation(evaluator, step_at("p"), "", rows_of([task]), stage="rollout"))
    assert [request.stage for request in model.requests] == ["analyst_success"]


async def test_with_failure_only_nobody_studies_successes():
    asked, model = optimizer(lambda request: analysis(), failure_only=True)
    reflection = await asked.reflect(at("p"), evaluation({0, 1}, set(), 8))
    assert {request.stage for request in model.requests} == {"analyst_failure"}
    assert sorted(task for one in reflection.minibatches for task in one.tasks) == ["t00", "t01"]


async def test_proposals_keep_their_planned_order_however_late_an_analyst_answers():
    """The public order is that in which analysts finish, so that the same answers may merge differently; ours
    is planned.
    """

    class Late(FunctionModel):
        async def complete(self, request: Request) -> Reply:
            index = int(request.place.split("/")[-2])
            await asyncio.sleep(0.05 - 0.02 * index)
            order.append(index)
            return await super().complete(request)

    order: list[int] = []
    asked = optimizer_of(
        Late(lambda request: analysis(add(f"- {request.place.split('/')[-2]}"))), failure_only=True
    )
    reflection = await asked.reflect(at("p"), evaluation(set(range(9)), set(), 9))
    assert order == [2, 1, 0]
    assert [edit.content for patch in reflection.edits("failure") for edit in patch] == ["- 0", "- 1", "- 2"]


async def test_one_analyst_may_propose_the_largest_limit_whatever_the_schedule_says():
    asked, model = optimizer(
        lambda request: analysis(*[add(f"- {n}") for n in range(5)]), learning_rate=3, failure_only=True
    )
    reflection = await asked.reflect(at("p", limit=1), evaluation({0}, set(), 1))
    assert (
        len(reflection.minibatches[0].edits) == 3
        and "at most 3 edits" in model.requests[0].messages[1].content
    )


async def test_an_edit_is_backed_by_the_rollouts_its_analyst_was_shown():
    """The public default is the batch size that the model reports of itself; ours is counted."""
    own = {**add("- own"), "support_count": 2}
    asked, _ = optimizer(
        lambda request: analysis(add("- plain"), own).replace('"batch_size": 1', '"batch_size": 99'),
        failure_only=True,
    )
    reflection = await asked.reflect(at("p"), evaluation({0, 1, 2}, set(), 3))
    plain, said = reflection.minibatches[0].edits
    assert (plain.evidence["support_count"], plain.evidence["source_type"]) == (3, "failure")
    assert said.evidence["support_count"] == 2


async def test_a_step_without_proposals_is_skipped_and_asks_for_nothing_more(folder):
    told = await run(
        folder, {"analyst_failure": lambda call: edits(), "analyst_success": lambda call: edits()}
    )
    assert {record["action"] for record in told.steps} == {"skip_no_patches"} and told.summary[
        "total_skips"
    ] == 4
    assert {stage_of(call) for call in told.calls} == {"rollout", "analyst_failure", "analyst_success"}
    assert [event for event in told.of(StageClosed) if event.stage == "selection"][1:] == []
    assert not any(event.remembered for event in told.of(Checkpoint))


# stage 3, aggregate


async def test_failure_and_success_merges_are_under_way_at_the_same_time():
    """Publicly success patches wait for the merge of the failures; the two do not need each other."""

    class Meeting(FunctionModel):
        async def complete(self, request: Request) -> Reply:
            if "final" not in request.place:
                here.add(request.place)
                if len(here) == 2:
                    both.set()
                await asyncio.wait_for(both.wait(), 5)
            return await super().complete(request)

    here: set[str] = set()
    both = asyncio.Event()
    asked = optimizer_of(Meeting(lambda request: '{"edits": [{"op": "append", "content": "- m"}]}'))
    patches = [(kind, [add(f"- {kind} {n}")]) for kind in ("failure", "success") for n in range(2)]
    await asked.aggregate(at("p"), reflected(*patches))
    assert here == {"p/merge/failure-0-0/a0", "p/merge/success-0-0/a0"}


# stage 4, select


async def test_the_memory_of_earlier_steps_is_told_to_all_who_choose_and_not_to_the_merge():
    """Publicly the ranking is not told of it; it is where a change that was just rejected is left out most
    cheaply.
    """
    told: dict[str, str] = {}

    def answer(request: Request) -> str:
        told[request.stage] = request.messages[1].content
        said = {
            "merge": '{"edits": [{"op": "append", "content": "- m"}]}',
            "ranking": '{"selected_indices": [0]}',
        }
        said |= {"lr_autonomous": '{"learning_rate": 1}', "rewrite": '{"new_skill": "# New"}'}
        return said.get(request.stage) or analysis(add("- a"))

    asked, _ = optimizer(answer, lr_control_mode="autonomous")
    await asked.reflect(at("p"), evaluation({0}, set(), 2))
    await asked.aggregate(at("p"), reflected(("failure", [add("- a")]), ("failure", [add("- b")])))
    await asked.select(at("p"), reflected(), merged_of(add("- a"), add("- b")))
    rewriter, _ = optimizer(answer, skill_update_mode="rewrite_from_suggestions")
    await chosen(rewriter, "rewrite_from_suggestions", suggestion())
    is_told = {stage: "not better than 0.5" in text and "- shout" in text for stage, text in told.items()}
    assert is_told == {
        "analyst_failure": True,
        "analyst_success": True,
        "merge": False,
        "lr_autonomous": True,
        "ranking": True,
        "rewrite": True,
    }


def test_the_limit_of_a_step_depends_on_its_number_alone():
    """Publicly a skipped step does not advance the schedule, but a resumed run counts it."""
    tasks = [Task(id=str(n), prompt=str(n)) for n in range(8)]
    plan = Plan(
        train=tasks, epochs=1, batch_size=1, seed=1, schedule=cosine, largest_limit=4, smallest_limit=2
    )
    whole = [
        batch.limit
        for batch in plan.batches_left(1, SimpleNamespace(step=0, epoch=0, takes={}, remaining=None))
    ]
    assert whole == [4, 4, 3, 3, 3, 2, 2, 2]
    assert [
        batch.limit
        for batch in plan.batches_left(1, SimpleNamespace(step=5, epoch=0, takes={6: 1}, remaining=None))
    ] == whole[5:]


# stages 5 and 6, update and gate


@pytest.mark.slow
async def test_a_candidate_is_named_by_the_text_that_the_target_gets(folder):
    """Publicly the hash is of the file with its markers, so that an empty region makes another
    skill of it.
    """
    told = await run(
        folder,
        {"slow_update": lambda call: '{"slow_update_content": "## Long run\\n\\n- Stay."}'},
        train__num_epochs=3,
    )
    updates = {str(event.place): told.skill(event.skill) for event in told.of(Updated)}
    for record in told.steps:
        candidate = updates[f"e{record['epoch']}/s{record['step']}"]
        assert record["candidate_hash"] == hashlib.sha256(candidate.rendered.encode()).hexdigest()[:16]
    empty = Document("# A\n<!-- SLOW_UPDATE_START -->\n<!-- SLOW_UPDATE_END -->\n")
    assert empty.digest == Document("# A\n").digest


async def test_the_same_candidate_again_is_decided_from_stored_rows_and_pays_nothing(folder):
    """Publicly two means are remembered by hash; ours are the rows, judged against today's incumbent."""
    harmful = {stage: lambda call: edits(rule(BAD[0])) for stage in ("analyst_failure", "analyst_success")}
    told = await run(folder, harmful)
    assert [record["action"] for record in told.steps] == ["reject"] * 4
    verdicts = told.of(Judged)
    assert len({(one.skill, one.bound, one.rows_used, one.why) for one in verdicts}) == 1
    paid = [call for call in told.asked("rollout") if BAD[0] in call.text and "W003" in call.text]
    assert len(paid) == len({call.place for call in paid}) <= 12


@pytest.mark.parametrize(
    ("score", "action", "best"),
    [(0.6, "accept", "best"), (0.8, "accept", "best"), (0.9, "accept_new_best", "candidate")],
)
def test_an_accept_is_a_new_best_only_when_it_is_strictly_better_than_the_best(score, action, best):
    state = State(
        seed="seed",
        skill="current",
        best="best",
        score=0.5,
        best_score=0.8,
        baseline_score=0.2,
        metric="hard",
    )
    measured = Measured(skill="candidate\n", values={("t", 0): Fraction(score)}, hard=score, soft=score)
    verdict = Verdict(
        action="accept",
        why="",
        incumbent=0.5,
        candidate=measured,
        bound=None,
        rows=(),
        rows_total=1,
        verified=True,
    )
    after, word = adopt(state, "candidate", verdict, step=3, origin="step_0003")
    assert (word, after.skill, after.best) == (action, "candidate", best)


async def test_with_the_gate_off_the_whole_candidate_is_taken_and_no_half_of_it_is_tried(folder):
    both = {
        stage: lambda call: edits(rule(GOOD[0]), rule(BAD[0]))
        for stage in ("analyst_failure", "analyst_success")
    }
    both["merge"] = lambda call: json.dumps({"edits": [rule(GOOD[0]), rule(BAD[0])]})
    told = await run(folder, both, evaluation__use_gate=False, train__num_epochs=1)
    assert told.steps[0]["action"] == "force_accept" and len(told.steps[0]["candidates"]) == 1
    taken = told.skill(told.states("step")[0].skill).text
    assert GOOD[0] in taken and BAD[0] in taken
    assert not [event for event in told.of(Judged) if event.place.candidate]


@pytest.mark.slow
async def test_patience_counts_steps_without_a_new_best_and_says_so(folder):
    """With the gate off every step is taken, and still brings nothing."""
    harmful = {
        stage: lambda call: edits(rule(BAD[int(root_of(call)[-1])]))
        for stage in ("analyst_failure", "analyst_success")
    }
    told = await run(
        folder, harmful, evaluation__use_gate=False, train__patience=2, optimizer__use_slow_update=False
    )
    assert [record["action"] for record in told.steps] == ["force_accept"] * 2
    assert (
        told.summary["stopped_because"]
        == "2 steps brought nothing better than the best skill (train.patience)"
    )


# what is remembered


async def test_a_rejected_edit_is_told_to_later_analysts_also_in_the_next_epoch(folder):
    """The public memory lives in RAM and is emptied every epoch; ours is part of the state and holds the last
    twelve steps.
    """

    def analyst(call):
        return edits(rule(BAD[0] if root_of(call) == "e1/s1" else GOOD[1]))

    told = await run(folder, {"analyst_failure": analyst, "analyst_success": lambda call: edits()})
    assert told.steps[0]["action"] == "reject"
    later = told.asked("analyst_failure", "e2/s3")
    assert later and all(
        f'"content": "- {BAD[0]}"' in call.text and "Step 1: rejected. " in call.text for call in later
    )
    assert not any("Step 1" in call.text for call in told.asked("analyst_failure", "e1/s1"))


async def test_a_candidate_that_could_not_be_judged_is_not_remembered_as_rejected(folder):
    """Two val rows of every candidate are cut at our cap: too many to accept, too few to reject."""
    world = world_answers(QUIET)

    def rollout(call):
        is_lost = any(case in call.text for case in ("W003003", "W003004")) and any(
            rule in call.text for rule in GOOD
        )
        return Answer(text="x" * 100_000) if is_lost else world(call)

    told = await run(folder, {"rollout": rollout}, train__num_epochs=1, model__target__max_tokens=16_384)
    actions = [record["action"] for record in told.steps]
    assert "inconclusive" in actions
    assert not any(entry.action == "rejected" for event in told.of(Checkpoint) for entry in event.remembered)
    assert len(told.states("step")[-1].memory) == sum(action.startswith("accept") for action in actions)
