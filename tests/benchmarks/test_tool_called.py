"""`tool_called` with real calls: tasks with a tool of their own, driven by the tool loop over a real wire."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _loopback import Answer, Call, LoopbackProvider
from skillopt.config.load import load
from skillopt.messages import Tool, ToolCall
from skillopt.run import open_run, prepare, train
from skillopt.tasks.benchmark import Environment
from skillopt.tasks.data import QuestionBenchmark
from skillopt.tasks.scorers import get_scorer
from skillopt.tasks.splits import Splits
from skillopt.tasks.task import Task

RULE = "Search the notes before you answer."
NOTES = {f"topic {n}": f"note {n}" for n in range(14)}
SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


class Archive:
    """An environment with one tool."""

    tools: Sequence[Tool] = (Tool(name="search", description="Search the notes.", parameters=SCHEMA),)
    max_turns = 4

    async def step(self, name: str, arguments: Mapping[str, object]) -> str:
        return NOTES.get(str(arguments.get("query")), "nothing found")

    async def close(self) -> None:
        """Nothing is open."""


class Notes(QuestionBenchmark):
    """Questions about notes; an answer counts only if the notes were searched for it."""

    def open(self, task: Task) -> Environment | None:
        return Archive()


def benchmark() -> Notes:
    checks = [{"op": "tool_called", "arg": "search"}, {"op": "contains", "arg": "note"}]
    tasks = [
        Task(id=f"q{n}", prompt=f"What do we know of topic {n}?", data={"checks": checks}) for n in range(14)
    ]
    splits = Splits(train=tuple(tasks[:4]), val=tuple(tasks[4:10]), test=tuple(tasks[10:]))
    return Notes(
        name="notes",
        splits=splits,
        scorer=get_scorer("checks"),
        system="Answer.\n\n{skill}",
        seed_skill="# Notes\n\nBe brief.\n",
    )


def answer(call: Call) -> Answer | str:
    if not (call.place or "").startswith("rollout/"):
        assert 'tool_called "search"' in call.text
        return json.dumps(
            {"batch_size": 4, "patch": {"reasoning": "r", "edits": [{"op": "append", "content": RULE}]}}
        )
    assert call.tools == ("search",)
    topic = call.text.partition("know of ")[2].partition("?")[0]
    if RULE in call.text and not call.results:
        return Answer(tool_calls=(ToolCall(id="c1", name="search", arguments=json.dumps({"query": topic})),))
    return f"We have this: {call.results[-1]}" if call.results else "A note, I guess. tool_call: search"


async def test_a_skill_that_makes_the_target_call_the_tool_is_learned(tmp_path: Path) -> None:
    async with LoopbackProvider(answer) as provider:
        models = [
            f"model.target=tool_loop/compatible:t@{provider.base_url}",
            f"model.optimizer=compatible:o@{provider.base_url}",
        ]
        resolved = load(
            None,
            flags={},
            options=[*models, "train.num_epochs=1", "evaluation.repeats=1"],
            environ={},
            cwd=tmp_path,
        )
        job = prepare(resolved, benchmark=benchmark())
        async with open_run(job, tmp_path / "run") as opened:
            result: Any = await train(opened)
    assert (result.summary["baseline_test_hard"], result.summary["test_hard"]) == (0.0, 1.0)
    assert RULE in result.best_skill
