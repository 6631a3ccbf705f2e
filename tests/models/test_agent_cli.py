"""Chat through an agent CLI, here a stand-in: one process a question, and every failure has its kind."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harnesses._stub import stub
from skillopt.errors import ConfigError, ModelError
from skillopt.messages import Message, Request, Tool, Usage
from skillopt.models import PROVIDERS
from skillopt.models.agent_chat import AgentChat
from skillopt.models.port import Model, ModelSpec

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script with a shebang")


def chat(tmp_path: Path, **more: Any) -> Model:
    options = {"path": str(stub(tmp_path)), **more.pop("options", {})}
    spec = ModelSpec(
        **{
            "provider": "claude_cli",
            "name": "sonnet",
            "api_key": "sk-key",
            "timeout": 20.0,
            "options": options,
            **more,
        }
    )
    made: Model = PROVIDERS.get("claude_cli")(spec)
    return made


def asking(*texts: str) -> Request:
    turns = tuple(
        Message(role="user" if n % 2 == 0 else "assistant", content=text) for n, text in enumerate(texts)
    )
    return Request(messages=turns, max_tokens=50, role="optimizer", stage="analyst", place="p")


async def test_a_question_is_answered_with_its_usage(tmp_path: Path) -> None:
    reply = await chat(tmp_path).complete(asking("TASK hello"))
    assert (reply.text, reply.finish, reply.usage) == (
        "<answer>no rule hello</answer>",
        "stop",
        Usage(input_tokens=100, output_tokens=10, cached_tokens=None),
    )


async def test_earlier_turns_are_told_before_the_last(tmp_path: Path) -> None:
    reply = await chat(tmp_path).complete(asking("first", "I said this", "TASK last"))
    assert reply.text == "<answer>no rule last</answer>"


@pytest.mark.parametrize(
    ("word", "kind", "refused"),
    [
        ("CRASH", "spawn", True),
        ("GARBAGE", "parse", False),
        ("LOGGED-OUT-ERROR", "auth", True),
        ("LOGGED-OUT-TEXT", "auth", True),
    ],
)
async def test_a_failure_has_its_kind_and_says_whether_it_can_have_cost(
    word: str, kind: str, refused: bool, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as caught:
        await chat(tmp_path).complete(asking(word))
    assert (caught.value.kind, caught.value.refused) == (kind, refused)


async def test_a_hanging_cli_is_a_timeout(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        await chat(tmp_path, timeout=1.0).complete(asking("HANG"))
    assert (caught.value.kind, caught.value.refused) == ("timeout", False)


async def test_with_a_key_the_home_is_a_fresh_one_and_without_it_is_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "mine"))
    monkeypatch.setenv("CANARY", "canary-of-the-parent")
    keyed = json.loads((await chat(tmp_path).complete(asking("TELLS-ENV"))).text)
    assert keyed["HOME"] != str(tmp_path / "mine")
    assert keyed["ANTHROPIC_API_KEY"] == "sk-key"
    own = json.loads((await chat(tmp_path, api_key=None).complete(asking("TELLS-ENV"))).text)
    assert own["HOME"] == str(tmp_path / "mine")
    assert "ANTHROPIC_API_KEY" not in own
    assert "canary-of-the-parent" not in json.dumps([keyed, own])


async def test_tools_of_ours_are_refused_and_so_are_knobs_it_has_not(tmp_path: Path) -> None:
    tool = Tool(name="t", description="", parameters={})
    with pytest.raises(ModelError) as caught:
        await chat(tmp_path).complete(replace(asking("x"), tools=(tool,)))
    assert caught.value.kind == "contract"
    with pytest.raises(ConfigError, match="takes no temperature"):
        chat(tmp_path, temperature=0.0)
    with pytest.raises(ConfigError, match="no setting 'sandbox'"):
        chat(tmp_path, options={"sandbox": "read-only"})


@pytest.mark.slow
def test_the_fingerprint_knows_the_version_and_neither_path_nor_key(tmp_path: Path) -> None:
    made = chat(tmp_path, options={"effort": "high"}, structured_output="schema")
    assert isinstance(made, AgentChat)
    assert made.fingerprint == {
        **{"provider": "claude_cli", "model": "sonnet", "effort": "high", "structured_output": "schema"},
        "cli": "9.9.9",
    }
    assert made.endpoint == "the claude CLI"


def test_all_three_are_providers() -> None:
    assert {"claude_cli", "codex_cli", "copilot_cli"} <= set(PROVIDERS.names())
