"""A run that trains a folder keeps the promises of one that trains a document."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from claims._product import SEED_SKILL, Document, LoopbackProvider, seeded_latency, world_answers
from claims.promises._runs import assert_same_run, committed, contents, in_world, make_job, run, start_process
from claims.promises.test_quick import SMALL, STRATEGIES


@pytest.mark.slow
@STRATEGIES
def test_a_folder_that_was_killed_in_training_goes_on_to_the_same_files(
    strategy: str, tmp_path: Path
) -> None:
    house = tmp_path / "house"
    (house / "references").mkdir(parents=True)
    (house / "SKILL.md").write_text(SEED_SKILL)
    (house / "references" / "dates.md").write_text("# Dates\n")
    with LoopbackProvider.in_thread(world_answers(), latency=seeded_latency(1, 0.01, 0.03)) as provider:
        options = in_world(
            f"compatible:m@{provider.base_url}",
            *SMALL,
            strategy,
            f"env.skill_init={house}",
            *("env.train_cases=24", "env.val_cases=20", "train.batch_size=12", "train.num_epochs=2"),
        )
        undisturbed = asyncio.run(run(make_job(options), tmp_path / "undisturbed"))
        assert [path for path in undisturbed.best_files if path != "references/dates.md"], "a file was made"
        moment = provider.calls + (provider.calls * 2) // 3
        process = start_process(tmp_path / "killed", options)
        while provider.calls < moment and process.poll() is None:
            time.sleep(0.002)
        process.kill()
        _, told = process.communicate()
        assert process.returncode == -signal.SIGKILL, told
        kept, sent = committed(tmp_path / "killed"), provider.calls
        resumed = asyncio.run(run(make_job(options), tmp_path / "killed"))
        assert kept and not [one for one in provider.log[sent:] if (one.place, one.draw) in kept]
    assert_same_run(tmp_path / "killed", tmp_path / "undisturbed")
    assert resumed.best_files == undisturbed.best_files
    folders = [contents(tmp_path / name / "best_skill") for name in ("killed", "undisturbed")]
    assert folders[0] == folders[1]
    assert Document.of((tmp_path / "killed/skills/skill_v0001.md").read_text()).files
