"""Who proposes is a port: a coding agent sees train rollouts as files, and its changed folder is the proposal."""

from __future__ import annotations

import asyncio
import base64
import json
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from claims.promises._runs import (
    assert_same_run,
    events_of,
    history,
    in_world,
    make_job,
    run,
    start_process,
    summary,
)
from skillopt import register
from skillopt.errors import ConfigError, ProviderDown, RunConflict, UnusableReplies, UserError
from skillopt.events import Judged, Proved, Reflected, Updated
from skillopt.events.place import Place
from skillopt.events.step import Outbox, Step
from skillopt.models.world.rules import ANCHOR, CASE, needs_of
from skillopt.optimizer.proposers import PROPOSERS
from skillopt.optimizer.proposers.agent import edits_of_files
from skillopt.optimizer.proposers.port import Evidence, ProposerSetup
from skillopt.run import Job
from skillopt.run.estimation import estimate
from skillopt.skill.document import Document, EditableFiles
from skillopt.skill.edits import Edit, apply

AGENTS = Path(__file__).parent / "_proposing.py"
SMALL = (
    *("env.train_cases=24", "env.val_cases=20", "env.test_cases=6", "train.batch_size=12"),
    *("train.num_epochs=1", "evaluation.repeats=1", "optimizer.use_slow_update=false"),
)
STRATEGIES = pytest.mark.parametrize("strategy", ["paper", "proof"])


def options(how: str, strategy: str = "paper", *more: str) -> tuple[str, ...]:
    agent = ("train.proposer=agent", f"model.proposer={AGENTS}:{how}", f"train.strategy={strategy}")
    return in_world("world:seed=3", *SMALL, *agent, *more)


def job(how: str, strategy: str = "paper", *more: str) -> Job:
    return make_job(options(how, strategy, *more))


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROPOSING", str(tmp_path / "calls"))
    return tmp_path / "calls"


def asked(calls: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in calls.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
@STRATEGIES
async def test_an_agent_sees_train_rollouts_as_files_and_its_changed_folder_passes_limit_and_gate(
    tmp_path, calls, strategy
):
    work = job("good", strategy)
    result = await run(work, tmp_path / "run")
    told, folder = asked(calls), tmp_path / "run"
    # One call for a batch, no analyst, merge, ranking or joining.
    assert len(told) == (2 if strategy == "paper" else 1)
    first = told[0]
    assert first["skill"].endswith(f"{ANCHOR}\n") and "You work on cases" in first["prompt"]
    assert {name.partition("-")[0] for name in first["files"]} == {"failed", "passed", "verdicts.md"}
    failed = [text for name, text in first["files"].items() if name.startswith("failed")]
    assert all("<reference>" in text and "<did>" in text for text in failed)
    train = {task.id for task in work.splits.train}
    assert all({*CASE.findall(json.dumps(one))} <= train for one in told)  # nothing of val or test
    events = list(events_of(folder))
    proposed = [edit for one in events if isinstance(one, Reflected) for p in one.patches for edit in p.edits]
    assert all(edit.op == "append" and edit.evidence["tasks"] for edit in proposed)
    assert next(one.action for one in events if isinstance(one, Judged)) == "accept"
    stages = set(history(folder)[0]["tokens"])
    assert "proposer" in stages and not {"analyst", "merge", "ranking", "joining"} & stages
    if strategy == "paper":
        assert "Make at most 3 changes." in first["prompt"]
        assert history(folder)[0]["edit_states"]["over_limit"] > 0
        assert "accepted" in told[1]["files"]["verdicts.md"]
    else:
        assert [one for one in events if isinstance(one, Proved)]
    assert result.best_on_val.score > result.seed_on_val.score


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "state", "reason"),
    [
        ("outside", "invalid", "notes.txt lies outside of the skill; it is left out"),
        ("outside", "invalid", "only SKILL.md can be changed, not 'scripts/run.py'; it is left out"),
        ("protected", "protected", "the target touches the frontmatter or a protected region"),
        ("secret", "invalid", "it holds a credential, which no skill may"),
        ("quote", "invalid", "refused before measuring: it repeats 8 or more consecutive words of a task"),
    ],
)
async def test_what_may_not_change_ends_by_itself_and_the_rest_is_taken(tmp_path, calls, how, state, reason):
    seed = tmp_path / "SKILL.md"
    seed.write_text(f"---\nname: house\ndescription: House rules\n---\n# Rules\n\n{ANCHOR}\n")
    result = await run(job(how, "proof", f"env.skill_init={seed}"), tmp_path / "run")
    ended = [
        one for event in events_of(tmp_path / "run") if isinstance(event, Updated) for one in event.outcomes
    ]
    assert [one for one in ended if one.state == state and (one.reason or "").find(reason) >= 0]
    assert result.best_on_val.score > result.seed_on_val.score
    assert result.best_skill.startswith("---\nname: house\ndescription: House rules\n---\n# Rules\n")
    kept = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert how != "secret" or b"ghp_0123456789" not in kept


def test_a_changed_folder_becomes_edits_by_file_and_place(tmp_path):
    text = base64.b64encode(b"# Dates\n\n- Use hyphens.\n- Year first.\n").decode()
    main = base64.b64encode(f"# Rules\n\n{ANCHOR}\n- For dates read references/dates.md.\n".encode()).decode()
    files = {"skill/references/dates.md": text, "skill/SKILL.md": main, "skill/scripts/run.py": text}
    skill = Document(f"# Rules\n\n{ANCHOR}\n", {"references/dates.md": "# Dates\n\n- Use dots.\n"})
    step = Step(place=Place.of_step(1, 1), emit=Outbox(lambda event: None), skill=skill)
    edits = edits_of_files(step, "0", files, EditableFiles(references=True))
    assert [(one.path, one.op, one.target, one.content) for one in edits[:3]] == [
        ("SKILL.md", "append", "", "- For dates read references/dates.md.\n"),
        ("references/dates.md", "replace", "- Use dots.", "- Use hyphens."),
        ("references/dates.md", "append", "", "- Year first.\n"),
    ]
    assert edits[3].problem == "scripts/run.py is not trained (skill.scripts); it is left out"
    done = apply(edits, skill)
    assert [one.state for one in done.outcomes] == ["applied"] * 3 + ["invalid"]
    assert done.document.files["references/dates.md"] == "# Dates\n\n- Use hyphens.\n- Year first.\n"


async def test_an_agent_that_writes_nothing_leaves_the_step_without_a_patch(tmp_path, calls):
    await run(job("nothing"), tmp_path / "run")
    assert [record["action"] for record in history(tmp_path / "run")] == ["skip_no_patches"] * 2
    assert len(asked(calls)) == 2


@pytest.mark.slow
async def test_an_unusable_folder_is_asked_for_once_more_and_twice_in_a_row_stops_the_run(tmp_path, calls):
    with pytest.raises(UnusableReplies, match=r"skill/SKILL.md is not UTF-8 text"):
        await run(job("garbage"), tmp_path / "run")
    told = asked(calls)
    assert [one["id"] for one in told] == [f"e1/s{n}/proposer/0/a{a}" for n in (1, 2) for a in (0, 1)]
    assert "could not be used\n\nskill/SKILL.md is not UTF-8 text" in told[1]["prompt"]
    with pytest.raises(UnusableReplies):  # both steps are open again, and asked anew
        await run(job("garbage"), tmp_path / "run")
    assert [one["id"] for one in asked(calls)[4:6]] == ["e1/s1.1/proposer/0/a0", "e1/s1.1/proposer/0/a1"]


async def test_an_answer_in_no_known_form_is_no_proposal_and_the_run_stops_with_its_kind(tmp_path, calls):
    with pytest.raises(
        UserError, match=r"'proposer' .*\n.*1 x contract: .*py:\d+: function returned int '42'"
    ):
        await run(job("babble"), tmp_path / "run")
    assert len(asked(calls)) == 2


@pytest.mark.slow
@STRATEGIES
async def test_an_agent_that_was_down_is_asked_again_by_the_same_command(tmp_path, calls, strategy):
    await run(job("crash", strategy), tmp_path / "undisturbed")
    down = Path(f"{calls}.down")
    down.touch()
    with pytest.raises(ProviderDown, match=r"1 x unavailable: .*503"):
        await run(job("crash", strategy), tmp_path / "run")
    down.unlink()
    before = len(asked(calls))
    await run(job("crash", strategy), tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "undisturbed")
    await run(job("crash", strategy), tmp_path / "run")
    assert len(asked(calls)) - before == (2 if strategy == "paper" else 1)


@pytest.mark.slow
@STRATEGIES
def test_a_killed_run_goes_on_to_the_same_result_and_asks_the_agent_nothing_twice(tmp_path, calls, strategy):
    program = f"model.proposer=cmd: {shlex.join([sys.executable, str(AGENTS), 'good'])}"
    given = options("good", strategy, program, "train.num_epochs=2", "train.proof.remaining=1")
    asyncio.run(run(make_job(given), tmp_path / "undisturbed"))
    whole = len(asked(calls))
    process = start_process(tmp_path / "killed", given)
    while len(asked(calls)) == whole and process.poll() is None:
        time.sleep(0.01)
    while not (tmp_path / "killed/run.db").exists() or not _proposals(tmp_path / "killed"):
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    _, told = process.communicate()
    assert process.returncode == -signal.SIGKILL, told
    kept, sent = _proposals(tmp_path / "killed"), len(asked(calls))
    asyncio.run(run(make_job(given), tmp_path / "killed"))
    assert_same_run(tmp_path / "killed", tmp_path / "undisturbed")
    again = [one["id"] for one in asked(calls)[sent:]]
    assert kept and len(set(again)) == len(again)
    assert asked(calls)[whole]["id"] not in again  # what was stored is not asked again


def _proposals(folder: Path) -> int:
    """Agents' rollouts that a run has kept: of the rows without turns of ours."""
    from claims.promises._runs import database_of

    with database_of(folder) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'trajectories'").fetchone():
            return 0
        rows = database.execute("SELECT trajectory FROM trajectories").fetchall()
    return sum('"skill/SKILL.md"' in row[0] for row in rows)


@pytest.mark.slow
async def test_a_proposal_is_reserved_and_settled_as_a_rollout_of_an_agent(tmp_path, calls):
    spent = await run(job("good", "paper", "budget.tokens=30000"), tmp_path / "poor")
    assert spent.status == "budget" and not calls.exists()  # a first proposal reserves 60,000 tokens
    allowed = ("budget.tokens=30000", "budget.per_rollout.tokens=5000")
    assert (await run(job("good", "paper", *allowed), tmp_path / "rich")).status == "finished"
    stages = summary(tmp_path / "rich")["spending"]["stages"]
    assert stages["proposer"]["total_tokens"] == 2 * 1000 and stages["proposer"]["calls"] == 2 * 3


@pytest.mark.slow
def test_a_proposer_is_part_of_what_a_run_is(tmp_path, calls):
    asyncio.run(run(job("good"), tmp_path / "run"))
    with pytest.raises(RunConflict):
        asyncio.run(run(job("nothing"), tmp_path / "run"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("train.proposer=agnet",), "no proposer named 'agnet'. Did you mean 'agent'?"),
        (("model.proposer=cmd: true",), "nobody asks. Set train.proposer to agent"),
        (("train.proposer=agent", "model.proposer=world"), "'world' is no agent that works by itself"),
        (
            ("train.proposer=agent", "model.proposer=cmd: true", "optimizer.skill_update_mode=full_rewrite"),
            "set optimizer.skill_update_mode to patch",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_paid(given, said):
    with pytest.raises(ConfigError) as refused:
        make_job(in_world("world", *SMALL, *given))
    assert said in str(refused.value)


async def test_an_agent_must_be_named(tmp_path):
    with pytest.raises(ConfigError, match=r"train\.proposer agent needs an agent: set model\.proposer"):
        await run(make_job(in_world("world", *SMALL, "train.proposer=agent")), tmp_path / "run")


@pytest.mark.slow
@STRATEGIES
async def test_a_proposer_of_your_own_is_one_method(tmp_path, monkeypatch, strategy):
    looks: list[tuple[str, Evidence]] = []

    class Teacher:
        def __init__(self, setup: ProposerSetup) -> None:
            assert setup.agent is None and setup.target_prompt

        async def propose(self, step: Step, item: str, evidence: Evidence) -> Sequence[Edit]:
            looks.append((item, evidence))
            needed = {rule for one in evidence.failed for rule in needs_of(one.task.id)}
            new = sorted(rule for rule in needed if rule not in step.skill.text)
            return [
                Edit("append", content=f"- {rule}", id=str(step.place.at("proposer", item, number=at)))
                for at, rule in enumerate(new)
            ]

    monkeypatch.setattr(PROPOSERS, "_added", {})
    register("proposers", "teacher", Teacher)
    more = ("train.proposer=teacher", f"train.strategy={strategy}")
    result = await run(make_job(in_world("world:seed=3", *SMALL, *more)), tmp_path / "run")
    assert result.best_on_val.score > result.seed_on_val.score
    assert looks[0][0] == "0" and looks[0][1].passed
    assert looks[0][1].limit == (3 if strategy == "paper" else None)
    assert (strategy == "proof") == bool(looks[0][1].kinds)


@pytest.mark.slow
def test_an_estimate_counts_the_turns_of_an_agent_instead_of_analysts(calls):
    told = {line.stage: line for line in estimate(job("good")).lines}
    assert not {"analyst", "merge", "ranking"} & set(told)
    assert told["proposer"].calls.typical == 2 * 6 and told["proposer"].role == "optimizer"
