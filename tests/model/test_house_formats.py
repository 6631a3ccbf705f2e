"""A real model really gets better: a whole `skillopt train` with two small models on this machine, judged on
the sealed test.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.model, pytest.mark.timeout(3 * 3600)]
EXAMPLE = Path(__file__).parents[2] / "examples" / "house-formats"
MINUTES = 30


def test_a_half_billion_parameter_model_answers_better_with_the_skill_that_was_trained(
    test_models: Path, tmp_path: Path
) -> None:
    target, optimizer = test_models / "qwen-0.5b.gguf", test_models / "qwen-1.5b.gguf"
    for path in (target, optimizer):
        if not path.exists():
            pytest.skip(f"SKILLOPT_TEST_MODELS holds no {path.name}")
    folder = tmp_path / "run"
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "skillopt",
                "train",
                "--config",
                str(EXAMPLE / "train.yaml"),
                "--out_root",
                str(folder),
                "--plain",
            ),
            *("--target_model", f"local:{target}", "--optimizer_model", f"local:{optimizer}"),
        ],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes = (spent.ru_utime + spent.ru_stime) / 60
    assert done.returncode == 0
    print(done.stdout)
    summary = json.loads((folder / "summary.json").read_text())
    comparison = summary["test"]["comparison"]
    kinds = {
        row["kind"]
        for row in map(json.loads, (EXAMPLE / "tasks" / "test" / "tasks.jsonl").read_text().splitlines())
    }
    print(
        f"{comparison['before']:.3f} to {comparison['after']:.3f} on {comparison['n']} tasks, p ="
        f" {comparison['p']:.2g}, {minutes:.1f} min of processor time"
    )
    assert summary["test"]["measured"]
    assert comparison["n"] >= 40
    assert len(kinds) >= 3
    assert comparison["after"] > comparison["before"]
    assert comparison["p"] < 0.05
    assert minutes <= MINUTES, f"it took {minutes:.1f} minutes of processor time"
