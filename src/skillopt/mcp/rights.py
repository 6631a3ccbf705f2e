"""What a call may name: the folder it works in, files of the project, hosts of this machine, no programs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ValidationError

from skillopt.benchmarks import benchmarks
from skillopt.config.fields import FILE_OR_TEXT_KEYS, Leaf, file_in
from skillopt.config.keys import declared, leaf_of
from skillopt.config.layers import ConfigEntry, option_layer
from skillopt.config.roles import parse_model_string
from skillopt.config.sections import RoleName
from skillopt.config.service import is_loopback
from skillopt.errors import ConfigError, UsageError

PACKAGE = Path(os.path.realpath(__file__)).parents[1]


class Denied(UsageError):
    """A call asks for what is not a model's to decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPlace:
    """Where a call works: a project, and the folders it stays inside of (None: anywhere)."""

    project: Path
    borders: tuple[Path, ...] | None

    def confine(self, path: str) -> None:
        """Raise where a path, as it stands in an argument, leads out of the borders; links are followed."""
        if self.borders is None:
            return
        real = _real(self.project, path)
        if not any(real.is_relative_to(border) for border in self.borders):
            where = (
                ", ".join(map(str, self.borders))
                or "none: neither --project nor a root of the client names one"
            )
            raise Denied(
                f"{path} lies outside the folders this server works in ({where}). Only the person can widen"
                " them: skillopt mcp --project DIR, or --allow outside."
            )


def find_place(
    named: str | None, roots: Sequence[Path], default: Path, *, anywhere: bool = False
) -> ProjectPlace:
    """The named project, else the client's first root, else where the server was started; raises where that
    is no project.

    A named one lies inside the roots, or where there are none, inside the server's own folder.
    """
    folders = [Path(os.path.realpath(folder)) for folder in roots or (default,)]
    # A client may well call its whole machine a root; a server that is merely started there was not told
    # where to work.
    borders = None if anywhere else tuple(folder for folder in folders if roots or not _is_no_project(folder))
    project = folders[0] if named is None else _real(folders[0], named)
    if _is_no_project(project):
        raise UsageError(
            f"{project} is no project. Start the server in one, or name it: skillopt mcp --project DIR."
        )
    place = ProjectPlace(project=project, borders=borders)
    place.confine(str(project))
    if not os.path.isdir(project):  # noqa: PTH112 - false, where Path.is_dir raises, for a name too long to be one
        raise UsageError(f"There is no folder {project}. Name the project's folder: the argument `project`.")
    return place


def paths_of(uris: Iterable[str]) -> list[Path]:
    """The folders of this machine among the roots a client gave."""
    found = []
    for uri in uris:
        parts = urlsplit(uri)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            continue
        text = unquote(parts.path)
        if sys.platform == "win32":
            text = text.lstrip("/")
        path = Path(os.path.realpath(text))
        if path.is_dir():
            found.append(path)
    return found


def _is_no_project(folder: Path) -> bool:
    return folder == Path(folder.anchor) or folder.is_relative_to(PACKAGE)


def _real(folder: Path, path: str) -> Path:
    expanded = os.path.expanduser(path)  # noqa: PTH111 - leaves a user who does not exist as written, where Path.expanduser raises
    return Path(os.path.realpath(folder / expanded))


OUTSIDE, HOSTS, PROGRAMS = "outside", "hosts", "programs"
RIGHTS: Mapping[str, str] = {
    OUTSIDE: "name projects and files outside the folders the server works in",
    HOSTS: "send to endpoints that are not on this machine and not yet configured, and set credentials",
    PROGRAMS: "name what is started: a scorer of its own, an agent's program and how it is shut in",
}
"""What `--allow` takes beside the switches of tools, and what a model may do then."""
PATHS = frozenset(
    {"config", "skill", "against", "run", "folders", "a", "b", "tasks_file", "target_skill_path", "proposal"}
    | {"data_path", "split_dir", "skill_init", "out_root"}
)
MODELS = frozenset({"model", "target", "optimizer", "optimizer_model", "target_model", "backend"})
PLAIN = frozenset({"since", "source", "preferences", "scheduler", "env", "budget", "split", "step"})
"""Arguments that hold a path, a model, and a text that names nothing outside of us."""
OPTIONS = "cfg_options"
_SECTIONS = tuple(f"model.{role}." for role in get_args(RoleName))
_MODEL_NAMES = frozenset({"name", "model.backend", "model.optimizer_backend", "model.target_backend"})
_ENDPOINTS = frozenset({"base_url", "tracking.mlflow.uri", "tracking.otel.endpoint"})
_LOGINS = frozenset(
    {"api_key", "options.auth_mode", "options.api_version", "options.ad_scope"}
    | {"options.managed_identity_client_id"}
)
_HARMLESS = frozenset(
    {"agent.activation", "gate.policy", "tracking.use", "tracking.project"}
    | {
        "env.name",
        "env.split_ratio",
        "env.split_field",
        "env.id_field",
        "env.reference_field",
        "env.kind_field",
    }
)
"""Keys of the configuration that hold text and start, send and open nothing."""
_SCORER, _SANDBOX, _SHUT_IN = "env.scorer", "env.sandbox", "bubblewrap"
_PROPOSER = "model.proposer.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What one call may name. What it does not name (config files, the environment) is the person's."""

    place: ProjectPlace
    allow: Collection[str]

    def check(self, given: Mapping[str, Any]) -> None:
        """Raise where an argument names what only a person may."""
        for name, value in given.items():
            for text in value if isinstance(value, list) else [value]:
                if name in PATHS:
                    self.place.confine(text)
                elif name in MODELS:
                    self._model(name, text)
                elif name == OPTIONS:
                    for entry, leaf in _readings(text):
                        self._setting(entry, leaf)

    def _setting(self, entry: ConfigEntry, leaf: Leaf) -> None:
        """One setting. What is not known to be harmless counts as a program, so a new key is closed."""
        part, value = _part(entry.key), entry.value
        if value is None or part in _HARMLESS:
            return
        if part in _MODEL_NAMES:
            self._model(entry.written, str(value))
            if entry.key == _PROPOSER:
                self._need(PROGRAMS, f"{entry.written} names an agent that works by itself")
        elif part in _ENDPOINTS:
            self._host(entry.written, str(value))
        elif part in _LOGINS:
            self._need(HOSTS, f"{entry.written} is a matter of credentials")
        elif part.startswith("agent."):
            self._need(PROGRAMS, f"{entry.written} says which program is started, and what it may do")
        elif leaf.path:
            for path in value if isinstance(value, list) else [value]:
                self.place.confine(str(path))
        elif entry.key == _SCORER:
            if not isinstance(value, str) or ":" in value:
                self._need(PROGRAMS, f"{entry.written} names a program")
        elif entry.key in FILE_OR_TEXT_KEYS:
            self.place.confine(file_in(entry.key, str(value))[0])
        elif (entry.key == _SANDBOX and value != _SHUT_IN) or not (leaf.choices or leaf.is_figure):
            self._need(PROGRAMS, f"{entry.written} may decide what is started, and how it is shut in")

    def _model(self, name: str, text: str) -> None:
        try:
            parts = parse_model_string(text, "target")
        except ConfigError:
            # As a model it means nothing, and the command says so; as a part of one it might still bring its
            # endpoint along.
            if "://" in text:
                self._host(name, text)
            return
        if parts.is_own_agent:
            if parts.harness == "service":
                self._host(name, parts.name)
            else:
                self._need(PROGRAMS, f"{name} names a program")
        if parts.base_url is not None:
            self._host(name, parts.base_url)
        if parts.provider == "local" or parts.name.endswith(".gguf"):
            self.place.confine(parts.name)

    def _host(self, name: str, url: str) -> None:
        try:
            is_here = is_loopback(url)
        except ValueError:  # no address at all
            is_here = False
        if not is_here:
            self._need(HOSTS, f"{name} names an endpoint that is not on this machine")

    def _need(self, right: str, why: str) -> None:
        if right not in self.allow:
            raise Denied(
                f"{why}. Only the person can decide that: in a config file of the project, or by skillopt mcp"
                f" --allow {right}."
            )


def _readings(option: str) -> Iterator[tuple[ConfigEntry, Leaf]]:
    """Everything that `key=value` can mean under every benchmark: the config that names one is not read yet.

    A key that no benchmark has is no key; the command says so.
    """
    for settings in (None, *_settings()):
        for entry in option_layer([option], settings, []).values():
            leaf = leaf_of(entry.key, settings)
            if leaf is not None:
                with contextlib.suppress(ValidationError, ConfigError):
                    entry = replace(entry, value=leaf.read(entry.value, is_text=True))
                yield entry, leaf


@cache
def _settings() -> tuple[type[BaseModel], ...]:
    found = []
    for name in benchmarks.names():
        try:
            found.append(benchmarks.get(name).Settings)
        except Exception:  # noqa: BLE001 - a stranger's package fails in any way; the command cannot load it either
            continue
    return tuple(found)


def _part(key: str) -> str:
    """The part of a role's settings that a key fills, whatever it is called; any other key as it is."""
    if key in declared().keys:
        return declared().keys[key].fills
    return next((key.removeprefix(section) for section in _SECTIONS if key.startswith(section)), key)
