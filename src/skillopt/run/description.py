"""What a run works on that trains a description: the skill in a list of others, and queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skillopt.agents import agent, driven
from skillopt.agents.port import Agent
from skillopt.config.load import Resolved
from skillopt.config.model_string import parse_model_string
from skillopt.config.schema import Config
from skillopt.errors import ConfigError, SkillError, TaskError
from skillopt.optimizer.ask import packaged
from skillopt.optimizer.render import clipped
from skillopt.skill.description import SkillListing, description_of, listed_in, problem_with
from skillopt.skill.folder import load_skill
from skillopt.skill.install import installable
from skillopt.tasks.template import fill
from skillopt.tasks.triggers import TriggerBenchmark, load_queries

LONGEST_BODY = 6_000
"""Characters of the skill's body that analysts are shown."""


def for_description(resolved: Resolved) -> Config:
    """The configuration without the stages that write regions or notes, for which there is no room. The
    published loop is the strategy unless another was chosen: it mends a description that always loads.
    """
    off = {"optimizer.use_slow_update": False, "optimizer.use_skill_aware_reflection": False}
    is_chosen = resolved.provenance["train.strategy"].layer != "default"
    return resolved.config.having(off if is_chosen else {**off, "train.strategy": "paper"})


def listing_of(config: Config) -> SkillListing:
    """The skill of the configuration among the others that the agent would list."""
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
