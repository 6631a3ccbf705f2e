"""`skillopt init`: start a skill of your own: a folder with the skill, example tasks and a config."""

from __future__ import annotations

import json as json_format
import os
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from skillopt.cli._console import echo, print_json
from skillopt.cli._options import Json, argument, option, simple
from skillopt.errors import SkillError, UsageError
from skillopt.files import write_text
from skillopt.models.world.rules import SEED_SKILL, code_of, family_of
from skillopt.skill.folder import load_skill
from skillopt.skill.paths import SKILL_FILE
from skillopt.skill.spec import violations
from skillopt.tasks.rows import load_rows

PANEL, PLACE = "Train and measure", 0
_SCORED_BY = {"checks": "checks", "rubric": "judge"}
"""The scorer of tasks that have such a field."""
EXAMPLES = 150
"""Cases of the simulated world: 60 to learn from, 60 for the gate, 30 for the test."""


def init(
    name: Annotated[
        str | None,
        argument("NAME", "The skill's name: lowercase, digits, hyphens; a path makes it there."),
    ] = None,
    skill: Annotated[
        Path | None, option("--skill", "A skill that is there already: it stays where it is.", "PATH")
    ] = None,
    tasks: Annotated[
        Path | None, option("--tasks", "Its tasks: a JSONL, JSON or CSV file, which stays too.", "FILE")
    ] = None,
    json: Json = False,
) -> None:
    """Start a skill of your own: a folder with skill, example tasks and config. Nothing is overwritten.

    With --skill only the config is made, in NAME or else in a folder named after the skill.
    """
    if skill is not None:
        _around(skill, tasks, name, json=json)
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


def _around(path: Path, tasks: Path | None, name: str | None, *, json: bool) -> None:
    """A config around a skill that is there, and around its tasks where there are some."""
    skill = load_skill(path)
    folder = Path(name or f"{skill.name}-training")
    config = folder / "train.yaml"
    if config.exists():
        raise UsageError(f"{config} is there already; nothing was written. Choose another NAME.")
    rows = [] if tasks is None else load_rows(tasks)
    fields = {field for row in rows for field in row.data}
    scorer = next((scorer for field, scorer in _SCORED_BY.items() if field in fields), "exact_match")
    data = folder / "tasks.jsonl" if tasks is None else tasks
    assert skill.path is not None, "it was read from a file"
    text = _text("init_around.yaml").format(
        folder=folder.as_posix(),
        skill=_beside(skill.folder or skill.path, folder),
        data=_beside(data, folder),
        scorer="checks" if tasks is None else scorer,
    )
    write_text(config, text)
    draft = f"skillopt tasks draft {path} --out {data} --optimizer MODEL"
    following = f"skillopt try {folder} --target MODEL" if rows else draft
    if json:
        print_json({"folder": folder, "created": [config], "tasks": len(rows), "next": following})
        return
    echo(f"created  {config}")
    if rows:
        echo(f"{len(rows)} tasks, scored by {scorer}.")
    echo(f"Next: {following}")


def _beside(path: Path, folder: Path) -> str:
    """A path as a config in that folder names it."""
    return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()


def start(folder: Path) -> list[Path]:
    """Write the files of a new skill, named after its folder; raises where something is in the way."""
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
