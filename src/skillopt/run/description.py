"""What a run works on that trains a description: the skill in a list of others, and queries, which the
optimizer model drafts for a person to review.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from skillopt.agents import agent, driven
from skillopt.agents.port import Agent
from skillopt.benchmarks import benchmarks
from skillopt.config.load import Resolved
from skillopt.config.roles import parse_model_string
from skillopt.config.schema import Config
from skillopt.errors import (
    ConfigError,
    ReviewWanted,
    SkillError,
    TaskError,
)
from skillopt.messages import Message
from skillopt.optimizer.ask import clipped, packaged, section
from skillopt.run.assembly import open_run
from skillopt.skill.folder import load_skill
from skillopt.skill.install import SkillListing, description_of, installable, listed_in, problem_with
from skillopt.tasks.template import fill
from skillopt.tasks.triggers import DRAFTED, TriggerBenchmark, load_queries

LONGEST_BODY = 6_000
"""Characters of the skill's body that analysts are shown."""
QUERIES = "draft_queries"
"""The stage, with a prompt of its name."""
_TASKS, _LONGEST = 20, 400


def for_description(resolved: Resolved) -> Config:
    """The configuration without the stages that write regions or notes, for which there is no room. The
    published loop is the strategy unless another was chosen: it mends a description that always loads.
    """
    off = {"optimizer.use_slow_update": False, "optimizer.use_skill_aware_reflection": False}
    is_chosen = resolved.provenance["train.strategy"].layer != "default"
    return resolved.config.having(off if is_chosen else {**off, "train.strategy": "paper"})


def listing_of(config: Config) -> SkillListing:
    """The skill of the configuration, with the other skills that an agent would list beside it."""
    if config.env.skill_init is None:
        raise ConfigError(
            "train.part description changes the description of a skill of yours. Name it: env.skill_init"
            " (--skill_init)."
        )
    skill = load_skill(config.env.skill_init)
    description = description_of(skill)
    if problem := problem_with(description):
        raise SkillError(f"{skill.path}: {problem}. Correct it first: agents may not list the skill at all.")
    others = tuple(one for one in listed_in(_folders(config)) if one.name != skill.name)
    listing = SkillListing(skill=skill, others=others)
    if installable(listing.whole(description))[0] != skill.name:
        raise SkillError(
            f"{skill.path}: the name {skill.name!r} may hold only lowercase letters, digits and single"
            " hyphens. Correct it first: agents would not list the skill under it."
        )
    return listing


def trigger_benchmark(
    config: Config, listing: SkillListing, further: Sequence[Config] = ()
) -> TriggerBenchmark:
    """The queries, and the list as the agent shows it. `further` are the configurations of other targets."""
    for harness in {_harness(one) for one in (config, *further)}:
        if harness != "chat" and harness not in driven():
            raise ConfigError(
                f"{harness} as a target cannot say which skill it loaded. To train a description choose an"
                f" agent ({', '.join(driven())}), or a model by chat."
            )
    if not config.triggers.path.exists():
        raise TaskError(
            f"There are no queries at {config.triggers.path}. 'skillopt train' drafts some for you to review;"
            " or write lines of prompt and should_load yourself (triggers.path)."
        )
    splits = load_queries(config.triggers.path, config.triggers.split_ratio, config.train.seed)
    return TriggerBenchmark(listing, splits, line=_lister(config).listed)


def about_description(listing: SkillListing) -> str:
    """What the optimizer is told of a skill that is only a description."""
    others = "\n".join(f"- {one.name}: {one.description}" for one in listing.others)
    body = clipped(listing.skill.document.body.strip(), LONGEST_BODY)
    return fill(packaged("description"), {"others": others or "(none)", "body": body or "(empty)"})


def _folders(config: Config) -> tuple[Path, ...]:
    """Where the other skills lie."""
    if not config.triggers.others:
        return ()
    named, installed = config.triggers.skills, _lister(config).skills
    if named is None:
        return (Path.cwd() / installed, Path.home() / installed)
    if not named.is_dir():
        raise ConfigError(f"triggers.skills: there is no folder {named}. Correct the path.")
    return (named,)


def _lister(config: Config) -> Agent:
    harness = _harness(config)
    return agent(harness if harness in driven() else config.triggers.listed_as)


def _harness(config: Config) -> str:
    return parse_model_string(config.model.target.name, "target").harness


def format_listed_beside(listing: SkillListing) -> str:
    """Which other skills take part, and what of them is sent."""
    if not listing.others:
        return "No other skills are listed beside it."
    names = ", ".join(one.name for one in listing.others)
    return (
        f"Listed beside it, and sent to the models by name and description alone: {names} (triggers.others,"
        " triggers.skills)."
    )


class DraftedQueries(BaseModel):
    """What the optimizer model drafts."""

    should_load: list[str]
    should_not_load: list[str]


def wants_draft(config: Config) -> bool:
    """Whether a description is to be trained and there are no queries."""
    return config.train.part == "description" and not os.path.lexists(config.triggers.path)


async def draft_queries(resolved: Resolved, folder: Path) -> None:
    """Ask the optimizer for queries, write them, and raise `ReviewWanted`: a person reads them first.

    The question passes the same stack as those of a run; its records lie in `folder`. Of the tasks only those
    of train are shown.
    """
    from skillopt.run.drafting import NONE_YET, ask_draft, drafting_job, write_rows

    config = resolved.config
    listing = listing_of(config)
    job = drafting_job(resolved, TriggerBenchmark(listing, NONE_YET, line=""), listing.skill)
    job = replace(job, listing=listing)
    half = config.triggers.drafts // 2
    tasks = (
        [] if config.env.name is None else benchmarks.get(config.env.name)(config.env.settings).tasks("train")
    )
    shown = "\n\n".join(f"<task>{clipped(task.prompt, _LONGEST)}</task>" for task in tasks[:_TASKS])
    system = fill(packaged(QUERIES), {"half": str(half)}) + "\n" + about_description(listing)
    user = section("The description", description_of(listing.skill)) + section("Tasks it is for", shown)
    asked = (Message(role="system", content=system), Message(role="user", content=user))
    async with open_run(job, folder, {"kind": QUERIES, "asked": [one.content for one in asked]}) as opened:
        drafted = await ask_draft(opened, asked, DraftedQueries, stage=QUERIES, what="queries")
    write_rows(config.triggers.path, _rows(drafted, config.model.optimizer.name))
    raise ReviewWanted(
        f"{len(drafted.should_load)} queries that should load the skill and {len(drafted.should_not_load)}"
        f" that should not were drafted: {config.triggers.path}\nRead every line, correct what is wrong,"
        " delete the first line, and run the same command again. Nothing is trained on them before."
    )


def _rows(drafted: DraftedQueries, model: str) -> list[dict[str, Any]]:
    """The draft, the two kinds in turn; its first line keeps it from being used."""
    pairs = zip_longest(drafted.should_load, drafted.should_not_load)
    said = chain.from_iterable(((one, True), (other, False)) for one, other in pairs)
    told = f"by {model}, not reviewed: read every line, correct what is wrong, then delete this line"
    queries = [{"prompt": text, "should_load": load} for text, load in said if text]
    return [{DRAFTED: told}, *queries]
