"""What a view of a run shows is what its log says: nothing is lost, nothing invented, unknown stays unknown."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from runs._big import big_run, first_state
from runs._log import SEED, baseline, closed, fold, kept, look, row, six, started, state, step
from skillopt.errors import UsageError
from skillopt.events import Checkpoint, Event, Judged, Minibatch, StageClosed, TestMeasured, Updated
from skillopt.events.records import CandidateRecord, ReopenedRecord
from skillopt.messages import Usage
from skillopt.money import Amount, Entry, Settlement, account_of
from skillopt.redact import Scrubber
from skillopt.runs.answers import RunAnswers, read_answers, write_tasks
from skillopt.runs.database import Database
from skillopt.runs.log import read_events
from skillopt.runs.notes import EvalRecord, MeasuredSkill, note_eval
from skillopt.runs.reader import RunList, RunReader, read_run
from skillopt.runs.tail import StoredTexts
from skillopt.runs.tasks import compare_task, growth
from skillopt.runs.versions import moved, note_of, patterns_of, studies_behind
from skillopt.runs.view import RunView
from skillopt.runs.words import line_of, outcomes
from skillopt.skill.document import Document
from skillopt.skill.edits import REWRITE, Edit
from skillopt.skill.store import Skills
from skillopt.tasks.splits import Splits
from skillopt.tasks.task import Task
from skillopt_webui.render.steps import edit_parts
from skillopt_webui.render.steps import step as drawn
from train._world import Trained

# --- facts


def folded(trained: Trained, *, upto: int | None = None, **changes: Any) -> RunView:
    events = list(read_events(trained.folder / "events.jsonl"))[:upto]
    database = Database.reading(trained.folder / "run.db")
    account = account_of(database.entries())
    database.shut()
    given = {
        "config": trained.json("settings.json"),
        "summary": trained.json("summary.json"),
        "account": account,
        "status": "finished",
    }
    skills = Skills(StoredTexts(trained.folder / "run.db"))
    return fold(events, skills, **{**given, **changes})


def said(facts: RunView) -> str:
    return "\n".join(facts.remarks)


def test_a_real_run_is_told_as_its_own_files_tell_it(trained: Trained) -> None:
    facts, summary, history = folded(trained), trained.json("summary.json"), trained.json("history.json")
    assert [(one.at, one.action, one.why, one.train) for one in facts.steps] == [
        (record["step"], record["action"], record["why"], pytest.approx(record["rollout_hard"]))
        for record in history
    ]
    assert [len(one.outcomes) for one in facts.steps] == [
        record["edit_apply_summary"]["total"] for record in history
    ]
    assert (facts.baseline, facts.best) == (summary["baseline_gate_score"], summary["best_gate_score"])
    assert facts.best_skill == (trained.folder / "best_skill.md").read_text()
    assert (facts.claim, facts.started.simulated, facts.remarks) == (summary["claim"], True, [])


def test_the_test_is_compared_as_the_run_compared_it(trained: Trained) -> None:
    compared, recorded = folded(trained).test.comparison, trained.json("summary.json")["test"]["comparison"]
    assert compared is not None
    assert (compared.n, compared.delta, list(compared.interval)) == (
        recorded["n"],
        recorded["delta"],
        recorded["interval"],
    )
    assert (compared.p, list(compared.fixed)) == (recorded["p"], recorded["fixed"])


@pytest.mark.parametrize("claimed", ["Certified: 0.000 to 1.000 (p = 1e-99).", "", "real"])
def test_a_claim_that_does_not_follow_from_the_log_is_not_believed(trained: Trained, claimed: str) -> None:
    honest = trained.json("summary.json")
    forged = folded(trained, summary=honest | {"claim": claimed})
    assert honest["claim"].startswith(forged.claim)
    assert forged.claim and "is not believed" in said(forged)


def test_every_measured_version_is_a_column_with_the_rows_its_verdict_read(trained: Trained) -> None:
    facts = folded(trained)
    saved = {one.place for one in trained.of(Judged) if one.place.candidate and one.action == "accept"}
    counts = {one.place for one in trained.of(StageClosed) if not one.place.candidate} - {
        place.root for place in saved
    }
    closed = [
        one for one in trained.of(StageClosed) if one.stage == "selection" and one.place in counts | saved
    ]
    assert [sorted(version.rows) for version in facts.measured] == [
        sorted(row.task for row in one.rows) for one in closed
    ]
    assert len(facts.tasks) == 30
    assert any(len(version.rows) < 30 for version in facts.measured)
    assert {mark for version in facts.measured for mark in version.marks.values()} == {"pass", "fail"}


def test_only_what_was_taken_has_a_diff_and_they_lead_from_the_seed_to_the_last_skill(
    trained: Trained,
) -> None:
    facts = folded(trained)
    assert [bool(one.diff) for one in facts.changes] == [
        one.action.startswith("accept") for one in facts.changes
    ]
    taken = [one.diff for one in facts.changes if one.diff]
    assert len({*taken}) == len(taken) >= 2


def test_spending_adds_up_to_the_summary_and_the_simulated_world_costs_nothing(trained: Trained) -> None:
    facts, paid = folded(trained), trained.json("summary.json")["spending"]
    whole = facts.spent
    assert (whole.calls, whole.tokens, whole.usd) == (paid["calls"], paid["tokens"], 0)
    assert whole.input_tokens == paid["stages"]["_total"]["prompt_tokens"]
    assert set(facts.spending) >= {
        ("target", "rollout"),
        ("target", "test"),
        ("optimizer", "merge"),
    }


def entry(
    number: int,
    tokens: int,
    usd: Fraction | None,
    usage: Usage | None,
    state: Settlement = "settled",
    stage: str = "rollout",
) -> Entry:
    charged = Amount(calls=1, tokens=tokens, usd=usd)
    return Entry(
        id=number,
        role="target",
        stage=stage,
        place="p",
        state=state,
        charged=charged,
        reserved=100,
        usage=usage,
    )


def test_one_unknown_price_or_usage_makes_its_sum_unknown_and_a_refused_call_does_not() -> None:
    used = Usage(input_tokens=7, output_tokens=3)
    entries = [
        entry(1, 10, Fraction(1, 4), used),
        entry(2, 0, Fraction(0), None, "refused"),
        entry(3, 10, None, used, stage="test"),
        entry(4, 100, Fraction(1), None, "unreported", "merge"),
    ]
    facts = fold([started()], account=account_of(entries))
    found = {
        stage: (one.calls, one.tokens, one.input_tokens, one.usd, one.unsettled)
        for (_, stage), one in facts.spending.items()
    }
    assert found == {
        "rollout": (2, 10, 7, 0.25, 0),
        "test": (1, 10, 7, None, 0),
        "merge": (1, 100, None, 1.0, 1),
    }
    assert (facts.spent.usd, facts.spent.input_tokens) == (None, None)
    assert "Calls without a usage report, charged at their most: 1 (100 tokens)." in facts.remarks


def test_a_run_that_only_began_has_nothing_measured() -> None:
    facts = fold([started()])
    assert (facts.baseline, facts.best, facts.changes, facts.versions, facts.test.comparison) == (
        None,
        None,
        [],
        [],
        None,
    )
    assert "Test was not measured: it is opened at the end of the run." in said(facts)
    assert "not finished: 0 of 2 steps" in said(facts)
    assert outcomes(one.action for one in facts.steps) == "none"


def test_a_log_without_a_beginning_is_refused() -> None:
    with pytest.raises(UsageError, match="does not begin a training run"):
        fold([])


def test_a_stopped_run_shows_its_closed_steps_and_names_what_was_under_way(trained: Trained) -> None:
    events = read_events(trained.folder / "events.jsonl")
    at = next(number for number, event in enumerate(events) if event.id == "e1/s2/rollout")
    facts = folded(trained, upto=at + 1, summary=None, status="stopped")
    assert [one.at for one in facts.steps] == [1]
    assert (facts.claim, facts.test.comparison) == ("", None)
    assert "not finished: 1 of 6 steps" in said(facts)
    assert "Under way and not part of this report's steps: e1/s2." in facts.remarks


def test_steps_that_were_opened_again_are_told_once_with_their_last_outcome() -> None:
    lost = Checkpoint(id="e1/s2/reopened", kind="reopened", state=state(), record=ReopenedRecord(from_step=1))
    events: list[Event] = [started(), *baseline(six(1, 0, 1, 0, 1, 0)), *step(1, six(1, 1, 1, 1, 1, 0)), lost]
    events += step(1, six(0, 0), action="reject", why="worse", skill=SEED, score=0.5)
    facts = fold(events)
    assert [(one.at, one.action) for one in facts.changes] == [(1, "reject")]
    assert [version.short for version in facts.versions] == ["seed", "1"]
    assert "opened again: 1 of the steps" in said(facts)


def test_passed_partly_failed_invalid_and_not_evaluated_are_five_things() -> None:
    rows = [
        row("both", 1.0),
        row("both", 1.0, draw=1),
        row("one", 1.0),
        row("one", 0.0, draw=1),
        row("none", 0.0, failure="no answer"),
    ]
    rows += [row("lost", 1.0), row("lost", None, draw=1, detail="no reply in 60 s"), row("later", 1.0)]
    facts = fold([started(), *baseline(rows), *step(1, six(1))])
    first, second = facts.versions
    assert first.marks == {
        "both": "pass", "one": "partial", "none": "fail", "lost": "invalid", "later": "pass",
    }  # fmt: skip
    notes = {task: note_of(rows, "hard", 0.5) for task, rows in first.rows.items()}
    assert (notes["one"], notes["none"]) == ("0.500", "no answer")
    assert notes["lost"] == "timeout: no reply in 60 s"
    assert "both" not in second.rows


def test_an_invalid_rollout_is_named_and_is_no_zero_in_the_train_mean() -> None:
    rollouts = [row("a", 1.0), row("b", None, detail="refused by the endpoint")]
    facts = fold([started(), *baseline(six(1, 0, 1, 0, 1, 0)), *step(1, six(1), rollouts=rollouts)])
    assert (facts.changes[0].train, facts.changes[0].train_rows) == (1.0, 1)
    [(stage, lost)] = facts.changes[0].lost
    assert (stage, lost.task, lost.invalid) == ("rollout", "b", "timeout")
    assert "b (rollout): timeout, refused by the endpoint" in drawn(facts.changes[0])


def test_what_an_analyst_saw_stands_with_the_step() -> None:
    studied = [
        Minibatch(
            kind="failure",
            index=0,
            tasks=["a"],
            edits=[Edit("append")],
            summary=[{"failure_type": "unit", "count": 2}],
        ),
        Minibatch(kind="success", index=0, tasks=["b"], dropped="no JSON in the reply"),
    ]
    facts = fold([started(), *baseline(six(1, 0, 1, 0, 1, 0)), *step(1, six(1), studied=studied)])
    assert [patterns_of(one) for one in facts.changes[0].patches] == [["failure type: unit, count: 2"], []]
    shown = drawn(facts.changes[0])
    assert "<strong>failure 0</strong> · 1 edits" in shown
    assert "success 0: no JSON in the reply" in shown


GOOD = six(1, 0, 1, 0, 1, 0)


@pytest.mark.parametrize(
    ("events", "given", "told"),
    [
        (
            baseline(GOOD),
            {"config": {"evaluation": {"use_gate": False}}},
            "The gate was off: every candidate was taken without proof.",
        ),
        (
            [*baseline(GOOD), *step(1, GOOD, action="force_accept")],
            {},
            "The gate was off: every candidate was taken without proof.",
        ),
        (baseline(six(1, 0, 1)), {}, "Unverified: fewer than 5 val tasks decided."),
        (
            [*baseline(GOOD), *step(1, GOOD, verified=False)],
            {},
            "Unverified: fewer than 5 val tasks decided.",
        ),
        (baseline(GOOD, left_out=["t9"]), {}, "Left out of the gate, not measurable at baseline: t9."),
        (
            baseline(GOOD),
            {"summary": {"test": {"why": "eval_test is off"}}},
            "Test was not measured: eval_test is off.",
        ),
        (
            [look(six(None, 1), six(1, 1))],
            {},
            "Test was not measured: 1 of 2 test tasks could not be measured: t0.",
        ),
        ([look(GOOD, GOOD), look(GOOD, GOOD, 2)], {}, "The test split was looked at 2 times."),
        (
            [],
            {"summary": {"claim": "c", "total_steps": 1, "test": {}}},
            "The claim was made by an earlier session; the run went on since.",
        ),
        (
            [],
            {"summary": {"status": "budget", "total_steps": 0}},
            "The budget ended training before its plan, after 0 of 2 steps.",
        ),
        (
            [],
            {},
            (
                "settings.json is missing: the configuration is not shown, and a mixed score is read with its"
                " default weight."
            ),
        ),
    ],
)
def test_what_limits_a_claim_is_said(events: Sequence[Event], given: dict[str, Any], told: str) -> None:
    assert told in fold([started(), *events], **given).remarks
    quiet = fold([started(), *baseline(GOOD), look(GOOD, GOOD)], config={}, status="finished")
    assert quiet.remarks == []


def test_a_run_that_went_on_from_another_and_found_nothing_says_so() -> None:
    told = "Nothing better than the skill it went on from was found; the change is that of the run before."
    began = baseline(GOOD, skill=SEED + "- Learned before.\n")
    ended: dict[str, Any] = {"config": {}, "status": "finished"}
    assert fold([started(), *began, look(GOOD, GOOD)], **ended).remarks == [told]
    line = next(line for event in began if (line := line_of(event, 1)) is not None)
    assert "the skill to start from" in line.head


def test_a_run_that_went_on_after_its_budget_was_raised_is_not_called_ended() -> None:
    old = {"claim": "c", "status": "budget", "total_steps": 0}
    facts = fold([started(), *baseline(GOOD), *step(1, GOOD)], summary=old, status="running")
    assert "The run is not finished: 1 of 2 steps are closed." in facts.remarks
    assert "budget" not in said(facts)


def test_the_configuration_is_shown_without_credentials() -> None:
    target = {"name": "m", "api_key": "sk-123", "base_url": "https://me:pw@host/v1", "seed": None}
    config = {"model": {"target": target}, "train": {"batch_size": 20}}
    shown = dict(fold([started()], config=config).settings)
    assert shown["model.target.api_key"] == "[set]"
    assert shown["model.target.base_url"] == "https://host/v1"
    assert (shown["model.target.seed"], shown["train.batch_size"]) == ("null", "20")
    assert "sk-123" not in str(shown)


@pytest.mark.parametrize(
    ("edit", "op", "content"),
    [
        ({"op": "append", "content": "- a", "support_count": 2}, "append", "- a"),
        (
            {"type": "add_rule", "title": "dates", "instruction": "Add it.", "support_count": 2},
            "add_rule",
            "Add it.",
        ),
        (
            {"title": "anew", "change_summary": ["c"], "new_skill": "# B\n", "support_count": 2},
            "whole skill",
            "# B\n",
        ),
    ],
)
def test_proposals_of_every_update_mode_are_told_by_what_they_say(
    edit: dict[str, Any], op: str, content: str
) -> None:
    told = step(
        1,
        six(1.0, 1.0, 1.0, 1.0, 1.0, 0.0),
        outcomes=[{"id": "e1", "state": "applied", "reason": "", "edit": edit}],
    )
    (change,) = fold([started(), *baseline(six(0.0, 0.0, 0.0, 1.0, 1.0, 1.0)), *told]).steps
    assert edit_parts(change.outcomes[0].edit) == (op, "", content)
    shown = drawn(change)
    assert "support count: 2" in shown
    assert not any(f"{name}: " in shown for name in ("op", "content", "instruction", "new skill", "type"))


def test_edits_that_are_not_in_the_accepted_candidate_are_said_to_be_left_out() -> None:
    outcomes = [
        {"id": name, "state": "applied", "reason": "", "edit": {"op": "append", "content": name}}
        for name in ("a", "b")
    ]
    tried = [
        CandidateRecord(id=0, edits=["a", "b"], action="reject", why="", rows=2),
        CandidateRecord(id=1, edits=["a"], action="reject", why="", rows=2),
        CandidateRecord(id=2, edits=["b"], action="accept", why="", rows=6),
    ]
    events = step(1, six(1.0, 1.0, 1.0, 1.0, 1.0, 0.0), outcomes=outcomes, candidates=tried)
    told = fold([started(), *baseline(six(0.0, 0.0, 0.0, 1.0, 1.0, 1.0)), *events]).steps[0]
    assert [(one.id, told.state_of(one)) for one in told.outcomes] == [("a", "left_out"), ("b", "applied")]


def test_notes_and_a_rewrite_that_was_not_taken_are_told() -> None:
    events = step(
        1,
        six(0.0, 0.0),
        action="reject",
        score=None,
        studied=[Minibatch(kind="failure", index=0, tasks=[], notes=["Check."])],
    )
    updated = next(event for event in events if isinstance(event, Updated))
    events[events.index(updated)] = updated.model_copy(
        update={"rewrite": Edit(REWRITE, content="x"), "skill": kept("# Other\n")}
    )
    closing = events[-1]
    assert isinstance(closing, Checkpoint)
    events[-1] = closing.model_copy(update={"state": state(step=1)})
    told = fold([started(), *baseline(six(0.0, 0.0, 0.0, 1.0, 1.0, 1.0)), *events]).steps[0]
    assert "<li>Check.</li>" in drawn(told) and told.diff == "" and "+# Other" in told.tried


def test_a_second_look_is_told_once() -> None:
    """A claim that counts the looks itself needs no remark that says it again."""
    events = [started(), *baseline(GOOD), look(GOOD, GOOD), look(GOOD, GOOD, 2)]
    counted = {"claim": "No better. This was look 2 at the test split."}
    told = [said(fold(events, **more)) for more in ({}, {"summary": counted})]
    assert ["looked at 2 times" in one for one in told] == [True, False]


# --- watched facts


def test_moments_begin_with_the_seed_and_tell_every_change(facts: RunView) -> None:
    found = growth(facts)
    assert (found.moments[0].short, found.moments[0].score) == ("seed", facts.baseline)
    assert [one.short for one in found.moments[1:]] == [change.short for change in facts.changes]
    assert {True, False} == {one.is_taken for one in found.moments[1:]}
    assert found.moments[found.best].score == facts.best


def test_a_start_that_scores_no_more_than_the_seed_is_the_best_skill_all_the_same() -> None:
    rows, learned = six(1, 0, 1, 0, 1, 0), SEED + "- Learned before.\n"
    began = [closed("start", rows), *baseline(rows, skill=learned)]
    grown = growth(fold([started(), *began]))
    assert [one.short for one in grown.moments] == ["seed", "start"] and grown.best == 1


def test_every_version_has_the_text_that_was_measured(finished: Path, facts: RunView) -> None:
    versions = facts.measured
    assert versions[0].text == facts.seed_skill
    assert [one.text for one in versions if facts.is_best(one)][-1] == facts.best_skill
    judged = {
        event.skill
        for event in read_events(finished / "events.jsonl")
        if event.type == "judged" and event.skill
    }
    assert {Document(one.text).digest for one in versions[1:]} <= judged
    taken = [one for one in versions if one.is_taken]
    for before, after in pairwise(taken):
        assert facts.base_of(after).text == before.text


def test_a_line_names_the_step_that_added_it_and_the_failures_behind_it(facts: RunView) -> None:
    found = growth(facts)
    versions = {one.short: one for one in facts.measured}
    last = [one for one in versions.values() if one.is_taken][-1]
    alive = [line for line in found.lines if line.gone is None]
    assert [line.text for line in alive] == last.text.removesuffix("\n").split("\n")
    for line in alive:
        origin = versions[found.moments[line.first].short]
        assert line.text in origin.text
        if line.first and line.text:
            assert line.text not in facts.base_of(origin).text.split("\n")
    behind = [line for line in alive if line.edit is not None]
    assert behind
    for line in behind:
        assert line.edit is not None and line.edit.evidence["source_type"] in ("failure", "success")
        studies = studies_behind(line.edit, found.moments[line.first])
        assert studies and all(study.tasks for study in studies)


def test_fixed_and_broken_tasks_are_those_whose_cells_changed(facts: RunView) -> None:
    accepted = next(version for version in facts.changes if version.action == "accept_new_best")
    before, after = facts.versions[0].marks, accepted.marks
    better, worse = moved(before, after)
    assert better
    for task in better:
        assert (before[task], after[task]) != ("pass", "fail")
    assert not set(better) & set(worse)
    assert moved({}, after) == ([], [])


def test_the_marks_tell_passed_failed_and_not_evaluated_apart(facts: RunView) -> None:
    rejected = next(version for version in facts.measured if version.action == "reject")
    assert 0 < len(rejected.marks) < len(facts.tasks) == 20  # a gate stops reading when it has decided
    for version in facts.measured:
        right = {task for task, rows in version.rows.items() if all(row.hard == 1 for row in rows)}
        assert {task for task, mark in version.marks.items() if mark == "pass"} == right
        assert set(version.marks) == set(version.rows) <= set(facts.tasks)


def test_a_cell_leads_to_what_the_target_did(facts: RunView) -> None:
    task = facts.tasks[0]
    [seed] = compare_task(facts, task, "seed").sides
    assert len(seed.rollouts) == len(facts.versions[0].rows[task]) >= 1
    _, done, score = seed.rollouts[0]
    assert done.messages and score is not None and score.hard in (0.0, 1.0)
    with pytest.raises(UsageError, match="no val task"):
        compare_task(facts, "../../etc/passwd", "seed")
    with pytest.raises(UsageError, match="no version"):
        compare_task(facts, task, "../x")


def test_a_list_of_runs_agrees_with_the_runs_and_a_damaged_one_hides_no_other(
    finished: Path, tmp_path: Path, facts: RunView
) -> None:
    (tmp_path / "events.jsonl").write_text('{"id":"x","type":"checkpoint","nonsense":1}\n')
    (tmp_path / "run.db").write_bytes(b"")
    listing = RunList()
    for _ in range(2):  # the second time from what is known
        one, damaged = listing.read([finished, tmp_path]).values()
        assert isinstance(one, RunView) and one.state is not None
        assert (one.status, one.state.step, one.started) == ("finished", len(facts.steps), facts.started)
        assert (one.baseline, one.best) == (facts.baseline, facts.best)
        assert facts.test.comparison is not None and one.test.comparison == facts.test.comparison
        assert (one.spent.calls, one.spent.tokens) == (facts.spent.calls, facts.spent.tokens)
        assert isinstance(damaged, str) and "line 1" in damaged


def test_a_list_counts_what_eval_opened_since_it_was_read(finished: Path, tmp_path: Path) -> None:
    run, listing = shutil.copytree(finished, tmp_path / "run"), RunList()
    skill = MeasuredSkill(target="m", target_digest="m", skill="a.md", digest="a", repeats=1)
    for expected in (1, 2):
        [found] = listing.read([run]).values()
        assert isinstance(found, RunView) and found.test_count == expected
        note_eval(run, EvalRecord(tasks=3, seen=[skill]))


@pytest.mark.parametrize("summary", [None, {}, {"test": {}}, {"test": {"look": 1, "comparison": {"p": 0}}}])
def test_a_list_of_runs_shows_what_the_log_gives_whatever_a_summary_says(
    finished: Path, tmp_path: Path, summary: dict[str, Any] | None
) -> None:
    [honest] = RunList().read([finished]).values()
    shutil.copytree(finished, tmp_path / "run")
    file = tmp_path / "run" / "summary.json"
    if summary is None:  # all of it, with another comparison
        summary = json.loads(file.read_text())
        summary["test"]["comparison"] |= {"before": 0.0, "after": 1.0, "delta": 1.0, "p": 0.0}
    file.write_text(json.dumps(summary))
    [found] = RunList().read([tmp_path / "run"]).values()
    assert isinstance(found, RunView) and isinstance(honest, RunView)
    assert (found.test.comparison, found.significance) == (honest.test.comparison, honest.significance)
    assert honest.test.comparison is not None and honest.test.comparison.after < 1.0


def test_steps_that_are_open_again_are_counted_nowhere(tmp_path: Path) -> None:
    big_run(tmp_path / "run", steps=3, tasks=30, calls=2)
    with (tmp_path / "run" / "events.jsonl").open("a", encoding="utf-8") as log:
        state = first_state(30).replace(step=1)
        log.write(
            Checkpoint(
                id="e1/s3/reopened", kind="reopened", state=state, record=ReopenedRecord(from_step=2)
            ).model_dump_json()
            + "\n"
        )
    watcher = RunReader(tmp_path / "run")
    watcher.read()
    told = watcher.view()
    assert told is not None and len(told.steps) == 1
    assert watcher.status.marks() == "×"
    [found] = RunList().read([tmp_path / "run"]).values()
    assert isinstance(found, RunView) and [record.action for record in found.records] == ["reject"]


def test_news_reads_as_sentences(finished: Path) -> None:
    watcher = RunReader(finished)
    watcher.read()
    said = [line.text for line in watcher.lines]
    assert said[0].startswith("note: 20 val tasks are few")  # a notice is told though it decides nothing
    assert said[1].startswith("seed skill: 0.") and said[-1].startswith("sealed test opened")
    assert any(line.tone == "good" and ": accepted, " in line.text for line in watcher.lines)


# --- answers


@pytest.fixture(scope="session")
def answers(trained: Trained) -> RunAnswers:
    return read_answers(read_run(trained.folder))


@pytest.mark.slow
def test_every_task_stands_with_its_question_what_was_expected_and_both_answers(
    trained: Trained, answers: RunAnswers
) -> None:
    (seen,) = trained.of(TestMeasured)
    tested = [one for one in answers.tasks if one.split == "test"]
    assert [one.id for one in tested] == [row.task for row in seen.rows["seed"]]
    stored = [json.loads(line) for line in (trained.folder / "tasks.jsonl").read_text().splitlines()]
    assert {one["id"]: (one["question"], one["expected"]) for one in stored if one["split"] == "test"} == {
        one.id: (one.stored.question, one.stored.expected) for one in tested if one.stored
    }
    for name, digest in (("seed", answers.seed), ("best", answers.best)):
        rows = {row.task: row for row in seen.rows[name]}
        for one in tested:
            (said,) = one.answers[digest]
            assert said.row == rows[one.id]
            assert said.text and bool(said.feedback) is (said.row.hard == 0)
    assert any(
        one.answers[answers.seed][0].row.hard < one.answers[answers.best][0].row.hard for one in tested
    )  # type: ignore[operator]


def test_val_answers_are_those_of_the_skill_that_was_measured(trained: Trained, answers: RunAnswers) -> None:
    val = [one for one in answers.tasks if one.split == "val"]
    assert len(val) == 30
    for digest, score in ((answers.seed, "baseline_gate_score"), (answers.best, "best_gate_score")):
        hard = [one.answers[digest][0].row.hard or 0.0 for one in val]
        assert sum(hard) / 30 == pytest.approx(trained.json("summary.json")[score])
    assert answers.seed != answers.best


def test_one_task_can_be_asked_for_and_other_skills_too(trained: Trained, answers: RunAnswers) -> None:
    id = answers.tasks[0].id
    (only,) = read_answers(read_run(trained.folder), tasks=[id]).tasks
    assert only == answers.tasks[0]
    (seed_only,) = read_answers(read_run(trained.folder), tasks=[id], skills=[answers.seed]).tasks
    assert set(seed_only.answers) == {answers.seed}


def test_credentials_are_taken_out_of_kept_tasks(tmp_path: Path) -> None:
    secret = "sk-live-0123456789abcdef"
    tasks = Splits(
        train=(Task(id="a", prompt=f"use {secret}", reference={"key": [secret]}),),
        val=(Task(id="b", prompt="b", reference=None),),
    )
    write_tasks(tmp_path / "tasks.jsonl", tasks, Scrubber([secret]))
    text = (tmp_path / "tasks.jsonl").read_text()
    assert secret not in text and '"use ' in text and '"expected": null' in text
