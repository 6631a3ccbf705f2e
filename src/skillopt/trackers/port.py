"""The contract of a tracker: what it is given when it opens, and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from skillopt.events import Event


class TrackerSettings(BaseModel):
    """Base of a tracker's own settings, and the settings of a tracker that has none."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a tracker needs to know of the run it is to follow. Nothing in it is a credential."""

    folder: Path
    """A folder of its own below the run's; made when the tracker first writes there."""
    name: str
    """What a person calls the run: the name of its folder."""
    identity: str
    """The same for every session of a run, and for no other run."""
    project: str
    settings: Mapping[str, Any]
    """The run's configuration by dotted key."""
    own: Any = None
    """The tracker's own settings (`tracking.<name>.*`), as its `TrackerPlugin.Settings`."""
    texts: bool = False
    """Whether skill texts may leave the run folder too."""
    skill: Callable[[str], str] = str
    """The text of a skill that an event names by its digest; may be called from any thread."""
    earlier: str | None = None
    """What the tracker called this run in an earlier session (`Tracker.reference`)."""


class Tracker(Protocol):
    """Follows one run in a thread of its own.

    It may raise whatever its library raises: the run goes on without it and says so once. It is told every
    decided fact exactly once over all sessions (one at most twice where a process was killed in between), in
    order, and the news of calls only if its kind wants them.
    """

    @property
    def reference(self) -> str | None:
        """What to remember for the next session of the run."""
        ...

    def tell(self, event: Event) -> None:
        """Take a fact in; what it returned from counts as delivered."""
        ...

    def close(self) -> None:
        """Send what is left; the session is over, the run may go on in another."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerPlugin:
    """What a tracker's file declares as its `PLUGIN`."""

    open: Callable[[Opening], Tracker]
    Settings: type[BaseModel] = TrackerSettings
    """The keys below `tracking.<name>`, typed and documented per field, each with a default.
    """
    module: str = ""
    """The library it needs, as it is imported; looked for before anything is paid."""
    extra: str = ""
    """The extra of this package that brings the library."""
    wants_calls: bool = False
    """Whether it wants `Called`, one for each call to a model, as they settle."""
