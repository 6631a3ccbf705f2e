"""Real agent CLIs read the documents of an OfficeQA question and the page of a DocVQA one; both are
self-made, the model is simulated.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from _loopback import Answer, Call, LoopbackProvider
from _needs import needs_bubblewrap
from benchmarks._bulletins import QUESTIONS, figures
from benchmarks._pages import draw, read
from real._agents import CLAUDE, CODEX, COPILOT, OPENCODE, RealAgent, resolved
from real.test_agents import Seen
from skillopt.evaluation.runner import PlannedRow
from skillopt.messages import ToolCall
from skillopt.run import open_run, prepare
from skillopt.tasks.rollout import Scored

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.name == "nt", reason="the programs are started as on Unix"),
    needs_bubblewrap,
]
QUESTION = QUESTIONS[0]
BULLETIN = """# Treasury Bulletin (a made one)

In millions of dollars

| Item | 1 | 2 | 3 | 4 | 5 | 6 |
| --- | --- | --- | --- | --- | --- | --- |
| Total receipts | 1 | 2 | 3 | 4 | 5 | 2,100.0 |
| Total expenditures | 1 | 2 | 3 | 4 | 5 | 5,300.0 |
"""
AGENTS = [pytest.param(agent, id=agent.harness) for agent in (CLAUDE, CODEX, COPILOT, OPENCODE)]


def officeqa(folder: Path) -> list[str]:
    """OfficeQA with one question a split over a made bulletin, beside which lies what nobody may see."""
    (folder / "docs").mkdir()
    (folder / "docs" / QUESTION.file).write_text(BULLETIN)
    (folder / "docs" / "treasury_bulletin_1950_01.txt").write_text("ANOTHER-BULLETIN")
    for split in ("train", "val", "test"):
        (folder / "splits" / split).mkdir(parents=True)
        row = {
            "uid": split,
            "question": f"{QUESTION.text} ({split})",
            "answer": "$3,200 million",
            "source_files": QUESTION.file,
        }
        (folder / "splits" / split / "rows.json").write_text(json.dumps([row]))
    return [
        "env.name=officeqa",
        f"env.split_dir={folder / 'splits'}",
        f"env.data_dirs=[{folder / 'docs'}]",
        "env.exec_timeout=300",
    ]


def reader(agent: RealAgent, outside: Path) -> Callable[[Call], str | Answer]:
    """A simulated model that reads the document, tries to change it and to look around it, and works out what
    it was shown.
    """
    file = f"documents/{QUESTION.file}"

    def say(call: Call) -> str | Answer:
        if agent.shell not in call.tools:
            return "A title"
        if agent is CLAUDE:
            home = re.search(r"/\S*?skillopt-agent-\w+/workspace", call.text)
            read = ToolCall(
                id="call_read",
                name="Read",
                arguments=json.dumps({"file_path": f"{home[0]}/{file}" if home else file}),
            )
        else:
            read = agent.call(f"cat {file}")
        spoil = agent.call(
            f"echo '| Total receipts | 0 | 0 | 0 | 0 | 0 | 0 |' > {file} || echo it-stays; ls -a documents"
        )
        look = agent.call(f"cat {outside}/docs/* {outside}/splits/*/rows.json; echo looked-around")
        steps = [
            read,
            spoil,
            agent.call(f"cat {file}"),
            *([] if agent in (COPILOT, OPENCODE) else [look]),
        ]  # these two refuse to look
        if agent.skill_tool is not None:
            steps.insert(0, ToolCall(id="call_skill", name="skill", arguments=json.dumps(agent.skill_tool)))
        if len(call.results) < len(steps):
            return Answer(tool_calls=(steps[len(call.results)],))
        lines = [line for result in call.results for line in result.splitlines()]
        shown = [
            match[0]
            for line in lines
            if (match := re.search(r"\| Total (?:receipts|expenditures) \|.*\|", line))
        ]
        return f"<answer>{QUESTION.work_out(figures(QUESTION, shown))}</answer>"

    return say


@pytest.mark.parametrize("agent", AGENTS)
async def test_an_agent_answers_from_documents_that_it_can_read_and_not_change(
    agent: RealAgent, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    seen = Seen(reader(agent, tmp_path))
    async with LoopbackProvider(seen, lenient=True) as provider:
        options = [
            *officeqa(tmp_path),
            *agent.options(provider, machine_env),
            f"model.optimizer=compatible:o@{provider.base_url}",
        ]
        job = prepare(resolved(tmp_path, *options))
        async with open_run(job, tmp_path / "run", {}) as opened:
            outcome = await opened.evaluator.measure(
                job.skill.rendered, PlannedRow(task=job.splits.train[0]), stage="rollout"
            )
    assert isinstance(outcome, Scored), outcome
    results = "\n".join(message.content for message in outcome.trajectory.messages if message.role == "tool")
    assert (outcome.score.hard, outcome.trajectory.failure) == (1.0, None), results
    read = next(
        message
        for message in outcome.trajectory.messages
        if message.role == "tool" and "Total receipts" in message.content
    )
    assert "2,100.0" in read.content
    assert agent is not CLAUDE or read.tool_call_id == "call_read", "Claude Code has a tool of its own for it"
    assert "it-stays" in results, results
    assert outcome.trajectory.files == {}
    for hidden in ("ANOTHER-BULLETIN", "treasury_bulletin_1950_01", '"answer"', "3,200 million"):
        assert hidden not in results, results
    assert (tmp_path / "docs" / QUESTION.file).read_text() == BULLETIN
    (first, *_) = [call for call in seen.calls if "Treasury Bulletins" in call.text]
    assert "in the folder `documents`" in first.text
    assert "`glob` lists" not in first.text, "it is told of tools that it does not have"


def looker(agent: RealAgent) -> Callable[[Call], str | Answer]:
    """A simulated model that reads digits from the pixels of the image before it; inside Claude Code it must
    open the file first.
    """

    def say(call: Call) -> str | Answer:
        if agent.shell not in call.tools:
            return "A title"
        home = re.search(r"/\S*?skillopt-agent-\w+/workspace", call.text)
        path = json.dumps({"file_path": f"{home[0] if home else '.'}/attachments/image-1.png"})
        steps = [ToolCall(id="call_read", name="Read", arguments=path)] if agent is CLAUDE else []
        # beside images it is asked in words as well
        loads = {"name": "skillopt-target"} if agent is OPENCODE else agent.skill_tool
        if loads is not None:
            steps.insert(0, ToolCall(id="call_skill", name="skill", arguments=json.dumps(loads)))
        if len(call.results) < len(steps):
            return Answer(tool_calls=(steps[len(call.results)],))
        shown = re.findall(r"iVBORw0KGgo[A-Za-z0-9+/=]+", json.dumps(call.body))
        return f"<answer>{read(f'data:image/png;base64,{shown[-1]}') if shown else 'nothing to see'}</answer>"

    return say


@pytest.mark.parametrize("agent", AGENTS)
async def test_an_agent_sees_the_page_that_it_is_asked_about(
    agent: RealAgent, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    for split, digits in (("train", "4711"), ("val", "1234"), ("test", "9876")):
        folder = tmp_path / "splits" / split
        folder.mkdir(parents=True)
        (folder / "page.png").write_bytes(draw(digits))
        rows = [
            {
                "questionId": split,
                "question": "Which number is on it?",
                "answer": [digits],
                "image_path": "page.png",
            }
        ]
        (folder / "rows.json").write_text(json.dumps(rows))
    async with LoopbackProvider(looker(agent), lenient=True) as provider:
        data = ["env.name=docvqa", f"env.split_dir={tmp_path / 'splits'}", "env.exec_timeout=300"]
        options = [
            *data,
            *agent.options(provider, machine_env),
            f"model.optimizer=compatible:o@{provider.base_url}",
        ]
        job = prepare(resolved(tmp_path, *options))
        async with open_run(job, tmp_path / "run", {}) as opened:
            outcome = await opened.evaluator.measure(
                job.skill.rendered, PlannedRow(task=job.splits.train[0]), stage="rollout"
            )
    assert isinstance(outcome, Scored), outcome
    assert (outcome.trajectory.answer, outcome.score.hard) == ("<answer>4711</answer>", 1.0)
