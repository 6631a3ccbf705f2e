"""Scorers: one by name, any Python function, or any command.

| `spec` | scorer |
|---|---|
| `"exact_match"`, `"contains"`, `"regex"`, `"numeric"`, `"multiple_choice"`, `"json_equal"` | by name |
| `"squad"`, `"anls"` | the measures of SQuAD and DocVQA for short answers |
| `"checks"` | the rules that a task brings along in its field `checks` |
| `"judge"` | a model judges by the task's `rubric`, or against its reference |
| a name of another package | its entry point in the group `skillopt.scorers` |
| a callable `f(task, answer)` | your function, sync or async |
| `"package.module:function"`, `"path/to/file.py:function"` | the same, by name |
| `"cmd: ./score --strict"`, or a list of arguments | your command: JSON on stdin, the score on stdout |

`answer` is the text of the last `<answer>...</answer>` of the reply, or the whole reply without one.

*Graded*: a scorer that gives partial credit and has no pass mark makes the gate read soft. Our own scorers
decide hard themselves and are not graded. A function says so by its return annotation (`float` or `bool`) or
an attribute `graded`; where nothing is said, and for commands, the first scores tell: a number strictly
between 0 and 1 is partial credit. The argument `graded` overrides all of this, and a
`pass_at` makes a scorer not graded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from skillopt.errors import ConfigError, suggest
from skillopt.registry import Registry
from skillopt.tasks.functions import load_function
from skillopt.tasks.scorers._scorer import (
    NamedScorer,
    Scorer,
    as_text,
    extract_answer,
    given_references,
    missed,
    no_answer,
    references,
    rule_of,
    score_trajectory,
)

__all__ = [
    "SCORERS",
    "NamedScorer",
    "Scorer",
    "ScorerSpec",
    "as_text",
    "extract_answer",
    "get_scorer",
    "given_references",
    "missed",
    "no_answer",
    "references",
    "rule_of",
    "score_trajectory",
]

ScorerSpec: TypeAlias = str | Sequence[str] | Callable[..., Any] | Scorer

SCORERS = Registry(
    "scorer",
    group="skillopt.scorers",
    own={
        "exact_match": "skillopt.tasks.scorers.text:ExactMatch",
        "squad": "skillopt.tasks.scorers.text:Squad",
        "anls": "skillopt.tasks.scorers.text:Anls",
        "contains": "skillopt.tasks.scorers.text:Contains",
        "regex": "skillopt.tasks.scorers.patterns:Regex",
        "numeric": "skillopt.tasks.scorers.values:Numeric",
        "multiple_choice": "skillopt.tasks.scorers.label:MultipleChoice",
        "json_equal": "skillopt.tasks.scorers.values:JsonEqual",
        "checks": "skillopt.tasks.scorers.checks:Checks",
        "judge": "skillopt.tasks.scorers.judge:JudgeScorer",
    },
)
"""The scorers that have a name. Ours are classes whose fields are their options; a package may also add a
function of task and answer, or a `Scorer`.
"""


def get_scorer(
    spec: ScorerSpec,
    *,
    pass_at: float | None = None,
    graded: bool | None = None,
    options: Mapping[str, Any] | None = None,
) -> Scorer:
    """The scorer that `spec` means; what cannot work is an error here, not later."""
    from skillopt.tasks.scorers.own import command_scorer, function_scorer

    if pass_at is not None and not 0 < pass_at <= 1:
        raise ConfigError(f"pass_at is {pass_at:g}; a score passes at some value above 0 and up to 1.")
    if graded and pass_at is not None:
        raise ConfigError(
            "A scorer cannot be graded and have pass_at: a pass mark decides hard. Remove one of the two."
        )
    if isinstance(spec, str):
        return _by_text(spec, pass_at, graded, dict(options or {}))
    if isinstance(spec, Scorer):
        why = f"The scorer {spec.name!r} is complete in itself"
        _refuse(why, pass_at=pass_at, graded=graded, options=options)
        return spec
    if callable(spec):
        _refuse("A Python function takes no options", options=options)
        return function_scorer(spec, pass_at=pass_at, graded=graded)
    return command_scorer(spec, pass_at=pass_at, graded=graded, options=dict(options or {}))


def _by_text(spec: str, pass_at: float | None, graded: bool | None, options: dict[str, Any]) -> Scorer:
    from skillopt.tasks.scorers.own import command_scorer, function_scorer

    if spec.startswith("cmd:"):
        return command_scorer(spec.removeprefix("cmd:"), pass_at=pass_at, graded=graded, options=options)
    if ":" in spec:
        _refuse("A Python function takes no options", options=options)
        return function_scorer(load_function(spec, "scorer"), pass_at=pass_at, graded=graded)
    found = SCORERS.get(spec)
    if not (isinstance(found, type) and issubclass(found, NamedScorer)):
        return get_scorer(found, pass_at=pass_at, graded=graded, options=options)
    _refuse(f"The scorer {spec!r} decides itself what passes", pass_at=pass_at, graded=graded)
    return _with_options(found, options)


def _with_options(kind: type[NamedScorer], options: dict[str, Any]) -> Scorer:
    known = [field.name for field in fields(kind)]
    for name in options:
        if name not in known:
            raise ConfigError(f"The scorer {kind.name!r} has no option {name!r}. {suggest(name, known)}")
    try:
        return TypeAdapter(kind).validate_python(options)
    except ValidationError as error:
        first = error.errors()[0]
        option = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"The scorer {kind.name!r} cannot use option {option} = {first['input']!r}: {first['msg']}."
        ) from error


def _refuse(why: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None and value != {}:
            raise ConfigError(f"{why}, so {name} cannot be used with it. Remove {name}.")
