"""`skillopt train --part description`, from no queries at all to a report, as a person does it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import skillopt as library
from _loopback import Call, LoopbackProvider
from _router import SimulatedRouter
from cli._commands import Command

EXAMPLE = Path(__file__).parents[2] / "examples" / "triggers"
ROWS = [json.loads(line) for line in (EXAMPLE / "triggers.jsonl").read_text().splitlines()]


@pytest.fixture
def routing() -> Iterator[LoopbackProvider]:
    """A simulated router, which drafts the queries of the example when it is asked to."""
    router = SimulatedRouter([row["prompt"] for row in ROWS])

    def say(call: Call) -> str:
        if not (call.place or "").startswith("draft_queries/"):
            return router(call)
        drafted = {
            kind: [row["prompt"] for row in ROWS if row["should_load"] is kind] for kind in (True, False)
        }
        return json.dumps({"should_load": drafted[True], "should_not_load": drafted[False]})

    with LoopbackProvider.in_thread(say) as provider:
        yield provider


@pytest.mark.slow
def test_from_no_queries_to_a_report(skillopt: Command, routing: LoopbackProvider) -> None:
    models = (
        "--target",
        f"compatible:t@{routing.base_url}",
        "--optimizer",
        f"compatible:o@{routing.base_url}",
    )
    words = ("--part", "description", "--skill_init", str(EXAMPLE / "schema-migrations"), "--num_epochs", "1")
    few = ("--minibatch_size", "16", "--failure_only", "true", "--out_root", "run")
    options = ("--cfg-options", f"triggers.skills={EXAMPLE / 'others'}")
    command = ("train", *words, *models, *few, *options)

    drafted = skillopt(*command)
    assert drafted.code == 5 and "delete the first line, and run the same command again" in drafted.err
    asked = len(routing.log)
    assert asked == 1 and not Path("run").exists()

    unread = skillopt(*command)
    assert unread.code == 2 and "triggers.jsonl, line 1: these queries were drafted by a model" in unread.err
    assert len(routing.log) == asked

    first, *rest = Path("triggers.jsonl").read_text().splitlines(keepends=True)
    assert "not reviewed" in first
    Path("triggers.jsonl").write_text("".join(rest))
    shown = skillopt("estimate", *words, *models, *few[:-2], *options)
    assert shown.code == 0 and "name and description alone: ci-pipelines, data-frames" in " ".join(
        shown.out.split()
    )
    assert len(routing.log) == asked

    done = skillopt(*command)
    assert done.code == 0, done.err
    assert "precision" in done.out and "Recall 0.000 to" in " ".join(done.out.split())
    assert "Listed beside it" in " ".join(done.err.split())
    assert skillopt("report run").code == 0
    assert "Recall 0.000 to" in Path("run/report.html").read_text()
    explained = skillopt("runs explain run 1")
    assert explained.code == 0
    assert "should-load: 0 of " in explained.out and "should-not-load: " in explained.out


def test_the_library_needs_no_tasks_for_a_description(skillopt: Command, routing: LoopbackProvider) -> None:
    Path("triggers.jsonl").write_text((EXAMPLE / "triggers.jsonl").read_text())
    result = library.optimize(
        target=f"compatible:t@{routing.base_url}",
        optimizer=f"compatible:o@{routing.base_url}",
        skill=EXAMPLE / "schema-migrations",
        options={
            "train.part": "description",
            "triggers.others": False,
            "train.num_epochs": 1,
            "gradient.minibatch_size": 16,
            "gradient.failure_only": True,
        },
    )
    settings = json.loads((result.folder / "settings.json").read_text())
    assert settings["train"]["strategy"] == "paper"  # proof keeps a description that always loads
    assert "Recall 0.000 to" in result.claim and result.best_skill.startswith(
        "---\nname: schema-migrations\n"
    )
