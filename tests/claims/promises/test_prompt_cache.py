"""The stable part of a prompt comes first: a provider that keeps prefixes has read most of a rollout's input
before, and what it kept is counted and priced as such.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from claims._product import SEED_SKILL, Answer, Call, LoopbackProvider, world_answers
from claims.promises._runs import make_job, run, summary

HANDBOOK = SEED_SKILL + "".join(
    f"\n- Point {number} of the handbook says what a colleague would have to know here."
    for number in range(40)
)
SIZES = ("env.train_cases=8", "env.val_cases=20", "env.test_cases=20", "train.num_epochs=1", "env.workers=4")


class PrefixCache:
    """A provider's prompt cache: of each call it knows the longest beginning that an earlier call had too. At
    Anthropic only what ends at a breakpoint is kept.
    """

    def __init__(self) -> None:
        self._world = world_answers()
        self._kept: set[str] = set()
        self.all: Counter[str] = Counter()
        self.of_rollouts: Counter[str] = Counter()

    def answer(self, call: Call) -> Answer:
        text, keeps = _asked(call)
        if call.api == "messages":
            cached = max((len(one) for one in self._kept if text.startswith(one)), default=0)
        else:
            cached = max((_shared(one, text) for one in self._kept), default=0)
        written = 0 if keeps in self._kept or call.api != "messages" else max(0, len(keeps) - cached)
        self._kept.add(keeps)
        read, hit, new = math.ceil(len(text) / 4), cached // 4, written // 4
        counts = {"input": read, "cached": hit, "written": new}
        self.all.update(counts)
        if (call.place or "").startswith("rollout/"):
            self.of_rollouts.update(counts)
        said = self._world(call)
        return Answer(
            text=said if isinstance(said, str) else said.text, input_tokens=read, cached=hit, cache_write=new
        )


def _shared(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _asked(call: Call) -> tuple[str, str]:
    """The input as one text, and the part of it that a cache keeps."""
    body: Any = call.body
    if call.api != "messages":
        text = json.dumps([body.get("tools"), body["messages"]])
        return text, text
    system = body.get("system", [])
    head = json.dumps([body.get("tools"), system])
    return head + json.dumps(body["messages"]), head if any("cache_control" in one for one in system) else ""


@pytest.mark.parametrize(
    "model",
    [
        pytest.param("compatible:m@{base_url}", marks=pytest.mark.slow),
        pytest.param("openai:gpt-4.1-mini@{base_url}", marks=pytest.mark.slow),
        "anthropic:claude-sonnet-4-6@{url}",
    ],
)
async def test_most_of_what_rollouts_read_was_read_before(model: str, tmp_path: Path) -> None:
    (tmp_path / "skill.md").write_text(HANDBOOK)
    cache = PrefixCache()
    async with LoopbackProvider(cache.answer) as provider:
        named = model.format(base_url=provider.base_url, url=provider.url)
        prices = ("price.input=3", "price.output=15", "price.cached=0.3", "price.cache_write=3.75")
        settings = [
            f"model.{role}.{part}"
            for role in ("target", "optimizer")
            for part in (f"name={named}", "api_key=planted", *prices)
        ]
        await run(make_job([*settings, *SIZES, f"env.skill_init={tmp_path / 'skill.md'}"]), tmp_path / "run")
    assert cache.of_rollouts["cached"] >= 0.8 * cache.of_rollouts["input"]
    spending = summary(tmp_path / "run")["spending"]
    assert spending["stages"]["_total"]["cached_tokens"] == cache.all["cached"]
    assert (cache.all["written"] > 0) == model.startswith("anthropic")
    fresh = cache.all["input"] - cache.all["cached"] - cache.all["written"]
    output = spending["stages"]["_total"]["completion_tokens"]
    usd = 3 * fresh + 0.3 * cache.all["cached"] + 3.75 * cache.all["written"] + 15 * output
    assert spending["usd"] == pytest.approx(usd / 1_000_000)
