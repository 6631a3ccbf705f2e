"""Each door of the public quick start, as a real program against a real endpoint, does its job and leaves the
public files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from claims._product import Answer, Call, LoopbackProvider
from claims.commands._provider import RULE, answer, write_splits

ROOT = Path(__file__).parents[3]
SMALL = ("--num_epochs", "1", "--batch_size", "6", "--train_size", "6")
KEY = "azure-key-of-the-test"


@pytest.fixture
def asked() -> dict[str, set[str]]:
    """The models that were asked, by what for: `rollout` or an epoch of training."""
    return {}


@pytest.fixture
def provider(asked: dict[str, set[str]]) -> Iterator[LoopbackProvider]:
    def answering(call: Call) -> Answer:
        asked.setdefault(str(call.place).partition("/")[0], set()).add(call.body["model"])
        return answer(call)

    with LoopbackProvider.in_thread(answering) as provider:
        yield provider


@pytest.fixture
def splits(tmp_path: Path) -> Path:
    return write_splits(tmp_path / "data" / "searchqa_split")


def door(*words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program in an environment without credentials but those given."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        words, cwd=cwd, env=env, capture_output=True, text=True, encoding="utf-8", timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def check_trained(run: Path, said: str) -> None:
    """What a training run leaves, whichever door it came through."""
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert RULE in (run / "best_skill.md").read_text(encoding="utf-8")
    assert (summary["baseline_test_hard"], summary["test_hard"]) == (0, 1)
    assert json.loads((run / "history.json").read_text(encoding="utf-8"))[0]["action"] == "accept_new_best"
    assert (run / "skills" / "skill_v0001.md").is_file()
    assert (
        KEY
        not in "".join(path.read_text(encoding="utf-8", errors="replace") for path in run.rglob("*.json*"))
        + said
    )


def azure(provider: LoopbackProvider) -> tuple[str, ...]:
    return ("--azure_openai_endpoint", provider.base_url, "--azure_openai_auth_mode", "openai_compatible")


@pytest.mark.slow
def test_scripts_train_and_eval_only(
    provider: LoopbackProvider, asked: dict[str, set[str]], splits: Path, tmp_path: Path
) -> None:
    trained = door(
        *(sys.executable, str(ROOT / "scripts" / "train.py"), "--config", "configs/searchqa/default.yaml"),
        *(
            "--split_dir",
            "data/searchqa_split",
            *azure(provider),
            "--optimizer_model",
            "opt",
            "--target_model",
            "tgt",
        ),
        *(*SMALL, "--out_root", "outputs/run"),
        cwd=tmp_path,
        AZURE_OPENAI_API_KEY=KEY,
    )
    check_trained(tmp_path / "outputs" / "run", trained.stdout + trained.stderr)
    assert asked == {"rollout": {"tgt"}, "e1": {"opt"}}
    for split, meant in (("valid_unseen", ["test"]), ("all", ["train", "val", "test"])):
        measured = door(
            *(
                sys.executable,
                str(ROOT / "scripts" / "eval_only.py"),
                "--config",
                "configs/searchqa/default.yaml",
            ),
            *(
                "--skill",
                "outputs/run/best_skill.md",
                "--split",
                split,
                "--split_dir",
                "data/searchqa_split",
                *azure(provider),
            ),
            *("--target_model", "tgt", "--out_root", f"outputs/eval-{split}", "--json"),
            cwd=tmp_path,
            AZURE_OPENAI_API_KEY=KEY,
        )
        found = json.loads(measured.stdout)["evaluations"]
        assert [(one["split"], one["hard"], one["n"]) for one in found] == [(name, 1.0, 6) for name in meant]
        assert (tmp_path / "outputs" / f"eval-{split}" / "eval_summary.json").is_file()
        assert len(
            (tmp_path / "outputs" / f"eval-{split}" / "results.jsonl").read_text().splitlines()
        ) == 6 * len(meant)


@pytest.mark.slow
def test_the_installed_programs_skillopt_train_and_skillopt_eval(
    provider: LoopbackProvider, splits: Path, tmp_path: Path
) -> None:
    programs = Path(sys.executable).parent
    if not (programs / "skillopt-train").exists():
        pytest.skip("the programs are not installed beside this Python")
    variables = {"OPENAI_COMPATIBLE_BASE_URL": provider.base_url, "OPENAI_COMPATIBLE_API_KEY": KEY}
    common = (
        "--config",
        "searchqa",
        "--backend",
        "openai_compatible",
        "--split_dir",
        str(splits),
        "--target_model",
        "tgt",
    )
    trained = door(
        str(programs / "skillopt-train"),
        *common,
        "--optimizer_model",
        "opt",
        *SMALL,
        "--out_root",
        "run",
        cwd=tmp_path,
        **variables,
    )
    check_trained(tmp_path / "run", trained.stdout + trained.stderr)
    measured = door(
        *(
            str(programs / "skillopt-eval"),
            *common,
            "--skill",
            "run/best_skill.md",
            "--split",
            "test",
            "--json",
        ),
        cwd=tmp_path,
        **variables,
    )
    assert json.loads(measured.stdout)["evaluations"][0]["hard"] == 1.0


@pytest.mark.slow
def test_the_short_flat_file_of_skillopt_run(
    provider: LoopbackProvider, splits: Path, tmp_path: Path
) -> None:
    (tmp_path / "seed.md").write_text("# Seed\n\nBe kind.\n", encoding="utf-8")
    (tmp_path / "config.yaml").write_text(
        f"""
task: searchqa
target_model: compatible:tgt@{provider.base_url}
optimizer_model: compatible:opt@{provider.base_url}
seed_skill: seed.md
epochs: 1
batch_size: 3
minibatch_size: 2
learning_rate: 3
lr_min: 1
n_workers: 4
split_dir: {splits}
out_root: run
""",
        encoding="utf-8",
    )
    trained = door(sys.executable, "-m", "skillopt.run", "--config", "config.yaml", cwd=tmp_path)
    check_trained(tmp_path / "run", trained.stdout + trained.stderr)
    used = json.loads((tmp_path / "run" / "settings.json").read_text(encoding="utf-8"))
    assert (
        used["env"]["name"],
        used["env"]["workers"],
        used["train"]["num_epochs"],
        used["train"]["batch_size"],
    ) == ("searchqa", 4, 1, 3)
    assert used["gradient"]["minibatch_size"] == 2
    assert (used["optimizer"]["learning_rate"], used["optimizer"]["min_learning_rate"]) == (3, 1)
    assert "Be kind." in (tmp_path / "run" / "best_skill.md").read_text(encoding="utf-8")
