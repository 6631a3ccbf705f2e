"""What the dashboard is pointed at in tests: a person's home with nights and a proposal, and runs with
hostile texts in them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

from _loopback import Answer, Call, LoopbackProvider
from changes._adoption import FIRST, SECOND, SKILL, THIRD, World
from skillopt.config.load import load
from skillopt.events import Notice
from skillopt.run import open_run, prepare, train
from skillopt_sleep import NightHome, NightSettings, ProjectState
from skillopt_sleep.judgement import Cost, EditEvidence
from skillopt_sleep.plan import NightPlan
from skillopt_sleep.proposal import Proposal

SCRIPT = "<script>alert('ran')</script><img src=x onerror=\"alert('ran')\">"
"""Text that would make itself known if a browser took it for markup."""


def staged(home: Path, *, hostile: bool = False) -> tuple[World, Proposal]:
    """A home with a skill, and a simulated night of the project that proposes three edits for it."""
    state = NightHome.of(NightSettings(), home)
    world = World(home).write()
    world.store, project = state.store, world.project
    texts = (FIRST, SECOND, THIRD)
    if hostile:
        texts = (f"{SKILL}- {SCRIPT}\n",)
    reasons = (
        "You cut the notes down to three lines four times.",
        "You asked for the date at the end.",
        "You took internal changes out.",
    )
    steps = [
        EditEvidence(
            text=text, why=why, place=f"e1/s{number}", tasks=(f"request-{number}",), sessions=("a", "b")
        )
        for number, (text, why) in enumerate(zip(texts, reasons, strict=False), 1)
    ]
    draft = dataclasses.replace(world.skill_draft(), steps=steps)
    proposal = world.store.stage(
        [draft],
        roots=world.roots,
        project=str(project),
        night="1",
        now=datetime(2026, 3, 1, 2, 15, tzinfo=timezone.utc),
        notes=(SCRIPT,) if hostile else ("Two sessions could not be read.",),
        simulated=True,
    )
    plan = NightPlan(
        number=1,
        started=datetime(2026, 3, 1, 2, 0, tzinfo=timezone.utc),
        ended=datetime(2026, 3, 1, 2, 15, tzinfo=timezone.utc),
        sessions=9,
        next_since=None,
        terms="",
        advice="",
        targets=(),
        outcome=SCRIPT if hostile else "a proposal is staged",
        proposal=proposal.id,
        cost=Cost(tokens=3456),
    )
    kept = state.project(project)
    plan.save(kept.night(1))
    kept.save(ProjectState(project=str(project), night=1))
    return world, proposal


def hostile_run(folder: Path) -> None:
    """A real run in which the skill, the task ids, the questions, the answers, a notice and all the optimizer
    says hold a script.
    """
    tasks = folder.parent / "tasks.jsonl"
    rows = [
        {"id": f"{n}{SCRIPT}", "question": f"How much is {n} + 0? {SCRIPT}", "answer": str(n)}
        for n in range(20)
    ]
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    skill = folder.parent / "skill.md"
    skill.write_text(f"# Sums {SCRIPT}\n\n- Read. {SCRIPT}\n", encoding="utf-8")
    with LoopbackProvider.in_thread(_hostile) as provider:
        model = f"compatible:m@{provider.base_url}"
        options = [
            f"env.data_path={tasks}",
            f"env.skill_init={skill}",
            f"env.out_root={folder}",
            "env.scorer=contains",
            "train.folds=1",
        ]
        options += [
            f"model.target={model}",
            f"model.optimizer={model}",
            "train.num_epochs=1",
            "train.batch_size=8",
        ]
        resolved = load(None, flags={"env": "own"}, options=options, environ={}, cwd=folder.parent)

        async def session() -> None:
            async with open_run(prepare(resolved), folder) as opened:
                await train(opened)

        # In a thread: a browser that is driven from this one holds its event loop.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(session())).result(60)
    with (folder / "events.jsonl").open("a", encoding="utf-8") as log:
        log.write(
            Notice(id="e1/s9/leaks", text=f"A notice. {SCRIPT}", level="warning").model_dump_json() + "\n"
        )


def _hostile(call: Call) -> Answer:
    if (call.place or "").startswith("rollout"):
        number = re.findall(r"How much is (\d+)", call.text)[-1]
        return Answer(text=f"It is {number}. {SCRIPT}" if "State the sum" in call.text else SCRIPT)
    edit = {"op": "append", "content": f"- State the sum. {SCRIPT}", "rationale": SCRIPT}
    patch = {"reasoning": SCRIPT, "edits": [edit, {"op": "replace", "target": SCRIPT * 2, "content": SCRIPT}]}
    return Answer(
        text=json.dumps(
            {"batch_size": 8, "failure_summary": [], "patch": patch, **patch, "selected_indices": [0]}
        )
    )
