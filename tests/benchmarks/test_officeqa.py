"""OfficeQA: questions are answered with tools that see the question's own documents and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from _loopback import Answer, Call, LoopbackProvider
from benchmarks._bulletins import QUESTIONS, Question, answer, figures, write_splits
from skillopt.benchmarks.officeqa import PLUGIN, OfficeQASettings
from skillopt.benchmarks.officeqa._environment import CHARACTERS, MOST_HITS, TOOLS, DocumentTools, Library
from skillopt.benchmarks.officeqa._load import (
    LONGEST_ALL,
    LONGEST_PAGE,
    OfficeQALoader,
    PageSource,
    as_text,
    page_text,
    shown,
    sources,
)
from skillopt.config.load import load
from skillopt.errors import ConfigError, TaskError
from skillopt.harnesses.port import Session
from skillopt.harnesses.tool_loop import ToolLoop
from skillopt.messages import Message, Reply, ToolCall, Usage
from skillopt.run import open_run, prepare, train
from skillopt.tasks.benchmark import Benchmark
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.rows import load_rows
from skillopt.tasks.task import Task
from skillopt.testing import FunctionModel

USED = Usage(input_tokens=1, output_tokens=1)
FOLDER = "treasury_bulletins_parsed"


@pytest.fixture(scope="module")
def bulletins(test_data: Path) -> Path:
    return test_data / "officeqa" / "bulletins"


@pytest.fixture(scope="module")
def splits(bulletins: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_splits(tmp_path_factory.mktemp("officeqa") / "splits", bulletins)


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    """Two short documents, and things beside them that nobody may see."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "one.txt").write_text("Title\nTotal | 12\n" + "x" * 5000 + "\nlast total\n")
    (folder / "two.txt").write_text("".join(f"row {n}\n" for n in range(500)))
    (folder / "other.txt").write_text("secret")
    (tmp_path / "outside.txt").write_text("secret")
    return folder


def row(**changes: Any) -> dict[str, Any]:
    return {
        "uid": "u",
        "question": "How much?",
        "answer": "5",
        "source_files": "one.txt",
        "difficulty": "hard",
        **changes,
    }


def tasks_of(folder: Path, *rows: dict[str, Any], pages: bool = True) -> list[Task]:
    (folder.parent / "rows.json").write_text(json.dumps(rows))
    loader = OfficeQALoader(Library([folder]), "{question}\n{documents}{pages}", shows_pages=pages)
    return [loader.task(row) for row in load_rows(folder.parent / "rows.json")]


def calls(name: str, **arguments: Any) -> Reply:
    return Reply(
        text="",
        finish="tool_calls",
        usage=USED,
        tool_calls=(ToolCall(id="c", name=name, arguments=json.dumps(arguments)),),
    )


def lines_seen(messages: tuple[Message, ...]) -> list[str]:
    """The lines that grep showed so far, without their place."""
    shown_lines = [
        line for message in messages if message.role == "tool" for line in message.content.splitlines()
    ]
    return [line.split(": ", 1)[1] for line in shown_lines if ": " in line]


def scripted(question: Question, messages: tuple[Message, ...]) -> Reply:
    """A simulated target: looks for each row it needs, then works out the answer from what it was shown."""
    turn = sum(message.role == "assistant" for message in messages)
    if turn < len(question.rows):
        return calls("grep", pattern=question.rows[turn], path=question.file)
    return Reply(
        text=f"<answer>{question.work_out(figures(question, lines_seen(messages)))}</answer>",
        finish="stop",
        usage=USED,
    )


def of(messages: tuple[Message, ...]) -> Question:
    return next(question for question in QUESTIONS if question.text in messages[1].content)


async def rollout(benchmark: Any, task: Task, model: Any) -> Trajectory:
    session = Session(model, key="k", stage="rollout", draw=0, max_tokens=100)
    return await ToolLoop().run(task, benchmark.open(task), "the skill", benchmark.prompts, session)


async def test_self_made_questions_are_answered_with_the_tools(bulletins: Path, splits: Path) -> None:
    benchmark = PLUGIN(OfficeQASettings(split_dir=splits, data_dirs=[str(bulletins)]))
    tasks = [task for split in ("train", "val", "test") for task in benchmark.tasks(split)]
    assert len(tasks) == len(QUESTIONS) == 9
    assert len({question.file for question in QUESTIONS}) == 4
    model = FunctionModel(lambda request: scripted(of(request.messages), request.messages))
    for task in tasks:
        question = next(one for one in QUESTIONS if one.id == task.id)
        assert task.reference == answer(question, bulletins)
        assert task.reference not in task.prompt
        found = await rollout(benchmark, task, model)
        assert found.failure is None
        assert found.calls == len(question.rows) + 1
        assert (await benchmark.score(task, found)).hard == 1.0
    wrong = FunctionModel(lambda request: "<answer>17.5 billion</answer>")
    assert [(await benchmark.score(task, await rollout(benchmark, task, wrong))).hard for task in tasks] == [
        0.0
    ] * 9


async def test_a_last_turn_that_is_a_tool_call_is_out_of_turns(bulletins: Path, splits: Path) -> None:
    benchmark = PLUGIN(OfficeQASettings(split_dir=splits, data_dirs=[str(bulletins)], max_tool_turns=3))
    task = benchmark.tasks("train")[0]
    found = await rollout(benchmark, task, FunctionModel(lambda request: calls("glob", pattern="*")))
    assert (found.failure, found.calls) == ("turns", 3)
    assert found.messages[-1].content == "treasury_bulletin_1941_01.txt"
    assert "turns" in (await benchmark.score(task, found)).feedback


async def test_it_trains_on_self_made_questions_over_the_wire(
    bulletins: Path, splits: Path, tmp_path: Path
) -> None:
    rule = "- Read the figures themselves before answering."

    def reply(call: Call) -> Answer:
        if not (call.place or "").startswith("rollout/"):
            edits = [{"op": "append", "content": rule}]
            return Answer(
                text=json.dumps(
                    {"reasoning": "r", "edits": edits, "patch": {"reasoning": "r", "edits": edits}}
                )
            )
        question = next(one for one in QUESTIONS if one.text in call.text)
        if rule not in call.text:
            return Answer(text="<answer>1</answer>")
        asked = len(call.results)
        if asked < len(question.rows):
            arguments = json.dumps({"pattern": question.rows[asked], "path": question.file})
            return Answer(tool_calls=(ToolCall(id=f"c{asked}", name="grep", arguments=arguments),))
        seen = tuple(Message(role="tool", content=result) for result in call.results)
        return Answer(text=f"<answer>{question.work_out(figures(question, lines_seen(seen)))}</answer>")

    async with LoopbackProvider(reply) as provider:
        model = f"compatible:m@{provider.base_url}"
        flags = {"split_dir": str(splits), "target_model": model, "optimizer_model": model, "num_epochs": 1}
        options = [f"env.data_dirs=[{bulletins}]"]
        resolved = load("officeqa", flags=flags, options=options, environ={}, cwd=tmp_path)
        assert resolved.config.model.target.name == "tool_loop/compatible:m"
        async with open_run(prepare(resolved), tmp_path / "run") as opened:
            result = await train(opened)
    assert result.summary["best_selection_hard"] == 1.0
    assert rule in (tmp_path / "run" / "best_skill.md").read_text()


def test_it_is_registered_with_the_public_defaults(
    splits: Path, bulletins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PLUGIN.defaults["env.workers"] == 4
    assert OfficeQASettings().max_tool_turns == 24
    assert PLUGIN.harness(OfficeQASettings(use_local_tools=False)) == "chat"
    monkeypatch.delenv("OFFICEQA_DOCS_DIR", raising=False)
    with pytest.raises(ConfigError, match="OFFICEQA_DOCS_DIR"):
        PLUGIN(OfficeQASettings(split_dir=splits))
    monkeypatch.setenv("OFFICEQA_DOCS_DIR", str(bulletins))
    benchmark = PLUGIN(OfficeQASettings(split_dir=splits, use_local_tools=False))
    assert isinstance(benchmark, Benchmark)
    assert benchmark.open(benchmark.tasks("train")[0]) is None
    assert "grep" not in benchmark.prompts["rollout"]
    assert PLUGIN(OfficeQASettings(split_dir=splits)).prompts["rollout"].count("{skill}") == 1


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (tool, {key: path})
        for tool, key in (("read", "path"), ("grep", "path"), ("glob", "pattern"))
        for path in (
            "other.txt",
            "../outside.txt",
            "../docs/other.txt",
            "/etc/passwd",
            "./other.txt",
            "link.txt",
            "docs/other.txt",
        )
    ],
)
async def test_nothing_but_the_question_s_own_documents_can_be_seen(
    papers: Path, tool: str, arguments: dict[str, str]
) -> None:
    (papers / "link.txt").symlink_to(papers.parent / "outside.txt")
    desk = DocumentTools([papers / "one.txt", papers / "two.txt"], 5)
    said = await desk.step(tool, {"pattern": "secret", **arguments})
    assert said.startswith(("There is no document", "No document matches"))
    assert said.endswith("Documents: one.txt, two.txt.")


@pytest.mark.parametrize(
    ("tool", "arguments", "shown_first"),
    [
        ("glob", {"pattern": "*"}, "one.txt\ntwo.txt"),
        ("glob", {"pattern": "**/t*.txt"}, "two.txt"),
        ("glob", {"pattern": 3}, "glob needs a text"),
        ("glob", {}, "glob needs a text"),
        (
            "read",
            {"path": "two.txt", "start": 499},
            "499: row 498\n500: row 499\n[lines 499 to 500 of 500; the end]",
        ),
        ("read", {"path": "two.txt", "start": 501}, "two.txt has 500 lines; there is no line 501."),
        ("read", {"path": "two.txt", "start": 0}, "'start' and 'limit' are whole numbers"),
        ("read", {"path": "two.txt", "limit": True}, "'start' and 'limit' are whole numbers"),
        ("read", {"path": "two.txt", "start": "1"}, "'start' and 'limit' are whole numbers"),
        ("read", {"path": ["two.txt"]}, "There is no document ['two.txt'] to read."),
        ("read", {}, "There is no document None to read."),
        ("grep", {"pattern": "TOTAL"}, "one.txt:2: Total | 12\none.txt:4: last total"),
        ("grep", {"pattern": "r.w 1"}, "No line holds this text."),
        ("grep", {"pattern": " "}, "grep needs a text"),
        ("grep", {"pattern": "x", "path": 5}, "There is no document 5 to search."),
        ("shell", {"command": "ls"}, "There is no tool 'shell'."),
    ],
)
async def test_a_call_shows_what_it_asks_for_or_what_is_wrong_with_it(
    papers: Path, tool: str, arguments: dict[str, Any], shown_first: str
) -> None:
    said = await DocumentTools([papers / "one.txt", papers / "two.txt"], 5).step(tool, arguments)
    assert said.startswith(shown_first)


async def test_long_results_are_cut_and_say_so(papers: Path) -> None:
    desk = DocumentTools([papers / "one.txt", papers / "two.txt"], 5)
    whole = await desk.step("read", {"path": "two.txt"})
    assert whole.count("\n") == 80
    assert whole.endswith("[lines 1 to 80 of 500; read on from line 81]")
    first = await desk.step("read", {"path": "one.txt"})
    assert first.endswith("[lines 1 to 2 of 4; read on from line 3]")
    long = await desk.step("read", {"path": "one.txt", "start": 3})
    assert CHARACTERS < len(long) < CHARACTERS + 100
    hits = await desk.step("grep", {"pattern": "row"})
    assert hits.count("\n") == MOST_HITS
    assert hits.endswith("[480 more lines; look for something rarer]")
    assert len(await desk.step("grep", {"pattern": "xx"})) < 700


def test_the_tools_are_valid_json_schemas() -> None:
    for tool in TOOLS:
        assert set(tool.parameters["required"]) <= set(tool.parameters["properties"])


@pytest.mark.parametrize(
    "names",
    [
        "one.txt\ntwo.txt",
        "one.txt, two.txt",
        "['one.txt', 'two.txt']",
        '["one.txt", "two.txt"]',
        ["one.txt", "two.txt", "one.txt"],
    ],
)
def test_documents_are_named_in_every_way_that_tables_know(papers: Path, names: Any) -> None:
    (task,) = tasks_of(papers, row(source_files=names, ground_truth="7", id="x"))
    assert [path.name for path in task.files] == ["one.txt", "two.txt"]
    assert (task.id, task.reference, task.kind) == ("u", "7", "hard")
    assert task.prompt == "How much?\n- one.txt\n- two.txt"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"uid": None}, "has no uid or id"),
        ({"question": " "}, "has no question"),
        ({"answer": None}, "has no ground_truth or answer"),
        ({"source_files": ""}, "names no source_files"),
        ({"source_files": 5}, "'source_files' is no text and no list"),
        ({"source_files": "[broken"}, "starts like a list but is none"),
        ({"source_files": "gone.txt"}, "there is no gone.txt in"),
        ({"source_files": "../outside.txt"}, "is no plain file name"),
        ({"source_files": "/etc/passwd"}, "is no plain file name"),
        ({"source_files": "link.txt"}, "is a link that leads out of the folder"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(papers: Path, changes: dict[str, Any], words: str) -> None:
    (papers / "link.txt").symlink_to(papers.parent / "outside.txt")
    with pytest.raises(TaskError, match=f"line 1: .*{words}"):
        tasks_of(papers, row(**changes))


def test_a_missing_folder_of_documents_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        Library([tmp_path / "gone"])


def parsed(papers: Path, name: str = "one", **document: Any) -> Path:
    path = papers / FOLDER / "jsons" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"document": document}))
    return path


def element(page: int, content: str) -> dict[str, Any]:
    return {"type": "text", "content": content, "bbox": [{"page_id": page, "coord": [0, 0, 1, 1]}]}


def test_oracle_pages_are_shown_with_the_question_where_they_are(papers: Path) -> None:
    table = "<table><tr><th>Year</th><th>Sum</th></tr><tr><td>1941</td><td>12|5</td></tr></table>"
    parsed(
        papers,
        pages=[{"id": 0}, {"id": 1}],
        elements=[element(0, "cover"), element(1, "In millions"), element(1, table)],
    )
    link = "https://fraser.example/title/treasury-bulletin-407/january-1941-6529?page=2"
    with_page, without = tasks_of(
        papers, row(source_docs=link), row(uid="v", question="Else?", source_docs=link.partition("?")[0])
    )
    assert with_page.prompt.endswith(
        "## Pages\n\n### one, page 2\n\nIn millions\n\n| Year | Sum |\n| --- | --- |\n| 1941 | 12\\|5 |"
    )
    assert "cover" not in with_page.prompt
    assert "## Pages" not in without.prompt
    assert "## Pages" not in tasks_of(papers, row(source_docs=link), pages=False)[0].prompt


@pytest.mark.parametrize(
    ("page", "words"),
    [(3, "names page 3 of one, which .* does not have"), (1, "there is no two.json"), (2, "is not JSON")],
)
def test_a_page_that_is_named_and_not_there_is_an_error(papers: Path, page: int, words: str) -> None:
    path = parsed(papers, elements=[element(0, "a"), element(1, "b")])
    if page == 2:
        path.write_text("{")
    name = "two.txt" if page == 1 else "one.txt"
    with pytest.raises(TaskError, match=words):
        tasks_of(papers, row(source_files=name, source_docs=f"https://x.example/a?page={page}"))


def test_a_link_names_its_issue_and_page() -> None:
    files = ["treasury_bulletin_1941_01.txt", "treasury_bulletin_1944_12.txt"]
    base = "https://fraser.example/title/treasury-bulletin-407"
    links = [
        f"{base}/december-1944-6529?page=15",
        f"{base}/january-1941-6529",
        f"{base}/june-1950-1?page=2",
        "nonsense",
        f"{base}?page=x",
    ]
    assert sources(links, files) == [PageSource(stem="treasury_bulletin_1944_12", page=15)]
    assert sources(["anything?page=4", "anything?page=4"], files[:1]) == [
        PageSource(stem="treasury_bulletin_1941_01", page=4)
    ]


def test_pages_are_counted_in_their_order_and_cut(papers: Path) -> None:
    listed = parsed(papers, pages=[{"id": 7}, {"id": 9}], elements=[element(9, "nine"), element(7, "seven")])
    assert [page_text(listed, page) for page in (0, 1, 2, 3)] == [None, "seven", "nine", None]
    bare = parsed(
        papers, "bare", elements=[element(2, "y" * (LONGEST_PAGE + 5)), {"content": "no page"}, "no element"]
    )
    assert page_text(bare, 1) == ""
    assert (page_text(bare, 3) or "").endswith("y\n[cut here; read the document for the rest]")
    assert page_text(parsed(papers, "empty"), 1) is None
    assert len(shown([("a", "x" * LONGEST_ALL)])) < LONGEST_ALL + 100


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("plain text ", "plain text"),
        ("<table><tr><td>a</td></tr></table>", "| a |\n| --- |"),
        (
            (
                "<table><tr><th rowspan='2'>Year</th><th"
                " colspan='2'>Sums</th></tr><tr><th>in</th><th>out</th></tr><tr><td>1941</td><td> 1\n2"
                " </td></tr></table>"
            ),
            "| Year | Sums |  |\n| --- | --- | --- |\n| Year | in | out |\n| 1941 | 1 2 |  |",
        ),
        ("<table><tr></tr></table>", "|  |\n|  |"),
        ("<TABLE><td>stray</td></TABLE>", ""),
        ("<table><tr><td>a<b>b</b> &amp; c</td></tr><tr><td>d</table>", "| ab & c |\n| --- |\n|  |"),
    ],
)
def test_a_table_becomes_markdown(html: str, markdown: str) -> None:
    assert as_text(html) == markdown
