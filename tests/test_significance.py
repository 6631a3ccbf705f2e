"""Green means proven: one function says what a measurement proves, and every face says and colours that."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cli._commands import run
from skillopt.evaluation.compare import compare
from skillopt.evaluation.significance import TONES, significance
from skillopt.models.world.rules import FAMILIES
from skillopt.runs.comparison import in_words, score_table
from skillopt.runs.reader import RunList, read_view
from skillopt.runs.tasks import growth
from skillopt.runs.view import RunView
from skillopt.train.claim import TestReport
from skillopt_webui.render.run import hero
from skillopt_webui.render.stairs import stairs
from skillopt_webui.report import page, summary

FEW = ("env.train_cases=24", "env.val_cases=12", "env.test_cases=8", "train.num_epochs=1")
COLOURS = {"good": "32", "warn": "33", "bad": "31", "plain": "2"}
"""As a terminal is told them."""


@pytest.mark.parametrize(
    ("gain", "p", "proven"),
    [
        (0.4, 0.001, "real"),
        (0.4, 0.0499, "real"),
        (0.4, 0.05, "could be chance"),
        (0.4, 1.0, "could be chance"),
        (0.0, 1.0, "no better"),
        (-0.1, 0.6, "no better"),
        (-0.6, 0.001, "no better"),
        (0.4, None, "not proven yet"),
        (-0.1, None, "no better"),
        (None, None, "not proven yet"),
    ],
)
def test_what_a_measurement_proves(gain: float | None, p: float | None, proven: str) -> None:
    assert significance(gain, p) == proven


@pytest.mark.parametrize(("is_over", "proven"), [(True, "no better"), (False, "not proven yet")])
def test_a_run_that_ends_with_its_seed_found_nothing_better(is_over: bool, proven: str) -> None:
    for gain, p in ((None, None), (0.4, 0.001)):  # the folds of a run may be better than what it hands over
        assert significance(gain, p, is_changed=False, is_over=is_over) == proven


def test_only_what_is_proven_is_green() -> None:
    assert [found for found, tone in TONES.items() if tone == "good"] == ["real"]
    assert TONES["could be chance"] == "warn" and TONES["not proven yet"] == "plain"


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("size", [1.0, 0.5])
def test_a_comparison_is_real_exactly_where_its_interval_leaves_out_no_change(
    size: float, one_sided: bool
) -> None:
    for fixed in range(11):
        for broken in range(5):
            after = [size] * fixed + [-size] * broken + [0.0] * 10
            before = {f"t{place}": 0.0 for place in range(len(after))}
            found = compare(before, dict(zip(before, after, strict=True)), one_sided=one_sided)
            low = found.interval[0]
            if found.significance == "real":
                assert found.p < 0.05 and low >= 0 and found.delta > 0 and found.direction == "better"
            else:
                assert low <= 0 and found.direction != "better"
            assert (found.significance == "no better") is (found.delta <= 0)


@pytest.fixture(scope="module", params=["could be chance", "real", "not proven yet", "no better"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run of the simulated world, and what it proves: of 8 test tasks, of 40, of none, and where the seed
    can already do everything.
    """
    proven: str = request.param
    home = tmp_path_factory.mktemp("proven")
    (home / "perfect.md").write_text(
        "\n- ".join(["# All", *(one for each in FAMILIES.values() for one in each)])
    )
    more = {
        "real": ("env.test_cases=40", "env.val_cases=20", "train.num_epochs=2"),
        "not proven yet": ("evaluation.eval_test=false",),
        "no better": (f"env.skill_init={home / 'perfect.md'}", "model.target=world:noise=0"),
    }.get(proven, ())
    folder = home / "runs" / "run"
    options = ("--quiet", "--out_root", str(folder), "--cfg-options", *FEW, *more)
    assert run("train", "quickstart", *options).code == 0
    shutil.copytree(folder, folder.parent / "other")
    return folder, proven


TERMINAL = {
    "end of train": ("train", "{run}", "--plain"),
    "quiet end of train": ("train", "{run}", "--quiet"),
    "runs": ("runs", "{all}"),
    "runs A B": ("runs", "{run}", "{other}"),
    "runs show": ("runs", "show", "{run}"),
    "runs watch": ("runs", "watch", "{run}", "--once"),
    "replay": ("report", "{run}", "--replay", "--seconds", "0"),
}


BEGINS = {"runs watch": "Simulated: ", "replay": "test: "}


@pytest.mark.parametrize("face", TERMINAL)
def test_a_terminal_is_green_only_where_a_gain_is_proven(
    trained: tuple[Path, str], face: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, proven = trained
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "300")
    places = {"run": folder, "other": folder.parent / "other", "all": folder.parent}
    ran = run(*(word.format(**places) for word in TERMINAL[face]))
    assert ran.code == 0, ran.err
    closing = ran.out
    if begin := BEGINS.get(face):  # above, green are tasks that pass and stages that are over
        closing = closing[closing.rindex("\n", 0, closing.rindex(begin)) :]
    colours = re.findall(r"\x1b\[(?:1;)?(\d+)m[^\x1b]*?(?:Simulated: T|" + proven + ")", closing)
    assert COLOURS[TONES[proven]] in colours
    assert proven == "real" or not re.search(r"\x1b\[(\d;)*32m", closing)


def test_a_page_is_green_only_where_a_gain_is_proven(trained: tuple[Path, str]) -> None:
    folder, proven = trained
    told = page(read_view(folder))
    figures = told[told.index("<main") : told.index('id="scores"')]
    assert f'<span class="chip {TONES[proven]}">{proven}</span>' in figures
    assert f'class="after {TONES[proven]}"' in figures
    assert proven == "real" or " good" not in figures
    assert f" {proven}" in summary(read_view(folder))


def listed(folder: Path) -> RunView:
    """The run in a list."""
    (view,) = RunList().read([folder]).values()
    assert isinstance(view, RunView)
    return view


def test_programs_are_told_the_same(trained: tuple[Path, str]) -> None:
    folder, proven = trained
    other = str(folder.parent / "other")
    assert listed(folder).significance == proven
    (one, _) = json.loads(run("runs", str(folder.parent), "--json").out)["runs"]
    (compared, _) = json.loads(run("runs", str(folder), other, "--json").out)["runs"]
    ended = json.loads(run("train", str(folder), "--quiet", "--json").out)
    assert [told["significance"] for told in (one, compared, ended)] == [proven] * 3


def test_a_list_says_what_the_page_says_also_without_a_summary(
    trained: tuple[Path, str], tmp_path: Path
) -> None:
    folder, proven = trained
    other = shutil.copytree(folder, tmp_path / "other")
    (other / "summary.json").unlink()
    assert listed(other).significance == read_view(other).significance == proven


@pytest.mark.parametrize("trained", ["real"], indirect=True)
def test_a_test_of_an_earlier_skill_proves_nothing_of_a_later_one(
    trained: tuple[Path, str], tmp_path: Path
) -> None:
    other = shutil.copytree(trained[0], tmp_path / "other")
    log, best = other / "events.jsonl", read_view(other)
    assert best.significance == "real"
    tested = next(line for line in log.read_text().splitlines() if '"type":"test_measured"' in line)
    skills = json.loads(tested)["skills"]
    log.write_text(log.read_text().replace(tested, tested.replace(skills["best"], skills["seed"])))
    assert read_view(other).significance == listed(other).significance == "not proven yet"


@pytest.mark.parametrize("trained", ["real"], indirect=True)
def test_folds_are_called_folds_with_an_interval_of_their_own_level(trained: tuple[Path, str]) -> None:
    facts = read_view(trained[0])
    before = {f"t{place}": 0.0 for place in range(20)}
    pooled = compare(before, before | {f"t{place}": 1.0 for place in range(9)}, one_sided=True)
    folds = replace(facts.test, comparison=pooled, folds=5)
    started = facts.started.model_copy(update={"counts": {"train": 12, "val": 8, "test": 0}})
    crossed = replace(facts, report=folds, started=started, summary=None)
    assert in_words(crossed)["change"].startswith("90 % interval +0.2")
    unmeasured = replace(crossed, report=TestReport(measured=False, folds=5))
    for one in (crossed, unmeasured):
        assert "sealed test" not in hero(one) + stairs(one, growth(one)) + str(score_table(one))
    assert "5 folds" in hero(crossed) and "90 % interval" in hero(crossed)


@pytest.mark.parametrize("trained", ["real"], indirect=True)
@pytest.mark.parametrize(("split", "proven"), [("val", "not proven yet"), ("test", "real")])
def test_tasks_by_which_training_chose_the_skill_prove_nothing(
    trained: tuple[Path, str], split: str, proven: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORCE_COLOR", "1")
    asked = ("eval", str(trained[0]), "--against", "seed", "--split", split, "--quiet")
    (found,) = json.loads(run(*asked, "--json").out)["comparisons"]
    assert found["comparison"]["p"] < 0.05 and found["comparison"]["significance"] == proven
    said = run(*asked).out
    assert f": {proven}" in said and ("\x1b[32m" in said) is (proven == "real")
    assert ("Training chose the skill by these tasks" in said) is (split == "val")
