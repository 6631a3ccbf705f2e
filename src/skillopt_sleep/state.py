"""What nights keep of a project: where the next harvest starts, and the plans of nights with what they teach:
tasks that come again, an older text to compare with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from skillopt.changes import StoredRecord
from skillopt.errors import UsageError
from skillopt.files import lock_privately, write_json
from skillopt_sleep.plan import EarlierSkill, NightPlan, NightTarget
from skillopt_sleep.proposal import Decision
from skillopt_sleep.readings import Readings
from skillopt_sleep.settings import NightSettings
from skillopt_sleep.store import Store
from skillopt_sleep.tasks import NightTask
from skillopt_sleep.wording import normal

COMPARED = 20
"""Past tasks that are kept for the comparison, the newest."""


class ProjectState(StoredRecord):
    """What nights remember of a project. `open` is the number of a night that has not ended."""

    version: int = 2
    project: str
    night: int = 0
    open: int | None = None
    next_since: datetime | None = None
    """From when on the next night reads."""


def project_id(project: Path | str) -> str:
    """The same for the same project, and different for any other."""
    return hashlib.sha256(str(project).encode("utf-8", "surrogateescape")).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class NightHome:
    """The folder in the user's home in which nights keep everything; nothing of it lies in a repository."""

    folder: Path

    @classmethod
    def of(cls, settings: NightSettings, home: Path) -> NightHome:
        """The folder of the settings, else `~/.skillopt-sleep`."""
        return cls(folder=(settings.state_dir or home / ".skillopt-sleep").absolute())

    @property
    def store(self) -> Store:
        """The user's proposals."""
        return Store(state=self.folder)

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

    def log_tail(self, most: int = 20) -> dict[str, Any] | None:
        """When the log was last `written` and its last `lines`, without control characters; None where no
        night has written one yet.
        """
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
        return {"written": written.isoformat(), "lines": list(filter(None, shown))[-most:]}

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
        write_json(self.folder / "state.json", state.model_dump(mode="json"), mode=0o600)

    def ended(self, most: int) -> list[NightPlan]:
        """The last nights that ended, as far as they can be read, the oldest first."""
        found: list[NightPlan] = []
        for number in range(self.load().night, 0, -1):
            with suppress(UsageError):  # one that somebody cleared away
                plan = NightPlan.load(self.night(number))
                found += [plan] if plan.ended is not None else []
            if len(found) == most:
                break
        return found[::-1]


def earlier_nights(home: ProjectHome, before: int) -> list[NightPlan]:
    """All earlier nights of the project, as far as they can be read, the oldest first."""
    nights: list[NightPlan] = []
    for number in range(1, before):
        try:
            nights.append(NightPlan.load(home.night(number)))
        except UsageError:  # a night that somebody cleared away teaches nothing, and hinders nothing
            continue
    return nights


def remembered_tasks(nights: Sequence[NightPlan]) -> list[NightTask]:
    """The person's tasks of all these nights as they were measured last, the newest first."""
    found: dict[str, NightTask] = {}
    for night in nights:
        every = [*(task for target in night.targets for task in target.tasks), *night.waiting]
        for task in every:
            found.pop(task.id, None)
            found[task.id] = task
    return list(found.values())[::-1]


def _proposed_for(
    target: NightTarget, earlier: Sequence[NightPlan], ids: Collection[str]
) -> list[tuple[int, NightTarget]]:
    """The same file in the earlier nights that made one of these proposals, the oldest first."""
    nights = [night for night in earlier if night.proposal in ids]
    return [(night.number, other) for night in nights for other in night.targets if other.path == target.path]


def with_open_proposal(
    target: NightTarget, earlier: Sequence[NightPlan], undecided: Collection[str]
) -> tuple[NightTarget, str]:
    """Add to the target the undecided proposal that the newest earlier night made for the same text:
    tonight's tasks measure it again. Returns the target with a note, which is empty without such a proposal.
    """
    for number, other in reversed(_proposed_for(target, earlier, undecided)):
        is_same = (other.before, other.seed, other.files) == (target.before, target.seed, target.files)
        if is_same and other.outcome is not None and other.outcome.edits:
            note = f"what night {number} proposed waits for you, and is measured again tonight."
            return target.model_copy(update={"carried": other.outcome}), note
    return target, ""


def with_earlier_skill(
    target: NightTarget,
    earlier: Sequence[NightPlan],
    decisions: Iterable[Decision],
    *,
    tonight: int,
    window: int,
) -> tuple[NightTarget, str]:
    """The target with what its slow update looks back to, or why there is nothing, in words."""
    path = str(target.path)
    adopted = {one.proposal for one in decisions if one.decision == "adopted" and one.target.path == path}
    recent = [night for night in earlier if tonight - window <= night.number < tonight]
    found = _proposed_for(target, recent, adopted)
    if not found:
        return target, (
            f"no slow update: nothing of the last {window} nights was adopted, so there is no older text to"
            " compare with."
        )
    # Each task once; of one that is asked tonight too, tonight's form of it, with tonight's measure.
    mine = {task.id: task for task in target.tasks}
    before = [other for night in earlier for other in night.targets]
    tasks = {task.id: mine.get(task.id, task) for task in _lessons(target, before)}
    if not tasks:
        return (
            target,
            "no slow update: no train task of an earlier night is left to compare the two texts on.",
        )
    number, then = found[0]
    past = EarlierSkill(
        night=number, nights_ago=tonight - number, text=then.seed, tasks=tuple(tasks.values())[-COMPARED:]
    )
    return target.model_copy(update={"earlier": past}), ""


def _lessons(target: NightTarget, earlier: Sequence[NightTarget]) -> list[NightTask]:
    """The person's tasks this skill was trained on in earlier nights, oldest first; none ever held out."""
    every = [task for other in (target, *earlier) for task in other.tasks]
    held_out = {normal(task.prompt) for task in every if task.split != "train"}
    same = (task for other in earlier if other.path == target.path for task in other.tasks)
    return [task for task in same if task.split == "train" and normal(task.prompt) not in held_out]
