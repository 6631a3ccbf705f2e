"""The experiment with personas: nights learn, the harmful edit is really proposed, measured and rejected, and
no assertion is empty.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from _loopback import LoopbackProvider
from night.experiments._programs import PAGE, Ran, log, of_type, run
from skillopt_sleep.experiments import run_experiment as proof

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "nights"))

from _persona import PERSONAS, PROGRAMMER, RESEARCHER, Persona
from _simulated import Call, of_persona
from run_experiment import main

SRC = Path(__file__).resolve().parents[3] / "src"


@dataclass(frozen=True)
class Shown:
    """One persona with the gate on, as a person sees it, and as `--json` says it with the gate on and off."""

    persona: Persona
    folder: Path
    text: Ran
    on: dict[str, Any]
    off: dict[str, Any]


@pytest.fixture(scope="module", params=sorted(PERSONAS))
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    name: str = request.param
    folder = tmp_path_factory.mktemp("experiments7c")
    text = run(main, "--persona", name, "--assert-improves", "--out", folder)
    on = run(main, "--persona", name, "--json", "--out", folder)  # the same nights again, from what they left
    off = run(main, "--persona", name, "--json", "--gate", "off", "--nights", 2)
    return Shown(PERSONAS[name], folder / "night-1", text, on.data, off.data)


@pytest.mark.slow
def test_the_log_shows_the_harmful_edit_proposed_measured_and_rejected(shown: Shown) -> None:
    assert shown.text.code == 0, shown.text.err
    harmful, printed, events = shown.persona.harmful, shown.text.out, log(shown.folder)
    proposed = [event["place"] for event in of_type(events, "reflected") if harmful in str(event["patches"])]
    assert proposed == ["e1/s1"]
    (candidate,) = (event for event in of_type(events, "updated") if event["place"] == "e1/s1")
    skills = dict(sqlite3.connect(shown.folder / "run.db").execute("SELECT digest, text FROM skills"))
    assert harmful in skills[candidate["skill"]]
    (measured,) = (
        event
        for event in of_type(events, "stage_closed")
        if (event["place"], event["stage"]) == ("e1/s1", "selection")
    )
    assert len(measured["rows"]) == 15
    assert all(row["hard"] == 0 for row in measured["rows"])
    (verdict,) = (event for event in of_type(events, "judged") if event["place"] == "e1/s1")
    assert (verdict["action"], verdict["rows_used"], verdict["skill"]) == ("reject", 15, candidate["skill"])
    assert all(harmful not in skills[event["state"]["skill"]] for event in of_type(events, "checkpoint"))
    assert "proposed   in night 1, step 1 (e1/s1)" in printed
    assert (
        f"measured   on 15 of {verdict['rows_total']} val rows, 0 of them passed; mixed score at most"
        in printed
    )
    assert f"rejected   {verdict['why']}" in printed
    assert "PASS" in printed
    if shown.persona is RESEARCHER:
        assert printed in PAGE


def test_with_the_gate_the_held_out_score_rises_and_without_it_the_harmful_edit_gets_in_and_it_falls(
    shown: Shown,
) -> None:
    before = {"researcher": 0.333, "programmer": 0.4}[shown.persona.name]
    on, off, harmful = shown.on, shown.off, shown.persona.harmful
    assert (round(on["baseline_holdout"], 3), on["after_holdout"], on["gate_blocks_harmful"]) == (
        before,
        1.0,
        True,
    )
    assert harmful not in on["final_skill_excerpt"]
    assert (round(off["baseline_holdout"], 3), off["after_holdout"], off["gate_blocks_harmful"]) == (
        before,
        0.0,
        False,
    )
    assert harmful in off["final_skill_excerpt"]
    assert off["harmful"]["steps"][0]["taken"] is True
    assert "The gate was off" in off["trace"][0]["claim"]


def test_the_rejected_edit_is_not_proposed_again_because_the_optimizer_is_told_of_it(shown: Shown) -> None:
    assert [trail["place"] for trail in shown.on["harmful"]["steps"]] == ["e1/s1"]
    assert [step["action"] for step in shown.on["trace"][0]["steps"]] == ["reject", "accept_new_best"]


def test_json_has_the_public_keys_and_says_what_is_simulated(shown: Shown) -> None:
    public = (
        "persona backend model n_tasks nights_run baseline_holdout after_holdout lift improved"
        " gate_blocks_harmful tokens_used"
    )
    assert {*public.split(), "final_skill_excerpt", "trace"} <= set(shown.on)
    tasks = {"researcher": 12, "programmer": 8}[shown.persona.name]
    assert (shown.on["backend"], shown.on["n_tasks"], shown.on["nights_run"]) == ("simulated", tasks, 1)
    assert shown.on["simulated"].startswith("Simulated: target and optimizer")
    (started,) = of_type(log(shown.folder), "run_started")  # and so does every later report of the run folder
    assert started["simulated"] is True
    assert shown.on["trace"][0]["claim"].startswith("Simulated: ")
    assert shown.on["tokens_used"] > 0


@pytest.mark.slow
def test_the_next_night_starts_from_what_the_night_before_learned() -> None:
    data = run(main, "--edit-budget", 1, "--json").data  # one rule a step, so that two rules take two nights
    first, second = data["trace"]
    assert (first["val_after"], second["val_before"], second["val_after"]) == (0.5, 0.5, 1.0)
    assert (first["holdout_after"], second["holdout_before"], second["holdout_after"]) == (0.5, 0.5, 1.0)
    assert [(trail["night"], trail["action"], trail["taken"]) for trail in data["harmful"]["steps"]] == [
        (1, "reject", False),
        (2, "reject", False),
    ]
    assert data["gate_blocks_harmful"] is True


def fails(persona: Persona, *more: object) -> str:
    """Why `--assert-improves` ends with 1 for that persona."""
    return failed(persona, *more).err


def failed(persona: Persona, *more: object) -> Ran:
    """A night that `--assert-improves` ends with 1."""
    ran = run(
        main,
        "--persona",
        persona.name,
        "--nights",
        1,
        "--assert-improves",
        *more,
        personas={persona.name: persona},
    )
    assert ran.code == 1, ran.out
    return ran


def test_an_edit_that_nobody_proposed_proves_nothing() -> None:
    assert (
        fails(replace(RESEARCHER, tempted=False))
        == "FAIL: the harmful edit was never proposed, so nothing shows that the gate would keep it out\n"
    )


def test_an_edit_that_was_refused_unmeasured_proves_nothing() -> None:
    quoting = (  # the leak guard refuses it at once
        f"- {next(request.prompt for request in PROGRAMMER.requests if request.split == 'val')}"
    )
    assert "FAIL: the harmful edit of night 1, e1/s1, was not measured" in fails(
        replace(PROGRAMMER, harmful=quoting)
    )


@pytest.mark.slow
def test_an_edit_that_the_gate_accepts_fails_the_assertion() -> None:
    helpful = replace(
        RESEARCHER,
        harmful=RESEARCHER.rules["arxiv-id"],
        write=lambda facts, follows, _: RESEARCHER.write(facts, follows, False),
    )
    assert "FAIL: the harmful edit of night 1, e1/s1, was not rejected" in fails(helpful)


@pytest.mark.slow
def test_with_the_gate_off_the_assertion_fails() -> None:
    ran = failed(RESEARCHER, "--gate", "off")
    assert ran.err == "FAIL: the held-out score did not rise: 0.333 -> 0.000\n"
    assert ran.out + ran.err in PAGE


@pytest.mark.slow
def test_a_held_out_score_that_stays_fails_the_assertion() -> None:
    easy = tuple(
        request.model_copy(update={"missing": ()}) if request.split == "test" else request
        for request in RESEARCHER.requests
    )
    assert (
        fails(replace(RESEARCHER, requests=easy)) == "FAIL: the held-out score did not rise: 1.000 -> 1.000\n"
    )


def simulated(call: Any) -> str:
    """The simulated target behind HTTP, as a real one is."""
    return of_persona(PROGRAMMER)(Call(model="tester", place=call.place or "", text=call.text))


@pytest.mark.slow
def test_a_named_model_takes_a_role_and_the_same_command_goes_on_without_paying_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with LoopbackProvider.in_thread(simulated) as provider:
        command = ("--persona", "programmer", "--target", f"compatible:tester@{provider.base_url}", "--json")
        first = run(main, *command)
        paid = len(provider.log)
        again = run(main, *command)
        assert paid == len(provider.log) > 0
        assert {(one.place or "").partition("/")[0] for one in provider.log} == {"rollout"}
    assert first.data["simulated"] == "Simulated: optimizer is a double of this program, not a model."
    assert (first.data["backend"], first.data["model"], first.data["after_holdout"]) == (
        "compatible",
        "compatible:tester",
        1.0,
    )
    assert again.data == first.data
    assert (
        tmp_path
        / "outputs"
        / "sleep-experiments"
        / "experiment-programmer-gate-on"
        / "night-1"
        / "events.jsonl"
    ).is_file()


def test_what_is_simulated_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(main, "--persona", "programmer", "--limit-tasks", 2, "--nights", 1)
    assert ran.code == 0
    assert ran.out.startswith("Simulated: ")
    assert "2 tasks to learn from, 2 that decide, 2 held out" in ran.out
    assert "(unverified: fewer than 5 tasks decide)" in ran.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--persona", "painter"), 2, "invalid choice: 'painter'"),
        (("--nights", "0"), 2, "a whole number from 1 on is needed"),
        (("--nights", "many"), 2, "invalid"),
        (("--model", "openay:gpt"), 2, "error: "),
        (("--model", "world"), 2, "The simulated world cannot learn from real sessions"),
        (("--budget-tokens", "20"), 4, "stopped: "),
    ],
)
def test_bad_input_and_a_spent_budget_are_a_sentence(
    arguments: tuple[str, ...], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(main, *arguments)
    assert ran.code == code
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_the_public_command_proves_the_same_without_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    for name in proof.PERSONAS:
        assert proof.main(["--persona", name, "--assert-improves", "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert data["simulated"].startswith("Simulated: ") and data["gate_blocks_harmful"] is True
        assert data["after_holdout"] == 1.0 > data["baseline_holdout"] > 0.0
        harmful = proof.PERSONAS[name].harmful
        assert [step["action"] for step in data["trace"]] == ["reject", "accept_new_best"]
        assert harmful not in data["final_skill_excerpt"]


def test_the_public_command_fails_where_the_gate_lets_harm_in(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    harmless = replace(proof.PERSONAS["programmer"], harmful=proof.PERSONAS["programmer"].rules[0])
    monkeypatch.setitem(proof.PERSONAS, "programmer", harmless)
    assert proof.main(["--persona", "programmer", "--assert-improves"]) == 1
    assert "FAIL: the held-out score did not rise" in capsys.readouterr().err


@pytest.mark.slow
def test_the_public_command_works_as_a_program_of_its_own(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "skillopt_sleep.experiments.run_experiment",
        "--persona",
        "researcher",
        "--assert-improves",
    ]
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert "held-out 0.333 -> 1.000" in ran.stdout
