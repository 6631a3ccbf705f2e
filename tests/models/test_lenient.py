"""Compatible endpoints: an unset knob sends nothing, and a field the server refuses by name is left out, told and
remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import skillopt
from _loopback import Call, LoopbackProvider, Misbehaviour
from config._public_files import FILES
from skillopt.config.load import load
from skillopt.config.roles import resolve_role
from skillopt.errors import ModelError
from skillopt.events import Notice
from skillopt.messages import Message, Request
from skillopt.models import Model, provider
from skillopt.models.port import DEFAULT_MAX_TOKENS

ENVIRON = {"MINIMAX_API_KEY": "mini-key-1", "OPENAI_API_KEY": "sk-openai-1"}
KNOBS = ("max_tokens", "max_completion_tokens", "reasoning_effort", "temperature", "chat_template_kwargs")


def request(max_tokens: int = DEFAULT_MAX_TOKENS) -> Request:
    return Request(
        messages=(Message(role="user", content="2 + 2?"),),
        max_tokens=max_tokens,
        role="target",
        stage="rollout",
        place="p",
    )


def model_of(
    folder: Path,
    url: str,
    name: str,
    *options: str,
    config: str | None = None,
    remark: Callable[[str], None] = print,
) -> Model:
    """The target as a configuration makes it; the public base file lies beside."""
    if config is not None:
        (folder / "public.yaml").write_text(FILES["_base_/default.yaml"], encoding="utf-8")
    given = [f"model.target.base_url={url}", *options]
    flags = {"target_model": name, "optimizer_model": "world"}
    resolved = load(config, flags=flags, options=given, environ=ENVIRON, cwd=folder)
    spec = resolve_role(resolved.config, "target")
    return provider(spec.provider)(replace(spec, remark=remark))


class Server:
    """A server that keeps every body, and refuses those that hold a field."""

    def __init__(self, refuses: str = "", said: str = "") -> None:
        self.bodies: list[Any] = []
        self._refuses, self._said = refuses, said
        self.provider = LoopbackProvider(lambda call: "4", behave=self._behave, check=lambda api, body: None)

    def _behave(self, call: Call) -> Misbehaviour | None:
        self.bodies.append(call.body)
        if self._refuses and self._refuses in call.body:
            return Misbehaviour.status(400, body={"error": {"message": self._said}})
        return None


async def sent(
    folder: Path, name: str, *options: str, config: str | None = None, cap: int = DEFAULT_MAX_TOKENS
) -> Any:
    """The knobs of one call's body."""
    server = Server()
    async with server.provider as provider:
        model = model_of(folder, provider.base_url, name, *options, config=config)
        await model.complete(request(cap))
        await model.close()
    (body,) = server.bodies
    return {knob: body[knob] for knob in KNOBS if knob in body}


@pytest.mark.parametrize("name", ["compatible:m", "qwen:m"])
@pytest.mark.parametrize("config", [None, "public.yaml"])
async def test_an_unset_knob_sends_nothing(name: str, config: str | None, tmp_path: Path) -> None:
    assert await sent(tmp_path, name, config=config) == {}


async def test_a_public_file_for_another_backend_does_not_stop_minimax(tmp_path: Path) -> None:
    assert "reasoning_effort" not in await sent(tmp_path, "minimax:m", config="public.yaml")


async def test_what_somebody_asked_for_is_sent(tmp_path: Path) -> None:
    for option, wanted in (
        ("model.target.max_tokens=16384", {"max_tokens": 16384}),
        ("model.target.reasoning_effort=high", {"reasoning_effort": "high"}),
        ("model.reasoning_effort=low", {"reasoning_effort": "low"}),
        ("model.target.temperature=0", {"temperature": 0.0}),
    ):
        assert await sent(tmp_path, "compatible:m", option) == wanted
    assert await sent(tmp_path, "compatible:m", cap=200) == {"max_tokens": 200}  # a small cap is meant


async def test_a_field_that_is_refused_by_name_is_left_out_told_once_and_remembered(tmp_path: Path) -> None:
    told: list[str] = []
    server = Server("max_tokens", "'max_tokens' is too large: 16384")
    async with server.provider as provider:
        options = ("model.target.max_tokens=16384", "model.target.temperature=0.5")
        model = model_of(tmp_path, provider.base_url, "compatible:m", *options, remark=told.append)
        with pytest.raises(ModelError) as refused:
            await model.complete(request())
        assert refused.value.again
        for _ in range(3):
            assert (await model.complete(request())).text == "4"
        await model.close()
    assert ["max_tokens" in body for body in server.bodies] == [True, False, False, False]
    assert all(body["temperature"] == 0.5 for body in server.bodies)
    assert told == ["compatible:m refuses the field 'max_tokens'; it is no longer sent."]


async def test_a_refusal_that_names_no_field_of_ours_stays_an_error(tmp_path: Path) -> None:
    server = Server("messages", "the conversation is too long")
    async with server.provider as provider:
        model = model_of(tmp_path, provider.base_url, "compatible:m", "model.target.temperature=0.5")
        with pytest.raises(ModelError, match="too long") as refused:
            await model.complete(request())
        assert not refused.value.again
        await model.close()


async def test_the_run_says_so(tmp_path: Path) -> None:
    notices: list[str] = []

    def hear(event: Any) -> None:
        if isinstance(event, Notice) and event.level == "warning":
            notices.append(event.text)

    async with Server("temperature", "Unknown field: temperature").provider as provider:
        rows = [{"id": f"t{n}", "prompt": f"{n}: 2 + 2?", "reference": "4"} for n in range(3)]
        (found,) = await skillopt.aevaluate(
            "none",
            target=f"compatible:m@{provider.base_url}",
            tasks={"train": rows[:1], "val": rows[1:]},
            split="val",
            out=tmp_path / "out",
            options={"model.target.temperature": 0.5},
            on_event=hear,
        )
    assert found.hard == 1.0
    assert notices == ["compatible:m refuses the field 'temperature'; it is no longer sent."]


@pytest.mark.parametrize(("budget", "caps"), [("budget.calls", {None}), ("budget.tokens", {16_384})])
async def test_a_budget_of_tokens_or_dollars_counts_on_a_cap_so_it_is_sent(
    budget: str, caps: set[int | None], tmp_path: Path
) -> None:
    server = Server()
    async with server.provider as provider:
        rows = [{"id": f"t{n}", "prompt": f"{n}: 2 + 2?", "reference": "4"} for n in range(3)]
        await skillopt.aevaluate(
            "none",
            target=f"compatible:m@{provider.base_url}",
            tasks={"train": rows[:1], "val": rows[1:]},
            split="val",
            out=tmp_path / "out",
            options={budget: 100_000},
        )
    assert {body.get("max_tokens") for body in server.bodies} == caps
