"""Measures skills with one target or several; one target's outage costs the others nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from skillopt.config.load import Resolved
from skillopt.config.roles import parse_model_string
from skillopt.errors import BudgetSpent, ConfigError, Interrupted, ProviderDown, Stopped, UsageError
from skillopt.evaluation.runner import Evaluator, rows_of
from skillopt.evaluation.stage import Evaluation, logged_row
from skillopt.events import Notice, Row, Sink
from skillopt.events.place import Place
from skillopt.events.step import Outbox, Step
from skillopt.models.stack.limited import Retry
from skillopt.process.waiting import together
from skillopt.run.addresses import asked_by, note_addresses
from skillopt.run.assembly import open_run
from skillopt.run.job import Job, Target, distinct_targets, tasks_digest
from skillopt.run.models import Targets, carried_files
from skillopt.run.results import (
    Evaluated,
    Noted,
    Versus,
    comparisons,
    decided_splits,
    note_in,
    write_results,
)
from skillopt.runs.answers import stored_tasks
from skillopt.runs.log import DATABASE
from skillopt.runs.reader import is_in_rounds, is_run, read_figures, read_run
from skillopt.runs.tail import task_digests
from skillopt.skill.document import Document
from skillopt.skill.folder import Skill, load_skill
from skillopt.tasks.splits import canonical_split
from skillopt.tasks.task import SPLITS, Split


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Every skill with every target on every split, as far as it could be measured."""

    evaluations: tuple[Evaluated, ...]
    missing: tuple[Evaluated, ...] = ()
    """Each with the rows that were in when it was stopped."""
    stopped: Stopped | None = None
    """Why something is missing."""
    compared: tuple[Versus, ...] = ()
    noted: tuple[Noted, ...] = ()
    """Training runs whose test split was looked at."""

    def whole(self) -> list[Evaluated]:
        """All evaluations; raises what stopped them where one is missing."""
        if self.stopped is not None:
            raise self.stopped
        return list(self.evaluations)


async def evaluate(
    job: Job,
    skills: Mapping[str, Document | Skill],
    splits: Sequence[Split],
    folder: Path,
    *,
    against: str | None = None,
    repeats: int = 1,
    sinks: Sequence[Sink] = (),
    retry: Retry | None = None,
) -> list[Evaluated]:
    """Measure skills on splits with the job's target, all or it raises; `matrix` takes several targets."""
    found = await matrix(
        job, skills, splits, folder, against=against, repeats=repeats, sinks=sinks, retry=retry
    )
    return found.whole()


async def matrix(
    job: Job,
    skills: Mapping[str, Document | Skill],
    splits: Sequence[Split],
    folder: Path,
    *,
    targets: Sequence[Target] = (),
    against: str | None = None,
    repeats: int = 1,
    in_pairs: bool = False,
    runs: Sequence[Path] = (),
    sinks: Sequence[Sink] = (),
    retry: Retry | None = None,
) -> Matrix:
    """Measure skills on splits with every target; what was measured before in this folder (or the shared
    cache) is not paid again.

    All targets share the folder, its ledger and its budget. Equal skills are measured once. A `Skill` brings
    the files of its own folder to a target that installs it, a `Document` those of the job's skill. `targets`
    left out is the job's own; `against` names the one of
    `skills` that `eval_summary.json` compares the others with; `repeats` is the number of draws per task.
    With `in_pairs` all skills are measured side by side, so that a budget that ends leaves whole pairs. A
    target that is lost stops for itself: what is complete is kept and written, and `Matrix` says what is
    missing. `runs` are training runs in which it is noted if their test tasks were among what was measured.
    """
    targets = distinct_targets(targets or [replace(Target.of(job.config), spec=job.target)])
    kept = job.eval_identity()
    async with open_run(job, folder, kept, sinks=sinks, retry=retry, one_stops_all=False) as opened:
        note_addresses(opened.run.database, asked_by(job, targets))
        for text in filter(None, (job.bad_rows, job.division.changed)):
            opened.run.emit(Notice(text=text, level="warning"))
        work = _Work(
            job=job,
            skills={
                name: one if isinstance(one, Skill) else replace(job.seed, document=one)
                for name, one in skills.items()
            },
            splits=splits,
            repeats=repeats,
            targets=targets,
            emit=opened.run.emit,
            in_pairs=in_pairs,
        )
        try:
            await together(*(work.measure(target, opened.targets) for target in targets))
        finally:
            await opened.drain()
            found = work.matrix()
            if found.evaluations:  # also when the person stopped it: a cell that is complete stays complete
                # before anybody can read the figures
                noted = (note_in(run, job, found.evaluations) for run in runs)
                compared = comparisons(
                    found.evaluations,
                    against,
                    graded=job.benchmark.graded,
                    decided=decided_splits(job, runs),
                )
                found = replace(
                    found, compared=tuple(compared), noted=tuple(one for one in noted if one is not None)
                )
                write_results(opened, found.evaluations, compared, found.missing)
    return found


def eval_splits(name: str, job: Job) -> list[Split]:
    """The splits that `--split` names; `all` is every one that has tasks."""
    if name == "all":
        return [split for split in SPLITS if job.splits.of(split)]
    split = canonical_split(name)
    if not job.splits.of(split):
        raise UsageError(f"The {split} split of {job.benchmark.name!r} is empty.")
    return [split]


_Cell = tuple[str, str, Split]
"""Digests of a target and of a skill, and a split."""


@dataclass(slots=True, kw_only=True)
class _Work:
    """What is to be measured, what is in, and why a target could not go on."""

    job: Job
    skills: Mapping[str, Skill]
    splits: Sequence[Split]
    repeats: int
    targets: Sequence[Target]
    emit: Sink
    in_pairs: bool
    rows: dict[_Cell, tuple[Row, ...]] = field(default_factory=dict)
    partial: set[_Cell] = field(default_factory=set)
    reasons: dict[str, Stopped] = field(default_factory=dict)
    digests: dict[tuple[str, str], str] = field(default_factory=dict)

    async def measure(self, target: Target, evaluators: Targets) -> None:
        """All skills with one target. What stops it is kept for the end; the other targets go on."""
        names: dict[str, str] = {}
        for name in self.skills:
            names.setdefault(self._digest(target, name), name)  # equal ones are measured once
        running = [
            self._close(
                (target.digest, digest, split),
                self._start(evaluators.of(target.spec, self.skills[name]), target, name, split),
            )
            for split in self.splits
            for digest, name in names.items()
        ]
        try:
            await together(*running)
        except Stopped as reason:
            self.reasons[target.name] = reason

    def _digest(self, target: Target, name: str) -> str:
        """The skill's digest, computed once: a measured agent may write into the folder of the skill."""
        key = target.digest, name
        if key not in self.digests:
            self.digests[key] = skill_digest(target, self.skills[name])
        return self.digests[key]

    def _start(self, evaluator: Evaluator, target: Target, name: str, split: Split) -> Evaluation:
        rows = rows_of(self.job.splits.of(split), self.repeats)
        several = [target.name] if len(self.targets) > 1 else []
        place = Place.named(*several, name, split)
        skill = self.job.trained(self.skills[name])
        step = Step(place=place, emit=Outbox(self.emit), skill=skill)
        return Evaluation(
            evaluator,
            step,
            skill.rendered,
            rows,
            stage="eval",
            ahead=max(1, self.job.config.env.workers // 2) if self.in_pairs else None,
            resumes=False,
            tells_rows=False,
        )

    async def _close(self, cell: _Cell, evaluation: Evaluation) -> None:
        try:
            while await evaluation.next() is not None:
                pass  # those behind it are sent
            outcomes = await evaluation.close()
        except BaseException:
            evaluation.cancel()
            self.rows[cell] = tuple(map(logged_row, evaluation.arrived()))
            self.partial.add(cell)
            raise
        self.rows[cell] = tuple(map(logged_row, outcomes))

    def matrix(self) -> Matrix:
        """What came of it, in the order it was asked for: targets, skills, splits."""
        found, missing = list[Evaluated](), list[Evaluated]()
        for target, name, split in product(self.targets, self.skills, self.splits):
            digest = self._digest(target, name)
            cell = (target.digest, digest, split)
            is_complete = cell in self.rows and cell not in self.partial
            why = "" if is_complete else str(self.reasons.get(target.name, Interrupted("Interrupted.")))
            (found if is_complete else missing).append(
                Evaluated(
                    target=target.name,
                    target_digest=target.digest,
                    skill=name,
                    digest=digest,
                    split=split,
                    repeats=self.repeats,
                    rows=self.rows.get(cell, ()),
                    why=why,
                )
            )
        return Matrix(evaluations=tuple(found), missing=tuple(missing), stopped=self._stopped())

    def _stopped(self) -> Stopped | None:
        """One reason for all: an outage first, a spent budget last, as raising it mends no other."""
        if not self.reasons:
            return None
        said: dict[str, list[str]] = {}
        for name, reason in self.reasons.items():
            said.setdefault(str(reason), []).append(name)
        first = min(
            self.reasons.values(),
            key=lambda reason: (not isinstance(reason, ProviderDown), isinstance(reason, BudgetSpent)),
        )
        if len(said) == 1 and len(self.reasons) == len(self.targets):
            return first
        return type(first)("\n".join(f"{', '.join(names)}: {text}" for text, names in said.items()))


def skill_digest(target: Target, skill: Skill) -> str:
    """What identifies a skill as a target gets it."""
    files = carried_files(target.spec, skill)
    text = skill.document.digest
    return hashlib.sha256(f"{text} {files}".encode()).hexdigest()[: len(text)] if files else text


NO_SKILL, SEED, BEST = "none", "seed", "best"


def target_only(resolved: Resolved) -> Resolved:
    """The configuration with the target as optimizer: nothing here calls one, so none needs a key or a price.

    Where no judge is named the optimizer judges, and goes on to do so.
    """
    model = resolved.config.model
    target = parse_model_string(model.target.name, "target")
    bare = str(replace(target, harness="chat", says_harness=False))
    if target.is_own_agent:  # which no optimizer can be, and neither has it a key
        bare = "handoff"
    alone = {
        "model.optimizer": model.target.having({"name": bare}),
        "model.judge": model.judge or model.optimizer,
        "train.folds": 1,  # what is measured has a split
    }
    return replace(resolved, config=resolved.config.having(alone))


def eval_folder(job: Job, resolved: Resolved, targets: Sequence[Target] = ()) -> Path:
    """The folder for results: given by flag or option, else named by a hash of tasks and target addresses."""
    out = job.config.env.out_root
    if out is not None and resolved.provenance["env.out_root"].layer in ("flag", "cfg-options"):
        return out  # a config file's out_root is the training run's folder
    told = [job.identity()[name] for name in ("env", "tasks")]
    asked = {spec.address or "" for role, spec in asked_by(job, targets) if role == "target"} - {""}
    told += [sorted(asked)] if asked else []
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:10]
    return Path.cwd() / "outputs" / f"eval_{job.benchmark.name}_{digest}"


def skill_named(name: str, run: Path | None = None) -> Skill:
    """A skill with its own files; the best one of a run with its trained files and those of its seed; `none`
    is the empty one. Beside a `run` its `best` and its `seed` have names.
    """
    if name == NO_SKILL:
        return Skill(path=None, name=name, document=Document(""))
    if run is not None and name == SEED:
        return seed_of(run)
    if run is not None and name == BEST:
        name = str(run)
    if not is_run(Path(name)):
        return load_skill(name)
    best = Path(name) / "best_skill.md"
    if not best.is_file():
        raise ConfigError(
            f"{name} is a run without a best skill: there is no {best.name} in it. Train first, or name a"
            " skill."
        )
    # As for an export: a seed folder that was renamed between two sessions leaves two, and the later one
    # belongs to the text.
    whole = [path for path in (Path(name) / "best_skill").glob("*") if path.is_dir()]
    kept, skill = read_figures(Path(name)), load_skill(best)
    trained = {} if kept.fold.result is None else kept.skills.get(kept.fold.result.best).files
    return replace(
        skill,
        document=replace(skill.document, files=trained),
        folder=max(whole, key=lambda path: path.stat().st_mtime_ns, default=None),
    )


def seed_of(run: Path) -> Skill:
    """The skill that a run started from, as it was then, with the other files of its folder."""
    reader = read_run(run)
    state, settings = reader.fold.state, reader.config
    if state is None:
        raise UsageError(f"{run} has measured nothing yet, so its seed is not known.")
    if settings.get("train", {}).get("part") == "description":
        raise UsageError(
            f"{run} trained a description, so its seed is no whole skill. Name the skill itself."
        )
    path = settings.get("env", {}).get("skill_init")
    document = reader.skills.get(state.seed)
    if path is None or not Path(path).exists():
        return Skill(path=None, name=SEED, document=document)
    return replace(load_skill(path), document=document)


def check_unseen(
    skills: Mapping[str, Skill], runs: Sequence[Path], job: Job, splits: Sequence[Split]
) -> None:
    """Refuse to measure what a run has trained on tasks that it was trained on. Only the train tasks of a run
    of one round are measured as what they are: in several rounds the train tasks of one are val in another.
    """
    for run in runs:
        reader = read_figures(run)
        state, stored = reader.fold.state, stored_tasks(run)
        if state is None:
            continue
        seed, *trained = (reader.skills.get(one).digest for one in (state.seed, state.best, state.skill))
        inside = {name for name in skills if Path(name).resolve().is_relative_to(run.resolve())}
        named = [
            name
            for name, skill in skills.items()
            if skill.document.digest != seed and (name in inside or skill.document.digest in trained)
        ]
        in_rounds = is_in_rounds(run)
        learned = {
            (one.id, one.question)
            for one in stored
            if one.split == "train" or (in_rounds and one.split != "test")
        }
        for split in splits if named else ():
            tasks = job.splits.of(split)
            seen = sum((task.id, job.scrubber.scrub(task.prompt)) in learned for task in tasks)
            if in_rounds and not stored and task_digests(run / DATABASE).get(split) == tasks_digest(tasks):
                seen = len(tasks)
            if in_rounds and seen:
                told = f"all train and val tasks of {run}, a part of them at a time, so none of these tells"
            elif split != "train" and seen:
                told = f"{seen} of these {len(tasks)} {split} tasks in {run}, so they do not tell"
            else:
                continue
            view = read_run(run).view()
            claim = "" if view is None or not view.claim else f"\nThe run's own figure: {view.claim}"
            raise UsageError(
                f"{named[0]!r} was trained on {told} what it is worth.{claim}\nTo measure it on tasks that it"
                f" has not seen: skillopt eval {run} --data_path FILE --split all"
            )
