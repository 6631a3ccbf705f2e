"""Drafts the queries that a description is trained on, for a person to review before anything is."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from skillopt.benchmarks import benchmarks
from skillopt.build.assembly import OpenRun, open_run
from skillopt.build.description import about_description, listing_of
from skillopt.build.job import Job
from skillopt.config import Config, Resolved, as_json, resolve_role
from skillopt.errors import Fault, ProviderDown, ReviewWanted, UnusableReplies
from skillopt.files import write_text
from skillopt.messages import Message
from skillopt.models.reading import Unusable, read, tries
from skillopt.optimizer.ask import packaged
from skillopt.optimizer.render import clipped, section
from skillopt.redact import Scrubber
from skillopt.skill.description import description_of
from skillopt.skill.folder import Skill
from skillopt.tasks.benchmark import Benchmark
from skillopt.tasks.splits import Splits
from skillopt.tasks.task import Task
from skillopt.tasks.template import fill
from skillopt.tasks.triggers import DRAFTED, TriggerBenchmark

S = TypeVar("S", bound=BaseModel)
STAGE = "draft_queries"
_TASKS, _LONGEST = 20, 400
NONE_YET = Splits(train=(Task(id="none-1", prompt="none"),), val=(Task(id="none-2", prompt="yet"),))


class DraftedQueries(BaseModel):
    """What the optimizer model drafts."""

    should_load: list[str]
    should_not_load: list[str]


def wants_draft(config: Config) -> bool:
    """Whether a description is to be trained and there are no queries."""
    return config.train.part == "description" and not config.triggers.path.exists()


async def draft_queries(resolved: Resolved, folder: Path) -> None:
    """Ask the optimizer for queries, write them, and raise `ReviewWanted`: a person reads them first.

    The question passes the same stack as those of a run; its records lie in `folder`. Of the tasks only those
    of train are shown.
    """
    config = resolved.config
    listing = listing_of(config)
    job = drafting_job(resolved, TriggerBenchmark(listing, NONE_YET, line=""), listing.skill)
    job = replace(job, listing=listing)
    half = config.triggers.drafts // 2
    tasks = (
        [] if config.env.name is None else benchmarks.get(config.env.name)(config.env.settings).tasks("train")
    )
    shown = "\n\n".join(f"<task>{clipped(task.prompt, _LONGEST)}</task>" for task in tasks[:_TASKS])
    system = fill(packaged(STAGE), {"half": str(half)}) + "\n" + about_description(listing)
    user = section("The description", description_of(listing.skill)) + section("Tasks it is for", shown)
    asked = (Message(role="system", content=system), Message(role="user", content=user))
    async with open_run(job, folder, {"kind": STAGE, "asked": [one.content for one in asked]}) as opened:
        drafted = await ask_draft(opened, asked, DraftedQueries, stage=STAGE, what="queries")
    _write(config.triggers.path, drafted, config.model.optimizer.name)
    raise ReviewWanted(
        f"{len(drafted.should_load)} queries that should load the skill and {len(drafted.should_not_load)}"
        f" that should not were drafted: {config.triggers.path}\nRead every line, correct what is wrong,"
        " delete the first line, and run the same command again. Nothing is trained on them before."
    )


def drafting_job(resolved: Resolved, benchmark: Benchmark, skill: Skill) -> Job:
    """A job of which only the optimizer is asked: there are no tasks yet."""
    return Job(
        config=resolved.config,
        benchmark=benchmark,
        splits=NONE_YET,
        seed=skill,
        target=resolve_role(resolved.config, "target"),
        optimizer=resolve_role(resolved.config, "optimizer"),
        scrubber=Scrubber(resolved.secrets),
        settings=as_json(resolved),
    )


async def ask_draft(
    opened: OpenRun, asked: tuple[Message, ...], shape: type[S], *, stage: str, what: str
) -> S:
    """What the optimizer model drafts, in its shape; asked twice where a reply cannot be read."""
    role, problem = opened.job.optimizer, ""
    model = opened.models.of("optimizer", role)
    for request in tries(asked, shape, role="optimizer", stage=stage, max_tokens=role.max_tokens):
        try:
            return read(await model.complete(request), shape)
        except Unusable as error:
            problem = str(error)
        except Fault as fault:
            raise ProviderDown(f"The optimizer could not be asked for {what}: {fault}.") from fault
    raise UnusableReplies(f"The optimizer drafted no {what} that can be read: {problem}.")


def _write(path: Path, drafted: DraftedQueries, model: str) -> None:
    """The draft, the two kinds in turn; its first line keeps it from being used."""
    pairs = zip_longest(drafted.should_load, drafted.should_not_load)
    said = chain.from_iterable(((one, True), (other, False)) for one, other in pairs)
    told = f"by {model}, not reviewed: read every line, correct what is wrong, then delete this line"
    rows = [{DRAFTED: told}, *({"prompt": text, "should_load": load} for text, load in said if text)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
