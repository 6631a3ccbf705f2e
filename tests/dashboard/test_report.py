"""The page: whole without a network, harmless whatever a run holds, readable without colour, small for a long
run.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from _needs import CHROMIUM, needs_chromium
from dashboard._parser import Page
from runs._log import SEED, baseline, fold, look, row, six, started, state, step
from skillopt.cli.report import frame
from skillopt.events import Checkpoint, Event, Minibatch
from skillopt.runs.reader import read_view
from skillopt.runs.tasks import compare_tasks, growth
from skillopt.runs.words import interval
from skillopt.train.claim import TestReport
from skillopt_webui.render.document import SCRIPT
from skillopt_webui.render.markup import diff, sentence
from skillopt_webui.render.stairs import stairs
from skillopt_webui.report import RunView, page, summary
from train._world import Trained

MARKED = ("pass", "partial", "fail", "invalid", "not-evaluated")
EVIL = "\"'><script>alert(1)</script>\x00\ud800"


@pytest.fixture(scope="module")
def real(trained: Trained) -> Page:
    return Page(page(read_view(trained.folder)))


def hostile() -> RunView:
    """A run with the same bad text in everything a model, a task file or an endpoint can write."""
    edit = {
        "op": "replace",
        "target": EVIL,
        "content": EVIL,
        "rationale": EVIL,
        "support_count": 2,
        EVIL: [EVIL],
    }
    outcomes = [
        {"id": EVIL, "state": ended, "reason": EVIL, "edit": edit}
        for ended in ("applied", "merged", "invalid")
    ]
    studied = [Minibatch(kind="failure", index=0, tasks=[EVIL], summary=[{EVIL: EVIL}, EVIL], dropped=EVIL)]
    rows = [row(EVIL, None, invalid=EVIL, detail=EVIL), row("t1", 0.0, failure=EVIL), *six(1, 0, 1, 0, 1)]
    events: list[Event] = [
        started(benchmark=EVIL, target=EVIL, optimizer=EVIL),
        *baseline(rows),
        *step(
            1,
            rows,
            why=EVIL,
            skill=SEED + EVIL[:-1],
            outcomes=outcomes,
            studied=studied,
            rollouts=[row(EVIL, None, detail=EVIL)],
        ),
        look([row(EVIL, 0.0)], [row(EVIL, 1.0)]),
    ]
    events.append(
        Checkpoint(
            id="finish/finish",
            kind="finish",
            state=state(SEED + EVIL[:-1], left_out=[EVIL], best_origin=EVIL),
        )
    )
    facts = fold(events, config={"env": {EVIL: EVIL}}, summary={"claim": EVIL, "test": {}}, status="finished")
    assert any(EVIL in remark for remark in facts.remarks)
    return facts


@pytest.mark.slow
def test_a_page_is_well_formed_and_holds_every_part(real: Page, trained: Trained) -> None:
    parts = (
        "Scores",
        "Steps",
        "Val tasks",
        "Skill",
        "Spending",
        "Configuration",
        "simulated",
        "finished",
        "sealed test",
        "unknown",
    )
    assert [part for part in parts if part not in real.text] == []
    assert trained.json("summary.json")["claim"] in real.text
    for record in trained.json("history.json"):
        assert f"Step {record['step']}" in real.text
        assert record["why"] in real.text
    assert "train.batch_size 20" in real.text


@pytest.mark.slow
def test_one_interval_for_one_number_and_none_of_a_sealed_test(trained: Trained) -> None:
    facts = read_view(trained.folder)
    assert facts.test.comparison is not None
    told = interval(facts.test.comparison)
    assert page(facts).count(told) >= 2 and told in summary(facts), "hero, stairs and summary say the same"
    sealed = replace(facts, report=TestReport(measured=False, why="sealed"))
    assert "interval" not in str(stairs(sealed, growth(sealed)))


@pytest.mark.slow
def test_a_square_opens_question_and_answers_without_the_run(trained: Trained) -> None:
    facts = read_view(trained.folder)
    tasks = list(compare_tasks(facts))
    assert {one.id for one in tasks} == set(facts.tasks)
    text = page(facts, tasks)
    assert all(f'<template data-task="{task}">' in text for task in facts.tasks)
    first = tasks[0]
    assert first.stored and first.stored.question in text
    assert first.sides[0].version.name == "the seed skill"
    seed, best = (side.version.marks[first.id] for side in first.sides)
    assert seed != best, "what differs comes first"
    assert page(facts, tasks * 400).count("<template") < len(tasks) * 400, "a page has an end"


def test_a_wall_of_many_tasks_counts_all_and_says_how_many_it_shows() -> None:
    tasks = [f"t{number:04d}" for number in range(1200)]
    before = [row(task, float(number % 3 == 0)) for number, task in enumerate(tasks)]
    after = [row(task, float(number % 3 == 0 or number < 300)) for number, task in enumerate(tasks)]
    facts = fold([started(), *baseline(before), *step(1, after, score=0.5)])
    grown = growth(facts)
    assert grown.best == 1
    made = Page(page(facts))
    assert "Val tasks: 600 of 1,200 pass · 500 most changed shown" in made.text
    assert ("section", "data-counts", "400 of 1,200 pass|600 of 1,200 pass") in made.attributes
    console = Console(file=io.StringIO(), width=100, height=40, highlight=False)
    console.print(frame(facts, grown, 1, 100, 40))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Val tasks: 600 of 1,200 pass   fixed 200, broke 0   300 most changed shown" in shown


def test_tasks_that_pass_in_some_draws_are_counted_beside_those_that_pass() -> None:
    """With a score of 0.80 over draws the heading alone would say that 2 of 5 tasks pass."""
    before = [row(f"t{task}", 0.0) for task in range(5)]
    after = [
        row(f"t{task}", float(draw > 0 or task < 2), draw=draw) for task in range(5) for draw in range(3)
    ]
    facts = fold([started(), *baseline(before), *step(1, after, score=0.8)])
    assert list(growth(facts).counts) == ["0 of 5 pass", "2 of 5 pass, 3 partly"]
    made = Page(page(facts))
    assert "Val tasks: 2 of 5 pass, 3 partly" in made.text
    assert ("section", "data-counts", "0 of 5 pass|2 of 5 pass, 3 partly") in made.attributes


def test_a_page_needs_nothing_but_itself(real: Page) -> None:
    assert {"link", "img", "iframe", "object", "use"}.isdisjoint(real.tags)
    assert real.tags.count("script") == 1
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = next(
        value for tag, name, value in real.attributes if name == "content" and "default-src" in value
    )
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert [
        one
        for one in real.attributes
        if one[1] in ("src", "href", "srcset", "style") and not one[2].startswith("#")
    ] == []
    assert re.search(r"https?:|url\(|@import", real.source) is None
    targets = {value for _, name, value in real.attributes if name == "id"}
    assert {value[1:] for _, name, value in real.attributes if name == "href"} <= targets


def test_a_page_suits_dark_screens_phones_and_the_keyboard(real: Page) -> None:
    assert "prefers-color-scheme: dark" in real.source
    assert ("meta", "content", "width=device-width, initial-scale=1") in real.attributes
    assert real.tags.count("details") == real.tags.count("summary") > 6
    scrolling = [one for one in real.attributes if one[1:] == ("role", "region")]
    reached = [one for one in real.attributes if one[1:] == ("tabindex", "0") and one[0] != "button"]
    assert len(reached) == len(scrolling) > 0


def test_no_text_of_a_run_becomes_markup() -> None:
    clean, evil = Page(page(fold([started(), *baseline(six(1, 0, 1, 0, 1, 0))]))), Page(page(hostile()))
    assert evil.tags.count("script") == clean.tags.count("script") == 1  # ours
    assert {name for _, name, _ in evil.attributes} <= {name for _, name, _ in clean.attributes} | {
        "points",
        "open",
        "data-gone",
        "data-key",
    }
    assert evil.text.count("alert(1)") > 15
    evil.source.encode()  # half a surrogate pair could not be written
    assert "\x00" not in evil.source


def test_no_text_of_a_run_becomes_markup_in_markdown() -> None:
    text = summary(hostile())
    outside = re.sub(r"^(`{3,})diff\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert "<script" not in outside
    assert "&lt;script" in outside
    text.encode()


def test_a_fence_in_a_skill_does_not_end_the_fence_of_its_diff() -> None:
    skill = SEED + "````\ncode\n````\n"
    text = summary(fold([started(), *baseline(six(1, 0, 1, 0, 1, 0)), *step(1, six(1), skill=skill)]))
    assert "\n`````diff\n" in text
    assert text.endswith("\n`````\n")


def test_a_line_break_or_a_bar_does_not_break_a_markdown_table() -> None:
    text = summary(fold([started(), *baseline(six(1, 0)), *step(1, six(1), why="a | b\nc")]))
    assert "| a \\| b c |" in text


def test_the_heatmap_tells_outcomes_apart_by_sign_and_not_by_colour_alone() -> None:
    first = [row("t0", 1.0), row("t1", 0.0), row("t2", None), row("t3", 0.5), row("t4", 1.0)]
    shown = Page(page(fold([started(), *baseline(first), *step(1, six(1))])))
    cells = [cell for cell in shown.cells if cell[0] in MARKED]
    assert cells[::2] == [("pass", "✓"), ("fail", "✗"), ("invalid", "!"), ("partial", "◐"), ("pass", "✓")]
    assert cells[1::2] == [("pass", "✓")] + [("not-evaluated", "·")] * 4
    for words in ("passed", "partly", "failed", "invalid", "not evaluated"):
        assert words in shown.text


@pytest.mark.parametrize(
    ("action", "word", "sign"),
    [
        ("accept", "accepted", "●"),
        ("reject", "rejected", "×"),
        ("unchanged", "unchanged", "○"),
        ("inconclusive", "inconclusive", "?"),
        ("force_accept", "taken without a gate", "◆"),
    ],
)
def test_every_verdict_has_its_word_and_its_shape(action: str, word: str, sign: str) -> None:
    score = None if action == "force_accept" else 0.5
    facts = fold(
        [
            started(),
            *baseline(six(1, 0, 1, 0, 1, 0)),
            *step(1, six(1), action=action, why="because", score=score),
        ]
    )
    assert f"Step 1 {sign} {word} · because" in Page(page(facts)).text
    assert f"| step 1 | {word} |" in summary(facts)


def test_a_run_that_only_began_is_a_whole_page_that_says_so() -> None:
    shown = Page(page(fold([started()])))
    for words in (
        "Nothing is measured yet",
        "No step is closed yet",
        "Nothing is spent yet",
        "made no claim yet",
        "not measured",
    ):
        assert words in shown.text
    assert "0.000" not in shown.text
    assert "not measured" in summary(fold([started()]))


def test_what_stands_between_backticks_is_code_and_text_all_the_same() -> None:
    assert sentence("Run `a <b>` & `c`, a`b", cls="soft") == (
        '<p class="soft">Run <code>a &lt;b&gt;</code> &amp; <code>c</code>, a`b</p>'
    )


def test_a_diff_shows_a_list_of_dashes_as_what_it_is() -> None:
    shown = diff("--- before\n+++ after\n@@ -1,2 +1,2 @@\n--- a\n+++ b\n c\n")
    kinds = re.findall(r'class="(\w+)"', shown)
    assert kinds == ["scroll", "file", "file", "where", "removed", "added", "same"]


def test_forty_steps_and_two_hundred_tasks_make_a_page_of_reasonable_size() -> None:
    tasks = [f"collection/of/tasks/number-{number:04d}" for number in range(200)]
    rows = [row(task, float(number % 3 > 0)) for number, task in enumerate(tasks)]
    edit = {"op": "append", "content": "- " + "A rule of a usual length, in words. " * 5, "support_count": 3}
    outcomes = [
        {"id": f"e1/s1/x#{number}", "state": "merged", "reason": "into another", "edit": edit}
        for number in range(20)
    ]
    events: list[Event] = [started(steps=40), *baseline(rows)]
    text = SEED
    for number in range(1, 41):
        text += f"- Rule {number}.\n"
        events += step(number, rows, skill=text, outcomes=outcomes, score=0.5 + number / 100)
    began = time.process_time()
    made = page(fold([*events, look(rows, rows)]))
    assert time.process_time() - began < 10
    assert len(made.encode()) < 3_000_000
    assert made.count("<td") == 200 * 41


@pytest.mark.real
@needs_chromium
def test_a_real_browser_sees_the_same_page_and_runs_nothing_in_it(tmp_path: Path) -> None:
    source = page(hostile()).replace("alert(1)", "document.title=1")
    (tmp_path / "page.html").write_text(source, encoding="utf-8")
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--dump-dom",
        (tmp_path / "page.html").as_uri(),
    ]
    seen = Page(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)
    assert seen.tags == Page(source).tags
    assert seen.text == Page(source).text
