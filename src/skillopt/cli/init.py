"""`skillopt init`: a skill, tasks with examples and a config that runs, as a start for one's own."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from skillopt.cli._console import echo
from skillopt.errors import SkillError, UsageError

PANEL, PLACE = "Train and measure", 0
EXAMPLES = 150
"""Cases of the simulated world: 60 to learn from, 60 for the gate, 30 for the test."""


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    app.command("init", rich_help_panel=PANEL)(init)


def init(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The skill's name: lowercase, digits, hyphens; a path makes it there."
        ),
    ],
) -> None:
    """Start a skill of your own: a folder with the skill, example tasks and a config. Nothing that is there
    is overwritten.
    """
    folder = Path(name)
    for path in start(folder):
        echo(f"created  {path}")
    echo(
        f"\nTry it, simulated and without a key:\n  skillopt train {folder} --target world\n\nThen put your"
        f" own tasks into {folder / 'tasks.jsonl'} and your own words into the skill; {folder / 'train.yaml'}"
        " says how."
    )


def start(folder: Path) -> list[Path]:
    """Write the files of a new skill, named after its folder; raises, and writes nothing, where something is
    in the way.
    """
    from skillopt.files import write_text
    from skillopt.models.world.rules import SEED_SKILL, code_of, family_of
    from skillopt.skill.folder import SKILL_FILE
    from skillopt.skill.spec import violations

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} already holds something; nothing was written. Choose another name.")
    name = folder.absolute().name
    skill = _text("init_skill.md").format(name=name, body=SEED_SKILL.strip())
    if broken := [
        violation.message for violation in violations(skill, name) if violation.severity == "error"
    ]:
        raise SkillError(f"{name!r} cannot be the name of a skill. {' '.join(broken)}")
    cases = [f"W00{number:04d}" for number in range(EXAMPLES)]
    rows = [
        {
            "id": case,
            "prompt": f"Case {case}, about {family_of(case)}. What is its code?",
            "answer": code_of(case),
            "kind": family_of(case),
        }
        for case in cases
    ]
    made = {
        folder / name / SKILL_FILE: skill,
        folder / "tasks.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        folder / "train.yaml": _text("init_train.yaml").format(name=name, folder=folder.as_posix()),
    }
    for path, text in made.items():
        write_text(path, text)
    return list(made)


def _text(name: str) -> str:
    return files("skillopt.cli").joinpath("texts").joinpath(name).read_text(encoding="utf-8")
