"""What the pages about a run are made of: moments, versions, lines with their origin, the table of tasks, the
list of runs.
"""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from runs._big import big_run, first_state
from runs._log import SEED, baseline, closed, fold, six, started
from skillopt.errors import UsageError
from skillopt.events import Checkpoint
from skillopt.events.records import ReopenedRecord
from skillopt.runs.log import read_events
from skillopt.runs.reader import RunList, RunReader
from skillopt.runs.tasks import compare_task, growth
from skillopt.runs.versions import moved, studies_behind
from skillopt.runs.view import RunView
from skillopt.skill.document import Document


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
