"""Scores by rules that a task brings along: each check is read into a rule, strictly or one by one where
nobody vouches for it, and shown that it can pass and can fail, before anything is paid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import Field

from skillopt.errors import ConfigError, TaskError, suggest
from skillopt.tasks.protected import Protected
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers._scorer import NamedScorer, extract_answer
from skillopt.tasks.scorers.patterns import DEFAULT_TIMEOUT, fits_schema, matches
from skillopt.tasks.scorers.rules import NO_JSON, RULES, CheckedWork, Rule, json_value
from skillopt.tasks.task import Task

MOST_CHECKS = 12
"""Checks of one task that are taken where nobody vouches for them."""
_LONGEST = 400
_LARGEST = 1_000_000_000
_LITERAL = ("regex", "tool_called")
"""Rules whose text means what it says, spaces included."""
_FIELDS = ("op", "arg", "passes", "fails")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks(NamedScorer):
    """A list of checks per task: hard when all are kept, soft the share of them.

    A task's checks stand in its field `checks` (or `judge: {kind: rule, checks: [...]}`) as `{"op": ...,
    "arg": ...}`; the option `checks` adds some to every task. `passes` and `fails` in a check are texts of
    yours that it must pass and fail. `timeout` limits the patterns of one answer, in seconds.
    """

    name: ClassVar[str] = "checks"
    revision: ClassVar[int] = 3
    checks: list[dict[str, Any]] = field(default_factory=list)
    timeout: Annotated[float, Field(gt=0)] = DEFAULT_TIMEOUT

    def check_task(self, task: Task) -> None:
        """Every check can be read, can pass and can fail, and no two contradict each other."""
        checks = self._given(task)
        if not checks:
            raise task.error('has no checks. Give it a field checks: [{"op": "contains", "arg": "..."}].')
        rules = []
        for place, check in enumerate(checks, start=1):
            try:
                rules.append(rule_of(check))
                _try_out(rules[-1], check)
            except (ValueError, ConfigError) as error:
                raise TaskError(f"Task {task.id!r}, check {place}: {error}.") from error
        if trouble := _contradiction(rules):
            raise task.error(f"is contradictory: no answer can keep both {trouble}. Remove one of them.")

    def protected(self, task: Task) -> Protected:
        """The patterns; what the other checks ask for, a skill may say."""
        return Protected(
            patterns=tuple(str(rule.arg) for rule in self.rules(task) if not rule.kind.is_criterion)
        )

    def rules(self, task: Task) -> list[Rule]:
        """The rules of a task, in order."""
        return [rule_of(check) for check in self._given(task)]

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Try every rule on the answer and the tools called; patterns in a child with a time limit."""
        called = tuple(call.name for message in trajectory.messages for call in message.tool_calls)
        work = CheckedWork(answer=extract_answer(trajectory.answer), tools=called)
        rules = self.rules(task)
        kept = await kept_rules(rules, work, whose=f"task {task.id!r}", timeout=self.timeout)
        broken = [str(rule) for rule, is_kept in zip(rules, kept, strict=True) if not is_kept]
        feedback = f"{len(broken)} of {len(rules)} checks failed: {'; '.join(broken)}." if broken else ""
        return Score(hard=float(not broken), soft=sum(kept) / len(kept), feedback=feedback)

    def _given(self, task: Task) -> list[Any]:
        judge = task.data.get("judge")
        given = judge.get("checks") if isinstance(judge, Mapping) else task.data.get("checks")
        given = [] if given is None else given
        if not isinstance(given, Sequence) or isinstance(given, str):
            kind = type(given).__name__
            raise task.error(f"has checks that are {kind}; write a list of objects with op and arg.")
        return [*self.checks, *given]


def _try_out(rule: Rule, check: Mapping[str, Any]) -> None:
    """A rule that cannot fail measures nothing, and one that cannot pass fails everybody."""
    passing, failing = rule.samples()
    for name, wanted in (("passes", True), ("fails", False)):
        if name in check:
            if not isinstance(check[name], str):
                raise ValueError(f"{name!r} of {rule} is no text")
            if rule.keeps(CheckedWork(answer=check[name])) is not wanted:
                found = "fails" if wanted else "passes"
                raise ValueError(f"{rule} {found} its own example {check[name]!r}, which it should not")
    if passing is None and "passes" not in check and rule.name == "regex":
        raise ValueError(
            f'no text was found that passes {rule}; if there is one, add it to the check as "passes"'
        )
    if failing is None and "fails" not in check:
        raise ValueError(
            f"no text was found that fails {rule}, so it measures nothing; if there is one, add it to the"
            ' check as "fails"'
        )
    for sample, wanted in ((passing, True), (failing, False)):
        if sample is not None and rule.keeps(sample) is not wanted:
            raise ValueError(f"{rule} can never {'pass' if wanted else 'fail'}")


def _contradiction(rules: Sequence[Rule]) -> str:
    """Two rules that no answer keeps together, as far as their arguments tell; or nothing."""
    least: list[tuple[Rule, int]] = [(rule, rule.arg) for rule in rules if rule.name == "min_chars"]
    least += [(rule, len(rule.wanted)) for rule in rules if rule.name == "contains"]
    texts = [rule for rule in rules if rule.name in ("contains", "section_present", "section_contains")]
    for rule in rules:
        clash: Rule | None = None
        if rule.name == "max_chars":
            clash = next((other for other, size in least if size > rule.arg), None)
        elif rule.name == "not_contains":
            clash = next((text for text in texts if rule.wanted in text.wanted), None)
        if clash is not None:
            return f"{rule} and {clash}"
    return ""


def rule_of(check: Any) -> Rule:
    """The rule that a check means. Raises `ValueError` in words: an unknown op is never kept."""
    if not isinstance(check, Mapping) or not isinstance(check.get("op"), str):
        raise ValueError(f'{check!r} is no check; write an object such as {{"op": "contains", "arg": "..."}}')
    op = check["op"]
    if op not in RULES:
        raise ValueError(f"no rule is named {op!r}. {suggest(op, RULES)}".rstrip("."))
    for key in check:
        if key not in _FIELDS:
            raise ValueError(f"{op!r} has no field {key!r}. {suggest(key, _FIELDS)}".rstrip("."))
    try:
        return Rule(op, check.get("arg"))
    except ValueError as error:
        raise ValueError(f"{op!r} {error}, not {check.get('arg')!r}") from error


def read_rules(raw: Any) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """The rules of a list that anybody wrote, none twice, and a sentence for each entry that is none."""
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
    """Whether the work keeps each rule. Patterns run in a child; out of time is a `ScoringError`."""
    patterns = [rule.arg for rule in rules if rule.name == "regex"]
    found = iter(await matches(patterns, work.answer, whose=whose, timeout=timeout) if patterns else ())
    kept: list[bool] = []
    for rule in rules:
        if rule.name == "regex":
            kept.append(next(found))
        elif rule.name == "json_schema" and (value := json_value(work)) is not NO_JSON:
            kept.append(await fits_schema(rule.arg, value, whose=whose, timeout=timeout))
        else:
            kept.append(rule.keeps(work))
    return kept


def _anybodys(item: Any) -> Rule:
    """A rule that may be tried whoever wrote it: of bounded size, whole numbers also as 1200.0."""
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
