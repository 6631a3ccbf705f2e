"""A short simulated run with trackers, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skillopt.config.load import load
from skillopt.errors import Interrupted, Stopped
from skillopt.events import Checkpoint, Event, Notice
from skillopt.run import open_run, prepare, train

STEPS = 4


async def trained(folder: Path, *options: str, stop_after: int | None = None) -> list[Event]:
    """Train on the simulated world with these settings; every event of the session. `stop_after` interrupts
    after that step.
    """
    settings = [
        "env.name=world",
        "model.target=world",
        "model.optimizer=world",
        "env.train_cases=20",
        "env.val_cases=12",
        "env.test_cases=10",
    ]
    settings += ["train.batch_size=10", "train.num_epochs=2", "evaluation.repeats=1", *options]
    job = prepare(load(None, flags={}, options=settings, environ={}, cwd=folder.parent))
    events: list[Event] = []
    async with open_run(job, folder, sinks=[events.append]) as opened:

        def watch(event: Event) -> None:
            if isinstance(event, Checkpoint) and event.kind == "step" and event.state.step == stop_after:
                opened.stop(Interrupted("enough"))

        opened.run.watch(watch)
        try:
            await train(opened)
        except Stopped:
            assert stop_after is not None
    return events


def val_curve(events: list[Event]) -> dict[int, float]:
    """Step to best score, as the log has it."""
    return {
        int(e.state.step): e.state.best_score
        for e in events
        if isinstance(e, Checkpoint) and e.kind in ("baseline", "step")
    }


def warnings(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]


def facts(events: list[Event]) -> list[Any]:
    return [event for event in events if event.id is not None]
