"""The experiment with gbrain seeds: nights repair a deficient skill, and held-out rows stay sealed until they
are over.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from _loopback import Call, LoopbackProvider
from night.experiments._programs import PAGE, log, of_type, run

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "nights"))

from _seeds import SCRIPTS, Script, find_seeds, of_script
from _simulated import Call as Question
from run_gbrain import main

SHORT = Script(
    rule="Say it in one line.",
    good="Yes.",
    bad="Well, that depends.\nOn the one hand yes, on the other hand no.",
)
TOPICS = ("tea", "bread", "coal", "moss", "wool", "maps", "soup", "rain", "snow", "glass", "ink", "salt")


def row(id: str, topic: str, *checks: dict[str, Any]) -> str:
    return (
        json.dumps(
            {
                "task_id": id,
                "task": f"Is {topic} worth it?",
                "judge": {"kind": "rule", "checks": list(checks)},
            }
        )
        + "\n"
    )


def seed(root: Path, name: str = "seed-short", check: dict[str, Any] | None = None, rows: int = 8) -> Path:
    """A seed of our own; answers count when they are short."""
    check = check or {"op": "max_chars", "arg": 20}
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: adviser\ndescription: Gives advice. Use it for questions.\n---\n# Advice\n\nBe"
        " thorough.\n"
    )
    (folder / "benchmark.jsonl").write_text("".join(row(f"bm-{n}", TOPICS[n], check) for n in range(rows)))
    (folder / "held-out.jsonl").write_text("".join(row(f"hd-{n}", TOPICS[n], check) for n in range(8, 12)))
    return root


@pytest.mark.slow
def test_a_night_takes_the_gbrain_seeds_from_nothing_to_all_held_out_rows(
    test_data: Path, tmp_path: Path
) -> None:
    ran = run(main, "--data-root", test_data / "gbrain", "--out", tmp_path)
    assert ran.out in PAGE
    data = run(
        main, "--data-root", test_data / "gbrain", "--out", tmp_path, "--json"
    ).data  # again, from what they left
    assert [one["seed"] for one in data["seeds"]] == ["seed-missing-structure", "seed-verbose"]
    for one in data["seeds"]:
        assert (one["baseline_holdout"], one["after_holdout"], one["nights_run"]) == (0.0, 1.0, 1)
        assert (one["n_train"] + one["n_val"], one["n_holdout"]) == (15, 6)
        original = (test_data / "gbrain" / one["seed"] / "SKILL.md").read_text(encoding="utf-8")
        assert one["final_skill"] == f"{original.rstrip()}\n{SCRIPTS[one['seed']].rule}\n"
        assert one["trace"][0]["claim"].startswith(
            "Simulated: The trained skill is better than the seed on 6 sealed test tasks"
        )


def test_the_optimizer_studies_train_rows_only_and_held_out_rows_come_last(tmp_path: Path) -> None:
    told: list[str] = []

    def optimizer(call: Call) -> str:
        told.append(call.text)
        return of_script(SHORT)(Question(model="both", place=call.place or "", text=call.text))

    with LoopbackProvider.in_thread(optimizer) as provider:
        command = (
            "--data-root",
            seed(tmp_path / "data"),
            "--optimizer",
            f"compatible:writer@{provider.base_url}",
            "--out",
            tmp_path / "runs",
        )
        ran = run(main, *command, "--preferences", "Never be rude.", "--json", scripts={"seed-short": SHORT})
    (one,) = ran.data["seeds"]
    assert (one["baseline_holdout"], one["after_holdout"]) == (0.0, 1.0)
    events = log(tmp_path / "runs" / "seed-short" / "night-1")
    (reflected,) = of_type(events, "reflected")
    studied = {task for patch in reflected["patches"] for task in patch["tasks"]}
    gated = {
        row["task"]
        for event in of_type(events, "stage_closed")
        if event["stage"] == "selection"
        for row in event["rows"]
    }
    assert (len(studied), len(gated)) == (one["n_train"], one["n_val"])
    assert studied.isdisjoint(gated)
    kinds = [event["type"] for event in events if event.get("id")]
    assert kinds.index("test_measured") == len(kinds) - 2  # nothing but the last checkpoint comes after it
    assert told and all("Never be rude." in text for text in told)
    assert not any(f"Is {topic} worth it?" in text for text in told for topic in TOPICS[8:])


def test_the_split_of_a_row_hangs_on_its_words_alone(tmp_path: Path) -> None:
    few, more = seed(tmp_path / "few", rows=6), seed(tmp_path / "more")
    renamed = more / "seed-short" / "benchmark.jsonl"
    renamed.write_text(renamed.read_text().replace("bm-", "other-").replace("Is ", "is  "))
    sides = []
    for root in (few, more):
        [work], _ = find_seeds(root, [])
        sides.append({" ".join(task.prompt.lower().split()): task.split for task in work.tasks})
    first, second = sides
    assert {first[prompt] for prompt in first} == {"train", "val", "test"}
    assert first.items() <= second.items()


def test_limits_and_the_gate_are_the_persons(tmp_path: Path) -> None:
    command = ("--data-root", seed(tmp_path), "--limit-replay", 1, "--limit-holdout", 2, "--gate", "soft")
    (one,) = run(main, *command, "--json", scripts={"seed-short": SHORT}).data["seeds"]
    assert (one["n_train"], one["n_holdout"], one["after_holdout"]) == (1, 2, 1.0)
    assert "(soft score)" in one["trace"][0]["claim"]


def test_each_row_to_learn_from_is_tried_as_often_as_told(tmp_path: Path) -> None:
    """Tries that differ are shown to the optimizer best against worst; here the target is right in its second
    try only.
    """
    told: list[str] = []

    def answer(call: Call) -> str:
        if not (call.place or "").startswith("rollout/"):
            told.append(call.text)
        elif call.draw == 1 and SHORT.rule not in call.text:
            return SHORT.good
        return of_script(SHORT)(Question(model="both", place=call.place or "", text=call.text))

    with LoopbackProvider.in_thread(answer) as provider:
        command = (
            "--data-root",
            seed(tmp_path / "data"),
            "--model",
            f"compatible:both@{provider.base_url}",
            "--out",
            tmp_path / "runs",
        )
        (one,) = run(main, *command, "--rollouts-k", 2, "--limit-replay", 3, "--nights", 1, "--json").data[
            "seeds"
        ]
    (rollouts,) = (
        event
        for event in of_type(log(tmp_path / "runs" / "seed-short" / "night-1"), "stage_closed")
        if event["stage"] == "rollout"
    )
    assert sorted((row["draw"], row["hard"]) for row in rollouts["rows"]) == [(0, 0.0)] * 3 + [(1, 1.0)] * 3
    assert any(SHORT.good in text and SHORT.bad.splitlines()[0] in text for text in told)
    assert one["after_holdout"] == 1.0


def test_settings_that_cannot_be_are_a_sentence(tmp_path: Path) -> None:
    for flag, value in (("--rollouts-k", 11), ("--budget-minutes", -1)):
        ran = run(main, "--data-root", seed(tmp_path / flag), flag, value, scripts={"seed-short": SHORT})
        assert ran.code == 2
        assert ran.err.startswith("error: ")


@pytest.mark.slow
def test_a_spent_budget_tells_what_there_is_and_ends_with_4(tmp_path: Path) -> None:
    seed(tmp_path, "a-seed")
    seed(tmp_path, "b-seed")
    scripts = {"a-seed": SHORT, "b-seed": SHORT}
    whole = run(main, "--data-root", tmp_path, "--json", scripts=scripts).data
    enough = whole["seeds"][0]["tokens_used"] + 100 + 1024  # the last call reserves its output as well
    ran = run(main, "--data-root", tmp_path, "--budget-tokens", enough, "--json", scripts=scripts)
    assert (ran.code, [one["seed"] for one in ran.data["seeds"]]) == (4, ["a-seed"])
    assert ran.data["stopped"]
    assert ran.err.startswith("stopped: ")


def test_a_seed_that_wants_tools_is_left_out_by_name_and_refused_when_it_is_wanted(tmp_path: Path) -> None:
    seed(tmp_path)
    seed(tmp_path, "seed-tools", {"op": "tool_called", "arg": "search"})
    ran = run(main, "--data-root", tmp_path, scripts={"seed-short": SHORT})
    assert ran.code == 0
    assert (
        "left out: seed-tools wants calls of the tool search, and a night replays requests as text" in ran.out
    )
    ran = run(main, "--data-root", tmp_path, "--seeds", "seed-tools", scripts={"seed-short": SHORT})
    assert ran.code == 2
    assert "seed-tools wants calls of the tool search" in ran.err


def test_bad_seeds_are_refused_by_name_before_anything_is_asked(tmp_path: Path) -> None:
    seed(tmp_path / "one")
    seed(tmp_path / "broken")
    seed(tmp_path / "sided", rows=2)
    seed(tmp_path / "bare")
    rows = tmp_path / "broken" / "seed-short" / "benchmark.jsonl"
    rows.write_text(rows.read_text() + row("bm-x", "paper", {"op": "max_words", "arg": 3}))
    (tmp_path / "bare" / "seed-short" / "SKILL.md").unlink()
    for arguments, said in (
        ((tmp_path / "none",), "holds no seed"),
        ((tmp_path / "one", "--seeds", "seed-shirt"), "Did you mean 'seed-short'?"),
        ((tmp_path / "one",), "No script is written for the seed 'seed-short'"),
        ((tmp_path / "broken",), "no rule is named 'max_words'"),
        ((tmp_path / "sided",), "fall on one side"),
        ((tmp_path / "bare",), "has no SKILL.md"),
    ):
        ran = run(main, "--data-root", *arguments)
        assert ran.code == 2
        assert said in ran.err
