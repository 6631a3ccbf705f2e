"""Real agent programs, their model simulated by the loopback provider: what they write down is what our
sources read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from _loopback import LoopbackProvider
from real._agents import CLAUDE, CODEX, COPILOT, OPENCODE, RealAgent, scripted
from real._npm import cli
from skillopt.agents import driver as driver_of
from skillopt.agents import present
from skillopt.programs.port import Access, AgentPlace, AgentWork
from skillopt.programs.run import InstalledAgent
from skillopt.transcripts import Homes, harvest
from skillopt.transcripts.session import Harvest

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.name == "nt", reason="the programs are started as on Unix"),
]
PROMPT = "Which city lies on the river Seine? Name it in one word."
SKILL = "---\nname: skillopt-target\ndescription: House rules.\n---\n\nHOUSE-RULE-7: name the city only.\n"
SOURCES = {"claude_code": "claude_code", "codex": "codex", "copilot": "copilot_cli", "opencode": "opencode"}


async def worked(agent: RealAgent, program: Path, root: Path) -> tuple[AgentPlace, Harvest]:
    """One session of the program in a home of its own, and what is harvested there."""
    place = AgentPlace(root=root, home=root / "home", workspace=root / "workspace", temp=root / "tmp")
    for folder in (place.home, place.temp, place.workspace):
        folder.mkdir(parents=True)
    one = driver_of(agent.harness)
    skill = place.workspace / one.skills / "skillopt-target"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    async with LoopbackProvider(
        scripted(agent, "echo looked-around", answer="Paris"), lenient=True
    ) as provider:
        url = provider.url if agent.provider == "anthropic" else provider.base_url
        access = Access(provider=agent.provider, model="m1", base_url=url, key="sk-loopback-target-key")
        driver = InstalledAgent(one, access, {"path": str(program)}, timeout=300)
        work = AgentWork(
            access=access, place=place, settings=driver.settings, prompt=PROMPT, skill="skillopt-target"
        )
        report = await driver.run(place, one.work(work), skill="skillopt-target")
    assert report.answer == "Paris"
    return place, harvest(present(Homes(home=place.home, platform="linux")))


@pytest.mark.parametrize(
    "agent", [pytest.param(agent, id=agent.harness) for agent in (CLAUDE, CODEX, COPILOT, OPENCODE)]
)
async def test_a_session_of_the_real_program_is_harvested_with_its_skill_and_its_tools(
    agent: RealAgent, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    program = cli(agent.package, agent.version, agent.binary, env=machine_env)
    # under load a program may end before it has written its session down; then there is nothing to harvest
    for attempt in range(3):
        place, found = await worked(agent, program, tmp_path / str(attempt))
        if found.sessions:
            break
    (session,) = found.sessions
    assert session.source == SOURCES[agent.harness]
    assert Path(session.project).resolve() == place.workspace.resolve()
    (prompt,) = session.prompts
    assert prompt.text.endswith(PROMPT)
    assert "HOUSE-RULE-7" not in repr(session.prompts)
    assert session.skills == ("skillopt-target",)
    assert "echo looked-around" in [tool.about for turn in session.turns for tool in turn.tools]
    assert [turn.text for turn in session.turns if turn.role == "assistant" and turn.text] == ["Paris"]
    assert found.skipped == {}
