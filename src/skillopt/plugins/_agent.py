"""What an agent is to the installer: where it may be installed, and what that puts where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt.changes.actions import InstallAction
from skillopt.changes.receipts import Install, Scope
from skillopt.errors import UnknownName, UsageError
from skillopt.plugins._kit import Kit
from skillopt.registry import Registry

_registry = Registry("agent", "skillopt.plugins")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPlace:
    """Where an install takes place: for all projects of the user, or for one."""

    scope: Scope
    home: Path
    project: Path | None = None
    """Set where the scope is a project."""
    env: Mapping[str, str]
    windows: bool = False

    @property
    def root(self) -> Path:
        """The folder that everything is written below, unless a variable of the agent names another."""
        return self.home if self.project is None else self.project

    def folder(self, variable: str, default: str) -> Path:
        """A folder of an agent below the home folder, or where its variable says that it is."""
        given = self.env.get(variable)
        # Whole, because the receipt is read from elsewhere.
        return Path(given).expanduser().absolute() if given else self.home / default

    @property
    def config(self) -> Path:
        """The user's folder of settings, as the system has it."""
        return (
            self.folder("APPDATA", "AppData/Roaming")
            if self.windows
            else self.folder("XDG_CONFIG_HOME", ".config")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One agent. A file in this folder holds one as its `PLUGIN`; its name is the file's, with dashes."""

    title: str
    gets: str
    """What the agent has afterwards, in a few words."""
    scopes: tuple[Scope, ...]
    """The first one is meant where nobody says otherwise."""
    actions: Callable[[InstallPlace, Kit], Sequence[InstallAction]]
    """Everything an install does, one action a file."""
    seen: str
    """What was tried with the real program; empty where the form is only documented."""
    then: str
    """What the person does next."""


def agent_names() -> list[str]:
    """The names of all agents, as they are typed."""
    return [name.replace("_", "-") for name in _registry.names()]


def agent(name: str) -> Agent:
    """An agent by its name. Raises `UnknownName` with the near miss."""
    if name.replace("_", "-") not in agent_names():
        raise UnknownName("agent", name, agent_names())
    found = _registry.get(name.replace("-", "_"))
    assert isinstance(found, Agent)
    return found


def install_of(name: str, place: InstallPlace) -> Install:
    """Which install is meant. Raises `UnknownName` for an agent that is not there."""
    agent(name)
    return Install(agent=name, scope=place.scope, root=place.root)


def actions_of(name: str, place: InstallPlace, kit: Kit) -> Sequence[InstallAction]:
    """What an install does. Raises `UsageError` where the agent is not installed in that scope."""
    found = agent(name)
    if place.scope not in found.scopes:
        words = {"user": "all projects of yours", "project": "one project"}
        where = " or ".join(words[scope] for scope in found.scopes)
        remedy = "Name it: --project FOLDER." if found.scopes == ("project",) else "Leave --project out."
        raise UsageError(f"{name} is installed for {where}. {remedy}")
    return found.actions(place, kit)
