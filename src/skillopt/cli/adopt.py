"""`skillopt adopt`: write a run's best skill back to where its seed came from, or take that back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from skillopt.adoption import AdoptionPlan, plan_adoption, undo_adoption
from skillopt.adoption import adopt as carry_out
from skillopt.cli._console import echo, print_json, tell
from skillopt.cli._options import Json, NewestRun, TakeFlagged, option, simple
from skillopt.errors import UsageError
from skillopt.runs.flagged import refuse_unnamed
from skillopt.runs.reader import find_run
from skillopt.skill.diff import print_coloured

PANEL, PLACE = "Look at runs", 4


def adopt(
    run: NewestRun = None,
    to: Annotated[
        Path | None, option("--to", "Write it here instead: a skill's folder or an .md file.", "PATH")
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
    the file was changed since. Learned lines that are flagged - commands, links, permissions and such that
    the seed did not have - are taken only where each is named. What was replaced is kept in your own folder.
    """
    folder = find_run(run or Path("outputs"))
    if undo:
        paths = undo_adoption(folder, force=force)
        lines = [f"restored   {path}" for path in paths] or ["Everything was as before already."]
        tell({"restored": paths}, lines, json=json)
        return
    plan = plan_adoption(folder, to)
    if not json:
        _show(plan)
    backups = None
    if not dry_run and plan.changes:
        refuse_unnamed(plan.flagged, take_flagged or ())
        _confirm(plan, yes=yes or json, force=force)
        backups = carry_out(plan, taken=take_flagged or ())
    if json:
        about = {"run": plan.run, "skill": plan.skill, "claim": plan.claim, "doubts": plan.doubts}
        files = [change.file.path for change in plan.changes]
        about |= {"flagged": list(map(asdict, plan.flagged))}
        told = {**about, "remarks": plan.remarks, "files": files, "backups": backups, "diff": plan.diff}
        print_json({**told, "adopted": backups is not None})
    elif backups is not None:
        for change in plan.changes:
            echo(f"written    {change.file.path}")
        echo(f"Before it: {backups}. To take it back: skillopt adopt {folder} --undo")


add = simple(adopt)


def _show(plan: AdoptionPlan) -> None:
    print_coloured(plan.diff)
    echo(f"{plan.run}: {plan.claim or 'no claim yet.'}", err=True)
    for remark in plan.remarks:
        echo(remark, err=True)
    for one in plan.flagged:
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
    questions = [] if yes else [f"Replace {plan.skill}?"]
    if plan.doubts and not (yes or force):
        questions.append("There are doubts. Adopt it all the same?")
    for question in questions:
        try:
            said = typer.confirm(question, err=True)
        except typer.Abort:  # nobody is there to answer
            raise UsageError("Nothing was changed: nobody answered. --yes adopts without asking.") from None
        if not said:
            raise UsageError("Nothing was changed.")
