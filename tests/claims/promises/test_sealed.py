"""Val and test never reach the optimizer; test rows are shown to nobody before the end."""

from __future__ import annotations

import json
import re

from claims._product import (
    Arrived,
    Call,
    Event,
    LoopbackProvider,
    TestMeasured,
    api,
    load,
    open_run,
    prepare,
    world_answers,
)

VAL, TEST = re.compile(r"W00[345]\d{3}"), re.compile(r"W00[6-9]\d{3}")


async def test_no_held_out_task_is_ever_in_a_prompt_of_the_optimizer_or_on_the_screen(tmp_path):
    told: list[str] = []
    events: list[Event] = []

    def answer(call: Call) -> str:
        if not (call.place or "").startswith("rollout/"):
            told.append(call.text)
        return world_answers()(call)

    async with LoopbackProvider(answer) as provider:
        model = f"compatible:m@{provider.base_url}"
        options = [
            "env.name=world",
            f"model.target={model}",
            f"model.optimizer={model}",
            "env.train_cases=30",
            "env.val_cases=24",
        ]
        options += ["env.test_cases=20", "train.batch_size=15", "train.num_epochs=3"]
        job = prepare(load(None, flags={}, options=options, environ={}, cwd=tmp_path))
        async with open_run(job, tmp_path / "run", sinks=[events.append]) as opened:
            await api.train(opened)
    assert len(told) > 20
    assert not [text for text in told if VAL.search(text) or TEST.search(text)]
    opened = next(at for at, event in enumerate(events) if isinstance(event, TestMeasured))
    assert not [event for event in events[:opened] if TEST.search(event.model_dump_json())]
    early = [event for event in events[:opened] if isinstance(event, Arrived) and event.stage == "test"]
    assert early and all(event.hard is None and event.invalid is None for event in early)
    before = (tmp_path / "run" / "events.jsonl").read_text().split('"test_measured"')[0]
    assert not TEST.search(before.rpartition("\n")[0])
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["test"]["look"] == 1
