"""The moment of the best skill, over every kind of run: page, report and replay show the text of
`best_skill.md` and the val tasks that its score counts.
"""

from __future__ import annotations

import html
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from _loopback import LoopbackProvider
from _router import SimulatedRouter
from cli._commands import run
from dashboard._visits import visit_of
from skillopt.cli.report import frame
from skillopt.events import HandedOver, Judged, Pruned
from skillopt.models.world.rules import SEED_SKILL, code_of, family_of
from skillopt.runs.answers import Answer, read_answers
from skillopt.runs.reader import read_run, read_view
from skillopt.runs.tasks import MARK_SIGNS, compare_tasks, growth
from skillopt.runs.view import RunView
from skillopt.skill.document import Document
from skillopt_webui.report import page
from train._world import Trained, train

TRIGGERS = Path(__file__).parents[2] / "examples" / "triggers"
PROOF = {"train__strategy": "proof"}
LINE = re.compile(r"<li([^>]* data-first=[^>]*)>.*?<code>(.*?)</code>", re.DOTALL)
SQUARE = re.compile(r'<button[^>]*class="([^"]+)"[^>]*data-task="([^"]+)"')


def paper(folder: Path) -> Trained:
    return train(folder)


def proof(folder: Path) -> Trained:
    return train(folder, **PROOF, env__world_seed=2)


def two_accepted(folder: Path) -> Trained:
    trained = train(folder, **PROOF)
    accepted = Counter(one.place.root for one in trained.of(Judged) if one.action == "accept")
    assert max(accepted.values()) == 2, "a step accepts its bundle, and then the bundle without some edits"
    return trained


def slow_update(folder: Path) -> Trained:
    trained = train(folder, optimizer__slow_update_gate_with_selection=False)
    assert read_view(folder).best_origin.startswith("from slow update")
    return trained


def without_a_gate(folder: Path) -> Trained:
    return train(folder, evaluation__use_gate=False)


def stopped(folder: Path) -> Trained:
    trained = train(folder, budget__calls=450)
    assert trained.result.status == "budget" and read_run(folder).state == "stopped"
    return trained


def killed(folder: Path) -> None:
    """What a process leaves that is killed inside the second step."""
    train(folder)
    log = folder / "events.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if '"kind":"step"' in line)
    log.write_text("".join([*lines[: first + 2], lines[first + 2][:40]]))
    (folder / "summary.json").unlink()
    (folder / "best_skill.md").write_text(read_view(folder).best_skill)


def resumed(folder: Path) -> Trained:
    stopped(folder)
    trained = train(folder, budget__calls=100_000)
    assert trained.result.status == "finished"
    return trained


def handed_over(folder: Path) -> Trained:
    trained = train(folder, **PROOF, train__proof__batch=40, evaluation__eval_test=False, budget__calls=250)
    assert trained.of(HandedOver)
    return trained


def pruned(folder: Path) -> Trained:
    trained = train(
        folder,
        model__target="world:seed=1",
        model__optimizer="world:seed=1",
        env__val_cases=20,
        optimizer__prune=True,
    )
    (told,) = trained.of(Pruned)
    assert any(line.removed for line in told.lines)
    return trained


def went_on(folder: Path) -> None:
    earlier = str(folder.with_name("earlier"))
    stopped(Path(earlier))
    command("--from", earlier, "--out_root", str(folder), "--budget", "100k calls")


def cross_fitted(folder: Path) -> None:
    ids = [f"W{number:06d}" for number in range(20)]
    rows = [
        {"id": id, "prompt": f"Case {id}, about {family_of(id)}. What is its code?", "answer": code_of(id)}
        for id in ids
    ]
    tasks, skill = folder.with_name("tasks.jsonl"), folder.with_name("SKILL.md")
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    skill.write_text(SEED_SKILL)
    own = ("--env", "own", "--data_path", str(tasks), "--skill_init", str(skill), "--scorer", "exact_match")
    command("--out_root", str(folder), *own, "--target", "world:noise=0", "--optimizer", "world:noise=0")
    assert (folder / "folds").is_dir()


def description(folder: Path) -> None:
    queries = [json.loads(line)["prompt"] for line in (TRIGGERS / "triggers.jsonl").read_text().splitlines()]
    with LoopbackProvider.in_thread(SimulatedRouter(queries)) as provider:
        command(
            *("--part", "description", "--skill_init", str(TRIGGERS / "schema-migrations")),
            *("--target", f"compatible:t@{provider.base_url}", "--num_epochs", "1"),
            *("--optimizer", f"compatible:o@{provider.base_url}", "--minibatch_size", "16"),
            *("--failure_only", "true", "--triggers", str(TRIGGERS / "triggers.jsonl")),
            *("--out_root", str(folder), "--cfg-options", f"triggers.skills={TRIGGERS / 'others'}"),
        )


def command(*words: str) -> None:
    ran = run("train", *words, "--quiet")
    assert ran.code == 0, ran.err


def skill_folder(folder: Path) -> Trained:
    house = folder.parent / "house"
    (house / "references").mkdir(parents=True)
    head = "---\nname: house\ndescription: House rules for cases.\n---\n"
    (house / "SKILL.md").write_text(f"{head}{SEED_SKILL}- Dates stand in references/dates.md.\n")
    (house / "references" / "dates.md").write_text("# Dates of the house\n\n")
    trained = train(folder, **PROOF, env__skill_init=str(house), train__seed=3)
    assert trained.result.best_files
    return trained


KINDS: tuple[Callable[[Path], Any], ...] = (
    *(paper, proof, two_accepted, slow_update, without_a_gate, stopped, killed, resumed, handed_over),
    *(pruned, went_on, cross_fitted, description, skill_folder),
)


def files_of(folder: Path, facts: RunView) -> str:
    """The trained part of what the run wrote: all of `best_skill.md`, the files beside it, or in a run on
    queries the description in it.
    """
    written = (folder / "best_skill.md").read_bytes().decode()
    if dict(facts.settings)["train.part"] == "description":
        told = yaml.safe_load(written.split("---\n")[1])["description"]
        assert told == " ".join(facts.best_skill.split())
        return facts.best_skill
    beside = {
        path.relative_to(root).as_posix(): path.read_bytes().decode()
        for root in (folder / "best_skill").glob("*")
        for path in root.glob("references/*")
    }
    return Document(written, beside).whole


def is_right(answers: Sequence[Answer]) -> bool:
    return all(one.row.hard == 1 for one in answers)


@pytest.mark.slow
@pytest.mark.parametrize("make", KINDS, ids=[one.__name__ for one in KINDS])
def test_the_moment_of_the_best_skill_is_that_skill(make: Callable[[Path], Any], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make(folder)
    facts = read_view(folder)
    grown, best = growth(facts), files_of(folder, facts)
    assert facts.best_skill == best and facts.best is not None
    assert grown.moments[grown.best].score == facts.best

    # The wall counts what the score counts, and the page and a report are the same wall and the same text.
    passing = round(facts.best * len(facts.tasks), 9)
    source = page(facts, compare_tasks(facts))
    shown = [html.unescape(text) for about, text in LINE.findall(source) if "hidden" not in about]
    assert "\n".join("" if line == " " else line for line in shown) == best.removesuffix("\n")
    squares = {html.unescape(task): mark for mark, task in SQUARE.findall(source)}
    assert set(squares) == set(facts.tasks)
    assert sum(mark == "pass" for mark in squares.values()) == passing
    assert f'id="passing">{passing:g} of {len(facts.tasks)} pass' in source

    # What is handed out is the file, and the best skill's answers are those of its rows.
    visit = visit_of(folder)
    assert visit.page.files["best_skill.md"](visit) == (folder / "best_skill.md").read_bytes().decode()
    answers = read_answers(read_run(folder))
    right = [one.id for one in answers.tasks if one.split == "val" and is_right(one.answers[answers.best])]
    assert len(right) == passing

    # The terminal shows the same, where the skill has as many lines as it needs.
    console = Console(file=io.StringIO(), width=300, height=200, highlight=False)
    console.print(frame(facts, grown, grown.best, 300, 200))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"{passing:g} of {len(facts.tasks)} pass" in text
    assert [line for line in best.splitlines() if line[:280] not in text] == []
    assert text.rpartition("pass")[2].count(MARK_SIGNS["pass"]) == passing
