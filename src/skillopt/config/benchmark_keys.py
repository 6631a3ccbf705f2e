"""Decides which benchmark an `env` key belongs to."""

from __future__ import annotations

from skillopt.benchmarks import benchmarks
from skillopt.errors import SkillOptError
from skillopt.registry import Registry

COMMON_KEYS = frozenset(
    f"env.{name}" for name in ("split_mode", "split_ratio", "split_seed", "split_dir", "data_path", "limit")
)
"""Keys of every benchmark whose tasks come from files; a base file may hold them without naming one."""


def benchmarks_with(key: str, registry: Registry = benchmarks) -> list[str]:
    """The benchmarks that have an `env` key of this name."""
    found = []
    for name in registry.names():
        try:
            plugin = registry.get(name)
        except (ImportError, SkillOptError):  # it lacks its dependencies and cannot be asked
            continue
        if key in plugin.Settings.model_fields:
            found.append(name)
    return found
