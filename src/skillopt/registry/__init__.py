"""Finds plug-ins: every file without an underscore in a folder of ours, every entry point of a stranger's
package, and what was added in this process.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import itertools
import pkgutil
import re
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from skillopt.errors import ConfigError, UnknownName

T = TypeVar("T")
_LOANS = itertools.count(1)
_NOTHING: tuple[int, Mapping[str, Any]] = (0, {})
PORT = "port"
"""The file of a plug-in folder that holds the contract all its plug-ins keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A plug-in that something else brings along, such as the harness of an agent."""

    load: Callable[[], Any]
    says: str
    """Its line in a listing."""


class Registry:
    """The plug-ins of one kind. A plug-in is a module (or entry point target) with an attribute `PLUGIN`.

    Ours are the files of `package`, under their file names, those that `own` names as `module:attribute`, and
    those that other plug-ins bring along as `offers`; entry points of `group` come in under their own name.
    One that was added in this process comes first; a package's with the name of one of ours is an error.
    """

    def __init__(
        self,
        what: str,
        package: str | None = None,
        group: str | None = None,
        *,
        own: Mapping[str, str] | None = None,
        offers: Callable[[], Mapping[str, Offer]] = dict,
    ) -> None:
        self.what = what
        self.package = package
        self.group = group or package or ""
        self._own = {name: EntryPoint(name, value, self.group) for name, value in (own or {}).items()}
        self._offers = offers
        self._added: dict[str, Any] = {}
        self._changed = 0
        self._lent: ContextVar[tuple[int, Mapping[str, Any]]] = ContextVar(f"{what} on loan")

    def names(self) -> list[str]:
        """All names; nothing is imported."""
        return sorted({*self._here(), *self._own, *self._files(), *self._offers(), *self._points()})

    def get(self, name: str) -> Any:
        """The plug-in of that name, imported now; unknown names raise with the near miss."""
        if name in (here := self._here()):
            return here[name]
        ours = name in self._own or name in self._files() or name in self._offers()
        if ours and name in self._points():
            raise ConfigError(
                f"Two plug-ins are a {self.what} named {name!r}: ours, and that of"
                f" {self._points()[name].value}. Give the package's another name, or uninstall it."
            )
        if name in self._own:
            return self._own[name].load()
        if name in self._files():
            return importlib.import_module(f"{self.package}.{name}").PLUGIN
        if name in (offers := self._offers()):
            return offers[name].load()
        if name in self._points():
            return self._points()[name].load()
        raise UnknownName(self.what, name, self.names())

    def add(self, name: str, plugin: Any) -> None:
        """Add a plug-in for the rest of this process; one of the same name is replaced."""
        self._added[name] = plugin
        self._changed += 1

    @contextmanager
    def lend(self, name: str, plugin: Any) -> Iterator[None]:
        """Add a plug-in for as long as the context lasts, and for nobody outside of it."""
        token = self._lent.set((next(_LOANS), {**self._lent.get(_NOTHING)[1], name: plugin}))
        try:
            yield
        finally:
            self._lent.reset(token)

    def stamp(self) -> Hashable:
        """Changes whenever `names` or `get` could answer otherwise: the key of what is derived from them."""
        return (tuple(sys.path), self._changed, self._lent.get(_NOTHING)[0])

    def describe(self, name: str) -> str:
        """The first sentence of a plug-in's docstring. No file of ours is imported: a listing needs no SDK.

        A plug-in of another package is imported, and speaks for itself, its class or its module.
        """
        if name in self._files() and name not in self._here():
            spec = importlib.util.find_spec(f"{self.package}.{name}")
            source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
            return _first_sentence(ast.get_docstring(ast.parse(source)))
        if name in (offers := self._offers()) and name not in self._here():
            return offers[name].says
        try:
            plugin = self.get(name)
        except Exception as error:  # noqa: BLE001 - a stranger's package fails in any way, and is still listed
            return f"(cannot be imported: {type(error).__name__}: {error})".splitlines()[0]
        own = vars(plugin).get("__doc__") if hasattr(plugin, "__dict__") else None
        opened = None if isinstance(plugin, type) else getattr(plugin, "open", None)
        point = self._points().get(name)
        module = sys.modules.get(point.module) if point is not None else inspect.getmodule(plugin)
        texts = (own, getattr(opened, "__doc__", None), getattr(module, "__doc__", None))
        return next((said for text in texts if (said := _first_sentence(text))), "")

    def _here(self) -> Mapping[str, Any]:
        return {**self._added, **self._lent.get(_NOTHING)[1]}

    def _files(self) -> tuple[str, ...]:
        return _files(self.package) if self.package else ()

    def _points(self) -> Mapping[str, EntryPoint]:
        return _points(self.group, tuple(sys.path))


def while_known(*registries: Registry) -> Callable[[Callable[[], T]], Callable[[], T]]:
    """Makes a function remember its result for as long as no plug-in of these kinds comes or goes."""

    def decorated(make: Callable[[], T]) -> Callable[[], T]:
        made: Callable[..., T] = lru_cache(maxsize=4)(lambda *stamps: make())
        return lambda: made(*(registry.stamp() for registry in registries))

    return decorated


@cache
def _points(group: str, path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """Strangers' plug-ins. Finding them reads a file of every package: once, and anew for another path."""
    return {point.name: point for point in entry_points(group=group)}


@cache
def _files(package: str) -> tuple[str, ...]:
    path = importlib.import_module(package).__path__
    names = (module.name for module in pkgutil.iter_modules(path))
    return tuple(name for name in names if not name.startswith("_") and name != PORT)


def _first_sentence(text: str | None) -> str:
    paragraph = " ".join(inspect.cleandoc(text or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[a-z0-9)`%][.!?]) (?=[A-Z`*])", paragraph, maxsplit=1)[0]
