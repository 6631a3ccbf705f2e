"""`skillopt runs show` and `runs explain`: answers and verdicts of a run, from what it stored alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from skillopt.cli._console import SafeConsole, coloured, open_console, print_json
from skillopt.cli._options import Json, NewestRun, argument, option
from skillopt.errors import UsageError
from skillopt.runs import words
from skillopt.runs.answers import Answer, AnsweredTask, RunAnswers, read_answers
from skillopt.runs.comparison import score_table
from skillopt.runs.explain import VERDICT, Replay, find, replay
from skillopt.runs.proof import EditProof, StepProof, stored_proof
from skillopt.runs.reader import RunReader, find_run, read_run
from skillopt.tasks.scorers import as_text
from skillopt.tasks.splits import listed
from skillopt.tasks.triggers import LEAVE, LOAD

_ARMS = ("incumbent", "candidate")
MOST_TASKS = 4
"""Tasks that an edit's line names."""
_STEP = (
    "A step's number, or 'epoch-N' for the slow update of epoch N; 'N/c0', 'N/c1' where a step tried several"
    " candidates; or a task's id for its answers. Left out: the last step."
)
MOST_ANSWERS = 5
"""Tasks that `show` has unless more are asked for."""
LONGEST = 600
SEED_ALONE = "asked with the seed alone"
_ORDER = ("broken", "fails", "fixed", "passes", SEED_ALONE)


def show(
    run: NewestRun = None,
    tasks: Annotated[
        list[str] | None, argument("TASK...", "Ids of tasks; left out, the telling ones.")
    ] = None,
    failed: Annotated[bool, option("--failed", "Only tasks that the best skill fails.")] = False,
    everything: Annotated[bool, option("--all", "All tasks, not the first ones alone.")] = False,
    json: Json = False,
) -> None:
    """Show a run's answers: question, expected, the seed's answer and the best skill's, score and why.

    Broken tasks come first, then those that fail still, were fixed, pass, and train tasks that only the seed
    was asked.
    """
    reader = read_run(find_run(run or Path("outputs")))
    found = read_answers(reader, tasks=tasks or ())
    if tasks and (unknown := set(tasks) - {one.id for one in found.tasks}):
        raise UsageError(
            f"{reader.folder} measured no task {', '.join(sorted(unknown))} with its seed or its best skill."
            " 'skillopt runs show RUN --all' has them all; those of a sealed test are not told."
        )
    shown = [one for one in found.tasks if not failed or outcome(one, found) in ("broken", "fails")]
    shown.sort(key=lambda one: _ORDER.index(outcome(one, found)))
    if json:
        about = {"run": str(reader.folder), "seed": found.seed, "best": found.best, "folds": found.folds}
        print_json(about | {"tasks": [one.as_json() | {"outcome": outcome(one, found)} for one in shown]})
        return
    console = open_console()
    view = reader.view()
    if view is not None and not tasks:
        for head, val, test in score_table(view):
            console.say(f"{head:<8}{val:<16}{test}".rstrip())
        console.say(view.claim or "No claim yet.", f"bold {coloured(view.significance)}")
    several = shown if everything or tasks else shown[:MOST_ANSWERS]
    for one in several:
        console.say(
            "\n".join(["", *task_lines(one, {found.seed: "seed", found.best: "best"}, outcome(one, found))])
        )
    if len(several) < len(shown):
        console.say(f"\n{len(shown) - len(several)} more: --all shows them, --failed those that fail.", "dim")


def explain(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    step: Annotated[str | None, argument("STEP", _STEP)] = None,
    everything: Annotated[
        bool, option("--all", "Show every row and every edit that was tried, not those alone that tell.")
    ] = False,
    json: Json = False,
) -> None:
    """Replay a step's verdict over its stored rows, and show the stored proof of its edits; ends with 1 if
    the rows do not give the recorded verdict.
    """
    reader = read_run(find_run(run))
    step = step or str(max((record.step for record in reader.fold.records), default=1))
    if not VERDICT.fullmatch(step) and read_answers(reader, tasks=[step]).tasks:
        show(run, [step], json=json)
        return
    found = find(reader, step)
    again, proof = replay(reader, found), stored_proof(found)
    if json:
        print_json(again.as_json() | {"proof": None if proof is None else proof.as_json()})
    else:
        console = open_console()
        _show_verdict(console, again, everything)
        if proof is not None:
            _show_proof(console, proof, everything)
        elif found.edits:
            console.say("Edits and how they ended:")
            for edit in found.edits:
                why = f" ({edit.reason})" if edit.reason else ""
                style = "green" if edit.state == "applied" else "dim"
                console.say(f"  {edit.state:<11}{words.edit(edit.edit.as_json())}{why}", style)
        _show_end(console, again)
        _show_answers(console, reader, again, everything)
    if not again.agrees:
        raise typer.Exit(1)


def _show_verdict(console: SafeConsole, again: Replay, everything: bool) -> None:
    """The recorded verdict, the replayed one, and the rows that decided."""
    console.say(f"{again.verdict.name}: {words.outcome(again.judged.action)}", "bold")
    console.say(f"recorded   {again.judged.why}")
    if again.is_measured:
        console.say(f"recomputed {again.action}: {again.reason}")
    if again.verdict.others:
        console.say(f"The same step also has {'; '.join(again.verdict.others)}.")
    if again.reader is None or not again.rows:
        return
    bar, upper, n = again.reader.bar, again.reader.upper, again.reader.total
    console.say(
        f"I, the incumbent's sum: {float(bar):g} of {n} ({float(bar / n):.4f}).  U, the"
        f" candidate's sum with rows not read counted in full: {float(upper):g}"
        f" ({float(upper / n):.4f}).  Metric: {again.judged.metric}. Policy: {again.policy}."
    )
    is_taken = again.action == "accept"
    prefix = "an accept needs every row" if is_taken else "the shortest prefix that fixes the verdict"
    better, worse = (sum(row.moved == way for row in again.rows) for way in (1, -1))
    console.say(
        f"Decided on {again.read} of {n} rows, {prefix}: {better} better, {worse} worse,"
        f" {len(again.rows) - better - worse} the same."
    )
    rows = [one for one in enumerate(again.rows, start=1) if everything or one[1].moved]
    table = Table(show_edge=False, pad_edge=False)
    for name in ("row", "task", "draw", "incumbent", "candidate", "U after it"):
        table.add_column(name, justify="left" if name == "task" else "right", overflow="fold")
    for number, one in rows:
        worth = f"invalid ({one.row.invalid})" if one.candidate is None else f"{float(one.candidate):g}"
        figures = (f"{float(one.incumbent):g}", worth, f"{float(one.upper):g}")
        table.add_row(str(number), Text(one.row.task), str(one.row.draw), *figures)
    if rows:
        console.print(table)
    if left_out := len(again.rows) - len(rows):
        console.say(f"{words.count(left_out, 'row')} without a change: --all shows them.", "dim")
    for kind in (LOAD, LEAVE):
        of_kind = [one for one in again.rows if one.row.task.startswith(f"{kind}-")]
        if of_kind and again.read == n:
            before, after = (sum(getattr(one, arm) == 1 for one in of_kind) for arm in _ARMS)
            console.say(f"{kind}: {before} of {len(of_kind)} right before, {after} with the candidate.")


def _show_proof(console: SafeConsole, proof: StepProof, everything: bool) -> None:
    """An edit in two lines: what it is, and what its trials showed."""
    chosen = [one for one in proof.edits if one.chosen]
    noise = f"; {proof.noise:.0%} of rows changed when drawn again" if proof.noise else ""
    trials = words.count(proof.trials, "trial")
    console.say(f"{len(chosen)} of {words.count(len(proof.edits), 'edit')} chosen after {trials}{noise}:")
    for one in proof.edits if everything else chosen:
        edit = one.outcome
        actions = (f", {key} {words.outcome(action)}" for key, action in one.verdicts.items())
        style = "green" if edit.state == "applied" else "dim"
        console.say(f"  {edit.state}{''.join(actions)}: {words.edit(edit.edit.as_json())}", style)
        console.say(f"      {'; '.join(_facts(one))}", "dim")
    if not everything and len(chosen) < len(proof.edits):
        left_out = words.count(len(proof.edits) - len(chosen), "edit that was", "edits that were")
        console.say(f"{left_out} not chosen: --all shows them.")


def _facts(one: EditProof) -> list[str]:
    edit = one.outcome
    tried, fixed = (listed(tasks, MOST_TASKS) or "none" for tasks in (one.tried_on, one.fixed))
    facts = [f"lane {one.lane}, look {one.look}", f"tried on {tried}", f"fixed {fixed}"]
    facts += [f"joined into {one.joined_into}"] if one.joined_into else []
    facts += [f"stands for {words.count(len(one.stands_for), 'other')}"] if one.stands_for else []
    facts += [f"guilty by {' and '.join(one.blamed)}"] if one.blamed else []
    facts += ["pruned"] if one.pruned else []
    facts += [edit.reason] if edit.reason and edit.state not in ("merged", "unproven") else []
    return facts


def _show_end(console: SafeConsole, again: Replay) -> None:
    if again.hedged:
        console.say(f"{again.hedged} slow calls behind it were asked twice; the first reply counted.")
    if again.agrees and not again.is_measured:
        console.say("No row was measured for it, so there is nothing to replay.", "dim")
    elif again.agrees:
        console.say("The recomputed verdict equals the recorded one.", "green")
    else:
        console.say("The recomputed verdict DIFFERS from the recorded one.", "bold red")


def _show_answers(console: SafeConsole, reader: RunReader, again: Replay, everything: bool) -> None:
    """What incumbent and candidate answered where they differ; the first few, unless all are wanted."""
    differ = list(
        dict.fromkeys(one.row.task for one in again.rows if one.candidate not in (None, one.incumbent))
    )
    names = {again.incumbent: "incumbent", again.judged.skill: "candidate"}
    if not differ:
        return
    shown = differ if everything else differ[:MOST_TASKS]
    for task in read_answers(reader, tasks=shown, skills=names).tasks:
        if task.split == "val":
            console.say("\n".join(task_lines(task, names)))
    if len(shown) < len(differ):
        console.say(f"{len(differ) - len(shown)} more tasks went differently: --all shows them.", "dim")


def outcome(task: AnsweredTask, run: RunAnswers) -> str:
    """How a task went with the best skill, and whether the seed did better or worse."""
    before, after = (_mean(task.answers.get(digest, ())) for digest in (run.seed, run.best))
    if after is None and run.best != run.seed:
        return SEED_ALONE
    if before is not None and after is not None and before != after:
        return "fixed" if after > before else "broken"
    return "passes" if (after if after is not None else before) == 1 else "fails"


def task_lines(task: AnsweredTask, names: Mapping[str, str], how: str = "") -> Iterator[str]:
    """A task with the answers of the skills that have a name."""
    yield f"{task.split} {task.id}" + (f": {how}" if how else "")
    if task.stored is not None:
        yield f"  question  {cut(task.stored.question)}"
        if task.stored.expected is not None:
            yield f"  expected  {cut(as_text(task.stored.expected))}"
    for digest, name in names.items():
        draws = task.answers.get(digest, ())
        alike = len({(answer.text, answer.row.hard) for answer in draws}) == 1
        for one in draws[:1] if alike else draws:
            which = f"all {len(draws)} draws, " if alike else f"draw {one.row.draw + 1}, "
            yield f"  {name:<9} {cut(_answer_text(one))}"
            yield f"            {which if len(draws) > 1 else ''}{_score_text(one)}"


def _answer_text(answer: Answer) -> str:
    if answer.row.invalid is not None:
        return f"(not measured: {answer.row.invalid})"
    return answer.text or f"(none: {answer.row.failure or 'empty'})"


def _score_text(answer: Answer) -> str:
    row = answer.row
    score = "no score" if row.hard is None else f"score {row.hard:g}"
    if row.hard is not None and row.soft not in (None, row.hard):
        score += f", soft {row.soft:g}"
    took = "" if row.seconds is None else f", {row.seconds:.1f} s"
    why = f" - {cut(answer.feedback)}" if answer.feedback else ""
    target = "" if row.target is None else f"{row.target}: "
    return f"{target}{score}; {words.amount(row.tokens)} tokens{took}{why}"


def _mean(answers: Sequence[Answer]) -> float | None:
    scored = [one.row.hard for one in answers if one.row.hard is not None]
    return sum(scored) / len(scored) if scored else None


def cut(text: str) -> str:
    """A text as long as a person may want to read, set under its label."""
    return words.shortened(text, LONGEST).replace("\n", "\n            ")
