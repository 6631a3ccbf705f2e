"""`skillopt report`: two files beside a run that stays as it was, and clear words where there is nothing to
report.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli._commands import Command
from skillopt.files import holder, lock


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A finished run of one's own."""
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def test_a_report_is_two_files_and_the_run_stays_as_it_was(skillopt: Command, run: Path) -> None:
    before = contents(run)
    ran = skillopt("report run")
    assert (ran.code, ran.out.split(), ran.err) == (0, ["run/report.html", "run/report.md"], "")
    after = contents(run)
    assert set(after) - set(before) == {"report.html", "report.md"}
    assert {name: after[name] for name in before} == before
    claim = json.loads(before["summary.json"])["claim"]
    assert claim in after["report.html"].decode()


def test_without_a_run_the_newest_is_reported_and_a_bare_name_is_found(skillopt: Command, run: Path) -> None:
    Path("outputs").mkdir()
    run.rename("outputs/mine")
    for words in ((), ("mine",)):
        assert skillopt("report", *words).out.split()[0] == "outputs/mine/report.html"


def test_a_report_can_be_written_again_and_says_the_same(skillopt: Command, run: Path) -> None:
    assert skillopt("report run").code == 0
    before = contents(run)
    assert skillopt("report run").code == 0
    assert contents(run) == before


def test_a_report_goes_where_it_is_asked_to_go(skillopt: Command, run: Path, tmp_path: Path) -> None:
    before = contents(run)
    ran = skillopt("report run --out new/page.html --json")
    assert ran.json == {"html": "new/page.html", "markdown": "new/page.md"}
    assert set(contents(tmp_path / "new")) == {"page.html", "page.md"}
    assert contents(run) == before


def test_an_unfinished_run_without_its_files_is_reported(skillopt: Command, run: Path) -> None:
    log = run / "events.jsonl"
    log.write_text(log.read_text().splitlines(keepends=True)[0])
    for name in ("summary.json", "settings.json"):
        (run / name).unlink()
    assert skillopt("report run").code == 0
    said = (run / "report.html").read_text()
    assert "The run is not finished: 0 of" in said
    assert "settings.json is missing" in said


def test_a_run_at_work_is_reported_and_keeps_its_lock(skillopt: Command, run: Path) -> None:
    with lock(run / ".lock"):
        assert skillopt("report run").code == 0
        assert holder(run / ".lock") is not None
    assert "# world: running, simulated" in (run / "report.md").read_text()


@pytest.mark.parametrize(
    ("out", "hit"),
    [("best_skill.html", "best_skill.md"), ("notes.html", "notes.html"), ("README.html", "README.md")],
)
def test_a_file_that_is_no_report_is_never_written_over(
    skillopt: Command, run: Path, out: str, hit: str
) -> None:
    (run / hit).write_text("mine")
    before = contents(run)
    ran = skillopt("report run --out", f"run/{out}")
    assert (ran.code, ran.out) == (2, "")
    assert f"run/{hit} is there already" in ran.err
    assert contents(run) == before


def test_a_log_that_has_not_begun_and_a_damaged_summary_are_said(skillopt: Command, run: Path) -> None:
    (run / "summary.json").write_text("{")
    assert "cannot be read as JSON" in skillopt("report run").err
    (run / "summary.json").write_text("[]")
    assert "holds no JSON object" in skillopt("report run").err
    (run / "events.jsonl").write_text("")
    ran = skillopt("report run")
    assert (ran.code, ran.out) == (2, "")
    assert "nothing to report" in ran.err


@pytest.mark.parametrize(
    "name", ["report.html", "report.md", "replay.html", ".lock", "skills", "best_skill.md", "pruned"]
)
@pytest.mark.parametrize(
    "words", [("report", "run"), ("report", "run", "--replay", "--page", "--no-open"), ("train", "run")]
)
def test_a_link_in_a_run_folder_of_a_stranger_writes_and_reads_nothing_elsewhere(
    skillopt: Command, run: Path, tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    mine = tmp_path / "home" / name
    mine.parent.mkdir()
    if (run / name).is_dir():
        shutil.rmtree(run / name)
        mine.mkdir()
    elif (run / name).exists():
        (run / name).unlink()
        mine.write_text("mine\n")
    (run / name).symlink_to(mine)
    before = contents(mine.parent)
    ran = skillopt(*words)
    assert ran.code == 2 and f"{name} is a link that leads out of" in ran.err
    assert contents(mine.parent) == before
