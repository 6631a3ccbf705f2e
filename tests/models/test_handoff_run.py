"""A whole training run answered by hand: few rounds, the same result as asked directly, and nothing lost
whenever it is stopped.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from _loopback import Answer, Call, LoopbackProvider, world_answers
from claims.promises._runs import database_of, facts, make_job, run
from models._by_hand import Entry, answer_all, by_the_world, questions, rounds
from skillopt.errors import AnswersWanted
from skillopt.events import Judged, StageClosed
from skillopt.run import Job, Target, matrix
from skillopt.runs.log import read_events
from skillopt.skill.document import Document

SMALL = (
    *(
        "env.train_cases=24",
        "env.val_cases=12",
        "env.test_cases=8",
        "evaluation.repeats=1",
        "gradient.minibatch_size=3",
    ),
    *(
        "train.batch_size=12",
        "train.num_epochs=1",
        "gradient.failure_only=true",
        "optimizer.salvage=false",
        "train.seed=2",
    ),
)
NARROW = ("env.workers=2", "gradient.analyst_workers=1")
"""Ceilings that would need many rounds if they held for questions by hand."""
STAGES = 6


def job(model: str, *options: str) -> Job:
    return make_job((f"model.target={model}", f"model.optimizer={model}", *SMALL, *options))


async def by_hand(folder: Path, *options: str) -> tuple[int, str]:
    """Train and answer until the run is done; returns how often it waited and the best skill."""
    for waited in range(40):
        try:
            return waited, (await run(job("handoff", *options), folder)).best_skill
        except AnswersWanted:
            answer_all(folder / "handoff")
    raise AssertionError("the run does not end")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """A whole run by hand: its folder, the number of rounds, the best skill."""
    folder = tmp_path_factory.mktemp("hand") / "run"
    waited, skill = asyncio.run(by_hand(folder, *NARROW))
    return folder, waited, skill


@pytest.mark.slow
async def test_a_run_is_answered_in_at_most_stages_times_steps_rounds(
    undisturbed: tuple[Path, int, str], tmp_path: Path
) -> None:
    """And ends with the verdicts and the skill of a run in which the same model was asked directly."""
    folder, waited, skill = undisturbed
    direct = await run(job("world:noise=0"), tmp_path)
    assert direct.summary["total_steps"] == 2
    assert waited == len(rounds(folder / "handoff")) <= STAGES * 2
    assert "accept" in {action for _, action, _ in verdicts(folder)}
    assert (verdicts(folder), skill) == (verdicts(tmp_path), direct.best_skill)


def verdicts(folder: Path) -> list[tuple[str, str, float | None]]:
    judged = [event for event in read_events(folder / "events.jsonl") if isinstance(event, Judged)]
    return [(verdict.place, verdict.action, verdict.candidate) for verdict in judged]


@pytest.mark.slow
def test_a_round_holds_everything_that_can_be_asked(undisturbed: tuple[Path, int, str]) -> None:
    """Two workers and one analyst, and yet whole stages at once."""
    baseline, first, reflection, *_ = [
        len(questions(folder)) for folder in rounds(undisturbed[0] / "handoff")
    ]
    assert baseline == 12
    assert first == 12  # the first batch; the sealed test waits until something better was found
    assert reflection > 1


def test_waiting_costs_nothing_and_spoils_nothing(undisturbed: tuple[Path, int, str]) -> None:
    folder, waited, _ = undisturbed
    rows = [
        row
        for event in read_events(folder / "events.jsonl")
        if isinstance(event, StageClosed)
        for row in event.rows
    ]
    assert rows
    assert [row for row in rows if row.invalid] == []
    with database_of(folder) as database:
        charged = Counter(place for (place,) in database.execute("SELECT place FROM spending"))
        replies = database.execute("SELECT count(*) FROM replies").fetchone()[0]
    assert waited > 1
    assert set(charged.values()) == {1}
    assert sum(charged.values()) == replies


async def test_what_is_open_or_wrong_is_named_and_the_rest_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(AnswersWanted):
        await run(job("handoff"), folder)
    first = rounds(folder / "handoff")[0]
    left, empty, *others = questions(first)
    for entry in others:
        (first / entry["answer"]).write_text(by_the_world(entry))
    (first / empty["answer"]).write_text("")
    (first / "my-answer.md").write_text("42")
    with pytest.raises(AnswersWanted) as stopped:
        await run(job("handoff"), folder)
    message = str(stopped.value)
    assert "2 questions wait for an answer" in message
    assert f"{empty['answer']} is empty" in message
    assert "my-answer.md answers no question" in message
    assert len(rounds(folder / "handoff")) == 1
    (first / "my-answer.md").unlink()
    (first / left["answer"]).write_text(by_the_world(left))
    (first / empty["answer"]).write_text(by_the_world(empty))
    with pytest.raises(AnswersWanted):
        await run(job("handoff"), folder)
    assert len(rounds(folder / "handoff")) == 2


@pytest.mark.slow
async def test_an_answer_that_does_not_fit_its_schema_burns_no_step(
    undisturbed: tuple[Path, int, str], tmp_path: Path
) -> None:
    folder = tmp_path / "run"

    def careless(entry: Entry) -> str:
        return "I would add a rule." if entry["role"] == "optimizer" else by_the_world(entry)

    for _ in range(3):
        with pytest.raises(AnswersWanted):
            await run(job("handoff"), folder)
        answer_all(folder / "handoff", careless)
    with pytest.raises(AnswersWanted, match="is no JSON"):
        await run(job("handoff"), folder)
    for path in (folder / "handoff").glob("*/*.answer.json"):
        path.unlink()
    answer_all(folder / "handoff")
    with pytest.raises(AnswersWanted):
        await run(job("handoff"), folder)
    assert facts(folder) == facts(undisturbed[0])[: len(facts(folder))]
    assert any(event["type"] == "reflected" for event in facts(folder))


async def test_an_optimizer_by_hand_is_asked_everything_a_slow_target_gives_rise_to(tmp_path: Path) -> None:
    """The first minibatch could be studied long before the last rollout is in; its question waits for the
    others.
    """
    answers = world_answers()

    def trickle(call: Call) -> Answer:
        said = answers(call)
        text = said if isinstance(said, str) else said.text
        return Answer(text=text, latency=0.15 * (call.index % 5))

    async with LoopbackProvider(trickle) as provider:
        options = [
            f"model.target=compatible:m@{provider.base_url}",
            "model.optimizer=handoff",
            *SMALL,
            "env.workers=4",
        ]
        with pytest.raises(AnswersWanted):
            await run(make_job(options), tmp_path / "run")
    (folder,) = rounds(tmp_path / "run" / "handoff")
    asked = questions(folder)
    assert {entry["stage"] for entry in asked} == {"analyst_failure"}
    assert len(asked) > 1
    assert [entry["place"] for entry in asked if not entry["place"].startswith("e1/s1/")] == []


@pytest.mark.parametrize("by_hand_first", [True, False])
async def test_a_target_by_hand_beside_another_is_asked_everything_and_holds_nobody_up(
    tmp_path: Path, by_hand_first: bool
) -> None:
    async with LoopbackProvider(world_answers()) as provider:
        models = ["handoff", f"compatible:m@{provider.base_url}"][:: 1 if by_hand_first else -1]
        jobs = [
            make_job([f"model.target={model}", "model.optimizer=world", *SMALL, *NARROW]) for model in models
        ]
        targets = [Target.of(one.config) for one in jobs]
        skills = {"good": Document("# Good\n"), "bad": Document("# Bad\n")}
        found = await matrix(jobs[0], skills, ["val"], tmp_path, targets=targets)
        assert isinstance(found.stopped, AnswersWanted)
        assert [(one.target, one.n) for one in found.evaluations] == [("compatible:m", 12)] * 2
        assert answer_all(tmp_path / "handoff") == 24
        found = await matrix(jobs[0], skills, ["val"], tmp_path, targets=targets)
    assert found.stopped is None
    assert len(found.evaluations) == 4


@pytest.mark.slow
def test_a_credential_never_comes_onto_the_desk(tmp_path: Path) -> None:
    secret = "sk-planted-0123456789"
    tasks = tmp_path / "tasks.jsonl"
    rows = [
        {"id": str(n), "question": f"What is {n} + {n}? The key is {secret}.", "answer": str(n + n)}
        for n in range(10)
    ]
    tasks.write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "skill.md").write_text("# Sums\n")
    done = train(
        tmp_path,
        "--env",
        "own",
        "--data_path",
        str(tasks),
        "--skill_init",
        "skill.md",
        "--optimizer_model",
        "openai:gpt-5.5",
        OPENAI_API_KEY=secret,
    )
    assert done.returncode == 5, done.stderr
    pages = [path.read_text() for path in (tmp_path / "run" / "handoff").rglob("*") if path.is_file()]
    assert any("What is" in page for page in pages)
    assert not any(secret in page for page in pages)


def train(cwd: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`skillopt train` with a target by hand, as a process."""
    command = [sys.executable, "-m", "skillopt", "train", "--out_root", "run", "--target_model", "handoff"]
    return subprocess.run(
        [*command, *arguments],
        cwd=cwd,
        env=clean(environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def clean(environ: dict[str, str]) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **environ}


@pytest.mark.slow
def test_killed_at_any_moment_the_same_command_goes_on(
    undisturbed: tuple[Path, int, str], tmp_path: Path
) -> None:
    """Real processes: each round is first killed at some moment and then run to its end, with exit code 5."""
    options = [part for option in ("env.name=world", *SMALL) for part in ("--cfg-options", option)]
    arguments = [
        sys.executable,
        "-m",
        "skillopt",
        "train",
        "--out_root",
        "run",
        "--target_model",
        "handoff",
        "--optimizer_model",
        "handoff",
    ]
    folder = tmp_path / "run"
    for delay in (0.8, 1.1):
        victim = subprocess.Popen(
            [*arguments, *options],
            cwd=tmp_path,
            env=clean({}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(delay)
        victim.kill()
        victim.wait()
        done = subprocess.run(
            [*arguments, *options],
            cwd=tmp_path,
            env=clean({}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == AnswersWanted.exit_code == 5, done.stderr
        assert "run the same command again" in done.stderr
        assert answer_all(folder / "handoff") > 0
    with pytest.raises(AnswersWanted):
        asyncio.run(run(job("handoff"), folder))
    assert len(rounds(folder / "handoff")) == 3
    killed, whole = facts(folder), facts(undisturbed[0])
    # Attempts that were killed stay charged, and where no usage is reported charges stand in for it: more
    # may be set aside for the test.
    shares = [
        [fact["state"].pop("set_aside") for fact in told if "state" in fact] for told in (killed, whole)
    ]
    assert killed == whole[: len(killed)]
    assert all(mine["tokens"] >= other["tokens"] for mine, other in zip(*shares, strict=False))
