"""A skill's own `evals/evals.json`, in the shapes that are really written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from _loopback import Call, LoopbackProvider
from skillopt.benchmarks import benchmarks
from skillopt.benchmarks.evals_json import PLUGIN, EvalsSettings, load_evals
from skillopt.config.load import load
from skillopt.errors import ConfigError, TaskError
from skillopt.run import open_run, prepare, train
from skillopt.skill.folder import load_skill
from skillopt.skill.install import carried_digest, install_skill
from skillopt.tasks.task import SPLITS, Task

RULE = "Name the unit after every number."


def skill(folder: Path, cases: list[Any], key: str = "evals") -> Path:
    """A skill folder with evals."""
    (folder / "evals" / "files").mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        f"---\nname: {folder.name}\ndescription: Reads tables.\n---\n\n# Tables\n\nAnswer briefly.\n"
    )
    (folder / "evals" / "files" / "sales.csv").write_text("month,sales\nMarch,3\n")
    (folder / "evals" / "files" / "chart.png").write_bytes(b"\x89PNG\xff")
    (folder / "evals" / "evals.json").write_text(
        json.dumps({"skill_name": folder.name, key: cases}, indent=1)
    )
    return folder


def case(number: int, **changes: Any) -> dict[str, Any]:
    given = {
        "id": number,
        "prompt": f"Sum up month {number}.",
        "expected_output": "One sentence.",
        "assertions": [f"Names month {number}"],
    }
    return {**given, **changes}


def tasks(folder: Path, cases: list[Any], **settings: Any) -> dict[str, Task]:
    cases = [*cases, *(case(900 + n) for n in range(3))]
    benchmark = PLUGIN(EvalsSettings(data_path=skill(folder, cases), **settings))
    return {task.id: task for split in SPLITS for task in benchmark.tasks(split)}


def test_it_is_registered_and_wants_a_judge(tmp_path: Path) -> None:
    assert benchmarks.get("evals_json") is PLUGIN
    benchmark: Any = PLUGIN(EvalsSettings(data_path=skill(tmp_path / "tables", [case(n) for n in range(5)])))
    assert benchmark.wants_judge
    assert [len(benchmark.tasks(split)) for split in SPLITS] == [2, 2, 1]


@pytest.mark.parametrize(
    ("changes", "rubric"),
    [
        ({"assertions": ["Names March", " Is short "]}, ["Names March", "Is short"]),
        ({"assertions": None, "expectations": ["Names March"]}, ["Names March"]),
        (
            {"assertions": ["Names March"], "expectations": ["Names March", "Is short"]},
            ["Names March", "Is short"],
        ),
        (
            {
                "assertions": [
                    {"text": "Names March", "type": "quality"},
                    {"name": "x", "description": "Is short"},
                ]
            },
            ["Names March", "Is short"],
        ),
        (
            {"assertions": [{"name": "m", "type": "not_contains", "value": "April"}]},
            ["The output: not contains 'April'"],
        ),
        ({"assertions": []}, ["The result is what was expected: One sentence."]),
        ({"assertions": None}, ["The result is what was expected: One sentence."]),
    ],
)
def test_assertions_and_expectations_are_criteria_in_every_shape(
    tmp_path: Path, changes: dict[str, Any], rubric: list[str]
) -> None:
    task = tasks(tmp_path / "tables", [case(1, **changes)])["1"]
    assert task.data["rubric"] == rubric
    assert (task.prompt, task.reference) == ("Sum up month 1.", "One sentence.")


def test_the_file_is_found_from_the_folder_from_the_skill_and_by_itself(tmp_path: Path) -> None:
    folder = skill(
        tmp_path / "tables", [case(1), {"name": "by-name", "prompt": "p", "expectations": ["x"]}], key="cases"
    )
    for path in (folder, folder / "SKILL.md", folder / "evals" / "evals.json"):
        assert [row.data.get("id", row.data.get("name")) for row in load_evals(path, [])] == [1, "by-name"]
    with pytest.raises(TaskError, match=r"holds no evals/evals\.json"):
        load_evals(tmp_path, [])
    with pytest.raises(ConfigError, match="There are no evals"):
        PLUGIN(EvalsSettings())
    found = PLUGIN(EvalsSettings(skill_init=folder))
    assert sum(len(found.tasks(split)) for split in SPLITS) == 2


def test_a_cases_files_are_shown_in_its_prompt_or_left_to_an_agent(tmp_path: Path) -> None:
    for number, name in enumerate(("evals/files/sales.csv", "files/sales.csv")):
        shown = tasks(tmp_path / f"one-{number}", [case(1, files=[name])])["1"]
        assert shown.prompt == "Sum up month 1.\n\n## File sales.csv\n\nmonth,sales\nMarch,3"
        assert shown.files == ()
        left = tasks(tmp_path / f"two-{number}", [case(1, files=[name])], show_files=False)["1"]
        assert left.prompt == "Sum up month 1."
        assert [path.name for path in left.files] == ["sales.csv"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompt": " "}, "'prompt' is missing or empty"),
        ({"assertions": [], "expected_output": ""}, "has neither assertions nor an expected_output"),
        ({"assertions": "Names March"}, "'assertions' is no list"),
        ({"assertions": [{"weight": 2}]}, "is no assertion"),
        ({"expected_output": ["x"]}, "'expected_output' is no text"),
        ({"files": ["gone.csv"]}, "there is no file 'gone.csv'"),
        ({"files": ["../outside.txt"]}, "lies outside of"),
        ({"files": ["evals/files/chart.png"]}, "chart.png is no text. Set env.show_files to false"),
    ],
)
def test_a_case_that_cannot_be_used_is_named_by_line(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    (tmp_path / "outside.txt").write_text("x")
    cases = [case(1), case(2, **changes), case(3)]
    benchmark: Any = PLUGIN(EvalsSettings(data_path=skill(tmp_path / "tables", cases)))
    assert {task.id for split in SPLITS for task in benchmark.tasks(split)} == {"1", "3"}
    (told,) = benchmark.bad_rows
    assert "evals.json, line " in told
    assert words in told


def test_an_agent_whose_work_is_judged_does_not_get_the_evals(tmp_path: Path) -> None:
    folder = skill(tmp_path / "tables", [case(1)])
    (folder / "references").mkdir()
    (folder / "references" / "units.md").write_text("kg")
    seed = load_skill(folder)
    install_skill(seed.document.text, tmp_path / "workspace", seed)
    assert sorted(path.name for path in (tmp_path / "workspace" / "tables").rglob("*") if path.is_file()) == [
        "SKILL.md",
        "units.md",
    ]
    before = carried_digest(seed)
    (folder / "evals" / "evals.json").write_text("{}")
    assert carried_digest(seed) == before


async def test_a_skill_is_trained_on_its_own_evals(tmp_path: Path) -> None:
    folder = skill(
        tmp_path / "tables", [case(n, assertions=[f"Gives the unit of month {n}"]) for n in range(12)]
    )

    def answer(call: Call) -> str:
        place = call.place or ""
        if place.startswith("rollout/"):
            return "3 kg" if RULE in call.text else "3"
        if place.startswith("judge/"):
            met = "3 kg" in call.text
            return json.dumps(
                {"findings": [{"criterion": 1, "evidence": "3 kg" if met else "3", "met": met}]}
            )
        return json.dumps(
            {"batch_size": 4, "patch": {"reasoning": "r", "edits": [{"op": "append", "content": RULE}]}}
        )

    async with LoopbackProvider(answer) as provider:
        model = f"compatible:m@{provider.base_url}"
        options = [
            "env.name=evals_json",
            f"env.skill_init={folder}",
            f"model.target={model}",
            f"model.optimizer={model}",
            "train.num_epochs=1",
        ]
        job = prepare(load(None, flags={}, options=options, environ={}, cwd=tmp_path))
        async with open_run(job, tmp_path / "run") as opened:
            result = await train(opened)
    assert (result.summary["baseline_test_hard"], result.summary["test_hard"]) == (0.0, 1.0)
