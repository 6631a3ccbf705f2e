"""Looks at what nights need (settings, folder, decisions, transcripts, schedule, models) and what is open."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from skillopt.agents import present
from skillopt.config.files import read_dotenv
from skillopt.config.load import load
from skillopt.config.sections import RoleName
from skillopt.doctor._result import CheckResult, DoctorCheck
from skillopt.doctor._role import RoleCheck, Spent
from skillopt.errors import Fault, SkillOptError, UsageError
from skillopt.redact import Scrubber
from skillopt.transcripts import Homes, harvest
from skillopt_sleep.gather import since_of, sources_of
from skillopt_sleep.schedule import PRINTED, Schedule
from skillopt_sleep.schedulers import available, scheduler_for, system
from skillopt_sleep.settings import NightSettings, Roles, find_settings, read_settings, roles_of
from skillopt_sleep.state import NightHome

_ASK_SECONDS = 10.0


async def check_nights(
    home: Path, environ: Mapping[str, str], spent: Spent, *, calls: bool
) -> list[CheckResult]:
    """Look at everything; one trouble hides no other, and no content is shown."""
    folder = home / ".skillopt-sleep"
    homes = Homes(home=home, env=dict(environ))
    if not folder.is_dir():
        found = ", ".join(source.name for source in await asyncio.to_thread(present, homes))
        text = f"there were none so far; transcripts to learn from: {found or 'none were found'}"
        remedy = "`skillopt sleep dry-run` shows what a night would do." if found else ""
        return [CheckResult("nights", "skipped", text, remedy)]
    findings, settings = _settings(folder)
    settings = settings or NightSettings()
    state = NightHome.of(settings, home)
    homes = replace(homes, places=settings.places())

    def models() -> Awaitable[list[CheckResult]]:
        return _models(settings, folder, environ, spent, calls=calls)

    def in_thread(
        function: Callable[..., list[CheckResult]], *given: object
    ) -> Callable[[], Awaitable[list[CheckResult]]]:
        return partial(asyncio.to_thread, function, *given)

    checks = (
        DoctorCheck("folder", in_thread(_folder, state.folder), trouble="it cannot be looked at"),
        DoctorCheck(
            "decisions",
            in_thread(_decisions, state),
            trouble="they cannot be trusted, so every proposal is refused",
        ),
        DoctorCheck("transcripts", in_thread(_sources, settings, homes), trouble="they cannot be read"),
        DoctorCheck("schedule", in_thread(_schedules, home, environ), trouble="it cannot be read"),
        DoctorCheck("nights", in_thread(_open_nights, state), trouble="they cannot be read"),
        DoctorCheck("proposals", in_thread(_proposals, state), trouble="they cannot be read"),
        DoctorCheck("models", models, trouble="a night cannot use them"),
    )

    async def run(check: DoctorCheck) -> Sequence[CheckResult]:
        try:
            return await check.run()
        except (SkillOptError, OSError) as error:
            return [CheckResult(check.title, "fix", check.trouble, str(error))]

    parts = await asyncio.gather(*map(run, checks))
    return [*findings, *(finding for part in parts for finding in part)]


async def _models(
    settings: NightSettings, folder: Path, environ: Mapping[str, str], spent: Spent, *, calls: bool
) -> list[CheckResult]:
    """The same tiny call that a run's models are asked, once for each different model."""
    roles = roles_of(settings)
    if roles is None:
        remedy = "Name one: `model` in the settings, or --model of `skillopt sleep run`."
        text = "none is named in the settings; a night without one only says what it found"
        return [CheckResult("models", "note", text, remedy)]
    environ = {**read_dotenv(folder / ".env"), **environ}
    options = [f"model.{role}={name}" for role, name in _named(roles).items()]
    options += [f"{key}={value}" for key, value in settings.options.items() if key.startswith("model.")]
    resolved = load(None, flags={}, options=options, environ=environ, cwd=folder, dotenv=False)
    scrubber = Scrubber(resolved.secrets)
    first = {name: role for role, name in reversed(_named(roles).items())}
    found: list[CheckResult] = []
    for role in _named(roles):
        if role in first.values():
            results = await RoleCheck(resolved.config, role, scrubber, spent).run(calls=calls)
            found += [replace(one, name=f"{role}: {one.name}") for one in results]
    return [replace(one, text=scrubber.scrub(one.text), remedy=scrubber.scrub(one.remedy)) for one in found]


def _named(roles: Roles) -> dict[RoleName, str]:
    named: dict[RoleName, str] = {"target": roles.target, "optimizer": roles.optimizer}
    return named if roles.judge is None else {**named, "judge": roles.judge}


def _settings(folder: Path) -> tuple[list[CheckResult], NightSettings | None]:
    try:
        path = find_settings(folder)
        read = read_settings(path)
    except (UsageError, OSError) as error:
        text = "they cannot be used, and every command of `skillopt sleep` stops at them"
        return [CheckResult("settings", "fix", text, str(error))], None
    notes = [CheckResult("settings", "note", warning) for warning in read.warnings]
    text = f"{path}" if path is not None else f"the defaults: {folder} holds no config.yaml"
    return [CheckResult("settings", "fine", text), *notes], read.settings


def _folder(folder: Path) -> list[CheckResult]:
    if not folder.is_dir():
        return [CheckResult("folder", "skipped", f"{folder} is made by the first night")]
    mode = stat.S_IMODE(folder.stat().st_mode)
    if not os.access(folder, os.W_OK | os.X_OK):
        remedy = f"Give it back to yourself: chmod u+rwx {folder}"
        return [CheckResult("folder", "fix", f"{folder} cannot be written to", remedy)]
    kept = [folder / ".env", *folder.glob("projects/*"), *folder.glob("proposals/*")]
    is_open = [path for path in kept if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077]
    if sys.platform != "win32" and mode & 0o077 and is_open:
        text = f"others can look into {folder} (mode {mode:03o}), also into {is_open[0]}"
        return [CheckResult("folder", "fix", text, f"Close it: chmod 700 {folder}")]
    whose = " alone" if not mode & 0o077 else ", and what nights keep in it alone"
    return [CheckResult("folder", "fine", f"{folder} is yours{whose}")]


def _decisions(state: NightHome) -> list[CheckResult]:
    path = state.store.journal.path
    if not state.store.journal.load() and not path.exists():
        return [CheckResult("decisions", "skipped", "the file is made with the first proposal")]
    return [CheckResult("decisions", "fine", f"{path} is readable by you alone")]


def _sources(settings: NightSettings, homes: Homes) -> list[CheckResult]:
    picked = sources_of(settings, homes)
    found = harvest(picked, since_of(settings, datetime.now(timezone.utc), None))
    counts = {source.name: 0 for source in picked} | Counter(session.source for session in found.sessions)
    notes = [CheckResult("transcripts", "note", note) for note in found.notes]
    if not counts:
        remedy = "docs/sleep-sources.md says where each program keeps its own."
        return [CheckResult("transcripts", "note", "none were found", remedy), *notes]
    told = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    window = f"the last {settings.lookback_hours:g} hours" if settings.lookback_hours else "all time"
    return [CheckResult("transcripts", "fine", f"sessions of {window}: {told}", facts=counts), *notes]


def _schedules(home: Path, environ: Mapping[str, str]) -> list[CheckResult]:
    ask = system(environ, timeout=_ASK_SECONDS)
    findings: list[CheckResult] = []
    entries: list[Schedule] = []
    for kind in set(available(ask, sys.platform)) - set(PRINTED):
        try:
            entries += scheduler_for(kind, ask, home).entries()
        except (UsageError, Fault) as error:
            findings.append(CheckResult("schedule", "note", f"{kind} could not be asked", str(error)))
    for entry in entries:
        program, night = Path(entry.command[0]), f"the night of {entry.folder}"
        if not program.is_absolute() or not os.access(program, os.X_OK):
            remedy = f"In {entry.folder}: `skillopt sleep schedule`, or `skillopt sleep unschedule`."
            text = f"{night} starts {program}, which is not there"
            findings.append(CheckResult("schedule", "fix", text, remedy))
        elif not entry.folder.is_dir():
            remedy = "`skillopt sleep unschedule --all`"
            findings.append(CheckResult("schedule", "fix", f"{night} has no folder any more", remedy))
        else:
            findings.append(CheckResult("schedule", "fine", f"{entry.folder} every night at {entry.time}"))
    return findings or [CheckResult("schedule", "skipped", "no night is scheduled")]


def _open_nights(state: NightHome) -> list[CheckResult]:
    findings: list[CheckResult] = []
    for project in state.projects():
        try:
            number = state.project(project).load().open
        except UsageError as error:
            findings.append(
                CheckResult("nights", "fix", f"the state of {project} cannot be read", str(error))
            )
            continue
        if number is not None:
            remedy = "`skillopt sleep run` there goes on with it."
            findings.append(CheckResult("nights", "note", f"night {number} of {project} is open", remedy))
    return findings


def _proposals(state: NightHome) -> list[CheckResult]:
    standing = state.store.load_all()
    counts: Counter[str] = Counter(one.state for one in standing.proposals)
    waiting = [one for one in ("pending", "partly adopted", "interrupted") if counts[one]]
    told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"
    shown = "`skillopt sleep status` shows them, `skillopt sleep diff` what they would change."
    remedy = shown if waiting else ""
    findings = [CheckResult("proposals", "note" if waiting else "fine", told, remedy, dict(counts))]
    if standing.refused:
        why = next(iter(standing.refused.values()))
        findings.append(CheckResult("proposals", "note", f"{len(standing.refused)} are refused", why))
    return findings
