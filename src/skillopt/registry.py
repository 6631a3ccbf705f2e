"""Finds plug-ins: every file without an underscore in a folder of ours, and every entry point of a stranger's
package.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from skillopt.errors import UnknownName

PORT = "port"
"""The file of a plug-in folder that holds the contract all its plug-ins keep."""


class Registry:
    """The plug-ins of one folder. A plug-in is a module (or entry point target) with an attribute `PLUGIN`.

    `name` of a plug-in is its file name; entry points of group `skillopt.<folder>` come in under their own
    name.
    """

    def __init__(self, what: str, package: str, group: str | None = None) -> None:
        self.what = what
        self.package = package
        self.group = group or package

    def names(self) -> list[str]:
        """All names, ours first come by file, a stranger's by entry point; nothing is imported."""
        return sorted(
            set(_files(self.package)) | {point.name for point in _points(self.group, tuple(sys.path))}
        )

    def get(self, name: str) -> Any:
        """The plug-in of that name, imported now; unknown names raise with the near miss."""
        if name in _files(self.package):
            return importlib.import_module(f"{self.package}.{name}").PLUGIN
        for point in _points(self.group, tuple(sys.path)):
            if point.name == name:
                return point.load()
        raise UnknownName(self.what, name, self.names())


@cache
def _points(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Strangers' plug-ins. Finding them reads a file of every installed package, so it is done once, and anew
    where the path changed.
    """
    return tuple(entry_points(group=group))


@cache
def _files(package: str) -> tuple[str, ...]:
    path = importlib.import_module(package).__path__
    names = (module.name for module in pkgutil.iter_modules(path))
    return tuple(name for name in names if not name.startswith("_") and name != PORT)
