"""The CLI of an agent: whom it talks to, where it runs, how it starts, its settings, and its driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Protocol

from skillopt.errors import ConfigError, suggest
from skillopt.messages import Finish, Message, Usage
from skillopt.process import Finished

OWN = "own"
"""The provider of an `Access` that is the CLI's own service, with the CLI's own login."""
Activation = Literal["forced", "natural"]
_CLI_WORDS = (None, "", "auto", "cli", "false", False)
"""Values of `use_sdk` that mean the CLI itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Whom a CLI talks to, and as whom. Without a key it is the login that the CLI keeps, if at all."""

    provider: str
    model: str
    base_url: str | None = None
    key: str | None = field(default=None, repr=False)
    effort: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlace:
    """The folders of one run of a CLI, all below one root that goes away with it."""

    root: Path
    home: Path
    workspace: Path
    temp: Path
    config: Path | None = None
    """The configuration folder of the CLI that the user named, used in place; else one in `home`."""
    documents: Path | None = None
    """A folder below `workspace` that the agent may read and not change, where its task has documents."""

    def configured(self, name: str) -> Path:
        """The CLI's configuration folder, which in a home has this name."""
        return self.config or self.home / name


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """What every start of a CLI is given."""

    access: Access
    place: AgentPlace
    settings: Mapping[str, Any]
    prompt: str
    images: tuple[Path, ...] = ()

    @property
    def effort(self) -> str | None:
        """How hard the model is to think, where somebody says."""
        return text_setting(self.settings, "effort") or self.access.effort


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(AgentRun):
    """A question to the model behind a CLI: no tools, no skills, one answer."""

    system: str
    max_tokens: int
    schema: Mapping[str, Any] | None = None

    @property
    def whole(self) -> str:
        """System and prompt as one text, for a CLI that takes no system prompt."""
        return f"{self.system}\n\n{self.prompt}" if self.system else self.prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentWork(AgentRun):
    """A task for the agent in its workspace; `skill` is the only one installed there, if any."""

    skill: str | None = None
    activation: Activation = "forced"

    @property
    def is_forced(self) -> bool:
        """Whether the skill is to be loaded whatever the agent thinks of it."""
        return self.skill is not None and self.activation == "forced"

    @property
    def demanding(self) -> str:
        """The prompt, after words that ask for a forced skill where nothing else can load it."""
        demand = (
            f"First load the skill `{self.skill}` that is installed in this workspace and read all of it."
            " Then do the task below as it says.\n\n"
        )
        return f"{demand if self.is_forced else ''}{self.prompt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a CLI is started. Prompts are in stdin or files, never `arguments`; credentials in `env`."""

    arguments: tuple[str, ...]
    env: Mapping[str, str]
    stdin: str
    files: Mapping[Path, str] = field(default_factory=dict)
    """Written before the start."""
    links: Mapping[Path, Path] = field(default_factory=dict)
    """Made before the start, each where what it leads to is there."""
    own_home: bool = False
    """True when the CLI runs in the user's own home, because it must use the login it keeps there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
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


class AgentDriver(Protocol):
    """How the CLI of an agent is started and read. Methods only read: `ask` and `work` the images they are
    given, `report` what the CLI left in the place.
    """

    name: str
    """That of the agent."""
    binary: str
    package: str
    """What to install, in the words of a remedy."""
    tested: str
    """The version the driver was tried with; 'recorded' events only where no binary can be had."""
    skills: str
    """Where it discovers skills below the workspace: that of the agent."""
    providers: frozenset[str] = frozenset()
    """Whose models it can be pointed at, beside its own."""
    credentials: tuple[str, ...] = ()
    """Variables that hold a key or token for its own service, in the order they are looked for."""
    settings: frozenset[str]
    """The settings it understands."""
    flags: tuple[str, ...]
    """What `--help` must name for the driver to work."""
    help: tuple[str, ...] = ("--help",)
    """Arguments that print that help."""
    images: bool = True
    """Whether it takes images."""
    reports_usage: bool = True
    """Whether it says how many tokens it used."""
    forced_by: str
    """In words: how a forced skill is activated."""
    proven_by: str
    """In words: what shows that a skill was loaded."""
    network: str = "on"
    """In words: what the programs it runs can reach."""

    def ask(self, ask: Ask) -> Launch:
        """How to start it for one answer without tools. Raises `ConfigError` for what it cannot do."""
        ...

    def work(self, work: AgentWork) -> Launch:
        """How to start it on a task. Raises `ConfigError` for what it cannot do."""
        ...

    def report(self, done: Finished, place: AgentPlace, skill: str | None) -> AgentReport:
        """Read what it printed. Raises `Fault` of the right kind for all but the model's own doing."""
        ...


def check_settings(agent: str, settings: Mapping[str, Any], known: frozenset[str]) -> None:
    """Every setting that is set is one the agent has."""
    for name, value in settings.items():
        if value not in (None, "") and name not in known:
            raise ConfigError(f"{agent} has no setting {name!r}. {suggest(name, sorted(known))}")


def text_setting(settings: Mapping[str, Any], name: str) -> str | None:
    """A text, or None where it is unset or empty."""
    value = settings.get(name)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"The agent setting {name!r} is {value!r}; write a text.")
    return value or None


def choice(settings: Mapping[str, Any], name: str, choices: tuple[str, ...], default: str) -> str:
    """One of a few words."""
    value = text_setting(settings, name) or default
    if value not in choices:
        raise ConfigError(f"The agent setting {name!r} has no value {value!r}. {suggest(value, choices)}")
    return value


def switch(settings: Mapping[str, Any], name: str, default: bool) -> bool:
    """On or off; unset is the default."""
    value = settings.get(name)
    if value is None or value == "":
        return default
    if not isinstance(value, bool):
        raise ConfigError(f"The agent setting {name!r} is {value!r}; write true or false.")
    return value


def refuse_sdk(agent: str, settings: Mapping[str, Any]) -> None:
    """The agents' Python SDKs are not used: they start the same CLI, with the user's environment."""
    value = settings.get("use_sdk")
    word = value.lower() if isinstance(value, str) else value
    if word not in _CLI_WORDS:
        raise ConfigError(
            f"{agent}: use_sdk {value!r} is not supported: the CLI itself is driven. Set it to 'auto' or"
            " 'cli', or remove it."
        )
