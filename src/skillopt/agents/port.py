"""What an agent program is to us: its declaration."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from skillopt.programs.port import AgentDriver
from skillopt.services import Service

if TYPE_CHECKING:
    from skillopt.plugins.port import AgentPlugin
    from skillopt.transcripts.port import Homes, TranscriptSource

_LOGIN = Service(needs_name=False, uses_own_login=True, default_model="", keys={})
_PROGRAM = Service(keys={}, backs_optimizer=False)


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
    program: Service = _PROGRAM
    """The same for the program: its keys fill the `agent` section of a role, its backends mean it."""
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
    plugin: Callable[[], AgentPlugin] | None = None
    """Set where SkillOpt can be installed into it."""


def own_login(model: str, *variables: str, **more: Any) -> Service:
    """What configuration has to know of a login: its default model, and the variables with a key for it."""
    known = dict.fromkeys(variables, "api_key")
    return replace(_LOGIN, default_model=model, keys={"api_key": "api_key"}, variables=known, **more)


def lazily(module: str, name: str) -> Callable[[], Any]:
    """A part of an agent that is imported when it is first used."""

    def part() -> Any:
        return getattr(importlib.import_module(f"skillopt.agents.{module}"), name)

    return part
