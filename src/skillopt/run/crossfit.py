"""Cross-fitting of few tasks: rounds of training before the last one, and the folds that judge every task.

Each round and fold is an ordinary run in a folder of its own (`rounds/1`, `folds/3`), which goes on where it
stopped. They share one ledger, one budget and the rollouts of equal skills.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

from skillopt.errors import BudgetSpent
from skillopt.evaluation.first_answers import check_answers
from skillopt.evaluation.runner import rows_of
from skillopt.evaluation.significance import smallest_gain
from skillopt.evaluation.stage import Evaluation
from skillopt.events import Answered, Arrived, Event, Notice, Row, StageOpened, TestMeasured
from skillopt.events.place import Place
from skillopt.events.step import Outbox, Step
from skillopt.money import Amount, account_of
from skillopt.run.assembly import OpenRun, ParentRun, open_run
from skillopt.run.job import Job
from skillopt.skill.document import Document
from skillopt.train.sealed_test import PooledRows

if TYPE_CHECKING:
    from skillopt.run.training import Result

SEED = Place.named("seed")
Train: TypeAlias = "Callable[[OpenRun], Awaitable[Result]]"


def format_plan(job: Job) -> str:
    """What a cross-fitted run will do, and what it can show."""
    folds, rounds = job.division.folds, len(job.division.earlier) + 1
    tasks = sum(len(of_fold[-1].test) for of_fold in folds)
    runs = rounds * (len(folds) + 1)
    each = "a run" if rounds == 1 else f"{rounds} rounds, in each of which another part of the tasks is val"
    return (
        f"{tasks} tasks are few for one split, so they are cross-fitted in {len(folds)} folds: the skill"
        f" handed over is trained on all of them ({each}), and each task is judged by a skill that never saw"
        f" it; {runs} small runs in all. {_showable(tasks)} train.folds=1 takes one split instead."
    )


def _showable(tasks: int) -> str:
    now, more = smallest_gain(tasks), smallest_gain(tasks + 10)
    if now is None or more is None:
        return "That is too little to show any gain."
    return (
        f"A true gain of {now:.2f} is shown with 80 % chance if nothing that works breaks; with ten more"
        f" tasks one of {more:.2f} is."
    )


async def earlier_rounds(opened: OpenRun, train: Train) -> Document | None:
    """Train the rounds before the last one, and return the skill that it starts from; None is the seed."""
    job, start = opened.job, opened.job.start
    earlier, folds = job.division.earlier, job.division.folds
    rounds = len(earlier) + 1
    has_begun = opened.run.last_checkpoint() is not None  # then it is settled where the last round started
    if folds and not has_begun:
        await _check_seed(opened)
    for number, splits in enumerate(() if has_begun else earlier, 1):
        division = replace(job.division, splits=splits, earlier=(), folds=())
        part = replace(job, division=division, start=start)
        # All rounds together may take half of a budget; what they leave is for the folds.
        share = Fraction(1, (2 if folds else 1) * rounds - number + 1)
        try:
            shown = f"round {number} of {rounds}"
            result, _ = await _train_part(opened, part, f"rounds/{number}", shown, share, train)
        except BudgetSpent:
            _tell(opened, f"The budget leaves too little for round {number} of {rounds}.")
            break
        start = Document(result.best_skill)
        if folds:
            scores = f"{result.seed_on_val.score:.3f} to {result.best_on_val.score:.3f}"
            _tell(opened, f"Round {number} of {rounds}: {scores} on {len(splits.val)} val tasks.")
    if folds:
        _set_aside_for_folds(opened)
    return start


async def _check_seed(opened: OpenRun) -> None:
    """Check the seed's answers to all tasks before anything else is paid. Every part finds them stored, and
    checks none of its own: by chance the few val tasks of one may all fail.
    """
    job = opened.job
    if not job.config.evaluation.check_baseline:
        return
    step = Step(place=SEED, emit=Outbox(opened.run.emit), skill=job.skill)
    rows = rows_of(job.splits.all)
    seed = job.skill.rendered
    asked = Evaluation(
        opened.evaluator,
        step,
        seed,
        rows,
        stage="baseline",
        resumes=False,
        tells_rows=False,
    )
    with suppress(BudgetSpent):  # the first round says what can be paid
        answers = await asked.close()
        if warning := check_answers([(row.task, one) for row, one in zip(rows, answers, strict=True)]):
            _tell(opened, warning, "warning")


async def pooled_rows(opened: OpenRun, train: Train) -> PooledRows:
    """Train and test every fold: the rows of the seed and of each fold's skill on tasks it never saw."""
    folds, kinds = opened.job.division.folds, dict[str, str]()
    rows: dict[str, list[Row]] = {"seed": [], "best": []}
    for number, rounds in enumerate(folds, 1):
        fold = opened.job.fold(rounds)
        share = Fraction(1, len(folds) - number + 1)
        shown = f"fold {number} of {len(folds)}"
        result, looks = await _train_part(opened, fold, f"folds/{number}", shown, share, train)
        if not looks:
            raise BudgetSpent(
                f"Fold {number} of {len(folds)} was not tested: {result.summary['test']['why']}."
            )
        kinds |= {task.id: task.kind for task in fold.splits.test if task.kind}
        for name, pooled in rows.items():
            pooled += middle_rows(looks[-1].rows[name])
        right = [sum(row.hard or 0 for row in pooled) for pooled in rows.values()]
        sofar = f"the seed solves {right[0]:g}, trained skills {right[1]:g} of {len(rows['seed'])} tasks"
        _tell(opened, f"Fold {number} of {len(folds)}: so far {sofar}.")
    draws = opened.job.fold(folds[0]).test_draws
    return PooledRows(folds=len(folds), draws=draws, seed=rows["seed"], best=rows["best"], kinds=kinds)


def middle_rows(rows: Iterable[Row]) -> list[Row]:
    """Of each task's draws the one in the middle by score: where tasks pass or fail, what most draws say."""
    draws: dict[str, list[Row]] = {}
    for row in rows:
        draws.setdefault(row.task, []).append(row)
    found = []
    for of_task in draws.values():
        measured = [row for row in of_task if row.invalid is None]
        measured.sort(key=lambda row: (row.hard or 0.0, row.soft or 0.0))
        found.append(measured[(len(measured) - 1) // 2] if measured else of_task[0])
    return found


async def _train_part(
    opened: OpenRun, job: Job, name: str, shown: str, share: Fraction, train: Train
) -> tuple[Result, Sequence[TestMeasured]]:
    """Train a run inside the open one with a share of what the others leave, and return its looks too.

    Whoever watches the open one sees the part work, as `shown`.
    """

    def pass_on(event: Event) -> None:
        if isinstance(event, StageOpened):
            named = ", ".join(filter(None, (shown, event.part)))
            opened.run.emit(event.model_copy(update={"part": named}))
        elif isinstance(event, Arrived | Answered):
            opened.run.emit(event)

    if opened.stopped:
        raise opened.stopped[0]
    ledger = opened.ledger
    own = account_of(ledger.part(name).entries()).total().amount
    budget = ledger.budget.share(ledger.spent - own, share, elapsed=opened.elapsed())
    parent = ParentRun(whole=opened, name=name, budget=budget)
    job = replace(job, config=job.config.having({"evaluation.check_baseline": False}))
    async with open_run(job, opened.folder / name, sinks=[pass_on], parent=parent) as part:
        opened.parts.append(part)
        try:
            result = await train(part)
            return result, [event for event in part.run.history() if isinstance(event, TestMeasured)]
        finally:
            opened.parts.remove(part)


def _set_aside_for_folds(opened: OpenRun) -> None:
    """Keep half of the budget for the folds; the last round may spend what the others left of the rest."""
    half = opened.ledger.budget.share(Amount(), Fraction(1, 2))
    opened.ledger.set_aside_for_test(
        Amount(calls=half.calls or 0, tokens=half.tokens or 0, usd=half.usd or Fraction(0)),
        half.seconds or 0.0,
    )


def _tell(opened: OpenRun, text: str, level: Literal["info", "warning"] = "info") -> None:
    opened.run.emit(Notice(text=text, level=level))
