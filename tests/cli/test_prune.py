"""`skillopt runs prune` on a finished run: its models and tasks, a folder of its own, and the run as it was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli._commands import Command


@pytest.mark.slow
def test_a_finished_run_is_pruned_in_a_folder_of_its_own(
    skillopt: Command, finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished, tmp_path / "outputs" / "run")
    before = (finished / "best_skill.md").read_text()
    ran = skillopt("runs prune outputs/run --quiet --json")
    assert ran.code == 0, ran.err
    told = ran.json
    left = (tmp_path / "outputs/run/pruned/best_skill.md").read_text()
    assert told["lines"] and told["simulated"] and told["after"] >= told["before"]
    for line in told["lines"]:
        assert line["text"] in before and (line["text"] in left) is not line["removed"], line
    assert (tmp_path / "outputs/run/best_skill.md").read_text() == before
    again = skillopt("runs prune --quiet --budget", "1 call")
    assert again.code == 0 and "Pruned skill: outputs/run/pruned/best_skill.md" in again.out, again.err
    assert "run  finished" in skillopt("runs").out and "pruned" not in skillopt("runs").out


@pytest.mark.slow
def test_where_there_is_nothing_to_prune_it_says_so(skillopt: Command, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def solves(task, skill):\n    return task.prompt\n")
    rows = [json.dumps({"id": f"t{n}", "prompt": f"{n}", "answer": f"{n}"}) for n in range(5)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(rows))
    words = [
        "--env",
        "own",
        "--data_path",
        "tasks.jsonl",
        "--target",
        "agent.py:solves",
        "--optimizer",
        "world",
    ]
    assert skillopt("train", *words, "--quiet", "--out_root", "run").code == 0
    ran = skillopt("runs prune run")
    assert ran.code == 2 and "learned nothing" in ran.err, ran
