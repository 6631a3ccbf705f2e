"""`skillopt check` in a real git repository: better, worse, cannot tell, and everything that can be amiss."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from _needs import needs_git
from cli._commands import Command, Ran

PLAIN = "---\nname: sums\ndescription: Adds numbers.\n---\n\nAdd the numbers.\n"
pytestmark = needs_git

ROWS = [{"id": f"t{n}", "prompt": f"How much is {n} + 1?", "answer": str(n + 1)} for n in range(16)]
TARGET = """
def adds(task, skill):
    number = int(task.prompt.split()[3])
    if f"never {number}" in skill or ("even only" in skill and number % 2) or "Add" not in skill:
        return "no idea"
    return str(number + 1)
"""


def git(*words: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    return subprocess.run(["git", *who, *words], check=True, capture_output=True, text=True).stdout.strip()


def commit(text: str, skill: Path = Path("skills/sums")) -> None:
    skill.mkdir(parents=True, exist_ok=True)
    (skill / "SKILL.md").write_text(text)
    git("add", ".")
    git("commit", "-qm", "skill")


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "agent.py").write_text(TARGET)
    (tmp_path / ".gitignore").write_text("outputs\n")
    git("init", "-q", "-b", "main")
    return tmp_path


@pytest.fixture
def check(skillopt: Command, repository: Path) -> Command:
    def run(skill: str = "skills/sums", *more: str) -> Ran:
        target = str(repository / "agent.py") + ":adds"
        words = ("--tasks", str(repository / "tasks.jsonl"), "--target", target, *more)
        return skillopt("check", skill, *words)

    return run


@pytest.mark.slow
def test_a_skill_that_mends_tasks_is_better(check: Command) -> None:
    commit(PLAIN + "Answer even only.\n")
    Path("skills/sums/SKILL.md").write_text(PLAIN)
    ran = check()
    assert ran.code == 0, ran.err
    assert "Better: skills/sums against skills/sums/SKILL.md at HEAD" in ran.out
    assert "0.500 to 1.000, +0.500" in ran.out and "8 fixed: t1, t11" in ran.out
    again = check("skills/sums", "--budget", "32 calls")
    assert (again.code, again.out) == (0, ran.out), "what was measured is not paid again"


def test_a_skill_that_breaks_tasks_is_worse_in_every_form(check: Command) -> None:
    commit(PLAIN)
    git("switch", "-qc", "change")
    commit(PLAIN + "Answer even only.\n")
    files = ("--comment", "out/comment.md", "--junit", "out/junit.xml")
    ran = check("skills/sums/SKILL.md", "--against", "main", "--json", *files)
    assert ran.code == 6, ran.err
    told = ran.json
    assert told["verdict"] == "worse" and told["comparison"]["delta"] == -0.5
    assert told["against"] == {
        "ref": "main",
        "commit": git("rev-parse", "main"),
        "path": "skills/sums/SKILL.md",
        "renamed": False,
    }
    comment = Path("out/comment.md").read_text()
    assert "skill check: worse" in comment and "| 16 | 1.000 | 0.500 | -0.500 |" in comment
    assert "8 broken: `t1`, `t11`" in comment
    suite = ElementTree.parse("out/junit.xml").getroot()
    assert suite.attrib["tests"] == "9" and suite.attrib["failures"] == "9"


def test_a_repository_inside_of_a_skill_starts_no_program(check: Command, repository: Path) -> None:
    """Git takes a folder with `HEAD`, `objects`, `refs` and a `config` for a repository, and a clone may hold
    one: its settings name a program that git starts.
    """
    skill, started = Path("skills/sums"), repository / "started"
    skill.mkdir(parents=True)
    git("init", "-q", "--bare", str(skill))
    program = shlex.join([sys.executable, str(repository / "start.py")])
    (repository / "start.py").write_text(f"open({str(started)!r}, 'w')")
    git("--git-dir", str(skill), "--work-tree", ".", "commit", "-q", "--allow-empty", "-m", "empty")
    for name, value in {"bare": "false", "worktree": ".", "fsmonitor": program}.items():
        git("config", "--file", str(skill / "config"), f"core.{name}", value)
    (skill / "SKILL.md").write_text(PLAIN)
    ran = check("skills/sums", "--against", "HEAD")
    assert not started.exists() and ran.code == 2 and "no git repository" in ran.err
    subprocess.run(["git", "-C", str(skill), "status"], capture_output=True, check=False)
    assert started.exists(), "git itself starts it"


def test_a_difference_that_can_be_chance_says_so_and_fails_no_case(check: Command) -> None:
    commit(PLAIN)
    Path("skills/sums/SKILL.md").write_text(PLAIN + "Say never 3. Say never 5.\n")
    ran = check("skills/sums", "--junit", "junit.xml", "--comment", "comment.md")
    assert ran.code == 7, ran.err
    assert "Cannot tell: skills/sums" in ran.out and "2 broken: t3, t5" in ran.out
    assert "interval -0.2" in ran.out and "to +0.0" in ran.out and "can be chance" in ran.out
    suite = ElementTree.parse("junit.xml").getroot()
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("0", "1")
    assert "can be chance" in Path("comment.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--comment", "--junit"])
def test_a_report_that_cannot_be_written_is_said_before_anything_is_measured(
    flag: str, check: Command, repository: Path
) -> None:
    commit(PLAIN)
    Path("skills/sums/SKILL.md").write_text(PLAIN + "Answer even only.\n")
    (repository / "agent.py").write_text("def adds(task, skill):\n    open('asked', 'w')\n    return ''\n")
    for wrong in ("agent.py/report", "skills"):
        ran = check("skills/sums", flag, wrong)
        assert ran.code == 2 and f"{wrong} cannot be written" in ran.err, ran.err
    assert not Path("asked").exists()
    assert check("skills/sums", flag, "out/report").code == 7 and Path("out/report").is_file()


@pytest.mark.slow
def test_a_skill_in_whose_folder_the_results_are_written_can_be_checked(check: Command) -> None:
    commit(PLAIN, Path())
    Path("SKILL.md").write_text(PLAIN + "Answer even only.\n")
    ran = check("SKILL.md")
    assert ran.code == 6 and "8 broken" in ran.out, ran.err


def test_what_reads_the_same_is_not_measured(check: Command, repository: Path) -> None:
    commit(PLAIN)
    (repository / "agent.py").write_text("def adds(task, skill):\n    raise SystemExit('nobody asks')\n")
    ran = check()
    assert ran.code == 0 and "Unchanged" in ran.out and "nothing was measured" in ran.out


@pytest.mark.slow
def test_a_new_skill_is_compared_with_none_and_a_renamed_one_with_itself(
    check: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(PLAIN + "A long text, so that git knows it again.\n" * 4)
    commit(PLAIN + "Another skill.\n", Path("skills/new"))
    ran = check("skills/new", "--against", "HEAD~1")
    assert ran.code == 0 and "against no skill, as skills/new/SKILL.md is not in git" in ran.out
    git("mv", "skills/sums", "skills/adding")
    Path("skills/adding/SKILL.md").write_text(PLAIN + "A long text, so that git knows it again.\n" * 5)
    monkeypatch.chdir("skills")
    moved = check("adding", "--json")
    assert moved.code == 7, moved.err
    assert moved.json["against"]["path"] == "skills/sums/SKILL.md"


@pytest.mark.slow
def test_the_files_of_the_earlier_folder_and_a_branch_of_origin_are_found(
    check: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = Path("skills/sums/references/more.md")
    reference.parent.mkdir(parents=True)
    reference.write_text("Answer even only.\n")
    commit(PLAIN + "Read references/more.md.\n")
    git("clone", "-q", ".", "clone")
    monkeypatch.chdir("clone")
    git("switch", "-qc", "change")
    git("branch", "-qD", "main")
    reference.write_text("Answer everything.\n")
    ran = check("skills/sums", "--against", "main")
    assert ran.code == 0 and "0.500 to 1.000" in ran.out, ran.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("skills/sums", "--against", "mian"),
            "Git knows no commit, branch or tag 'mian'. Did you mean 'main'?",
        ),
        (("skills/sums", "--against", "--upload-pack=x"), "Git knows no commit, branch or tag"),
        (("skills/nothing",), "There is no skill at"),
        (("skills/sums", "--tasks", "gone.jsonl"), "gone.jsonl"),
    ],
)
def test_what_cannot_be_compared_is_bad_input(check: Command, words: tuple[str, ...], said: str) -> None:
    commit(PLAIN)
    ran = check(*words)
    assert ran.code == 2 and said in ran.err, ran.err


def test_without_a_repository_or_git_there_is_a_remedy(
    check: Command, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(PLAIN)
    (repository / ".git").rename(repository / "no-git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(repository))
    ran = check()
    assert ran.code == 2 and "lies in no git repository" in ran.err
    monkeypatch.setenv("PATH", str(repository))
    missing = check()
    assert missing.code == 2 and "skillopt eval --skill NEW --against OLD" in missing.err


def test_a_budget_that_leaves_no_whole_pair_is_no_verdict(check: Command) -> None:
    commit(PLAIN)
    Path("skills/sums/SKILL.md").write_text(PLAIN + "Say never 3.\n")
    ran = check("skills/sums", "--budget", "1 calls", "--comment", "comment.md")
    assert ran.code == 4 and not Path("comment.md").exists()


@pytest.mark.slow
def test_a_budget_that_ends_early_leaves_a_verdict_on_whole_pairs(check: Command) -> None:
    commit(PLAIN)
    Path("skills/sums/SKILL.md").write_text(PLAIN.replace("Add", "Sum"))
    few = ("--budget", "20 calls", "--cfg-options", "env.workers=4")
    ran = check("skills/sums", "--comment", "comment.md", *few)
    (said,) = [line for line in ran.out.splitlines() if "The budget ended after" in line]
    pairs = int(said.split("after ")[1].split(" of 16 tasks")[0])
    assert 8 <= pairs <= 10, "the calls went to whole pairs"
    assert ran.code == 6 and f"1.000 to 0.000, -1.000 (hard, {pairs} tasks)" in ran.out
    assert said.strip() in Path("comment.md").read_text()
    whole = check("skills/sums", "--json")
    assert whole.code == 6 and whole.json["cut_short"] == "", "more budget goes on"


def test_the_example_workflow_names_options_that_exist(skillopt: Command) -> None:
    workflow = (Path(__file__).parents[2] / "examples/ci/skill-check.yml").read_text()
    (line,) = [line for line in workflow.replace("\\\n", " ").splitlines() if "skillopt check " in line]
    words = [word for word in line.partition("||")[0].split() if word.startswith("--")]
    said = skillopt("check --help").out
    assert len(words) == 7 and [word for word in words if word not in said] == []
