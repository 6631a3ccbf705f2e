"""A provider with a quota slows a run down and spoils nothing: no row is lost, and few calls are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from claims._product import (
    Event,
    LoopbackProvider,
    Quota,
    RunStatus,
    StageClosed,
    api,
    open_run,
    world_answers,
)
from claims.promises._runs import make_job, run

SIZES = (
    "env.train_cases=40",
    "env.val_cases=60",
    "env.test_cases=60",
    "train.batch_size=20",
    "train.num_epochs=1",
)


@pytest.mark.slow
async def test_under_a_quota_no_row_is_lost_and_few_calls_are_refused(tmp_path: Path) -> None:
    events: list[Event] = []
    told: set[str] = set()
    quota = Quota(requests_per_second=50, tokens_per_minute=400_000)
    async with LoopbackProvider(world_answers(), quota=quota) as provider:
        model = f"compatible:m@{provider.base_url}"
        job = make_job([f"model.target={model}", f"model.optimizer={model}", *SIZES])
        async with open_run(job, tmp_path / "run", sinks=[events.append]) as opened:
            status = RunStatus()
            status.slowed = opened.models.slowed
            opened.run.watch(lambda event: told.add(status.slowed()))
            await api.train(opened)
        statuses = [entry.status for entry in provider.log]
    rows = [row for event in events if isinstance(event, StageClosed) for row in event.rows]
    assert rows
    assert not [row for row in rows if row.invalid is not None]
    if 429 not in statuses:
        pytest.skip("this machine was too busy to ask more than the quota allows")
    assert set(statuses) == {200, 429}
    assert statuses.count(429) < 0.4 * statuses.count(200)
    assert any("at once" in text and "refused" in text for text in told)  # and whoever watches is told


@pytest.mark.slow
async def test_a_quota_changes_no_verdict(tmp_path: Path) -> None:
    skills = []
    for name, quota in (("free", None), ("limited", Quota(requests_per_second=60))):
        async with LoopbackProvider(world_answers(), quota=quota) as provider:
            model = f"compatible:m@{provider.base_url}"
            result = await run(
                make_job([f"model.target={model}", f"model.optimizer={model}", *SIZES]), tmp_path / name
            )
            skills.append((result.best_skill, result.summary["best_step"]))
    assert skills[0] == skills[1]
