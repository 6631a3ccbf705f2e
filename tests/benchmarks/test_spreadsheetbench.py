"""SpreadsheetBench as a benchmark: its rows, what the target sees, and what it can try before it answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from _needs import needs_bubblewrap
from benchmarks._workbooks import DOUBLE, GOLDEN_MARK, bench, make_data, row, write_cases
from skillopt.benchmarks import benchmarks
from skillopt.benchmarks.spreadsheetbench import PLUGIN, SpreadsheetSettings
from skillopt.benchmarks.spreadsheetbench._code import MOST_CHARACTERS, code_in, solution_of, written_file
from skillopt.benchmarks.spreadsheetbench._load import Area, SpreadsheetLoader, parse_position, preview
from skillopt.config.load import load
from skillopt.errors import TaskError
from skillopt.harnesses.chat import Chat
from skillopt.harnesses.port import Session, system_prompt
from skillopt.messages import Message, ToolCall
from skillopt.tasks.benchmark import Benchmark, Conversation
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.rows import load_rows
from skillopt.tasks.task import SPLITS
from skillopt.testing import ScriptedModel

TEMPLATE = "{instruction}\n{kind}\n{position}\n{preview}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path / "data", 2, cases=2)


def loaded(path: Path, root: Path | None = None) -> tuple[list[Any], SpreadsheetLoader]:
    loader = SpreadsheetLoader(root, TEMPLATE)
    return [loader.task(row) for row in load_rows(path)], loader


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


@pytest.mark.slow
@needs_bubblewrap
def test_it_is_registered_with_the_public_defaults(tmp_path: Path) -> None:
    data = make_data(tmp_path, 10)
    assert benchmarks.get("spreadsheetbench") is PLUGIN
    assert PLUGIN.defaults["evaluation.repeats"] == 1
    config = load(
        "spreadsheetbench", flags={"data_path": data / "dataset.json"}, options=[], environ={}, cwd=data
    ).config
    assert isinstance(config.env.settings, SpreadsheetSettings)
    assert (
        config.env.workers,
        config.env.exec_timeout,
        config.env.settings.mode,
        config.env.settings.max_turns,
    ) == (24, 600, "multi", 30)
    made = PLUGIN(config.env.settings)
    assert isinstance(made, Benchmark)
    assert [len(made.tasks(split)) for split in SPLITS] == [2, 1, 7]
    assert made.graded is False
    assert "formualizer-" in made.scorer_version


@needs_bubblewrap
def test_splits_come_from_folders_with_the_workbooks_elsewhere(data: Path, tmp_path: Path) -> None:
    data = make_data(data, 4, cases=1)
    for split, names in (("train", ["task-0", "task-1"]), ("val", ["task-2"]), ("test", ["task-3"])):
        # the rest comes from dataset.json
        write(tmp_path / "splits" / split / "items.json", [{"id": name} for name in names])
    made = PLUGIN(SpreadsheetSettings(split_dir=tmp_path / "splits", data_root=data))
    assert [task.id for split in SPLITS for task in made.tasks(split)] == [
        "task-0",
        "task-1",
        "task-2",
        "task-3",
    ]


@pytest.mark.parametrize("ends", [("_input", "_answer"), ("_init", "_golden")])
def test_cases_are_the_pairs_of_workbooks_in_their_order(tmp_path: Path, ends: tuple[str, str]) -> None:
    write_cases(tmp_path / "w", "x", [[1, 2, 3]] * 11, ends)
    _, loader = loaded(write(tmp_path / "d.json", [row("x", spreadsheet_path="w")]))
    cases = loader.problems["x"].cases
    assert [case.input.name for case in cases] == [f"{number}_x{ends[0]}.xlsx" for number in range(1, 12)]
    assert all(case.golden.name == case.input.name.replace(*ends) for case in cases)


def test_a_single_pair_may_be_named_initial_and_golden(tmp_path: Path) -> None:
    write_cases(tmp_path / "w", "x", [[1, 2, 3]])
    (tmp_path / "w" / "1_x_input.xlsx").rename(tmp_path / "w" / "initial.xlsx")
    (tmp_path / "w" / "1_x_answer.xlsx").rename(tmp_path / "w" / "golden.xlsx")
    _, loader = loaded(write(tmp_path / "d.json", [row("x", spreadsheet_path="w")]))
    assert [(case.input.name, case.golden.name) for case in loader.problems["x"].cases] == [
        ("initial.xlsx", "golden.xlsx")
    ]


def test_a_task_is_the_same_wherever_its_folder_lies_and_another_with_another_golden(tmp_path: Path) -> None:
    tasks = [loaded(make_data(tmp_path / name, 1) / "dataset.json")[0][0] for name in ("here", "there")]
    digests = {json.dumps(dict(task.data)) for task in tasks}
    assert str(tmp_path) not in "".join(digests)
    (tmp_path / "there/spreadsheet/task-0/2_task-0_answer.xlsx").write_bytes(b"other")
    changed = loaded(tmp_path / "there/dataset.json")[0][0]
    assert changed.full_hash != tasks[1].full_hash
    assert changed.content_hash == tasks[1].content_hash  # the target sees no golden


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"answer_position": ""}, "line 1: 'answer_position' is missing or empty"),
        ({"answer_position": None}, "line 1: 'answer_position' is missing or empty"),
        (
            {"answer_position": "the whole sheet"},
            "line 1: answer_position 'the whole sheet': .* is no range of cells",
        ),
        ({"answer_position": "A1:B2,,"}, "is no range of cells"),
        ({"instruction": " "}, "line 1: 'instruction' is"),
        ({"id": ""}, "line 1: has no id"),
        (
            {"spreadsheet_path": "spreadsheet/nowhere"},
            "line 1: there is no folder .*nowhere.* Set env.data_root",
        ),
        ({"spreadsheet_path": "."}, "holds no workbooks in pairs"),
    ],
)
def test_a_row_that_cannot_be_scored_is_refused_at_load(
    data: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(TaskError, match=words):
        loaded(write(data / "dataset.json", [row("task-0", **changes)]))


def test_an_input_without_its_golden_and_an_id_that_nobody_knows_are_refused(
    data: Path, tmp_path: Path
) -> None:
    with pytest.raises(TaskError, match="there is no task 'task-77' in"):
        loaded(write(tmp_path / "ids.json", [{"id": "task-77"}]), data)
    with pytest.raises(TaskError, match=r"no instruction, and there is no .*dataset\.json"):
        loaded(write(tmp_path / "ids.json", [{"id": "task-0"}]))
    (data / "spreadsheet/task-0/2_task-0_answer.xlsx").unlink()
    with pytest.raises(TaskError, match=r"2_task-0_input\.xlsx has no 2_task-0_answer\.xlsx"):
        loaded(data / "dataset.json")


def area(sheet: str | None, *corners: int | None) -> Area:
    left, top, right, bottom = corners
    assert left is not None
    assert top is not None
    return Area(sheet=sheet, first_column=left, first_row=top, last_column=right, last_row=bottom)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("H3:H5", [area(None, 8, 3, 8, 5)]),
        ("B2", [area(None, 2, 2, 2, 2)]),
        ("b2:a1", [area(None, 1, 1, 2, 2)]),
        ("$A$1:$B$2", [area(None, 1, 1, 2, 2)]),
        ("'Sheet1'!A1:F14", [area("Sheet1", 1, 1, 6, 14)]),
        ("Sheet1'!A1:F14", [area("Sheet1", 1, 1, 6, 14)]),  # as it stands in the public data
        ("'Sheet1!A1:F14", [area("Sheet1", 1, 1, 6, 14)]),
        ("Sheet1!'A1:F14'", [area("Sheet1", 1, 1, 6, 14)]),
        ("'工作表1'!I2:J7", [area("工作表1", 9, 2, 10, 7)]),
        (
            "'It''s, so'!A1, Other!B2:C3 ,D4",
            [area("It's, so", 1, 1, 1, 1), area("Other", 2, 2, 3, 3), area(None, 4, 4, 4, 4)],
        ),
        ("A:C", [area(None, 1, 1, 3, None)]),
        ("A2:A", [area(None, 1, 2, 1, None)]),
        ("2:5", [area(None, 1, 2, None, 5)]),
        ("XFD1048576", [area(None, 16384, 1048576, 16384, 1048576)]),
    ],
)
def test_positions_are_read_however_they_are_quoted(text: str, expected: list[Area]) -> None:
    assert list(parse_position(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "A",
        "7",
        "A0",
        "XFE1",
        "A1:3",
        "A1:B2;C3",
        "Sheet1!",
        "A1 B2",
        "A1048577",
        "ABCD1",
        "!",
        "A1:B2:C3",
    ],
)
def test_a_position_that_means_no_cells_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"no range of cells|names no cells"):
        parse_position(text)


def test_a_position_without_a_sheet_is_on_the_answer_sheet() -> None:
    assert [area.sheet for area in parse_position("A1, Other!B2", "Output")] == ["Output", "Other"]


class Markdown(SingleFileSnapshotExtension):
    """One readable file per prompt."""

    _write_mode = WriteMode.TEXT
    file_extension = "md"


@needs_bubblewrap
@pytest.mark.parametrize("mode", ["single", "multi", "react"])
def test_what_the_target_is_asked(mode: str, data: Path, snapshot: SnapshotAssertion) -> None:
    made = bench(data, mode=mode)
    task = made.tasks("train")[0]
    system = system_prompt(made.prompts["rollout"], made.seed_skill)
    assert f"{system}\n===== user =====\n{task.prompt}\n" == snapshot.use_extension(Markdown)


def test_the_preview_shows_the_first_rows_and_never_the_golden_file(data: Path) -> None:
    tasks, loader = loaded(data / "dataset.json")
    assert "Sheet 'Data' (4 rows, 2 columns):\n1: Number | Double\n2: 3\n" in tasks[0].prompt
    for task in tasks:
        assert str(GOLDEN_MARK) not in task.prompt
        assert [path.name for path in task.files] == [f"1_{task.id}_input.xlsx"]
        assert task.reference is None
    assert str(GOLDEN_MARK) in preview(loader.problems["task-0"].cases[0].golden)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\na = 1\n```", "a = 1\n"),
        ("First:\n```\nplain\n```\nthen\n```py\nx\n```\nand\n```python\ny\n```", "x\n"),
        ("```\nplain\n```", "plain\n"),
        ("```json\n{}\n```\n", None),
        ("```Python\n  x = '''\n  ```not a fence'''\n```", "  x = '''\n"),
        ("```python\nnever closed", "never closed"),
        ("```python\n\n```", None),
        ("no code", None),
        ("", None),
    ],
)
def test_the_program_is_the_first_block_of_python(text: str, code: str | None) -> None:
    assert code_in(text) == code


def call(name: str, arguments: Any) -> ToolCall:
    return ToolCall(
        id="1", name=name, arguments=arguments if isinstance(arguments, str) else json.dumps(arguments)
    )


def test_a_program_that_was_written_with_the_tool_goes_before_one_in_the_reply() -> None:
    said = [
        Message(
            role="assistant",
            content="",
            tool_calls=(call("write_file", {"path": "solution.py", "content": "first"}),),
        ),
        Message(
            role="assistant",
            content="",
            tool_calls=(call("write_file", {"path": "./solution.py", "content": "second"}),),
        ),
        Message(
            role="assistant",
            content="",
            tool_calls=(call("write_file", {"path": "other.py", "content": "third"}),),
        ),
        Message(
            role="assistant",
            content="",
            tool_calls=(call("write_file", "{broken"), call("bash", {"command": "cp other.py solution.py"})),
        ),
    ]
    answer = "```python\nin the reply\n```"
    assert solution_of(Trajectory(messages=tuple(said), answer=answer, calls=4, usage=None)) == "second"
    left = {"solution.py": "bGVmdA=="}
    assert (
        solution_of(Trajectory(messages=(), answer=answer, calls=1, usage=None, files=left))
        == "in the reply\n"
    )
    assert (
        solution_of(Trajectory(messages=(), answer="It is in the file.", calls=1, usage=None, files=left))
        == "left"
    )


@pytest.mark.parametrize(
    "path",
    [
        "../x.py",
        "/etc/x",
        "input.xlsx",
        "run.py",
        "output.xlsx",
        "a/b.py",
        "..",
        ".",
        "",
        "x" * 101,
        "a\0b",
        "ä.py",
        7,
        None,
    ],
)
def test_a_file_with_another_than_a_plain_name_is_not_written(path: Any) -> None:
    assert written_file("write_file", {"path": path, "content": "x"}) is None


def test_a_file_that_is_too_long_or_no_text_is_not_written() -> None:
    assert written_file("write_file", {"path": "solution.py", "content": "x" * (MOST_CHARACTERS + 1)}) is None
    assert written_file("write_file", {"path": "solution.py", "content": 5}) is None
    assert written_file("write_file", "[1]") is None
    assert written_file("write_file", '{"a":' * 5_000 + "1" + "}" * 5_000) is None
    assert written_file("write", {"path": "solution.py", "content": "x"}) is None


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


async def told(made: Any, task: Any, *answers: str) -> tuple[Trajectory, ScriptedModel]:
    """A rollout under the chat harness with these replies."""
    model = ScriptedModel(answers)
    environment = made.open(task)
    session = Session(model, key="k", stage="rollout", draw=0, max_tokens=1000)
    trajectory = await Chat().run(task, environment, made.seed_skill, made.prompts, session)
    if environment is not None:
        await environment.close()
    return trajectory, model


@pytest.mark.slow
@needs_bubblewrap
async def test_in_mode_multi_errors_are_told_until_a_program_runs_through(data: Path) -> None:
    made = bench(data, mode="multi")
    task = made.tasks("train")[0]
    trajectory, model = await told(
        made, task, "I would use pandas.", fenced("1 / 0"), fenced("x = 1"), fenced(DOUBLE), "never asked"
    )
    assert len(model.requests) == 4
    observed = [message.content for message in trajectory.messages if message.role == "user"]
    assert "no block of Python" in observed[0]
    assert "ZeroDivisionError" in observed[1]
    assert "wrote no file to OUTPUT_PATH" in observed[2]
    assert [message.role for message in model.requests[3].messages] == [
        "system",
        "user",
        *["assistant", "user"] * 3,
    ]
    assert trajectory.failure is None
    assert (await made.score(task, trajectory)).hard == 1


@pytest.mark.slow
@needs_bubblewrap
async def test_what_is_told_is_the_same_in_training_as_elsewhere_and_holds_nothing_of_the_golden_file(
    data: Path,
) -> None:
    """A program that runs through and is wrong ends the rollout: nobody is told the cells, in train no more
    than in val.
    """
    made = bench(data, mode="multi")
    wrong = fenced(DOUBLE.replace("* 2", "* 3"))
    for split in ("train", "val"):
        task = made.tasks(split)[0]  # type: ignore[arg-type]
        trajectory, model = await told(made, task, fenced("raise SystemExit('no')"), wrong)
        assert len(model.requests) == 2
        assert str(GOLDEN_MARK) not in "".join(message.content for message in trajectory.messages)
        assert (await made.score(task, trajectory)).hard == 0


@needs_bubblewrap
async def test_a_target_that_needs_too_many_turns_has_failed_by_itself(data: Path) -> None:
    made = bench(data, mode="multi", max_turns=2)
    task = made.tasks("train")[0]
    trajectory, _ = await told(made, task, fenced("1 / 0"), fenced("1 / 0"))
    assert (trajectory.failure, trajectory.calls) == ("turns", 2)
    assert (await made.score(task, trajectory)).hard == 0


@pytest.mark.slow
@needs_bubblewrap
async def test_in_mode_single_one_reply_is_all(data: Path) -> None:
    made = bench(data, mode="single")
    task = made.tasks("train")[0]
    assert made.open(task) is None
    trajectory, _ = await told(made, task, fenced(DOUBLE))
    assert (await made.score(task, trajectory)).hard == 1


@pytest.mark.slow
@needs_bubblewrap
async def test_in_mode_react_there_is_a_shell_and_a_file_to_write(data: Path) -> None:
    made = bench(data, mode="react")
    task = made.tasks("train")[0]
    desk = made.open(task)
    assert desk is not None
    assert not isinstance(desk, Conversation)
    assert [tool.name for tool in desk.tools] == ["bash", "write_file"]
    assert "input.xlsx" in await desk.step("bash", {"command": "ls"})
    assert "solution.py is written" in await desk.step(
        "write_file", {"path": "solution.py", "content": DOUBLE}
    )
    look = (
        "python run.py && python -c 'import openpyxl;"
        ' print(openpyxl.load_workbook("output.xlsx").active["B4"].value)\''
    )
    assert (await desk.step("bash", {"command": look})).startswith("14\n")
    # every command starts afresh
    assert "output.xlsx" not in await desk.step("bash", {"command": "ls; echo spoiled > solution.py"})
    assert "openpyxl" in await desk.step("bash", {"command": "cat solution.py"})
    assert "[exit code 3]" in await desk.step("bash", {"command": "exit 3"})
    assert len(await desk.step("bash", {"command": "yes | head -100000"})) < 7000
    await desk.close()


@needs_bubblewrap
@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("bash", {}, "needs a text 'command'"),
        ("bash", {"command": 5}, "needs a text 'command'"),
        ("bash", {"command": "a\0b"}, "needs a text 'command'"),
        ("bash", {"command": "x" * 200_000}, "at most 100000 bytes"),
        ("bash", {"command": "echo \ud800"}, "[exit code 0]"),
        ("bash", {"command": "no-such-program-here"}, "[exit code 127]"),
        ("write_file", {"path": "/etc/passwd", "content": "x"}, "Nothing was written"),
        ("write_file", {"path": "solution.py"}, "Nothing was written"),
        ("read_file", {}, "There is no tool 'read_file'"),
    ],
)
async def test_a_wrong_tool_call_is_an_observation(
    data: Path, name: str, arguments: dict[str, Any], words: str
) -> None:
    made = bench(data, mode="react")
    desk = made.open(made.tasks("train")[0])
    assert desk is not None
    assert words in await desk.step(name, arguments)


@needs_bubblewrap
async def test_files_beyond_the_limit_are_refused_but_never_the_solution(data: Path) -> None:
    made = bench(data, mode="react")
    desk = made.open(made.tasks("train")[0])
    assert desk is not None
    said = [await desk.step("write_file", {"path": f"{number}.py", "content": ""}) for number in range(25)]
    assert "At most 20 files" in said[-1]
    assert "is written" in await desk.step("write_file", {"path": "solution.py", "content": "x"})
