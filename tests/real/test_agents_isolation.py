"""Real agent CLIs see nothing of the user's: a planted skill, memory file, hook and MCP server stay out, and
so does the environment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from _loopback import Call, LoopbackProvider, Misbehaviour
from real._agents import CLAUDE, CODEX, COPILOT, OPENCODE, RealAgent, resolved, scripted
from real._npm import cli
from real.test_agents import Seen, searchqa
from skillopt.errors import ModelError
from skillopt.evaluation.runner import PlannedRow
from skillopt.messages import Image, Message, Request
from skillopt.models import PROVIDERS
from skillopt.models.port import ModelSpec
from skillopt.process import run_process
from skillopt.run import open_run, prepare
from skillopt.tasks.rollout import Invalid, Scored

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.name == "nt", reason="the programs are started as on Unix"),
]
PLANTED = "PLANTED-BY-THE-USER"
CANARY = "canary-5f1e-of-the-parent"
ALL = [pytest.param(agent, id=agent.harness) for agent in (CLAUDE, CODEX, COPILOT, OPENCODE)]
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
QUESTION = Request(
    messages=(
        Message(role="system", content="You are SYSTEM-MARK."),
        Message(
            role="user",
            content="What is it, QUESTION-MARK?",
            images=(Image(media_type="image/png", data=DOT),),
        ),
    ),
    max_tokens=500,
    role="optimizer",
    stage="analyst",
    place="e1/s1/analyst/0/a0",
)


def plant(home: Path) -> Path:
    """What people have in their homes; a hook and an MCP server that tell when they run."""
    told = home / "it-ran"
    skill = f"---\nname: planted\ndescription: {PLANTED} skill.\n---\n\n{PLANTED} body\n"
    command = ["/bin/sh", "-c", f"echo ran >> {told}"]
    server = {"command": command[0], "args": command[1:]}
    hook = {"hooks": [{"type": "command", "command": f"echo {PLANTED} hook; echo ran >> {told}"}]}
    files = {
        **{
            f"{folder}/skills/planted/SKILL.md": skill
            for folder in (".claude", ".codex", ".agents", ".copilot", ".config/opencode")
        },
        **dict.fromkeys(
            (".claude/CLAUDE.md", ".codex/AGENTS.md", ".config/opencode/AGENTS.md"), f"{PLANTED} memory"
        ),
        ".copilot/copilot-instructions.md": f"{PLANTED} memory",
        ".claude/settings.json": json.dumps({"hooks": {"UserPromptSubmit": [hook], "SessionStart": [hook]}}),
        ".claude.json": json.dumps({"mcpServers": {"planted": server}}),
        ".codex/config.toml": (
            f"[mcp_servers.planted]\ncommand = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n"
        ),
        ".copilot/mcp-config.json": json.dumps(
            {"mcpServers": {"planted": {"type": "local", "tools": ["*"], **server}}}
        ),
        ".config/opencode/opencode.json": json.dumps(
            {"mcp": {"planted": {"type": "local", "command": command}}}
        ),
    }
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return told


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # what Copilot unpacked before
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.mark.parametrize("agent", ALL)
async def test_a_rollout_is_scored_and_nothing_of_the_users_is_visible_to_it(
    agent: RealAgent,
    home: Path,
    tmp_path: Path,
    machine_env: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = plant(home)
    monkeypatch.setenv("CANARY_SECRET", CANARY)
    look = (
        "env; echo seen-by-me"
        if agent is OPENCODE
        else "env; cat ~/.claude/CLAUDE.md ~/.codex/AGENTS.md; echo seen-by-me"
    )
    # OpenCode refuses to look outside of its folder at all
    seen = Seen(scripted(agent, look, answer="It is here: <answer>Paris</answer>"))
    async with LoopbackProvider(seen, lenient=True) as provider:
        options = [
            *searchqa(tmp_path),
            *agent.options(provider, machine_env),
            f"model.optimizer=compatible:o@{provider.base_url}",
        ]
        job = prepare(resolved(tmp_path, *options))
        async with open_run(job, tmp_path / "run", {}) as opened:
            outcome = await opened.evaluator.measure(
                job.skill.rendered, PlannedRow(task=job.splits.train[0]), stage="rollout"
            )
    assert isinstance(outcome, Scored), outcome
    assert outcome.score.hard == 1.0
    assert "SKILL.md" in outcome.trajectory.loaded
    assert any("HOUSE-RULE-7" in call.text for call in seen.calls), "the skill's text was in no request"
    asked = [call for message in outcome.trajectory.messages for call in message.tool_calls]
    assert any("echo seen-by-me" in call.arguments for call in asked)
    results = "\n".join(message.content for message in outcome.trajectory.messages if message.role == "tool")
    assert "seen-by-me" in results, "the command did not run"
    assert outcome.trajectory.usage is not None
    assert "skillopt-agent-" not in repr(outcome.trajectory)
    bodies = "\n".join(json.dumps(call.body) for call in seen.calls)
    for hidden in (PLANTED, CANARY, str(home)):
        assert hidden not in bodies, bodies[max(0, bodies.find(hidden) - 300) : bodies.find(hidden) + 100]
    # the other two cannot keep it from their programs here, as docs/agents.md says
    if agent in (
        CODEX,
        COPILOT,
    ):
        assert "sk-loopback-target-key" not in bodies, "the agent's own programs see its key"
    assert "sk-loopback-target-key" not in repr(outcome), "a credential of ours is kept"
    assert not told.exists(), "a hook or server of the user's ran"


async def test_the_planted_things_are_seen_where_nothing_keeps_them_out(
    home: Path, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    """The control: without our isolation the same plant is in the request, so the test above can fail."""
    told = plant(home)
    seen = Seen(lambda call: "hello")
    async with LoopbackProvider(seen, lenient=True) as provider:
        program = cli(CLAUDE.package, CLAUDE.version, CLAUDE.binary, env=machine_env)
        env = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "ANTHROPIC_BASE_URL": provider.url,
            "ANTHROPIC_API_KEY": "k",
        }
        quiet = dict.fromkeys(
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY"), "1"
        )
        await run_process(
            [str(program), "-p"], input=b"hi", env={**env, **quiet}, cwd=tmp_path, timeout=300, guarded=True
        )
    bodies = "\n".join(json.dumps(call.body) for call in seen.calls)
    assert {what for what in ("skill", "memory", "hook") if f"{PLANTED} {what}" in bodies} == {
        "skill",
        "memory",
        "hook",
    }
    assert told.exists()


@pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.harness) for agent in (CLAUDE, CODEX)])
@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (400, "contract"), (500, "unavailable")])
async def test_what_the_provider_refuses_is_never_a_score(
    agent: RealAgent, status: int, kind: str, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    def refuse(call: Call) -> Misbehaviour:
        return Misbehaviour.status(status)

    async with LoopbackProvider(lambda call: "never", lenient=True, behave=refuse) as provider:
        options = [
            *searchqa(tmp_path),
            *agent.options(provider, machine_env),
            f"model.optimizer=compatible:o@{provider.base_url}",
        ]
        job = prepare(resolved(tmp_path, *options))
        async with open_run(job, tmp_path / "run", {}) as opened:
            outcome = await opened.evaluator.measure(
                job.skill.rendered, PlannedRow(task=job.splits.train[0]), stage="rollout"
            )
    assert isinstance(outcome, Invalid)
    assert outcome.kind == kind, outcome


async def test_the_commands_of_codex_have_no_network(tmp_path: Path, machine_env: Mapping[str, str]) -> None:
    async with LoopbackProvider(lambda call: "never", lenient=True) as outside:
        reach = (
            "python3 -c \"import socket; socket.create_connection(('127.0.0.1',"
            f' {outside.url.rpartition(":")[2]}), 3)" && echo reached'
        )
        seen = Seen(scripted(CODEX, f"{reach} || echo no-network", answer="<answer>Paris</answer>"))
        async with LoopbackProvider(seen, lenient=True) as provider:
            options = [
                *searchqa(tmp_path),
                *CODEX.options(provider, machine_env),
                f"model.optimizer=compatible:o@{provider.base_url}",
            ]
            job = prepare(resolved(tmp_path, *options))
            async with open_run(job, tmp_path / "run", {}) as opened:
                outcome = await opened.evaluator.measure(
                    job.skill.rendered,
                    PlannedRow(task=job.splits.train[0]),
                    stage="rollout",
                )
    assert isinstance(outcome, Scored), outcome
    results = "\n".join(message.content for message in outcome.trajectory.messages if message.role == "tool")
    assert "no-network" in results, results
    assert "reached" not in results, results


CHATS = [
    pytest.param(name, agent, id=name)
    for name, agent in (("claude_cli", CLAUDE), ("codex_cli", CODEX), ("copilot_cli", COPILOT))
]


@pytest.mark.parametrize(("name", "agent"), CHATS)
async def test_a_chat_through_the_cli_carries_its_image_and_has_no_tools_and_nothing_of_the_users(
    name: str, agent: RealAgent, home: Path, machine_env: Mapping[str, str]
) -> None:
    """Without tools nobody could read an image that the prompt only names."""
    told = plant(home)
    seen = Seen(lambda call: "Hello there.")
    program = cli(agent.package, agent.version, agent.binary, env=machine_env)
    async with LoopbackProvider(seen, lenient=True, api_key="sk-loopback-chat-key") as provider:
        url = provider.url if name == "claude_cli" else provider.base_url
        spec = ModelSpec(
            provider=name,
            name="m1",
            base_url=url,
            api_key="sk-loopback-chat-key",
            options={"path": str(program)},
            timeout=300,
        )
        reply = await PROVIDERS.get(name)(spec).complete(QUESTION)
    assert (reply.text, reply.finish) == ("Hello there.", "stop")
    assert reply.usage is not None
    (call,) = [call for call in seen.calls if "QUESTION-MARK" in call.text]
    assert "SYSTEM-MARK" in call.text
    assert DOT in json.dumps(call.body)
    assert not {agent.shell, "Read", "view", "Skill", "skill"} & set(call.tools)
    assert PLANTED not in json.dumps(call.body)
    assert not told.exists()


@pytest.mark.parametrize(("name", "agent"), [CHATS[0], CHATS[2]])
async def test_a_cli_that_nobody_logged_in_is_a_dead_login(
    name: str, agent: RealAgent, home: Path, machine_env: Mapping[str, str]
) -> None:
    program = cli(agent.package, agent.version, agent.binary, env=machine_env)
    model = PROVIDERS.get(name)(
        ModelSpec(provider=name, name="sonnet", options={"path": str(program)}, timeout=300)
    )
    with pytest.raises(ModelError) as caught:
        await model.complete(QUESTION)
    assert caught.value.kind == "auth"
