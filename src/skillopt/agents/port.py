"""What an agent program is to us: its declaration."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from skillopt.config.service import PublicNames, Service

if TYPE_CHECKING:
    from skillopt.programs.port import AgentDriver
    from skillopt.transcripts.session import Homes, TranscriptSource

_NO_KEYS = PublicNames(keys={}, target_only=True)
_LOGIN = Service(needs_name=False, uses_own_login=True, default_model="", names=PublicNames(keys={}))


FOLDER = "{plugin}"
"""Stands for the folder of the plugin that SkillOpt ships (`plugins/claude-code`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlugin:
    """How SkillOpt comes into an agent: by commands of the agent's own, or by a text that a person follows.

    `FOLDER` in either is replaced by the folder of the shipped plugin.
    """

    gets: str
    """What the agent has afterwards, in a few words."""
    install: tuple[tuple[str, ...], ...] = ()
    """Command lines of the agent; the last one decides whether it worked, as earlier steps may be done."""
    uninstall: tuple[tuple[str, ...], ...] = ()
    by_hand: str = ""
    """What a person does instead, for an agent without an installer."""
    back_by_hand: str = ""
    then: str
    """What the person does next."""
    seen: str = ""
    """The program that this was tried with; empty where it follows documentation."""


def from_marketplace(program: str, *, add: str, remove: str, seen: str) -> AgentPlugin:
    """The shipped plugin, for a program that installs plugins from a marketplace in a folder."""
    name = "skillopt-sleep"
    plugin, market = (program, "plugin"), (program, "plugin", "marketplace")
    return AgentPlugin(
        gets="skill, commands skillopt-sleep, skillopt-sleep-handoff and skillopt-train, MCP server",
        install=((*market, "add", FOLDER), (*plugin, add, f"{name}@{name}")),
        uninstall=((*plugin, remove, f"{name}@{name}"), (*market, "remove", name)),
        then=f"Start it anew; `{program} plugin list` shows {name}.",
        seen=seen,
    )


def by_hand(
    settings: str, entry: Mapping[str, Any], skills: str, *, then: str, seen: str = "", further: str = ""
) -> AgentPlugin:
    """MCP server and skill, for an agent whose settings are JSON and that has no installer."""
    return AgentPlugin(
        gets="skill, MCP server",
        by_hand=(
            f"Put this into {settings}:\n{json.dumps(entry, indent=2)}\n"
            f"and copy the skill:\nmkdir -p {skills} && cp -R '{FOLDER}/skills/skillopt' {skills}/{further}"
        ),
        back_by_hand=f"Take the entry `skillopt` out of {settings}, and remove {skills}/skillopt.",
        then=then,
        seen=seen,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One agent program, with everything that we know of it.

    A folder in `skillopt.agents` holds one as its `PLUGIN`, and so does the target of an entry point of that
    group. Parts that need more than a few names are functions, so that nothing is imported before it is used.
    """

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    """What else people call it."""
    skills: str = ""
    """Where it looks for skills, below a project or the home folder; blank where nowhere."""
    listed: str = "- {name}: {description}"
    """The line by which it shows a skill to its model before that is loaded."""
    memory: tuple[str, ...] = ()
    """Files of a project that it reads into every conversation, the first one found first."""
    rules: tuple[str, ...] = ()
    """Patterns of further such files, of which there may be several."""
    driver: Callable[[], AgentDriver] | None = None
    """Set where it can be driven: then it is a harness of the same name."""
    runs: str = ""
    """In words: how a skill is used in that harness."""
    login: str = ""
    """The provider name that means its own service with its own login."""
    account: Service = _LOGIN
    """What configuration has to know of that login."""
    is_provider: bool = False
    """Whether the model behind that login can be asked without the agent, as a provider of that name."""
    names: PublicNames = _NO_KEYS
    """The public names of the program, where `legacy.yaml` has no row of it: its keys fill the `agent`
    section of a role, its backends mean it.
    """
    vendor: str = ""
    """The provider whose key serves a rollout too, as that has a home where nobody is logged in."""
    prefers_vendor_key: bool = False
    """Whether the program by itself uses that key before its own login: then so does chat."""
    token_prefix: str = ""
    """How a token of a subscription begins, which is no key of the vendor's and is not paid by use."""
    source: str = ""
    """What its transcripts are called."""
    transcripts: Callable[[], Callable[[Homes], TranscriptSource]] | None = None
    """Set where its transcripts can be harvested."""
    plugin: AgentPlugin | None = None
    """Set where SkillOpt can be installed into it."""


def own_login(model: str) -> Service:
    """What configuration has to know of a login that has this default model."""
    return replace(_LOGIN, default_model=model)


def lazily(module: str, name: str) -> Callable[[], Any]:
    """A part of an agent that is imported when it is first used."""

    def part() -> Any:
        return getattr(importlib.import_module(f"skillopt.agents.{module}"), name)

    return part
