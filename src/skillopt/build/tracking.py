"""Opens the trackers that a configuration names, and refuses what cannot work before anything is paid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any

from skillopt.account import Entry
from skillopt.build.assembly import OpenRun
from skillopt.build.delivery import Delivery
from skillopt.config.schema import TrackingConfig
from skillopt.errors import ConfigError
from skillopt.events import Called
from skillopt.runs.log import DATABASE
from skillopt.runs.stored import StoredTexts
from skillopt.trackers import trackers
from skillopt.trackers.port import Opening, TrackerPlugin

FOLDER = "tracking"


def kinds_of(config: TrackingConfig) -> dict[str, TrackerPlugin]:
    """The trackers that are named, by name; an unknown name and a missing library are errors."""
    names = [name.strip() for name in (config.use or "").split(",") if name.strip()]
    found: dict[str, TrackerPlugin] = {name: trackers.get(name) for name in names}
    for name, kind in found.items():
        if kind.module and not _is_there(kind.module):
            raise ConfigError(
                f"Tracker {name!r} needs {kind.module.partition('.')[0]}: pip install"
                f" 'skillopt-trainer[{kind.extra}]'"
            )
    return found


@contextmanager
def tracked(opened: OpenRun) -> Iterator[None]:
    """Tell the trackers what happens, first what they missed: a stop or a late start loses nothing."""
    job, run = opened.job, opened.run
    kinds = kinds_of(job.config.tracking)
    with ExitStack() as stack:
        for name, kind in kinds.items():
            delivery = Delivery(name, kind, _opening(opened, name, kind), warn=run.emit)
            delivery.start(list(run.history()))
            stack.callback(delivery.close)
            run.watch(delivery)
        if any(kind.wants_calls for kind in kinds.values()):
            opened.ledger.watch(lambda entry: _tell_call(opened, entry))
        yield


def _opening(opened: OpenRun, name: str, kind: TrackerPlugin) -> Opening:
    scrubber, config = opened.job.scrubber, opened.job.config.tracking
    return Opening(
        folder=opened.folder / FOLDER / name,
        name=opened.folder.name,
        identity=opened.run.identity,
        project=scrubber.scrub(config.project),
        settings=dict(_flat(scrubber.scrub_json(opened.job.settings))),
        own=config.settings.get(name) or kind.Settings(),
        texts=config.texts,
        skill=lambda digest: StoredTexts(opened.folder / DATABASE)(digest) or "",
    )


def _tell_call(opened: OpenRun, entry: Entry) -> None:
    if entry.opened is None:
        return
    job, usage = opened.job, entry.usage
    specs = {"target": job.target, "optimizer": job.optimizer, "judge": job.judge or job.optimizer}
    model = specs[entry.role].model
    opened.run.emit(
        Called(
            role=entry.role,
            stage=entry.stage,
            place=entry.place,
            provider=model.provider,
            model=model.name,
            outcome=entry.state,
            seconds=opened.seconds - entry.opened,
            input_tokens=None if usage is None else usage.input_tokens,
            output_tokens=None if usage is None else usage.output_tokens,
            cached_tokens=None if usage is None else usage.cached_tokens,
            cache_write_tokens=None if usage is None else usage.cache_write_tokens,
            reasoning_tokens=None if usage is None else usage.reasoning_tokens,
            usd=None if entry.charged.usd is None else float(entry.charged.usd),
        )
    )


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
