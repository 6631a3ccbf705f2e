"""Training on workbooks end to end: a scripted target whose programs get right with the skill, a scripted
optimizer that finds the rule.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from _loopback import Answer, Call, LoopbackProvider
from _needs import needs_bubblewrap
from benchmarks._workbooks import DOUBLE, GOLDEN_MARK, make_data
from claims.promises._runs import QUICK
from skillopt.config.load import load
from skillopt.messages import ToolCall
from skillopt.run import open_run, prepare, train

RULE = "A double is the number times two."
TRIPLE = DOUBLE.replace("* 2", "* 3")


def scripted(call: Call) -> Answer | str:
    """The target follows the rule once it is in the skill; the optimizer proposes it when it is told which
    cells are wrong.
    """
    if not (call.place or "").startswith("rollout/"):
        assert "expected" in call.text
        edit = {"op": "append", "content": f"- {RULE}"}
        return json.dumps(
            {"batch_size": 1, "failure_summary": [], "patch": {"reasoning": "wrong factor", "edits": [edit]}}
        )
    assert str(GOLDEN_MARK) not in call.text
    code = DOUBLE if RULE in call.text else TRIPLE
    if not call.tools:
        return f"```python\n{code}\n```"
    if len(call.results) == 0:
        return Answer(
            tool_calls=(
                ToolCall(
                    id="1", name="write_file", arguments=json.dumps({"path": "solution.py", "content": code})
                ),
            )
        )
    if len(call.results) == 1:
        return Answer(
            tool_calls=(
                ToolCall(id="2", name="bash", arguments=json.dumps({"command": "python run.py && ls"})),
            )
        )
    assert "output.xlsx" in call.results[1]
    return "solution.py is done."


@needs_bubblewrap
@pytest.mark.real
@pytest.mark.parametrize("mode", ["multi", "react"])
async def test_a_rule_that_makes_programs_right_is_learned(mode: str, tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", 4, cases=1)
    async with LoopbackProvider(scripted) as provider:
        model = f"compatible:m@{provider.base_url}"
        options = [
            *(
                "env.name=spreadsheetbench",
                f"env.data_path={data / 'dataset.json'}",
                "env.split_ratio=1:1:0",
                f"env.mode={mode}",
            ),
            *(
                f"model.target={model}",
                f"model.optimizer={model}",
                "train.batch_size=2",
                "train.num_epochs=1",
                "env.workers=4",
            ),
            *("optimizer.use_slow_update=false", "optimizer.use_meta_skill=false"),
        ]
        job = prepare(load(None, flags={}, options=options, environ={}, cwd=tmp_path))
        async with open_run(job, tmp_path / "run", retry=QUICK) as opened:
            result = await train(opened)
    assert RULE in result.best_skill
    history = json.loads((tmp_path / "run" / "history.json").read_text())
    assert history[0]["selection_hard"] == 1
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["baseline_selection_hard"] == 0
