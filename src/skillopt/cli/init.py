"""`skillopt init`: start a skill of your own: a folder with the skill, example tasks and a config."""

from __future__ import annotations

import json as json_format
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from skillopt.benchmarks.own import PROMPT_FIELDS, REFERENCE_FIELDS, OwnSettings, read_tasks
from skillopt.cli._console import echo, print_json
from skillopt.cli._options import Json, argument, option, simple
from skillopt.errors import SkillError, UsageError
from skillopt.files import check_no_link, write_text
from skillopt.models.world.rules import SEED_SKILL, code_of, family_of
from skillopt.skill.document import SKILL_FILE
from skillopt.skill.folder import load_skill
from skillopt.skill.spec import violations
from skillopt.tasks.rows import DataRow, load_rows
from skillopt.tasks.splits import format_bad_rows

PANEL, PLACE = "Train and measure", 0
_SCORED_BY = {"checks": "checks", "rubric": "judge"}
"""The scorer of tasks that have such a field."""
_IDS = ("id", "task_id", "split")
_COLUMNS = {"prompt": "Asked is", "reference_field": "The answer is in"}
"""How the choice of a column is told."""
EXAMPLES = 150
"""Cases of the simulated world: 60 to learn from, 60 for the gate, 30 for the test."""


def init(
    name: Annotated[
        str | None, argument("NAME", "The skill's name: lowercase, digits, hyphens; a path makes it there.")
    ] = None,
    skill: Annotated[
        Path | None, option("--skill", "A skill that is there already: it stays where it is.", "PATH")
    ] = None,
    tasks: Annotated[
        Path | None, option("--tasks", "Its tasks: a JSONL, JSON or CSV file, which stays too.", "FILE")
    ] = None,
    prompt: Annotated[
        str | None,
        option("--prompt", "How a row of them is asked: '{column}', with words around it if any.", "TEXT"),
    ] = None,
    reference_field: Annotated[
        str | None, option("--reference_field", "The column that holds the answer.", "COLUMN")
    ] = None,
    json: Json = False,
) -> None:
    """Start a skill of your own: a folder with skill, example tasks and config. Nothing is overwritten.

    With --skill only the config is made, in NAME or else in a folder named after the skill. Which columns are
    asked and answered is found by their names, or told with --prompt and --reference_field.
    """
    if skill is not None:
        _around(skill, tasks, name, {"prompt": prompt, "reference_field": reference_field}, json=json)
        return
    if name is None or tasks is not None:
        raise UsageError("Name the new skill, or --skill PATH with the one there is (and --tasks FILE).")
    folder = Path(name)
    made, trial = start(folder), f"skillopt train {folder} --target world"
    if json:
        print_json({"folder": folder, "created": made, "try": trial})
        return
    for path in made:
        echo(f"created  {path}")
    echo(
        f"\nTry it, simulated and without a key:\n  {trial}\n\nThen put your own tasks into"
        f" {folder / 'tasks.jsonl'} and your own words into the skill; {folder / 'train.yaml'} says how."
    )


add = simple(init)


def _around(
    path: Path, tasks: Path | None, name: str | None, told: Mapping[str, str | None], *, json: bool
) -> None:
    """A config around a skill that is there, and around its tasks where there are some."""
    skill = load_skill(path)
    folder = Path(name or f"{skill.name}-training")
    config = folder / "train.yaml"
    for one in (folder, config):
        check_no_link(one)
    if config.exists():
        raise UsageError(f"{config} is there already; nothing was written. Choose another NAME.")
    data = folder / "tasks.jsonl" if tasks is None else tasks
    scorer, columns, count, notes = "checks", dict[str, str](), 0, list[str]()
    if tasks is not None:
        rows = load_rows(tasks)
        fields = list(dict.fromkeys(field for row in rows for field in row.data))
        scorer = next((scorer for field, scorer in _SCORED_BY.items() if field in fields), "exact_match")
        columns = _columns(tasks, fields, scorer, {key: value for key, value in told.items() if value})
        count, notes = _usable(
            OwnSettings.model_validate({"data_path": tasks, "scorer": scorer, **columns}), rows
        )
    assert skill.path is not None, "it was read from a file"
    text = _text("init_around.yaml").format(
        folder=folder.as_posix(),
        skill=_beside(skill.folder or skill.path, folder),
        data=_beside(data, folder),
        columns="".join(f"  {key}: {_quoted(value)}\n" for key, value in columns.items()),
        scorer=scorer,
    )
    write_text(config, text)
    draft = f"skillopt tasks draft {path} --out {data} --optimizer MODEL"
    following = f"skillopt try {folder} --target MODEL" if count else draft
    if json:
        made = {"folder": folder, "created": [config], "tasks": count, "next": following}
        print_json({**made, "notes": notes, **columns})
        return
    echo(f"created  {config}")
    if count:
        echo(f"{count} tasks, scored by {scorer}.")
    for key, value in columns.items():
        echo(f"{_COLUMNS[key]} {value}; if that is wrong, correct env.{key} in {config}.")
    for note in notes:
        echo(note)
    echo(f"Next: {following}")


def _usable(settings: OwnSettings, rows: Sequence[DataRow]) -> tuple[int, list[str]]:
    """How many tasks the config will find, and what is to be said about the others."""
    named = settings.reference_field or next(
        (name for name in REFERENCE_FIELDS if any(name in row.data for row in rows)), None
    )
    if named is None and settings.scorer == "exact_match":
        return len(rows), [
            "No column is known to hold the answer: set env.reference_field to it, or env.scorer to one that"
            " needs none."
        ]
    found, bad = read_tasks(settings)
    return len(found), [format_bad_rows(bad)] if bad else []


def _columns(file: Path, fields: Sequence[str], scorer: str, told: Mapping[str, str]) -> dict[str, str]:
    """What a config has to say about columns: nothing where their names do, what was told, or else what
    leaves no choice. Raises where it is not clear what is asked.
    """
    template = told.get("prompt", "")
    free = [field for field in fields if field not in (*_SCORED_BY, *_IDS) and f"{{{field}}}" not in template]
    asked = None if template else _named(PROMPT_FIELDS, free)
    answer = told.get("reference_field") or _named(REFERENCE_FIELDS, free)
    rest = [field for field in free if field not in (asked, answer)]
    wanted = scorer == "exact_match" and answer is None
    if not template and asked is None:
        if len(rest) != 1 + wanted:
            raise UsageError(
                f"{file} has the columns {', '.join(fields)}: which is asked, and which holds the answer? Add"
                " --prompt '{COLUMN}' --reference_field COLUMN."
            )
        asked = rest.pop(0)  # the question stands before the answer
    if wanted and len(rest) == 1:
        (answer,) = rest
    written = {"prompt": template or f"{{{asked}}}", "reference_field": answer or ""}
    usual = ("", *REFERENCE_FIELDS, *(f"{{{field}}}" for field in PROMPT_FIELDS))
    return {key: value for key, value in written.items() if value not in usual}


def _named(usual: Sequence[str], fields: Sequence[str]) -> str | None:
    """The field of a usual name, in whatever case."""
    by_name = {field.strip().lower(): field for field in reversed(fields)}
    return next((by_name[name] for name in usual if name in by_name), None)


def _quoted(value: str) -> str:
    return json_format.dumps(value, ensure_ascii=False)


def _beside(path: Path, folder: Path) -> str:
    """A path as a config in that folder names it: `./` says that it is seen from there alone."""
    return f"./{Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()}"


def start(folder: Path) -> list[Path]:
    """Write the files of a new skill, named after its folder; raises where something is in the way."""
    check_no_link(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} already holds something; nothing was written. Choose another name.")
    name = folder.absolute().name
    skill = _text("init_skill.md").format(name=name, body=SEED_SKILL.strip())
    broken = [one.message for one in violations(skill, name) if one.severity == "error"]
    if broken:
        raise SkillError(f"{name!r} cannot be the name of a skill. {' '.join(broken)}")
    made = {
        folder / name / SKILL_FILE: skill,
        folder / "tasks.jsonl": "".join(map(_task, (f"W00{number:04d}" for number in range(EXAMPLES)))),
        folder / "train.yaml": _text("init_train.yaml").format(name=name, folder=folder.as_posix()),
    }
    for path, text in made.items():
        write_text(path, text)
    return list(made)


def _task(case: str) -> str:
    kind = family_of(case)
    prompt = f"Case {case}, about {kind}. What is its code?"
    return json_format.dumps({"id": case, "prompt": prompt, "answer": code_of(case), "kind": kind}) + "\n"


def _text(name: str) -> str:
    return files("skillopt.cli").joinpath("texts").joinpath(name).read_text(encoding="utf-8")
