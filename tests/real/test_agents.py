"""Real agent CLIs as targets, their model simulated by the loopback provider: rollouts, edited files, whole
training runs.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from _loopback import Answer, Call, LoopbackProvider
from _needs import needs_bubblewrap
from benchmarks._workbooks import DOUBLE, bench, make_data
from real._agents import CLAUDE, CODEX, COPILOT, OPENCODE, RealAgent, agent_world, resolved, scripted
from skillopt.evaluation.runner import PlannedRow
from skillopt.run import open_run, prepare, train
from skillopt.tasks.rollout import Score, Scored, Trajectory
from skillopt.tasks.task import Split, Task

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.name == "nt", reason="the programs are started as on Unix"),
]
SKILL = "---\nname: skillopt-target\ndescription: House rules.\n---\n\nHOUSE-RULE-7: name the city only.\n"
ALL = [pytest.param(agent, id=agent.harness) for agent in (CLAUDE, CODEX, COPILOT, OPENCODE)]


class Seen:
    """A model that remembers what it was asked."""

    def __init__(self, say: Any) -> None:
        self.calls: list[Call] = []
        self._say = say

    def __call__(self, call: Call) -> str | Answer:
        self.calls.append(call)
        said: str | Answer = self._say(call)
        return said


class Ledgers:
    """A file-editing benchmark: a table must get its total, and the edited file is what is scored."""

    name = "ledgers"
    prompts: Mapping[str, str] = {"rollout": "You keep tables in order.\n\n## Skill\n\n{skill}\n"}
    seed_skill = SKILL
    scorer_version = "ledgers-1"
    graded = False

    def __init__(self, folder: Path) -> None:
        self._file = folder / "table.csv"
        self._file.write_text("item,amount\na,2\nb,3\n")

    def tasks(self, split: Split) -> Sequence[Task]:
        return [
            Task(
                id=f"{split}-1",
                prompt=f"Add a line `total` to table.csv ({split}).",
                files=(self._file,),
                reference="total,5",
            )
        ]

    def open(self, task: Task) -> None:
        return None

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        made = base64.b64decode(trajectory.files.get("table.csv", "")).decode()
        right = float(task.reference in made)
        return Score(hard=right, soft=right)


def searchqa(folder: Path) -> list[str]:
    """The options of a SearchQA of six questions."""
    rows = [
        {
            "id": f"q{n}",
            "question": f"Question {n}: this city lies on the Seine",
            "context": f"[DOC] page {n}",
            "answers": ["Paris"],
        }
        for n in range(6)
    ]
    (folder / "qa.json").write_text(json.dumps(rows))
    (folder / "skillopt-target").mkdir()
    (folder / "skillopt-target" / "SKILL.md").write_text(SKILL)
    skill = f"env.skill_init={folder / 'skillopt-target'}"
    return [
        "env.name=searchqa",
        f"env.data_path={folder / 'qa.json'}",
        "env.split_ratio=2:2:2",
        skill,
        "env.exec_timeout=300",
    ]


@pytest.mark.parametrize("agent", ALL)
async def test_a_task_whose_result_is_an_edited_file(
    agent: RealAgent, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    say = scripted(agent, "echo total,5 >> table.csv", answer="Done.")
    async with LoopbackProvider(say, lenient=True) as provider:
        options = [
            *agent.options(provider, machine_env),
            f"model.optimizer=compatible:o@{provider.base_url}",
            "env.exec_timeout=300",
        ]
        job = prepare(resolved(tmp_path, *options), benchmark=Ledgers(tmp_path))
        async with open_run(job, tmp_path / "run", {}) as opened:
            outcome = await opened.evaluator.measure(
                job.skill.rendered, PlannedRow(task=job.splits.train[0]), stage="rollout"
            )
            again = opened.evaluator.stored(job.skill.rendered, PlannedRow(task=job.splits.train[0]))
    assert isinstance(outcome, Scored), outcome
    assert (outcome.score.hard, list(outcome.trajectory.files)) == (1.0, ["table.csv"])
    assert again == outcome
    assert job.splits.train[0].files[0].read_text() == "item,amount\na,2\nb,3\n", (
        "the user's own file stays as it was"
    )


@pytest.fixture
def other_rollout() -> Iterator[Path]:
    """The folder of a rollout beside this one."""
    with tempfile.TemporaryDirectory(prefix="skillopt-agent-other-") as folder:
        (Path(folder) / "note.txt").write_text("OTHER-ROLLOUT")
        yield Path(folder)


@needs_bubblewrap
@pytest.mark.parametrize("agent", ALL)
async def test_a_spreadsheet_task_is_solved_with_a_file_and_references_and_other_rollouts_are_out_of_reach(
    agent: RealAgent, tmp_path: Path, machine_env: Mapping[str, str], other_rollout: Path
) -> None:
    data = make_data(tmp_path / "data")
    write = f"ls; cat > solution.py <<'END'\n{DOUBLE}END"
    look = (
        f"ls -R {data}; cat {other_rollout}/note.txt; ls {Path.home()} {tmp_path}/run /tmp; echo seen-by-me"
    )
    say = scripted(agent, write, look, answer="The program is in solution.py.")
    async with LoopbackProvider(say, lenient=True) as provider:
        options = [
            *agent.options(provider, machine_env),
            f"model.optimizer=compatible:o@{provider.base_url}",
            "env.exec_timeout=300",
        ]
        job = prepare(resolved(tmp_path, *options), benchmark=bench(data))
        async with open_run(job, tmp_path / "run", {}) as opened:
            outcome = await opened.evaluator.measure(
                job.skill.rendered, PlannedRow(task=job.splits.train[0]), stage="rollout"
            )
    assert isinstance(outcome, Scored), outcome
    assert (outcome.score.hard, list(outcome.trajectory.files)) == (1.0, ["solution.py"]), outcome.score
    listed = "\n".join(message.content for message in outcome.trajectory.messages if message.role == "tool")
    assert job.splits.train[0].files[0].name in listed, "the workbook lies in the workspace"
    # Copilot and OpenCode refuse to look outside of their folder at all.
    assert "seen-by-me" in listed or agent in (COPILOT, OPENCODE), "the command did not run"
    for hidden in ("_answer", "OTHER-ROLLOUT", "run.db"):
        assert hidden not in listed, listed


@pytest.mark.parametrize("agent", ALL)
async def test_a_training_run_of_two_steps(
    agent: RealAgent, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    # A rollout takes some of these programs six seconds of CPU.
    sizes = ["env.train_cases=2", "env.val_cases=2", "env.test_cases=1", "train.batch_size=1"]
    async with LoopbackProvider(agent_world(agent), lenient=True) as provider:
        options = [
            *(
                "env.name=world",
                *sizes,
                "env.workers=4",
                "evaluation.repeats=1",
                "train.num_epochs=1",
                "env.exec_timeout=300",
            ),
            *agent.options(provider, machine_env),
            f"model.optimizer=compatible:o@{provider.base_url}",
        ]
        async with open_run(prepare(resolved(tmp_path, *options)), tmp_path / "run") as opened:
            result = await train(opened)
            spent = opened.spending()
    history = json.loads((tmp_path / "run" / "history.json").read_text())
    assert len(history) == 2, history
    assert result.best_skill.strip()
    assert spent["stages"]["rollout"]["prompt_tokens"] > 0
    assert not any("skillopt-agent-" in path.name for path in Path(tmp_path).parent.iterdir())
