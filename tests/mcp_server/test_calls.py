"""A real client over stdio: every tool is listed and called, works report progress, are cancelled and go on,
and hold up nobody.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
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
from night.test_flagged_edits import EVIL, night
from skillopt.mcp import TOOLS
from skillopt.runs.reader import read_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("mcp calls"),  # one undisturbed run for all of them
    pytest.mark.skipif(sys.platform == "win32", reason="signals and crontab of POSIX"),
]
SLOW = ("--num_epochs=1", "--batch_size=12", "--workers=4", "--eval_test=false")
KEY = "sk-proj-Zx81kQpL02mnVbT7uWc4"


@pytest.fixture(scope="module")
def slow() -> Iterator[LoopbackProvider]:
    with LoopbackProvider.in_thread(world_answers(), latency=seeded_latency(1, 0.04, 0.12)) as provider:
        yield provider


@pytest.fixture(scope="module")
def undisturbed(slow: LoopbackProvider, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run by the command line, never stopped."""
    folder = tmp_path_factory.mktemp("undisturbed")
    slow_train(folder, slow)
    ended = run("train", "--quiet", *SLOW, f"--out_root={folder / 'run'}", f"--config={folder / 'slow.yaml'}")
    assert ended.code == 0, ended.err
    return folder / "run"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the simulated world; for reading only."""
    folder = tmp_path_factory.mktemp("quick") / "run"
    ended = run("train", "quickstart", "--quiet", "--num_epochs=1", f"--out_root={folder}", "-o", *SMALL)
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
        assert result.structured_content["status"] == "ok"  # type: ignore[index]
        return result.structured_content["result"]  # type: ignore[index]

    with LoopbackProvider.in_thread(scripted(RULE)) as provider:
        kept = person.home / ".skillopt-sleep"
        kept.mkdir(exist_ok=True)
        (kept / "config.json").write_text(json.dumps({"model": f"compatible:m@{provider.base_url}"}))
        async with connected(person.project, "--allow", "adopt,undo,schedule", env=env) as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert (await done("sleep_status"))["night"] == 0
            assert (await done("sleep_harvest", lookback_hours=31))["kept"] == 5
            assert (await done("sleep_dry_run"))["to_read"] == 20
            night = await done("sleep_run", max_tokens=500_000)
            assert night["skills"][0]["candidate"] == 1.0 and any(
                "brief" in line or "val" in line for line in heard
            )
            assert person.skill.read_text() == SKILL
            (proposal,) = (await done("sleep_status"))["proposals"]
            assert (proposal["state"], proposal["flagged"]) == ("pending", [])
            assert f"+{RULE}" in (await done("sleep_diff", proposal=proposal["id"]))["text"]
            assert (await done("sleep_adopt"))["updated_paths"] == [
                str(person.skill)
            ] and person.skill.read_text() == LEARNT
            assert (await done("sleep_undo"))["action"] == "undo" and person.skill.read_text() == SKILL
            assert (
                "Every night at 02:05"
                in (await done("sleep_schedule", hour=2, minute=5, backend="handoff"))["text"]
            )
            assert f"--project={person.project}" in table.read_text()
            assert "No longer scheduled" in (await done("sleep_unschedule"))["text"]

            assert "searchqa" in (await done("skillopt_list_configs"))["configs"]
            assert (await done("skillopt_estimate", **TRAIN))["simulated"] is True
            trained = await done("skillopt_train", **TRAIN)
            assert (trained["status"], trained["simulated"]) == ("finished", True)
            assert any("step 1/" in line for line in heard), heard
            assert (await done("skillopt_runs", folders=["run"]))["runs"][0]["status"] == "finished"
            evaluated = await done("skillopt_eval", config="run", split="val", out_root="looked")
            assert evaluated["evaluations"][0]["split"] == "val"
    assert called == set(listed) == {tool.name for tool in TOOLS}
    assert sorted(path.name for path in person.project.iterdir() if path.name != ".claude") == [
        "looked",
        "run",
    ]  # nothing anywhere else
    hints = {name: tool.annotations for name, tool in listed.items()}
    assert hints["skillopt_runs"] and hints["skillopt_runs"].read_only_hint is True
    assert hints["sleep_adopt"] and hints["sleep_adopt"].destructive_hint is True


async def test_a_real_client_hears_every_refusal_with_the_command_of_a_person(
    tmp_path: Path, quick: Path
) -> None:
    (tmp_path / "trap.py").write_text(f"open({str(tmp_path / 'started')!r}, 'w')")
    stranger = shutil.copytree(quick, tmp_path / "stranger")
    settings = json.loads((stranger / "settings.json").read_text())
    settings["model"]["target"]["name"] = f"cmd: {sys.executable} {tmp_path / 'trap.py'}"
    (stranger / "settings.json").write_text(json.dumps(settings))
    refused = (
        ("sleep_adopt", {}, "refused", "skillopt mcp --allow adopt"),
        ("sleep_undo", {}, "refused", "skillopt mcp --allow undo"),
        ("sleep_schedule", {}, "refused", "skillopt mcp --allow schedule"),
        ("sleep_unschedule", {}, "refused", "skillopt mcp --allow schedule"),
        ("sleep_run", {"model": "openai:gpt"}, "refused", "`skillopt sleep run --model MODEL`"),
        ("skillopt_train", {"config": "quickstart", "target_model": "x"}, "refused", "--target_model VALUE`"),
        (
            "skillopt_train",
            {"config": "quickstart", "cfg_options": ["model.proposer.agent.path=/bin/sh"]},
            "refused",
            "`skillopt train quickstart -o model.proposer.agent.path=VALUE`",
        ),
        ("skillopt_estimate", {"config": "c", "env.scorer_options": "x"}, "refused", "-o env.scorer_options"),
        ("skillopt_eval", {"config": "../elsewhere.yaml"}, "refused", "lies outside"),
        ("skillopt_runs", {"project": "/"}, "bad_input", "is no project"),
        ("skillopt_train", {"config": "no-such-config"}, "bad_input", "no-such-config"),
        ("skillopt_train", {"config": "quickstart", "bacth_size": 1}, "bad_input", "'batch_size'"),
        ("skillopt_train", {"config": "quickstart", "batch_size": "1"}, "bad_input", "valid integer"),
        *(
            (f"skillopt_{name}", {"config": "stranger"}, "bad_input", "was not made on this machine")
            for name in ("train", "eval", "estimate")
        ),
    )
    env = environment(OPENAI_API_KEY=KEY, MY_TOKEN="hunter2-hunter2")
    async with connected(tmp_path, env=env) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {tool.name for tool in TOOLS if not tool.switch}
        for name, given, status, said in refused:
            result = await client.call_tool(name, given)
            assert result.is_error and result.structured_content is not None, (name, given)
            assert result.structured_content["status"] == status, text_of(result)
            assert said in text_of(result) and "Traceback" not in text_of(result)
        with pytest.raises(MCPError, match="Did you mean 'sleep_status'"):
            await client.call_tool("sleep_statsu", {})
        secret = await client.call_tool("skillopt_train", {"config": f"x-{KEY}-hunter2-hunter2"})
        assert secret.is_error and "[redacted]" in text_of(secret)
        assert KEY not in str(secret) and "hunter2-hunter2" not in str(secret)
    assert not (tmp_path / "started").exists()


async def test_a_result_is_told_twice_for_a_client_that_reads_text_only(tmp_path: Path) -> None:
    async with inside(tmp_path, mode="legacy") as client:
        result = await client.call_tool("skillopt_list_configs", {})
    told = json.loads(run("config", "list", "configs", "--json").out)
    assert result.structured_content == {"status": "ok", "exit_code": None, "result": told, "messages": []}
    assert json.loads(text_of(result).partition("\n")[2]) == told


async def test_a_flagged_edit_is_shown_as_flagged_and_not_adopted(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write()
    ended = await night(person, RULE, EVIL)
    assert ended.proposal is not None and ended.proposal.edits[1].flags
    async with inside(person.project, "adopt", env=environment(HOME=str(person.home))) as client:
        (proposal,) = (await call(client, "sleep_status"))["result"]["proposals"]
        assert [(flag["edit"], flag["reason"]) for flag in proposal["flagged"]] == [
            (2, "downloads something and runs it")
        ]
        assert "# edit 2: FLAGGED" in (await call(client, "sleep_diff"))["result"]["text"]
        adopted = await call(client, "sleep_adopt")
        assert (adopted["result"]["changes"], adopted["result"]["left"]) == ([1], [2])
        for given in ({}, {"skill": ["brief-writer"]}, {"edit": [2]}):
            again = await client.call_tool("sleep_adopt", given)
            assert again.is_error and "--edit" in text_of(again)
    assert person.skill.read_text() == LEARNT


@pytest.mark.real
async def test_questions_by_hand_and_a_spent_budget_are_outcomes_and_not_failures(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        (tmp_path / "by-hand.yaml").write_text("_base_: quickstart\nmodel: {optimizer: handoff}\n")
        by_hand = {**TRAIN, "config": "by-hand.yaml", "out_root": "by-hand"}
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
        running = asyncio.ensure_future(client.call_tool("skillopt_train", slow_train(tmp_path, slow)))
        await until(lambda: slow.calls >= before + 15)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: read_run(tmp_path / "run").state != "running")
        assert read_run(tmp_path / "run").state == "stopped"
        again = await call(client, "skillopt_train", **slow_train(tmp_path, slow))
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
        running = asyncio.ensure_future(client.call_tool("skillopt_train", slow_train(tmp_path, slow)))
        await until(lambda: slow.calls >= before + 15)
    with pytest.raises((MCPError, asyncio.CancelledError)):
        await running
    await until(lambda: not processes_of(tmp_path))
    made = slow.calls
    await asyncio.sleep(0.3)
    assert slow.calls == made
    again = program("train", "--json", "slow.yaml", *SLOW, "--out_root=run", cwd=tmp_path)
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
            long = asyncio.ensure_future(client.call_tool("skillopt_train", slow_train(tmp_path, provider)))
            await until(lambda: provider.calls > 0)
            other = await call(client, "skillopt_train", **{**TRAIN, "out_root": "other"})
            assert other["result"]["status"] == "finished" and not long.done()
            may_answer.set()
            result = await long
            assert not result.is_error, text_of(result)
