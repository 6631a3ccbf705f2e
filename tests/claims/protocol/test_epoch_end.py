"""The end of an epoch as the protocol documents it (section 1.5): slow update and meta skill."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from claims._product import (
    Arrived,
    EpochEnded,
    Invalid,
    Judged,
    Score,
    Scored,
    StageClosed,
    StageOpened,
    Task,
    Trajectory,
    pairs_of,
)
from claims.promises._runs import quick_folder
from claims.protocol._told import BAD, GOOD, LEARNING, edits, root_of, run, stage_of

ADVICE = "Prefer one rule at a time, says the advice of epoch"


def guidance(text: str):
    return lambda call: json.dumps({"slow_update_content": text})


def advice(call) -> str:
    return json.dumps({"meta_skill_content": f"{ADVICE} {root_of(call)}."})


SCRIPT = {**LEARNING, "slow_update": guidance(f"## Long run\n\n- {GOOD[-1]}"), "meta_skill": advice}
LONG = {
    "train__num_epochs": 4,
    "train__batch_size": 16,
    "env__val_cases": 24,
    "optimizer__slow_update_samples": 6,
    "evaluation__eval_test": False,
}


@pytest.fixture(scope="module")
def told():
    """Four epochs of one step each; every step adds two good rules, the slow update a good one, the meta
    skill its name.
    """
    with quick_folder() as quick:
        yield asyncio.run(run(quick / "run", SCRIPT, **LONG))


def ended(told, epoch):
    return next(event for event in told.of(EpochEnded) if event.epoch == epoch)


@pytest.mark.slow
def test_every_epoch_of_this_run_changed_the_skill(told):
    assert [record["action"] for record in told.steps] == ["accept_new_best"] * 4


@pytest.mark.slow
def test_the_first_epoch_has_nothing_to_look_back_to_and_injects_nothing(told):
    """Publicly an empty block enters the current skill, which from then on differs from the best one by
    nothing but markers.
    """
    first = ended(told, 1)
    assert (first.slow_update.action, first.meta_skill.action, first.pairs) == (
        "skip_first_epoch",
        "skip_first_epoch",
        [],
    )
    assert "SLOW_UPDATE" not in told.skill(told.states("epoch")[0].skill).text
    assert not told.asked("slow_update", "e1/end") and not told.asked("meta_skill", "e1/end")


def test_the_older_skill_is_the_one_after_the_last_epochs_end_with_its_guidance(told):
    (call,) = told.asked("slow_update", "e3/end")
    older, newer = (part.partition("</skill>")[0] for part in call.text.split("<skill>\n")[1:])
    assert older.strip() == told.skill(told.states("epoch")[1].skill).rendered.strip()
    assert newer.strip() == told.skill(told.states("step")[2].skill).rendered.strip()
    assert GOOD[-1] in older


def test_both_arms_start_before_either_is_in(told):
    """Publicly one rollout after the other: the older skill, then the newer one."""
    began = next(
        at
        for at, event in enumerate(told.events)
        if isinstance(event, StageOpened) and str(event.place) == "e2/end/older"
    )
    seen = [
        event
        for event in told.events[began:]
        if isinstance(event, (StageOpened, Arrived)) and event.stage == "rollout"
    ]
    assert [str(event.place) for event in seen[:2]] == ["e2/end/older", "e2/end/newer"]
    assert all(isinstance(event, Arrived) for event in seen[2:14]), "rows of both arms come in only then"


def test_no_rollout_of_a_whole_run_is_asked_for_twice(told):
    """Publicly the arms, the gate, the last validation and the tests each pay again for what was measured
    before.
    """
    asked = Counter((call.text, call.draw) for call in told.asked("rollout"))
    assert set(asked.values()) == {1}
    assert sum(len(event.rows) for event in told.of(StageClosed)) > len(asked), (
        "some rows served more than one stage"
    )


def test_the_optimizer_is_told_how_many_tasks_there_were_and_sees_both_attempts_where_one_was_wrong(told):
    """The public prompt says 20 whatever the sample is."""
    event = ended(told, 2)
    (call,) = told.asked("slow_update", "e2/end")
    assert (
        f"{len(event.pairs)} training tasks are shown, each run with both skills" in call.text
        and len(event.pairs) == 6
    )
    kinds = Counter(pair.category for pair in event.pairs)
    assert kinds["stable_success"] and kinds["persistent_fail"] + kinds["improved"]
    for pair in event.pairs:
        times = 0 if pair.category == "stable_success" else 2
        assert call.text.count(f'<rollout task="{pair.id}"') == times and pair.id in call.text


def test_there_is_guidance_so_far_from_the_second_time_on(told):
    (first,), (second,) = told.asked("slow_update", "e2/end"), told.asked("slow_update", "e3/end")
    assert "# Guidance so far\n\n(none yet)" in first.text
    assert f"# Guidance so far\n\n## Long run\n\n- {GOOD[-1]}" in second.text


def test_guidance_passes_the_same_gate_and_replaces_what_stood_in_its_region(told):
    second, third = ended(told, 2).slow_update, ended(told, 3).slow_update
    assert second.action == "accept_new_best"
    assert third.action == "unchanged", "the same guidance again is no change"
    verdict = next(event for event in told.of(Judged) if str(event.place) == "e2/end")
    assert (verdict.action, verdict.candidate) == ("accept", told.states("epoch")[1].score)
    assert all(
        told.skill(state.skill).text.count("SLOW_UPDATE_START") == 1 for state in told.states("epoch")[1:]
    )


def test_the_skill_file_of_the_last_step_is_the_one_after_the_epochs_end(told):
    assert (told.folder / "skills/skill_v0002.md").read_text() == told.skill(
        told.states("epoch")[1].skill
    ).text
    assert (
        "SLOW_UPDATE_START" in told.skill(told.states("epoch")[1].skill).text
        and "SLOW_UPDATE" not in told.skill(told.states("step")[1].skill).text
    )


def test_advice_of_an_epoch_is_told_to_the_next_epochs_optimizer_and_never_to_the_target(told):
    heard = {
        (stage_of(call), root_of(call))
        for call in told.calls
        if stage_of(call) != "rollout" and f"{ADVICE} e2/end" in call.text
    }
    assert {("analyst_failure", "e3/s3"), ("analyst_success", "e3/s3"), ("meta_skill", "e3/end")} <= heard
    assert not any(root.startswith(("e1/", "e2/")) for _, root in heard)
    assert not any(ADVICE in call.text for call in told.asked("rollout"))
    assert f"{ADVICE} e3/end" in told.asked("analyst_failure", "e4/s4")[0].text


def test_advice_is_written_about_the_skill_before_this_epochs_guidance(told):
    (call,) = told.asked("meta_skill", "e2/end")
    assert GOOD[-1] not in call.text.rpartition("<skill>")[2].partition("</skill>")[0]


def test_the_last_epoch_makes_no_call_that_nobody_reads(told):
    """Publicly the last meta skill is paid and never used."""
    assert not told.asked("meta_skill", "e4/end") and told.asked("slow_update", "e4/end")
    assert ended(told, 4).meta_skill.action == "off"


@pytest.mark.parametrize(
    ("before", "after", "category"),
    [(0, 1, "improved"), (1, 0, "regressed"), (0, 0, "persistent_fail"), (0.5, 1, "stable_success")],
)
def test_a_pair_is_named_by_whether_it_passed_before_and_passes_now(before, after, category):
    def row(hard):
        told = Trajectory(messages=(), answer="", calls=1, usage=None)
        return Scored(
            task_id="t", draw=0, attempt=0, key="k", trajectory=told, score=Score(hard=hard, soft=hard)
        )

    task = Task(id="t", prompt="t")
    (pair,) = pairs_of([task], [row(before)], [row(after)])
    assert pair.category == category
    lost = Invalid(task_id="t", draw=0, attempt=0, kind="timeout", detail="")
    assert pairs_of([task], [row(1)], [lost]) == [], "a lost arm is no failure"


@pytest.mark.slow
@pytest.mark.parametrize("skips", [False, True])
async def test_an_epoch_that_accepted_nothing_has_its_slow_update_and_meta_skill_unless_it_skips_them(
    folder, skips
):
    """Publicly both are asked at every end from the second epoch on; persistent failures are what they see."""
    nothing = {name: lambda call: edits() for name in ("analyst_failure", "analyst_success")}
    told = await run(
        folder,
        {**SCRIPT, **nothing},
        **{**LONG, "train__num_epochs": 3},
        optimizer__skip_unchanged_epochs=skips,
    )
    second, third = ended(told, 2), ended(told, 3)
    assert {record["action"] for record in told.steps} == {"skip_no_patches"}
    assert bool(told.asked("slow_update", "e3/end")) == (not skips)
    if skips:
        assert (second.slow_update.action, second.meta_skill.action) == ("skip_unchanged",) * 2
        assert (second.pairs, third.slow_update.action) == ([], "skip_unchanged")
        return
    assert (second.slow_update.action, second.meta_skill.action) == ("accept_new_best", "write_meta_skill")
    assert GOOD[-1] in told.skill(told.states("epoch")[1].skill).region("slow_update")
    assert {pair.category for pair in second.pairs} <= {"persistent_fail", "stable_success"}
    asked = [(call.text, call.draw) for call in told.asked("rollout")]
    assert len(asked) == len(set(asked)), "equal skills are measured once"


async def test_empty_guidance_changes_nothing_and_costs_no_gate(folder):
    told = await run(folder, {**SCRIPT, "slow_update": guidance("  ")}, **{**LONG, "train__num_epochs": 2})
    assert ended(told, 2).slow_update.action == "no_content"
    assert not [event for event in told.of(Judged) if str(event.place) == "e2/end"]
    assert told.states("epoch")[1].skill == told.states("step")[1].skill


@pytest.mark.slow
async def test_guidance_that_makes_it_worse_is_rejected_with_its_reason(folder):
    told = await run(
        folder,
        {**SCRIPT, "slow_update": guidance("\n".join(f"- {text}" for text in BAD))},
        **{**LONG, "train__num_epochs": 2},
    )
    said = ended(told, 2).slow_update
    assert said.action == "reject" and said.why and said.selection_hard is None
    assert told.states("epoch")[1].skill == told.states("step")[1].skill


@pytest.mark.slow
@pytest.mark.parametrize(("slow", "meta"), [(True, False), (False, True)])
async def test_slow_update_and_meta_skill_are_switched_apart(folder, slow, meta):
    told = await run(
        folder,
        SCRIPT,
        **{**LONG, "train__num_epochs": 3},
        optimizer__use_slow_update=slow,
        optimizer__use_meta_skill=meta,
    )
    assert bool(told.asked("slow_update")) == slow and bool(told.asked("meta_skill")) == meta
    assert bool(ended(told, 2).pairs) == (slow or meta)
    off = {
        "slow_update": ended(told, 2).slow_update.action,
        "meta_skill": ended(told, 2).meta_skill.action,
    }
    assert [name for name, action in off.items() if action == "off"] == [
        name for name, on in (("slow_update", slow), ("meta_skill", meta)) if not on
    ]


@pytest.mark.slow
async def test_advice_that_cannot_be_read_leaves_the_earlier_one(folder):
    script = {**SCRIPT, "meta_skill": lambda call: advice(call) if root_of(call) == "e2/end" else "no JSON"}
    told = await run(folder, script, **LONG)
    assert (
        ended(told, 3).meta_skill.action == "no_content" and "cannot be used" in ended(told, 3).meta_skill.why
    )
    assert f"{ADVICE} e2/end" in told.asked("analyst_failure", "e4/s4")[0].text
