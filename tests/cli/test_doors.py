"""The public scripts do what the commands do, from any folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
SMALL = [
    "--train_cases",
    "12",
    "--val_cases",
    "8",
    "--test_cases",
    "6",
    "--batch_size",
    "6",
    "--num_epochs",
    "1",
]
WORLD = ["--env", "world", "--target_model", "world", "--optimizer_model", "world"]


def run(script: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / script), *words]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, encoding="utf-8", timeout=100, check=False
    )


@pytest.mark.slow
def test_train_and_eval_only_work_from_another_folder(tmp_path: Path) -> None:
    trained = run("train.py", *WORLD, *SMALL, "--out_root", "run", "--json", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    assert json.loads(trained.stdout)["status"] == "finished"
    best = str(tmp_path / "run" / "best_skill.md")
    measured = run(
        "eval_only.py",
        *WORLD[:4],
        *SMALL[:6],
        "--skill",
        best,
        "--split",
        "valid_unseen",
        "--json",
        cwd=tmp_path,
    )
    assert measured.returncode == 0, measured.stderr
    assert json.loads(measured.stdout)["evaluations"][0]["split"] == "test"


@pytest.mark.slow
def test_a_packaged_configuration_is_found_by_its_public_path(tmp_path: Path) -> None:
    refused = run("train.py", "--config", "configs/searchqa/default.yaml", cwd=tmp_path)
    assert refused.returncode == 2
    assert "configs/searchqa" not in refused.stderr  # the file was found; what is missing is a key and data
    assert list(tmp_path.iterdir()) == []
