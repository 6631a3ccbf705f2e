"""Runs all checks side by side; one that fails hides no other, and no credential is in what they say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from skillopt.agents import driven
from skillopt.benchmarks import benchmarks
from skillopt.config.keys import declared
from skillopt.config.load import Resolved
from skillopt.config.roles import parse_model_string
from skillopt.config.schema import Config
from skillopt.config.sections import RARE_ROLES, ROLES, RoleName
from skillopt.doctor import _machine
from skillopt.doctor._nights import check_nights
from skillopt.doctor._result import CheckResult, DoctorCheck
from skillopt.doctor._role import RoleCheck, Spent
from skillopt.errors import SkillOptError
from skillopt.evaluation.first_answers import scorer_trouble
from skillopt.redact import Scrubber, redact_patterns
from skillopt.run.preparation import divide
from skillopt.skill.document import Document
from skillopt.skill.folder import load_skill
from skillopt.tasks.benchmark import Benchmark, as_benchmark
from skillopt.tasks.splits import format_bad_rows
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
    resolved, spent = subject.resolved, Spent()
    scrubber = Scrubber(resolved.secrets if resolved is not None else ())
    if resolved is None:
        found = [CheckResult("config", "fix", subject.problem, area="configuration")]
    else:
        found = [CheckResult("warning", "note", text, area="configuration") for text in resolved.warnings]

    async def run(check: DoctorCheck) -> None:
        news(check.title, None)
        try:
            findings = await check.run()
        except Exception as error:  # noqa: BLE001 - whatever breaks one check, the others must be told
            broken = f"the check itself failed: {type(error).__name__}: {error}"
            remedy = "Please report this, it is a fault of ours."
            findings = [CheckResult(check.title, "fix", broken, remedy)]
        found.extend(replace(finding, area=check.area) for finding in findings)
        news(check.title, findings)

    await asyncio.gather(*map(run, _checks(subject, scrubber, spent, calls=calls)))
    return Examination(
        findings=tuple(_clean(one, scrubber) for one in sorted(found, key=_place)),
        calls=spent.calls,
        tokens=spent.tokens,
        usd=None if spent.usd is None else float(spent.usd),
    )


def _checks(subject: Subject, scrubber: Scrubber, spent: Spent, *, calls: bool) -> Iterator[DoctorCheck]:
    """The table of checks."""
    resolved, home, environ = subject.resolved, subject.home, subject.environ
    yield DoctorCheck("Python and extras", partial(asyncio.to_thread, _machine.check_python), "machine")
    yield DoctorCheck("sandbox", partial(asyncio.to_thread, _machine.check_sandbox), "machine")
    programs = partial(_machine.check_programs, environ, *_agents(resolved))
    yield DoctorCheck("agent programs", partial(asyncio.to_thread, programs), "agents")
    if home is not None:
        yield DoctorCheck("nights", lambda: check_nights(home, environ, spent, calls=calls), "nights")
    if resolved is None:
        return
    config = resolved.config
    data = asyncio.ensure_future(asyncio.to_thread(load_data, resolved, scrubber))

    async def check_data() -> Sequence[CheckResult]:
        return (await asyncio.shield(data)).findings

    async def needs_of(role: RoleName) -> Sequence[str]:
        if role != "target":
            return [] if role == "proposer" else ["structured output"]
        harness = parse_model_string(config.model.target.name, "target").harness
        has_images = (await asyncio.shield(data)).has_images
        return ["tools"] * (harness == "tool_loop") + ["vision"] * has_images

    yield DoctorCheck("data", check_data, "data")
    for role in _roles(config):
        trial = RoleCheck(config, role, scrubber, spent)
        yield DoctorCheck(role, partial(trial.run, partial(needs_of, role), calls=calls), role)


def _roles(config: Config) -> list[RoleName]:
    return [*ROLES, *(role for role in RARE_ROLES if getattr(config.model, role) is not None)]


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


def _place(finding: CheckResult) -> int:
    return AREAS.index(finding.area)


def _clean(finding: CheckResult, scrubber: Scrubber) -> CheckResult:
    text, remedy = (redact_patterns(scrubber.scrub(text)) for text in (finding.text, finding.remedy))
    return replace(finding, text=text, remedy=remedy, facts=scrubber.scrub_json(dict(finding.facts)))


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
        return Loaded(findings=(CheckResult("benchmark", "note", "none is configured", remedy),))
    try:
        benchmark = as_benchmark(benchmarks.get(name)(config.env.settings))
        divided = divide(resolved, benchmark, scrubber.scrub)
    # An import: a benchmark of another package without its dependencies.
    except (SkillOptError, ImportError, OSError) as error:
        return Loaded(findings=(CheckResult(name, "fix", "its tasks do not load", str(error)),))
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
            CheckResult(name, "fine", f"{told} tasks", facts=counts),
            *([CheckResult(name, "note", divided.changed)] if divided.changed else []),
            *([CheckResult(name, "fix", "rows give no task", format_bad_rows(bad))] if bad else []),
            _skill(config, benchmark, scrubber),
            *(
                [CheckResult("scorer", "fix", trouble, "Correct the reference or env.scorer.")]
                if trouble
                else []
            ),
        ),
        has_images=any(task.images for split in SPLITS for task in splits.of(split)),
    )


def _skill(config: Config, benchmark: Benchmark, scrubber: Scrubber) -> CheckResult:
    path = config.env.skill_init
    try:
        document = Document(benchmark.seed_skill) if path is None else load_skill(path).document
    except (SkillOptError, OSError) as error:
        return CheckResult("skill", "fix", "it does not load", str(error))
    if scrubber.scrub(document.whole) != document.whole:
        return CheckResult(
            "skill", "fix", "it holds a credential", "Remove the credential from the skill's text."
        )
    where = "the benchmark's own" if path is None else os.path.normpath(path)
    return CheckResult("skill", "fine", f"{where}, {len(document.rendered):,} characters")
