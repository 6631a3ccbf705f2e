"""A real client over stdio: every tool is listed and called, works report progress, are cancelled and go on,
and hold up nobody.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from _loopback import Call, LoopbackProvider, seeded_latency, world_answers
from cli._commands import program, run
from mcp_server._client import (
    SMALL,
    TOOLBOX,
    TRAIN,
    call,
    connected,
    environment,
    inside,
    processes_of,
    slow_train,
    text_of,
)
from night._nights import LEARNT, RULE, SKILL, Person, scripted
from skillopt.runs.reader import read_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("mcp calls"),  # one undisturbed run for all of them
    pytest.mark.skipif(sys.platform == "win32", reason="signals and crontab of POSIX"),
]
KEY = "sk-proj-Zx81kQpL02mnVbT7uWc4"


@pytest.fixture(scope="module")
def slow() -> Iterator[LoopbackProvider]:
    with LoopbackProvider.in_thread(world_answers(), latency=seeded_latency(1, 0.04, 0.12)) as provider:
        yield provider


@pytest.fixture(scope="module")
def undisturbed(slow: LoopbackProvider, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run by the command line, never stopped."""
    folder = tmp_path_factory.mktemp("undisturbed")
    given = {**slow_train(slow), "out_root": str(folder)}
    ended = run(*TOOLBOX.arguments["skillopt_train"].line(given, ""))
    assert ended.code == 0, ended.err
    return folder


async def until(condition: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        await asyncio.sleep(0.02)


@pytest.mark.real
async def test_every_tool_is_listed_and_does_what_its_command_does(tmp_path: Path) -> None:
    person = Person(tmp_path / "home", now=datetime.now(timezone.utc)).write()
    programs = tmp_path / "bin"
    programs.mkdir()
    table = tmp_path / "table"
    listing = (
        f'if [ "$1" = "-l" ]; then cat {table} 2>/dev/null || {{ echo "no crontab for me" >&2; exit 1; }}'
    )
    script = f"#!/bin/sh\n{listing}\nelse cat > {table}; fi\n"
    for name, text in (("crontab", script), ("systemctl", "#!/bin/sh\nexit 1\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    env = environment(HOME=str(person.home), PATH=f"{programs}{os.pathsep}{os.environ['PATH']}")
    called: set[str] = set()
    heard: list[str] = []

    async def done(name: str, /, **arguments: Any) -> Any:
        called.add(name)

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            assert progress == len(heard) + 1 or progress == 1
            heard.append(message or "")

        heard.clear()
        result = await client.call_tool(name, arguments, progress_callback=hear)
        assert not result.is_error, text_of(result)
        assert result.structured_content["status"] in ("ok", "needs_fixing")  # type: ignore[index]
        return result.structured_content["result"]  # type: ignore[index]

    with LoopbackProvider.in_thread(scripted(RULE)) as provider:
        model = f"compatible:m@{provider.base_url}"
        async with connected(person.project, "--allow", "adopt,undo,schedule", env=env) as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert (await done("sleep_status"))["night"] == 0
            assert (await done("sleep_harvest", since="31h"))["kept"] == 5
            assert (await done("sleep_dry_run"))["to_read"] == 20
            night = await done("sleep_run", model=model, max_tokens=500_000)
            assert night["skills"][0]["candidate"] == 1.0 and any(
                "brief" in line or "val" in line for line in heard
            )
            assert person.skill.read_text() == SKILL
            (proposal,) = (await done("sleep_proposals"))["proposals"]
            assert proposal["state"] == "pending"
            assert f"+{RULE}" in (await done("sleep_diff", proposal=proposal["id"]))["text"]
            assert (await done("sleep_adopt"))["updated_paths"] == [
                str(person.skill)
            ] and person.skill.read_text() == LEARNT
            assert (await done("sleep_undo"))["action"] == "undo" and person.skill.read_text() == SKILL
            assert (await done("sleep_discard"))["changes"] == [1]
            assert (
                "Every night at 02:05"
                in (await done("sleep_schedule", hour=2, minute=5, model="handoff"))["text"]
            )
            assert f"--project={person.project}" in table.read_text()
            assert "No longer scheduled" in (await done("sleep_unschedule"))["text"]

            assert "searchqa" in (await done("skillopt_list_configs"))["configs"]
            doctor = await done("skillopt_doctor", config="quickstart", no_calls=True)
            assert any(check["area"] for check in doctor["checks"])
            assert (await done("skillopt_estimate", **TRAIN))["simulated"] is True
            trained = await done("skillopt_train", **TRAIN)
            assert (trained["status"], trained["simulated"]) == ("finished", True)
            assert any("step 1/" in line for line in heard), heard
            assert (await done("skillopt_runs", folders=["run"]))["runs"][0]["status"] == "finished"
            assert (await done("skillopt_explain", run="run", step="1"))["agrees"] is True
            assert "+" in (await done("skillopt_diff", a="run"))["diff"]
            evaluated = await done(
                "skillopt_eval",
                config="quickstart",
                skill=["run"],
                split="val",
                out_root="looked",
                cfg_options=SMALL,
            )
            assert evaluated["evaluations"][0]["split"] == "val"
            noise = await done(
                "skillopt_noise", config="quickstart", draws=2, out_root="looked-again", cfg_options=SMALL
            )
            assert noise["n"] == 20 and noise["simulated"] is True
    assert called == set(listed)
    assert sorted(path.name for path in person.project.iterdir() if path.name != ".claude") == [
        "looked",
        "looked-again",
        "run",
    ]  # nothing anywhere else
    assert (
        listed["skillopt_runs"].annotations is not None
        and listed["skillopt_runs"].annotations.read_only_hint is True
    )
    assert (
        listed["sleep_adopt"].annotations is not None
        and listed["sleep_adopt"].annotations.destructive_hint is True
    )


@pytest.mark.slow
async def test_a_result_is_the_object_that_the_command_prints(tmp_path: Path) -> None:
    async with inside(tmp_path, mode="legacy") as client:
        result = await client.call_tool("skillopt_list_configs", {})
    told = json.loads(run("config", "list", "configs", "--json").out)
    assert result.structured_content == {"status": "ok", "exit_code": 0, "result": told, "messages": []}
    assert json.loads(text_of(result).partition("\n")[2]) == told  # for a client that reads text only


async def test_what_is_left_to_the_person_is_neither_listed_nor_done(tmp_path: Path) -> None:
    async with inside(tmp_path) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        for name in ("sleep_adopt", "sleep_discard", "sleep_undo", "sleep_schedule", "sleep_unschedule"):
            assert name not in names
            result = await client.call_tool(name, {})
            assert result.is_error and "Only the person can switch it on: skillopt mcp --allow" in text_of(
                result
            )
        with pytest.raises(MCPError, match="Did you mean 'sleep_status'"):
            await client.call_tool("sleep_statsu", {})


@pytest.mark.slow
async def test_failures_say_what_happened_and_are_marked_as_such(tmp_path: Path) -> None:
    async with inside(tmp_path, env=environment(OPENAI_API_KEY=KEY, MY_TOKEN="hunter2-hunter2")) as client:
        wrong = await client.call_tool(
            "skillopt_train", {"config": "quickstart", "cfg_options": ["train.bacth_size=3"]}
        )
        assert wrong.is_error and wrong.structured_content is not None
        assert (wrong.structured_content["status"], wrong.structured_content["exit_code"]) == ("bad_input", 2)
        assert "batch_size" in text_of(wrong) and "Traceback" not in text_of(wrong)
        program = await client.call_tool(
            "skillopt_train", {"config": "quickstart", "cfg_options": ["env.scorer=cmd: touch done"]}
        )
        assert program.is_error and program.structured_content is not None
        assert (program.structured_content["status"], program.structured_content["exit_code"]) == (
            "refused",
            None,
        )
        secret = await client.call_tool("skillopt_diff", {"a": f"x-{KEY}-hunter2-hunter2"})
        assert secret.is_error and "[redacted]" in text_of(secret)
        assert KEY not in str(secret) and "hunter2-hunter2" not in str(secret)
        option = await client.call_tool("skillopt_diff", {"a": "--version"})
        assert option.is_error and "--version" in text_of(option)  # a path that is not there, and no option
        broken = await client.call_tool("skillopt_doctor", {"config": "no-such-config", "no_calls": True})
        assert not broken.is_error and broken.structured_content is not None
        assert (
            broken.structured_content["status"] == "needs_fixing"
            and broken.structured_content["result"]["fine"] is False
        )


@pytest.mark.real
async def test_questions_by_hand_and_a_spent_budget_are_outcomes_and_not_failures(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        by_hand = {**TRAIN, "config": "quickstart", "optimizer_model": "handoff", "out_root": "by-hand"}
        asked = await client.call_tool("skillopt_train", by_hand)
        assert not asked.is_error and asked.structured_content is not None
        assert (asked.structured_content["status"], asked.structured_content["exit_code"]) == (
            "handoff_pending",
            5,
        )
        spent = await client.call_tool("skillopt_train", {**TRAIN, "budget": "60 calls"})
        assert not spent.is_error and spent.structured_content is not None
        assert (
            spent.structured_content["status"] == "budget_spent"
            and spent.structured_content["result"]["status"] == "budget"
        )


@pytest.mark.slow
async def test_a_cancelled_train_stops_and_the_same_call_goes_on_to_the_same_result(
    tmp_path: Path, slow: LoopbackProvider, undisturbed: Path
) -> None:
    before = slow.calls
    async with connected(tmp_path) as client:
        running = asyncio.ensure_future(client.call_tool("skillopt_train", slow_train(slow)))
        await until(lambda: slow.calls >= before + 15)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: read_run(tmp_path / "run").state != "running")
        assert read_run(tmp_path / "run").state == "stopped"
        again = await call(client, "skillopt_train", **slow_train(slow))
    assert again["result"]["status"] == "finished"
    ours, theirs = (
        json.loads((folder / "history.json").read_text()) for folder in (tmp_path / "run", undisturbed)
    )
    assert [(step["action"], step["why"]) for step in ours] == [
        (step["action"], step["why"]) for step in theirs
    ]
    assert (tmp_path / "run" / "best_skill.md").read_bytes() == (undisturbed / "best_skill.md").read_bytes()
    sent = [(entry.place, entry.draw) for entry in slow.log[before:]]
    # it was stopped gently: what had been sent was waited for, and nothing is paid twice
    assert len(sent) == len(set(sent))


@pytest.mark.real
async def test_a_client_that_goes_away_takes_its_work_with_it_and_the_run_can_go_on(
    tmp_path: Path, slow: LoopbackProvider
) -> None:
    before = slow.calls
    async with connected(tmp_path, mode="legacy") as client:
        running = asyncio.ensure_future(client.call_tool("skillopt_train", slow_train(slow)))
        await until(lambda: slow.calls >= before + 15)
    with pytest.raises((MCPError, asyncio.CancelledError)):
        await running
    await until(lambda: not processes_of(tmp_path))
    made = slow.calls
    await asyncio.sleep(0.3)
    assert slow.calls == made
    again = program(*TOOLBOX.arguments["skillopt_train"].line(slow_train(slow), ""), cwd=tmp_path)
    out, err = await asyncio.to_thread(again.communicate, timeout=60)
    assert again.returncode == 0, err
    assert json.loads(out)["status"] == "finished"


@pytest.mark.slow
async def test_a_long_call_does_not_hold_up_others(tmp_path: Path) -> None:
    may_answer = threading.Event()
    answers = world_answers()

    def answer(call: Call) -> Any:
        assert may_answer.wait(60)
        return answers(call)

    with LoopbackProvider.in_thread(answer) as provider:
        async with inside(tmp_path) as client:
            long = asyncio.ensure_future(client.call_tool("skillopt_train", slow_train(provider)))
            await until(lambda: provider.calls > 0)
            other = await call(client, "skillopt_train", **{**TRAIN, "out_root": "other"})
            assert other["result"]["status"] == "finished" and not long.done()
            may_answer.set()
            result = await long
            assert not result.is_error, text_of(result)
