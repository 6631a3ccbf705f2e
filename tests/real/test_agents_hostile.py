"""Real agent CLIs where something is unusual: long tasks, odd paths, skills with names that the agent or its
user has taken.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from _loopback import LoopbackProvider
from real._agents import CLAUDE, CODEX, COPILOT, OPENCODE, RealAgent, resolved, scripted
from real.test_agents import Seen
from skillopt.errors import ConfigError
from skillopt.evaluation.runner import PlannedRow
from skillopt.run import open_run, prepare
from skillopt.tasks.rollout import Invalid, Rollout, Scored

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.name == "nt", reason="the programs are started as on Unix"),
]
ALL = [pytest.param(agent, id=agent.harness) for agent in (CLAUDE, CODEX, COPILOT, OPENCODE)]


async def rollout(
    agent: RealAgent,
    folder: Path,
    env: Mapping[str, str],
    *more: str,
    skill: str = "skillopt-target",
    question: str = "Which city?",
) -> tuple[Rollout, Seen]:
    """One SearchQA rollout with a skill of that name."""
    if agent.skill_tool is not None:
        agent = replace(agent, skill_tool={"skill": skill})
    rows = [
        {"id": f"q{n}", "question": f"{n} {question}", "context": "[DOC] page", "answers": ["Paris"]}
        for n in range(6)
    ]
    (folder / "qa.json").write_text(json.dumps(rows))
    (folder / skill).mkdir()
    (folder / skill / "SKILL.md").write_text(
        f"---\nname: {skill}\ndescription: House rules.\n---\n\nHOUSE-RULE-7: name the city only.\n"
    )
    seen = Seen(scripted(agent, "echo looked-around", answer="<answer>Paris</answer>"))
    data = [
        "env.name=searchqa",
        f"env.data_path={folder / 'qa.json'}",
        "env.split_ratio=2:2:2",
        "env.exec_timeout=300",
    ]
    async with LoopbackProvider(seen, lenient=True) as provider:
        models = [*agent.options(provider, env), f"model.optimizer=compatible:o@{provider.base_url}"]
        job = prepare(resolved(folder, *data, f"env.skill_init={folder / skill}", *models, *more))
        async with open_run(job, folder / "run", {}) as opened:
            outcome = await opened.evaluator.measure(
                job.skill.rendered, PlannedRow(task=job.splits.train[0]), stage="rollout"
            )
            return outcome, seen


@pytest.mark.parametrize("agent", ALL)
async def test_a_long_task_an_odd_path_and_a_skill_named_like_a_command_of_the_agent(
    agent: RealAgent, tmp_path: Path, machine_env: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "ein Ort für 日本"
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    name = "skillopt-target" if agent is OPENCODE else "review"  # its own commands come first, as below
    question = f"{'two words ' * 20_000} THE-END-OF-IT?"
    outcome, seen = await rollout(agent, tmp_path, machine_env, skill=name, question=question)
    assert isinstance(outcome, Scored), outcome
    assert (outcome.score.hard, outcome.trajectory.loaded) == (1.0, ("SKILL.md",))
    asked = [call.text for call in seen.calls if "THE-END-OF-IT?" in call.text]
    assert asked and "two words " * 20_000 in asked[0], "200 kB of task did not arrive whole"
    assert any("HOUSE-RULE-7" in text for text in asked)
    assert not list(odd.iterdir())


async def test_opencode_s_own_commands_come_first_and_that_is_said_before_anything_is_paid(
    tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    with pytest.raises(ConfigError, match=r"a command of its own named 'review'.*Rename the skill"):
        await rollout(OPENCODE, tmp_path, machine_env, skill="review")


@pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.harness) for agent in (CLAUDE, CODEX)])
async def test_a_skill_of_the_same_name_in_a_home_that_is_used_in_place_is_never_measured_for_ours(
    agent: RealAgent, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    home = tmp_path / "agent-home"
    (home / "skills" / "skillopt-target").mkdir(parents=True)
    theirs = "---\nname: skillopt-target\ndescription: Theirs.\n---\n\nTHEIR-RULE-9: say Rome.\n"
    (home / "skills" / "skillopt-target" / "SKILL.md").write_text(theirs)
    outcome, seen = await rollout(agent, tmp_path, machine_env, f"model.target.agent.home={home}")
    ours = any("HOUSE-RULE-7" in call.text for call in seen.calls)
    if isinstance(outcome, Invalid):
        assert (outcome.kind, ours) == ("contract", False), outcome
        assert "nothing proves" in outcome.detail
    else:
        assert ours, "the other skill was taken for the measured one"
