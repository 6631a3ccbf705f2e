"""Checks of an answer by rule: which there are, when one is valid, whether it holds, and whether it can tell good from bad at all.

| op | arg | holds when |
|---|---|---|
| `contains`, `not_contains` | text | the answer has it, or has it not, in any case of letters |
| `section_present` | text | a heading ends with it, a bold line holds it, or a line begins with `text:` |
| `section_contains` | text | a heading holds it |
| `regex` | pattern | it is found; matched in a process of its own, so that a pattern that backtracks for ever is ended |
| `min_chars`, `max_chars` | number | the answer is as long, or no longer |
| `no_refusal` | none | there is an answer and it does not open as a refusal |
| `tool_called` | name | the target really called a tool of that name |
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from skillopt.errors import Fault, ScoringError
from skillopt.process import minimal_env, run_process

Op = Literal[
    "contains", "not_contains", "section_present", "section_contains", "regex", "min_chars", "max_chars", "no_refusal", "tool_called"
]
OPS: tuple[str, ...] = get_args(Op)
SHAPE_OPS = frozenset({"section_present", "section_contains", "min_chars", "max_chars"})
"""Ops that see the form of an answer only; a skill can satisfy them without getting anything right."""
MOST_CHECKS = 12
_LENGTHS = ("min_chars", "max_chars")
_LONGEST = 400
_LONGEST_ANSWER = 10_000_000
_TOOL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}(?:\.[A-Za-z0-9_-]{1,63}){0,3}")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*)")
_REFUSALS = (
    *("i can't", "i cannot", "i can not", "i'm sorry", "i am sorry", "sorry,", "i'm unable", "i am unable", "i won't", "i will not"),
    *("i'm not able", "i am not able", "as an ai", "unfortunately, i can", "i must decline"),
)
_PROGRAM = """
import json, re, sys
job = json.load(sys.stdin.buffer)
print(json.dumps([bool(re.search(pattern, job["text"])) for pattern in job["patterns"]]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule; made by `read_checks`, which refuses what can never be checked."""

    op: Op
    arg: str | int | None = None

    def as_json(self) -> dict[str, Any]:
        """As tasks files hold it."""
        return {"op": self.op, "arg": self.arg}

    def __str__(self) -> str:
        return self.op if self.arg is None else f"{self.op}={self.arg}"


def read_checks(raw: Any) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """The valid checks of a JSON list, and one sentence for each that is not. An unknown op is never a check that passes."""
    if not isinstance(raw, list):
        return (), (f"checks are a list, not {type(raw).__name__}",)
    found: dict[Check, None] = {}
    problems: list[str] = []
    for place, item in enumerate(raw, start=1):
        read = _check(item)
        if isinstance(read, Check):
            found[read] = None
        else:
            problems.append(f"check {place}: {read}")
    if len(found) > MOST_CHECKS:
        problems.append(f"{len(found)} checks are more than {MOST_CHECKS}; the rest is left out")
    return tuple(found)[:MOST_CHECKS], tuple(problems)


async def holding(checks: Sequence[Check], answer: str, tools: Collection[str] = (), *, timeout: float = 5.0) -> list[bool]:
    """Whether each check holds for an answer; `tools` are those that were really called. Raises `ScoringError` when it cannot be known."""
    matches = await _matches([str(check.arg) for check in checks if check.op == "regex"], answer, timeout)
    return [next(matches) if check.op == "regex" else _holds(check, answer, tools) for check in checks]


async def telling(checks: Sequence[Check], good: Sequence[str], bad: Sequence[str], *, timeout: float = 2.0) -> tuple[Check, ...]:
    """The checks that were seen to tell: each holds for every good answer and fails for at least one bad one.

    One that holds for everything rewards everything, and one that a good answer fails would punish what the person wanted. A check whose
    own run fails - a pattern that never ends - tells nothing.
    """
    kept: list[Check] = []
    for check in checks:
        try:
            right = all([(await holding([check], answer, timeout=timeout))[0] for answer in good])
            if right and not all([(await holding([check], answer, timeout=timeout))[0] for answer in bad]):
                kept.append(check)
        except ScoringError:
            continue
    return tuple(kept)


def _check(item: Any) -> Check | str:
    """A check, or why it is none."""
    if not isinstance(item, Mapping):
        return "it is no object with op and arg"
    op, arg = item.get("op"), item.get("arg")
    if op not in OPS:
        return f"no op is named {op!r}; known: {', '.join(OPS)}"
    if op == "no_refusal":
        return Check(op="no_refusal")
    if op in _LENGTHS:
        if isinstance(arg, bool) or not isinstance(arg, (int, float)) or not 0 <= arg < 1e9 or arg != int(arg):
            return f"{op} needs a whole number of characters, not {arg!r}"
        return Check(op=op, arg=int(arg)) if arg or op == "max_chars" else "min_chars 0 holds for everything"
    if not isinstance(arg, str) or not arg.strip() or len(arg) > _LONGEST or "\0" in arg:
        return f"{op} needs a text of 1 to {_LONGEST} characters"
    if op == "tool_called" and not _TOOL.fullmatch(arg):
        return f"tool_called names a tool such as search, never a path or a command: {arg[:80]!r}"
    if op == "regex":
        try:
            re.compile(arg)
        except (re.error, OverflowError, RecursionError) as error:
            return f"{arg[:80]!r} is no pattern: {error}"
        return Check(op="regex", arg=arg)
    return Check(op=op, arg=arg.strip())


def _holds(check: Check, answer: str, tools: Collection[str]) -> bool:
    arg = str(check.arg).casefold()
    if check.op == "contains":
        return arg in answer.casefold()
    if check.op == "not_contains":
        return arg not in answer.casefold()
    if check.op == "section_present":
        return any(_is_section(line, arg) for line in answer.splitlines())
    if check.op == "section_contains":
        return any(arg in heading[1].casefold() for heading in map(_HEADING.fullmatch, answer.splitlines()) if heading)
    if check.op == "min_chars":
        return len(answer) >= int(check.arg or 0)
    if check.op == "max_chars":
        return len(answer) <= int(check.arg or 0)
    if check.op == "tool_called":
        return str(check.arg) in tools
    return not is_refusal(answer)


def is_refusal(answer: str) -> bool:
    """Nothing at all, or a short text that opens as refusals do."""
    start = answer.strip().lstrip("#*_>- \t").casefold().replace("’", "'")
    return not start or (len(answer) < 600 and start.startswith(_REFUSALS))


def _is_section(line: str, name: str) -> bool:
    plain = line.strip().casefold()
    heading = _HEADING.fullmatch(line)
    if heading:
        return heading[1].casefold().strip(" \t#*_:").endswith(name.strip("*_:"))
    if plain.startswith(("**", "__")):
        return name in plain
    return plain.startswith(f"{name}:")


async def _matches(patterns: Sequence[str], text: str, timeout: float) -> Any:
    if not patterns:
        return iter(())
    job = json.dumps({"patterns": list(patterns), "text": text[:_LONGEST_ANSWER]}).encode()
    try:
        done = await run_process([sys.executable, "-I", "-S", "-c", _PROGRAM], input=job, env=minimal_env(), cwd=None, timeout=timeout)
    except Fault as fault:
        what = f"a pattern took longer than {timeout:g} s on this answer" if fault.kind == "timeout" else fault.detail
        raise ScoringError(fault.kind, what) from fault
    if done.code != 0:
        raise ScoringError("judge", f"matching patterns failed: {done.stderr.decode('utf-8', 'replace').strip()[-200:]}")
    return iter(json.loads(done.stdout))
