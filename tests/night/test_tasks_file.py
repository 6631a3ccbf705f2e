"""The file of tasks: what is written comes back the same, what cannot be measured is refused by name, and
nothing of it is guessed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from night._nights import Person
from skillopt.errors import TaskError, UsageError
from skillopt.tasks.scorers.checks import kept_rules
from skillopt.tasks.scorers.rules import CheckedWork, Rule
from skillopt_sleep import NightSettings, with_tasks
from skillopt_sleep.tasks import NightTask
from skillopt_sleep.tasks_file import TasksFile, read_tasks, write_tasks

PLAN = NightSettings()


def row(**keys: Any) -> dict[str, Any]:
    checks = {"kind": "rule", "checks": [{"op": "contains", "arg": "Risks"}]}
    return {"id": "t1", "intent": "Write a brief on tea.", "reference_kind": "rule", "judge": checks, **keys}


def read(folder: Path, *rows: Any, **keys: Any) -> TasksFile:
    path = folder / "tasks.json"
    path.write_text(json.dumps({"format": "skillopt_sleep.tasks.v1", "tasks": list(rows), **keys}))
    return read_tasks(path, project="/p", settings=PLAN)


def checks_of(*rules: Rule) -> tuple[dict[str, Any], ...]:
    return tuple(rule.as_json() for rule in rules)


def mined(number: int, **keys: Any) -> NightTask:
    task = NightTask(
        id=f"m-{number}",
        kind="write brief",
        project="/p",
        prompt=f"Write a brief on number {number}.",
        split="val" if number % 2 else "train",
        outcome="corrected",
        skills=("brief-writer",),
        sessions=("codex:s1", "jsonl:s2"),
        checks=checks_of(
            Rule("section_present", "Key Risks"),
            Rule("max_chars", 1200),
            Rule("no_refusal"),
            Rule("regex", r"\bShip\b"),
        ),
    )
    return task.model_copy(update=keys)


def test_what_is_written_comes_back_the_same_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    tasks = [
        mined(1),
        mined(2, checks=(), rubric="- It has a verdict.\n- It names risks.", outcome="redone"),
        mined(3, split="test", skills=(), outcome="accepted"),
        mined(5, form_alone=True),
        mined(4, outcome="unknown", checks=checks_of(Rule("contains", "Zoë's \u200b<b>"))),
    ]
    path = tmp_path / "out" / "tasks.json"
    write_tasks(
        path, tasks, project="/p", sources="codex,jsonl", sessions=9, target=".claude/skills/x/SKILL.md"
    )
    assert path.stat().st_mode & 0o777 == 0o600
    back = read_tasks(path, project="/p", settings=PLAN)
    assert list(back.tasks) == tasks
    assert (back.reviewed, back.project, back.target_skill_path) == (False, "/p", ".claude/skills/x/SKILL.md")


def test_a_bare_list_is_tasks_that_nobody_reviewed(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps([row(), row(id="t2", intent="Write a brief on milk.")]))
    found = read_tasks(path, project="/p", settings=PLAN)
    assert len(found.tasks) == 2 and found.reviewed is False


def test_splits_are_those_of_the_file_in_either_words_and_made_where_it_has_none(tmp_path: Path) -> None:
    words = ("train", "replay", "val", "holdout", "test")
    told = read(tmp_path, *(row(id=word, intent=f"Write about {word}.", split=word) for word in words))
    assert [task.split for task in told.tasks] == ["train", "train", "val", "val", "test"]
    made = read(
        tmp_path,
        *(row(id=f"t{n}", intent=f"Write about {word} and its history.") for n, word in enumerate(words)),
    )
    assert {task.split for task in made.tasks} == {"train", "val"}
    again = read(
        tmp_path,
        *(row(id=f"t{n}", intent=f"Write about {word} and its history.") for n, word in enumerate(words)),
    )
    assert [task.split for task in again.tasks] == [task.split for task in made.tasks]


@given(
    st.lists(
        st.text(st.characters(categories=["Ll", "Nd"]), min_size=1, max_size=6),
        min_size=2,
        max_size=6,
        unique=True,
    )
)
@settings(max_examples=30)
def test_two_tasks_or_more_are_on_both_sides(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str]
) -> None:
    rows = [row(id=f"t{number}", intent=f"Write about {id}.") for number, id in enumerate(ids)]
    assert {"train", "val"} <= {task.split for task in read(tmp_path_factory.mktemp("n7b"), *rows).tasks}


async def test_an_exact_reference_is_whole_words(tmp_path: Path) -> None:
    (task,) = read(tmp_path, row(reference_kind="exact", reference="4 Apples", judge={})).tasks
    answers = ("It is 4 apples.", "4   APPLES!", "14 apples", "4 applesauce")
    assert [
        (await kept_rules(task.rules, CheckedWork(answer=one), whose="a test"))[0] for one in answers
    ] == [True, True, False, False]


def test_context_is_part_of_the_request(tmp_path: Path) -> None:
    (task,) = read(
        tmp_path, row(context_excerpt="For children.", origin="real", attempted_solution="x")
    ).tasks
    assert task.prompt == "Write a brief on tea.\n\nContext:\n\nFor children."


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "it holds no task"),
        (["x"], "task 1: it: Input should be"),
        ([row(intent="short")], "task t1: intent: String should have at least 8"),
        ([row(intent=None)], "task t1: intent"),
        ([row(id="../../etc")], "is no plain name"),
        ([row(system="You are root.")], "a system prompt of its own"),
        ([row(split="vall")], "no split is named 'vall'"),
        ([row(judge={"checks": [{"op": "always"}]})], "check 1: no rule is named 'always'"),
        ([row(judge={"checks": [{"op": "tool_called", "arg": "/bin/sh"}]})], "never a path or a command"),
        (
            [row(judge={"checks": [{"op": "json_schema", "arg": {}}]})],
            "only for checks that you wrote yourself",
        ),
        ([row(judge={})], "nothing to measure an answer by"),
        ([row(judge={}, reference_kind="none")], "nothing to measure an answer by"),
        ([row(reference_kind="answer")], "reference_kind"),
        ([row(reference_kind="exact", reference="!?", judge={})], "holds no word"),
        ([row(), row()], "2 tasks have this id"),
        (
            [row(split="train"), row(id="t2", split="val")],
            "task t2: it asks the same as t1 and is val, not train",
        ),
        ([row(reference_kind="exact", reference="word " * 200)], "its exact reference is too long"),
    ],
)
def test_a_task_that_cannot_be_used_is_refused_by_name(tmp_path: Path, rows: list[Any], words: str) -> None:
    with pytest.raises(TaskError) as caught:
        read(tmp_path, *rows)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["{", "[" * 100_000, '"x"', '{"tasks": 3}', '{"format": "v2", "tasks": []}', '{"tasks": [], "task": 1}'],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(text)
    with pytest.raises(TaskError, match=r"tasks\.json"):
        read_tasks(path, project="/p", settings=PLAN)
    with pytest.raises(TaskError, match="cannot be read"):
        read_tasks(tmp_path / "gone.json", project="/p", settings=PLAN)


def test_a_file_may_name_a_skill_of_the_project_and_none_outside(tmp_path: Path) -> None:
    person = Person(tmp_path.resolve() / "home").write()
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps({"target_skill_path": "a\0b.md", "tasks": [row()]}))
    with pytest.raises(UsageError, match="which is no path"):
        with_tasks(person.around(), path)
    for target, fits in (
        (".claude/skills/brief-writer/SKILL.md", True),
        ("../secret/SKILL.md", False),
        ("~/.ssh/SKILL.md", False),
    ):
        path.write_text(json.dumps({"target_skill_path": target, "tasks": [row()]}))
        if fits:
            assert with_tasks(person.around(), path).settings.target_skill_path == person.skill
        else:
            with pytest.raises(UsageError, match="outside the project"):
                with_tasks(person.around(), path)
            chosen = person.around(target_skill_path=str(person.skill))
            assert with_tasks(chosen, path).settings.target_skill_path == person.skill, (
                "what the person says wins"
            )
