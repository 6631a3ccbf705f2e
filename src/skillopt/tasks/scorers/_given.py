"""Reads checks as they are written into rules - strictly, or one by one where nobody vouches for them - and
tries rules on work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skillopt.errors import suggest
from skillopt.tasks.scorers._regex import DEFAULT_TIMEOUT, fits_schema, matches
from skillopt.tasks.scorers._rules import NO_JSON, RULES, CheckedWork, JsonSchema, Pattern, Rule

MOST_CHECKS = 12
"""Checks of one task that are taken where nobody vouches for them."""
_LONGEST = 400
_LARGEST = 1_000_000_000
_LITERAL = ("regex", "tool_called")
"""Rules whose text means what it says, spaces included."""
_FIELDS = ("op", "arg", "passes", "fails")


def rule_of(check: Any) -> Rule:
    """The rule that a check means. Raises `ValueError` in words for anything that is none: an unknown op is
    never a rule that is kept.
    """
    if not isinstance(check, Mapping) or not isinstance(check.get("op"), str):
        raise ValueError(f'{check!r} is no check; write an object such as {{"op": "contains", "arg": "..."}}')
    op = check["op"]
    if op not in RULES:
        raise ValueError(f"no rule is named {op!r}. {suggest(op, RULES)}".rstrip("."))
    for key in check:
        if key not in _FIELDS:
            raise ValueError(f"{op!r} has no field {key!r}. {suggest(key, _FIELDS)}".rstrip("."))
    try:
        return RULES[op](check.get("arg"))
    except ValueError as error:
        raise ValueError(f"{op!r} {error}, not {check.get('arg')!r}") from error


def read_rules(raw: Any) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """The rules of a list that a model or a file wrote, and one sentence for each entry that is none; no rule
    comes twice.
    """
    if not isinstance(raw, list):
        return (), (f"checks are a list, not {type(raw).__name__}",)
    found: dict[Rule, None] = {}
    problems: list[str] = []
    for place, item in enumerate(raw, start=1):
        try:
            found[_anybodys(item)] = None
        except ValueError as error:
            problems.append(f"check {place}: {str(error)[:300]}")
    if len(found) > MOST_CHECKS:
        problems.append(f"{len(found)} checks are more than {MOST_CHECKS}; the rest is left out")
    return tuple(found)[:MOST_CHECKS], tuple(problems)


async def kept_rules(
    rules: Sequence[Rule], work: CheckedWork, *, whose: str, timeout: float = DEFAULT_TIMEOUT
) -> list[bool]:
    """Whether the work keeps each rule; patterns in a child process that is killed when its time is up, which
    is a `ScoringError`.
    """
    patterns = [rule.arg for rule in rules if isinstance(rule, Pattern)]
    found = iter(await matches(patterns, work.answer, whose=whose, timeout=timeout) if patterns else ())
    kept: list[bool] = []
    for rule in rules:
        if isinstance(rule, Pattern):
            kept.append(next(found))
        elif isinstance(rule, JsonSchema) and (value := rule.value(work)) is not NO_JSON:
            kept.append(await fits_schema(rule.arg, value, whose=whose, timeout=timeout))
        else:
            kept.append(rule.keeps(work))
    return kept


def _anybodys(item: Any) -> Rule:
    """A rule that may be tried whoever wrote it. Its argument is of bounded size, and a whole number may come
    as 1200.0.
    """
    if not isinstance(item, Mapping) or not isinstance(item.get("op"), str):
        return rule_of(item)
    op, arg = item["op"], item.get("arg")
    if op in RULES and not RULES[op].is_for_anybody:
        raise ValueError(f"{op} is only for checks that you wrote yourself")
    if isinstance(arg, str):
        if len(arg) > _LONGEST or "\0" in arg:
            raise ValueError(f"{op} takes a text of at most {_LONGEST} characters")
        arg = arg if op in _LITERAL else arg.strip()
    elif isinstance(arg, float) and arg.is_integer():
        arg = int(arg)
    if isinstance(arg, int) and arg >= _LARGEST:
        raise ValueError(f"{op} takes a number below {_LARGEST:,}")
    return rule_of({"op": op, "arg": None if op == "no_refusal" else arg})
