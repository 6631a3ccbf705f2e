"""Skill-aware reflection as the protocol documents it (section 1.4): defects change the body, lapses become
notes.
"""

from __future__ import annotations

import json

import pytest

from claims._product import Judged, Minibatch, Reflection, SkillAware, StageClosed, Updated
from claims.protocol._told import BAD, GOOD, edits, root_of, rule, run
from optimizer.test_modes import chosen, noting, suggestion
from optimizer.test_stages import at, evaluation, optimizer, reflected

AWARE = {
    "optimizer__use_skill_aware_reflection": True,
    "train__num_epochs": 1,
    "evaluation__eval_test": False,
}


async def test_the_failure_analyst_tells_defects_from_lapses_and_only_where_it_is_asked_to():
    asked, model = optimizer(lambda request: noting(), skill_aware=SkillAware(), failure_only=True)
    await asked.reflect(at("p"), evaluation({0}, set(), 1))
    system = model.requests[0].messages[0].content
    assert "SKILL_DEFECT" in system and "EXECUTION_LAPSE" in system
    plain, other = optimizer(lambda request: noting(), failure_only=True)
    await plain.reflect(at("p"), evaluation({0}, set(), 1))
    assert "EXECUTION_LAPSE" not in other.requests[0].messages[0].content


@pytest.mark.parametrize(
    "said",
    [
        "Check it.",
        ["Check it."],
        {"note": "Check it."},
        [{"content": "Check it."}],
        [" ", {"note": "Check it."}, {"other": 1}],
    ],
)
async def test_notes_are_read_as_a_text_a_list_or_objects(said):
    reply = json.loads(noting()) | {"appendix_notes": said}
    asked, _ = optimizer(lambda request: json.dumps(reply), skill_aware=SkillAware(), failure_only=True)
    reflection = await asked.reflect(at("p"), evaluation({0}, set(), 1))
    assert reflection.notes() == ["Check it."]


async def test_the_label_of_an_edit_is_kept_as_evidence():
    labelled = {"op": "append", "content": "- a", "label": "DISCOVERY"}
    asked, _ = optimizer(lambda request: noting(edits=[labelled]), skill_aware=SkillAware())
    reflection = await asked.reflect(at("p"), evaluation(set(), set(), 1))
    assert [edit.evidence["label"] for edit in reflection.minibatches[0].edits] == ["DISCOVERY"]


async def test_no_empty_appendix_is_put_into_a_skill(folder):
    """Publicly an empty block is put into the current skill at the start, which makes it another skill than
    the best one.
    """
    told = await run(
        folder,
        {stage: lambda call: edits(notes=[]) for stage in ("analyst_failure", "analyst_success")},
        **AWARE,
    )
    assert not any(
        "APPENDIX" in told.skill(state.skill).text
        for kind in ("baseline", "step", "finish")
        for state in told.states(kind)
    )
    assert {record["action"] for record in told.steps} == {"skip_no_patches"}


async def test_a_step_of_lapses_alone_is_measured_like_any_other(folder):
    """Publicly notes enter the current skill behind the gate's back, also from a step without edits; here
    they are its candidate.
    """
    script = {
        "analyst_failure": lambda call: edits(notes=GOOD),
        "analyst_success": lambda call: edits(notes=[]),
    }
    told = await run(folder, script, **AWARE)
    first = told.steps[0]
    assert first["action"] == "accept_new_best" and first["edit_apply_summary"]["total"] == 0
    assert first["n_execution_lapse_notes"] > first["n_appendix_notes_added"] == len(GOOD)
    assert first["current_score"] == first["candidate_gate_score"] > told.summary["baseline_gate_score"]
    (rows,) = [
        event.rows
        for event in told.of(StageClosed)
        if str(event.place) == "e1/s1" and event.stage == "selection"
    ]
    assert len(rows) == 12


async def test_notes_that_make_it_worse_do_not_stay(folder):
    script = {
        "analyst_failure": lambda call: edits(notes=BAD),
        "analyst_success": lambda call: edits(notes=[]),
    }
    told = await run(folder, script, **AWARE)
    assert [record["action"] for record in told.steps] == ["reject", "reject"]
    assert told.states("finish")[0].skill == told.states("baseline")[0].skill


async def test_a_harmful_note_does_not_take_a_good_edit_down_with_it(folder):
    """The bundle is rejected; of its halves the first, without the note, is good."""
    good = [rule(text) for text in GOOD[:4]]
    script = {
        "analyst_failure": lambda call: edits(*good, notes=BAD),
        "analyst_success": lambda call: edits(notes=[]),
    }
    script |= {
        "merge": lambda call: json.dumps({"edits": good}),
        "ranking": lambda call: '{"selected_indices": [0, 1, 2]}',
    }
    told = await run(folder, script, **AWARE)
    first = told.steps[0]
    assert [one["action"] for one in first["candidates"]] == ["reject", "accept"]
    assert (
        first["n_execution_lapse_notes"]
        > 0
        == first["n_appendix_notes_added"]
        == first["n_appendix_notes_total"]
    )
    skill = told.skill(told.states("step")[0].skill)
    assert GOOD[0] in skill.rendered and skill.region("appendix") is None


async def test_notes_the_skill_already_has_are_no_change(folder):
    some = GOOD[:8]

    def analyst(call):
        return edits(notes=some if root_of(call) == "e1/s1" else [f"  {note.upper()} ;" for note in some])

    told = await run(folder, {"analyst_failure": analyst, "analyst_success": analyst}, **AWARE)
    assert told.steps[0]["action"] == "accept_new_best"
    (later,) = told.of(Judged)[1:]
    assert (later.action, later.rows_used) == ("unchanged", 0)


async def test_notes_go_along_with_a_rewrite():
    asked, _ = optimizer(
        lambda request: json.dumps({"new_skill": "# New\n"}),
        skill_update_mode="rewrite_from_suggestions",
        skill_aware=SkillAware(),
    )
    selection, _ = await chosen(asked, "rewrite_from_suggestions", suggestion())
    noted = Reflection(
        rollouts=(), minibatches=(Minibatch(kind="failure", index=0, tasks=(), notes=("Check.",)),)
    )
    update = await asked.update(at("p"), noted, selection)
    assert update.document.rendered.startswith("# New\n") and update.document.region("appendix").endswith(
        "- Check."
    )
    assert (await asked.update(at("p"), reflected(), selection)).document.region("appendix") is None


async def test_the_target_reads_the_notes_and_not_their_markers(folder):
    script = {
        "analyst_failure": lambda call: edits(notes=GOOD),
        "analyst_success": lambda call: edits(notes=[]),
    }
    told = await run(folder, script, **AWARE)
    assert "APPENDIX_START" in told.skill(told.of(Updated)[0].skill).text
    shown = [call.text for call in told.asked("rollout") if GOOD[0] in call.text]
    assert shown and all(
        "## Execution Notes Appendix" in text and "APPENDIX_START" not in text for text in shown
    )
    assert (folder / "best_skill.md").read_text() == told.skill(told.states("finish")[0].best).rendered
