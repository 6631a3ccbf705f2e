"""Scores by pattern in a process of its own: one that backtracks for ever is only ended from outside."""

from __future__ import annotations

import asyncio
import importlib
import json
import math
import os
import re
import signal
import string
import sys
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from skillopt.errors import Fault, ScoringError
from skillopt.process import minimal_env, run_process
from skillopt.tasks.protected import Protected
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers._scorer import NamedScorer, extract_answer, passed, references
from skillopt.tasks.task import Task

DEFAULT_TIMEOUT = 5.0
_PATIENCE = 20
"""How many times its own seconds a child may take by the clock: a busy machine is not the pattern's fault."""
# SIGPROF comes after so many seconds of computing, SIGALRM after so many by the clock, also where the parent
# was killed; both stop also a running match.
_BEGIN = """
import json, re, signal, sys
job = json.load(sys.stdin.buffer)
if hasattr(signal, "setitimer"):
    signal.setitimer(signal.ITIMER_PROF, job["timeout"])
    signal.alarm(job["alarm"])
"""
_MATCH = f"""{_BEGIN}
find = re.fullmatch if job["full"] else re.search
print(json.dumps([bool(find(pattern, job["text"], job["flags"])) for pattern in job["patterns"]]))
"""
_VALIDATE = f"""{_BEGIN}
import jsonschema
for_schema = jsonschema.validators.validator_for(job["schema"], default=jsonschema.Draft202012Validator)
print(json.dumps([for_schema(job["schema"]).is_valid(job["value"])]))
"""

_slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = weakref.WeakKeyDictionary()
"""One semaphore per event loop: with more at once than cores, waiting would count against the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regex(NamedScorer):
    """The reference is a Python pattern (or a list of them) found in the answer; with `full` it must match
    all of it.

    `timeout` is in seconds of computing; a match that takes longer is an error of the scorer, never a zero.
    """

    name: ClassVar[str] = "regex"
    ignore_case: bool = False
    full: bool = False
    timeout: Annotated[float, Field(gt=0)] = DEFAULT_TIMEOUT

    def check_task(self, task: Task) -> None:
        """Every pattern compiles."""
        for pattern in references(task):
            if trouble := trouble_with(pattern, self._flags):
                raise task.error(f"has a reference {pattern!r} that is not a pattern: {trouble}. Correct it.")

    def protected(self, task: Task) -> Protected:
        """The patterns: a skill that quotes one is written for the scorer."""
        return Protected(patterns=references(task))

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Match in a child process that is killed when its time is up."""
        answer = extract_answer(trajectory.answer)
        patterns = references(task)
        options: dict[str, Any] = {"flags": self._flags, "full": self.full, "timeout": self.timeout}
        found = await matches(patterns, answer, whose=f"task {task.id!r}", **options)
        return passed(any(found), answer, patterns, "The reference is a regular expression.")

    @property
    def _flags(self) -> int:
        return int(re.IGNORECASE) if self.ignore_case else 0


def trouble_with(pattern: str, flags: int = 0) -> str:
    """Why a text is no pattern; empty when it is one."""
    try:
        re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error)
    return ""


async def matches(
    patterns: Sequence[str],
    text: str,
    *,
    whose: str,
    flags: int = 0,
    full: bool = False,
    timeout: float = DEFAULT_TIMEOUT,
) -> list[bool]:
    """Which patterns are found in a text, in one child process; raises `ScoringError` when time is up."""
    job = {"patterns": list(patterns), "text": text, "flags": flags, "full": full}
    return await _answers(["-I", "-S", "-c", _MATCH], job, what=f"the pattern of {whose}", timeout=timeout)


async def fits_schema(
    schema: Mapping[str, Any], value: Any, *, whose: str, timeout: float = DEFAULT_TIMEOUT
) -> bool:
    """Whether a JSON value fits a schema, tried in a child process: a schema may hold patterns too."""
    job = {"schema": schema, "value": value}
    program = ["-I", "-c", _VALIDATE]
    return (await _answers(program, job, what=f"the schema of {whose}", timeout=timeout))[0]


async def _answers(
    program: Sequence[str], job: Mapping[str, Any], *, what: str, timeout: float
) -> list[bool]:
    """What a child process that is killed when its time is up says to a job."""
    longest = timeout * (_PATIENCE if hasattr(signal, "setitimer") else 1)
    given = json.dumps({**job, "timeout": timeout, "alarm": math.ceil(longest) + 1})
    late = ScoringError("timeout", f"{what} took longer than {timeout:g} s on this answer")
    try:
        loop = asyncio.get_running_loop()
        if loop not in _slots:
            _slots[loop] = asyncio.Semaphore(os.cpu_count() or 1)
        async with _slots[loop]:
            argv = [sys.executable, *program]
            done = await run_process(argv, input=given.encode(), env=minimal_env(), cwd=None, timeout=longest)
    except Fault as fault:
        if fault.kind != "timeout":
            raise ScoringError(fault.kind, fault.detail) from fault
        raise late from fault
    if done.code < 0 and done.code in (-getattr(signal, "SIGPROF", 0), -getattr(signal, "SIGALRM", 0)):
        raise late
    if done.code != 0:
        said = done.stderr.decode(errors="replace")[-300:]
        raise ScoringError("judge", f"{what} could not be matched: {said}")
    return [bool(found) for found in json.loads(done.stdout)]


_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_CATEGORIES = {"DIGIT": "0", "NOT_DIGIT": "x", "SPACE": " ", "NOT_SPACE": "x", "WORD": "x", "NOT_WORD": " "}
_MOST = 200
"""Copies of a repeated part that are written out at most: a pattern may ask for millions."""


def example(pattern: str, flags: int = 0) -> str | None:
    """A text in which the pattern is found, or None: no proof for patterns that look around."""
    try:
        text = _Writer().text(_parser.parse(pattern, flags))
    # A construct of a newer Python, or one that only looks around.
    except (KeyError, RecursionError, OverflowError):
        return None
    return text if re.search(pattern, text, flags) else None


class _Writer:
    """Writes a simple text that matches a pattern; anchors and lookarounds add no characters."""

    def __init__(self) -> None:
        self._groups: dict[int, str] = {}

    def text(self, parts: Iterable[tuple[Any, Any]]) -> str:
        return "".join(self._part(str(op), value) for op, value in parts)

    def _part(self, op: str, value: Any) -> str:
        if op == "LITERAL":
            return chr(value)
        if op in ("NOT_LITERAL", "ANY"):
            return "x" if op == "ANY" or chr(value) != "x" else "y"
        if op == "IN":
            return _member(value)
        if op == "BRANCH":
            return self.text(value[1][0])
        if op == "SUBPATTERN":
            self._groups[value[0]] = self.text(value[-1])
            return self._groups[value[0]]
        if op in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, inner = value
            return self.text(inner) * min(max(int(least), 1), int(most), _MOST)
        if op == "ATOMIC_GROUP":
            return self.text(value)
        if op == "GROUPREF":
            return self._groups.get(value, "")
        if op in ("AT", "ASSERT", "ASSERT_NOT"):
            return ""
        raise KeyError(op)


def _member(choices: Any) -> str:
    """A character of a set."""
    is_negated = str(choices[0][0]) == "NEGATE"
    for char in _named(choices) if not is_negated else string.printable:
        if any(_is_in(char, op, value) for op, value in choices) is not is_negated:
            return char
    raise KeyError("IN")


def _named(choices: Any) -> Iterable[str]:
    for op, value in choices:
        if str(op) == "CATEGORY":
            yield _CATEGORIES[str(value).removeprefix("CATEGORY_")]
        else:
            yield chr(value if str(op) == "LITERAL" else value[0])


def _is_in(char: str, op: Any, value: Any) -> bool:
    kind = str(op)
    if kind == "LITERAL":
        return bool(ord(char) == value)
    if kind == "RANGE":
        return bool(value[0] <= ord(char) <= value[1])
    if kind == "CATEGORY":
        name = str(value).removeprefix("CATEGORY_")
        kinds = {"DIGIT": char.isdigit(), "SPACE": char.isspace(), "WORD": char.isalnum() or char == "_"}
        return kinds[name.removeprefix("NOT_")] is not name.startswith("NOT_")
    return False
