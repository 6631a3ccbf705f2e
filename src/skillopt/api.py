"""The Python door: train a skill, evaluate skills, compare them, and what each gives back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from skillopt.aio import run_gently
from skillopt.benchmarks._rows import load_rows
from skillopt.benchmarks.own import OwnBenchmark, OwnSettings
from skillopt.build import open_run, prepare
from skillopt.build.comparison import Evaluated, Versus, comparisons
from skillopt.build.evaluation import Matrix, Target, eval_splits, evaluate, matrix
from skillopt.build.looking import Noted, looks_of, note_in
from skillopt.build.results import Missing
from skillopt.build.training import Result, train
from skillopt.config import Resolved, load
from skillopt.errors import UsageError
from skillopt.events import Sink
from skillopt.tasks.scorers import Scorer
from skillopt.tasks.task import Task

__all__ = [
    "Evaluated",
    "Matrix",
    "Missing",
    "Noted",
    "Result",
    "Target",
    "Versus",
    "aoptimize",
    "comparisons",
    "eval_splits",
    "evaluate",
    "looks_of",
    "matrix",
    "note_in",
    "optimize",
    "train",
]


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
    async with open_run(job, job.folder(Path.cwd()), sinks=[on_event] if on_event else []) as opened:
        return await train(opened)


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
