"""Update modes, learning-rate control and skill-aware reflection: what is asked, and what becomes of the
answer.
"""

from __future__ import annotations

import json

import pytest

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
from skillopt.events import Minibatch
from skillopt.messages import Request
from skillopt.optimizer.reflect import Reflection
from skillopt.optimizer.replies import PAYLOADS, Candidates, Suggestions
from skillopt.optimizer.select import MergedEdits
from skillopt.optimizer.update import halves, notes_of, with_notes
from skillopt.skill.document import Document
from skillopt.testing import FunctionModel

PROTECTED = Document("---\nname: x\n---\n" + SKILL.text).with_region("slow_update", "guidance")


class Guarded(Lesson):
    skill = PROTECTED


def suggestion(text="Add a rule on dates.", kind="add_rule"):
    return {
        "type": kind,
        "title": "dates",
        "motivation": "two failures",
        "instruction": text,
        "priority_hint": "high",
    }


def suggestions(*items) -> str:
    return json.dumps(
        {
            "batch_size": 1,
            "failure_summary": [],
            "success_patterns": [],
            "patch": {"revise_suggestions": list(items)},
        }
    )


def candidates(*texts) -> str:
    items = [{"title": "t", "change_summary": ["c"], "new_skill": text} for text in texts]
    return json.dumps(
        {"batch_size": 1, "failure_summary": [], "success_patterns": [], "patch": {"skill_candidates": items}}
    )


def proposals(mode, *items) -> MergedEdits:
    return MergedEdits(
        edits=tuple(PAYLOADS[mode].edit_of(item, f"e#{n}") for n, item in enumerate(items)), ended=(), calls=0
    )


async def chosen(asked, mode, *items, lesson=Lesson, limit=2):
    selection = await asked.select(at("p", limit=limit, lesson=lesson), reflected(), proposals(mode, *items))
    return selection, await asked.update(at("p", lesson=lesson), reflected(), selection)


# rewrite_from_suggestions


async def test_analysts_are_asked_for_suggestions_and_their_key_is_read():
    mode = "rewrite_from_suggestions"
    asked, model = optimizer(
        lambda request: suggestions(suggestion(), suggestion("b"), suggestion("c")), skill_update_mode=mode
    )
    reflection = await asked.reflect(at("e1/s1", 1), evaluation({0}, set(), 1))
    system, user = (message.content for message in model.requests[0].messages)
    assert '"revise_suggestions"' in system and '"op"' not in system and "at most 2 suggestions" in user
    assert "revise_suggestions" in json.dumps(model.requests[0].schema)
    assert [one.content for one in reflection.minibatches[0].edits] == ["Add a rule on dates.", "b"]


async def test_one_call_rewrites_the_skill_and_protected_parts_are_put_back():
    def answer(request: Request) -> str:
        assert request.stage == "rewrite" and request.max_tokens == 777
        assert "Add a rule on dates." in request.messages[1].content
        return json.dumps(
            {"reasoning": "r", "change_summary": ["dates"], "new_skill": "---\nname: forged\n---\n# New\n"}
        )

    asked, _ = optimizer(answer, skill_update_mode="rewrite_from_suggestions", rewrite_tokens=777)
    _, update = await chosen(asked, "rewrite_from_suggestions", suggestion(), lesson=Guarded)
    assert (
        update.document.text
        == "---\nname: x\n---\n# New\n" + PROTECTED.text[PROTECTED.layout.regions[0].start :]
    )
    assert [outcome.state for outcome in update.outcomes] == ["applied"]
    assert update.rewrite.evidence["change_summary"] == ["dates"] and not update.failed


@pytest.mark.parametrize(
    "reply", ["no json", json.dumps({"new_skill": ""}), json.dumps({"new_skill": "```\nopen"})]
)
async def test_no_usable_rewrite_leaves_the_skill_as_it_is_and_says_so(reply):
    asked, _ = optimizer(lambda request: reply, skill_update_mode="rewrite_from_suggestions")
    _, update = await chosen(asked, "rewrite_from_suggestions", suggestion())
    assert update.document is SKILL and update.failed
    assert [outcome.state for outcome in update.outcomes] == ["invalid"] and "rewrite" in update.outcomes[
        0
    ].reason


async def test_without_suggestions_there_is_nothing_to_rewrite_and_no_call():
    asked, model = optimizer(
        lambda request: pytest.fail("no call is needed"), skill_update_mode="rewrite_from_suggestions"
    )
    _, update = await chosen(asked, "rewrite_from_suggestions")
    assert update.document is SKILL and not update.failed and model.requests == []


async def test_suggestions_are_ranked_above_the_limit():
    asked, model = optimizer(
        lambda request: '{"selected_indices": [1]}', skill_update_mode="rewrite_from_suggestions"
    )
    selection = await asked.select(
        at("p", limit=1),
        reflected(),
        proposals("rewrite_from_suggestions", suggestion("a"), suggestion("b")),
    )
    assert [one.content for one in selection.patch] == ["b"] and model.requests[0].stage == "ranking"
    assert "2 suggestions, numbered from 0" in model.requests[0].messages[1].content


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ("text", "JSON object"),
        ({"type": "shout", "instruction": "x"}, "shout"),
        ({"type": "clarify", "instruction": " "}, "no instruction"),
    ],
)
def test_a_suggestion_that_cannot_be_read_keeps_the_reason(item, problem):
    assert problem in Suggestions.edit_of(item, "i").problem


async def test_a_rewrite_may_be_written_with_another_effort():
    rewriter = FunctionModel(lambda request: json.dumps({"new_skill": "# Better\n"}))
    asked, model = optimizer(
        lambda request: pytest.fail("the rewriter writes"),
        skill_update_mode="rewrite_from_suggestions",
        rewriter=rewriter,
    )
    _, update = await chosen(asked, "rewrite_from_suggestions", suggestion())
    assert update.document.text == "# Better\n" and model.requests == [] and len(rewriter.requests) == 1


# full_rewrite_minibatch


async def test_analysts_write_whole_skills_one_each_under_the_larger_cap():
    asked, model = optimizer(
        lambda request: candidates("# A\n", "# B\n"),
        skill_update_mode="full_rewrite_minibatch",
        rewrite_tokens=5_000,
    )
    reflection = await asked.reflect(at("e1/s1", 1), evaluation({0}, set(), 1))
    assert [one.content for one in reflection.minibatches[0].edits] == ["# A\n"]
    assert (
        "exactly one skill" in model.requests[0].messages[1].content and model.requests[0].max_tokens == 5_000
    )


async def test_whole_skills_are_neither_limited_nor_ranked_and_the_first_one_is_used():
    asked, model = optimizer(
        lambda request: pytest.fail("no call is needed"), skill_update_mode="full_rewrite_minibatch"
    )
    selection, update = await chosen(
        asked, "full_rewrite_minibatch", {"new_skill": "# A\n"}, {"new_skill": "# B\n"}, limit=0
    )
    assert update.document.text == "# A\n"
    assert [outcome.state for outcome in selection.ended] == ["over_limit"] and model.requests == []


async def test_merging_whole_skills_gives_one_skill():
    mode = "full_rewrite_minibatch"
    asked, model = optimizer(
        lambda request: json.dumps({"skill_candidates": [{"title": "both", "new_skill": "# AB\n"}]}),
        skill_update_mode=mode,
    )
    made = tuple(
        Minibatch(
            kind="failure", index=n, tasks=(), edits=(Candidates.edit_of({"new_skill": text}, f"m{n}"),)
        )
        for n, text in enumerate(("# A\n", "# B\n"))
    )
    merged = await asked.aggregate(at("p"), Reflection(rollouts=(), minibatches=made))
    assert [one.content for one in merged.edits] == ["# AB\n"] and '"skill_candidates"' in model.requests[
        0
    ].messages[0].content


@pytest.mark.parametrize(("length", "calls"), [(10, 1), (20_000, 5), (60_000, 0)])
async def test_no_more_whole_skills_are_merged_in_one_call_than_the_window_holds(length, calls):
    """Six skills of that length and a window of 32,000 tokens: all at once, two at a time, or none, and then
    the first one is used.
    """
    mode, texts = "full_rewrite_minibatch", [f"# {n}\n" + "x" * length for n in range(6)]
    asked, model = optimizer(
        lambda request: json.dumps({"skill_candidates": [{"new_skill": texts[0]}]}),
        skill_update_mode=mode,
        merge_batch_size=8,
    )
    made = tuple(
        Minibatch(
            kind="failure", index=n, tasks=(), edits=(Candidates.edit_of({"new_skill": text}, f"m{n}"),)
        )
        for n, text in enumerate(texts)
    )
    merged = await asked.aggregate(at("p"), Reflection(rollouts=(), minibatches=made))
    assert merged.calls == len(model.requests) <= calls and merged.edits[0].content == texts[0]
    assert bool(model.requests) == bool(calls)
    for request in model.requests:
        assert sum(len(message.content) for message in request.messages) <= (32_000 - request.max_tokens) * 3


async def test_a_benchmarks_prompt_speaks_of_edits_so_other_modes_use_the_generic_one():
    own = {"analyst_failure": "Benchmark words about edits."}
    for mode, is_own in (
        ("patch", True),
        ("rewrite_from_suggestions", False),
        ("full_rewrite_minibatch", False),
    ):
        asked, model = optimizer(lambda request: analysis(), skill_update_mode=mode, prompts=own)
        await asked.reflect(at("e1/s1", 1), evaluation({0}, set(), 1))
        assert (model.requests[0].messages[0].content == own["analyst_failure"]) is is_own


# learning-rate control


async def decided(reply, *edits, memory=()):
    asked, model = optimizer(
        lambda request: reply if request.stage == "lr_autonomous" else '{"selected_indices": [0]}',
        lr_control_mode="autonomous",
    )
    return await asked.select(at("p", limit=2), reflected(), merged_of(*edits)), model


async def test_the_optimizer_chooses_how_many_edits_a_step_takes():
    selection, model = await decided(
        '{"learning_rate": 1, "reasoning": "careful", "confidence": "low"}', add("- a"), add("- b")
    )
    assert [request.stage for request in model.requests] == ["lr_autonomous", "ranking"]
    assert len(selection.patch) == 1 and selection.limit == 1
    assert selection.decision.reasoning == "careful" and not selection.decision.clamped


async def test_zero_means_no_edit_and_no_ranking_call():
    selection, model = await decided('{"learning_rate": 0}', add("- a"), add("- b"))
    assert selection.patch == () and [request.stage for request in model.requests] == ["lr_autonomous"]
    assert [outcome.state for outcome in selection.ended] == ["over_limit", "over_limit"]


async def test_more_than_there_is_is_clamped():
    selection, _ = await decided('{"learning_rate": 9}', add("- a"), add("- b"))
    assert (
        len(selection.patch) == 2 and selection.decision.clamped and selection.decision.raw_learning_rate == 9
    )


@pytest.mark.parametrize("reply", ["?", '{"learning_rate": -1}', '{"learning_rate": "many"}'])
async def test_an_unreadable_choice_takes_nothing_and_says_fallback(reply):
    selection, model = await decided(reply, add("- a"))
    assert selection.patch == () and selection.decision.fallback and selection.decision.error
    assert len(model.requests) == 2


async def test_with_nothing_at_hand_nobody_is_asked():
    selection, model = await decided("?")
    assert selection.limit == 0 and model.requests == []


async def test_without_control_nothing_is_clipped_at_all():
    edits = [add(f"- rule {number}") for number in range(6)]
    asked, model = optimizer(lambda request: analysis(*edits), lr_control_mode="none", failure_only=True)
    reflection = await asked.reflect(at("e1/s1", 1), evaluation({0}, set(), 1))
    assert (
        len(reflection.minibatches[0].edits) == 6
        and "as many edits as are needed" in model.requests[0].messages[1].content
    )
    selection = await asked.select(at("p", limit=2), reflected(), merged_of(*edits))
    assert len(selection.patch) == 6 and selection.limit is None and len(model.requests) == 1


# skill-aware reflection


def noting(*notes, edits=()):
    return json.dumps(
        {
            "batch_size": 1,
            "failure_summary": [],
            "success_patterns": [],
            "patch": {"edits": list(edits)},
            "appendix_notes": list(notes),
        }
    )


@pytest.mark.parametrize(
    ("source", "kinds"), [("both", {"failure", "success"}), ("failure_only", {"failure"})]
)
async def test_the_source_of_notes_is_asked_and_nobody_else(source, kinds):
    asked, model = optimizer(lambda request: noting("Check the unit."), skill_aware=aware(source=source))
    reflection = await asked.reflect(at("e1/s1", 1), evaluation({0}, set(), 2))
    assert {one.kind for one in reflection.minibatches if one.notes} == kinds
    for request in model.requests:
        side = request.stage.removeprefix("analyst_")
        assert (
            ("appendix_notes" in request.messages[0].content)
            == (side in kinds)
            == ("appendix_notes" in json.dumps(request.schema))
        )


async def test_a_lapse_becomes_a_note_in_the_protected_appendix():
    asked, _ = optimizer(
        lambda request: noting("Check the unit.", {"note": "Count again"}), skill_aware=aware()
    )
    reflection = await asked.reflect(at("e1/s1", 1, lesson=Guarded), evaluation({0}, set(), 1))
    selection = await asked.select(at("p", lesson=Guarded), reflection, merged_of())
    update = await asked.update(at("p", lesson=Guarded), reflection, selection)
    assert (
        update.document.region("appendix")
        == "## Execution Notes Appendix\n\n- Check the unit.\n- Count again"
    )
    assert update.document.region("slow_update") == "guidance" and update.appendix.added == 2


def test_notes_are_kept_in_order_and_the_same_note_is_not_kept_twice():
    found = with_notes(
        ["Check the unit."],
        ["check  the UNIT", "long " * 200, "Count again;", "Count again", "", "holds <!-- APPENDIX_END -->"],
    )
    assert found.notes == ("Check the unit.", "Count again;") and found.added == 1


@pytest.mark.parametrize(
    ("answer", "kept"),
    [(["Both."], ["Both."]), (["a", "b", "c"], ["one", "two", "three"]), ([], ["one", "two", "three"])],
)
async def test_a_long_appendix_is_condensed_only_by_a_strictly_shorter_list(answer, kept):
    def reply(request: Request) -> str:
        return (
            json.dumps({"appendix_notes": answer})
            if request.stage == "appendix_consolidate"
            else noting("one", "two", "three")
        )

    asked, model = optimizer(reply, skill_aware=aware(consolidate_above=2))
    reflection = await asked.reflect(at("e1/s1", 1), evaluation({0}, set(), 1))
    update = await asked.update(at("p"), reflection, await asked.select(at("p"), reflection, merged_of()))
    assert list(notes_of(update.document)) == kept
    assert [request.stage for request in model.requests].count("appendix_consolidate") == 1
    assert update.appendix.consolidated == (kept == ["Both."])


OWN = "## Ours\n\nProse that the user wrote.\n\n1. numbered\n* starred\n- Check the unit\n  before you add."


class Annotated(Lesson):
    skill = Document(SKILL.text).with_region("appendix", OWN)


@pytest.mark.parametrize(
    ("answer", "appendix"),
    [
        (["a", "b", "c"], f"{OWN}\n\n- one\n- two"),
        (["All."], "## Ours\n\nProse that the user wrote.\n\n1. numbered\n* starred\n\n- All."),
    ],
)
async def test_text_of_the_users_own_in_the_appendix_outlives_new_and_condensed_notes(answer, appendix):
    def reply(request: Request) -> str:
        return (
            json.dumps({"appendix_notes": answer})
            if request.stage == "appendix_consolidate"
            else noting("one", "- two", "check the unit before you add")
        )

    asked, _ = optimizer(reply, skill_aware=aware(consolidate_above=2))
    reflection = await asked.reflect(at("e1/s1", 1, lesson=Annotated), evaluation({0}, set(), 1))
    update = await asked.update(
        at("p", lesson=Annotated),
        reflection,
        await asked.select(at("p", lesson=Annotated), reflection, merged_of()),
    )
    assert update.document.region("appendix") == appendix and update.appendix.added == 2


def test_notes_go_nowhere_where_the_appendix_leaves_a_code_block_open():
    found = with_notes(["a"], ["b"], "- a\n```\nopen")
    assert found.added == 0 and found.notes == ("a",)


async def test_whole_rewrites_leave_skill_awareness_aside():
    asked, model = optimizer(
        lambda request: candidates("# A\n"),
        skill_update_mode="full_rewrite_minibatch",
        skill_aware=aware(),
    )
    reflection = await asked.reflect(at("e1/s1", 1), evaluation({0}, set(), 1))
    assert "appendix_notes" not in model.requests[0].messages[0].content and reflection.notes() == []


# halves


async def test_a_bundle_is_halved_in_order_with_the_notes_last():
    asked, _ = optimizer(
        lambda request: noting("Check.", edits=[add("- a"), add("- b")]),
        skill_aware=aware(),
        failure_only=True,
    )
    reflection = await asked.reflect(at("e1/s1", 1), evaluation({0}, set(), 1))
    update = await asked.update(
        at("p"),
        reflection,
        await asked.select(at("p"), reflection, merged_of(add("- a"), add("- b"))),
    )
    first, second = halves(update, SKILL)
    assert "- a\n- b\n" in first.document.text and first.document.region("appendix") is None
    assert "- a" not in second.document.text and second.document.region("appendix")


async def test_one_edit_alone_and_a_rewrite_cannot_be_halved():
    asked, _ = optimizer(
        lambda request: json.dumps({"new_skill": "# New\n"}), skill_update_mode="rewrite_from_suggestions"
    )
    _, update = await chosen(asked, "rewrite_from_suggestions", suggestion("a"), suggestion("b"))
    assert halves(update, SKILL) == []
    plain, _ = optimizer(lambda request: "")
    _, single = await chosen(plain, "patch", add("- a"))
    assert halves(single, SKILL) == []


# what only explains


@pytest.mark.parametrize("summary", ["one text", None, ["a", None]])
async def test_a_rewrite_is_not_lost_over_how_it_explains_itself(summary):
    reply = json.dumps({"reasoning": None, "change_summary": summary, "new_skill": "# New\n"})
    asked, model = optimizer(lambda request: reply, skill_update_mode="rewrite_from_suggestions")
    _, update = await chosen(asked, "rewrite_from_suggestions", suggestion("a"))
    assert not update.failed and update.document.text == "# New\n" and len(model.requests) == 1


async def test_a_learning_rate_is_not_lost_over_how_it_explains_itself():
    reply = json.dumps(
        {"learning_rate": 1, "confidence": 0.8, "risk_notes": "may overlap", "reasoning": None}
    )
    asked, model = optimizer(lambda request: reply, lr_control_mode="autonomous")
    selection, _ = await chosen(asked, "patch", add("- a"), add("- b"))
    assert (
        selection.limit == 1
        and selection.decision.confidence == "0.8"
        and selection.decision.risk_notes == ["may overlap"]
    )
    assert [request.stage for request in model.requests].count("lr_autonomous") == 1
