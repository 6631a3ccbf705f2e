"""An agent of one's own as the target: a function, a program, a service. What it does wrong has its kind."""

from __future__ import annotations

import asyncio
import functools
import http.server
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import skillopt
from skillopt.config.load import load
from skillopt.errors import ConfigError, UsageError
from skillopt.evaluation.runner import PlannedRow
from skillopt.harnesses import harnesses
from skillopt.harnesses._own_agent import answered
from skillopt.harnesses.function import FunctionTarget
from skillopt.messages import Message, ToolCall, Usage
from skillopt.models.world.rules import CASE, code_of, is_solved
from skillopt.run import OpenRun, open_run, prepare
from skillopt.tasks.rollout import Invalid, Rollout, Scored, Trajectory
from skillopt.tasks.task import Task

WORLD = [
    "env.name=world",
    "env.train_cases=3",
    "env.val_cases=6",
    "env.test_cases=0",
    "model.optimizer=world",
]
posix = pytest.mark.skipif(os.name == "nt", reason="scripts with a shebang")


def solve(prompt: str, skill: str) -> str:
    """What the simulated target would answer."""
    found = CASE.search(prompt)
    assert found is not None
    return code_of(found[0]) if is_solved(found[0], skill) else "unknown"


def run_of(tmp_path: Path, target: str, *options: str) -> Any:
    job = prepare(
        load(None, flags={}, options=[*WORLD, f"model.target={target}", *options], environ={}, cwd=tmp_path)
    )
    return open_run(job, tmp_path / "run", {})


async def measure(made: OpenRun, number: int = 0) -> Rollout:
    row = PlannedRow(task=made.job.splits.train[number])
    skill = made.job.skill.rendered
    return await made.evaluator.measure(skill, row, stage="rollout")


async def one(tmp_path: Path, agent: Callable[..., Any], *options: str) -> Rollout:
    """A rollout of a function."""
    with harnesses.lend("mine", FunctionTarget(agent)):
        async with run_of(tmp_path, "mine/world", *options) as made:
            return await measure(made)


async def invalid(tmp_path: Path, agent: Callable[..., Any], *options: str) -> Invalid:
    outcome = await one(tmp_path, agent, *options)
    assert isinstance(outcome, Invalid)
    return outcome


async def scored(tmp_path: Path, agent: Callable[..., Any], *options: str) -> Trajectory:
    outcome = await one(tmp_path, agent, *options)
    assert isinstance(outcome, Scored)
    return outcome.trajectory


def plain(task: Task, skill: str) -> str:
    return solve(task.prompt, skill)


async def awaited(task: Task, skill: str) -> str:
    await asyncio.sleep(0)
    return solve(task.prompt, skill)


class Called:
    def __call__(self, task: Task, skill: str) -> dict[str, Any]:
        return {"answer": solve(task.prompt, skill)}

    async def later(self, tone: str, task: Task, skill: str) -> Trajectory:
        return Trajectory(messages=(), answer=solve(task.prompt, skill), calls=1, usage=None)


@pytest.mark.parametrize(
    "agent",
    [
        plain,
        awaited,
        Called(),
        functools.partial(Called().later, "kind"),
        lambda task, skill: awaited(task, skill),
    ],
)
async def test_any_callable_is_measured_like_the_model_it_stands_for(
    tmp_path: Path, agent: Callable[..., Any]
) -> None:
    options = {"env.train_cases": 1, "env.val_cases": 12, "env.test_cases": 0}
    (own,) = await skillopt.aevaluate(
        "none", benchmark="world", target=agent, split="val", out=tmp_path / "own", options=options
    )
    (model,) = await skillopt.aevaluate(
        "none", benchmark="world", target="world:noise=0", split="val", out=tmp_path / "m", options=options
    )
    assert (own.hard, own.n) == (model.hard, model.n) and own.invalid == 0


async def test_the_agent_sees_no_reference_and_nothing_else_that_only_the_scorer_knows(
    tmp_path: Path,
) -> None:
    seen: list[Task] = []

    def agent(task: Task, skill: str) -> str:
        seen.append(task)
        return "x"

    await scored(tmp_path, agent)
    assert seen[0].reference is None
    assert list(seen[0].data) == ["instructions"] and "<answer>" in seen[0].data["instructions"]


ERRORS: list[tuple[BaseException, str]] = [
    (ValueError("my agent fell over"), "contract"),
    (TimeoutError("no answer"), "timeout"),
    (ConnectionResetError("gone"), "unavailable"),
    (RuntimeError("Error code: 429 - too many requests"), "rate_limit"),
    (RuntimeError("Error code: 401 - invalid api key"), "auth"),
    (FileNotFoundError(2, "No such file", "memory.json"), "contract"),
]


@pytest.mark.parametrize(
    ("error", "kind", "is_async"),
    [
        *((error, kind, is_async) for error, kind in ERRORS for is_async in (False, True)),
        (SystemExit(1), "contract", False),  # asyncio lets neither of these through by itself
        (StopIteration(), "contract", False),
    ],
)
async def test_what_an_agent_raises_is_no_measurement_and_has_its_kind(
    tmp_path: Path, error: BaseException, kind: str, is_async: bool
) -> None:
    def fails(task: Task, skill: str) -> str:
        raise error

    async def fails_later(task: Task, skill: str) -> str:
        raise error

    lost = await invalid(tmp_path, fails_later if is_async else fails)
    assert lost.kind == kind
    assert type(error).__name__ in lost.detail and "test_own_agent.py:" in lost.detail


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_agent_that_hangs_is_left_behind_after_its_time(tmp_path: Path, is_async: bool) -> None:
    freed = threading.Event()

    def hangs(task: Task, skill: str) -> str:
        freed.wait(60)
        return "late"

    async def hangs_and_refuses_to_end(task: Task, skill: str) -> str:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(60)
        return "late"

    began = time.monotonic()
    agent = hangs_and_refuses_to_end if is_async else hangs
    lost = await invalid(tmp_path, agent, "model.target.timeout=0.2")
    freed.set()
    assert lost.kind == "timeout" and "model.target.timeout" in lost.detail
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "returned nothing"),
        (3, "returned int '3'"),
        ({"anwser": "x"}, "gave nothing as 'answer'"),
        ({"answer": 3}, "gave int '3' as 'answer'"),
        ({"answer": "x", "tokens": 3}, "gave tokens"),
        ({"answer": "x", "trace": 3}, "'trace'"),
        ({"answer": "x", "trace": [3]}, "'trace'"),
        ({"answer": "x", "trace": [{"role": "narrator", "content": "y"}]}, "'narrator'"),
        ({"answer": "x", "trace": [{"role": "ai", "tool_calls": ["ls"]}]}, "'tool_calls'"),
        ({"answer": "x", "trace": [{"role": "ai", "tool_calls": 3}]}, "'tool_calls'"),
        ({"answer": "x", "usage": "much"}, "'usage'"),
        ({"answer": "x", "usage": {"input_tokens": -1, "output_tokens": 1}}, "usage.input_tokens"),
        ({"answer": "x", "usage": {"input_tokens": True, "output_tokens": 1}}, "usage.input_tokens"),
    ],
)
async def test_an_answer_in_no_known_form_is_no_measurement(tmp_path: Path, value: Any, words: str) -> None:
    lost = await invalid(tmp_path, lambda task, skill: value)
    assert lost.kind == "contract" and words in lost.detail


async def test_a_trace_that_json_cannot_write_is_kept_in_words(tmp_path: Path) -> None:
    content = {("a", 1): "deep"}
    done = await one(
        tmp_path, lambda task, skill: {"answer": "x", "trace": [{"role": "ai", "content": content}]}
    )
    assert isinstance(done, Scored) and "deep" in done.trajectory.messages[0].content


async def test_half_of_an_emoji_is_stored_as_a_mark_wherever_it_stands(tmp_path: Path) -> None:
    called = {
        "role": "assistant",
        "content": "\ud83d",
        "tool_calls": [{"name": "\ude00", "arguments": "\ud83d"}],
    }

    def cuts(task: Any, skill: str) -> dict[str, Any]:
        return {"answer": "seven \ud83d", "trace": [called, {"role": "tool", "content": "\ud83d"}]}

    done = await one(tmp_path, cuts)
    assert isinstance(done, Scored) and done.trajectory.answer == "seven \ufffd"
    assert [message.content for message in done.trajectory.messages][:2] == ["\ufffd", "\ufffd"]

    def fails(task: Any, skill: str) -> str:
        raise ValueError("no \ud83d")

    assert "no \ufffd" in (await invalid(tmp_path / "b", fails)).detail


async def test_an_empty_answer_is_the_agents_own_failure(tmp_path: Path) -> None:
    assert (await scored(tmp_path, lambda task, skill: " ")).failure == "empty"


async def test_the_trace_is_kept_without_the_question_and_ends_with_the_answer(tmp_path: Path) -> None:
    def agent(task: Task, skill: str) -> dict[str, Any]:
        call = {"id": "1", "function": {"name": "look", "arguments": '{"at": "it"}'}}
        trace = [
            {"role": "system", "content": skill},
            {"role": "human", "content": f"Please: {task.prompt}"},
            {"role": "ai", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": [{"type": "text", "text": "seen"}], "tool_call_id": "1"},
            "so it must be this",
        ]
        return {"answer": "K7", "trace": trace}

    assert (await scored(tmp_path, agent)).messages == (
        Message(
            role="assistant",
            content="",
            tool_calls=(ToolCall(id="1", name="look", arguments='{"at": "it"}'),),
        ),
        Message(role="tool", content="seen", tool_call_id="1"),
        Message(role="assistant", content="so it must be this"),
        Message(role="assistant", content="K7"),
    )


def test_usage_is_read_in_the_words_of_the_common_libraries() -> None:
    report = answered(
        {"answer": "x", "usage": {"prompt_tokens": 7, "completion_tokens": 2, "requests": 3, "cost": 0.01}},
        "it",
    )
    assert report.usage == Usage(input_tokens=7, output_tokens=2)
    assert report.calls == 3 and float(report.usd or 0) == 0.01


async def test_a_secret_of_the_agents_own_environment_is_in_nothing_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "zq-live-9f8e7d6c5b4a3928"
    monkeypatch.setenv("ACME_API_KEY", key)

    def leaks(task: Task, skill: str, workspace: Path) -> dict[str, Any]:
        (workspace / "notes.txt").write_text(key)
        call = {"name": "curl", "args": {"token": key}}
        return {"answer": f"I am {key}", "trace": [{"role": "ai", "content": key, "tool_calls": [call]}]}

    def raises(task: Task, skill: str) -> str:
        raise ValueError(f"refused: {key}")

    assert key not in repr(await scored(tmp_path, leaks))
    assert key not in repr(await invalid(tmp_path / "other", raises))
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes()


async def test_reported_usage_settles_what_was_set_aside_and_unreported_usage_stays_charged(
    tmp_path: Path,
) -> None:
    reports: list[Any] = [{"input_tokens": 100, "output_tokens": 10}, None]

    def agent(task: Task, skill: str) -> Any:
        if not reports:
            return 3  # worked, and then broke its contract: it may have cost
        return {"answer": "x", "usage": reports.pop(0)}

    with harnesses.lend("mine", FunctionTarget(agent)):
        budget = ["budget.tokens=5000", "budget.per_rollout.tokens=300"]
        async with run_of(tmp_path, "mine/world", *budget) as made:
            spent = []
            for number in range(3):
                await measure(made, number)
                spent.append(made.ledger.spent.tokens)
    assert spent == [110, 410, 710]


async def test_without_a_budget_in_dollars_no_cost_is_made_up(tmp_path: Path) -> None:
    with harnesses.lend("mine", FunctionTarget(plain)):
        async with run_of(tmp_path, "mine/compatible:m@http://127.0.0.1:9/v1") as made:
            await measure(made)
            assert made.ledger.account.total().dollars is None


async def test_the_skills_folder_and_a_workspace_are_there_for_who_asks(tmp_path: Path) -> None:
    seed = tmp_path / "codes"
    (seed / "references").mkdir(parents=True)
    (seed / "SKILL.md").write_text("---\nname: codes\ndescription: Codes.\n---\n\nLook it up.\n")
    (seed / "references" / "table.md").write_text("K7 is seven")

    def agent(task: Task, skill: str, folder: Path, workspace: Path) -> str:
        (workspace / "out.txt").write_text("done")
        return (folder / "SKILL.md").read_text() + (folder / "references" / "table.md").read_text()

    done = await scored(tmp_path, agent, f"env.skill_init={seed}")
    assert "Look it up." in done.answer and "K7 is seven" in done.answer
    assert list(done.files) == ["out.txt"]


def test_another_function_is_another_run_and_another_script_around_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def version(text: str) -> str:
        path = tmp_path / f"agent{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text)
        job = prepare(
            load(None, flags={}, options=[*WORLD, f"model.target={path}:run"], environ={}, cwd=tmp_path)
        )
        return str(job.identity()["target_version"])

    text = "def helper(x): return x + '!'\ndef run(task, skill): return helper(task.prompt)\n"
    assert version(text) == version(f"BUDGET = 5\n{text}")
    assert version(text) != version(text.replace("'!'", "'?'"))
    assert version(text) != version(text.replace("task.prompt", "skill"))


def test_a_function_has_no_harness_beside_it() -> None:
    with pytest.raises(UsageError, match="Remove harness"):
        skillopt.optimize(target=plain, harness="chat", optimizer="world", benchmark="world")


# --- programs


def program(tmp_path: Path, body: str) -> str:
    path = tmp_path / "agent.py"
    path.write_text(f"import json, os, sys, time\nasked = json.load(sys.stdin)\n{body}\n")
    return f"cmd: {shlex.join([sys.executable, str(path)])}"


async def outcome_of(tmp_path: Path, target: str, *options: str) -> Rollout:
    async with run_of(tmp_path, target, *options) as made:
        return await measure(made)


async def test_a_program_gets_the_task_and_its_last_line_is_the_answer(tmp_path: Path) -> None:
    target = program(
        tmp_path,
        "print('loading ...')\n"
        "text = open(asked['skill_folder'] + '/SKILL.md').read()\n"
        "assert asked['skill'].strip() in text and asked['task']['prompt'] and 'reference' not in asked['task']\n"
        "open(asked['workspace'] + '/made.txt', 'w').write('x')\n"
        "print(json.dumps({'answer': asked['task']['id'], 'usage': {'input_tokens': 5, 'output_tokens': 1}}))",
    )
    done = await outcome_of(tmp_path, target)
    assert isinstance(done, Scored), done
    assert done.trajectory.answer == done.task_id and done.trajectory.usage is not None
    assert list(done.trajectory.files) == ["made.txt"]


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("print('not json')", "contract", "not json"),
        ("print(json.dumps('text'))", "contract", "print one line"),
        ("sys.exit('the database is missing')", "contract", "code 1: the database is missing"),
        ("raise ConnectionError('connection refused')", "unavailable", "connection refused"),
        ("open('/no/such/file')", "contract", "FileNotFoundError"),
        ("time.sleep(60)", "timeout", "did not end within 1 s"),
        ("print('x' * (17 << 20))", "contract", "16 MB"),
    ],
)
async def test_a_program_that_fails_has_its_kind_and_its_words(
    tmp_path: Path, body: str, kind: str, words: str
) -> None:
    lost = await outcome_of(
        tmp_path, program(tmp_path, body), f"model.target.timeout={1 if 'sleep' in body else 30}"
    )
    assert isinstance(lost, Invalid) and lost.kind == kind and words in lost.detail


def test_a_program_that_is_not_there_is_told_before_anything_runs(tmp_path: Path) -> None:
    job = prepare(
        load(None, flags={}, options=[*WORLD, "model.target=cmd: no-such-program"], environ={}, cwd=tmp_path)
    )
    with pytest.raises(ConfigError, match="there is no program 'no-such-program'"):
        job.identity()


@posix
async def test_a_script_beside_the_configuration_is_found_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "skill").mkdir()
    script = tmp_path / "skill" / "my agent.sh"
    script.write_text('#!/bin/sh\necho \'{"answer": "from the script"}\'\n')
    script.chmod(0o755)
    config = tmp_path / "skill" / "train.yaml"
    config.write_text("model: {target: \"cmd: './my agent.sh'\"}\n")
    monkeypatch.chdir(tmp_path)
    job = prepare(load(str(config), flags={}, options=WORLD, environ={}, cwd=tmp_path))
    assert job.config.model.target.name == "cmd: './skill/my agent.sh'"
    async with open_run(job, tmp_path / "run", {}) as made:
        done = await measure(made)
    assert isinstance(done, Scored) and done.trajectory.answer == "from the script"


# --- services


@contextmanager
def service(answer: Callable[[dict[str, Any], Any], tuple[int, str]]) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, text = answer(body, self.headers)
            self.send_response(status)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/run"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_a_service_gets_the_task_the_skill_and_its_key(tmp_path: Path) -> None:
    asked: list[Any] = []

    def answer(body: dict[str, Any], headers: Any) -> tuple[int, str]:
        asked.append((body, headers["authorization"]))
        return 200, json.dumps({"answer": body["task"]["id"], "trace": "thought about it"})

    with service(answer) as url:
        done = await outcome_of(tmp_path, url, "model.target.api_key=tok-12345678")
    assert isinstance(done, Scored) and done.trajectory.answer == done.task_id
    ((body, key),) = asked
    assert key == "Bearer tok-12345678"
    assert body["skill"].strip() in body["skill_files"]["SKILL.md"]
    assert set(body["task"]) == {"id", "prompt", "instructions", "files", "images"}


@pytest.mark.parametrize(
    ("status", "text", "kind", "charged"),
    [
        (500, "it broke", "unavailable", 300),
        (503, "busy", "unavailable", 300),
        (401, "who are you", "auth", 0),
        (404, "not here", "contract", 0),
        (200, "<html>", "unavailable", 300),
        (200, '{"answer": 3}', "contract", 300),
    ],
)
async def test_a_service_that_fails_has_its_kind_and_costs_only_where_it_may_have_worked(
    tmp_path: Path, status: int, text: str, kind: str, charged: int
) -> None:
    with service(lambda body, headers: (status, text)) as url:
        budget = ["budget.tokens=5000", "budget.per_rollout.tokens=300"]
        async with run_of(tmp_path, url, *budget) as made:
            lost = await measure(made)
            assert made.ledger.spent.tokens == charged
    assert isinstance(lost, Invalid) and lost.kind == kind


async def test_a_service_that_cannot_be_reached_costs_nothing(tmp_path: Path) -> None:
    async with run_of(tmp_path, "http://127.0.0.1:9/run", "budget.tokens=90000") as made:
        lost = await measure(made)
        assert made.ledger.spent.tokens == 0
    assert isinstance(lost, Invalid) and lost.kind == "unavailable"
