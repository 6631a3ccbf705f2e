"""`skillopt runs A B`: the same figures of each run, only the settings that differ, and what keeps them from
being compared.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli._commands import SMALL, Command, run


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another run on the same tasks: fewer epochs, a smaller batch."""
    folder = tmp_path_factory.mktemp("second") / "short"
    more = ("train.num_epochs=1", "train.batch_size=12")
    assert run("train quickstart --quiet --out_root", str(folder), "--cfg-options", *SMALL, *more).code == 0
    return folder


def test_runs_stand_side_by_side_with_their_own_figures(
    skillopt: Command, finished: Path, second: Path
) -> None:
    data = skillopt("runs", str(finished), str(second), "--json").json
    for folder, told in zip((finished, second), data["runs"], strict=True):
        summary = json.loads((folder / "summary.json").read_text())
        assert told["folder"] == str(folder)
        assert told["val"] == {"seed": summary["baseline_gate_score"], "best": summary["best_gate_score"]}
        assert (told["test"]["seed"], told["test"]["best"]) == pytest.approx(
            (summary["baseline_test_hard"], summary["test_hard"])
        )
        assert (told["accepted"], told["rejected"]) == (summary["total_accepts"], summary["total_rejects"])
        assert (told["calls"], told["tokens"], told["usd"]) == tuple(
            summary["spending"][name] for name in ("calls", "tokens", "usd")
        )
        assert told["skill_characters"]["best"] == len((folder / "best_skill.md").read_text())
        assert (told["claim"], told["policy"], told["status"]) == (summary["claim"], "strict", "finished")


def test_only_the_settings_that_differ_are_told(skillopt: Command, finished: Path, second: Path) -> None:
    found = skillopt("runs", str(finished), str(second), "--json").json["settings_that_differ"]
    assert found["train.batch_size"][1] == "12"
    assert set(found) <= {"train.batch_size", "train.num_epochs"}
    same = json.loads(skillopt("runs", str(finished), str(_copy(finished)), "--json").out)
    assert same["settings_that_differ"] == {}
    settings = json.loads(Path("copy/settings.json").read_text())
    settings["triggers"]["path"] = str(Path(settings["triggers"]["path"]).absolute())
    Path("copy/settings.json").write_text(json.dumps(settings))
    whole = skillopt("runs", str(finished), "copy", "--json").json
    assert whole["settings_that_differ"] == {}, "a path as it leads from here is no other path"


def test_the_table_is_for_people(skillopt: Command, finished: Path, second: Path) -> None:
    said = skillopt("runs", str(finished), str(second)).out
    for words in (
        "val best",
        "test best",
        "95 % interval",
        "accepted, rejected",
        "best skill",
        "cost",
        "$0.00",
        "train.batch_size",
    ):
        assert words in said
    for name in ("run: Simulated:", "short: Simulated:"):
        assert name in said
    assert "the best of several looks better than it is" in said


def test_an_unfinished_run_is_compared_as_far_as_it_went(skillopt: Command, finished: Path) -> None:
    begun = _copy(finished)
    lines = (begun / "events.jsonl").read_text().splitlines(keepends=True)
    (begun / "events.jsonl").write_text(lines[0])
    for name in ("summary.json", "settings.json"):
        (begun / name).unlink()
    told = skillopt("runs", str(finished), str(begun), "--json").json
    one = told["runs"][1]
    assert (one["status"], one["steps"], one["val"], one["test"], one["claim"]) == (
        "stopped",
        0,
        {"seed": None, "best": None},
        None,
        None,
    )
    assert any("without settings.json" in remark for remark in told["remarks"])
    said = skillopt("runs", str(finished), str(begun)).out
    assert "not measured" in said
    assert "no claim yet" in said


def test_runs_on_other_tasks_are_told_apart(skillopt: Command, finished: Path) -> None:
    folder = Path("other")
    small = ("env.train_cases=24", "env.val_cases=12", "env.test_cases=20", "train.num_epochs=1")
    assert skillopt("train quickstart --quiet --out_root", str(folder), "--cfg-options", *small).code == 0
    remarks = skillopt("runs", str(finished), "other", "--json").json["remarks"]
    assert any("The val tasks are not the same" in remark for remark in remarks)
    assert not any("The test tasks are not the same" in remark for remark in remarks)


def test_compare_takes_every_run_below_a_folder(skillopt: Command, finished: Path, second: Path) -> None:
    for name, folder in (("a", finished), ("b", second)):
        shutil.copytree(folder, Path("outputs") / name)
    assert [one["folder"] for one in skillopt("runs --compare --json").json["runs"]] == [
        "outputs/a",
        "outputs/b",
    ]
    assert len(skillopt("runs --json").json["runs"]) == 2


def _copy(folder: Path) -> Path:
    shutil.copytree(folder, Path("copy"))
    return Path("copy")
