"""An evaluation on a run's test tasks is a look at its sealed test: the run's folder, its report and the list
of runs count it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli._commands import SMALL, Command
from skillopt.files import lock
from skillopt.runs.notes import EVALS, read_eval_records

WORDS = ("eval", "quickstart", "--quiet", "--cfg-options", *SMALL)


@pytest.fixture
def trained(skillopt: Command, finished: Path, tmp_path: Path) -> Path:
    """A run that nobody has looked into."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder, ignore=shutil.ignore_patterns(EVALS))
    return folder


def looks(skillopt: Command, folder: Path) -> int:
    return int(skillopt("runs", str(folder), "--json").json["runs"][0]["looks"])


@pytest.mark.slow
@pytest.mark.parametrize("place", ["", "best_skill.md", "skills/skill_v0000.md"])
def test_a_skill_that_lies_in_a_run_tells_whose_test_is_looked_at(
    skillopt: Command, trained: Path, place: str
) -> None:
    assert looks(skillopt, trained) == 1
    ran = skillopt(*WORDS, "--skill", str(trained / place), "--split", "test", "--json")
    assert ran.json["looks"] == [{"run": str(trained), "look": 2, "why": ""}]
    assert "this is look 2 at its test split" in ran.err
    assert looks(skillopt, trained) == 2
    [noted] = read_eval_records(trained)
    assert (noted.tasks, noted.seen[0].target) == (20, "world")


@pytest.mark.slow
def test_the_report_and_the_list_of_runs_count_it(skillopt: Command, trained: Path) -> None:
    skillopt(*WORDS, "--skill", str(trained), "--against", "none")
    skillopt("report", str(trained))
    said = "The test split was looked at 2 times, 1 of them outside this run."
    assert said in (trained / "report.md").read_text()
    assert "looked at 2 times" in (trained / "report.html").read_text()
    assert "(2 looks)" in skillopt("runs", str(trained)).out


@pytest.mark.slow
def test_the_same_look_again_and_another_split_are_no_further_looks(skillopt: Command, trained: Path) -> None:
    for split in ("test", "test", "val", "train"):
        assert skillopt(*WORDS, "--skill", str(trained), "--split", split).code == 0
    assert looks(skillopt, trained) == 2
    skillopt(*WORDS, "--skill", str(trained), "--split", "test", "--repeats", "2")
    assert looks(skillopt, trained) == 3


def test_a_skill_from_elsewhere_counts_where_the_run_is_named(skillopt: Command, trained: Path) -> None:
    Path("mine.md").write_text("# Mine\n")
    words = (*WORDS, "--skill", "mine.md", "--split", "test")
    assert "--run RUN counts the look there" in skillopt(*words).out
    assert looks(skillopt, trained) == 1
    assert "Counted in run: this is look 2" in skillopt(*words, "--run", "run").out
    assert looks(skillopt, trained) == 2


def test_other_tasks_are_no_look_and_fewer_of_the_same_are(skillopt: Command, trained: Path) -> None:
    words = (*WORDS, "--skill", str(trained), "--split", "test")
    assert "Counted" not in skillopt(*words, "--world_seed", "3").out
    assert looks(skillopt, trained) == 1
    assert "this is look 2" in skillopt(*words, "--test_env_num", "5").out


def test_a_run_that_took_only_some_of_the_tasks_is_recognised(skillopt: Command) -> None:
    words = ("train quickstart --quiet --num_epochs 1 --test_env_num 8 --out_root few --cfg-options", *SMALL)
    assert skillopt(*words).code == 0
    assert "Counted in few: this is look 2" in skillopt(*WORDS, "--skill", "few", "--split", "test").out


def test_a_run_at_work_is_left_alone_and_that_is_said(skillopt: Command, trained: Path) -> None:
    with lock(trained / ".lock"):
        ran = skillopt(*WORDS, "--skill", str(trained), "--split", "test")
    assert ran.code == 0
    assert "in use by process" in ran.out
    assert "is not noted in it" in ran.out
    assert not (trained / EVALS).exists()


def test_the_claim_of_a_finished_run_stays_when_its_command_runs_again(
    skillopt: Command, trained: Path
) -> None:
    before = json.loads((trained / "summary.json").read_text())
    skillopt(*WORDS, "--skill", str(trained), "--split", "test")
    assert skillopt("train quickstart --quiet --out_root", str(trained), "--cfg-options", *SMALL).code == 0
    after = json.loads((trained / "summary.json").read_text())
    assert (after["claim"], after["test"]["look"]) == (before["claim"], 1)
