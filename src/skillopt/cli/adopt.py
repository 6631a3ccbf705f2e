"""`skillopt adopt`: write a run's best skill to where it came from or an agent looks, or take that back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from skillopt.changes.best_skill import ZIP, AdoptionPlan, backups_of, plan_adoption, undo_adoption
from skillopt.changes.best_skill import adopt as carry_out
from skillopt.changes.journal import AppliedChange
from skillopt.cli._console import echo, print_json, tell
from skillopt.cli._options import Json, NewestRun, TakeFlagged, option, simple
from skillopt.errors import UsageError
from skillopt.runs.best import refuse_unnamed
from skillopt.runs.reader import find_run
from skillopt.skill.diff import print_coloured

PANEL, PLACE = "Look at runs", 4


def adopt(
    run: NewestRun = None,
    to: Annotated[
        str | None,
        option(
            "--to",
            "Write it elsewhere: a skill's folder, an .md file, where an agent such as claude-code, codex or"
            " cursor looks (agents for several), or zip.",
            "PLACE",
        ),
    ] = None,
    into: Annotated[
        Path | None, option("--into", "The agent's project; the current folder when left out.", "FOLDER")
    ] = None,
    user: Annotated[bool, option("--user", "For all projects of the agent: below your home folder.")] = False,
    name: Annotated[str | None, option("--name", "For an agent: the name of a skill that has none.")] = None,
    description: Annotated[
        str | None,
        option("--description", "For an agent: what a skill without frontmatter does and when to use it."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[
        bool, option("--force", "Adopt, or undo, also against doubts; what is replaced is kept.")
    ] = False,
    take_flagged: TakeFlagged = None,
    undo: Annotated[bool, option("--undo", "Take the last adoption of the run back.")] = False,
    dry_run: Annotated[bool, option("--dry-run", "Show what would change, and end.")] = False,
    json: Json = False,
) -> None:
    """Show how the best skill differs from the one it was trained from, ask, and replace that one.

    It asks twice, or wants --force beside --yes, where the sealed test was not opened or shows no gain, or
    a file is there and is another one. Learned lines that are flagged - commands, links, permissions and such
    that the seed did not have - are taken only where each is named. What was replaced is kept in your own
    folder.
    """
    folder = find_run(run or Path("outputs"))
    backups = backups_of(folder)
    if undo:
        undone = undo_adoption(folder, force=force)
        lines = [f"restored   {path}" for path in undone.written]
        lines += [f"left       {left}: somebody else changed it at this moment" for left in undone.left_out]
        data = {"restored": undone.written, "left_out": undone.left_out, "backups": backups}
        tell(data, [*lines, f"What they held is in {backups}."], json=json)
        return
    if user and (into is not None or to == ZIP):
        raise UsageError("--user names your home folder; it goes neither with --into nor with --to zip.")
    place = Path.home() if user else into
    plan = plan_adoption(folder, to, into=place, name=name, description=description)
    if not json:
        _show(plan)
    change: AppliedChange | None = None
    if not dry_run and plan.changes:
        refuse_unnamed(plan.flagged, take_flagged or ())
        _confirm(plan, yes=yes or json, force=force)
        change = carry_out(plan, taken=take_flagged or ())
    if json:
        about = {"run": plan.run, "skill": plan.skill, "claim": plan.claim, "doubts": plan.doubts}
        about |= {"flagged": list(map(asdict, plan.flagged)), "remarks": plan.remarks, "diff": plan.diff}
        about |= {"files": [one.file.path for one in plan.changes], "adopted": change is not None}
        print_json({**about, "backups": None if change is None else backups})
    elif change is not None:
        for path in change.written:
            echo(f"written    {path}")
        for left in change.left_out:
            echo(f"left       {left}: somebody else changed it at this moment")
        echo(f"Before it: {backups}. To take it back: skillopt adopt {folder} --undo")


add = simple(adopt)


def _show(plan: AdoptionPlan) -> None:
    print_coloured(plan.diff)
    echo(f"{plan.run}: {plan.claim or 'no claim yet.'}", err=True)
    for one in (*plan.remarks, *plan.flagged):
        echo(str(one), err=True)
    if plan.changes:
        for doubt in plan.doubts:
            echo(f"doubt: {doubt}", err=True)
    else:
        echo(f"{plan.skill} holds the best skill already.", err=True)


def _confirm(plan: AdoptionPlan, *, yes: bool, force: bool) -> None:
    """Ask once, and once more where there is a doubt. Raises `UsageError` where the answer is no."""
    if yes and plan.doubts and not force:
        raise UsageError(f"Nothing was changed. {' '.join(plan.doubts)} --force adopts it all the same.")
    is_new = all(one.before is None for one in plan.changes)
    questions = [] if yes else [f"{'Write' if is_new else 'Replace'} {plan.skill}?"]
    if plan.doubts and not (yes or force):
        questions.append("There are doubts. Adopt it all the same?")
    for question in questions:
        try:
            said = typer.confirm(question, err=True)
        except typer.Abort:  # nobody is there to answer
            raise UsageError("Nothing was changed: nobody answered. --yes adopts without asking.") from None
        if not said:
            raise UsageError("Nothing was changed.")
