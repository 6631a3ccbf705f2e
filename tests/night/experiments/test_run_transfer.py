"""The transfer experiment: a skill trained with one target, measured with others, each seed against best on
the sealed tasks.
"""

from __future__ import annotations

import sys
from pathlib import Path

from _loopback import LoopbackProvider
from night.experiments._programs import PAGE, run

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "nights"))

from _persona import PROGRAMMER
from _simulated import Call, of_persona
from run_transfer import main


def test_a_skill_carries_to_a_target_that_reads_it_and_not_to_one_that_does_not(tmp_path: Path) -> None:
    ran = run(main, "--persona", "programmer", "--out", tmp_path)
    assert ran.code == 0, ran.err
    lines = {
        line.split()[0]: line.split()[1:4] for line in ran.out.splitlines() if line.startswith("double:")
    }
    assert lines == {
        "double:simulated-target": ["0.400", "1.000", "+0.600"],
        "double:simulated-twin": ["0.400", "1.000", "+0.600"],
        "double:simulated-stubborn": ["0.400", "0.400", "+0.000"],
    }
    assert ran.out.startswith("Simulated: target and optimizer are doubles")
    assert ran.out in PAGE


def test_the_look_at_the_sealed_tasks_is_counted_and_pairs_are_compared(test_data: Path) -> None:
    data = run(main, "--data-root", test_data / "gbrain", "--seed", "seed-verbose", "--json").data
    assert [look["look"] for look in data["looks"]] == [2]  # the night's own look was the first
    delta = {one["target"]: one["comparison"]["delta"] for one in data["comparisons"]}
    assert delta == {
        "double:simulated-target": 1.0,
        "double:simulated-twin": 1.0,
        "double:simulated-stubborn": 0.0,
    }
    assert all(one["comparison"]["n"] == data["n_holdout"] == 6 for one in data["comparisons"])


def test_a_lost_target_costs_the_others_nothing_and_is_said(tmp_path: Path) -> None:
    answers = of_persona(PROGRAMMER)
    with LoopbackProvider.in_thread(
        lambda call: answers(Call(model="closed", place=call.place or "", text=call.text)), api_key="sesame"
    ) as provider:
        closed = f"compatible:closed@{provider.base_url}"
        ran = run(main, "--persona", "programmer", "--to", closed, "--json", "--out", tmp_path)
    assert ran.code == 3
    assert [one["target"] for one in ran.data["comparisons"]] == ["double:simulated-target"]
    assert {one["target"] for one in ran.data["missing"]} == {"compatible:closed"}
    assert "refuses the login" in ran.err


def test_targets_that_are_not_named_are_asked_for() -> None:
    ran = run(main, "--model", "openai:gpt-5.4-mini")
    assert (ran.code, "Add --to MODEL" in ran.err) == (2, True)
    ran = run(main, "--seed", "seed-verbose")
    assert (ran.code, "--data-root and --seed together" in ran.err) == (2, True)
