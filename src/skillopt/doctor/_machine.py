"""Looks at the machine: Python, extras, the sandbox and the agent programs."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from skillopt import sandbox
from skillopt.agents import driver
from skillopt.agents._survey import FoundAgent, survey
from skillopt.doctor._result import CheckResult
from skillopt.errors import ConfigError

_result = partial(CheckResult, area="machine")
OLDEST = (3, 10)
_EXTRA = re.compile(r"""^([A-Za-z0-9._-]+).*;.*extra\s*==\s*['"]([^'"]+)['"]""")


def python() -> list[CheckResult]:
    """The interpreter, and the optional parts of this package that are installed."""
    version = platform.python_version()
    facts = {"version": version, "system": platform.system()}
    interpreter = _result(name="Python", state="fine", text=f"{version} on {platform.system()}", facts=facts)
    if sys.version_info < OLDEST:
        interpreter = replace(interpreter, state="fix", remedy="Use Python 3.10 or newer.")
    return [interpreter, _extras()]


def _extras() -> CheckResult:
    extra = partial(_result, name="extras")
    try:
        required = importlib.metadata.requires("skillopt") or []
    except importlib.metadata.PackageNotFoundError:
        return extra(state="skipped", text="skillopt runs from its sources and is not installed")
    if not extras(required):
        return extra(state="skipped", text="this installation declares none")
    lacking = {
        name: [one for one in packages if not _is_installed(one)]
        for name, packages in extras(required).items()
    }
    there = [name for name, packages in lacking.items() if not packages]
    gone = {name: f"{name} ({', '.join(packages)})" for name, packages in lacking.items() if packages}
    text = f"installed: {', '.join(there) or 'none'}"
    found = extra(state="fine", text=text, facts={"installed": there, "missing": list(gone)})
    if not gone:
        return found
    remedy = "Where you need one: pip install 'skillopt[NAME]'."
    return replace(found, text=f"{text}; not installed: {', '.join(gone.values())}", remedy=remedy)


def extras(required: Iterable[str]) -> dict[str, list[str]]:
    """Each extra with its packages, from the requirements of a distribution."""
    found: dict[str, list[str]] = {}
    for match in filter(None, map(_EXTRA.match, required)):
        found.setdefault(match[2], []).append(match[1])
    return found


def sandboxed() -> list[CheckResult]:
    """Whether programs that a model wrote can be shut in."""
    sandboxing = partial(_result, name="sandbox")
    try:
        sandbox.require("bubblewrap", remedy="choose a mode of the benchmark that runs no programs")
    except ConfigError as error:
        told = "not available. Only benchmarks that run programs need it, and they refuse to run without"
        return [sandboxing(state="note", text=told, remedy=str(error), facts={"available": False})]
    return [sandboxing(state="fine", text="bubblewrap works", facts={"available": True})]


def programs(
    environ: Mapping[str, str], paths: Mapping[str, str], needed: Iterable[str]
) -> list[CheckResult]:
    """Which agent programs are there, and whether their login can be kept apart from the user's; `needed` are
    those that a role uses.
    """
    wanted = set(needed)
    return [_program(found, found.name in wanted) for found in survey(environ, paths)]


def _program(found: FoundAgent, needed: bool) -> CheckResult:
    names = ("path", "version", "isolated_by", "walled")
    facts = {name: getattr(found, name) for name in names} | {"needed": needed}
    program = partial(CheckResult, area="agents", name=found.name, facts=facts)
    if found.path is None:
        remedy = found.problem if needed else ""
        return program(state="fix" if needed else "skipped", text="not installed", remedy=remedy)
    if found.problem:
        text = f"version {found.version} cannot be driven"
        return program(state="fix" if needed else "note", text=text, remedy=found.problem)
    credentials = driver(found.name).credentials
    would = f"{' or '.join(credentials)} would do it, or a provider with a key"
    login = f"its own login cannot be isolated: {would if credentials else 'name a provider with a key'}"
    if found.isolated_by is not None:
        login = f"its login can be isolated, by {found.isolated_by}"
    wall = "" if found.walled else "; it sees the whole machine, as bubblewrap does not hold it"
    return program(state="fine", text=f"version {found.version}; {login}{wall}")


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
