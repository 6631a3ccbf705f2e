"""`skillopt explain`: a verdict follows from stored rows, and a log in which it does not is caught."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli._commands import SMALL, Command


def explained(skillopt: Command, folder: Path, step: str) -> tuple[int, dict[str, Any]]:
    ran = skillopt("explain", str(folder), step, "--json")
    return ran.code, json.loads(ran.out)


def history(folder: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((folder / "history.json").read_text())
    return records


def test_every_verdict_of_a_run_is_found_again(skillopt: Command, finished: Path) -> None:
    actions = set()
    for record in history(finished):
        code, data = explained(skillopt, finished, str(record["step"]))
        actions.add(data["recorded"])
        assert (code, data["recomputed"], data["agrees"]) == (0, data["recorded"], True)
        assert (data["rows_read"], len(data["edits"])) == (record["selection_rows"], record["edit_apply_summary"]["total"])
    assert {"accept", "reject"} <= actions


@pytest.mark.parametrize(
    "options",
    [
        ("evaluation.use_gate=false",),
        ("evaluation.gate_metric=mixed", "evaluation.gate_mixed_weight=0.3"),
        ("evaluation.repeats=2", "env.val_cases=12"),
    ],
    ids=lambda options: options[0],
)
def test_verdicts_are_found_again_under_other_gates(skillopt: Command, tmp_path: Path, options: tuple[str, ...]) -> None:
    assert skillopt("train", "quickstart", "--quiet", "--out_root", "run", "--cfg-options", *SMALL, *options).code == 0
    records = history(tmp_path / "run")
    epochs = [path.parent.name[-1] for path in (tmp_path / "run" / "slow_update").glob("*/selection_eval")]
    for step in [*(str(record["step"]) for record in records), *(f"epoch-{epoch}" for epoch in epochs)]:
        code, data = explained(skillopt, tmp_path / "run", step)
        assert (code, data["agrees"]) == (0, True), data
    assert len({record["action"] for record in records}) > 1 or options == ("evaluation.use_gate=false",)


def test_the_evidence_is_shown_to_people(skillopt: Command, finished: Path) -> None:
    step = next(record["step"] for record in history(finished) if record["action"] == "reject")
    said = skillopt("explain", str(finished), str(step)).out
    for words in (f"step {step}: rejected", "I, the incumbent's sum", "U <= I after", "U after it", "applied", "equals the recorded one"):
        assert words in said, words


def better_row(event: dict[str, Any]) -> None:
    for row in event["rows"]:
        row["hard"] = row["soft"] = 1.0


def fewer_rows(event: dict[str, Any]) -> None:
    event["rows"] = event["rows"][:1]


def other_order(event: dict[str, Any]) -> None:
    event["rows"].reverse()


@pytest.mark.parametrize("change", [better_row, fewer_rows, other_order], ids=lambda change: change.__name__)
def test_a_log_whose_rows_do_not_give_its_verdict_ends_with_1(
    skillopt: Command, finished: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    shutil.copytree(finished, tmp_path / "run")
    record = next(one for one in history(finished) if one["action"] == "reject" and one["selection_rows"] > 2)
    place = f"e{record['epoch']}/s{record['step']}"
    log = tmp_path / "run" / "events.jsonl"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    [closed] = [event for event in events if event["id"] == f"{place}/selection"]
    change(closed)
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    ran = skillopt("explain", "run", str(record["step"]))
    assert ran.code == 1
    assert "DIFFERS" in ran.out


@pytest.mark.parametrize(("step", "told"), [("99", "no verdict"), ("first", "'epoch-N'"), ("epoch-9", "no verdict")])
def test_a_step_that_is_not_there_is_bad_input(skillopt: Command, finished: Path, step: str, told: str) -> None:
    ran = skillopt("explain", str(finished), step)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


def test_a_folder_without_a_run_is_bad_input(skillopt: Command, tmp_path: Path) -> None:
    ran = skillopt("explain", str(tmp_path), "1")
    assert ran.code == 2
    assert "holds no run" in ran.err
