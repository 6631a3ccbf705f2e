"""Documents of a task inside an agent: copies in a folder of their own that can be read and not changed, and
nothing beside them.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from _tables import benchmark_table

from _needs import needs_bubblewrap, needs_system_python
from harnesses._stub import stub
from harnesses.test_agent import SKILL, spec
from skillopt.benchmarks import benchmarks
from skillopt.benchmarks.officeqa import PLUGIN, OfficeQASettings
from skillopt.errors import Fault
from skillopt.harnesses import harnesses
from skillopt.harnesses.port import NotAsked, Session, Setup
from skillopt.tasks.benchmark import AGENT_PROMPT, Benchmark, Reading
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import Task

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script with a shebang"),
    pytest.mark.timeout(60),
]
PROMPTS = {"rollout": "Use `grep`.\n\n{skill}", AGENT_PROMPT: "Use your own tools.\n\n{skill}"}


@pytest.fixture(autouse=True)
def _own_temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    temp = tmp_path / "tmp"
    temp.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    return temp


@pytest.fixture
def papers(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "papers"
    folder.mkdir()
    for name in ("one.txt", "two.txt", "golden.txt"):
        (folder / name).write_text(f"text of {name}")
    return [folder / "one.txt", folder / "two.txt"]


class Shelf:
    """An environment of documents."""

    tools = ()
    max_turns = 1

    def __init__(self, documents: Sequence[Path]) -> None:
        self.documents = documents

    async def step(self, name: str, arguments: object) -> str:
        return ""

    async def close(self) -> None:
        return None


async def rollout(program: Path, prompt: str, documents: Sequence[Path], *more: Path) -> Trajectory:
    made = harnesses.get("claude_code")(Setup(model=spec(), agent={"path": str(program)}))
    session = Session(NotAsked(spec()), key="k", stage="rollout", draw=0, max_tokens=9)
    done: Trajectory = await made.run(
        Task(id="t", prompt=prompt, files=(*documents, *more)), Shelf(documents), SKILL, PROMPTS, session
    )
    return done


async def test_the_agent_reads_the_documents_of_its_task_and_no_others(
    tmp_path: Path, papers: list[Path], _own_temp: Path
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("a,b")
    done = await rollout(stub(tmp_path), "READS-DOCUMENTS", papers, table)
    assert json.loads(done.answer) == {"one.txt": "text of one.txt", "two.txt": "text of two.txt"}
    lying = done.messages[1].content.split("\n")
    assert lying == [
        ".claude/skills/skillopt-target/SKILL.md",
        "documents/one.txt",
        "documents/two.txt",
        "table.csv",
    ]
    assert (done.failure, done.files) == (None, {})
    assert not list(_own_temp.iterdir()), "the place is gone, read-only folder and all"


async def test_the_prompt_speaks_of_the_folder_and_of_no_tools_that_are_not_there(
    tmp_path: Path, papers: list[Path]
) -> None:
    answer = (await rollout(stub(tmp_path), "TASK TELL", papers)).answer
    assert answer.endswith(
        "The documents of this task are in the folder `documents`. Read them; they cannot be"
        " changed.</answer>"
    )
    assert "Files of this task" not in answer, "documents are no files to work on"
    told = await rollout(stub(tmp_path), "TELLS-PROMPT", papers)
    assert "Use your own tools." in told.answer
    assert "grep" not in told.answer


@needs_bubblewrap
@needs_system_python
@pytest.mark.parametrize("word", ["SPOILS", "DELETES"])
async def test_behind_the_wall_documents_cannot_be_changed_at_all(
    word: str, tmp_path: Path, papers: list[Path]
) -> None:
    (tmp_path / "program").mkdir()
    done = await rollout(
        stub(tmp_path / "program", python="/usr/bin/python3"), f"{word} READS-DOCUMENTS", papers
    )
    assert "not changed: Read-only file system" in [message.content for message in done.messages]
    assert json.loads(done.answer) == {"one.txt": "text of one.txt", "two.txt": "text of two.txt"}
    assert done.failure is None


@pytest.mark.parametrize("word", ["SPOILS", "DELETES"])
async def test_without_a_wall_an_answer_from_changed_documents_is_the_targets_own_failure(
    word: str, tmp_path: Path, papers: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no bubblewrap there
    done = await rollout(stub(tmp_path), word, papers)
    assert (done.failure, done.files) == ("changed documents", {})
    assert [path.read_text() for path in papers] == [
        "text of one.txt",
        "text of two.txt",
    ], "the user's own stay as they were"


async def test_two_documents_of_one_name_are_refused(tmp_path: Path, papers: list[Path]) -> None:
    (tmp_path / "one.txt").write_text("another")
    with pytest.raises(Fault, match=r"two documents are named 'one\.txt'"):
        await rollout(stub(tmp_path), "x", [*papers, tmp_path / "one.txt"])


def officeqa(tmp_path: Path, **settings: Any) -> Benchmark:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "one.txt").write_text("Total | 12")
    rows = [
        {"uid": f"u{n}", "question": f"Question {n}?", "answer": str(12 + n), "source_files": "one.txt"}
        for n in range(10)
    ]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    made: Benchmark = PLUGIN(
        OfficeQASettings(data_path=tmp_path / "rows.json", data_dirs=[str(tmp_path / "docs")], **settings)
    )
    return made


def test_officeqa_offers_its_documents_to_agents(tmp_path: Path) -> None:
    made = officeqa(tmp_path)
    task = made.tasks("train")[0]
    desk = made.open(task)
    assert PLUGIN.offers_documents
    assert isinstance(desk, Reading)
    assert [path.name for path in desk.documents] == ["one.txt"]
    assert "`grep`" in made.prompts["rollout"]
    assert "`grep`" not in made.prompts[AGENT_PROMPT]
    assert made.prompts[AGENT_PROMPT].count("{skill}") == 1


def test_officeqa_without_tools_shows_its_documents_to_nobody(tmp_path: Path) -> None:
    made = officeqa(tmp_path, use_local_tools=False)
    task = made.tasks("train")[0]
    assert (made.open(task), task.files, AGENT_PROMPT in made.prompts) == (None, (), False)


def test_the_support_table_says_what_the_plug_ins_can() -> None:
    head, _, *lines = benchmark_table(
        {name: benchmarks.get(name) for name in ("officeqa", "docvqa", "alfworld")}
    ).splitlines()
    cells = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in (head, *lines)]
    told = {line[0]: dict(zip(cells[0], line, strict=True)) for line in cells[1:]}
    assert {told["officeqa"][name] for name in ("claude_code", "codex", "copilot", "cursor", "opencode")} == {
        "yes"
    }
    assert (told["docvqa"]["cursor"], told["docvqa"]["codex"]) == (
        "no",
        "yes",
    ), "Cursor's program takes no images"
    assert told["alfworld"]["codex"] == "no"
