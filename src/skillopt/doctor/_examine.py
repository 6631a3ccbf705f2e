"""Runs all checks side by side; one that fails hides no other, and no credential is in what they say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from skillopt.agents import driven
from skillopt.benchmarks import benchmarks
from skillopt.config.load import Resolved
from skillopt.config.roles import parse_model_string
from skillopt.config.schema import Config
from skillopt.config.sections import RARE_ROLES, ROLES, RoleName
from skillopt.config.services import declared
from skillopt.doctor import _machine
from skillopt.doctor._nights import Nights
from skillopt.doctor._result import CheckResult
from skillopt.doctor._role import Needs, RoleCheck, Spent
from skillopt.errors import SkillOptError
from skillopt.evaluation.first_answers import scorer_trouble
from skillopt.redact import Scrubber, redact_patterns
from skillopt.run.preparation import divide
from skillopt.skill.document import Document
from skillopt.skill.folder import load_skill
from skillopt.tasks.benchmark import Benchmark, as_benchmark
from skillopt.tasks.splits import told_bad_rows
from skillopt.tasks.task import SPLITS

AREAS = ("configuration", "target", "optimizer", "judge", "proposer", "data", "nights", "agents", "machine")
"""In the order they are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is examined: a configuration, or the reason why there is none, and the environment of a run."""

    resolved: Resolved | None
    environ: Mapping[str, str] = field(repr=False)
    problem: str = ""
    home: Path | None = None
    """The person's home folder, where nights keep what they know; None leaves nights out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What all checks found, and what they spent."""

    findings: tuple[CheckResult, ...]
    calls: int
    tokens: int
    usd: float | None
    """None where a price is unknown; never zero for that."""

    @property
    def is_fine(self) -> bool:
        """Whether nothing must be fixed."""
        return all(finding.state != "fix" for finding in self.findings)


News = Callable[[str, "Sequence[CheckResult] | None"], None]
"""Told the title of each check when it begins (with None) and when it has ended (with what it found)."""


async def examine(
    subject: Subject, *, calls: bool = True, news: News = lambda title, findings: None
) -> Examination:
    """Check everything; nothing is written. With `calls` each role answers a few tiny, paid questions."""
    scrubber = Scrubber(subject.resolved.secrets if subject.resolved is not None else ())
    spent: list[Spent] = []
    found: list[CheckResult] = []

    async def check(title: str, area: str, work: Callable[[], Awaitable[Sequence[CheckResult]]]) -> None:
        news(title, None)
        try:
            findings = await work()
        except Exception as error:  # noqa: BLE001 - whatever breaks one check, the others must be told
            broken = f"the check itself failed: {type(error).__name__}: {error}"
            remedy = "Please report this, it is a fault of ours."
            findings = [CheckResult(area, title, "fix", broken, remedy)]
        clean = [_clean(finding, scrubber) for finding in findings]
        found.extend(clean)
        news(title, clean)

    def programs() -> Sequence[CheckResult]:
        return _machine.programs(subject.environ, *_agents(subject.resolved))

    def machine(work: Callable[[], Sequence[CheckResult]]) -> Callable[[], Awaitable[Sequence[CheckResult]]]:
        return lambda: asyncio.to_thread(work)

    checks = [
        check("Python and extras", "machine", machine(_machine.python)),
        check("sandbox", "machine", machine(_machine.sandboxed)),
        check("agent programs", "agents", machine(programs)),
    ]
    if subject.home is not None:
        nights = Nights(home=subject.home, environ=subject.environ, spent=spent)
        checks.append(check("nights", "nights", lambda: nights.examine(calls=calls)))
    if subject.resolved is None:
        found.append(_clean(CheckResult("configuration", "config", "fix", subject.problem), scrubber))
        await asyncio.gather(*checks)
    else:
        warnings = subject.resolved.warnings
        found += [CheckResult("configuration", "warning", "note", text) for text in warnings]
        config = subject.resolved.config
        data = asyncio.ensure_future(asyncio.to_thread(load_data, subject.resolved, scrubber))

        def tried(role: RoleName) -> Callable[[], Awaitable[Sequence[CheckResult]]]:
            async def work() -> Sequence[CheckResult]:
                trial = RoleCheck(config, role, scrubber)
                try:
                    await trial.run(lambda: _needs(config, role, data), calls=calls)
                finally:
                    spent.append(trial.spent)
                return trial.findings

            return work

        async def loaded() -> Sequence[CheckResult]:
            return (await asyncio.shield(data)).findings

        checks += [check(role, role, tried(role)) for role in _roles(config)]
        await asyncio.gather(check("data", "data", loaded), *checks)
    usd = [one.usd for one in spent]
    return Examination(
        findings=tuple(sorted(found, key=lambda finding: AREAS.index(finding.area))),
        calls=sum(one.calls for one in spent),
        tokens=sum(one.tokens for one in spent),
        usd=None if any(one is None for one in usd) else float(sum(one for one in usd if one is not None)),
    )


def _roles(config: Config) -> list[RoleName]:
    return [*ROLES, *(role for role in RARE_ROLES if getattr(config.model, role) is not None)]


async def _needs(config: Config, role: RoleName, data: asyncio.Future[Loaded]) -> Needs:
    if role != "target":
        return Needs(structure=role != "proposer")
    loaded = await asyncio.shield(data)
    harness = parse_model_string(config.model.target.name, "target").harness
    return Needs(tools=harness == "tool_loop", images=loaded.has_images)


def _agents(resolved: Resolved | None) -> tuple[dict[str, str], set[str]]:
    """Where agent programs were said to be, and which of them the roles use."""
    paths: dict[str, str] = {}
    needed: set[str] = set()
    names = {each.login: harness for harness, each in declared().programs.items()}
    if resolved is None:
        return paths, needed
    for role in _roles(resolved.config):
        settings = resolved.config.role(role)
        try:
            parts = parse_model_string(settings.name, role)
        except SkillOptError:  # told where the role is tried
            continue
        used = parts.harness if parts.harness in driven() else names.get(parts.provider or "")
        if used is not None:
            needed.add(used)
            if settings.agent.path:
                paths[used] = settings.agent.path
    return paths, needed


def _clean(finding: CheckResult, scrubber: Scrubber) -> CheckResult:
    def clean(text: str) -> str:
        return redact_patterns(scrubber.scrub(text))

    return replace(
        finding,
        text=clean(finding.text),
        remedy=clean(finding.remedy),
        facts=scrubber.scrub_json(dict(finding.facts)),
    )


_result = partial(CheckResult, "data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What loading found, and what the tasks ask of the models."""

    findings: tuple[CheckResult, ...]
    has_images: bool = False


def load_data(resolved: Resolved, scrubber: Scrubber) -> Loaded:
    """Load tasks and skill as a run would; nothing is sent and nothing written."""
    config = resolved.config
    name = config.env.name
    if name is None:
        remedy = f"Name one with --env or in a config: {', '.join(benchmarks.names())}."
        return Loaded(findings=(_result("benchmark", "note", "none is configured", remedy),))
    try:
        benchmark = as_benchmark(benchmarks.get(name)(config.env.settings))
        divided = divide(resolved, benchmark, scrubber.scrub)
    # An import: a benchmark of another package without its dependencies.
    except (SkillOptError, ImportError, OSError) as error:
        return Loaded(findings=(_result(name, "fix", "its tasks do not load", str(error)),))
    splits = divided.splits
    counts: dict[str, int] = {split: len(splits.of(split)) for split in SPLITS}
    told = ", ".join(f"{count:,} {split}" for split, count in counts.items())
    if divided.folds:
        told = f"{sum(counts.values())} cross-fitted"
    bad = benchmark.bad_rows
    # Whether the scorer passes the first reference and fails nonsense; nothing where it cannot be tried.
    trouble = asyncio.run(scorer_trouble(benchmark, splits.train[0]))
    return Loaded(
        findings=(
            _result(name, "fine", f"{told} tasks", facts=counts),
            *([_result(name, "note", divided.changed)] if divided.changed else []),
            *([_result(name, "fix", "rows give no task", told_bad_rows(bad))] if bad else []),
            _skill(config, benchmark, scrubber),
            *([_result("scorer", "fix", trouble, "Correct the reference or env.scorer.")] if trouble else []),
        ),
        has_images=any(task.images for split in SPLITS for task in splits.of(split)),
    )


def _skill(config: Config, benchmark: Benchmark, scrubber: Scrubber) -> CheckResult:
    path = config.env.skill_init
    try:
        document = Document(benchmark.seed_skill) if path is None else load_skill(path).document
    except (SkillOptError, OSError) as error:
        return _result("skill", "fix", "it does not load", str(error))
    if scrubber.scrub(document.whole) != document.whole:
        return _result(
            "skill", "fix", "it holds a credential", "Remove the credential from the skill's text."
        )
    where = "the benchmark's own" if path is None else os.path.normpath(path)
    return _result("skill", "fine", f"{where}, {len(document.rendered):,} characters")
