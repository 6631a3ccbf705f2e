"""A trained folder inside real agent CLIs, their model simulated by the loopback provider: what was learned for
a reference is read from that file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from _loopback import Answer, Call, LoopbackProvider
from real._agents import CLAUDE, CODEX, RealAgent, resolved, scripted
from skillopt.run import open_run, prepare, train

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.name == "nt", reason="the programs are started as on Unix"),
]
READ = "cat $(find . -path '*skills/house/references/*.md')"
SKILL = (
    "---\nname: house\ndescription: Colours of the house.\n---\n\nColours stand in references/colours.md.\n"
)
RULE = "- The colour of every room is teal."
MADE = "references/rooms.md"


def reads_references(agent: RealAgent, path: str) -> Callable[[Call], str | Answer]:
    """An analyst that proposes a rule for that file, and an agent that knows only what it reads in files."""

    def say(call: Call) -> str | Answer:
        if call.place is not None:
            return json.dumps({"patch": {"edits": [{"op": "append", "path": path, "content": RULE}]}})
        if agent.shell not in call.tools:
            return "A title"
        look = scripted(agent, READ, answer="")(call)
        return look or f"<answer>{'teal' if RULE in ''.join(call.results) else 'unknown'}</answer>"

    return say


@pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.harness) for agent in (CLAUDE, CODEX)])
async def test_an_agent_reads_what_was_learned_for_a_new_reference(
    agent: RealAgent, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    house = tmp_path / "house"
    (house / "references").mkdir(parents=True)
    (house / "SKILL.md").write_text(SKILL)
    (house / "references" / "colours.md").write_text("# Colours\n")
    rows = [{"id": f"t{n}", "prompt": f"Which colour has room {n}?", "reference": "teal"} for n in range(8)]
    (tmp_path / "tasks.json").write_text(json.dumps(rows))
    async with LoopbackProvider(reads_references(agent, MADE), lenient=True) as provider:
        options = [
            *("env.name=own", f"env.data_path={tmp_path / 'tasks.json'}", "env.split_ratio=2:5:1"),
            *("train.num_epochs=1", "train.strategy=paper", "evaluation.eval_test=false"),
            *("evaluation.repeats=1", "env.workers=4", "env.exec_timeout=300", f"env.skill_init={house}"),
            *agent.options(provider, machine_env),
            f"model.optimizer=compatible:o@{provider.base_url}",
        ]
        async with open_run(prepare(resolved(tmp_path, *options)), tmp_path / "run") as opened:
            result = await train(opened)
    assert (result.state.baseline_score, result.state.best_score) == (0.0, 1.0)
    assert result.best_files == {"references/colours.md": "# Colours\n", MADE: f"{RULE}\n"}
    assert result.best_skill == f"{SKILL}- [{MADE}]({MADE}): rooms\n"
    assert (tmp_path / "run" / "best_skill" / "house" / MADE).read_text() == f"{RULE}\n"
