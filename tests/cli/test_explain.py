"""`skillopt runs explain`: a verdict follows from stored rows, and a log in which it does not is caught."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _loopback import Answer, Call, LoopbackProvider
from claims.commands._provider import RULE, answer, write_splits
from cli._commands import SMALL, Command, run
from skillopt.events import Judged
from skillopt.events.place import Place
from skillopt.runs.explain import find, replay
from skillopt.runs.log import read_events
from skillopt.runs.reader import read_run

LIES = (0.01, None)


def explained(skillopt: Command, folder: Path, step: str) -> tuple[int, dict[str, Any]]:
    ran = skillopt("runs explain", str(folder), step, "--json")
    return ran.code, ran.json


def history(folder: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((folder / "history.json").read_text())
    return records


def test_every_verdict_of_a_run_is_found_again(skillopt: Command, finished: Path) -> None:
    actions = set()
    for record in history(finished):
        code, data = explained(skillopt, finished, str(record["step"]))
        actions.add(data["recorded"])
        assert (code, data["recomputed"], data["agrees"]) == (0, data["recorded"], True)
        assert data["rows_read"] == record["selection_rows"]
        saved = [one for one in record["candidates"][1:] if one["action"] == "accept"]
        assert len(data["edits"]) == (
            len(saved[0]["edits"]) if saved else record["edit_apply_summary"]["total"]
        )
    assert {"accept", "reject"} <= actions


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("evaluation.use_gate=false",),
        ("evaluation.gate_metric=mixed", "evaluation.gate_mixed_weight=0.3"),
        ("evaluation.repeats=2", "env.val_cases=12"),
        ("gate.policy=no_regression",),
        ("gate.policy=paired", "gate.alpha=0.2"),
        ("gate.policy=size_capped", "gate.max_chars=400"),
        ("gate.policy=confirm", "model.target=world:noise=0.15"),
        (
            "gate.policy=confirm",
            "model.target=world:noise=0.15",
            "gate.confirm_draws=3",
            "evaluation.repeats=2",
            "env.val_cases=12",
        ),
        ("gate.policy=confirm", "optimizer.slow_update_gate_with_selection=false"),
        ("gate.policy=size_capped", "gate.max_chars=400", "evaluation.use_gate=false"),
    ],
    ids=lambda options: " ".join(options),
)
def test_verdicts_are_found_again_under_other_gates(
    skillopt: Command, tmp_path: Path, options: tuple[str, ...]
) -> None:
    ran = skillopt("train quickstart --quiet --out_root run --cfg-options", *SMALL, *options)
    assert ran.code == 0, ran.err
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    decided = Counter()
    for verdict in (event for event in events if event["type"] == "judged"):
        code, data = explained(skillopt, tmp_path / "run", name_of(verdict["place"]))
        assert (code, data["agrees"], data["place"]) == (0, True, verdict["place"]), data
        decided[verdict["action"], verdict["decided_by"]] += 1
    assert len({action for action, _ in decided}) > 1
    policy = dict(option.split("=", 1) for option in options).get("gate.policy", "")
    if "evaluation.use_gate=false" not in options:
        assert OWN_REJECTS.get(policy, ("reject", "score")) in decided


KINDS_OF_RUNS = {
    "train.strategy": ["paper", "proof"],
    "optimizer.skill_update_mode": ["patch", "rewrite_from_suggestions"],
    "optimizer.slow_update_gate_with_selection": ["true", "false"],
    "gate.policy": ["strict", "confirm", "no_regression", "paired", "size_capped"],
    "gate.max_chars": ["0", "600"],
    "gate.max_tokens_increase": ["null", "0.3"],
    "evaluation.use_gate": ["true", "false"],
    "evaluation.gate_metric": ["hard", "soft", "mixed"],
    "evaluation.repeats": ["1", "2"],
    "model.target": ["world:noise=0", "world:noise=0.2", "world:harm=0.3"],
}


@pytest.mark.slow
@given(chosen=st.fixed_dictionaries({key: st.sampled_from(values) for key, values in KINDS_OF_RUNS.items()}))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_the_policy_over_the_stored_rows_gives_the_stored_verdict_of_every_kind_of_run(
    chosen: dict[str, str],
) -> None:
    with tempfile.TemporaryDirectory() as home:
        options = [f"{key}={value}" for key, value in chosen.items()]
        out = str(Path(home) / "run")
        small = ("env.train_cases=16", "env.val_cases=10", "env.test_cases=4", "train.num_epochs=2")
        ran = run("train quickstart --quiet --out_root", out, "--cfg-options", *small, *options)
        assert ran.code == 0, ran.err
        reader = read_run(Path(out))
        judged = [one for one in read_events(Path(out) / "events.jsonl") if isinstance(one, Judged)]
        assert judged
        for one in judged:
            again = replay(reader, find(reader, name_of(str(one.place))))
            assert again.agrees, (again.reason, one)
            assert (again.action, again.decided_by) == (one.action, one.decided_by)


OWN_REJECTS = {
    "no_regression": ("reject", "regression"),
    "paired": ("reject", "chance"),
    "size_capped": ("reject", "length"),
}
"""What a policy refused that strict would have taken further."""


def name_of(place: str) -> str:
    """A place of the log as `explain` is asked for it."""
    at = Place.parse(place)
    return f"epoch-{at.epoch}" if at.scope == "end" else f"{at.step}/c{at.candidate}"


@pytest.mark.slow
def test_a_confirmation_is_explained_reading_by_reading(skillopt: Command, tmp_path: Path) -> None:
    options = ("gate.policy=confirm", "model.target=world:noise=0.15")
    assert skillopt("train quickstart --quiet --out_root run --cfg-options", *SMALL, *options).code == 0
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    accepted = next(event for event in events if event["type"] == "judged" and event["action"] == "accept")
    first = next(
        event for event in events if event["type"] == "stage_closed" and event["place"] == "baseline"
    )
    assert (len(first["rows"]), accepted["rows_used"]) == (80, 80)  # 20 tasks drawn twice, and twice again
    _, data = explained(skillopt, tmp_path / "run", name_of(accepted["place"]))
    draws = [row["draw"] for row in data["rows"]]
    assert (set(draws[:40]), set(draws[40:])) == ({0, 1}, {2, 3})
    said = skillopt("runs explain run", name_of(accepted["place"])).out
    assert "Policy: confirm." in said
    assert "drawn again" in said


def test_a_step_that_was_saved_in_part_is_explained_by_the_candidate_that_was_taken(
    skillopt: Command, finished: Path
) -> None:
    for record in history(finished):
        tried = record["candidates"]
        taken = next((one["id"] for one in tried if one["action"] == "accept"), 0)
        if len(tried) > 1:
            _, data = explained(skillopt, finished, str(record["step"]))
            assert data["name"] == f"step {record['step']}/c{taken}"
            assert len(data["others"]) == len(tried) - 1
            code, data = explained(skillopt, finished, f"{record['step']}/c0")
            assert (code, data["recorded"], data["agrees"]) == (0, "reject", True)


def test_the_evidence_is_shown_to_people(skillopt: Command, finished: Path) -> None:
    step = next(record["step"] for record in history(finished) if record["action"] == "reject")
    said = skillopt("runs explain", str(finished), str(step)).out
    for words in (
        f"step {step}: rejected",
        "I, the incumbent's sum",
        "U <= I after",
        "U after it",
        "applied",
        "equals the recorded one",
    ):
        assert words in said, words


def test_only_rows_that_changed_are_shown_unless_all_are_wanted(skillopt: Command, finished: Path) -> None:
    step = str(next(record["step"] for record in history(finished) if record["action"] == "accept_new_best"))
    rows = explained(skillopt, finished, step)[1]["rows"]
    changed = [row for row in rows if row["candidate"] != row["incumbent"]]
    short, whole = (skillopt("runs explain", str(finished), step, *more).out for more in ((), ("--all",)))
    listed = [sum(" │ W" in line for line in said.splitlines()) for said in (short, whole)]
    assert listed == [len(changed), len(rows)] and 0 < len(changed) < len(rows)
    assert f"{len(rows) - len(changed)} rows without a change: --all shows them." in short
    assert "without a change" not in whole


def better_rows(event: dict[str, Any]) -> None:
    for row in event["rows"]:
        row["hard"] = row["soft"] = 1.0


def fewer_rows(event: dict[str, Any]) -> None:
    event["rows"] = event["rows"][:1]


def other_order(event: dict[str, Any]) -> None:
    event["rows"].reverse()


def other_score(name: str, lie: float | None) -> Callable[[dict[str, Any]], None]:
    def change(event: dict[str, Any]) -> None:
        event[name] = None if lie is None else event[name] + lie

    change.__name__ = f"{name}_{lie}"
    return change


@pytest.mark.parametrize(
    ("action", "event", "change"),
    [
        *(("reject", "selection", change) for change in (better_rows, fewer_rows, other_order)),
        *(
            ("accept", "verdict", other_score(name, lie))
            for name in ("candidate", "incumbent")
            for lie in LIES
        ),
        *(("reject", "verdict", other_score(name, lie)) for name in ("incumbent", "bound") for lie in LIES),
    ],
)
def test_a_log_whose_rows_do_not_give_its_verdict_or_its_scores_ends_with_1(
    skillopt: Command,
    finished: Path,
    tmp_path: Path,
    action: str,
    event: str,
    change: Callable[[dict[str, Any]], None],
) -> None:
    shutil.copytree(finished, tmp_path / "run")
    records = [one for one in history(finished) if one["action"].startswith(action)]
    record = next(one for one in records if event == "verdict" or one["selection_rows"] > 2)
    log = tmp_path / "run" / "events.jsonl"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    [found] = [one for one in events if one["id"] == f"e{record['epoch']}/s{record['step']}/{event}"]
    change(found)
    log.write_text("".join(json.dumps(one) + "\n" for one in events))
    ran = skillopt("runs explain run", str(record["step"]))
    assert ran.code == 1 and "DIFFERS" in ran.out


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["rewrite_from_suggestions", "full_rewrite_minibatch"])
def test_proposals_of_a_rewriting_mode_are_named_in_words(skillopt: Command, mode: str) -> None:
    ran = skillopt(
        "train quickstart --quiet --out_root run --cfg-options", *SMALL, f"optimizer.skill_update_mode={mode}"
    )
    assert ran.code == 0, ran.err
    shown = skillopt("runs explain run 1").out.partition("Edits and how they ended:")[2]
    shown = shown.partition("The recomputed verdict")[0]
    assert "?" not in shown and ("whole skill" if mode.startswith("full") else "add_rule") in shown


def test_without_a_step_the_last_one_is_explained(skillopt: Command, finished: Path) -> None:
    last = max(record.step for record in read_run(finished).fold.records)
    assert (
        skillopt("runs explain", str(finished)).out == skillopt("runs explain", str(finished), str(last)).out
    )


def test_a_skill_that_outgrows_the_window_is_named_before_it_is_measured(
    skillopt: Command, tmp_path: Path
) -> None:
    splits, long = write_splits(tmp_path / "splits"), "x" * 4_000
    measured_with_it: list[str] = []

    def answering(call: Call) -> Answer:
        if str(call.place).startswith("rollout") and long in call.text:
            measured_with_it.append(call.text)
        told = answer(call)
        return replace(told, text=told.text.replace(RULE, f"{RULE} {long}"))

    with LoopbackProvider.in_thread(answering) as provider:
        models = [f"--{role}_model=compatible:m@{provider.base_url}" for role in ("target", "optimizer")]
        words = ["train", "--env", "searchqa", "--split_dir", str(splits), *models, "--num_epochs", "1"]
        words += ["--cfg-options", "model.target.context_window=1000"]
        ran = skillopt(*words, "env.out_root=run")
        assert ran.code == 0, ran.err
        sent = provider.calls
        (tmp_path / "long.md").write_text(f"# Long\n\n{long}\n")
        refused = skillopt(*words, "env.skill_init=long.md", "env.out_root=another")
        assert (refused.code, provider.calls) == (2, sent)
    assert "The skill alone has about 1,002 tokens" in refused.err and "Shorten the skill" in refused.err
    assert measured_with_it == []
    code, data = explained(skillopt, tmp_path / "run", "1")
    assert (code, data["recomputed"], data["decided_by"]) == (0, "reject", "rule")
    assert "model.target.context_window is 1,000" in data["reason"]
