"""Tells which agent CLIs are installed here and what each can do, for a check of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from skillopt.agents import driven, driver
from skillopt.agents._binary import check_flags, installed
from skillopt.agents._place import fresh_place
from skillopt.agents._wall import wall
from skillopt.agents.port import AgentDriver
from skillopt.errors import ConfigError, Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAgent:
    """One agent CLI on this machine. `problem` says why it cannot be used; empty when it can."""

    name: str
    path: str | None = None
    version: str | None = None
    isolated_by: str | None
    """The variable whose credential lets a rollout have a home of its own; None where none is set, and only a
    provider's key can.
    """
    walled: bool = False
    """Whether the rest of the machine is kept out of its sight."""
    problem: str = ""


def survey(environ: Mapping[str, str], paths: Mapping[str, str] | None = None) -> list[FoundAgent]:
    """Every agent CLI with what a check of the machine says about it. Starts each installed one for its
    version and its help.
    """
    return [_found(driver(name), environ, (paths or {}).get(name)) for name in driven()]


def _found(one: AgentDriver, environ: Mapping[str, str], path: str | None) -> FoundAgent:
    found = FoundAgent(
        name=one.name, isolated_by=next((name for name in one.credentials if environ.get(name)), None)
    )
    try:
        cli = installed(one, {"path": path})
        with fresh_place() as place:
            walled = bool(wall(cli.path, place))
        found = replace(found, path=str(cli.path), version=cli.version, walled=walled)
        check_flags(one, cli)
    except ConfigError as error:
        return replace(found, problem=str(error))
    except Fault as fault:
        return replace(found, problem=fault.detail)
    return found
