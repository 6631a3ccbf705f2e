"""What a run takes over from earlier ones: it goes on from the best skill of another, or its folder is used
again with another scorer, model or tasks, and what still holds of its run is reused.

Nothing is lost: log, database and results of a run that is put aside move to `earlier/NNN` of the folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from skillopt.errors import ConfigError
from skillopt.files import lock_run, write_text
from skillopt.run.job import Job, tasks_digest
from skillopt.runs.answers import stored_tasks
from skillopt.runs.database import Database
from skillopt.runs.log import DATABASE, EARLIER, STAYS, difference
from skillopt.runs.notes import EVALS, EvalRecord, MeasuredSkill, read_eval_records
from skillopt.runs.reader import is_run, read_figures, read_view
from skillopt.runs.tail import task_digests
from skillopt.runs.words import spent

_MOVING = ".moving"
_CORRECTIONS = ("scorer", "tasks.", "prompts", "target_version", "proposer_version", "targets", "env.")
"""What a person corrects: with whom and on what a run works. Another plan, gate or seed is another run."""
_MODELS = ("model.target.", "model.optimizer.", "model.judge.", "model.proposer.")


def continued(job: Job, run: Path) -> Job:
    """The job with the best skill of `run` to start from, its seed to compare with, its rollouts to reuse.

    Raises `ConfigError` where a task that the run learned from would be a test task.
    """
    from skillopt.run.evaluation import seed_of

    seed = seed_of(run)
    if job.division.folds or job.listing is not None:
        what = "tasks are cross-fitted" if job.division.folds else "a description is trained"
        remedy = (
            "Go on without a test (--folds 1 --eval_test false), or with a test of tasks that it has not seen"
            " (--folds 1 --data_path FILE)"
            if job.division.folds
            else "Start from the skill itself"
        )
        raise ConfigError(
            f"--from {run}: its best skill has seen tasks that would judge it, as {what}. {remedy}."
        )
    reader = read_figures(run)
    state = reader.fold.result
    assert state is not None, "its seed was read"
    if not _has_same_test(job, run):
        learned = {one.question for one in stored_tasks(run) if one.split != "test"}
        twice = [task.id for task in job.splits.test if job.scrubber.scrub(task.prompt) in learned]
        if twice:
            raise ConfigError(
                f"--from {run}: it learned from {len(twice)} of the tasks that would be test tasks, as from"
                f" {twice[0]!r}. Divide the tasks as it did, or set evaluation.eval_test to false."
            )
    start = None if state.best == state.seed else reader.skills.get(state.best)
    return replace(job, seed=seed, start=start, reuses=(run,))


def carry_looks(job: Job, folder: Path) -> None:
    """Note in a new run's folder how often its test tasks were looked at by the runs it goes on from."""
    for run in job.reuses:
        # Of a run that was put aside every look counts: its tasks were corrected, and are not new.
        is_known = is_earlier(run, folder) or _has_same_test(job, run)
        if (folder / EVALS).is_file() or not is_known:
            continue
        fold = read_figures(run).fold
        target = "" if fold.started is None else fold.started.target
        own = [
            EvalRecord(
                time=event.time,
                tasks=len(event.rows["seed"]),
                seen=[
                    MeasuredSkill(target=target, target_digest="", skill=name, digest=digest, repeats=1)
                    for name, digest in event.skills.items()
                ],
            )
            for event in fold.tests
        ]
        noted = [*own, *read_eval_records(run)]
        write_text(folder / EVALS, "".join(f"{one.model_dump_json()}\n" for one in noted))


def _has_same_test(job: Job, run: Path) -> bool:
    return bool(job.splits.test) and task_digests(run / DATABASE).get("test") == tasks_digest(job.splits.test)


def corrected(job: Job, folder: Path) -> tuple[Job, str]:
    """The job with the earlier runs of its folder to reuse, and a sentence where one was put aside just now.

    A folder whose run differs in more than a correction is left alone: opening it says in what.
    """
    if any((folder / EARLIER).glob(f"*{_MOVING}")):  # a move that was killed
        _put_aside(folder)
    told = _format_correction(job, folder)
    if told:
        _put_aside(folder)
    earlier = sorted((one for one in (folder / EARLIER).glob("[0-9]*") if is_run(one)), reverse=True)
    return replace(job, reuses=(*job.reuses, *earlier)), told


def is_earlier(run: Path, folder: Path) -> bool:
    """Whether a run was put aside in that folder."""
    return run.parent == folder / EARLIER


def _format_correction(job: Job, folder: Path) -> str:
    """What was corrected and what still holds; empty where nothing is to be put aside."""
    if not is_run(folder):
        return ""
    with lock_run(folder):
        before = Database.reading(folder / DATABASE)
        try:
            noted, is_answered = before.noted_as(json.loads, "identity"), before.holds_answers()
        finally:
            before.shut()
    now = json.loads(json.dumps(job.scrubber.scrub_json(job.identity())))
    changed = [] if noted is None else difference(noted, now)
    keys = [line.strip().partition(": ")[0] for line in changed]
    is_correction = all(key.startswith((*_CORRECTIONS, *_MODELS)) and key != "env.name" for key in keys)
    if not (is_answered and keys and is_correction):
        return ""
    view = read_view(folder)
    paid = spent(view.spent.calls, view.spent.tokens, view.spent.dollars)
    told = [line for line in changed if not line.strip().startswith("tasks.")]  # digests say nothing
    if splits := [key.removeprefix("tasks.") for key in keys if key.startswith("tasks.")]:
        told.append(f"  other tasks: {', '.join(splits)}")
    return (
        f"{folder} holds a run with other settings:\n" + "\n".join(told) + f"\nTraining starts anew."
        f" {' '.join(_what_holds(keys))} The earlier run ({paid}) is kept in {folder / EARLIER}; its looks at"
        " the sealed test count on, its spending does not."
    )


def _what_holds(keys: list[str]) -> Iterator[str]:
    if any(key.startswith(("model.target.", "target", "prompts")) for key in keys):
        yield "Answers of another target or to another prompt are asked for again."
    elif any(key.startswith("tasks.") for key in keys):
        yield "Answers to tasks that are the same are not paid again."
    else:
        yield "What the target answered is not paid again."
    if any("scorer" in key or key.startswith("model.judge.") for key in keys):
        yield "Every answer is scored anew."


def _put_aside(folder: Path) -> None:
    """Move the run of a folder below `earlier`. A move that is killed is carried on by the next one."""
    with lock_run(folder):
        home = folder / EARLIER
        home.mkdir(exist_ok=True)
        under_way = next(home.glob(f"*{_MOVING}"), None)
        number = 1 + max((int(one.name) for one in home.glob("[0-9]*") if one.name.isdigit()), default=0)
        place = under_way or home / f"{number:03d}{_MOVING}"
        place.mkdir(exist_ok=True)
        for path in folder.iterdir():
            if path.name not in STAYS and not is_run(path):  # another run may live below it
                path.rename(place / path.name)
        place.rename(place.with_name(place.name.removesuffix(_MOVING)))
