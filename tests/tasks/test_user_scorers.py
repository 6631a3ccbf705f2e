"""Scorers a user brings: any function, any command. What goes wrong in them is an error of the measurement
and never a zero.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from skillopt.errors import ConfigError, ScoringError
from skillopt.tasks.rollout import Score, Trajectory
from skillopt.tasks.scorers import Scorer, get_scorer, rule_of, score_trajectory
from skillopt.tasks.task import Task

TASK = Task(
    id="t1", prompt="question é", reference=["Paris"], kind="city", data={"level": 2, "path": Path("x")}
)


async def run(scorer: Scorer, answer: str = "<answer>Paris</answer>", task: Task = TASK) -> Score:
    return await score_trajectory(scorer, task, Trajectory(messages=(), answer=answer, calls=1, usage=None))


def returning(value: Any) -> Callable[[Task, str], Any]:
    return lambda task, answer: value


class Scalar:
    """Stands for a numpy scalar, which is neither bool nor float and gives one by `item`."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        return self.value


@pytest.mark.parametrize(
    ("value", "pass_at", "expected"),
    [
        (True, None, (1, 1)),
        (False, None, (0, 0)),
        (True, 0.5, (1, 1)),
        (1.0, None, (1, 1)),
        (0.99, None, (0, 0.99)),
        (0.5, 0.5, (1, 0.5)),
        (0.49, 0.5, (0, 0.49)),
        (0, None, (0, 0)),
        (1, None, (1, 1)),
        (Fraction(1, 2), None, (0, 0.5)),
        (Scalar(True), None, (1, 1)),
        (Scalar(0.25), None, (0, 0.25)),
        (Score(hard=0, soft=0.7, feedback="close"), None, (0, 0.7)),
        (Score(hard=1, soft=0.7), 0.9, (1, 0.7)),
    ],
)
async def test_a_function_returns_a_truth_value_a_number_or_a_score(
    value: Any, pass_at: float | None, expected: tuple[float, float]
) -> None:
    found = await run(get_scorer(returning(value), pass_at=pass_at))
    assert (found.hard, found.soft) == expected
    if isinstance(value, Score):
        assert found.feedback == value.feedback


@pytest.mark.parametrize(
    "value",
    [
        None,
        "1",
        1.5,
        -0.1,
        float("nan"),
        float("inf"),
        {"score": 1},
        [1],
        10**400,
        Score(hard=2, soft=0),
        Score(hard=0, soft=float("nan")),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_what_is_no_score_breaks_the_contract_and_is_never_a_zero(value: Any) -> None:
    with pytest.raises(ScoringError) as caught:
        await run(get_scorer(returning(value)))
    assert caught.value.kind == "contract"
    assert "'t1'" in str(caught.value)


@pytest.mark.parametrize(
    "error", [ValueError("no such sheet"), StopIteration("done"), SystemExit(3), KeyError("x")], ids=repr
)
async def test_a_function_that_raises_is_an_error_with_its_words_and_never_a_zero(
    error: BaseException,
) -> None:
    def sync(task: Task, answer: str) -> bool:
        raise error

    async def later(task: Task, answer: str) -> bool:
        await asyncio.sleep(0)
        raise error

    for function in (sync, later):
        if isinstance(error, StopIteration) and function is later:
            continue  # Python itself turns this one into a RuntimeError
        with pytest.raises(ScoringError) as caught:
            await asyncio.wait_for(run(get_scorer(function)), 5)
        assert caught.value.kind == "judge"
        assert type(error).__name__ in str(caught.value)
        assert str(error) in str(caught.value)


async def test_a_function_may_say_itself_what_went_wrong() -> None:
    def judge(task: Task, answer: str) -> bool:
        raise ScoringError("unavailable", "the judge model is down")

    with pytest.raises(ScoringError) as caught:
        await run(get_scorer(judge))
    assert caught.value.kind == "unavailable"


async def test_a_function_gets_the_task_and_the_extracted_answer() -> None:
    seen: list[Any] = []

    def scorer(task: Task, answer: str) -> bool:
        seen.append((task, answer))
        return True

    await run(get_scorer(scorer), "thinking ... <answer> Paris </answer>")
    assert seen == [(TASK, "Paris")]


async def test_async_functions_objects_and_partials_are_awaited() -> None:
    async def half(task: Task, answer: str, *, value: float = 0.5) -> float:
        await asyncio.sleep(0)
        return value

    class Half:
        async def __call__(self, task: Task, answer: str) -> float:
            return await half(task, answer)

    for function in (
        half,
        Half(),
        functools.partial(half, value=0.5),
        lambda task, answer: half(task, answer),
    ):
        assert (await run(get_scorer(function))).soft == 0.5


async def test_an_awaitable_that_raises_is_an_error_of_the_scorer_too() -> None:
    async def broken(task: Task, answer: str) -> float:
        raise ValueError("late")

    with pytest.raises(ScoringError, match="late"):
        await run(get_scorer(lambda task, answer: broken(task, answer)))


async def test_a_slow_function_does_not_hold_up_the_loop() -> None:
    release = threading.Event()

    def slow(task: Task, answer: str) -> bool:
        return release.wait(5)

    work = asyncio.ensure_future(run(get_scorer(slow)))
    await asyncio.sleep(0.05)
    release.set()  # reached only because the loop is free
    assert (await work).hard == 1


def plain(task: Task, answer: str) -> bool:
    return True


def partial_credit(task: Task, answer: str) -> float:
    return 0.5


def silent(task: Task, answer: str):
    return 0.5


def declared(task: Task, answer: str):
    return 0.5


declared.graded = True  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("function", "arguments", "graded"),
    [
        (plain, {}, False),
        (plain, {"graded": True}, True),
        (partial_credit, {}, True),
        (partial_credit, {"graded": False}, False),
        (partial_credit, {"pass_at": 0.5}, False),
        (declared, {}, True),
        (declared, {"pass_at": 0.5}, False),
        (max, {}, None),
        (silent, {}, None),
        (silent, {"pass_at": 0.5}, False),
    ],
)
def test_a_function_says_whether_it_is_graded_or_leaves_it_to_its_scores(
    function: Any, arguments: dict[str, Any], graded: bool | None
) -> None:
    assert get_scorer(function, **arguments).graded is graded


async def test_a_function_is_found_in_a_file_and_its_version_follows_the_source(tmp_path: Path) -> None:
    file = tmp_path / "my score.py"
    file.write_text("def right(task, answer) -> float:\n    return float(answer in task.reference)\n")
    scorer = get_scorer(f"{file}:right")
    assert (await run(scorer)).hard == 1
    assert scorer.graded
    assert get_scorer(f"{file}:right").version == scorer.version
    assert get_scorer(f"{file}:right", pass_at=0.5).version != scorer.version
    file.write_text("def right(task, answer) -> float:\n    return 0.0  # another rule\n")
    again = get_scorer(f"{file}:right")
    assert again.version != scorer.version
    assert (await run(again)).hard == 0


async def test_a_function_is_found_in_a_module() -> None:
    assert (await run(get_scorer("operator:is_"))).hard == 0
    with pytest.raises(ConfigError, match="Did you mean 'is_'"):
        get_scorer("operator:iss_")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("no_such_module_x:score", "No module named 'no_such_module_x'"),
        ("{folder}/missing.py:score", "there is no file"),
        ("{folder}/broken.py:score", "ZeroDivisionError"),
        ("{folder}/fine.py:scoer", "Did you mean 'score'"),
        ("{folder}/fine.py:VALUE", "is no function"),
    ],
)
def test_a_function_that_is_not_there_is_refused_at_load(tmp_path: Path, spec: str, words: str) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "fine.py").write_text("VALUE = 3\ndef score(task, answer): return True\n")
    with pytest.raises(ConfigError, match=words):
        get_scorer(spec.format(folder=tmp_path))


def test_a_function_without_a_source_file_still_has_a_stable_version() -> None:
    def typed_in(body: str) -> Any:
        space: dict[str, Any] = {}
        exec(f"def f(task, answer):\n    return {body}", space)
        return space["f"]

    member = "answer in {'a', 'b', 'c'} and (lambda: 1)()"
    assert get_scorer(typed_in(member)).version == get_scorer(typed_in(member)).version
    assert get_scorer(typed_in("answer == 'a'")).version != get_scorer(typed_in("answer == 'b'")).version


def script(folder: Path, body: str) -> list[str]:
    file = folder / "score it.py"
    file.write_text(f"import json, os, sys, time\njob = json.load(sys.stdin)\n{body}\n")
    return [sys.executable, "-I", "-S", str(file)]


@pytest.mark.parametrize(
    ("body", "expected", "feedback"),
    [
        ("print(0.25)", (0, 0.25), ""),
        ("print(1)", (1, 1), ""),
        ("print('true')", (1, 1), ""),
        ("print(False)", (0, 0), ""),
        ("print(json.dumps({'hard': 0, 'soft': 0.5, 'feedback': 'close'}, indent=1))", (0, 0.5), "close"),
        ("print(json.dumps({'hard': True, 'soft': 0.5}))", (1, 0.5), ""),
        ("print(json.dumps({'score': 0.6, 'feedback': 'é'}))", (0, 0.6), "é"),
        ("print(json.dumps({'score': True}))", (1, 1), ""),
        ("print('working', file=sys.stderr); print(1.0)", (1, 1), ""),
        ("print(float(job['answer'] in job['task']['reference']))", (1, 1), ""),
    ],
)
async def test_a_command_prints_its_score(
    tmp_path: Path, body: str, expected: tuple[float, float], feedback: str
) -> None:
    found = await run(get_scorer(script(tmp_path, body)))
    assert (found.hard, found.soft, found.feedback) == (*expected, feedback)


async def test_a_command_gets_the_task_and_the_answer_as_json(tmp_path: Path) -> None:
    found = await run(
        get_scorer(script(tmp_path, "print(json.dumps({'score': 1, 'feedback': json.dumps(job)}))"))
    )
    assert json.loads(found.feedback) == {
        "task": {
            "id": "t1",
            "prompt": "question é",
            "reference": ["Paris"],
            "kind": "city",
            "data": {"level": 2, "path": "x"},
        },
        "answer": "Paris",
    }


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("sys.exit('sheet is broken')", "judge", "code 1: sheet is broken"),
        ("sys.exit(2)", "judge", "nothing on stderr"),
        ("pass", "contract", "printed ''"),
        ("print('good'); print(1)", "contract", "print the score and nothing else"),
        ("print(1.5)", "contract", "between 0 and 1"),
        ("print('NaN')", "contract", "between 0 and 1"),
        ("print('null')", "contract", "None"),
        ("print(json.dumps({'hard': 1}))", "contract", "[hard]"),
        ("print(json.dumps({'score': 1, 'soft': 1}))", "contract", "[score, soft]"),
        ("print(json.dumps({'hard': 1, 'soft': 'high'}))", "contract", "'high'"),
        ("print('x' * 2_000_000)", "contract", "xxx..."),
        ("time.sleep(30)", "timeout", "did not end within 0.5 s"),
    ],
)
async def test_a_command_that_fails_is_an_error_and_never_a_zero(
    tmp_path: Path, body: str, kind: str, words: str
) -> None:
    options = {"timeout": 0.5} if kind == "timeout" else {}
    with pytest.raises(ScoringError) as caught:
        await run(get_scorer(script(tmp_path, body), options=options))
    assert caught.value.kind == kind
    assert words in str(caught.value)
    assert "'t1'" in str(caught.value)


async def test_a_command_that_vanishes_during_the_run_is_a_spawn_error(tmp_path: Path) -> None:
    program = tmp_path / "score"
    program.write_text("#!/bin/sh\necho 1\n")
    program.chmod(0o755)
    scorer = get_scorer([str(program)])
    program.unlink()
    with pytest.raises(ScoringError) as caught:
        await run(scorer)
    assert caught.value.kind == "spawn"


async def test_a_command_line_is_split_like_a_shell_would_but_no_shell_runs_it(tmp_path: Path) -> None:
    argv = script(tmp_path, "print(json.dumps({'score': 1, 'feedback': sys.argv[1]}))")
    line = f"cmd: {shlex.join(argv)} '; echo $HOME'"
    assert (await run(get_scorer(line))).feedback == "; echo $HOME"


async def test_a_command_never_sees_our_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-for-scorers")
    found = await run(
        get_scorer(script(tmp_path, "print(json.dumps({'score': 1, 'feedback': ' '.join(os.environ)}))"))
    )
    assert "PATH" in found.feedback.split()
    assert "ANTHROPIC_API_KEY" not in found.feedback.split()


@pytest.mark.parametrize(
    ("spec", "arguments", "words"),
    [
        ("cmd: no-such-program --x", {}, "there is no program 'no-such-program'"),
        ("cmd:", {}, "names no program"),
        ([], {}, "names no program"),
        ("cmd: 'unclosed", {}, "Close the quotes"),
        (f"cmd: {shlex.quote(sys.executable)}", {"options": {"timout": 3}}, "Did you mean 'timeout'"),
        (f"cmd: {shlex.quote(sys.executable)}", {"options": {"timeout": "long"}}, "'long'"),
        (f"cmd: {shlex.quote(sys.executable)}", {"options": {"timeout": -1}}, "-1"),
        (
            f"cmd: {shlex.quote(sys.executable)}",
            {"graded": True, "pass_at": 0.5},
            "cannot be graded and have pass_at",
        ),
    ],
)
def test_a_command_that_cannot_work_is_refused_at_load(
    spec: Any, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        get_scorer(spec, **arguments)


def test_a_command_s_version_follows_the_script_and_it_is_graded_only_when_said(tmp_path: Path) -> None:
    first = get_scorer(script(tmp_path, "print(1)"))
    assert get_scorer(script(tmp_path, "print(1)")).version == first.version
    assert get_scorer(script(tmp_path, "print(0)")).version != first.version
    assert not first.graded
    assert get_scorer(script(tmp_path, "print(1)"), graded=True).graded


async def test_commands_run_side_by_side(tmp_path: Path) -> None:
    """Each command waits until another one has started: one after the other they would never end."""
    met = tmp_path / "met"
    met.mkdir()
    meet = f"import pathlib; here = pathlib.Path(r'{met}'); (here / str(os.getpid())).touch()\n"
    waiting = script(tmp_path, meet + "while len(list(here.iterdir())) < 2: time.sleep(0.01)\nprint(1)")
    # inside it nobody could leave a file for another
    scorer = get_scorer(waiting, options={"sandbox": "off"})
    await asyncio.gather(*(run(scorer) for _ in range(2)))


@pytest.mark.slow
def test_two_closures_of_one_line_are_two_scorers_and_the_version_is_the_same_in_every_process():
    def make(mark):
        return lambda task, answer: mark in answer

    versions = {get_scorer(make(mark)).version for mark in ("a", "b")}
    assert len(versions) == 2
    assert get_scorer(make({"x", "y", "z"})).version == get_scorer(make({"z", "y", "x"})).version
    one, other = functools.partial(max, 1), functools.partial(max, 2)
    assert get_scorer(one).version != get_scorer(other).version
    script = (
        "from skillopt.tasks.scorers import get_scorer\n"
        "marks = {'x', 'y', 'z', 'w'}\n"
        "print(get_scorer((lambda m: lambda t, a: a in m)(marks)).version)"
    )
    printed = set()
    for seed in ("1", "2", "3"):
        child = {**os.environ, "PYTHONHASHSEED": seed}
        printed.add(
            subprocess.run(
                [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=child
            ).stdout
        )
    assert len(printed) == 1


def strict(task: Task, answer: str) -> bool:
    """Letter by letter.

    Slow, too.
    """
    return False


class Ruler:
    """To the millimetre."""

    def __call__(self, task: Task, answer: str) -> bool:
        return False


@pytest.mark.parametrize(
    ("spec", "options", "rule"),
    [
        ("exact_match", {}, "The answer equals an acceptable one, apart from white space at the ends."),
        (
            "exact_match",
            {"ignore_case": True},
            "The answer equals an acceptable one, apart from white space at the ends. (ignore_case: True)",
        ),
        ("judge", {"rubric": "Secret."}, "A model judges the answer."),
        (strict, {}, "Letter by letter."),
        (functools.partial(strict), {}, "Letter by letter."),
        (Ruler(), {}, "To the millimetre."),
        (lambda task, answer: True, {}, ""),
        (f"cmd: {shlex.quote(sys.executable)}", {}, ""),
    ],
)
def test_a_scorer_says_its_rule_in_words_and_no_rubric(spec: Any, options: dict[str, Any], rule: str) -> None:
    assert rule_of(get_scorer(spec, options=options)) == rule
