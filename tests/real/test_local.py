"""Real small models in this process: reproducible, constrained, interruptible, and a whole training run on
them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillopt.errors import ModelError
from skillopt.messages import Message, Request
from skillopt.models import PROVIDERS
from skillopt.models.port import ModelSpec
from skillopt.models.reading import misfits

pytestmark = pytest.mark.real
EXAMPLE = Path(__file__).parents[2] / "examples" / "house-formats"
ASK = Request(
    messages=(Message(role="user", content="Name a town."),),
    max_tokens=24,
    role="target",
    stage="rollout",
    place="rollout/a.0/0",
)


def gguf(folder: Path, name: str) -> Path:
    path = folder / f"{name}.gguf"
    if not path.exists():
        pytest.skip(f"SKILLOPT_TEST_MODELS holds no {path.name}")
    return path


def local(path: Path, **settings: Any) -> Any:
    return PROVIDERS.get("local")(ModelSpec(provider="local", name=str(path), temperature=0.0, **settings))


@pytest.fixture
def tiny(test_models: Path) -> Path:
    return gguf(test_models, "smollm2")


async def test_greedy_answers_do_not_depend_on_what_was_asked_before(tiny: Path) -> None:
    """Also where prompts begin alike: the same skill, a longer one, questions with the same first words."""
    skill = "You are a clerk. " + "Answer in one short line. " * 8
    asked = [
        replace(ASK, messages=(*before, Message(role="user", content=text)))
        for before in (
            (),
            (Message(role="system", content=skill),),
            (Message(role="system", content=skill * 2),),
        )
        for text in ("Name a town.", "Name a town in Italy.", "2 + 2?")
    ]
    model = local(tiny)
    forward = [(await model.complete(request)).text for request in asked]
    backward = [(await model.complete(request)).text for request in reversed(asked)]
    assert forward == backward[::-1]
    assert all(forward)


async def test_usage_and_the_cap_are_reported(tiny: Path) -> None:
    reply = await local(tiny).complete(replace(ASK, max_tokens=5))
    assert reply.finish == "length"
    assert reply.usage is not None
    assert reply.usage.output_tokens == 5
    assert reply.usage.input_tokens > 5


async def test_a_reply_is_held_to_its_schema(tiny: Path) -> None:
    schema = {
        "type": "object",
        "additionalProperties": True,
        "properties": {"patch": {"$ref": "#/$defs/Patch"}},
        "required": ["patch"],
        "$defs": {
            "Patch": {
                "type": "object",
                "properties": {"op": {"enum": ["append", "delete"]}, "count": {"type": "integer"}},
                "required": ["op", "count"],
            }
        },
    }
    reply = await local(tiny).complete(replace(ASK, schema=schema, max_tokens=80))
    assert reply.finish == "stop"
    assert list(misfits(json.loads(reply.text), schema)) == []


@pytest.mark.parametrize(
    ("options", "words", "remedy"),
    [
        ({"n_ctx": 256}, 600, r"model\.target\.options\.n_ctx is 256: set it higher"),
        ({"n_ctx": 16_384}, 9000, "this file was made for 8192 tokens: name another model"),
    ],
)
async def test_a_request_beyond_the_window_is_too_long_and_says_what_would_help(
    tiny: Path, options: dict[str, int], words: int, remedy: str
) -> None:
    with pytest.raises(ModelError, match=remedy) as failed:
        await local(tiny, options=options).complete(
            replace(ASK, messages=(Message(role="user", content="word " * words),))
        )
    assert (failed.value.kind, failed.value.refused) == ("too_long", True)


async def test_only_what_the_call_before_has_read_is_cached(tiny: Path) -> None:
    skilled = (Message(role="system", content="You are a clerk. " * 20), *ASK.messages)
    model = local(tiny)
    used = [(await model.complete(replace(ASK, messages=skilled))).usage for _ in range(2)]
    assert used[0] is not None and used[1] is not None
    assert used[0].cached_tokens == 0 and (used[1].cached_tokens or 0) > 50


async def test_a_call_that_takes_too_long_makes_room_for_the_next(tiny: Path) -> None:
    story = replace(
        ASK, messages=(Message(role="user", content="Write a long story about a fox."),), max_tokens=2000
    )
    before = time.monotonic()
    with pytest.raises(ModelError, match="timeout"):
        await local(tiny, timeout=1.0).complete(story)
    await local(tiny).complete(replace(ASK, max_tokens=1))
    assert time.monotonic() - before < 15


CHECK_OFF = "evaluation.check_baseline=false"  # so small a model may say nothing at all
SMALL = (
    "env.limit=5",
    "train.num_epochs=1",
    "train.batch_size=3",
    "train.proof.depth=1",
    "evaluation.eval_test=true",
)


@pytest.mark.timeout(300)
def test_a_whole_run_on_real_models_ends_costs_no_dollars_and_pays_nothing_twice(
    test_models: Path, tmp_path: Path
) -> None:
    """The machinery, not the lift: such a small model is not expected to get better."""
    model = f"local:{gguf(test_models, 'smollm2')}"
    few = [part for option in (*SMALL, CHECK_OFF) for part in ("--cfg-options", option)]
    command = [
        sys.executable,
        "-m",
        "skillopt",
        "train",
        "--config",
        str(EXAMPLE / "train.yaml"),
        "--out_root",
        str(tmp_path / "run"),
    ]
    command += ["--target_model", model, "--optimizer_model", model, "--budget", "$0.01", "--json", *few]

    def train() -> dict[str, Any]:
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        done = subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
        )
        assert done.returncode == 0, done.stderr
        return dict(json.loads((tmp_path / "run" / "summary.json").read_text()))

    first = train()
    spent = first["spending"]
    assert spent["usd"] == 0.0
    assert spent["attempts"] == {"settled": spent["calls"]}
    assert (
        spent["tokens"]
        == spent["stages"]["_total"]["prompt_tokens"] + spent["stages"]["_total"]["completion_tokens"]
        > 0
    )
    assert spent["stages"]["analyst_proof"]["calls"] >= 1
    assert first["test"]["comparison"]["n"] == 5
    assert train()["spending"]["calls"] == spent["calls"]
