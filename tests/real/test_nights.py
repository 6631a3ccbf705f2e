"""Nights over transcripts that the real Claude Code and Codex wrote, and what they adopt in sight of both.

The model behind the agents is simulated, and so is the one that reads the sessions: it knows what each talk
of the corpus is about. What is measured is what nights make of the sessions.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from _loopback import Call, LoopbackProvider
from night._nights import REPLY
from night._reader import reads
from real._corpus import Talk, everybody
from real._record import RecordingHome
from real.test_plugins import Person
from skillopt.cli._sleep import utc_now
from skillopt.transcripts import Homes
from skillopt_sleep import NightContext, NightHome, NightResult, NightSettings, Roles, gather, run_night

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.name == "nt", reason="the programs are started as on Unix"),
]
TITLES = {talk.topic for talk in everybody()}
SAMPLE = ("review", "error", "change", "accepted")
"""Topics of the talks that are run here; `python -m real._record FOLDER` runs all of them."""


def talk_of(text: str) -> Talk | None:
    """The talk whose first words are in a text."""
    found = [talk for talk in everybody() if talk.turns[0][0].strip() in text]
    return max(found, key=lambda talk: len(talk.turns[0][0]), default=None)


def labelled(text: str, number: int) -> Mapping[str, Any]:
    """What the simulated reader says of a turn: what the corpus says of it."""
    talk = talk_of(text) if number == 1 else None
    if number == 1:
        tools = talk is not None and bool(talk.commands)
        about = "" if talk is None else talk.topic
        return {"asks": True, "about": about, "needs": "the repository" if tools else ""}
    wishes = {said for one in everybody() if one.expected != "nothing" for said, _ in one.turns[1:2]}
    if text in wishes:
        return {"reaction": "corrected", "wanted": text, "lasting": True}
    return {"reaction": "none" if text.endswith("?") else "accepted"}


def answer(call: Call) -> str:
    """A simulated optimizer, judge and target: rubrics are met by the answers that the person accepted."""
    place = call.place or ""
    if place.startswith("read/"):
        return reads(call.text, labelled)
    if place.startswith("kinds/"):
        lines = dict(
            line.split(". ", 1) for line in call.text.partition("<lines>\n")[2].splitlines() if ". " in line
        )
        return json.dumps(
            {"kinds": [{"title": topic, "lines": [int(n)]} for n, topic in lines.items() if topic in TITLES]}
        )
    if place.startswith("mine/"):
        return json.dumps({"title": "", "self_contained": True, "rubric": "- It is as the person wanted."})
    if place.startswith("judge/"):
        work = call.text.partition("<work>\n")[2].partition("\n</work>")[0]
        talk = talk_of(call.text)
        met = talk is not None and talk.turns[1][1].strip() in work
        return json.dumps({"findings": [{"criterion": 1, "evidence": work[:40], "met": met}]})
    if place.startswith("rollout/"):
        talk = talk_of(call.text)
        return "" if talk is None else talk.turns[1 if "LESSON" in call.text else 0][1]
    edits = [{"op": "append", "content": "- LESSON: do as was said.", "rationale": "said so"}]
    failed = "analyst_failure" in place
    return json.dumps({**REPLY, "patch": {"reasoning": "", "edits": edits if failed else []}})


def around(home: Path, **settings: object) -> NightContext:
    made = NightSettings.model_validate({"lookback_hours": 0, "max_tokens_per_night": 0, **settings})
    homes = Homes(home=home, platform="linux")
    return NightContext(settings=made, project=home / "shop", homes=homes, home=NightHome.of(made, home))


async def night(context: NightContext) -> NightResult:
    async with LoopbackProvider(answer) as provider:
        model = f"compatible:m@{provider.base_url}"
        return await run_night(context, Roles(target=model, optimizer=model), environ={}, now=utc_now)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, machine_env: Mapping[str, str]) -> Path:
    """A home with transcripts: those of SKILLOPT_TEST_SESSIONS, else some of the corpus run now."""
    if given := machine_env.get("SKILLOPT_TEST_SESSIONS"):
        return Path(given)
    home = RecordingHome(folder=tmp_path_factory.mktemp("home"), machine=machine_env)
    home.prepare()
    few = [talk for topic in SAMPLE for talk in [one for one in everybody() if one.topic == topic][:4]]
    asyncio.run(home.record(few))
    return home.folder


def expected(home: Path) -> Counter[str]:
    """What the sessions that are there should become."""
    context = around(home)
    found = asyncio.run(gather(context, None)).sessions
    talks = [talk_of(session.prompts[0].text) for session in found]
    return Counter(talk.expected for talk in talks if talk is not None)


def test_every_session_of_the_real_agents_becomes_what_it_should(recorded: Path) -> None:
    wanted = expected(recorded)
    ended = asyncio.run(night(around(recorded, state_dir=recorded / "state")))
    states = ended.plan.states
    print("became", json.dumps(states), "wanted", dict(wanted))
    assert sum(states.values()) == sum(wanted.values())
    assert states["a suggestion"] == wanted["suggestion"]
    tasks = states.get("a task", 0) + states.get("a task over the limit of a night", 0)
    assert tasks == wanted["task"]
    assert sum(count for state, count in states.items() if state.startswith("nothing")) == wanted["nothing"]


def test_what_is_adopted_is_in_sight_of_real_claude_code_and_real_codex(
    tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    """By the description of a new skill, and by our block in the file an agent always reads."""
    person = Person(home=tmp_path, machine=machine_env)
    for folder, ask in ((".claude/skills", person.claude), (".agents/skills", person.codex)):
        source = "claude_code" if "claude" in folder else "codex"
        text = skill_of(source, person.project)
        place = person.project / folder / "skillopt-sleep-learned" / "SKILL.md"
        place.parent.mkdir(parents=True)
        place.write_text(text)
        assert "Use it when you are asked to review a diff" in ask("hello"), source


def skill_of(source: str, project: Path) -> str:
    """The new skill that sessions of this agent would lead to."""
    from skillopt_sleep.targets import near_agents, skill_places, target_of
    from skillopt_sleep.tasks import NightTask

    project.mkdir(exist_ok=True)
    places = skill_places(NightSettings(), project, project.parent, project.parent / "state")
    found, _ = near_agents(places, project, [f"{source}:1"])
    task = NightTask(id="t", kind="review a diff", prompt="Review it.", split="train", rubric="good")
    path = found.new / "skillopt-sleep-learned" / "SKILL.md"
    assert str(path).startswith(str(project))
    return target_of(path, [task], [project]).seed
