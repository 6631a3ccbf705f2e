"""Structured output: how a schema is asked for on each wire, and how `auto` steps down when a
server refuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from _loopback import Call, LoopbackProvider, Misbehaviour, world_answers
from claims.promises._runs import make_job
from skillopt.errors import ModelError
from skillopt.messages import Message, Request, Usage
from skillopt.models import PROVIDERS
from skillopt.models.port import Model, ModelSpec
from skillopt.models.stack.budgeted import Budgeted
from skillopt.models.stack.limited import Limited, Limiter, Retry
from skillopt.models.stack.recorded import request_key
from skillopt.models.stack.scrubbed import Scrubbed
from skillopt.models.wires.structured import closed, is_strict
from skillopt.money import Amount, Budget, Entry, Ledger
from skillopt.optimizer import replies
from skillopt.redact import Scrubber
from skillopt.run import open_run, train

STRICT = {
    "title": "Pick one!",
    "type": "object",
    "properties": {"choice": {"type": "string"}},
    "required": ["choice"],
    "additionalProperties": False,
}
LOOSE = {
    "title": "Loose",
    "type": "object",
    "properties": {"choice": {"type": "string", "default": ""}},
    "additionalProperties": True,
}
ANYTHING = {"type": "object", "properties": {"edits": {"type": "array", "items": {}}}, "required": ["edits"]}
ASK = Request(
    messages=(Message(role="user", content="Answer in JSON."),),
    max_tokens=64,
    role="optimizer",
    stage="merge",
    place="p",
    schema=STRICT,
)
WIRES: Mapping[str, ModelSpec] = {
    "chat": ModelSpec(provider="openai", name="m", api_key="k-123456"),
    "responses": ModelSpec(provider="openai", name="m", api_key="k-123456", options={"api": "responses"}),
    "messages": ModelSpec(provider="anthropic", name="m", api_key="k-123456"),
}


def said(body: Mapping[str, Any]) -> Any:
    """The field of a body that asks for structure, whichever the API."""
    return body.get("response_format") or body.get("text") or body.get("output_config")


async def bodies(
    spec: ModelSpec, request: Request = ASK, *, refuses: Mapping[str, str] | None = None, times: int = 1
) -> list[Any]:
    """What was sent, asked `times` times in one process; a body whose form is a key of `refuses` gets a 400
    that says its value.
    """
    seen: list[Any] = []

    def behave(call: Call) -> Misbehaviour | None:
        seen.append(said(call.body))
        for word, message in (refuses or {}).items():
            if word in str(seen[-1]):
                return Misbehaviour.status(
                    400, body={"error": {"message": message, "type": "invalid_request_error"}}
                )
        return None

    async with LoopbackProvider(lambda _: "{}", behave=behave) as server:
        url = server.url if spec.provider == "anthropic" else server.base_url
        provider: Model = PROVIDERS.get(spec.provider)(replace(spec, base_url=url))
        try:
            for _ in range(times):
                await Limited(provider, Limiter({})).complete(request)
        finally:
            await provider.close()
    return seen


FORMATS = {
    "chat": {"type": "json_schema", "json_schema": {"name": "Pick_one_", "schema": STRICT, "strict": True}},
    "responses": {"format": {"type": "json_schema", "name": "Pick_one_", "schema": STRICT, "strict": True}},
    "messages": {"format": {"type": "json_schema", "schema": STRICT}},
}
JSON_MODE = {"chat": {"type": "json_object"}, "responses": {"format": {"type": "json_object"}}}


@pytest.mark.parametrize("wire", WIRES)
async def test_a_schema_is_sent_in_the_providers_schema_mode_and_nothing_is_without_one(wire: str) -> None:
    assert await bodies(WIRES[wire]) == [FORMATS[wire]]
    assert await bodies(replace(WIRES[wire], structured_output="schema")) == [FORMATS[wire]]
    assert await bodies(replace(WIRES[wire], structured_output="off")) == [None]
    assert await bodies(WIRES[wire], replace(ASK, schema=None)) == [None]


@pytest.mark.parametrize("wire", JSON_MODE)
async def test_json_mode_is_sent_where_it_is_chosen(wire: str) -> None:
    assert await bodies(replace(WIRES[wire], structured_output="json")) == [JSON_MODE[wire]]
    assert await bodies(replace(WIRES[wire], structured_output="json"), replace(ASK, schema=None)) == [None]


async def test_what_strict_mode_forbids_is_sent_as_it_is_and_not_as_strict() -> None:
    for schema in (LOOSE, ANYTHING):
        (sent,) = await bodies(WIRES["chat"], replace(ASK, schema=schema))
        assert (sent["json_schema"]["schema"], sent["json_schema"]["strict"]) == (schema, False)


async def test_an_api_that_only_knows_closed_schemas_gets_a_narrower_one_or_none() -> None:
    (sent,) = await bodies(WIRES["messages"], replace(ASK, schema=LOOSE))
    assert sent == {"format": {"type": "json_schema", "schema": {**LOOSE, "additionalProperties": False}}}
    assert await bodies(WIRES["messages"], replace(ASK, schema=ANYTHING)) == [None]
    with pytest.raises(ModelError, match="auto or off"):
        await bodies(replace(WIRES["messages"], structured_output="schema"), replace(ASK, schema=ANYTHING))


@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_auto_steps_down_once_for_each_refused_form_and_remembers(wire: str) -> None:
    refuses = {"json_schema": "'response_format' of type 'json_schema' is not supported with this model."}
    sent = await bodies(WIRES[wire], refuses=refuses, times=3)
    assert sent == [FORMATS[wire], JSON_MODE[wire], JSON_MODE[wire], JSON_MODE[wire]]
    sent = await bodies(
        WIRES[wire], refuses={**refuses, "json_object": "response_format: unknown field"}, times=2
    )
    assert sent == [FORMATS[wire], JSON_MODE[wire], None, None]


async def test_calls_that_are_refused_together_step_down_together() -> None:
    seen: list[Any] = []

    def behave(call: Call) -> Misbehaviour | None:
        seen.append(said(call.body)["type"])
        return (
            Misbehaviour.status(400, body="json_schema is not supported")
            if seen[-1] == "json_schema"
            else None
        )

    async with LoopbackProvider(lambda _: "{}", behave=behave) as server:
        model: Model = PROVIDERS.get("openai")(replace(WIRES["chat"], base_url=server.base_url))
        await asyncio.gather(
            *(Limited(model, Limiter({})).complete(replace(ASK, place=f"p{number}")) for number in range(8))
        )
        await model.close()
    assert sorted(seen) == ["json_object"] * 8 + ["json_schema"] * seen.count("json_schema")
    assert seen[:2] == ["json_schema", "json_schema"]


async def test_auto_steps_down_to_the_prompt_where_there_is_no_json_mode() -> None:
    sent = await bodies(
        WIRES["messages"],
        refuses={"json_schema": "output_config.format: not supported by this model"},
        times=2,
    )
    assert sent == [FORMATS["messages"], None, None]


async def test_a_refusal_about_something_else_is_no_reason_to_step_down() -> None:
    for spec in WIRES.values():
        with pytest.raises(ModelError) as caught:
            await bodies(spec, refuses={"json_schema": "max_tokens is too large"})
        assert caught.value.kind == "contract"


async def test_a_chosen_form_is_never_given_up() -> None:
    with pytest.raises(ModelError) as caught:
        await bodies(
            replace(WIRES["chat"], structured_output="schema"),
            refuses={"json_schema": "response_format not supported"},
        )
    assert (caught.value.kind, caught.value.refused) == ("contract", True)


async def test_the_question_keeps_its_key_whatever_form_it_was_asked_in() -> None:
    refuses = Misbehaviour.status(400, body={"error": {"message": "response_format is not supported"}})
    async with LoopbackProvider(
        lambda _: "{}", behave=lambda call: refuses if said(call.body) else None
    ) as server:
        model: Model = PROVIDERS.get("openai")(replace(WIRES["chat"], base_url=server.base_url))
        before = request_key(model.fingerprint, ASK)
        await Limited(model, Limiter({})).complete(ASK)
        await model.close()
    assert server.calls == 3
    assert request_key(model.fingerprint, ASK) == before
    spec = replace(WIRES["chat"], base_url=server.base_url, structured_output="off")
    chosen = PROVIDERS.get("openai")(spec)
    assert chosen.fingerprint == {**model.fingerprint, "structured_output": "off"}


class Journal:
    """Ledger entries in memory: how each attempt was settled and what it was charged."""

    def __init__(self) -> None:
        self.settled: list[tuple[str, int]] = []

    def open(self, role: str, stage: str, place: str, reserved: Amount) -> int:
        return 0

    def close(self, entry: int, state: str, charged: Amount, usage: Usage | None) -> None:
        self.settled.append((state, charged.calls))

    def entries(self) -> list[Entry]:
        return []

    def keep_time(self, seconds: float) -> None:
        """Forgotten."""


async def test_each_step_down_is_metered_as_a_call_and_counts_as_no_retry() -> None:
    refuses = Misbehaviour.status(400, body={"error": {"message": "response_format is not supported"}})
    async with LoopbackProvider(
        lambda _: "{}", behave=lambda call: refuses if said(call.body) else None
    ) as server:
        provider: Model = PROVIDERS.get("openai")(replace(WIRES["chat"], base_url=server.base_url))
        journal = Journal()
        ledger = Ledger(Budget(), journal)
        paid = Budgeted(Scrubbed(provider, Scrubber([])), ledger, None)
        # a single transient failure would end the call
        limiter = Limiter({"optimizer": 1, "target": 1}, Retry(attempts=1))
        await Limited(paid, limiter).complete(ASK)
        await provider.close()
    assert server.calls == 3
    assert journal.settled == [("refused", 1), ("refused", 1), ("settled", 1)]


@pytest.mark.slow
async def test_training_goes_on_with_a_server_that_knows_no_structured_output(tmp_path: Path) -> None:
    refuses = Misbehaviour.status(
        400, body={"error": {"message": "Unrecognized request argument supplied: response_format"}}
    )
    results = []
    for name, behave in (
        ("strict", None),
        ("poor", lambda call: refuses if "response_format" in call.body else None),
    ):
        async with LoopbackProvider(world_answers(), behave=behave) as server:
            model = f"compatible:m@{server.base_url}"
            options = [
                f"model.target={model}",
                f"model.optimizer={model}",
                "train.batch_size=20",
                "train.num_epochs=1",
            ]
            options += ["env.train_cases=20", "env.val_cases=10", "env.test_cases=10"]
            async with open_run(make_job(options), tmp_path / name) as opened:
                results.append((await train(opened), server.log))
    (strict, strict_log), (poor, poor_log) = results
    assert poor.state.best == strict.state.best
    refused = [entry.place for entry in poor_log if entry.status == 400]
    assert 0 < len(refused) < len(poor_log)
    assert {entry.place for entry in poor_log} == {entry.place for entry in strict_log}


SHAPES = [
    shape
    for shape in vars(replies).values()
    if isinstance(shape, type) and issubclass(shape, replies._Reply) and shape.model_fields
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_every_reply_we_ask_for_can_be_enforced_by_an_api_that_only_knows_closed_schemas(shape: Any) -> None:
    made = closed(shape.model_json_schema())
    assert made is not None
    assert "'additionalProperties': True" not in str(made)


def test_names_of_properties_are_not_taken_for_keywords() -> None:
    odd = {
        "type": "object",
        "properties": {"items": {"type": "string"}, "default": {"type": "integer"}},
        "required": ["items", "default"],
    }
    assert closed(odd) == {**odd, "additionalProperties": False}
    assert is_strict({**odd, "additionalProperties": False})
    assert not is_strict({**odd, "required": ["items"], "additionalProperties": False})


def test_bounds_are_left_to_the_reader_of_the_reply() -> None:
    bounded = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}},
        "required": ["n"],
        "additionalProperties": False,
    }
    assert closed(bounded) == {**bounded, "properties": {"n": {"type": "integer"}}}
    assert not is_strict(bounded)
