"""The commands that look at runs and at what there is: `eval`, `runs`, `config list`."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from cli._commands import Command, program
from skillopt.files import lock


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_runs_lists_what_is_there_without_touching_it(skillopt: Command, finished: Path) -> None:
    before = contents(finished)
    ran = skillopt("runs", str(finished.parent), "--json")
    [row] = ran.json["runs"]
    summary = json.loads((finished / "summary.json").read_text())
    assert (row["status"], row["step"], row["steps"], row["simulated"]) == ("finished", 6, 6, True)
    assert (row["calls"], row["tokens"], row["usd"]) == (
        summary["spending"]["calls"],
        summary["spending"]["tokens"],
        0,
    )
    assert (row["baseline"], row["best"]) == (summary["baseline_gate_score"], summary["best_gate_score"])
    assert row["test"]["best"] == pytest.approx(summary["test_hard"])
    assert contents(finished) == before
    said = skillopt("runs", str(finished.parent)).out
    assert "finished" in said
    assert "cost $0.00  simulated" in said


def test_runs_are_one_line_each_with_date_skill_and_scores_the_newest_first(
    skillopt: Command, finished: Path, tmp_path: Path
) -> None:
    for number, name in enumerate(("old", "new")):
        shutil.copytree(finished, tmp_path / "outputs" / name)
        settings = tmp_path / "outputs" / name / "settings.json"
        told = json.loads(settings.read_text())
        told["env"]["skill_init"] = f"/skills/{name}-cases/SKILL.md"
        settings.write_text(json.dumps(told))
        os.utime(settings.with_name("events.jsonl"), (1_699_963_200 + 86_400 * number,) * 2)
    first, second = skillopt("runs").out.splitlines()
    assert (
        first.startswith("2023-11-15") and "outputs/new  finished" in first and "  new-cases  val 0." in first
    )
    assert second.startswith("2023-11-14") and "outputs/old  finished" in second
    rows = skillopt("runs --json").json["runs"]
    assert [(row["skill"], row["changed"][:10]) for row in rows] == [
        ("new-cases", "2023-11-15"),
        ("old-cases", "2023-11-14"),
    ]


def test_a_run_at_work_is_called_running_and_a_dead_one_stopped(
    skillopt: Command, finished: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    events = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    (folder / "events.jsonl").write_text("".join(line for line in events if '"kind":"finish"' not in line))
    (folder / ".lock").write_text("123456")  # what a killed process leaves behind
    assert skillopt("runs run --json").json["runs"][0]["status"] == "stopped"
    with lock(folder / ".lock"):
        assert skillopt("runs run --json").json["runs"][0]["status"] == "running"


def test_runs_of_an_empty_folder(skillopt: Command, tmp_path: Path) -> None:
    assert "No runs" in skillopt("runs", str(tmp_path)).out


def test_diff_of_a_run_is_its_seed_against_its_best(
    skillopt: Command, finished: Path, tmp_path: Path
) -> None:
    said = skillopt("runs diff", str(finished)).out
    assert said.count("\n+") > 1
    (tmp_path / "a.md").write_text((finished / "best_skill.md").read_text())
    assert "are equal" in skillopt("runs diff", str(finished), "a.md").out
    (tmp_path / "b.md").write_text("# Other\n")
    assert "+# Other" in skillopt("runs diff a.md b.md").out


def test_list_names_what_is_packaged(skillopt: Command) -> None:
    data = skillopt("config list --json").json
    assert {"own", "searchqa", "world"} <= set(data["benchmarks"])
    assert {"openai", "anthropic", "azure", "compatible", "world"} <= set(data["models"])
    assert {"quickstart", "searchqa"} <= set(data["configs"])
    assert all(data["benchmarks"].values())
    assert "chat" in skillopt("config list harnesses").out


@pytest.mark.slow
def test_the_program_writes_json_that_a_pipe_can_read(tmp_path: Path) -> None:
    out, err = (listing := program("config list --json", cwd=tmp_path)).communicate(timeout=30)
    assert (listing.returncode, err) == (0, "")
    assert json.loads(out)


def test_a_run_of_another_version_is_refused_where_it_is_named(
    skillopt: Command, finished: Path, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        shutil.copytree(finished, tmp_path / "outputs" / name)
    log = tmp_path / "outputs" / "a" / "events.jsonl"
    log.write_text(log.read_text().replace('"schema_version":3', '"schema_version":1'), encoding="utf-8")
    named, listed = skillopt("runs", str(log.parent)), skillopt("runs")
    assert (named.code, named.out) == (2, "") and "another version of SkillOpt" in named.err
    assert listed.code == 0 and "b  finished" in listed.out and "another version" in listed.err


def test_latest_is_the_newest_run_wherever_a_run_is_named(
    skillopt: Command, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "There is no run in outputs" in skillopt("runs show latest").err
    shutil.copytree(finished, tmp_path / "outputs/one")
    for words in ("runs show latest", "report latest", "runs diff latest", "runs explain latest 1"):
        ran = skillopt(*words.split())
        assert ran.code == 0, (words, ran.err)
    assert (tmp_path / "outputs/one/report.html").is_file()
    evaluated = skillopt("eval latest --json --quiet")
    assert evaluated.json["evaluations"][0]["skill"] == "best", evaluated.err
    assert skillopt("runs list").out == skillopt("runs").out != ""


def test_diff_and_init_speak_json(skillopt: Command, finished: Path) -> None:
    told = skillopt("runs diff", str(finished), "--json").json
    assert told["before"] == f"{finished}:seed" and not told["equal"] and "+- " in told["diff"]
    made = skillopt("init my-skill --json").json
    assert made["folder"] == "my-skill" and all(Path(path).is_file() for path in made["created"])
