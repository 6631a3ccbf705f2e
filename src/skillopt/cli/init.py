"""`skillopt init`: start a skill of your own: a folder with the skill, example tasks and a config."""

from __future__ import annotations

import json as json_format
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from skillopt.cli._console import echo, print_json
from skillopt.cli._options import Json, simple
from skillopt.errors import SkillError, UsageError
from skillopt.files import write_text
from skillopt.models.world.rules import SEED_SKILL, code_of, family_of
from skillopt.skill.paths import SKILL_FILE
from skillopt.skill.spec import violations

PANEL, PLACE = "Train and measure", 0
EXAMPLES = 150
"""Cases of the simulated world: 60 to learn from, 60 for the gate, 30 for the test."""


def init(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The skill's name: lowercase, digits, hyphens; a path makes it there."
        ),
    ],
    json: Json = False,
) -> None:
    """Start a skill of your own: a folder with skill, example tasks and config. Nothing is overwritten."""
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
