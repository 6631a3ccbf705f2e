"""Promise 7 for every provider, program and command: a planted key reaches the endpoint it is for, and
nothing else.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from _api import strict
from claims._product import (
    Answer,
    Call,
    Event,
    LoopbackProvider,
    Message,
    Misbehaviour,
    ModelError,
    ModelSpec,
    Request,
    Token,
    agent,
    api,
    azure,
    driver_of,
    load,
    open_run,
    prepare,
    world_answers,
)
from claims.promises._providers import QUIET, SIZES
from claims.promises._runs import QUICK
from cli._commands import run as command

IN_FILE = "cfgsecret-Zq9/7+Xw==kk"
IN_ENVIRONMENT = "envsecret_4f0a91bb7c"
IN_DOTENV = "dotsecret.81c2e7d3"
PLANTED = (IN_FILE, IN_ENVIRONMENT, IN_DOTENV)
PROVIDERS = {
    "openai:gpt-4.1": ("OPENAI_API_KEY", "/v1"),
    "anthropic:claude-sonnet-4-6": ("ANTHROPIC_API_KEY", ""),
    "azure:deployment": ("AZURE_OPENAI_API_KEY", ""),
    "compatible:m": ("OPENAI_COMPATIBLE_API_KEY", "/v1"),
    "qwen:q": ("QWEN_CHAT_API_KEY", "/v1"),
    "minimax:MiniMax-M3": ("MINIMAX_API_KEY", "/v1"),
    "gemini:gemini-3-pro": ("GEMINI_API_KEY", "/v1beta/openai"),
}
"""Each provider that takes a key: the variable that holds it, and where its API lies."""


def leaks(texts: dict[str, str]) -> list[tuple[str, str]]:
    """Where a planted key can be read, in whichever spelling."""
    forms = [
        form
        for key in PLANTED
        for form in {key, json.dumps(key)[1:-1], key.replace("/", "\\/"), key.replace("/", "%2F")}
    ]
    return [(where, form) for where, text in texts.items() for form in forms if form in text]


def files(folder: Path) -> dict[str, str]:
    return {
        str(path): path.read_bytes().decode("utf-8", "replace")
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
@pytest.mark.parametrize("model", PROVIDERS)
async def test_a_run_through_every_provider_leaves_no_trace_of_its_key(model: str, tmp_path: Path) -> None:
    """The target's key stands in the config file, the optimizer's in the environment; the model quotes both,
    and so does an error.
    """
    variable, path = PROVIDERS[model]
    events: list[Event] = []
    prompts: list[str] = []
    keys: set[str] = set()
    body = {
        "error": {
            "message": f"cannot serve {IN_FILE} and {IN_ENVIRONMENT} now",
            "type": "invalid",
            "code": None,
        }
    }

    def answer(call: Call) -> str | Answer:
        prompts.append(json.dumps(call.body, ensure_ascii=False))
        keys.add(
            call.headers.get("authorization", "").removeprefix("Bearer ") or call.headers.get("x-api-key", "")
        )
        keys.add(call.headers.get("api-key", ""))
        said = world_answers(QUIET)(call)
        if (call.place or "").startswith("rollout/"):
            return Answer(text=f"{said} {IN_FILE} {IN_DOTENV}", output_tokens=20)
        return said.replace('"content": "', f'"content": "{IN_ENVIRONMENT} ')

    def behave(call: Call) -> Misbehaviour | None:
        return Misbehaviour.status(500, body=body) if "W000003" in call.text else None

    (tmp_path / ".env").write_text(
        f"OPENAI_API_KEY={IN_DOTENV}\n"
        if variable != "OPENAI_API_KEY"
        else f"ANTHROPIC_API_KEY={IN_DOTENV}\n"
    )
    config = tmp_path / "config.yaml"
    async with LoopbackProvider(
        answer, behave=behave, check=strict("reasoning_split", "thinking", "chat_template_kwargs")
    ) as provider:
        role = f"{{name: '{model}', base_url: '{provider.url}{path}'}}"
        config.write_text(f"model:\n  target: {role[:-1]}, api_key: {IN_FILE}}}\n  optimizer: {role}\n")
        options = [
            "env.name=world",
            *SIZES,
            "train.batch_size=16",
            "train.num_epochs=1",
            "output.predictions=true",
        ]
        job = prepare(
            load(str(config), flags={}, options=options, environ={variable: IN_ENVIRONMENT}, cwd=tmp_path)
        )
        async with open_run(job, tmp_path / "run", retry=QUICK, sinks=[events.append]) as opened:
            result = await api.train(opened)
    assert keys - {""} == {IN_FILE, IN_ENVIRONMENT}  # each role with its own
    told = {
        "prompts": "\n".join(prompts),
        "events": "\n".join(event.model_dump_json() for event in events) + repr(events),
        "skill": result.best_skill,
        **files(tmp_path / "run"),
    }
    assert not leaks(told)


async def test_a_fetched_token_is_in_no_reply_and_no_error(tmp_path: Path) -> None:
    token = "eyJ0eXAi.entra-token-0123456789"

    async def source() -> Token:
        return Token(value=token, expires_at=time.time() + 3600)

    spec = ModelSpec(provider="azure", name="d", options={"auth_mode": "azure_cli"})
    request = Request(
        messages=(Message(role="user", content="?"),), max_tokens=64, role="target", stage="s", place="p"
    )
    quoted: list[str] = []

    def answer(call: Call) -> str:
        quoted.append(call.headers["authorization"])
        return f"you said {call.headers['authorization']}"

    wrong = Misbehaviour.status(500, body={"error": {"message": f"no {token}"}})
    async with LoopbackProvider(answer, behave=lambda call: wrong if call.index else None) as server:
        model = azure.build(replace(spec, base_url=server.url), token_source=source)
        reply = await model.complete(request)
        with pytest.raises(ModelError) as failed:
            await model.complete(request)
        await model.close()
    assert quoted == [f"Bearer {token}"]
    assert token not in reply.text + repr(reply) + str(failed.value)
    assert "you said" in reply.text


PROGRAM = """#!/bin/sh
case "$1 $2" in *--version*) echo 9.9.9; exit;; esac
case "$*" in *--help*) echo '{flags}'; exit;; esac
env > '{folder}/child.env'
echo "$@" > '{folder}/child.argv'
cat > '{folder}/child.stdin'
exit 1
"""


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
@pytest.mark.parametrize("login", ["claude_cli", "codex_cli", "copilot_cli"])
def test_an_agent_program_is_started_without_any_key_but_its_own(
    login: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = driver_of(agent(login).name)
    program = tmp_path / "program"
    program.write_text(PROGRAM.format(flags=" ".join(driver.flags), folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for variable in (
        "OPENAI_COMPATIBLE_API_KEY",
        "AZURE_OPENAI_API_KEY",
        "QWEN_CHAT_API_KEY",
        "SOME_OTHER_TOKEN",
    ):
        monkeypatch.setenv(variable, IN_ENVIRONMENT)
    monkeypatch.setenv(driver.credentials[0], "own-credential-1234")
    (tmp_path / ".env").write_text(f"MINIMAX_API_KEY={IN_DOTENV}\n")
    options = (
        f"model.optimizer={login}:m",
        f"model.optimizer.agent.path={program}",
        "model.target=world",
        f"model.target.api_key={IN_FILE}",
    )
    ran = command("doctor", "--json", "--cfg-options", "env.name=world", *options)
    child = files(tmp_path)
    seen = child[str(tmp_path / "child.env")]
    assert "own-credential-1234" in seen  # it was started, and given what is its own
    assert (
        "own-credential-1234"
        not in child[str(tmp_path / "child.argv")] + child[str(tmp_path / "child.stdin")] + ran.out + ran.err
    )
    assert not leaks(
        {
            "env": seen,
            "argv": child[str(tmp_path / "child.argv")],
            "stdin": child[str(tmp_path / "child.stdin")],
        }
    )
    assert not leaks({"doctor": ran.out + ran.err})


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackProvider]:
    """A working directory with a config and a `.env` that hold keys, an environment that holds one, and an
    endpoint that quotes them.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", IN_ENVIRONMENT)
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={IN_DOTENV}\n")
    said = f"no such key: {' '.join(PLANTED)}"
    wrong = Misbehaviour.status(401, body={"error": {"message": said, "type": "invalid", "code": None}})
    with LoopbackProvider.in_thread(
        lambda call: said, behave=lambda call: wrong if "optimizer" in (call.place or "") else None
    ) as provider:
        model = f"compatible:m@{provider.base_url}"
        (tmp_path / "c.yaml").write_text(
            f"env: {{name: world}}\nmodel:\n  target: {{name: '{model}', api_key: {IN_FILE}}}\n  optimizer:"
            f" {{name: '{model}'}}\n"
        )
        yield provider


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("doctor",), ("doctor", "--json"), ("estimate",), ("estimate", "--json"), ("config", "show")]
)
def test_commands_that_only_look_show_no_key(words: tuple[str, ...], planted: LoopbackProvider) -> None:
    ran = command(*words, "--config", "c.yaml")
    assert ran.out
    assert not leaks({"out": ran.out, "err": ran.err})
    if words[0] == "doctor":
        assert planted.calls == 2  # both keys were really used, and both were quoted back
        assert "no such key: [redacted]" in ran.out


def test_a_config_that_does_not_load_keeps_its_key_to_itself(
    planted: LoopbackProvider, tmp_path: Path
) -> None:
    (tmp_path / "c.yaml").write_text(f"model:\n  target: {{name: world, api_kye: {IN_FILE}}}\n")
    ran = command("doctor", "--config", "c.yaml")
    assert ran.code == 2
    assert "api_key" in ran.out
    assert not leaks({"out": ran.out, "err": ran.err})


def test_a_key_in_the_name_of_a_file_is_not_told_either(planted: LoopbackProvider, tmp_path: Path) -> None:
    (tmp_path / f"{IN_ENVIRONMENT}.md").write_bytes(b"\xff\xfe no text")
    ran = command(
        "doctor", "--no-calls", "--config", "c.yaml", "--cfg-options", f"env.skill_init={IN_ENVIRONMENT}.md"
    )
    assert "[redacted].md" in ran.out
    assert not leaks({"out": ran.out, "err": ran.err})
