"""The person's own cache: scored rollouts that training runs share by themselves, without `cache.path`.

Only where a second asking would tell nothing new, and where names mean the same tomorrow: a chat with a model
that needs a key, at temperature 0. Draws of any other target stay independent from run to run, or two runs
that agree would prove nothing. What `eval`, `noise` and `check` measure is always measured anew.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from skillopt.files import caches_folder
from skillopt.run.job import Job

MB = 1_000_000


def cache_folder() -> Path:
    """Where the files of the cache lie, one for each service."""
    return caches_folder() / "rollouts"


def own_cache(job: Job) -> Path | None:
    """The file that a training run shares rollouts through by itself; None where it must not or may not."""
    config = job.config
    is_plain = all(
        spec.harness == "chat" and spec.model.temperature == 0 and spec.model.api_key is not None
        for spec in job.specs
    )
    if not (config.cache.shared and config.store.tasks and is_plain) or job.simulated or job.division.folds:
        return None
    asked = sorted({(spec.model.provider, spec.model.address or "") for spec in job.specs})
    return cache_folder() / f"{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]}.db"
