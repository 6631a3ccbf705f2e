"""Trains a skill to the end and says what came of it; `optimize` is the whole way from a file of tasks to the
result.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillopt.aio import run_gently
from skillopt.benchmarks._rows import load_rows
from skillopt.benchmarks.own import OwnBenchmark, OwnSettings
from skillopt.build import Engine, prepare
from skillopt.config import Resolved, load
from skillopt.errors import UsageError
from skillopt.evaluate.compare import Comparison
from skillopt.events import Sink
from skillopt.files import write_json
from skillopt.skill.folder import copy_skill
from skillopt.tasks.scorers import Scorer
from skillopt.tasks.task import Task
from skillopt.train.exam import claim
from skillopt.train.summary import summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What training gave. `status` is "finished", or "budget" when the budget ended it first."""

    best_skill: str
    """The text of the best skill, as it is written to `best_skill.md`."""
    folder: Path
    status: str
    claim: str
    """One sentence that says no more than was measured."""
    test: Comparison | None
    """Best against seed on the sealed test split; None where it was not measured."""
    summary: Mapping[str, Any] = field(repr=False)
    """What `summary.json` holds."""


async def train(engine: Engine) -> Result:
    """Run an assembled engine to the end and write `summary.json`."""
    fitted = await engine.fit()
    job, trainer, state = engine.job, engine.trainer, fitted.state
    seed, best, last = (engine.run.skills.get(one) for one in (state.seed, state.best, state.skill))
    status = "budget" if fitted.ended_early else "finished"
    sentence = claim(
        fitted.report,
        changed=best.rendered != seed.rendered,
        simulated=job.simulated,
        verified=trainer.gate.verified,
        ungated=trainer.ungated,
    )
    figures = summary(
        state,
        engine.run.steps(),
        seed=trainer.measured(seed),
        best=trainer.measured(best),
        final=None if state.score is None else trainer.measured(last),
        config=job.settings,
        gate=trainer.gate,
        ungated=trainer.ungated,
        report=fitted.report,
        claim=sentence,
        status=status,
        simulated=job.simulated,
        spending=engine.spending(),
        seconds=engine.seconds,
    )
    if fitted.stopped:
        figures["stopped_because"] = fitted.stopped
    if fitted.ended_early:
        figures["ended_early"] = fitted.ended_early
    write_json(engine.folder / "summary.json", job.scrubber.scrub_json(figures))
    if (
        job.seed.folder is not None
    ):  # references/ and scripts/ are carried along, so that the folder can be used as it is
        whole = engine.folder / "best_skill" / job.seed.name
        shutil.rmtree(whole, ignore_errors=True)
        copy_skill(job.seed, best.rendered, whole)
    return Result(
        best_skill=best.rendered,
        folder=engine.folder,
        status=status,
        claim=sentence,
        test=fitted.report.comparison,
        summary=figures,
    )


async def aoptimize(
    *,
    skill: str | Path,
    tasks: str | Path | Sequence[Task | Mapping[str, Any]] | Mapping[str, Sequence[Task | Mapping[str, Any]]],
    scorer: str | Callable[..., Any] | Scorer = "exact_match",
    target: str,
    optimizer: str,
    budget: str | None = None,
    out: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    on_event: Sink | None = None,
) -> Result:
    """Train a skill on your own tasks; the async twin of `optimize`."""
    flags: dict[str, object] = {
        "env": "own",
        "target_model": target,
        "optimizer_model": optimizer,
        "skill_init": str(skill),
    }
    flags |= {"out_root": None if out is None else str(out), "budget": budget}
    settings = [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in (options or {}).items()
    ]
    is_file = isinstance(tasks, (str, Path))
    if is_file:
        flags["data_path"] = str(tasks)
    if isinstance(scorer, str):
        settings.append(f"env.scorer={scorer}")
    resolved = load(None, flags=flags, options=settings, environ=os.environ, cwd=Path.cwd())
    benchmark: OwnBenchmark | None = None
    if not is_file or not isinstance(scorer, str):
        rows = [row.data for row in load_rows(Path(tasks))] if isinstance(tasks, (str, Path)) else tasks
        benchmark = OwnBenchmark.from_tasks(rows, scorer=scorer, settings=_own(resolved))
    job = prepare(resolved, benchmark=benchmark)
    async with Engine(job, job.folder(Path.cwd()), sinks=[on_event] if on_event else []) as engine:
        return await train(engine)


def optimize(
    *,
    skill: str | Path,
    tasks: str | Path | Sequence[Task | Mapping[str, Any]] | Mapping[str, Sequence[Task | Mapping[str, Any]]],
    scorer: str | Callable[..., Any] | Scorer = "exact_match",
    target: str,
    optimizer: str,
    budget: str | None = None,
    out: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    on_event: Sink | None = None,
) -> Result:
    """Train a skill on your own tasks and return the result.

    `skill` is a folder with SKILL.md or one .md file; `tasks` a JSONL, JSON or CSV file, rows, or rows by
    split; `scorer` a name, a function `(task, answer) -> bool | float | Score`, or a command; `target` and
    `optimizer` are model strings such as
    `openai:gpt-5.4-mini`; `budget` reads like "$2", "200k tokens" or "500 calls"; `out` is the run folder,
    and calling again with the same arguments resumes; `options` are dotted configuration keys such as
    {"train.num_epochs": 2}; `on_event` hears every event. Inside a running event loop use `aoptimize`.
    """
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise UsageError(
            "skillopt.optimize starts an event loop, and one is running here. Use: await"
            " skillopt.aoptimize(...)"
        )
    return run_gently(
        aoptimize(
            skill=skill,
            tasks=tasks,
            scorer=scorer,
            target=target,
            optimizer=optimizer,
            budget=budget,
            out=out,
            options=options,
            on_event=on_event,
        )
    )


def _own(resolved: Resolved) -> OwnSettings | None:
    settings = resolved.config.env.settings
    return settings if isinstance(settings, OwnSettings) else None
