"""`skillopt runs explain` on a step of `proof`: each edit with the trials, joins and verdicts that the log stores."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cli._commands import SMALL, Command, run
from skillopt import optimize
from skillopt.testing import FunctionModel

Events = list[dict[str, Any]]


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of `proof` in which a control found a guilty edit; for reading only."""
    folder = tmp_path_factory.mktemp("proven") / "run"
    options = ("train.strategy=proof", "model.target=world:noise=0.15")
    ended = run("train quickstart --quiet --out_root", str(folder), "--cfg-options", *SMALL, *options)
    assert ended.code == 0, ended.err
    return folder


def read(folder: Path) -> Events:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def of(events: Events, kind: str, **wanted: str) -> Events:
    return [one for one in events if one["type"] == kind and all(one[key] == wanted[key] for key in wanted)]


@pytest.mark.slow
def test_each_edit_is_told_with_what_it_was_proven_by(skillopt: Command, proven: Path) -> None:
    ran = skillopt("runs explain", str(proven), "1", "--json")
    told = ran.json["proof"]
    assert ran.code == 0
    events = read(proven)
    states = json.loads((proven / "history.json").read_text())[0]["edit_states"]
    assert Counter(one["state"] for one in told["edits"]) == states
    assert told["trials"] == sum(len(one["trials"]) for one in of(events, "proved"))
    chosen = [one for one in told["edits"] if one["chosen"]]
    selected = [one["content"] for event in of(events, "selected") for one in event["edits"]]
    assert {one["edit"]["content"] for one in chosen if one["state"] == "applied"} <= set(selected)
    assert all(one["fixed"] and one["tried_on"] for one in chosen)
    assert {one["verdicts"]["c0"] for one in chosen if one["state"] == "applied"} == {"accept"}
    guilty = {id for one in of(events, "blamed", stage="control") for id in one["guilty"]}
    assert guilty and {one["id"] for one in told["edits"] if one["blamed"]} == guilty
    assert {one["state"] for one in told["edits"] if one["blamed"]} == {"harmful"}
    ids = {one["id"] for one in told["edits"]}
    assert {one["joined_into"] for one in told["edits"] if one["state"] == "merged"} <= ids - {None}
    looks = {one["id"]: (one["lane"], one["look"]) for one in told["edits"]}
    assert looks["e1/s1/analyst_proof/0#4"] == ("0", "1")


def test_every_proposal_ends_in_one_state(proven: Path) -> None:
    events = read(proven)
    proposed = sum(len(patch["edits"]) for one in of(events, "reflected") for patch in one["patches"])
    outcomes = [edit["edit"]["id"] for one in of(events, "updated") for edit in one["outcomes"]]
    assert len(outcomes) == len(set(outcomes)) == proposed


def test_chosen_edits_come_first_and_the_others_only_if_asked_for(skillopt: Command, proven: Path) -> None:
    short, full = (skillopt("runs explain", str(proven), "1", *more).out for more in ([], ["--all"]))
    assert "chosen after" in short and "--all shows them" in short and "harmful:" not in short
    assert "guilty by control" in full and "--all" not in full
    assert full.index("applied, c0 accepted:") < full.index("harmful:")


def test_a_step_without_trials_has_no_proof(skillopt: Command, finished: Path) -> None:
    assert skillopt("runs explain", str(finished), "1", "--json").json["proof"] is None


def test_a_step_whose_looks_were_all_unreadable_has_no_edits(skillopt: Command) -> None:
    tasks = [{"id": f"{n}", "prompt": f"What is {n}?", "answer": f"<{n}>"} for n in range(12)]
    optimize(
        target=FunctionModel(lambda request: "no idea"),
        optimizer=FunctionModel(lambda request: "no JSON"),
        tasks={"train": tasks[:4], "val": tasks[4:8], "test": tasks[8:]},
        scorer="exact_match",
        out="run",
        options={"train.strategy": "proof", "train.num_epochs": 1, "optimizer.use_slow_update": False},
    )
    ran = skillopt("runs explain run 1 --json")
    told = ran.json
    assert (ran.code, told["recorded"], told["proof"]["edits"]) == (0, "inconclusive", [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "guilty"),
    [
        (("env.train_cases=40", "env.val_cases=30"), {"control", "prune"}),
        (("env.train_cases=40", "env.val_cases=30", "evaluation.repeats=2"), {"control", "blame"}),
    ],
)
def test_guilty_edits_are_told_with_the_stage_that_found_them(
    skillopt: Command, options: tuple[str, ...], guilty: set[str]
) -> None:
    told = ("train", "quickstart", "--quiet", "--out_root", "run", "--cfg-options", "train.strategy=proof")
    assert skillopt(*told, "model.target=world:noise=0.02", *options).code == 0
    blamed, told_by = of(read(Path("run")), "blamed"), set[str]()
    for record in json.loads(Path("run/history.json").read_text()):
        ran = skillopt("runs explain run", str(record["step"]), "--json")
        place = f"e{record['epoch']}/s{record['step']}"
        for edit in ran.json["proof"]["edits"]:
            stages = {*edit["blamed"], *(["prune"] if edit["pruned"] else [])}
            here = [one for one in blamed if one["place"].startswith(place)]
            assert stages == {one["stage"] for one in here if edit["id"] in one["guilty"]}
            told_by |= stages
        assert ran.code == 0
    assert guilty <= told_by
