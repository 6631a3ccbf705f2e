"""The port every agent CLI implements: what it is asked, how it is started, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Protocol

from skillopt.messages import Finish, Message, Usage
from skillopt.process import Finished
from skillopt.services import Service

OWN = "own"
"""The provider of an `Access` that is the CLI's own service, with the CLI's own login."""
Activation = Literal["forced", "natural"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Whom a CLI talks to, and as whom. Without a key it is the login that the CLI itself keeps, if it may be
    used at all.
    """

    provider: str
    model: str
    base_url: str | None = None
    key: str | None = field(default=None, repr=False)
    effort: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The folders of one run of a CLI, all below one root that goes away with it."""

    root: Path
    home: Path
    workspace: Path
    temp: Path
    config: Path | None = None
    """The CLI's own configuration folder that is used in place, where the user named one; else it is a fresh
    one in `home`.
    """
    documents: Path | None = None
    """A folder below `workspace` that the agent may read and not change, where its task has documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A question to the model behind a CLI: no tools, no skills, one answer."""

    access: Access
    place: Place
    settings: Mapping[str, Any]
    system: str
    prompt: str
    max_tokens: int
    images: tuple[Path, ...] = ()
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A task for the agent in its workspace; `skill` is the name of the only skill installed there, or None
    where there is none.
    """

    access: Access
    place: Place
    settings: Mapping[str, Any]
    prompt: str
    skill: str | None = None
    activation: Activation = "forced"
    images: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a CLI is started. Prompts travel on stdin or in files, never in `arguments`; credentials in `env`
    only.
    """

    arguments: tuple[str, ...]
    env: Mapping[str, str]
    stdin: str
    files: Mapping[Path, str] = field(default_factory=dict)
    """Written before the start."""
    own_home: bool = False
    """True when the CLI runs in the user's own home, because it must use the login it keeps there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a CLI did, from its own structured output. Unknown usage and cost are None, never zero."""

    messages: tuple[Message, ...]
    answer: str
    finish: Finish
    calls: int
    usage: Usage | None
    usd: Fraction | None = None
    model: str = ""
    loaded: tuple[str, ...] = ()
    """Files of the skill that came before the model, as proof: loaded by the CLI, or read by the agent."""
    seconds: float | None = None
    """How long the CLI ran, by our clock."""


class Agent(Protocol):
    """One agent CLI. Methods only read: `ask` and `work` the images they are given, `report` what the CLI
    left in the place.
    """

    name: str
    login: str
    """The provider name that means its own service with its own login."""
    account: Service
    """What configuration has to know of that login."""
    program: Service
    """The same of the program: its keys fill the `agent` section of a role, its backends mean this agent."""
    vendor: str
    """The provider whose key serves a rollout as well, as that has a home of its own where nobody is logged
    in; blank where there is none.
    """
    binary: str
    package: str
    """What to install, in the words of a remedy."""
    tested: str
    """The version the driver was tried with; 'recorded' events only where no binary can be had."""
    skills: str
    """Where it discovers skills, below the workspace."""
    providers: frozenset[str]
    """Whose models it can be pointed at, beside its own."""
    credentials: tuple[str, ...]
    """Variables that hold a key or token for its own service, in the order they are looked for."""
    settings: frozenset[str]
    """The settings it understands."""
    flags: tuple[str, ...]
    """What `--help` must name for the driver to work."""
    help: tuple[str, ...]
    """Arguments that print that help."""
    images: bool
    """Whether it takes images."""
    reports_usage: bool
    """Whether it says how many tokens it used."""
    forced_by: str
    """In words: how a forced skill is activated."""
    proven_by: str
    """In words: what shows that a skill was loaded."""
    network: str
    """In words: what the programs it runs can reach."""

    def ask(self, ask: Ask) -> Launch:
        """How to start it for one answer without tools. Raises `ConfigError` for what it cannot do."""
        ...

    def work(self, work: Work) -> Launch:
        """How to start it on a task. Raises `ConfigError` for what it cannot do."""
        ...

    def report(self, done: Finished, place: Place, skill: str | None) -> Report:
        """Read what it printed. Raises `Fault` with the right kind for everything that is not the model's own
        doing.
        """
        ...
