"""Writes the folder of a long run - thousands of events and tasks - without running it: what a reader must
stay quick on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from runs._log import TEXTS, kept, started, state, step
from skillopt.events import (
    Aggregated,
    Checkpoint,
    Event,
    Minibatch,
    Row,
    Selected,
    StageClosed,
    Updated,
)
from skillopt.events.state import State
from skillopt.messages import Usage
from skillopt.money import Amount
from skillopt.runs.database import Database
from skillopt.skill.edits import parse_edit

ACCEPTED_EVERY = 200
SEED = "# Rules\n\n" + "".join(f"- Rule {number} of the house, in a few words.\n" for number in range(40))


def big_run(folder: Path, *, steps: int = 1250, tasks: int = 5000, calls: int = 5000) -> int:
    """A run at work: its log, its ledger, its configuration. Returns the number of events."""
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(
        json.dumps({"train": {"num_epochs": 1, "batch_size": 8}, "evaluation": {"use_gate": True}})
    )
    count = 0
    with (folder / "events.jsonl").open("w", encoding="utf-8") as log:
        for event in events(steps, tasks):
            log.write(event.model_dump_json() + "\n")
            count += 1
    database = Database(folder / "run.db")
    database._db.execute("BEGIN")
    for number in range(calls):
        entry = database.open("target", "selection", f"rollout/k{number}.0/0", Amount(calls=1, tokens=500))
        database.close(
            entry, "settled", Amount(calls=1, tokens=300), Usage(input_tokens=290, output_tokens=10)
        )
    database._db.execute("COMMIT")
    database.shut()
    keep_texts(folder)
    return count


def step_events(before: State, tasks: int, *, accepted: bool) -> Iterator[Event]:
    """The step after a state; its checkpoint is the last event."""
    number = before.step + 1
    place, rule = f"e1/s{number}", f"- Rule of step {number}.\n"
    said = {"op": "append", "content": rule.strip(), "source_type": "failure", "support_count": 2}
    edit = parse_edit(said, f"{place}/analyst_failure/0#0")
    train, passed = rows(f"train-{number}", 8, 4, prefix="T"), int(tasks * 0.4) + number
    score, text = passed / tasks, TEXTS[before.skill] + rule
    patch = Minibatch(
        kind="failure",
        index=0,
        tasks=[row.task for row in train],
        edits=[edit],
        summary=[{"failure_type": "x"}],
    )
    after = before.replace(step=number)
    if accepted:
        origin = f"step_{number:04d}"
        after = after.replace(skill=kept(text), best=kept(text), score=score, best_score=score)
        after = after.replace(best_step=number, best_origin=origin)
    for event in step(
        number,
        rows(place, tasks, passed) if accepted else rows(place, 20, 5),
        action="accept_new_best" if accepted else "reject",
        why="because",
        skill=text,
        score=score if accepted else None,
        outcomes=[{"id": edit.id, "edit": said, "state": "applied"}],
        rollouts=train,
        studied=[patch],
    ):
        if isinstance(event, Updated):
            yield Aggregated(id=f"{place}/aggregate", place=place, merges=0, edits=[edit])
            yield Selected(id=f"{place}/select", place=place, limit=4, ranked=False, edits=[edit])
        if isinstance(event, Checkpoint):
            event = event.model_copy(update={"state": after})
        yield event


def rows(key: str, count: int, passed: int, prefix: str = "V") -> list[Row]:
    """Rows of a stage, the first `passed` of them passed."""
    return [
        Row(
            task=f"{prefix}{number:05d}",
            hard=float(number < passed),
            soft=float(number < passed),
            rollout=f"{key}:{number}",
        )
        for number in range(count)
    ]


def first_state(tasks: int) -> State:
    """The state of a run whose seed was measured."""
    return state(SEED, int(tasks * 0.4) / tasks, seed=kept(SEED), baseline_score=int(tasks * 0.4) / tasks)


def keep_texts(folder: Path) -> None:
    """Put the skills that the log names into the database beside it."""
    database = Database(folder / "run.db")
    database._db.execute("BEGIN")
    for digest, text in TEXTS.items():
        database.keep_text(digest, text)
    database._db.execute("COMMIT")
    database.shut()


def events(steps: int, tasks: int) -> Iterator[Event]:
    """The log of a run of so many steps, one in two hundred of them accepted."""
    counts = {"train": 8 * steps, "val": tasks, "test": 100}
    yield started(identity="x", target="openai:t", optimizer="openai:o", steps=steps + 10, counts=counts)
    yield StageClosed(
        id="baseline/selection",
        place="baseline",
        stage="selection",
        rows=rows("seed", tasks, int(tasks * 0.4)),
    )
    state = first_state(tasks)
    yield Checkpoint(id="baseline/baseline", kind="baseline", state=state)
    for number in range(1, steps + 1):
        for event in step_events(state, tasks, accepted=number % ACCEPTED_EVERY == 0):
            state = event.state if isinstance(event, Checkpoint) else state
            yield event
