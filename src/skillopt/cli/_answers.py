"""Answers on a terminal: what was asked, what was expected, and what each skill made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from skillopt.cli._console import coloured, open_console, print_json
from skillopt.cli._options import Json, NewestRun, argument, option
from skillopt.errors import UsageError
from skillopt.runs import words
from skillopt.runs.answers import Answer, AnsweredTask, RunAnswers, read_answers
from skillopt.runs.comparison import score_table
from skillopt.runs.reader import find_run, read_run
from skillopt.tasks.scorers import as_text

MOST = 5
"""Tasks that are shown unless more are asked for."""
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
    several = shown if everything or tasks else shown[:MOST]
    for one in several:
        console.say(
            "\n".join(["", *lines(one, {found.seed: "seed", found.best: "best"}, outcome(one, found))])
        )
    if len(several) < len(shown):
        console.say(f"\n{len(shown) - len(several)} more: --all shows them, --failed those that fail.", "dim")


def outcome(task: AnsweredTask, run: RunAnswers) -> str:
    """How a task went with the best skill, and whether the seed did better or worse."""
    before, after = (_mean(task.answers.get(digest, ())) for digest in (run.seed, run.best))
    if after is None and run.best != run.seed:
        return SEED_ALONE
    if before is not None and after is not None and before != after:
        return "fixed" if after > before else "broken"
    return "passes" if (after if after is not None else before) == 1 else "fails"


def lines(task: AnsweredTask, names: Mapping[str, str], how: str = "") -> Iterator[str]:
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
            yield f"  {name:<9} {cut(_said(one))}"
            yield f"            {which if len(draws) > 1 else ''}{_worth(one)}"


def _said(answer: Answer) -> str:
    if answer.row.invalid is not None:
        return f"(not measured: {answer.row.invalid})"
    return answer.text or f"(none: {answer.row.failure or 'empty'})"


def _worth(answer: Answer) -> str:
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
