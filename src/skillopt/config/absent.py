"""Decides which `env` keys a public benchmark has while no plug-in of its name is installed: its configs load, its tasks are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from skillopt.benchmarks import benchmarks
from skillopt.errors import SkillOptError, UnknownName
from skillopt.registry import Registry
from skillopt.tasks.benchmark import Benchmark, BenchmarkPlugin

_COMMON: Mapping[str, tuple[Any, Any, str]] = {
    "split_mode": (Literal["ratio", "split_dir"] | None, None, "How tasks get their split."),
    "split_ratio": (str, "2:1:7", "Weights of train, val and test."),
    "split_seed": (int, 42, "Seed of the split."),
    "split_dir": (Path | None, None, "Folder with train/, val/ and test/."),
    "data_path": (Path | None, None, "File with all tasks."),
    "limit": (int, 0, "Use only the first tasks of each split; 0 is all of them."),
}
COMMON_KEYS = frozenset(f"env.{name}" for name in _COMMON)
"""Keys of every benchmark whose tasks come from files; a base file may hold them without naming one."""
_TURNS = {"max_turns": (int, 1, "Turns of the target.")}
_OWN: Mapping[str, Mapping[str, tuple[Any, Any, str]]] = {
    "alfworld": {
        "max_steps": (int, 50, "Actions of one episode."),
        "max_api_workers": (int, 8, "Model calls in flight."),
    },
    "docvqa": {**_TURNS, "image_detail": (Literal["auto", "low", "high"], "auto", "Detail in which the page image is sent.")},
    "livemathematicianbench": {
        **_TURNS,
        "shuffle_choices": (bool, True, "Order of the choices by a seed."),
        "use_theorem": (bool, False, "Show the theorem."),
        "use_sketch": (bool, False, "Show the sketch of the proof."),
    },
    "spreadsheetbench": {
        "mode": (Literal["single", "multi", "react"], "multi", "How a workbook is worked on."),
        "max_turns": (int, 30, "Turns of the target."),
        "data_root": (Path | None, None, "Folder with the workbooks."),
    },
    "officeqa": {
        "max_tool_turns": (int, 24, "Turns with tools."),
        "search_mode": (Literal["offline", "custom_search", "azure_search"], "offline", "Where evidence comes from."),
        "max_queries_per_turn": (int, 4, "Searches of one turn."),
        "data_dirs": (list[str], [], "Folders with the documents."),
        "use_local_tools": (bool, True, "Whether the documents may be searched."),
    },
}
_FREE_PREFIX = {"officeqa": "search_"}
"""OfficeQA has settings of its search service under this prefix, which its plug-in will type."""


class _Absent:
    """Stands for a benchmark that is not installed; it cannot be built."""

    def __init__(self, name: str, settings: type[BaseModel]) -> None:
        self.name = name
        self.Settings = settings
        self.defaults: Mapping[str, Any] = {"evaluation.repeats": 1}

    def __call__(self, settings: Any) -> Benchmark:
        raise UnknownName("installed benchmark", self.name, benchmarks.names())


def absent_names(registry: Registry = benchmarks) -> list[str]:
    """Public benchmarks that are known and not installed."""
    return [name for name in _OWN if name not in registry.names()]


def find_benchmark(name: str, registry: Registry = benchmarks, given: Iterable[str] = ()) -> tuple[BenchmarkPlugin, bool]:
    """The plug-in of that name and whether it is installed; for a known one that is not, what its keys are. `given` keys help to tell."""
    try:
        found: BenchmarkPlugin = registry.get(name)
        return found, True
    except UnknownName:
        if name not in _OWN:
            raise
    prefix = _FREE_PREFIX.get(name)
    free = {key: (Any, None, "A setting of its search service.") for key in given if prefix and key.startswith(prefix)}
    fields: dict[str, Any] = {
        key: (kind, Field(default=default, description=text)) for key, (kind, default, text) in {**free, **_COMMON, **_OWN[name]}.items()
    }
    settings = create_model(f"{name}Settings", __config__=ConfigDict(extra="forbid", frozen=True), **fields)
    return _Absent(name, settings), False


def benchmarks_with(key: str, registry: Registry = benchmarks) -> list[str]:
    """The benchmarks, installed or not, that have an `env` key of this name."""
    found = []
    for name in sorted({*registry.names(), *absent_names(registry)}):
        try:
            plugin, _ = find_benchmark(name, registry, [key])
        except (ImportError, SkillOptError):  # it lacks its dependencies and cannot be asked
            continue
        if key in plugin.Settings.model_fields:
            found.append(name)
    return found
