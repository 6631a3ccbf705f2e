"""What nights keep of a project: where the next harvest starts, the open night, how others ended."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt.agents import is_memory_file
from skillopt.changes.store import Store
from skillopt.errors import UsageError
from skillopt.files import lock_privately, write_json
from skillopt_sleep.readings import Readings
from skillopt_sleep.settings import NightSettings

KEPT = 200
"""Nights whose outcome is remembered."""


class SkillRow(BaseModel):
    """How one skill of a night ended: a row of the report."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    path: str
    action: str
    accepted: bool
    verified: bool
    baseline: float | None
    candidate: float | None
    tasks: int
    edits: int
    """Proposed to the person."""
    rejected: int
    """Tried and not accepted by the gate."""
    why: str


class NightRecord(BaseModel):
    """How a night ended."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int
    started: datetime
    ended: datetime
    sessions: int
    tasks: int
    outcome: str
    proposal: str | None = None
    tokens: int | None = None
    dollars: float | None = None
    skills: tuple[SkillRow, ...] = ()


class ProjectState(BaseModel):
    """What nights remember of a project. `open` is the number of a night that has not ended."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int = 1
    project: str
    night: int = 0
    open: int | None = None
    next_since: datetime | None = None
    terms: str = ""
    """Hash of the models and settings of the last night that ended."""
    seen: dict[str, int] = {}
    """The sessions it knew, and how many turns of each."""
    nights: tuple[NightRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NightLog:
    """The end of the log of scheduled nights, and when it was last written."""

    written: datetime
    lines: tuple[str, ...]


def project_id(project: Path | str) -> str:
    """The same for the same project, and different for any other."""
    return hashlib.sha256(str(project).encode("utf-8", "surrogateescape")).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class NightHome:
    """The folder in the user's home in which nights keep everything; nothing of it lies in a repository."""

    folder: Path

    @classmethod
    def of(cls, settings: NightSettings, home: Path) -> NightHome:
        """As told, else `~/.skillopt-sleep`."""
        return cls(folder=(settings.state_dir or home / ".skillopt-sleep").absolute())

    @property
    def store(self) -> Store:
        """The user's proposals."""
        return Store(state=self.folder, is_memory_file=is_memory_file)

    @property
    def readings(self) -> Readings:
        """What models read in sessions."""
        return Readings(folder=self.folder / "readings")

    def project(self, project: Path) -> ProjectHome:
        """What is kept for one project."""
        return ProjectHome(folder=self.folder / "projects" / project_id(project), project=project)

    def projects(self) -> list[Path]:
        """Every project that had a night, as far as its state can be read."""
        found = []
        for file in sorted((self.folder / "projects").glob("*/state.json")):
            try:
                found.append(Path(ProjectState.model_validate_json(file.read_bytes()).project))
            except (OSError, ValidationError):  # the project's own commands name it
                continue
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectHome:
    """One project's folder: its state, its nights, their shared rollouts and the log."""

    folder: Path
    project: Path

    @property
    def log(self) -> Path:
        """Where a scheduled night writes."""
        return self.folder / "night.log"

    def log_tail(self, lines: int = 20) -> NightLog | None:
        """The end of the log, without control characters; None where no night has written one yet."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - 64 * 1024))
                text = file.read().decode("utf-8", "replace")
            written = datetime.fromtimestamp(self.log.stat().st_mtime, tz=timezone.utc)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"The log {self.log} cannot be read: {error.strerror or error}.") from error
        shown = (
            "".join(char if char.isprintable() or char == "\t" else " " for char in line).rstrip()
            for line in text.split("\n")
        )
        return NightLog(written=written, lines=tuple(filter(None, shown))[-lines:])

    @property
    def rollouts(self) -> Path:
        """Scored rollouts that all nights of the project share, so that none is paid twice."""
        return self.folder / "rollouts.db"

    def night(self, number: int) -> Path:
        """The folder of a night."""
        return self.folder / "nights" / f"{number:04d}"

    def alone(self) -> AbstractContextManager[None]:
        """Hold the project's lock. Raises `RunConflict` while another night of it runs."""
        return lock_privately(self.folder / "night.lock")

    def load(self) -> ProjectState:
        """What is remembered. Raises `UsageError` for an unreadable file: that is no first night."""
        path = self.folder / "state.json"
        try:
            return ProjectState.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return ProjectState(project=str(self.project))
        except (OSError, ValidationError) as error:
            raise UsageError(
                f"{path} cannot be read as the state of nights ({type(error).__name__}). Move it away to"
                " begin anew."
            ) from error

    def save(self, state: ProjectState) -> None:
        """Write it down, whole or not at all."""
        kept = state.model_copy(update={"nights": state.nights[-KEPT:]})
        write_json(self.folder / "state.json", kept.model_dump(mode="json"), mode=0o600)
