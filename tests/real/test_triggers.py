"""Descriptions trained in the real Claude Code and Codex, their model simulated: what counts as loaded is what
the program itself put before its model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from _loopback import Answer, Call, LoopbackProvider, Misbehaviour
from _router import SimulatedRouter
from real._agents import CLAUDE, CODEX, RealAgent
from skillopt.config.load import load
from skillopt.messages import ToolCall
from skillopt.run import Job, evaluate, open_run, prepare, train
from skillopt.skill.folder import load_skill

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(400),
    pytest.mark.skipif(os.name == "nt", reason="the programs are started as on Unix"),
]
EXAMPLE = Path(__file__).parents[2] / "examples" / "triggers"
ROWS = [json.loads(line) for line in (EXAMPLE / "triggers.jsonl").read_text().splitlines()][:24]
NAME, NEVER = "schema-migrations", "House rules of the data team."
BOTH = [pytest.param(agent, id=agent.harness) for agent in (CLAUDE, CODEX)]


class Model:
    """The simulated router behind an agent: it asks for the skill as that agent's models do."""

    def __init__(self, agent: RealAgent) -> None:
        self.agent = agent
        self.router = SimulatedRouter([row["prompt"] for row in ROWS])
        self.chosen: dict[tuple[str, str], str | None] = {}
        """By query and description: what was loaded, as far as the model knows."""
        self.lists: list[str] = []

    def __call__(self, call: Call) -> str | Answer:
        if call.place is not None:
            return self.router(call)
        query = self.router.query(call.text)
        if query is None or self.agent.shell not in call.tools:
            return "A title"
        if call.results:
            return "Done."
        self.lists.append(call.text)
        name = self.router.choice(call.text, query)
        described = next(line for line in call.text.splitlines() if line.startswith(f"- {NAME}: "))
        self.chosen[query, described.partition(": ")[2].partition(" (file:")[0]] = name
        if name is None:
            return "Done without a skill."
        if self.agent is CLAUDE:
            called = ToolCall(id="call_skill", name="Skill", arguments=json.dumps({"skill": name}))
        else:
            called = self.agent.call(f"cat .agents/skills/{name}/SKILL.md")
        return Answer(tool_calls=(called,))


def job_of(
    agent: RealAgent, provider: LoopbackProvider, folder: Path, env: Mapping[str, str], **more: Any
) -> Job:
    skill = folder / NAME
    skill.mkdir()
    (skill / "SKILL.md").write_text((EXAMPLE / NAME / "SKILL.md").read_text())
    queries = folder / "triggers.jsonl"
    queries.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    flags = {
        "part": "description",
        "triggers": str(queries),
        "skill_init": str(skill),
        "optimizer_model": f"compatible:o@{provider.base_url}",
        "num_epochs": 1,
        "minibatch_size": 16,
        "failure_only": True,
        "workers": 2,
        "repeats": 1,
        "triggers.skills": str(EXAMPLE / "others"),
        **more,
    }
    resolved = load(None, flags=flags, options=agent.options(provider, env), environ={}, cwd=folder)
    return prepare(resolved)


@pytest.mark.parametrize("agent", BOTH)
async def test_a_description_is_trained_by_what_the_agent_loads(
    agent: RealAgent, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    model = Model(agent)
    with LoopbackProvider.in_thread(model, lenient=True) as provider:
        job = job_of(agent, provider, tmp_path, machine_env)
        async with open_run(job, tmp_path / "run") as opened:
            result = await train(opened)
    test = result.summary["test"]
    assert test["comparison"]["after"] > test["comparison"]["before"] == 0.5
    assert test["triggering"]["seed"]["recall"] == 0.0 < test["triggering"]["best"]["recall"]
    # Every row is what the program loaded, which is what its model asked it for.
    tasks = {task.id: task for split in ("train", "val", "test") for task in job.splits.of(split)}
    for arm, description in (
        ("seed", NEVER),
        ("best", job.trained(load_skill(result.folder / "best_skill.md")).text),
    ):
        for row in _test_rows(result.folder, arm):
            query = tasks[row["task"]]
            loaded = model.chosen[query.prompt, description] == NAME
            assert row["hard"] == float(loaded is (query.kind == "should-load"))
    listed = model.lists[-1]
    assert "- sql-queries: Writes, explains and tunes SQL SELECT queries." in listed
    assert "lock_timeout" not in listed and "Ask before you change" not in listed


@pytest.mark.parametrize("agent", BOTH)
async def test_an_agent_that_breaks_down_has_left_nothing_alone(
    agent: RealAgent, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    model = Model(agent)
    lost = next(row["prompt"] for row in ROWS if not row["should_load"])

    def behave(call: Call) -> Misbehaviour | None:
        return Misbehaviour.status(400) if call.place is None and lost in call.text else None

    with LoopbackProvider.in_thread(model, behave=behave, lenient=True) as provider:
        job = job_of(agent, provider, tmp_path, machine_env)
        (split, task) = next(
            (split, task)
            for split in ("train", "val", "test")
            for task in job.splits.of(split)
            if task.prompt == lost
        )
        found = await evaluate(job, {"it": job.seed}, [split], tmp_path / "eval")
    (row,) = [row for row in found[0].rows if row.task == task.id]
    assert row.hard is None and row.invalid is not None


def _test_rows(folder: Path, arm: str) -> list[Any]:
    name = {"seed": "test_eval_baseline", "best": "test_eval"}[arm]
    return [json.loads(line) for line in (folder / name / "results.jsonl").read_text().splitlines()]
