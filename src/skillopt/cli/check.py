"""`skillopt check`: measure a changed skill against its version in git: better, worse, or cannot tell."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import typer

from skillopt.cli import EXIT_CODES, _run
from skillopt.cli._console import coloured, open_console, print_json
from skillopt.cli._flags import Given, flagged
from skillopt.cli._options import Json, Plain, Quiet, argument, option
from skillopt.cli._progress import View
from skillopt.errors import BudgetSpent, ConfigError
from skillopt.evaluation.compare import Comparison, PairedRows, compare_rows
from skillopt.evaluation.significance import Significance
from skillopt.events import Row
from skillopt.files import check_writable, temporary_folder, write_text
from skillopt.redact.printable import printable
from skillopt.run import Job, Target, eval_splits, matrix, prepare
from skillopt.run.evaluation import eval_folder, skill_digest, skill_named, target_only
from skillopt.run.results import tells_grades
from skillopt.runs import words
from skillopt.skill.folder import Skill, load_skill
from skillopt.skill.in_git import CommittedSkill, skill_at
from skillopt.tasks.splits import listed

PANEL, PLACE = "Train and measure", 3
CODES = {"better": 0, "unchanged": 0, "worse": 6, "cannot tell": 7}
_KEYS = ("model.", "env.", "budget", "train.seed")
_EPILOG = f"Exit codes of check: 0 better or unchanged · 6 worse · 7 cannot tell. {EXIT_CODES}"
MARK = "<!-- skillopt check -->"
"""The first line of a comment, by which a workflow finds the one that it wrote before."""


def check(
    given: Given,
    skill: Annotated[
        str | None, argument("SKILL", "The changed skill: a folder or .md file; unset: the config's.")
    ] = None,
    tasks: Annotated[
        str | None,
        option("--tasks", "File with the tasks to measure on, as --data_path; all are measured.", "FILE"),
    ] = None,
    against: Annotated[
        str, typer.Option("--against", metavar="REF", help="Commit, branch or tag to compare with.")
    ] = "HEAD",
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, help="Draws per task; their mean counts.")
    ] = 1,
    comment: Annotated[
        Path | None, option("--comment", "Write the outcome as Markdown, for a pull request.", "FILE")
    ] = None,
    junit: Annotated[Path | None, option("--junit", "Write the outcome as JUnit XML.", "FILE")] = None,
    json: Json = False,
    quiet: Quiet = False,
    plain: Plain = False,
) -> None:
    """Measure a changed skill against its version in git, on the same tasks, and say whether it got better.

    A skill that is not in git at that commit is compared with no skill. Answers are kept in the folder of
    `eval`, and not paid again.
    """
    if tasks is None and given.config is None and not {"env", "data_path"} & given.flags.keys():
        raise ConfigError(
            "No tasks are named: --tasks FILE, or --config FILE with a configuration that does."
        )
    if tasks is not None:
        given = given.with_flag("data_path", tasks)
        given = given if given.config or "env" in given.flags else given.with_flag("env", "own")
    resolved = _run.configure(given if skill is None else given.with_flag("skill_init", skill))
    path = resolved.config.env.skill_init
    if path is None:
        raise ConfigError(
            "No skill is named: skillopt check SKILL takes a folder with SKILL.md or a .md file."
        )
    job = prepare(target_only(resolved))
    for written in filter(None, (comment, junit)):
        check_writable(written)
    with temporary_folder("skillopt-check-") as folder, _run.scrubbed(job.scrubber):
        changed = load_skill(path)
        earlier = skill_at(changed, against, folder / "earlier")
        asked = Check(
            skill=os.path.relpath(path),
            ref=against,
            earlier=earlier,
            repeats=repeats,
            simulated=job.simulated,
        )
        view = _run.choose_view(job, quiet=quiet, plain=plain)
        found = _measured(job, changed, asked, eval_folder(job, resolved), view)
        scrub = job.scrubber.scrub
        for file, text in ((comment, as_comment(found)), (junit, as_junit(found))):
            if file is not None:
                write_text(file, scrub(text))
        if json:
            print_json(job.scrubber.scrub_json(found.as_json()))
        else:
            console, said = open_console(), f"{found.verdict.capitalize()}: {found.why}"
            if found.simulated:
                console.say("Simulated.")
            console.say(scrub(said), coloured(found.significance))
            for line in _lines(found):
                console.say(scrub(line))
    raise typer.Exit(CODES[found.verdict])


add = flagged(check, _KEYS, short=("target",), epilog=_EPILOG, config_argument=False)


def _measured(job: Job, skill: Skill, check: Check, folder: Path, view: View) -> Check:
    """Both versions on all tasks, with every target; equal ones are not measured."""
    before = check.earlier.skill or skill_named("none")
    targets = list(job.targets) or [Target.of(job.config)]
    if all(skill_digest(one, skill) == skill_digest(one, before) for one in targets):
        return check
    sizes: Any = {"targets": targets, "against": check.ref, "repeats": check.repeats, "sinks": [view]}
    versions, splits = {check.ref: before, "changed": skill}, eval_splits("all", job)
    measured = _run.measured(matrix(job, versions, splits, folder, in_pairs=True, **sizes), folder, view)
    rows: dict[str, list[Row]] = {name: [] for name in versions}
    for one in (*measured.evaluations, *measured.missing):
        rows[one.skill] += one.rows
    old, new = rows.values()
    tasks = sum(len(job.splits.of(split)) for split in splits)
    if measured.stopped is not None:  # the verdict is about the tasks that were measured in full
        draws = Counter(row.task for row in (*old, *new))
        paired = {task for task, count in draws.items() if count == 2 * check.repeats * len(targets)}
        if not paired or not isinstance(measured.stopped, BudgetSpent):
            raise measured.stopped
        old, new = ([row for row in arm if row.task in paired] for arm in (old, new))
        check = replace(check, cut_short=f"{len(paired)} of {tasks} tasks")
    metric = "soft" if tells_grades(job.benchmark.graded, (*old, *new)) else "hard"
    found = compare_rows(old, new, attrgetter(metric), split="given")
    return replace(check, found=found, metric=metric, folder=folder)


def _lines(check: Check) -> Iterator[str]:
    compared = check.comparison
    if compared is None:
        return
    yield f"  {words.proof(compared)}"
    for word, tasks in (("fixed", compared.fixed), ("broken", compared.broken)):
        yield f"  {len(tasks)} {word}{': ' if tasks else ''}{listed(tasks)}"
    if check.left_out:
        yield f"  {len(check.left_out)} left out, not measurable: {listed(check.left_out)}"
    if check.budget_note:
        yield f"  {check.budget_note}"
    if check.verdict == "cannot tell":
        yield "  The difference can be chance. More tasks, or --repeats, make the interval narrower."
    assert check.folder is not None, "it was measured"
    yield f"Rows: {check.folder / 'results.jsonl'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A changed skill against its earlier version. `found` is None where both read the same."""

    skill: str
    ref: str
    earlier: CommittedSkill
    simulated: bool
    repeats: int
    found: PairedRows | None = None
    metric: str = "hard"
    cut_short: str = ""
    """How many of how many tasks were measured, where the budget ended first."""
    folder: Path | None = None

    @property
    def comparison(self) -> Comparison | None:
        return None if self.found is None else self.found.comparison

    @property
    def left_out(self) -> Sequence[str]:
        return () if self.found is None else self.found.left_out

    @property
    def verdict(self) -> str:
        """One of better, worse, cannot tell and unchanged."""
        if self.found is None:
            return "unchanged"
        return "cannot tell" if self.comparison is None else self.comparison.direction

    @property
    def significance(self) -> Significance:
        """The verdict of the comparison; without a comparison it is `not proven yet`."""
        return "not proven yet" if self.comparison is None else self.comparison.significance

    @property
    def against(self) -> str:
        """What it is compared with."""
        at = f"{self.ref} ({self.earlier.commit[:7]})"
        if self.earlier.skill is None:
            return f"no skill, as {self.earlier.path} is not in git at {at}"
        return f"{self.earlier.path} at {at}" + (", where it was called so" if self.earlier.renamed else "")

    @property
    def why(self) -> str:
        """The verdict in a sentence."""
        if self.found is None:
            return f"{self.skill} reads the same as {self.against}; nothing was measured."
        one, draws = self.comparison, f", {self.repeats} draws each" if self.repeats > 1 else ""
        if one is None:
            return f"{self.skill} against {self.against}: {self.found.why}."
        return (
            f"{self.skill} against {self.against}: {one.before:.3f} to {one.after:.3f}, {one.delta:+.3f}"
            f" ({self.metric}, {words.count(one.n, 'task')}{draws})"
        )

    @property
    def budget_note(self) -> str:
        """What a budget that ended first means for the verdict."""
        if not self.cut_short:
            return ""
        return f"The budget ended after {self.cut_short}: the verdict is about these. More budget goes on."

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        was = self.earlier
        return {
            "verdict": self.verdict,
            "significance": self.significance,
            "why": self.why,
            "simulated": self.simulated,
            "skill": self.skill,
            "against": {
                "ref": self.ref,
                "commit": was.commit,
                "path": None if was.skill is None else was.path,
                "renamed": was.renamed,
            },
            "metric": self.metric,
            "repeats": self.repeats,
            "cut_short": self.cut_short,
            "comparison": None if self.comparison is None else asdict(self.comparison),
            "left_out": list(self.left_out),
            "folder": None if self.folder is None else str(self.folder),
        }


def as_comment(check: Check) -> str:
    """Markdown for a pull request."""
    head = "Simulated: " if check.simulated else ""
    lines = [MARK, f"### {head}skill check: {check.verdict}", "", _plain(check.why)]
    one = check.comparison
    if one is not None:
        lines += [
            "",
            f"| tasks | before | after | change | {one.level} % interval | p | real, or chance? |",
            "|---|---|---|---|---|---|---|",
            f"| {one.n} | {one.before:.3f} | {one.after:.3f} | {one.delta:+.3f} |"
            f" {one.interval[0]:+.3f} to {one.interval[1]:+.3f} | {one.p:.2g} ({one.test}) |"
            f" {one.significance} |",
        ]
        if check.budget_note:
            lines += ["", check.budget_note]
        if check.verdict == "cannot tell":
            lines += [
                "",
                "The difference can be chance. More tasks, or `--repeats`, make the interval narrower.",
            ]
        for word, tasks in (("broken", one.broken), ("fixed", one.fixed), ("left out", check.left_out)):
            if tasks:
                lines += ["", f"{len(tasks)} {word}: {listed([_plain(f'`{task}`') for task in tasks])}"]
    return "\n".join(lines) + "\n"


def as_junit(check: Check) -> str:
    """JUnit XML: a case for the verdict, which fails where the skill got worse, and a case for each task. A
    broken task fails only then too: by itself it can be chance.
    """
    cases = list(_cases(check))
    about = {"name": f"skillopt check {printable(check.skill)}", "tests": str(len(cases)), "errors": "0"}
    for name, tag in (("failures", "failure"), ("skipped", "skipped")):
        about[name] = str(sum(case.find(tag) is not None for case in cases))
    suite = ElementTree.Element("testsuite", about)
    suite.extend(cases)
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _cases(check: Check) -> Iterator[ElementTree.Element]:
    is_worse = check.verdict == "worse"
    verdict = _case("verdict", "failure" if is_worse else "skipped" if check.verdict == "cannot tell" else "")
    for part in verdict:
        part.set("message", printable(check.why))
    ElementTree.SubElement(verdict, "system-out").text = printable(check.why)
    yield verdict
    one = check.comparison
    for task in one.broken if one else ():
        yield _case(
            task, "failure" if is_worse else "", "broken" if is_worse else "broken, which can be chance"
        )
    for task in one.fixed if one else ():
        yield _case(task, "", "fixed")
    for task in check.left_out:
        yield _case(task, "skipped", "could not be measured")


def _case(name: str, outcome: str, said: str = "") -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname="skillopt.check", name=printable(name))
    if outcome:
        ElementTree.SubElement(case, outcome, message=said)
    elif said:
        ElementTree.SubElement(case, "system-out").text = said
    return case


def _plain(text: str) -> str:
    """On one line, and no markup of a page."""
    return printable(" ".join(text.split())).replace("<", "&lt;").replace("|", "\\|")
