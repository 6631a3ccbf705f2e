"""What an agent is to the installer: where it may be installed, and what that puts where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skillopt.changes._actions import Block, Entry, Own
from skillopt.plugins._kit import Kit

Scope = Literal["user", "project"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
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
    actions: Callable[[Place, Kit], Sequence[Own | Entry | Block]]
    """Everything an install does, one action a file."""
    seen: str
    """What was tried with the real program; empty where the form is only documented."""
    then: str
    """What the person does next."""
