"""What the configurations of published benchmarks set, and what a run says of it."""

from __future__ import annotations

import json

from _loopback import LoopbackProvider
from claims.protocol._told import QUICK
from skillopt.config.load import load
from skillopt.events import Notice
from skillopt.run import open_run, prepare, train


async def test_what_a_published_benchmark_sets_for_the_published_loop_is_not_named_as_set(tmp_path):
    row = {"id": "q", "question": "Which city?", "context": "[DOC] Paris", "answers": ["Paris"]}
    for split in ("train", "val", "test"):
        items = [{**row, "id": f"{split}{n}", "question": f"Which city of {split} {n}?"} for n in range(5)]
        (tmp_path / split).mkdir(parents=True)
        (tmp_path / split / "items.json").write_text(json.dumps(items))
    async with LoopbackProvider(lambda call: "<answer>Paris</answer>") as provider:
        model = f"compatible:m@{provider.base_url}"
        flags = {"split_dir": str(tmp_path), "target_model": model, "optimizer_model": model}
        options = ["train.strategy=proof", "optimizer.learning_rate=3"]
        job = prepare(load("searchqa", flags=flags, options=options, environ={}, cwd=tmp_path))
        notices: list[Notice] = []
        async with open_run(job, tmp_path / "run", sinks=[notices.append], retry=QUICK) as opened:
            await train(opened)
    (told,) = [event.text for event in notices if isinstance(event, Notice) and "does not read" in event.text]
    assert "does not read optimizer.learning_rate;" in told
