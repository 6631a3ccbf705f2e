"""`skillopt explain` on a step of `proof`: what edits were proven by follows from stored rows, and a log in
which it does not is caught.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli._commands import SMALL, Command, run
from skillopt import optimize
from skillopt.messages import Request
from skillopt.testing import FunctionModel

Events = list[dict[str, Any]]


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of `proof` in which a control found a guilty edit; for reading only."""
    folder = tmp_path_factory.mktemp("proven") / "run"
    options = ("train.strategy=proof", "model.target=world:noise=0.15")
    ended = run(
        "train", "quickstart", "--quiet", "--out_root", str(folder), "--cfg-options", *SMALL, *options
    )
    assert ended.code == 0, ended.err
    return folder


def read(folder: Path) -> Events:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def of(events: Events, kind: str, **wanted: str) -> Events:
    return [one for one in events if one["type"] == kind and all(one[key] == wanted[key] for key in wanted)]


@pytest.mark.slow
def test_each_edit_is_told_with_what_it_was_proven_by(skillopt: Command, proven: Path) -> None:
    ran = skillopt("explain", str(proven), "1", "--json")
    told = json.loads(ran.out)["proof"]
    assert (ran.code, told["agrees"], told["differences"]) == (0, True, [])
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
    outcomes = [edit["id"] for one in of(events, "updated") for edit in one["outcomes"]]
    assert len(outcomes) == len(set(outcomes)) == proposed


def test_chosen_edits_come_first_and_the_others_only_if_asked_for(skillopt: Command, proven: Path) -> None:
    short, full = (skillopt("explain", str(proven), "1", *more).out for more in ([], ["--all"]))
    assert "chosen after" in short and "--all shows them" in short and "harmful:" not in short
    assert "guilty by control" in full and "--all" not in full
    assert full.index("applied, c0 accepted:") < full.index("harmful:")


def no_longer_fixed(events: Events) -> str:
    """Every trial of a chosen edit failed."""
    edit = next(
        one for event in of(events, "updated") for one in event["outcomes"] if one["state"] == "applied"
    )
    for trial in (trial for event in of(events, "proved") for trial in event["trials"]):
        for row in trial["rows"] if edit["id"] in trial["edits"] else ():
            row.update(hard=0.0, soft=0.0)
    return f"no trial shows that {edit['id']} fixes"


def guilty_forgotten(events: Events) -> str:
    blamed = next(one for one in of(events, "blamed") if one["guilty"])
    blamed["guilty"] = []
    return f"{blamed['id']}: guilty by the record none, by its rows"


def innocent_blamed(events: Events) -> str:
    blamed = of(events, "blamed", stage="prune")[0]
    blamed["guilty"] = ["e1/s1/analyst_proof/0#0"]
    return f"{blamed['id']}: guilty by the record e1/s1/analyst_proof/0#0, by its rows none"


def nothing_broken(events: Events) -> str:
    """All rows of a control passed, so that nothing called for blame."""
    blamed = next(one for one in of(events, "blamed") if one["guilty"])
    for row in blamed["trials"][0]["rows"]:
        row.update(hard=1.0, soft=1.0)
    return f"{blamed['id']}: the rows do not ask for the trial of"


def trial_lost(events: Events) -> str:
    blamed = next(one for one in of(events, "blamed") if one["guilty"])
    del blamed["trials"][-1]
    return f"{blamed['id']}: the rows ask for a trial of"


def worth_forgotten(events: Events) -> str:
    blamed = next(one for one in of(events, "blamed") if one["guilty"])
    blamed["fixes"] = {}
    return f"{blamed['id']}: what {blamed['guilty'][0]} should fix is not there"


def other_noise(events: Events) -> str:
    of(events, "proved")[0]["noise"] = 0.5
    return "noise is recorded as 0.5 and comes out as"


def joined_by_nobody(events: Events) -> str:
    """Two edits are joined that the optimizer model did not name."""
    aggregated = of(events, "aggregated")[0]
    named = {id for ids in aggregated["joined"] for id in ids}
    pair = [id for id in aggregated["asked"] if id not in named][:2]
    aggregated["joined"].append(pair)
    return f"the stored reply does not join {', '.join(pair)}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "tamper",
    [
        joined_by_nobody,
        no_longer_fixed,
        guilty_forgotten,
        innocent_blamed,
        nothing_broken,
        trial_lost,
        worth_forgotten,
        other_noise,
    ],
    ids=lambda tamper: tamper.__name__,
)
def test_a_proof_that_does_not_follow_from_its_rows_is_said(
    skillopt: Command, proven: Path, tmp_path: Path, tamper: Callable[[Events], str]
) -> None:
    shutil.copytree(proven, tmp_path / "run")
    events = read(proven)
    said = tamper(events)
    (tmp_path / "run" / "events.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
    ran = skillopt("explain", "run", "1")
    assert ran.code == 1
    assert f"DIFFERS: {said}" in " ".join(ran.out.split())
    assert "The recomputed verdict equals the recorded one." in ran.out


def test_a_step_without_trials_has_no_proof(skillopt: Command, finished: Path) -> None:
    assert json.loads(skillopt("explain", str(finished), "1", "--json").out)["proof"] is None


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
    ran = skillopt("explain", "run", "1", "--json")
    told = json.loads(ran.out)
    assert (ran.code, told["recorded"], told["proof"]["edits"]) == (0, "inconclusive", [])


def test_joins_that_code_made_for_a_small_optimizer_need_no_stored_reply(skillopt: Command) -> None:
    def target(request: Request) -> str:
        number = re.findall(r"\d+", request.messages[-1].content)[0]
        return f"<{number}>" if re.search(r"Example: <\d+>", request.messages[0].content) else "No idea."

    def optimizer(request: Request) -> str:
        return json.dumps({"rule": "Put the number into brackets.", "request": "?", "answer": "no"})

    tasks = [
        {"prompt": f"Which {kind} is {n}?", "answer": f"<{n}>", "kind": kind}
        for at in range(9)
        for kind, n in (("town", at), ("river", at + 10))
    ]
    optimize(
        target=FunctionModel(target),
        optimizer=FunctionModel(optimizer),
        tasks={"train": tasks[:6], "val": tasks[6:12], "test": tasks[12:]},
        scorer="exact_match",
        out="run",
        options={
            "train.strategy": "proof",
            "train.num_epochs": 1,
            "model.optimizer.prompts": "small",
            "env.kind_field": "kind",
            "optimizer.use_slow_update": False,
        },
    )
    (aggregated,) = of(read(Path("run")), "aggregated")
    assert aggregated["joined"] and not aggregated["asked"]
    ran = skillopt("explain", "run", "1", "--json")
    assert (ran.code, json.loads(ran.out)["proof"]["differences"]) == (0, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "guilty"),
    [
        ((), set()),
        (("model.target=world:noise=0.05",), set()),
        (("env.train_cases=40", "env.val_cases=30"), {"control", "prune"}),
        (("env.train_cases=40", "env.val_cases=30", "evaluation.repeats=2"), {"control", "blame"}),
    ],
)
def test_proofs_are_found_again_in_other_runs(
    skillopt: Command, options: tuple[str, ...], guilty: set[str]
) -> None:
    told = ("train", "quickstart", "--quiet", "--out_root", "run", "--cfg-options", "train.strategy=proof")
    assert skillopt(*told, "model.target=world:noise=0.02", *options).code == 0
    for record in json.loads(Path("run/history.json").read_text()):
        ran = skillopt("explain", "run", str(record["step"]), "--json")
        assert (ran.code, json.loads(ran.out)["proof"]["differences"]) == (0, [])
    assert guilty <= {one["stage"] for one in of(read(Path("run")), "blamed") if one["guilty"]}
