"""How fast a training run is: wall clock against the best schedule of its own calls, client CPU, and what
curtailment saves.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import sqlite3
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

import _profile
from _provider import Latency, Logged, Served, serving
from _script import OPTIMIZER, TARGET, CallGraph, Reader, Script, Step
from skillopt.config.load import load
from skillopt.events import Event
from skillopt.run import evaluate, open_run, prepare, train

MOMENTS = {
    "reflect": "rollout and reflect",
    "aggregate": "merge",
    "select": "select",
    "verdict": "gate",
    "ended": "epoch end",
    "test": "test",
}
"""What each kind of milestone closes, as the table names it."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = {
        "train": 200,
        "val": 100,
        "test": 200,
        "batch": 40,
        "epochs": 2,
        "workers": 24,
        "analysts": 16,
        "seed": 0,
    }
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=size, help="default %(default)s")
    parser.add_argument(
        "--target-ms", type=float, default=80.0, help="mean latency of a rollout's call (default %(default)s)"
    )
    parser.add_argument(
        "--optimizer-ms",
        type=float,
        default=400.0,
        help="mean latency of an optimizer call (default %(default)s)",
    )
    parser.add_argument(
        "--tails", type=float, default=0.0, help="share of calls 8 times as slow (default %(default)s)"
    )
    parser.add_argument("--hedge", choices=("auto", "off"), default="auto", help="default %(default)s")
    parser.add_argument(
        "--profile", action="store_true", help="also print where the client's CPU goes (slows the run down)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    profile = cProfile.Profile() if arguments.profile else None
    figures = asyncio.run(measure(arguments, profile))
    if arguments.json:
        print(json.dumps(figures, indent=2))
    else:
        show(figures)
    if profile is not None:
        _profile.show(profile)


async def measure(arguments: argparse.Namespace, profile: cProfile.Profile | None) -> dict[str, Any]:
    """One training run against a provider in another process, and everything that can be read from it."""
    latency = Latency(
        seed=arguments.seed,
        target=arguments.target_ms / 1000,
        optimizer=arguments.optimizer_ms / 1000,
        tails=arguments.tails,
    )
    events: list[tuple[float, Event]] = []
    with tempfile.TemporaryDirectory(prefix="skillopt-perf-") as folder, serving(latency) as served:
        job = prepare(
            load(None, flags={}, options=_options(arguments, served.base_url), environ={}, cwd=Path(folder))
        )
        before = time.monotonic()
        # Opens the client library once, outside of what is measured; its cost is printed apart.
        warm = prepare(
            load(
                None,
                flags={},
                options=[*_options(arguments, served.base_url), "env.val_cases=1"],
                environ={},
                cwd=Path(folder),
            )
        )
        await evaluate(warm, {"seed": warm.skill}, ["val"], Path(folder) / "warm")
        opening = time.monotonic() - before
        statements = _traced()
        async with open_run(job, Path(folder) / "run") as opened:
            opened.run.watch(lambda event: events.append((time.monotonic(), event)))
            statements.clear()
            started, cpu = time.monotonic(), time.process_time()
            if profile is not None:
                profile.enable()
            await train(opened)
            if profile is not None:
                profile.disable()
            wall, cpu = time.monotonic() - started, time.process_time() - cpu
            asked = len(statements)
            script = Reader(opened, [event for _, event in events]).script()
    served.log = tuple(entry for entry in served.log if entry.started >= started)
    return {
        "simulated": True,
        "opening_s": opening,
        **_speed(script, served, latency, events, started, wall),
        **_costs(script, served, cpu),
        "sql_per_call": asked / len(served.log),
    }


def _traced() -> list[int]:
    """Grows by one with every statement of SQL on connections that are opened from now on."""
    statements: list[int] = []
    connect = sqlite3.connect

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_trace_callback(lambda statement: statements.append(1))
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]
    return statements


def _options(arguments: argparse.Namespace, base_url: str) -> list[str]:
    model = f"compatible:m@{base_url}"
    return [
        "env.name=world",
        f"env.train_cases={arguments.train}",
        f"env.val_cases={arguments.val}",
        f"env.test_cases={arguments.test}",
        f"env.world_seed={arguments.seed}",
        f"env.workers={arguments.workers}",
        f"gradient.analyst_workers={arguments.analysts}",
        f"train.batch_size={arguments.batch}",
        f"train.num_epochs={arguments.epochs}",
        f"model.target={model}",
        f"model.optimizer={model}",
        "optimizer.salvage=false",  # the graph of the calls knows one candidate a step
        f"model.target.hedge={arguments.hedge}",
        f"model.optimizer.hedge={arguments.hedge}",
    ]


def _speed(
    script: Script,
    served: Served,
    latency: Latency,
    events: list[tuple[float, Event]],
    started: float,
    wall: float,
) -> dict[str, Any]:
    """Wall clock against the schedule, as a whole and per stage."""
    entries: dict[str, list[Logged]] = {}
    for entry in served.log:
        entries.setdefault(str(entry.place), []).append(entry)
    # A call that was asked twice took as long as its first reply was waited for.
    calls = {
        place: latency.of(place, asked[0].draw or 0)
        if len(asked) == 1
        else min(entry.ended or entry.started for entry in asked) - asked[0].started
        for place, asked in entries.items()
    }
    once = [asked[0] for asked in entries.values() if len(asked) == 1]
    built = CallGraph(script, calls)
    if built.unplaced:
        raise RuntimeError(
            f"{len(built.unplaced)} calls have no place in the graph, such as {min(built.unplaced)}"
        )
    ends = built.graph.schedule({TARGET: script.workers, OPTIMIZER: script.analysts})
    stages: dict[str, list[float]] = {"baseline": [0.0, 0.0]}
    before = (started, 0.0)
    for at, event in events:
        name = (
            "baseline"
            if event.id == "baseline/baseline"
            else "test"
            if event.id and event.id.startswith("test/")
            else str(event.id)
        )
        if name in built.graph.milestones and name != "start":
            now = (at, max(before[1], ends[built.graph.milestones[name]]))
            stage = stages.setdefault(MOMENTS.get(name.rpartition("/")[2], "baseline"), [0.0, 0.0])
            stage[0] += now[0] - before[0]
            stage[1] += now[1] - before[1]
            before = now
        elif event.id and event.id.endswith(("/step", "/epoch", "/finish", "/baseline")):
            stage = stages.setdefault("writing", [0.0, 0.0])
            stage[0] += at - before[0]
            before = (at, before[1])
    stages.setdefault("writing", [0.0, 0.0])[0] += started + wall - before[0]
    path = max(ends)
    return {
        "wall_s": wall,
        "critical_path_s": path,
        "ratio": wall / path,
        "calls": len(served.log),
        "hedges": len(served.log) - len(entries),
        "tokens": sum(entry.input_tokens + entry.output_tokens for entry in served.log),
        "mean_in_flight": sum((entry.ended or entry.started) - entry.started for entry in served.log) / wall,
        "held_longer_ms": (
            1000
            * mean((entry.ended or entry.started) - entry.started - calls[str(entry.place)] for entry in once)
        ),
        "max_in_flight": max(entry.in_flight for entry in served.log),
        "stages": {name: {"wall_s": spent, "ideal_s": ideal} for name, (spent, ideal) in stages.items()},
    }


def _costs(script: Script, served: Served, cpu: float) -> dict[str, Any]:
    """CPU, curtailment and tokens."""
    sent = {
        str(entry.place).split("/")[1].partition(".")[0]
        for entry in served.log
        if str(entry.place).startswith("rollout/")
    }
    candidates = {window.candidate: window for window in script.gates}
    full = {key for window in script.gates for key in window.keys}
    reflections = [entry for entry in served.log if "/analyst_" in str(entry.place)]
    skill = {part.place: part.skill_bytes / 4 for part in script.parts if isinstance(part, Step)}
    shares = [skill[str(entry.place).rsplit("/", 3)[0]] / entry.input_tokens for entry in reflections]
    return {
        "rollouts": len(sent),
        "cpu_s": cpu,
        "cpu_ms_per_rollout": 1000 * cpu / len(sent),
        "provider_cpu_s": served.cpu,
        "gate_candidates": len(candidates),
        "gate_rows_full": len(full),
        "gate_rows_sent": len(full & sent),
        "gate_rejected": sum(window.rejected for window in candidates.values()),
        "gate_rejected_rows_read": sum(window.used for window in candidates.values() if window.rejected),
        "reflections": len(reflections),
        "reflection_tokens_mean": mean(entry.input_tokens for entry in reflections),
        "reflection_tokens_max": max(entry.input_tokens for entry in reflections),
        "reflection_output_tokens_mean": mean(entry.output_tokens for entry in reflections),
        "reflection_skill_share": mean(shares),
    }


def show(figures: dict[str, Any]) -> None:
    """The figures for a person."""
    full, sent = figures["gate_rows_full"], figures["gate_rows_sent"]
    print(
        f"Training on the simulated world over loopback HTTP: {figures['calls']} calls, {figures['rollouts']}"
        f" rollouts, {figures['max_in_flight']} in flight at most, {figures['mean_in_flight']:.1f} on average,"
        f" {figures['tokens']:,} tokens, {figures['hedges']} calls asked twice"
        f" ({figures['hedges'] / figures['calls']:.1%})\n\nwall clock / critical path  "
        f" {figures['ratio']:.2f}   ({figures['wall_s']:.1f} s / {figures['critical_path_s']:.1f} s; aim"
        f" 1.3)\nclient CPU per rollout       {figures['cpu_ms_per_rollout']:.2f} ms  "
        f" ({figures['cpu_s']:.1f} s; aim 2.5 ms)\nSQL statements per call      "
        f"{figures['sql_per_call']:.2f}   (aim 5)\ngate rollouts saved          {full - sent} of {full}  "
        f" ({1 - sent / max(1, full):.0%}; {figures['gate_rejected']} of {figures['gate_candidates']}"
        f" candidates were rejected, on {figures['gate_rejected_rows_read']} rows read)\ntokens per"
        f" reflection call   {figures['reflection_tokens_mean']:.0f} on average,"
        f" {figures['reflection_tokens_max']} at most, {figures['reflection_skill_share']:.0%} of it the"
        f" skill   ({figures['reflections']} calls, {figures['reflection_output_tokens_mean']:.0f} tokens"
        f" answered)\n\n{'stage':<22}{'wall':>9}{'ideal':>9}{'lost':>9}"
    )
    for name, stage in figures["stages"].items():
        spent, ideal = stage["wall_s"], stage["ideal_s"]
        print(f"{name:<22}{spent:>7.2f} s{ideal:>7.2f} s{spent - ideal:>7.2f} s")
    print(
        f"\nThe provider held a call {figures['held_longer_ms']:.1f} ms longer than its latency on average"
        f" and used {figures['provider_cpu_s']:.1f} s of CPU.\nOpening the client library took"
        f" {figures['opening_s']:.1f} s, once, and is not counted."
    )


if __name__ == "__main__":
    main()
