"""Opens the trackers that a configuration names, and refuses what cannot work before anything is paid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from skillopt.config.schema import TrackingConfig
from skillopt.errors import ConfigError
from skillopt.events import Notice
from skillopt.trackers import trackers
from skillopt.trackers._delivery import Delivery
from skillopt.trackers.port import Kind, Opening

FOLDER = "tracking"


def kinds_of(config: TrackingConfig) -> dict[str, Kind]:
    """The trackers that are named, by name; an unknown name and a missing library are errors."""
    names = [name.strip() for name in (config.use or "").split(",") if name.strip()]
    found: dict[str, Kind] = {name: trackers.get(name) for name in names}
    for name, kind in found.items():
        if kind.module and not _is_there(kind.module):
            raise ConfigError(
                f"Tracker {name!r} needs {kind.module.partition('.')[0]}: pip install"
                f" 'skillopt[{kind.extra}]'"
            )
    return found


def deliveries(
    kinds: Mapping[str, Kind],
    config: TrackingConfig,
    folder: Path,
    *,
    identity: str,
    settings: Mapping[str, Any],
    warn: Callable[[Notice], None],
) -> list[Delivery]:
    """One delivery for each of these trackers; not started yet."""
    flat = dict(_flat(settings))
    return [
        Delivery(
            name,
            kind,
            Opening(
                folder=folder / FOLDER / name,
                name=folder.name,
                identity=identity,
                project=config.project,
                settings=flat,
                own=config.settings.get(name) or kind.Settings(),
                texts=config.texts,
            ),
            warn=warn,
        )
        for name, kind in kinds.items()
    ]


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
