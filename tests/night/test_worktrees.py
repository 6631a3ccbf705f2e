"""Work in a repository: where it is replayed, what its record says, and what is demanded of it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from _needs import needs_bubblewrap, require_git
from night._reader import mine
from skillopt.agents import pick
from skillopt.errors import Fault
from skillopt.messages import Message, ToolCall
from skillopt.redact import redact_transcript
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import Task
from skillopt.transcripts import Homes, harvest
from skillopt.transcripts.session import RecordedSession, ToolUse, Turn
from skillopt_sleep.measures import telling_rules, work_demands
from skillopt_sleep.scorer import Guards, NightScorer, lines_of_work
from skillopt_sleep.worktrees import Checkout, Worktree, Worktrees, record_of_rollout, record_of_tools

NOW = datetime(2026, 11, 15, 2, 0, tzinfo=timezone.utc)
WISH = "Wrong: we use conventional commits. And run the tests first."


def git(folder: Path, *words: str, at: datetime = NOW) -> str:
    when = {"GIT_AUTHOR_DATE": at.isoformat(), "GIT_COMMITTER_DATE": at.isoformat()}
    who = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **when}
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, env=env, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits, a day apart."""
    require_git()
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for day, text in enumerate(("one\n", "two\n")):
        (folder / "note.txt").write_text(text)
        git(folder, "add", ".", at=NOW + timedelta(days=day))
        git(folder, "commit", "-qm", f"day {day}", at=NOW + timedelta(days=day))
    return folder


def session(
    folder: Path, *commands: str, at: datetime = NOW, number: int = 0, **more: object
) -> RecordedSession:
    """A request that was worked on, corrected, worked on again, and accepted."""
    first, again = commands[: len(commands) // 2], commands[len(commands) // 2 :]

    def did(some: tuple[str, ...], text: str) -> Turn:
        tools = tuple(ToolUse(name="Bash", about=command) for command in some)
        return Turn(role="assistant", text=text, tools=tools)

    turns = (
        Turn(role="user", text=f"Put item {number} into note{number}.txt and commit it.", time=at),
        did(first, "Done."),
        Turn(role="user", text=WISH),
        did(again, "Amended."),
        Turn(role="user", text="Perfect, thanks"),
    )
    told = {
        "source": "claude_code",
        "id": f"s{number}",
        "project": str(folder),
        "folder": str(folder),
        **more,
    }
    return RecordedSession(started=at, ended=at, turns=turns, **told)  # type: ignore[arg-type]


def found(folder: Path, *commands: str, at: datetime = NOW) -> Worktree | str:
    one = session(folder, *commands, at=at)
    return Worktrees().find(one, one.turns[0], [tool for turn in one.turns for tool in turn.tools])


def test_a_request_meets_the_commit_of_its_time(repository: Path) -> None:
    first, last = git(repository, "rev-list", "--reverse", "HEAD").split()
    trees = [found(repository, "ls", at=NOW + timedelta(days=day, hours=1)) for day in (0, 1)]
    assert [tree.commit for tree in trees if isinstance(tree, Worktree)] == [first, last]
    assert (
        found(repository, "ls", at=NOW - timedelta(days=1)) == "the repository has no commit from before it"
    )


def test_a_commit_of_the_same_second_is_the_sessions_own_only_if_its_commands_made_it(
    repository: Path,
) -> None:
    before = git(repository, "rev-parse", "HEAD")
    at = NOW + timedelta(days=2)
    git(repository, "commit", "-q", "--allow-empty", "-m", "added it", at=at)
    git(repository, "commit", "-q", "--amend", "--allow-empty", "-m", "feat: add it", at=at)
    made = found(repository, "git commit -qm 'added it'", "git commit --amend -m 'feat: add it'", at=at)
    met = found(repository, "git commit -qm 'another'", at=at)
    assert isinstance(made, Worktree) and made.commit == before
    assert isinstance(met, Worktree) and met.commit == git(repository, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("docker compose up", "it needs a service (docker)"),
        ("git push origin main", "it needs a service (git push)"),
        ("cat .env", "it needs secrets (.env)"),
    ],
)
def test_what_needs_more_than_the_repository_is_not_replayed(
    repository: Path, command: str, why: str
) -> None:
    assert found(repository, command) == why


def test_a_repository_that_is_gone_is_named(tmp_path: Path) -> None:
    assert found(tmp_path / "gone", "ls") == f"the repository {tmp_path / 'gone'} is gone"
    assert found(tmp_path, "ls") == "its folder is no repository"
    assert not Worktree(repository=str(tmp_path), commit="0" * 40).is_there


async def test_a_worktree_is_a_clone_with_unsaved_files_and_tells_its_commits(
    repository: Path, tmp_path: Path
) -> None:
    first = git(repository, "rev-list", "--max-parents=0", "HEAD")
    tree = Worktree(repository=str(repository), commit=first, files={"sub/draft.txt": "unsaved\n"})
    folder = tmp_path / "place"
    folder.mkdir()
    place = Checkout(tree)
    await place.furnish(folder)
    assert (folder / "note.txt").read_text() == "one\n" and (folder / "sub" / "draft.txt").is_file()
    assert git(folder, "remote") == "" and await place.outcome(folder) == {}
    (folder / ".claude" / "skills" / "x").mkdir(parents=True)
    (folder / ".claude" / "skills" / "x" / "SKILL.md").write_text("measured")
    (folder / "note.txt").write_text("three\n")
    git(folder, "commit", "-qam", "one more")
    git(folder, "commit", "-q", "--amend", "-m", "feat: one more\n\nWith a body.")
    git(folder, "commit", "-q", "--allow-empty", "-m", "fix: another")
    assert "SKILL.md" not in git(folder, "status", "--short")
    assert await place.outcome(folder) == {"commits": "feat: one more\n\nWith a body.\n\0fix: another\n"}
    assert git(repository, "rev-list", "--count", "--all") == "2"


async def test_links_that_an_agent_leaves_are_not_followed(repository: Path, tmp_path: Path) -> None:
    place = Checkout(Worktree(repository=str(repository), commit=git(repository, "rev-parse", "HEAD~1")))
    folder = tmp_path / "place"
    folder.mkdir()
    await place.furnish(folder)
    log = folder / ".git" / "logs" / "HEAD"
    log.unlink()
    log.symlink_to(repository / ".git" / "logs" / "HEAD")
    assert await place.outcome(folder) == {}


async def test_a_commit_that_is_gone_is_no_measurement(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(Fault, match="no worktree of"):
        await Checkout(Worktree(repository=str(repository), commit="0" * 40)).furnish(tmp_path)


def test_a_record_of_a_transcript_and_one_of_a_replay_read_alike() -> None:
    heredoc = "git commit -m \"$(cat <<'EOF' feat: add it EOF )\""
    tools = [
        ToolUse(name="Edit", about="/shop/src/a.py"),
        ToolUse(name="Bash", about="echo x > b.txt 2>/dev/null && git commit -qam 'wip'"),
        ToolUse(name="Bash", about='git commit --amend -m "fix: b"'),
        ToolUse(name="Bash", about=heredoc),
    ]
    told = record_of_tools(tools, "Done.\n* feat: forged", "/shop").splitlines()
    assert [line for line in told if line[0] in "~*>"] == [
        *("~ src/a.py", "~ b.txt", "* fix: b", "* feat: add it", "> Done.", "> * feat: forged")
    ]
    calls = (ToolCall(id="1", name="exec_command", arguments='{"cmd": ["pytest", "-q"]}'),)
    done = Trajectory(
        messages=(Message(role="assistant", content="", tool_calls=calls),),
        answer="Done.",
        calls=1,
        usage=None,
        files={"b.txt": base64.b64encode(b"x").decode()},
        outcome={"commits": "fix: b\n\nWhy.\n"},
    )
    assert record_of_rollout(done) == "$ pytest -q\n~ b.txt\n* fix: b\n  Why.\n> Done."


@pytest.mark.parametrize(
    ("said", "good", "bad"),
    [
        ("we use conventional commits here", "* feat(api)!: x\n* fix: y", "* feat: x\n* wip"),
        ("please run the tests before that", "$ npm test", "$ npm start"),
        ("run all tests first", "$ cd x && ./run_tests.sh", "$ git commit -m 'feat: add a test for refunds'"),
        ("add a line to CHANGELOG.md every time", "~ docs/CHANGELOG.md", "~ README.md\n> CHANGELOG.md"),
        ("never touch setup.cfg", "~ setup.py", "~ setup.cfg"),
        ("use `ruff format` for that", "$ ruff format .", "$ black ."),
    ],
)
async def test_what_is_demanded_of_work_is_seen_in_its_record(said: str, good: str, bad: str) -> None:
    (rule,) = work_demands(said)
    assert await telling_rules([rule], [good], [bad]) == (rule,)


def test_work_that_leaves_the_named_file_alone_was_not_done() -> None:
    lines = lines_of_work("Put it into note.txt.", ["~ note.txt\n~ other.txt", "~ note.txt"])
    assert lines == ("~ note.txt",)
    guards = Guards(lines=lines)
    assert guards.lines and not guards.failing("", "$ ls\n~ note.txt")
    assert "was not done: ~ note.txt" in guards.failing("", "* feat: x\n> note.txt has it")


@pytest.mark.slow
async def test_six_sessions_of_work_are_six_tasks_with_an_agent_and_a_suggestion_without(
    repository: Path,
) -> None:
    talks = [
        session(
            repository,
            f"echo x > note{number}.txt && git commit -qam 'added it'",
            f"pytest -q && git commit -q --amend -m 'feat: add {number}'",
            number=number,
            at=NOW + timedelta(hours=number),
        )
        for number in range(6)
    ]
    mined = await mine(talks, find=Worktrees().find)
    assert mined.states == {"a task": 6} and mined.standing == "ready"
    task = mined.tasks[0]
    assert task.worktree is not None and len(task.checks) == 2 and len(task.guards.lines) == 1
    assert task.as_task().surroundings != "" and not task.form_alone
    plain = await mine(talks)
    assert not plain.tasks and "worked on with tools (Bash)" in plain.suggestions[0].reason


@pytest.mark.slow
@needs_bubblewrap
async def test_work_after_which_the_tests_fail_scores_nothing(repository: Path, tmp_path: Path) -> None:
    (repository / "run-tests.sh").write_text("grep -q two note.txt\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "tests")
    tree = found(repository, "sh run-tests.sh", at=NOW + timedelta(days=9))
    assert isinstance(tree, Worktree) and tree.tests == "sh run-tests.sh"
    for text, fails in (("two and more\n", False), ("broken\n", True)):
        folder = tmp_path / f"place {fails}"
        folder.mkdir()
        place = Checkout(tree)
        await place.furnish(folder)
        (folder / "note.txt").write_text(text)
        outcome = await place.outcome(folder)
        assert ("tests" in outcome) is fails
    done = Trajectory(messages=(), answer="Done.", calls=1, usage=None, outcome=outcome)
    task = Task(
        id="t", prompt="x", reference={"checks": [{"op": "contains", "arg": "Done"}]}, data={"worktree": {}}
    )
    scored = await NightScorer().score(task, done)
    assert scored.hard == 0.0 and "sh run-tests.sh ended with code 1" in scored.feedback


async def test_tests_that_failed_before_say_nothing_of_the_work(repository: Path, tmp_path: Path) -> None:
    tree = Worktree(
        repository=str(repository), commit=git(repository, "rev-parse", "HEAD"), tests="sh nothing.sh"
    )
    folder = tmp_path / "place"
    folder.mkdir()
    place = Checkout(tree)
    await place.furnish(folder)
    assert await place.outcome(folder) == {}


def test_files_are_known_as_they_were_before_the_first_edit(tmp_path: Path) -> None:
    """Where a transcript of Claude Code shows them, they lie in the project, and hold no secret."""

    def edited(path: str, text: str, number: int) -> dict[str, object]:
        block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "ok"}
        told = {"filePath": path, "originalFile": text, "oldString": "a", "newString": "b"}
        return {"type": "user", "message": {"content": [block]}, "toolUseResult": told}

    secret = "AWS_SECRET_ACCESS_KEY = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'"
    rows: list[dict[str, object]] = [{"type": "user", "message": {"content": "Mend a.py"}}]
    files = (("/p/a.py", "first"), ("/p/a.py", "second"), ("/else/b.py", "b"), ("/p/c.py", secret))
    rows += [edited(path, text, number) for number, (path, text) in enumerate(files)]
    folder = tmp_path / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    common = {"cwd": "/p", "sessionId": "s", "timestamp": "2026-11-14T10:00:00Z"}
    lines = [json.dumps({**common, "uuid": f"u{number}", **row}) for number, row in enumerate(rows)]
    (folder / "s.jsonl").write_text("\n".join(lines))
    homes = Homes(home=tmp_path, platform="linux")
    (one,) = harvest(pick(["claude_code"], homes), None, redact_transcript).sessions
    assert dict(one.originals) == {"a.py": "first"}
