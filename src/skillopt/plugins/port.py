"""What an agent is to the installer: where it may be installed, and what that puts where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt.changes.actions import InstallAction
from skillopt.changes.receipts import Install, Scope
from skillopt.errors import UsageError
from skillopt.files import expand_home
from skillopt.plugins.kit import Kit


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPlace:
    """Where an install takes place: for all projects of the user, or for one."""

    scope: Scope
    home: Path
    project: Path | None = None
    """Set where the scope is a project."""
    env: Mapping[str, str]
    windows: bool = False

    def install(self, agent: str) -> Install:
        """Which install of an agent is meant by this."""
        return Install(agent=agent, scope=self.scope, root=self.root)

    @property
    def root(self) -> Path:
        """The folder that everything is written below, unless a variable of the agent names another."""
        return self.home if self.project is None else self.project

    def folder(self, variable: str, default: str) -> Path:
        """A folder of an agent below the home folder, or where its variable says that it is."""
        given = self.env.get(variable)
        # Whole, because the receipt is read from elsewhere.
        return expand_home(given).absolute() if given else self.home / default

    @property
    def config(self) -> Path:
        """The user's folder of settings, as the system has it."""
        named = ("APPDATA", "AppData/Roaming") if self.windows else ("XDG_CONFIG_HOME", ".config")
        return self.folder(*named)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlugin:
    """SkillOpt in one agent: what an install puts where."""

    gets: str
    """What the agent has afterwards, in a few words."""
    scopes: tuple[Scope, ...]
    """The first one is meant where nobody says otherwise."""
    actions: Callable[[InstallPlace, Kit], Sequence[InstallAction]]
    """Everything an install does, one action a file."""
    then: str
    """What the person does next."""
    seen: str = ""
    """What was tried with the real program; empty where the form is only documented."""

    def actions_in(self, agent: str, place: InstallPlace, kit: Kit) -> Sequence[InstallAction]:
        """What an install does there. Raises `UsageError` where the agent is not installed in that scope."""
        if place.scope not in self.scopes:
            words = {"user": "all projects of yours", "project": "one project"}
            where = " or ".join(words[scope] for scope in self.scopes)
            remedy = "Name it: --project FOLDER." if self.scopes == ("project",) else "Leave --project out."
            raise UsageError(f"{agent} is installed for {where}. {remedy}")
        return self.actions(place, kit)
