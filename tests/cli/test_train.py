"""`skillopt train` and `skillopt demo`: what is printed where, and how they end."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer

from _loopback import LoopbackProvider
from cli._commands import SMALL, Command
from skillopt.cli._run import scrubbed
from skillopt.redact import Scrubber

QUICKSTART = ("train", "quickstart", "--cfg-options", *SMALL, "--out_root", "run")


@pytest.mark.slow
def test_json_is_one_object_on_stdout_and_nothing_else(skillopt: Command, tmp_path: Path) -> None:
    ran = skillopt(*QUICKSTART, "--json")
    data = ran.json
    assert ran.code == 0
    assert (data["status"], data["simulated"], data["folder"]) == ("finished", True, str(tmp_path / "run"))
    assert Path(data["best_skill_path"]).read_text()
    assert data["test_hard"] > data["baseline_test_hard"]
    assert "step 1/" in ran.err


@pytest.mark.slow
def test_without_a_terminal_progress_is_plain_lines_on_stderr(skillopt: Command) -> None:
    ran = skillopt(*QUICKSTART)
    assert "\x1b" not in ran.err + ran.out
    lines = ran.err.splitlines()
    assert lines[0] == "0:00 note: 20 val tasks are few: the gate draws each of them 2 times."
    assert re.match(r"0:0\d First answers", lines[1]) and lines[2].startswith("  asked ")
    assert re.match(r"0:0\d seed skill: 0\.\d{3} on val", lines[11])
    [first] = [line for line in lines if "step 1/6" in line]
    assert "calls" in first
    assert "cost $0.00" in first
    assert "left for" in first


@pytest.mark.slow
def test_the_closing_table_states_everything_a_reader_needs(skillopt: Command, tmp_path: Path) -> None:
    said = skillopt(*QUICKSTART, "--quiet").out
    assert said.startswith("Simulated: ")
    assert str(tmp_path / "run" / "best_skill.md") in said.replace("\n", "")
    said = skillopt(*QUICKSTART).out
    for words in (
        "simulated",
        "seed",
        "best",
        "sealed test (hard, n = 20)",
        "95 % interval",
        "p = ",
        "fixed",
        "broken",
        "rejected",
    ):
        assert words in said, words
    assert re.search(r"spent +[\d,]+ calls, [\d,]+ tokens, cost \$0\.00", said)
    assert (
        "Next: skillopt adopt run --to claude-code, skillopt report run, skillopt dashboard --root run"
        in said
    )


@pytest.mark.slow
def test_quiet_says_only_the_outcome(skillopt: Command) -> None:
    ran = skillopt(*QUICKSTART, "--quiet")
    assert ran.err == ""
    assert len(ran.out.splitlines()) == 2


@pytest.mark.slow
def test_a_gate_that_is_off_and_a_test_that_was_not_measured_are_stated(skillopt: Command) -> None:
    off = skillopt(*QUICKSTART, "--use_gate", "false")
    assert "The gate was off" in off.out
    assert "taken without a gate" in off.out
    without = skillopt(
        "train quickstart --cfg-options", *SMALL, "--out_root", "other", "--eval_test", "false"
    )
    assert "not measured" in without.out
    assert "Test was not measured" in without.out


def test_few_val_tasks_are_called_unverified(skillopt: Command) -> None:
    ran = skillopt("train quickstart --val_cases 3 --train_cases 20 --test_cases 10 --num_epochs 1")
    assert "nverified" in ran.out
    assert "note: Fewer than 5 val tasks" in ran.err


@pytest.mark.slow
def test_running_a_finished_run_again_pays_nothing_and_says_the_same(skillopt: Command) -> None:
    first = skillopt(*QUICKSTART, "--json", "--quiet").json
    again = skillopt(*QUICKSTART, "--json")
    second = again.json
    assert "Going on after step 6 of 6" in again.err
    assert (second["claim"], second["spending"]) == (first["claim"], first["spending"])


@pytest.mark.slow
def test_a_spent_budget_ends_with_4_and_a_larger_one_goes_on_to_the_same_result(
    skillopt: Command, tmp_path: Path
) -> None:
    plain = skillopt(*QUICKSTART[:-1], "plain", "--json", "--quiet").json
    short = skillopt(*QUICKSTART, "--budget", "160 calls", "--json", "--quiet")
    data = short.json
    assert (short.code, data["status"]) == (4, "budget")
    assert data["spending"]["calls"] <= 160
    assert (tmp_path / "run" / "best_skill.md").is_file()
    told = skillopt(*QUICKSTART, "--budget", "160 calls")
    assert told.code == 4
    assert "raise the budget" in told.out
    whole = skillopt(*QUICKSTART, "--budget", "5000 calls", "--json", "--quiet")
    assert (whole.code, whole.json["best_gate_score"]) == (0, plain["best_gate_score"])
    assert (tmp_path / "run" / "best_skill.md").read_bytes() == (
        tmp_path / "plain" / "best_skill.md"
    ).read_bytes()


def test_an_unexpected_error_keeps_its_traceback_but_no_credential(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as ended, scrubbed(Scrubber(["hunter2-hunter2-hunter2"])):
        raise RuntimeError("a bug that quotes hunter2-hunter2-hunter2")
    assert ended.value.exit_code == 1
    told = capsys.readouterr().err
    assert "Traceback" in told and "a bug that quotes [redacted]" in told


def test_what_the_machine_refuses_is_a_sentence_without_a_credential(
    skillopt: Command, provider: LoopbackProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "hunter2-hunter2-hunter2"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
    # A folder where a file belongs, which nobody expects; its path, and so the error, holds the key.
    run = tmp_path / f"run-{secret}"
    (run / "best_skill.md" / "folder").mkdir(parents=True)
    (run / "run.db").touch()
    models = ("--target_model", "openai:m", "--optimizer_model", "openai:m")
    ran = skillopt("train --env world", *models, "--cfg-options", *SMALL, "--out_root", run.name)
    assert ran.code == 3
    assert "run-[redacted]/best_skill.md: Is a directory. What was paid is kept." in ran.err
    assert "Traceback" not in ran.err
    assert secret not in ran.err + ran.out


@pytest.mark.slow
def test_the_demo_says_it_is_simulated_and_shows_what_it_learned(skillopt: Command, tmp_path: Path) -> None:
    ran = skillopt("demo")
    assert ran.code == 0
    for words in (
        "simulated",
        "no key",
        "+++ best_skill.md",
        "95 % interval",
        "calls",
        "tokens",
        "sealed test",
        "outputs/demo",
    ):
        assert words in ran.out, words
    summary = json.loads((tmp_path / "outputs" / "demo" / "summary.json").read_text())
    assert summary["test_hard"] - summary["baseline_test_hard"] > 0.4
    assert summary["test"]["comparison"]["interval"][0] > 0
    assert summary["total_rejects"] > 0  # a demo without a rejected step would not show what the gate is for


@pytest.mark.slow
def test_a_second_demo_leaves_the_first_alone(skillopt: Command, tmp_path: Path) -> None:
    skillopt("demo --quiet")
    before = (tmp_path / "outputs" / "demo" / "events.jsonl").read_bytes()
    ran = skillopt("demo --json")
    assert ran.json["folder"].endswith("outputs/demo-2")
    assert "already holds a finished run" in ran.err
    assert (tmp_path / "outputs" / "demo" / "events.jsonl").read_bytes() == before


@pytest.mark.slow
def test_the_end_of_a_cross_fitted_run_says_what_its_figures_are_about(
    skillopt: Command, tmp_path: Path
) -> None:
    skillopt("init few")
    tasks = tmp_path / "few" / "tasks.jsonl"
    tasks.write_text("".join(tasks.read_text().splitlines(keepends=True)[:20]))
    ran = skillopt("train few --target world")
    assert ran.code == 0, ran.err
    assert "(val: the tasks of the last round alone; the folds are the claim)" in ran.out
    assert "none in the last round, after 5 rounds in" in ran.out
    assert "The last round stopped before its plan ended: val leaves no headroom" in ran.out
