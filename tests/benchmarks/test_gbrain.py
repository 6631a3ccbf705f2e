"""The two gbrain seeds: their rows load as they are, a deficient skill scores nothing, and training repairs
it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from _loopback import Call, LoopbackProvider
from skillopt.benchmarks.own import OwnBenchmark, OwnSettings
from skillopt.config.load import load
from skillopt.run import open_run, prepare, train
from skillopt.tasks.rollout import Trajectory

BRIEF = "Ship it, in a small way first."
SECTION = "Close every brief with a section Key Risks and a line that states your confidence."
SHORT = "Keep the whole analysis under 1,000 characters, however many angles there are."
SEEDS = {"seed-missing-structure": SECTION, "seed-verbose": SHORT}


def target(call: Call) -> str:
    """A simulated writer that does what its skill says, and nothing more."""
    skill = call.text.partition("## How to answer")[0]
    if "Thorough Analyst" in skill:
        return (
            BRIEF
            if SHORT in skill
            else f"{BRIEF} " + "On the other hand, there is another side to this. " * 40
        )
    return f"{BRIEF}\n\n## Key Risks\n\n- Cost.\n\nConfidence: medium" if SECTION in skill else BRIEF


def scripted(fix: str) -> Callable[[Call], str]:
    """Target and optimizer; the optimizer learns from the feedback on train tasks, and from nothing else."""

    def answer(call: Call) -> str:
        if (call.place or "").startswith("rollout/"):
            return f"<answer>{target(call)}</answer>"
        assert "checks failed" in call.text
        assert "hd-0" not in call.text  # no held-out row reaches the optimizer
        return json.dumps(
            {"batch_size": 5, "patch": {"reasoning": "r", "edits": [{"op": "append", "content": fix}]}}
        )

    return answer


def settings(folder: Path) -> OwnSettings:
    return OwnSettings(
        data_path=folder / "benchmark.jsonl", test_path=folder / "held-out.jsonl", scorer="checks"
    )


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_rows_load_as_they_are_and_are_scored_by_their_checks(seed: str, test_data: Path) -> None:
    benchmark = OwnBenchmark(settings(test_data / "gbrain" / seed))
    assert len(benchmark.tasks("train")) + len(benchmark.tasks("val")) == 15
    assert [task.id for task in benchmark.tasks("test")] == [f"hd-00{n}" for n in range(1, 7)]
    for task in (*benchmark.tasks("train"), *benchmark.tasks("val"), *benchmark.tasks("test")):
        assert task.prompt.endswith(".")
        good = "Yes.\n\n**Key Risks**\n- one\n\nconfidence = low"
        bad = "Yes, because it pays. " * 60
        assert (
            await benchmark.score(task, Trajectory(messages=(), answer=good, calls=1, usage=None))
        ).hard == 1
        assert (
            await benchmark.score(task, Trajectory(messages=(), answer=bad, calls=1, usage=None))
        ).hard == 0


@pytest.mark.parametrize("seed", SEEDS)
async def test_training_takes_the_held_out_rows_from_nothing_to_all(
    seed: str, test_data: Path, tmp_path: Path
) -> None:
    folder = test_data / "gbrain" / seed
    async with LoopbackProvider(scripted(SEEDS[seed])) as provider:
        model = f"compatible:m@{provider.base_url}"
        options = [
            "env.name=own",
            f"env.data_path={folder / 'benchmark.jsonl'}",
            f"env.test_path={folder / 'held-out.jsonl'}",
        ]
        options += [
            "env.scorer=checks",
            f"env.skill_init={folder}",
            f"model.target={model}",
            f"model.optimizer={model}",
        ]
        options += ["train.num_epochs=1", "evaluation.repeats=1"]
        job = prepare(load(None, flags={}, options=options, environ={}, cwd=tmp_path))
        async with open_run(job, tmp_path / "run") as opened:
            result = await train(opened)
    assert (result.summary["baseline_test_hard"], result.summary["test_hard"]) == (0.0, 1.0)
    assert result.test is not None and result.test.n == 6
    assert SEEDS[seed] in result.best_skill
    # the frontmatter, byte for byte
    assert result.best_skill.startswith((folder / "SKILL.md").read_text().partition("\n# ")[0])


async def test_a_skill_that_transcribes_the_pattern_is_refused(test_data: Path, tmp_path: Path) -> None:
    folder = test_data / "gbrain" / "seed-missing-structure"
    cheat = r"End with ## Key Risks and a line that matches [Cc]onfidence\s*[:=]."
    async with LoopbackProvider(scripted(cheat)) as provider:
        model = f"compatible:m@{provider.base_url}"
        options = [
            "env.name=own",
            f"env.data_path={folder / 'benchmark.jsonl'}",
            "env.scorer=checks",
            f"env.skill_init={folder}",
        ]
        options += [
            f"model.target={model}",
            f"model.optimizer={model}",
            "train.strategy=paper",
            "train.num_epochs=1",
            "evaluation.repeats=1",
        ]
        job = prepare(load(None, flags={}, options=options, environ={}, cwd=tmp_path))
        async with open_run(job, tmp_path / "run") as opened:
            result = await train(opened)
    assert cheat not in result.best_skill
    (step,) = json.loads((tmp_path / "run" / "history.json").read_text())
    assert step["action"] == "reject"
    assert "source of a pattern" in step["why"]
