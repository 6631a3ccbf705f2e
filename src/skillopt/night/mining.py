"""Mining with the optimizer: decides what it may spend, where replies are kept, and that a stopped night asks
nothing twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from skillopt.build import open_run
from skillopt.changes.proposal import Cost
from skillopt.evaluate.judge import ModelJudge
from skillopt.night.job import job_of
from skillopt.night.mine import Mined, MineSettings, mine
from skillopt.night.roles import Roles
from skillopt.night.settings import SleepSettings
from skillopt.night.tonight import Group, PinnedTask
from skillopt.tasks.task import Split
from skillopt.transcripts.session import Session

SHARE = 4
"""Mining may use one part in so many of tonight's allowance: what it finds has to be trained on afterwards.
"""


async def mined_by_model(
    sessions: Sequence[Session],
    plan: MineSettings,
    *,
    settings: SleepSettings,
    roles: Roles,
    folder: Path,
    rollouts: Path,
    environ: Mapping[str, str],
    cwd: Path,
) -> tuple[Mined, Cost]:
    """What the sessions hold, with the optimizer asked about every kind that recurs; and what that cost.

    Its calls pass the same stack as those of a run, in a folder of their own below `folder`: recorded before
    they are used, limited, within their share of the allowance. Raises what stops a run, and before anything
    is paid what would stop the night's training.
    """
    job = job_of(
        _NO_SKILL,
        settings,
        roles,
        advice="",
        spent=Cost(),
        rollouts=rollouts,
        environ=environ,
        cwd=cwd,
        share=SHARE,
    )
    assert job.judge is not None, "its tasks have rubrics"
    identity = {"mining": 1, **job.config.identity()}
    # Other models or settings ask otherwise: their replies lie in a folder of their own.
    name = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:10]
    async with open_run(job, folder / f"mining-{name}", identity) as opened:
        judge = ModelJudge(
            opened.models.of("judge", job.judge),
            max_tokens=job.judge.max_tokens,
            stage="mine",
        )
        model = opened.models.of("optimizer", job.optimizer)
        try:
            mined = await mine(sessions, model=model, judge=judge, settings=plan)
        finally:
            await opened.drain()  # what is paid is kept
        paid = opened.spending()
        return mined, Cost(
            calls=paid["calls"],
            tokens=paid["tokens"],
            dollars=paid["usd"],
            minutes=round(opened.seconds / 60, 2),
        )


def _never_asked(split: Split) -> PinnedTask:
    return PinnedTask(
        id=split, kind="", prompt=split, split=split, reference={"rubric": "It is never asked."}, sessions=()
    )


_NO_SKILL = Group(
    name="mining", path="", before=None, seed="", tasks=(_never_asked("train"), _never_asked("val"))
)
"""A run is opened for a job, and a job has tasks; mining rolls none of them out."""
