"""Small runs of the simulated world behind a provider, with some stages scripted, and everything that was
asked, said and left behind.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claims._product import (
    FAMILIES,
    HARMFUL,
    Answer,
    Benchmark,
    Call,
    Checkpoint,
    Document,
    Event,
    Interrupted,
    Job,
    LoopbackProvider,
    Misbehaviour,
    Retry,
    State,
    StoredTexts,
    WorldRules,
    api,
    open_run,
    world_answers,
)
from claims.promises._runs import make_job

QUIET = WorldRules(noise=0.0, harm=0.0)
"""A simulated world in which an answer depends on skill and case alone, and no proposal does harm."""
SIZES = {
    "env.train_cases": 16,
    "env.val_cases": 12,
    "env.test_cases": 5,
    "train.batch_size": 8,
    "train.num_epochs": 2,
}
SIZES |= {"gradient.minibatch_size": 4, "evaluation.repeats": 1}
QUICK = Retry(attempts=3, seconds=5.0, first_delay=0.01, longest_delay=0.05)
GOOD = [rule for pair in FAMILIES.values() for rule in pair]
BAD = list(HARMFUL)

Script = Mapping[str, Callable[[Call], "str | Answer"]]
"""Stage to what is answered there instead of what the simulated world says."""


def stage_of(call: Call) -> str:
    """The stage a call belongs to; every rollout, whatever it is for, is `rollout`."""
    place = call.place or ""
    return "rollout" if place.startswith("rollout/") else place.rsplit("/", 3)[1]


def case_of(call: Call) -> str:
    """The case that a rollout is about; W003... is val, W006... is test."""
    return re.findall(r"\bW\d{6}\b", call.text)[-1]


def root_of(call: Call) -> str:
    """The step or epoch end that asks the optimizer, as `e1/s2`."""
    return (call.place or "").rsplit("/", 3)[0]


def edits(*proposed: Mapping[str, Any], notes: Any = None) -> str:
    """What an analyst answers."""
    said = {
        "batch_size": 1,
        "failure_summary": [],
        "success_patterns": [],
        "patch": {"reasoning": "", "edits": list(proposed)},
    }
    return json.dumps(said if notes is None else {**said, "appendix_notes": notes})


def rule(text: str) -> dict[str, Any]:
    """An edit that adds a rule at the end."""
    return {"op": "append", "content": f"- {text}"}


def next_rules(call: Call) -> str:
    """What an analyst or a merge answers when each step adds two more good rules."""
    step = int(root_of(call).partition("/s")[2])
    found = [rule(text) for text in GOOD[2 * step - 2 : 2 * step]]
    return json.dumps({"edits": found}) if stage_of(call) == "merge" else edits(*found)


LEARNING: Script = {
    "analyst_failure": next_rules,
    "analyst_success": lambda call: edits(),
    "merge": next_rules,
}
"""Every step adds two good rules: on a val set of some size every one of them is accepted."""


@dataclass
class Told:
    """A run, and all that was asked in it."""

    folder: Path
    events: list[Event] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    result: api.Result | None = None
    rules: WorldRules = QUIET
    script: Script = field(default_factory=dict)

    def answer(self, call: Call) -> str | Answer:
        """What the provider of this run says."""
        self.calls.append(call)
        scripted = self.script.get(stage_of(call))
        return world_answers(self.rules)(call) if scripted is None else scripted(call)

    def asked(self, stage: str, root: str = "") -> list[Call]:
        return [
            call for call in self.calls if stage_of(call) == stage and (not root or root_of(call) == root)
        ]

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def skill(self, digest: str) -> Document:
        """A skill that an event names."""
        return Document(StoredTexts(self.folder / "run.db")(digest) or "")

    def states(self, kind: str) -> list[State]:
        """The state at each checkpoint of a kind."""
        return [event.state for event in self.of(Checkpoint) if event.kind == kind]

    def json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))

    @property
    def steps(self) -> list[dict[str, Any]]:
        return list(self.json("history.json"))

    @property
    def summary(self) -> dict[str, Any]:
        return dict(self.json("summary.json"))


def job_of(
    provider: LoopbackProvider,
    settings: Mapping[str, Any] | None = None,
    *,
    benchmark: Benchmark | None = None,
) -> Job:
    """A small job of both roles against a provider; dotted settings, `__` for the dot."""
    model = f"compatible:m@{provider.base_url}"
    given = {"model.target": model, "model.optimizer": model, **SIZES}
    given |= {name.replace("__", "."): value for name, value in (settings or {}).items()}
    options = [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in given.items()
    ]
    return make_job(options, benchmark=benchmark)


async def run(
    folder: Path,
    script: Script | None = None,
    *,
    rules: WorldRules = QUIET,
    behave: Callable[[Call], Misbehaviour | None] | None = None,
    benchmark: Benchmark | None = None,
    until: Callable[[Event], bool] = lambda event: False,
    **settings: Any,
) -> Told:
    """Train against the simulated world, some stages scripted, to the end or `until` an event at which the
    run is asked to stop.
    """
    told = Told(folder, rules=rules, script=script or {})
    async with LoopbackProvider(told.answer, behave=behave) as provider:
        job = job_of(provider, settings, benchmark=benchmark)
        async with open_run(job, folder, sinks=[told.events.append], retry=QUICK) as opened:
            opened.run.watch(
                lambda event: opened.stop(Interrupted("stopped by the test")) if until(event) else None
            )
            with contextlib.suppress(Interrupted):
                told.result = await api.train(opened)
    return told
