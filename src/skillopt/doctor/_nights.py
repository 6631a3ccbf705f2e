"""Looks at what nights need (settings, folder, decisions, transcripts, schedule, models) and what is open."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from skillopt.agents import present
from skillopt.config.files import read_dotenv
from skillopt.config.load import load
from skillopt.config.sections import RoleName
from skillopt.doctor._result import CheckResult
from skillopt.doctor._role import RoleCheck, Spent
from skillopt.errors import Fault, SkillOptError, UsageError
from skillopt.redact import Scrubber
from skillopt.transcripts import Homes, harvest
from skillopt_sleep.gather import since_of, sources_of
from skillopt_sleep.schedule import PRINTED, Schedule
from skillopt_sleep.schedulers import available, scheduler_for, system
from skillopt_sleep.settings import NightSettings, Roles, find_settings, read_settings, roles_of
from skillopt_sleep.state import NightHome

AREA = "nights"
_result = partial(CheckResult, AREA)
_ASK_SECONDS = 10.0


@dataclass(slots=True)
class Nights:
    """The examination of one person's nights, and what its calls cost. No content is shown."""

    home: Path
    environ: Mapping[str, str]
    spent: list[Spent]

    async def examine(self, *, calls: bool) -> list[CheckResult]:
        """Look at everything; one trouble hides no other."""
        folder = self.home / ".skillopt-sleep"
        homes = Homes(home=self.home, env=dict(self.environ))
        if not folder.is_dir():
            found = ", ".join(source.name for source in await asyncio.to_thread(present, homes))
            text = f"there were none so far; transcripts to learn from: {found or 'none were found'}"
            remedy = "`skillopt sleep dry-run` shows what a night would do." if found else ""
            return [_result("nights", "skipped", text, remedy)]
        findings, settings = _settings(folder)
        settings = settings or NightSettings()
        state = NightHome.of(settings, self.home)
        homes = replace(homes, places=settings.places())
        parts = await asyncio.gather(
            asyncio.to_thread(_folder, state.folder),
            asyncio.to_thread(_decisions, state),
            asyncio.to_thread(_sources, settings, homes),
            asyncio.to_thread(_schedules, self.home, self.environ),
            asyncio.to_thread(_standing, state),
            self._models(settings, folder, calls=calls),
        )
        return [*findings, *(finding for part in parts for finding in part)]

    async def _models(self, settings: NightSettings, folder: Path, *, calls: bool) -> list[CheckResult]:
        """The same tiny call that a run's models are asked, once for each different model."""
        try:
            roles = roles_of(settings)
            if roles is None:
                remedy = "Name one: `model` in the settings, or --model of `skillopt sleep run`."
                text = "none is named in the settings; a night without one only says what it found"
                return [_result("models", "note", text, remedy)]
            environ = {**read_dotenv(folder / ".env"), **self.environ}
            options = [f"model.{role}={name}" for role, name in _named(roles).items()]
            options += [
                f"{key}={value}" for key, value in settings.options.items() if key.startswith("model.")
            ]
            resolved = load(None, flags={}, options=options, environ=environ, cwd=folder, dotenv=False)
        except (SkillOptError, OSError) as error:
            return [_result("models", "fix", "a night cannot use them", str(error))]
        trials: dict[str, tuple[RoleName, RoleCheck]] = {}
        for role, name in _named(roles).items():
            trials.setdefault(name, (role, RoleCheck(resolved.config, role, Scrubber(resolved.secrets))))

        found: list[CheckResult] = []
        for role, trial in trials.values():
            try:
                await trial.run(calls=calls)
            finally:
                self.spent.append(trial.spent)
            found += [replace(one, area=AREA, name=f"{role}: {one.name}") for one in trial.findings]
        scrub = Scrubber(resolved.secrets).scrub
        return [replace(one, text=scrub(one.text), remedy=scrub(one.remedy)) for one in found]


def _named(roles: Roles) -> dict[RoleName, str]:
    named: dict[RoleName, str] = {"target": roles.target, "optimizer": roles.optimizer}
    return named if roles.judge is None else {**named, "judge": roles.judge}


def _settings(folder: Path) -> tuple[list[CheckResult], NightSettings | None]:
    try:
        path = find_settings(folder)
        read = read_settings(path)
    except (UsageError, OSError) as error:
        text = "they cannot be used, and every command of `skillopt sleep` stops at them"
        return [_result("settings", "fix", text, str(error))], None
    notes = [_result("settings", "note", warning) for warning in read.warnings]
    text = f"{path}" if path is not None else f"the defaults: {folder} holds no config.yaml"
    return [_result("settings", "fine", text), *notes], read.settings


def _folder(folder: Path) -> list[CheckResult]:
    if not folder.is_dir():
        return [_result("folder", "skipped", f"{folder} is made by the first night")]
    mode = stat.S_IMODE(folder.stat().st_mode)
    if not os.access(folder, os.W_OK | os.X_OK):
        remedy = f"Give it back to yourself: chmod u+rwx {folder}"
        return [_result("folder", "fix", f"{folder} cannot be written to", remedy)]
    kept = [folder / ".env", *folder.glob("projects/*"), *folder.glob("proposals/*")]
    is_open = [path for path in kept if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077]
    if sys.platform != "win32" and mode & 0o077 and is_open:
        text = f"others can look into {folder} (mode {mode:03o}), also into {is_open[0]}"
        return [_result("folder", "fix", text, f"Close it: chmod 700 {folder}")]
    whose = " alone" if not mode & 0o077 else ", and what nights keep in it alone"
    return [_result("folder", "fine", f"{folder} is yours{whose}")]


def _decisions(state: NightHome) -> list[CheckResult]:
    path = state.store.journal.path
    try:
        if not state.store.journal.load() and not path.exists():
            return [_result("decisions", "skipped", "the file is made with the first proposal")]
    except UsageError as error:
        said = "they cannot be trusted, so every proposal is refused"
        return [_result("decisions", "fix", said, str(error))]
    return [_result("decisions", "fine", f"{path} is readable by you alone")]


def _sources(settings: NightSettings, homes: Homes) -> list[CheckResult]:
    try:
        picked = sources_of(settings, homes)
        found = harvest(picked, since_of(settings, datetime.now(timezone.utc), None))
    except (SkillOptError, OSError) as error:
        return [_result("transcripts", "fix", "they cannot be read", str(error))]
    counts = {source.name: 0 for source in picked} | Counter(session.source for session in found.sessions)
    notes = [_result("transcripts", "note", note) for note in found.notes]
    if not counts:
        remedy = "docs/sleep-sources.md says where each program keeps its own."
        return [_result("transcripts", "note", "none were found", remedy), *notes]
    told = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    window = f"the last {settings.lookback_hours:g} hours" if settings.lookback_hours else "all time"
    return [_result("transcripts", "fine", f"sessions of {window}: {told}", facts=counts), *notes]


def _schedules(home: Path, environ: Mapping[str, str]) -> list[CheckResult]:
    ask = system(environ, timeout=_ASK_SECONDS)
    findings: list[CheckResult] = []
    entries: list[Schedule] = []
    for kind in set(available(ask, sys.platform)) - set(PRINTED):
        try:
            entries += scheduler_for(kind, ask, home).entries()
        except (UsageError, Fault) as error:
            findings.append(_result("schedule", "note", f"{kind} could not be asked", str(error)))
    for entry in entries:
        program, night = Path(entry.command[0]), f"the night of {entry.folder}"
        if not program.is_absolute() or not os.access(program, os.X_OK):
            remedy = f"In {entry.folder}: `skillopt sleep schedule`, or `skillopt sleep unschedule`."
            text = f"{night} starts {program}, which is not there"
            findings.append(_result("schedule", "fix", text, remedy))
        elif not entry.folder.is_dir():
            remedy = "`skillopt sleep unschedule --all`"
            findings.append(_result("schedule", "fix", f"{night} has no folder any more", remedy))
        else:
            findings.append(_result("schedule", "fine", f"{entry.folder} every night at {entry.time}"))
    return findings or [_result("schedule", "skipped", "no night is scheduled")]


def _standing(state: NightHome) -> list[CheckResult]:
    findings: list[CheckResult] = []
    for project in state.projects():
        try:
            number = state.project(project).load().open
        except UsageError as error:
            findings.append(_result("nights", "fix", f"the state of {project} cannot be read", str(error)))
            continue
        if number is not None:
            remedy = "`skillopt sleep run` there goes on with it."
            findings.append(_result("nights", "note", f"night {number} of {project} is open", remedy))
    try:
        standing = state.store.load_all()
    except (UsageError, OSError) as error:
        return [*findings, _result("proposals", "fix", "they cannot be read", str(error))]
    counts: Counter[str] = Counter(one.state for one in standing.proposals)
    waiting = [state for state in ("pending", "partly adopted", "interrupted") if counts[state]]
    told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"
    shown = "`skillopt sleep status` shows them, `skillopt sleep diff` what they would change."
    remedy = shown if waiting else ""
    findings.append(_result("proposals", "note" if waiting else "fine", told, remedy, facts=dict(counts)))
    if standing.refused:
        why = next(iter(standing.refused.values()))
        findings.append(_result("proposals", "note", f"{len(standing.refused)} are refused", why))
    return findings
