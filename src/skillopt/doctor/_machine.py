"""Looks at the machine: Python, extras, the sandbox and the agent programs."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from functools import partial

from skillopt.agents import driven, driver
from skillopt.doctor._result import CheckResult
from skillopt.errors import ConfigError, Fault
from skillopt.process import sandbox
from skillopt.programs.port import AgentDriver
from skillopt.programs.run import check_flags, fresh_place, installed, wall

OLDEST = (3, 10)
_EXTRA = re.compile(r"""^([A-Za-z0-9._-]+).*;.*extra\s*==\s*['"]([^'"]+)['"]""")


def check_python() -> list[CheckResult]:
    """The interpreter, and the optional parts of this package that are installed."""
    version = platform.python_version()
    facts = {"version": version, "system": platform.system()}
    is_old = sys.version_info < OLDEST
    remedy = "Use Python 3.10 or newer." if is_old else ""
    text = f"{version} on {platform.system()}"
    return [CheckResult("Python", "fix" if is_old else "fine", text, remedy, facts), _extras()]


def _extras() -> CheckResult:
    try:
        declared = extras(importlib.metadata.requires("skillopt-trainer") or [])
    except importlib.metadata.PackageNotFoundError:
        return CheckResult("extras", "skipped", "skillopt runs from its sources and is not installed")
    if not declared:
        return CheckResult("extras", "skipped", "this installation declares none")
    lacking = {name: [one for one in needed if not _is_installed(one)] for name, needed in declared.items()}
    there = [name for name, packages in lacking.items() if not packages]
    gone = {name: f"{name} ({', '.join(packages)})" for name, packages in lacking.items() if packages}
    text, remedy = f"installed: {', '.join(there) or 'none'}", ""
    if gone:
        text += f"; not installed: {', '.join(gone.values())}"
        remedy = "Where you need one: pip install 'skillopt-trainer[NAME]'."
    return CheckResult("extras", "fine", text, remedy, {"installed": there, "missing": list(gone)})


def extras(required: Iterable[str]) -> dict[str, list[str]]:
    """Each extra with its packages, from the requirements of a distribution."""
    found: dict[str, list[str]] = {}
    for match in filter(None, map(_EXTRA.match, required)):
        found.setdefault(match[2], []).append(match[1])
    return found


def check_sandbox() -> list[CheckResult]:
    """Whether programs that a model wrote can be shut in."""
    try:
        sandbox.require("bubblewrap", remedy="choose a mode of the benchmark that runs no programs")
    except ConfigError as error:
        text = "not available. Only benchmarks that run programs need it, and they refuse to run without"
        return [CheckResult("sandbox", "note", text, str(error), {"available": False})]
    return [CheckResult("sandbox", "fine", "bubblewrap works", facts={"available": True})]


def check_programs(
    environ: Mapping[str, str], paths: Mapping[str, str], needed: Collection[str]
) -> list[CheckResult]:
    """Which agent programs are there, and whether their login can be kept apart from the user's; `needed` are
    those that a role uses. Starts each installed one for its version and its help.
    """
    return [_program(driver(name), environ, paths.get(name), name in needed) for name in driven()]


def _program(one: AgentDriver, environ: Mapping[str, str], path: str | None, needed: bool) -> CheckResult:
    isolated_by = next((name for name in one.credentials if environ.get(name)), None)
    facts = {"path": None, "version": None, "isolated_by": isolated_by, "walled": False, "needed": needed}
    program = partial(CheckResult, one.name, facts=facts)
    try:
        cli = installed(one, {"path": path})
    except (ConfigError, Fault) as error:
        remedy = str(error) if needed else ""
        return program(state="fix" if needed else "skipped", text="not installed", remedy=remedy)
    with fresh_place() as place:
        walled = bool(wall(cli.path, place))
    facts |= {"path": str(cli.path), "version": cli.version, "walled": walled}
    try:
        check_flags(one, cli)
    except Fault as fault:
        text = f"version {cli.version} cannot be driven"
        return program(state="fix" if needed else "note", text=text, remedy=fault.detail)
    would = f"{' or '.join(one.credentials)} would do it, or a provider with a key"
    login = f"its own login cannot be isolated: {would if one.credentials else 'name a provider with a key'}"
    if isolated_by is not None:
        login = f"its login can be isolated, by {isolated_by}"
    behind = "" if walled else "; it sees the whole machine, as bubblewrap does not hold it"
    return program(state="fine", text=f"version {cli.version}; {login}{behind}")


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
