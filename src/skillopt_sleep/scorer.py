"""The scorer of a night's tasks."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

from skillopt.changes import StoredRecord
from skillopt.errors import ScoringError, TaskError
from skillopt.tasks.judge import Judge
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers import extract_answer
from skillopt.tasks.scorers.checks import Checks, read_rules
from skillopt.tasks.scorers.judge import judged_score
from skillopt.tasks.scorers.rules import CheckedWork, Rule
from skillopt.tasks.task import Task
from skillopt_sleep.wording import words_of
from skillopt_sleep.worktrees import TESTS, WORKTREE, record_of_rollout

MOST_CRITERIA = 8
_REVISION = 4
_BULLET = re.compile(r"^[\s>*•+-]*(?:\d{1,2}[.)]\s+)?")


class NightScorer:
    """Scores a night's tasks. Their reference is `{"checks": [...], "rubric": "..."}`, one of them given;
    `formal` in their data are the points of the rubric that see form alone.
    """

    name = "mined"
    graded = False

    def __init__(self) -> None:
        self._by_rule = Checks()

    @property
    def version(self) -> str:
        """Changes with this module's rules and with the scorers behind it; the evaluator adds the judge's."""
        return json.dumps([self.name, _REVISION, self._by_rule.version])

    def check_task(self, task: Task) -> None:
        """The task has checks that can be read, or a rubric."""
        checks, criteria = _read(task)
        if not checks and not criteria:
            raise TaskError(f"Task {task.id!r} has neither checks nor a rubric. Give it one of them.")

    async def score(self, task: Task, trajectory: Trajectory) -> Score:
        """Score by checks alone; a rubric without a judge is no score."""
        return await self.score_with(None, task, trajectory)

    async def score_with(self, judge: Judge | None, task: Task, trajectory: Trajectory) -> Score:
        """Hard when all checks hold and all points of the rubric are met. Soft is the share of what sees form
        or the share of what tells, whichever is less: form alone earns nothing.
        """
        checks, criteria = _read(task)
        if WORKTREE in task.data:
            if failing := trajectory.outcome.get(TESTS):
                return Score(hard=0.0, soft=0.0, feedback=f"The tests fail after the work: {failing}")
            record = record_of_rollout(trajectory)
            trajectory = replace(trajectory, answer=record, messages=(), files={})
        guards = Guards.model_validate(task.data.get("guards") or {})
        if failing := guards.failing(task.prompt, extract_answer(trajectory.answer)):
            return Score(hard=0.0, soft=0.0, feedback=failing)
        # The reference of a mined task is how it is measured, not a result that a judge should see.
        measured = replace(task, reference=None, data={"checks": checks, "rubric": criteria})
        form: list[tuple[Score, int]] = []
        if checks:
            form.append((await self._by_rule.score(measured, trajectory), len(checks)))
        substance: Score | None = None
        if criteria:
            if judge is None:
                raise ScoringError("judge", f"task {task.id!r} has a rubric and there is no judge")
            if is_no_answer(trajectory.answer):  # whoever judges, that meets no point
                return Score(hard=0.0, soft=0.0, feedback="There is no answer to judge.")
            found = list(zip(criteria, await judge.check(measured, trajectory, criteria), strict=True))
            formal = [one for one in found if one[0] in task.data.get("formal", ())]
            form += [(judged_score(formal), len(formal))] if formal else []
            telling = [one for one in found if one not in formal]
            substance = judged_score(telling) if telling else None
        every = [*(score for score, _ in form), *([substance] if substance is not None else [])]
        shares = [substance.soft] if substance is not None else []
        if form:
            shares.append(sum(score.soft * count for score, count in form) / sum(count for _, count in form))
        return Score(
            hard=min(score.hard for score in every),
            soft=min(shares),
            feedback=" ".join(score.feedback for score in every if score.feedback),
        )


def criteria_of(rubric: str) -> list[str]:
    """The points of a rubric, one a line, each once."""
    lines = (_BULLET.sub("", line, count=1).strip() for line in rubric.splitlines())
    return list(dict.fromkeys(line for line in lines if line))[:MOST_CRITERIA]


def has_rubric(task: Task) -> bool:
    """Whether an answer to a mined task needs a judge."""
    return bool(_read(task)[1])


def is_no_answer(answer: str) -> bool:
    """Nothing at all, or a short text that opens as refusals do."""
    return not Rule("no_refusal").keeps(CheckedWork(answer=extract_answer(answer)))


def _read(task: Task) -> tuple[list[dict[str, Any]], list[str]]:
    reference = task.reference
    if not isinstance(reference, Mapping):
        raise TaskError(f"Task {task.id!r}: the reference is no object with checks or a rubric. Correct it.")
    rules, problems = read_rules(reference.get("checks") or [])
    if problems:
        raise TaskError(f"Task {task.id!r}: {'; '.join(problems)}. Correct it.")
    return [rule.as_json() for rule in rules], criteria_of(str(reference.get("rubric") or ""))


_MOST_WORDS = 60
_ACCIDENT = 0.2
"""Share of answers to other requests that may be about this one by accident."""
_ECHO = 0.7
"""Share of an answer's runs of four words that may stand in the request."""
_HEADING = re.compile(r"^(?:#{1,6}\s+\S.*|\*\*[^*\n]+\*\*:?|[^\W\d_][\w ]{0,40}:)\s*$")
_TOKEN = re.compile(r"\w+")
_PREFIX = 6
"""Letters by which words are compared, so that endings do not count."""


class Guards(StoredRecord):
    """What an answer to a task must be beside its measure. `least` of the `words` make it about the task."""

    words: tuple[str, ...] = ()
    least: int = 0
    own_words: bool = False
    filled: bool = False
    lines: tuple[str, ...] = ()
    """Of work in a repository the lines that its record must hold."""

    def failing(self, prompt: str, answer: str) -> str:
        """Why the text is no answer to this request; empty where it may be one."""
        if missing := set(self.lines) - set(answer.splitlines()):
            return f"What was asked for was not done: {', '.join(sorted(missing))}."
        if self.least and _met(self.words, answer) < self.least:
            return "The answer is not about this request."
        if self.own_words and is_echo(prompt, answer):
            return "The answer only says the request back."
        if self.filled and has_empty_section(answer):
            return "A section of the answer is empty."
        return ""


def guards_of(asked: Sequence[tuple[str, Sequence[str]]]) -> list[Guards]:
    """The guards of each request of a kind, which comes with its accepted answers."""
    words = _distinctive([prompt for prompt, _ in asked])
    answers = [(place, text) for place, (_, texts) in enumerate(asked) for text in texts]
    own_words = _kept(len(asked), [(place, not is_echo(asked[place][0], text)) for place, text in answers])
    filled = _kept(len(asked), [(place, not has_empty_section(text)) for place, text in answers])
    # A small number stands in many an answer by accident: it counts only where no name tells.
    named = [tuple(word for word in mine if len(word) > 2 or not word.isdigit()) for mine in words]
    tries = ((one, least) for one in (named, words) for least in (2, 1))
    tried = ((one, least, _telling(one, answers, least)) for one, least in tries)
    found, least, tells = max(tried, key=lambda each: sum(each[2]))
    return [
        Guards(
            words=mine if tells[place] else (),
            least=min(least, len(mine)) if tells[place] else 0,
            own_words=own_words[place],
            filled=filled[place],
        )
        for place, mine in enumerate(found)
    ]


def lazy_answers(asked: Sequence[tuple[str, str]]) -> list[str]:
    """Answers to the last request that nobody worked for, made of its words and of accepted answers; a
    measure that is content with one sees form alone. `asked` are requests with an accepted answer, from old
    to new; nothing can be made of a single one.
    """
    prompt, accepted = asked[-1] if asked else ("", "")
    prompts = [one for one, _ in asked]
    copied = next((place for place in reversed(range(len(asked))) if prompts[place] != prompt), None)
    if copied is None:
        return []
    words = list(dict.fromkeys(_TOKEN.findall(prompt[:20_000])))[:_MOST_WORDS][::-1]
    heads = [line for line in accepted.splitlines() if _HEADING.match(line.strip())]
    stuffed = "\n\n".join(f"{head}\n\n- {' '.join(words)}" for head in heads) or " ".join(words)
    both = asked[copied][0], prompt
    theirs, ours = (
        [word for word in _TOKEN.findall(text) if _folded(word) in distinctive]
        for text, distinctive in zip(both, _distinctive(both), strict=True)
    )
    own = {_folded(word): mine for word, mine in zip(dict.fromkeys(theirs), cycle(ours or words))}
    filled = _TOKEN.sub(lambda found: own.get(_folded(found[0]), found[0]), asked[copied][1])
    if filled == asked[copied][1]:
        filled = f"{filled}\n{' '.join(words)}"
    return [stuffed, filled]


def lines_of_work(prompt: str, records: Sequence[str]) -> tuple[str, ...]:
    """The files that a request names and that were changed for it, as the lines of every such record."""
    kept = [{line for line in record.splitlines() if line.startswith("~ ")} for record in records]
    common = set.intersection(*kept) if kept else set()
    return tuple(sorted(line for line in common if line.removeprefix("~ ") in prompt))


def is_echo(prompt: str, answer: str) -> bool:
    """Whether an answer is mostly the request's own words in their order."""
    asked, answered = _runs(prompt), _runs(answer)
    return bool(answered) and len(answered & asked) / len(answered) > _ECHO


def has_empty_section(answer: str) -> bool:
    """Whether a heading has nothing below it: the next one follows, or the end."""
    lines = [line for line in answer.splitlines() if line.strip()]
    heads = [bool(_HEADING.match(line.strip())) for line in lines]
    levels = [len(line) - len(line.lstrip("#")) for line in lines]
    for place, is_head in enumerate(heads):
        following = place + 1
        if is_head and following == len(lines):
            return True
        # A heading may hold smaller ones.
        if is_head and heads[following] and not 0 < levels[place] < levels[following]:
            return True
    return False


def _distinctive(prompts: Sequence[str]) -> list[tuple[str, ...]]:
    """The rare words of each request: long words that at most a third of the requests (or one) contain."""
    found = [frozenset(_long(prompt)) for prompt in prompts]
    spread = Counter(word for words in found for word in words)
    most = max(1, len(set(prompts)) // 3)
    return [tuple(sorted(word for word in words if spread[word] <= most)[:_MOST_WORDS]) for words in found]


def _kept(count: int, kept: Sequence[tuple[int, bool]]) -> list[bool]:
    """For which of so many requests a guard is used, by whether each accepted answer keeps it: for all but
    those with one that does not, if most of all answers do.
    """
    broken = {place for place, is_kept in kept if not is_kept}
    is_used = 2 * sum(is_kept for _, is_kept in kept) > len(kept)
    return [is_used and place not in broken for place in range(count)]


def _telling(words: Sequence[Sequence[str]], answers: Sequence[tuple[int, str]], least: int) -> list[bool]:
    """For which requests so many of its words tell an answer to it from one to another request."""
    own = [(place, _met(words[place], text) >= least) for place, text in answers]
    others = [
        _met(mine, text) >= min(least, len(mine))
        for place, text in answers
        for other, mine in enumerate(words)
        if other != place and mine != words[place]
    ]
    if not others or sum(others) > _ACCIDENT * len(others):
        return [False] * len(words)
    return _kept(len(words), own)


def _met(words: Sequence[str], answer: str) -> int:
    return len(frozenset(words) & frozenset(_long(answer)))


def _long(text: str) -> list[str]:
    """Words and numbers that may name a subject; a pair of characters does where words are not spaced."""
    return [
        _folded(word)
        for word in words_of(text[:20_000].casefold(), _TOKEN)
        if len(word) >= 4 or any(char.isdigit() for char in word) or not word.isascii()
    ]


def _folded(word: str) -> str:
    return word.casefold()[:_PREFIX]


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = words_of(text[:20_000].casefold())
    return frozenset(zip(words, words[1:], words[2:], words[3:], strict=False))
