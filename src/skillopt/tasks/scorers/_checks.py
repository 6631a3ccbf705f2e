"""Scores by rules that a task brings along: each is read, and shown that it can pass and can fail, before
anything is paid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import Field

from skillopt.errors import ConfigError, TaskError
from skillopt.tasks.protected import Protected
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers._given import kept_rules, rule_of
from skillopt.tasks.scorers._regex import DEFAULT_TIMEOUT
from skillopt.tasks.scorers._rules import (
    CheckedWork,
    ContainsRule,
    MaxChars,
    MinChars,
    NotContains,
    Pattern,
    Rule,
    SectionContains,
    SectionPresent,
)
from skillopt.tasks.scorers._scorer import NamedScorer, extract_answer
from skillopt.tasks.task import Task


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
        return Protected(patterns=tuple(str(rule.arg) for rule in self.rules(task) if not rule.is_criterion))

    def rules(self, task: Task) -> list[Rule]:
        """The rules of a task, in order."""
        return [rule_of(check) for check in self._given(task)]

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Try every rule on the answer and the tools that were called; patterns in a child process that is
        killed when its time is up.
        """
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
    if passing is None and "passes" not in check and isinstance(rule, Pattern):
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
    """Two rules that no answer keeps together, as far as that can be told from their arguments; empty where
    none was found.
    """
    least: list[tuple[Rule, int]] = [(rule, rule.arg) for rule in rules if isinstance(rule, MinChars)]
    least += [(rule, len(rule.wanted)) for rule in rules if isinstance(rule, ContainsRule)]
    texts = [rule for rule in rules if isinstance(rule, (ContainsRule, SectionPresent, SectionContains))]
    for rule in rules:
        clash: Rule | None = None
        if isinstance(rule, MaxChars):
            clash = next((other for other, size in least if size > rule.arg), None)
        elif isinstance(rule, NotContains):
            clash = next((text for text in texts if rule.wanted in text.wanted), None)
        if clash is not None:
            return f"{rule} and {clash}"
    return ""
