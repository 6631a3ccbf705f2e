"""Real agent CLIs as proposers, their model simulated by the loopback provider: files seen, change taken, verdict."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from _loopback import Answer, Call, LoopbackProvider
from claims.promises._runs import events_of, history, summary
from real._agents import CLAUDE, CODEX, COPILOT, OPENCODE, RealAgent, resolved
from skillopt.events import Judged, Reflected
from skillopt.models.world.rules import CASE, needs_of
from skillopt.run import open_run, prepare, train

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.name == "nt", reason="the programs are started as on Unix"),
]
LOOK = "ls documents; cat skill/SKILL.md documents/verdicts.md documents/failed-*.md"


def improver(agent: RealAgent, looked: list[str]) -> object:
    """A model that reads everything, appends the rules that the failed cases need, and says for which."""

    def say(call: Call) -> str | Answer:
        if agent.shell not in call.tools:
            return "A title"
        if not call.results:
            return Answer(tool_calls=(agent.call(LOOK),))
        if len(call.results) > 1:
            return "I added the missing rules."
        looked.append(call.results[0])
        cases = dict.fromkeys(CASE.findall(call.results[0]))
        rules = dict.fromkeys(rule for case in cases for rule in sorted(needs_of(case)))
        lines = "\n".join(f"- {rule}" for rule in rules)
        changes = [
            {"words": rule, "tasks": [case for case in cases if rule in needs_of(case)]} for rule in rules
        ]
        write = f"cat >> skill/SKILL.md <<'END'\n{lines}\nEND\ncat > changes.json <<'END'\n{json.dumps(changes)}\nEND"
        return Answer(tool_calls=(agent.call(write),))

    return say


@pytest.mark.parametrize(
    ("agent", "strategy"),
    [
        *(pytest.param(agent, "paper", id=agent.harness) for agent in (CLAUDE, CODEX, OPENCODE, COPILOT)),
        pytest.param(CODEX, "proof", id="proof"),  # no strategy sees which agent proposes
    ],
)
async def test_an_agent_reads_the_rollouts_and_its_change_of_the_skill_is_judged(
    agent: RealAgent, strategy: str, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    looked: list[str] = []
    async with LoopbackProvider(improver(agent, looked), lenient=True) as provider:
        named = [
            one.replace("model.target", "model.proposer") for one in agent.options(provider, machine_env)
        ]
        sizes = ("env.train_cases=24", "env.val_cases=20", "env.test_cases=4", "train.batch_size=24")
        options = [
            *("env.name=world", *sizes, "train.num_epochs=1", "evaluation.repeats=1"),
            *("model.target=world:seed=3", "model.optimizer=world:seed=3", f"train.strategy={strategy}"),
            *("train.proposer=agent", "model.proposer.timeout=300", *named),
        ]
        job = prepare(resolved(tmp_path, *options))
        async with open_run(job, tmp_path / "run") as opened:
            result = await train(opened)
        asked = provider.calls
        async with open_run(job, tmp_path / "run") as opened:
            await train(opened)
        assert provider.calls == asked, "what is stored is not asked again"
    folder = tmp_path / "run"
    (text, *_) = looked
    assert "failed-001.md" in text and "verdicts.md" in text and "<reference>" in text
    assert {*CASE.findall(text)} <= {task.id for task in job.splits.train}, "val or test were in sight"
    events = list(events_of(folder))
    edits = [edit for one in events if isinstance(one, Reflected) for p in one.patches for edit in p.edits]
    assert edits and all(edit.op == "append" and edit.evidence["tasks"] for edit in edits)
    assert next(one.action for one in events if isinstance(one, Judged)) == "accept"
    (record,) = history(folder)
    assert record["edit_states"]["applied"] >= 2 and "analyst" not in record["tokens"]
    assert result.best_on_val.score > result.seed_on_val.score
    assert summary(folder)["spending"]["stages"]["proposer"]["total_tokens"] > 0
