"""A bug in a person's own scorer, agent or benchmark stops a run as their bug: with the line and what it raised,
with no score of it, and never as an outage; a provider that is down is one also beside such a bug.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from claims._product import (
    SEED_SKILL,
    Call,
    LoopbackProvider,
    Misbehaviour,
    ProviderDown,
    UserError,
    code_of,
    family_of,
    load,
    prepare,
    skillopt,
    world_answers,
)
from claims.promises._providers import QUIET, asked, repeated
from claims.promises._runs import as_one_server, committed, run
from cli._commands import run as command

ODD = "int(task.id[-1]) % 2"
SCORER = """
def compare(wanted, answer):
    return wanted in {}["answer"]

def score(task, answer):
    return compare(task.reference, answer) if ODD else task.reference in answer
""".replace("ODD", ODD)
AGENT = f"""
def agent(task, skill):
    return {{}}["answer"] if {ODD} else "no"
"""
PROGRAM = f"""
import json, sys
from types import SimpleNamespace
task = SimpleNamespace(**json.load(sys.stdin)["task"])
print(json.dumps({{}}["answer"] if {ODD} else {{"answer": "no"}}))
"""
CASES = [f"W00{number:04d}" for number in range(30)]
OPTIONS = ("train.folds=1", "train.num_epochs=1", "train.batch_size=6", "evaluation.repeats=1")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a skill, thirty tasks and a person's own code, in which commands are typed."""
    monkeypatch.chdir(tmp_path)
    rows = []
    for number, case in enumerate(CASES):
        row = {"id": case, "prompt": f"Case {case}, about {family_of(case)}.", "answer": code_of(case)}
        rows.append(json.dumps({**row, "split": ("train", "val", "test")[number // 12]}))
    texts = {"tasks.jsonl": "\n".join(rows), "seed.md": SEED_SKILL, "score.py": SCORER}
    for name, text in {**texts, "agent.py": AGENT, "program.py": PROGRAM}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def train(target: str, *more: str, scorer: str = "contains", optimizer: str = "world") -> Any:
    given = ("--env", "own", "--data_path", "tasks.jsonl", "--skill_init", "seed.md", "--out_root", "run")
    models = ("--target", target, "--optimizer", optimizer, "--scorer", scorer, "--quiet", *more)
    return command("train", *given, *models, "--cfg-options", *OPTIONS)


def in_python(**given: Any) -> UserError:
    options = dict(one.split("=") for one in OPTIONS)
    known = {"target": "world", "scorer": "contains"} if "benchmark" not in given else {"target": "world"}
    if "benchmark" not in given:
        known |= {"skill": "seed.md", "tasks": "tasks.jsonl"}
    with pytest.raises(UserError) as stopped:
        skillopt.optimize(**{**known, "optimizer": "world", "options": options, **given})
    return stopped.value


@pytest.mark.parametrize(
    ("own", "where"),
    [
        ({"scorer": "score.py:score"}, "scorer score raised KeyError: 'answer' (score.py:3, task "),
        ({"target": "agent.py:agent"}, "agent raised KeyError: 'answer' (agent.py:3)"),
        ({"target": f"cmd: {shlex.quote(sys.executable)} program.py"}, "contract: program.py:5: "),
    ],
    ids=["scorer", "function", "program"],
)
def test_code_that_fails_on_some_tasks_stops_with_its_line_and_what_it_raised(
    own: dict[str, str], where: str, home: Path
) -> None:
    target, scorer = own.get("target", "world"), own.get("scorer", "contains")
    done = train(target, scorer=scorer)
    assert done.code == 3 and done.err.startswith("stopped: Your own code does not work: "), done.err
    assert where in done.err and "KeyError: 'answer'" in done.err
    assert "Correct it and run the same command again." in done.err
    assert not (home / "run" / "summary.json").exists(), "nothing was decided by it"
    error = in_python(**own)
    assert where in str(error)
    if "program" not in where:
        assert repr(error.__cause__) == "KeyError('answer')" and error.__cause__.__traceback__ is not None


def test_an_answer_in_no_known_form_is_the_fault_of_the_agent_that_gave_it(home: Path) -> None:
    (home / "agent.py").write_text("import os\n\ndef agent(task, skill):\n    return 42\n")
    assert "agent.py:3: function returned int '42'" in str(in_python(target="agent.py:agent"))


@pytest.mark.parametrize("bug", ["{}['x']", "'yes'"])
def test_a_scorer_that_fails_on_everything_is_refused_with_its_line_and_nothing_is_asked(
    bug: str, home: Path
) -> None:
    (home / "score.py").write_text(f"def score(task, answer):\n    return {bug}\n")
    (home / "check.py").write_text(f"print({bug})\n")
    with LoopbackProvider.in_thread(world_answers()) as provider:
        target = f"compatible:m@{provider.base_url}"
        done = train(target, scorer="score.py:score")
        program = train(target, scorer=f"cmd: {shlex.quote(sys.executable)} check.py")
        assert provider.calls == 0
    assert done.code == program.code == 2
    assert done.err.startswith("error: The scorer fails on task") and "score.py:" in done.err
    assert ("check.py:1" if "x" in bug else "check.py") in program.err


def test_a_corrected_scorer_goes_on_in_the_same_folder_and_no_answer_is_paid_again(home: Path) -> None:
    with LoopbackProvider.in_thread(world_answers(QUIET)) as provider:
        model = f"compatible:m@{provider.base_url}"
        assert train(model, scorer="score.py:score", optimizer=model).code == 3
        paid = committed(home / "run")
        assert paid
        (home / "score.py").write_text(SCORER.replace(ODD, "False"))
        before = provider.calls
        done = train(model, scorer="score.py:score", optimizer=model)
        again = asked(provider, since=before)
    assert done.code == 0 and "What the target answered is not paid again." in done.err, done.err
    assert again and not repeated(again, paid)


def test_one_task_that_breaks_a_scorer_stops_nothing_and_its_line_is_kept(home: Path) -> None:
    (home / "score.py").write_text(SCORER.replace(ODD, f"task.id == {CASES[15]!r}"))
    done = train("world", scorer="score.py:score")
    assert done.code == 0 and f"not measurable at baseline: {CASES[15]}" in done.err + done.out
    assert "raised KeyError: 'answer' (score.py:3" in command("runs", "explain", "run", CASES[15]).out


async def test_a_provider_that_is_down_is_an_outage_also_beside_a_broken_scorer(home: Path) -> None:
    down = {CASES[12], CASES[14]}

    def behave(call: Call) -> Misbehaviour | None:
        return Misbehaviour.status(503) if any(case in call.text for case in down) else None

    scorer = SCORER.replace(ODD, f"task.id == {CASES[13]!r}")
    (home / "score.py").write_text(scorer)
    async with LoopbackProvider(world_answers(QUIET), behave=behave) as provider:
        model = f"compatible:m@{provider.base_url}"
        settings = ("env.name=own", "env.data_path=tasks.jsonl", "env.skill_init=seed.md")
        roles = (f"model.target={model}", f"model.optimizer={model}", "env.scorer=score.py:score")
        chosen = [*settings, *roles, *OPTIONS, "env.workers=1"]
        job = as_one_server(prepare(load(None, flags={}, options=chosen, environ={}, cwd=home)))
        with pytest.raises(ProviderDown, match="HTTP 503") as stopped:
            await run(job, home / "run")
    assert "raised KeyError: 'answer' (score.py:3" in str(stopped.value)


@pytest.mark.parametrize("broken", ["tasks", "open", "score"])
def test_a_benchmark_of_ones_own_that_raises_is_named_with_its_line(broken: str, home: Path) -> None:
    error = in_python(benchmark=Parcels(broken))
    line = Path(__file__).read_text().splitlines().index('            raise KeyError("parcel")') + 1
    assert "KeyError: 'parcel'" in str(error) and f"test_own_code.py:{line}" in str(error)
    assert repr(error.__cause__) == "KeyError('parcel')"
    assert error.exit_code == (3 if broken == "score" else 2), "what is found before a call is bad input"


class Parcels:
    """A benchmark that fails where it is broken."""

    name, scorer_version, graded, seed_skill = "parcels", "1", False, SEED_SKILL
    prompts = {"rollout": "{skill}"}

    def __init__(self, broken: str) -> None:
        self.broken = broken

    def fail(self, where: str) -> None:
        if where == self.broken:
            raise KeyError("parcel")

    def tasks(self, split: str) -> list[skillopt.Task]:
        self.fail("tasks")
        return [skillopt.Task(id=f"{split} {case}", prompt=f"{split} {case}") for case in CASES[:10]]

    def open(self, task: skillopt.Task) -> None:
        self.fail("open")

    async def score(self, task: skillopt.Task, trajectory: skillopt.Trajectory) -> skillopt.Score:
        self.fail("score")
        return skillopt.Score(hard=1.0, soft=1.0)
