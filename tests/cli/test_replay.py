"""`skillopt report --replay`: a run again, from its files alone."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from cli._commands import Command
from skillopt.cli.report import frame
from skillopt.runs.reader import read_view
from skillopt.runs.tasks import growth


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def cut(folder: Path, after: str) -> None:
    """The log as a process that was killed leaves it: the beginning, and a torn line."""
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    last = next(number for number, line in enumerate(lines) if after in line)
    (folder / "events.jsonl").write_text("".join([*lines[: last + 1], lines[last + 1][:40]]))
    (folder / "summary.json").unlink()


def test_every_change_is_told_once_and_the_end_is_the_claim(skillopt: Command, finished: Path) -> None:
    facts = read_view(finished)
    ran = skillopt("report --replay", str(finished))
    assert (ran.code, ran.err) == (0, "")
    told = ran.out.splitlines()
    assert told[0] == f"the seed: val {facts.baseline:.3f}"
    for line, change in zip(told[1:], facts.changes, strict=False):
        assert line.startswith(f"{change.name}: ") and change.why in line
    assert told[len(facts.changes) + 1].startswith("sealed test: ") and facts.claim in told


def test_a_killed_run_is_shown_as_far_as_it_went(skillopt: Command, copy: Path) -> None:
    cut(copy, '"kind":"step"')
    ran = skillopt("report --replay", str(copy))
    assert ran.code == 0 and "step 1: " in ran.out and "step 2: " not in ran.out
    assert "The run has made no claim yet." in ran.out and "The run is not finished: 1 of" in ran.out
    cut_before = copy / "events.jsonl"
    cut_before.write_text(cut_before.read_text().splitlines(keepends=True)[0])
    ran = skillopt("report --replay", str(copy))
    assert (ran.code, ran.out) == (2, "") and "was never measured" in ran.err


def test_a_frame_holds_the_skill_the_score_and_the_tasks_of_its_moment(finished: Path) -> None:
    facts = read_view(finished)
    grown = growth(facts)
    k = next(k for k, one in enumerate(grown.moments) if k and one.is_taken)
    for width, height in ((80, 60), (80, 24), (40, 24)):
        shown = []
        for moment in (0, k):
            console = Console(file=io.StringIO(), width=width, height=height, highlight=False)
            console.print(frame(facts, grown, moment, width, height))
            shown.append(console.file.getvalue())  # type: ignore[attr-defined]
        assert all(len(line) <= width for text in shown for line in text.splitlines())
        new = [line.text for line in grown.lines if line.first == k and line.text.strip()]
        assert new[0][:20] not in shown[0] and new[0][:20] in shown[1]
        passing = sum(grown.mark(task, k) == "pass" for task in facts.tasks)
        assert f"{passing} of {len(facts.tasks)} pass" in shown[1]
        assert f"val {grown.moments[k].score:.3f}" in shown[1]
    assert "step 1 " in shown[1] and shown[1].count("●") == 2


def test_a_page_plays_by_itself_and_lies_in_the_run(skillopt: Command, copy: Path) -> None:
    ran = skillopt("report", str(copy), "--replay", "--page", "--no-open", "--seconds", "12")
    assert ran.out.strip() == str(copy / "replay.html")
    page = (copy / "replay.html").read_text()
    assert '<html lang="en" data-play="12.0">' in page and 'id="play"' in page
    assert "data-play=" not in _report(skillopt, copy)


def _report(skillopt: Command, folder: Path) -> str:
    assert skillopt("report", str(folder)).code == 0
    return (folder / "report.html").read_text().partition("<body>")[0]
