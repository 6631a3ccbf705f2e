"""Worktrees, in which an agent does work of the past again, and the record by which such work is measured.

A worktree is a clone of its own at the commit on which the work began, so nothing an agent does in it reaches
the repository. The record is a text of what was run, changed, committed and said:

    $ pytest -q                     a command
    ~ src/mailer.py                 a file that was changed
    * feat: retry the mailer        a commit message, its body indented below
    > The mailer tries twice now.   the words

Every line of it begins with one of these marks, so no words can pass for work.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from skillopt.agents import skill_folders
from skillopt.changes import StoredRecord
from skillopt.errors import Fault
from skillopt.messages import Tool
from skillopt.process import ask_process, git_env, run_process
from skillopt.process.sandbox import ProcessLimits, Sandbox, is_there
from skillopt.tasks.rollout import Trajectory
from skillopt.transcripts.session import RecordedSession, ToolUse, Turn

COMMITS, TESTS = "commits", "tests"
"""What a worktree finds after the work: messages with a zero character between, and why tests fail."""
RUNS_TESTS = (
    r"(?!(?:git|echo|cat|ls|rg|grep|sed|find|head|tail|touch|mkdir|rm|cp|mv|cd)\b)[^;&|\n\"']*"
    r"(?:\b(?:pytest|unittest|tox|nox|jest|vitest|rspec|phpunit|ctest)\b|(?<![A-Za-z])tests?(?![A-Za-z]))"
)
"""How a command that runs tests begins."""
_SHELL = re.compile(r"bash|shell|exec|command|terminal|\bcmd\b", re.IGNORECASE)
_EDIT = re.compile(r"edit|write|patch|create|replace", re.IGNORECASE)
_PATCHED = re.compile(r"\*\*\* (?:Add|Update) File: (\S+)")
_MESSAGE = re.compile(
    r"""\bgit\s(?:[^|;&"']|"[^"]*"|'[^']*')*?\bcommit\b(?P<flags>[^|;&"']*?)\s(?:-[a-zA-Z]*m|--message)[=\s]*"""
    r"""(?:"\$\(cat\s*<<\s*'?"?(?P<end>\w+)'?"?\s(?P<here>.*?)\s(?P=end)\b|"(?P<double>(?:\\.|[^"\\])*)"|'(?P<single>[^']*)'|(?P<bare>[^\s;&|]+))""",
    re.DOTALL,
)
WORKTREE = "worktree"
"""The field of a task's data that says where it is worked on."""
MOST_BYTES = 64 << 20
"""Of the files of a repository that is replayed in: each rollout has a copy."""
_HISTORY = "50"
"""Commits before the one that are there to look at."""
_MOST_COMMITS, _MOST_MESSAGE = 50, 1 << 16
_SECONDS = 120.0
_SERVICES = re.compile(
    r"\b(?:docker|podman|kubectl|helm|psql|mysql|mongosh?|redis-cli|ssh|scp|rsync|curl|wget|aws|gcloud|az|gh"
    r"|glab|heroku|vercel|netlify|terraform|ansible\S*|systemctl|git (?:push|pull|fetch|clone|submodule))\b"
)
_SECRETS = re.compile(r"(?<![\w.])\.env\b|\bid_rsa\b|\bcredentials?\b|\bsecrets?\b", re.IGNORECASE)
_ELSEWHERE = re.compile(r"mcp__|web|browser|fetch", re.IGNORECASE)
_TESTS = re.compile(RUNS_TESTS)
_SEVERAL = re.compile(r"[;&|<>$`]")
"""Signs of more than one plain command."""
_SHA = re.compile(r"[0-9a-f]{40,64}")


def record_of_tools(tools: Iterable[ToolUse], answer: str, folder: str) -> str:
    """The record of work as a transcript of a session in `folder` tells it."""
    commands: list[str] = []
    files: dict[str, None] = {}
    commits: list[str] = []
    for tool in tools:
        if _SHELL.search(tool.name):
            commands.append(tool.about)
            for found in _MESSAGE.finditer(tool.about):
                if "--amend" in found[0] or "--amend" in tool.about[found.end() :]:
                    commits = commits[:-1]
                commits.append(next(text for text in found.group("here", "double", "single", "bare") if text))
        elif _EDIT.search(tool.name):
            for path in _PATCHED.findall(tool.about) or [tool.about]:
                files[path.removeprefix(f"{folder.rstrip('/')}/")] = None
    files |= dict.fromkeys(path for command in commands for path in _written(command))
    return _record(commands, files, commits, answer)


def record_of_rollout(done: Trajectory) -> str:
    """The same of a replay: files and commits are those that were found in the worktree."""
    commands = [
        command
        for message in done.messages
        for call in message.tool_calls
        if _SHELL.search(call.name) and (command := _command(call.arguments))
    ]
    commits = [one for one in done.outcome.get(COMMITS, "").split("\0") if one.strip()]
    return _record(commands, sorted(done.files), commits, done.answer)


def _record(commands: Iterable[str], files: Iterable[str], commits: Iterable[str], answer: str) -> str:
    lines = [f"$ {' '.join(command.split())}" for command in commands]
    lines += [f"~ {' '.join(path.split())}" for path in files]
    for message in commits:
        first, *body = message.strip().splitlines()
        lines += [f"* {first.strip()}", *(f"  {line.strip()}" for line in body if line.strip())]
    lines += [f"> {line}" for line in answer.strip().splitlines() if line.strip()]
    return "\n".join(lines)


def _written(command: str) -> list[str]:
    """Files that a shell command writes by way of `>`."""
    return re.findall(r"(?<![0-9&>])>{1,2}\s*(?!/)([\w./-]+)", command)


def _command(arguments: str) -> str:
    try:
        given: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    fields = given if isinstance(given, Mapping) else {}
    command = next((fields[key] for key in ("command", "cmd", "script", "input") if key in fields), "")
    return " ".join(map(str, command)) if isinstance(command, list) else str(command)


class Worktree(StoredRecord):
    """The state of a repository: a commit, and the text of files that were not as committed."""

    repository: str
    commit: str
    files: dict[str, str] = Field(default_factory=dict)
    tests: str = ""
    """The command that ran the tests when the work was accepted."""

    @property
    def digest(self) -> str:
        """What tells it from any other state."""
        return hashlib.sha256(self.model_dump_json(exclude={"repository"}).encode()).hexdigest()

    @property
    def is_there(self) -> bool:
        """Whether it can still be had."""
        return bool(_git(Path(self.repository), "rev-parse", "--verify", "-q", f"{self.commit}^{{commit}}"))


@dataclass(frozen=True, slots=True)
class Worktrees:
    """Finds the worktrees of past requests; each repository is looked at once."""

    _heads: dict[Path, list[tuple[str, ...]]] = field(default_factory=dict)
    """When HEAD became which commit, and its subject."""
    _sizes: dict[Path, int] = field(default_factory=dict)

    def find(self, session: RecordedSession, turn: Turn, tools: Sequence[ToolUse]) -> Worktree | str:
        """The repository as the session's first request met it, or why the work, which was done with these
        tools, cannot be replayed there.
        """
        folder = Path(session.folder or session.project)
        used = "\n".join(tool.about for tool in tools)
        if found := _SERVICES.search(used):
            return f"it needs a service ({found[0]})"
        if away := next((tool.name for tool in tools if _ELSEWHERE.search(tool.name)), ""):
            return f"it needs more than the repository ({away})"
        if found := _SECRETS.search(used):
            return f"it needs secrets ({found[0]})"
        if not (folder / ".git").exists():
            return "its folder is no repository" if folder.is_dir() else f"the repository {folder} is gone"
        if self._size(folder) > MOST_BYTES:
            return f"the repository is larger than {MOST_BYTES >> 20} MB"
        at = turn.time or session.started
        commit = self._commit(folder, int(at.timestamp()), used)
        if not commit:
            return "the repository has no commit from before it"
        files = {path: text for path, text in session.originals.items() if is_inside(path)}
        ran = [tool.about for tool in tools if _TESTS.match(tool.about) and not _SEVERAL.search(tool.about)]
        return Worktree(repository=str(folder), commit=commit, files=files, tests=ran[-1] if ran else "")

    def _commit(self, folder: Path, at: int, used: str) -> str:
        """What HEAD was at that time, by the repository's own log, else the last commit before it. The log
        counts in seconds: of that second, a commit whose message is in the commands is what they made.
        """
        if folder not in self._heads:
            lines = _git(folder, "reflog", "show", "HEAD", "--date=unix", "--format=%gd %H %s").splitlines()
            found = [re.fullmatch(r"HEAD@\{(\d+)\} (\w+) (.*)", line) for line in lines]
            self._heads[folder] = [one.groups() for one in found if one is not None]
        for time, commit, subject in self._heads[folder]:
            if int(time) < at or (int(time) == at and not (subject and subject in used)):
                return commit
        return _git(folder, "rev-list", "-1", f"--before={at}", "HEAD").strip()

    def _size(self, folder: Path) -> int:
        if folder not in self._sizes:
            rows = _git(folder, "ls-tree", "-r", "-l", "HEAD").splitlines()
            sizes = (line.split("\t")[0].split()[-1] for line in rows)
            self._sizes[folder] = sum(int(size) for size in sizes if size.isdigit())
        return self._sizes[folder]


class Checkout:
    """A worktree as the workplace of an agent."""

    tools: Sequence[Tool] = ()
    max_turns = 0

    def __init__(self, tree: Worktree) -> None:
        self._tree = tree
        self._passed = False

    async def step(self, name: str, arguments: Mapping[str, object]) -> str:
        """Never called: who works here has tools of its own."""
        raise Fault("contract", "a worktree has no tools")

    async def close(self) -> None:
        """The folder goes with the rollout."""

    async def furnish(self, folder: Path) -> None:
        """Make the folder a shallow clone of the commit, without remotes, and write the given files to it."""
        pack = "git -c uploadpack.allowAnySHA1InWant=true upload-pack"
        source = ["--upload-pack", pack, Path(self._tree.repository).as_uri(), self._tree.commit]
        skills = [f"{name}/" for name in skill_folders()]
        for words in (
            ["init", "-q", "--template=", "-b", "main"],
            ["fetch", "-q", "--depth", _HISTORY, *source],
            ["reset", "-q", "--hard", "FETCH_HEAD"],
            ["config", "user.name", "agent"],
            ["config", "user.email", "agent@localhost"],
        ):
            done = await run_process(
                ["git", "-C", str(folder), *words], input=b"", env=_env(), cwd=folder, timeout=_SECONDS
            )
            if done.code:
                why = done.stderr.decode("utf-8", "replace").strip()[-300:]
                raise Fault("contract", f"no worktree of {self._tree.repository}: git {words[0]}: {why}")
        for path, text in self._tree.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        # The skill that is measured is no change of the agent's.
        (folder / ".git" / "info").mkdir(exist_ok=True)
        (folder / ".git" / "info" / "exclude").write_text("".join(f"/{name}\n" for name in skills))
        if known := _git(folder, "ls-files", "--", *skills).splitlines():
            _git(folder, "update-index", "--skip-worktree", "--", *known)
        self._passed = bool(self._tree.tests) and is_there() and not await self._failing(folder)

    async def outcome(self, folder: Path) -> Mapping[str, str]:
        """The messages of the commits that were made, and why the tests fail that passed before. Objects are
        read as files: git would heed what an agent may have configured here.
        """
        log = _text(folder / ".git" / "logs" / "HEAD", folder).splitlines()
        commit = log[-1].split(" ")[1] if log and log[-1].count(" ") > 1 else ""
        messages: list[str] = []
        while commit != self._tree.commit and _SHA.fullmatch(commit) and len(messages) < _MOST_COMMITS:
            head, found, message = _object(folder, commit).partition("\n\n")
            if not found:
                break
            messages.append(message)
            parents = [
                line.removeprefix("parent ") for line in head.split("\n") if line.startswith("parent ")
            ]
            commit = parents[0] if parents else ""
        failing = await self._failing(folder) if self._passed else ""
        facts = {COMMITS: "\0".join(reversed(messages)), TESTS: failing}
        return {name: text for name, text in facts.items() if text}

    async def _failing(self, folder: Path) -> str:
        """Why the tests fail, run in a sandbox on a copy of the folder; empty where they pass."""
        box = Sandbox("bubblewrap", limits=ProcessLimits(seconds=_SECONDS))
        try:
            ran = await box.run(shlex.split(self._tree.tests), files=_files(folder))
        except (Fault, ValueError) as error:  # a program that is not in the sandbox, a quote that never ends
            return str(error)
        end = ran.stopped or f"code {ran.code}"
        output = (ran.stdout + ran.stderr).decode("utf-8", "replace").strip()[-300:]
        return "" if ran.succeeded else f"{self._tree.tests} ended with {end}: {output}"


def is_inside(path: str) -> bool:
    """Whether a path stays in the folder that it is relative to."""
    return bool(path) and not Path(path).is_absolute() and ".." not in Path(path).parts


def _files(folder: Path) -> dict[str, bytes]:
    paths = ((path, path.relative_to(folder)) for path in sorted(folder.rglob("*")))
    return {
        inside.as_posix(): path.read_bytes()
        for path, inside in paths
        if inside.parts[0] != ".git" and _is_plain(path, folder)
    }


def _object(folder: Path, name: str) -> str:
    path = folder / ".git" / "objects" / name[:2] / name[2:]
    if not _is_plain(path, folder):
        return ""
    try:
        return zlib.decompressobj().decompress(path.read_bytes(), _MOST_MESSAGE).decode("utf-8", "replace")
    except (OSError, zlib.error):
        return ""


def _text(path: Path, folder: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if _is_plain(path, folder) else ""


def _is_plain(path: Path, folder: Path) -> bool:
    """Whether a file is one of the folder's own: an agent may leave links and pipes."""
    real = Path(os.path.realpath(folder), path.relative_to(folder))
    return os.path.realpath(path) == str(real) and path.is_file() and path.stat().st_size <= MOST_BYTES


def _git(folder: Path, *words: str) -> str:
    """What git says of a repository; nothing where it cannot."""
    try:
        done = ask_process(["git", "-C", str(folder), *words], env=_env(), timeout=_SECONDS)
    except Fault:
        return ""
    return "" if done.code else done.stdout.decode("utf-8", "replace")


def _env() -> dict[str, str]:
    return git_env({"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"})
