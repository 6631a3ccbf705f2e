"""The outcome of `skillopt check` as a value, and as the files that a pull request and a CI system read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from skillopt.evaluation.compare import Comparison, PairedRows
from skillopt.printable import printable
from skillopt.runs import words
from skillopt.skill.in_git import CommittedSkill
from skillopt.tasks.splits import listed

MARK = "<!-- skillopt check -->"
"""The first line of a comment, by which a workflow finds the one that it wrote before."""


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
    def told_short(self) -> str:
        """What a budget that ended first means for the verdict."""
        if not self.cut_short:
            return ""
        return f"The budget ended after {self.cut_short}: the verdict is about these. More budget goes on."

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        was = self.earlier
        return {
            "verdict": self.verdict,
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
            f"| tasks | before | after | change | {one.level} % interval | p |",
            "|---|---|---|---|---|---|",
            f"| {one.n} | {one.before:.3f} | {one.after:.3f} | {one.delta:+.3f} |"
            f" {one.interval[0]:+.3f} to {one.interval[1]:+.3f} | {one.p:.2g} ({one.test}) |",
        ]
        if check.told_short:
            lines += ["", check.told_short]
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
