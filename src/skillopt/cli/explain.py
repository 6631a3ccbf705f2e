"""`skillopt explain`: recompute a verdict from stored rows alone, and show what decided it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from skillopt.cli._answers import lines, outcome
from skillopt.cli._console import SafeConsole, open_console, print_json
from skillopt.cli._options import Json, argument, option, simple
from skillopt.runs import words
from skillopt.runs.answers import RunAnswers, read_answers
from skillopt.runs.evidence import JudgedRow, VerdictEvidence, gather
from skillopt.runs.proofs import EditProof, StepProof, read_proof
from skillopt.runs.reader import RunReader, find_run, read_run
from skillopt.runs.verdicts import VERDICT, find, latest
from skillopt.tasks.splits import listed
from skillopt.tasks.triggers import LEAVE, LOAD

PANEL, PLACE = "Look at runs", 1
_ARMS = ("incumbent", "candidate")
MOST_TASKS = 4
"""Tasks that an edit's line names."""
_STEP = (
    "A step's number, or 'epoch-N' for the slow update of epoch N; 'N/c0', 'N/c1' where a step tried several"
    " candidates; or a task's id for its answers. Left out: the last step."
)


def explain(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    step: Annotated[str | None, argument("STEP", _STEP)] = None,
    everything: Annotated[
        bool, option("--all", "Show every row and every edit that was tried, not those alone that tell.")
    ] = False,
    json: Json = False,
) -> None:
    """Recompute a step's verdict and proofs of edits from stored rows; ends with 1 if the record differs."""
    reader = read_run(find_run(run))
    step = step or latest(reader)
    if not VERDICT.fullmatch(step) and (answers := read_answers(reader, tasks=[step])).tasks:
        _show_task(answers, json)
        return
    found = find(reader, step)
    evidence, proof = gather(reader, found), read_proof(reader, found)
    if json:
        print_json(evidence.as_json() | {"proof": None if proof is None else proof.as_json()})
    else:
        _show(evidence, proof, everything)
        _show_answers(reader, evidence, everything)
    if not evidence.agrees or (proof is not None and proof.differences):
        raise typer.Exit(1)


add = simple(explain)


def _show_task(answers: RunAnswers, json: bool) -> None:
    if json:
        told = {"seed": answers.seed, "best": answers.best, "folds": answers.folds}
        print_json(told | {"tasks": [one.as_json() for one in answers.tasks]})
        return
    for task in answers.tasks:
        names = {answers.seed: "seed", answers.best: "best"}
        open_console().say("\n".join(lines(task, names, outcome(task, answers))))


def _show_answers(reader: RunReader, evidence: VerdictEvidence, everything: bool) -> None:
    """What incumbent and candidate answered where they differ; the first few, unless all are wanted."""
    differ = list(
        dict.fromkeys(row.task for row in evidence.rows if row.candidate not in (None, row.incumbent))
    )
    names = {evidence.incumbent: "incumbent", evidence.judged.skill: "candidate"}
    if not differ:
        return
    console = open_console()
    shown = differ if everything else differ[:MOST_TASKS]
    for task in read_answers(reader, tasks=shown, skills=names).tasks:
        if task.split == "val":
            console.say("\n".join(lines(task, names)))
    if len(shown) < len(differ):
        console.say(f"{len(differ) - len(shown)} more tasks went differently: --all shows them.", "dim")


def _show(evidence: VerdictEvidence, proof: StepProof | None, everything: bool) -> None:
    console = open_console()
    judged = evidence.judged
    console.say(f"{evidence.name}: {words.outcome(judged.action)}", "bold")
    console.say(f"recorded   {judged.why}")
    console.say(f"recomputed {evidence.recomputed}: {evidence.reason}")
    if evidence.others:
        console.say(f"The same step also has {'; '.join(evidence.others)}.")
    if evidence.rows:
        n = evidence.total
        console.say(
            f"I, the incumbent's sum: {float(evidence.bar):g} of {n} ({float(evidence.bar / n):.4f}).  U, the"
            f" candidate's sum with rows not read counted in full: {float(evidence.upper):g}"
            f" ({float(evidence.upper / n):.4f}).  Metric: {judged.metric}. Policy: {evidence.policy}."
        )
        is_taken = evidence.recomputed == "accept"
        prefix = "an accept needs every row" if is_taken else "the shortest prefix that fixes the verdict"
        better, worse = (sum(_moved(row) == way for row in evidence.rows) for way in (1, -1))
        console.say(
            f"Decided on {evidence.read} of {n} rows, {prefix}: {better} better, {worse} worse,"
            f" {len(evidence.rows) - better - worse} the same."
        )
        rows = [one for one in enumerate(evidence.rows, start=1) if everything or _moved(one[1])]
        table = Table(show_edge=False, pad_edge=False)
        for name in ("row", "task", "draw", "incumbent", "candidate", "U after it"):
            table.add_column(name, justify="left" if name == "task" else "right", overflow="fold")
        for number, row in rows:
            table.add_row(str(number), Text(row.task), str(row.draw), *_figures(row))
        if rows:
            console.print(table)
        if left_out := len(evidence.rows) - len(rows):
            console.say(f"{words.count(left_out, 'row')} without a change: --all shows them.", "dim")
        for kind in (LOAD, LEAVE):
            of_kind = [row for row in evidence.rows if row.task.startswith(f"{kind}-")]
            if of_kind and evidence.read == n:
                before, after = (sum(getattr(row, arm) == 1 for row in of_kind) for arm in _ARMS)
                console.say(f"{kind}: {before} of {len(of_kind)} right before, {after} with the candidate.")
    if proof is not None:
        _show_proof(console, proof, everything)
    elif evidence.edits:
        console.say("Edits and how they ended:")
    for edit in evidence.edits if proof is None else ():
        why = f" ({edit.reason})" if edit.reason else ""
        style = "green" if edit.state == "applied" else "dim"
        console.say(f"  {edit.state:<11}{words.edit(edit.edit)}{why}", style)
    if evidence.hedged:
        console.say(f"{evidence.hedged} slow calls behind it were asked twice; the first reply counted.")
    same = "equals" if evidence.agrees else "DIFFERS from"
    style = "green" if evidence.agrees else "bold red"
    console.say(f"The recomputed verdict {same} the recorded one.", style)
    for difference in () if proof is None else proof.differences:
        console.say(f"DIFFERS: {difference}", "bold red")


def _show_proof(console: SafeConsole, proof: StepProof, everything: bool) -> None:
    """An edit in two lines: what it is, and what its trials showed."""
    chosen = [one for one in proof.edits if one.chosen]
    noise = f"; {proof.noise:.0%} of rows changed when drawn again" if proof.noise else ""
    trials = words.count(proof.trials, "trial")
    console.say(f"{len(chosen)} of {words.count(len(proof.edits), 'edit')} chosen after {trials}{noise}:")
    for one in proof.edits if everything else chosen:
        told = one.state + "".join(f", {key} {words.outcome(action)}" for key, action in one.verdicts.items())
        style = "green" if one.state == "applied" else "dim"
        console.say(f"  {told}: {words.edit(one.edit)}", style)
        console.say(f"      {'; '.join(_facts(one))}", "dim")
    if not everything and len(chosen) < len(proof.edits):
        left_out = words.count(len(proof.edits) - len(chosen), "edit that was", "edits that were")
        console.say(f"{left_out} not chosen: --all shows them.")


def _facts(one: EditProof) -> list[str]:
    tried, fixed = (listed(tasks, MOST_TASKS) or "none" for tasks in (one.tried_on, one.fixed))
    facts = [f"lane {one.lane}, look {one.look}", f"tried on {tried}", f"fixed {fixed}"]
    facts += [f"joined into {one.joined_into}"] if one.joined_into else []
    facts += [f"stands for {words.count(len(one.stands_for), 'other')}"] if one.stands_for else []
    facts += [f"guilty by {' and '.join(one.blamed)}"] if one.blamed else []
    facts += ["pruned"] if one.pruned else []
    facts += [one.reason] if one.reason and one.state not in ("merged", "unproven") else []
    return facts


def _moved(row: JudgedRow) -> int:
    """1 where the candidate did better on a row, -1 where it did worse or could not be measured."""
    if row.candidate is None:
        return -1
    return (row.candidate > row.incumbent) - (row.candidate < row.incumbent)


def _figures(row: JudgedRow) -> tuple[str, str, str]:
    mine = f"invalid ({row.invalid})" if row.candidate is None else f"{float(row.candidate):g}"
    return f"{float(row.incumbent):g}", mine, f"{float(row.upper):g}"
