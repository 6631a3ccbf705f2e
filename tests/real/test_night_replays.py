"""Work in a repository, recorded with the real Claude Code and replayed through it in worktrees; the model
behind the agent, and behind the night, is simulated.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from _loopback import Answer, Call, LoopbackProvider
from night._nights import REPLY
from night._reader import one_kind, reads
from real._agents import CLAUDE
from real._corpus import Talk, tool_talks
from real._npm import cli
from real._record import RecordingHome
from skillopt.cli._sleep import utc_now
from skillopt.transcripts import Homes
from skillopt_sleep import NightContext, NightHome, NightResult, NightSettings, Roles, run_night

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("worked"),  # six sessions are recorded once
    pytest.mark.skipif(os.name == "nt", reason="the programs are started as on Unix"),
]
RULE = "- Commit with conventional commits (feat: or fix: in front), after running sh run-tests.sh."
LAZY = "- Never change a file: an empty conventional commit (feat:) after sh run-tests.sh is enough."


def simulated(rule: str) -> Callable[[Call], str | Answer]:
    """A model that commits as it was told to: as the skill says, else as it did by day."""

    def say(call: Call) -> str | Answer:
        place = call.place or ""
        if place.startswith("read/"):
            return reads(call.text)
        if place.startswith("kinds/"):
            return one_kind(call.text, "Change a file and commit")
        if place.startswith("mine/"):
            return json.dumps(
                {"title": "Change a file and commit", "self_contained": False, "needs": "files"}
            )
        if place:
            edits = [{"op": "append", "content": rule, "rationale": "said so"}]
            failed = "analyst_failure" in place
            return json.dumps({**REPLY, "patch": {"reasoning": "", "edits": edits if failed else []}})
        talk = next((one for one in tool_talks() if one.turns[0][0] in call.text), None)
        if talk is None or not call.tools:
            return "A title"
        steps = [CLAUDE.call(command) for command in work(talk, call.text)]
        return (
            Answer(tool_calls=(steps[len(call.results)],))
            if len(call.results) < len(steps)
            else talk.turns[0][1]
        )

    return say


def work(talk: Talk, told: str) -> list[str]:
    write, commit = talk.commands
    good = commit.replace("'added ", "'feat: add ")
    if RULE in told:
        return [write, "sh run-tests.sh", good]
    if LAZY in told:
        return [
            "sh run-tests.sh",
            f"git commit -q --allow-empty{good.partition('commit -q')[2]}".replace("emptym", "empty -m"),
        ]
    return [write, commit]


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory, machine_env: Mapping[str, str]) -> Path:
    """A home with six sessions of work in a repository, run now unless SKILLOPT_TEST_WORK names one."""
    folder = tmp_path_factory.mktemp("home")
    if given := machine_env.get("SKILLOPT_TEST_WORK"):
        return Path(given)
    home = RecordingHome(folder=folder, machine=machine_env)
    home.prepare()
    asyncio.run(home.record(tool_talks(), at_once=1))
    return folder


async def night(
    home: Path, state: Path, rule: str, machine: Mapping[str, str]
) -> tuple[NightContext, NightResult]:
    program = cli(CLAUDE.package, CLAUDE.version, CLAUDE.binary, env=machine)
    options = {
        "model.target.agent.path": str(program),
        "model.target.api_key": "sk-loopback",
        "env.workers": 2,
    }
    made = NightSettings.model_validate(
        {"lookback_hours": 0, "max_tokens_per_night": 0, "state_dir": state, "options": options}
    )
    homes = Homes(home=home, platform="linux")
    context = NightContext(settings=made, project=home / "shop", homes=homes, home=NightHome.of(made, home))
    async with LoopbackProvider(simulated(rule), lenient=True) as provider:
        roles = Roles(
            target=f"claude_code/anthropic:m1@{provider.url}", optimizer=f"compatible:m@{provider.base_url}"
        )
        return context, await run_night(context, roles, environ={}, now=utc_now)


def test_six_sessions_of_work_are_replayed_in_worktrees_to_a_verified_proposal(
    worked: Path, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    before = git(worked, "log", "--format=%H %s", "--all"), git(worked, "status", "--short")
    _, ended = asyncio.run(night(worked, tmp_path / "state", RULE, machine_env))
    print(ended.plan.outcome, ended.plan.notes, ended.plan.states)
    assert ended.plan.states == {"a task": 6}
    (target,) = ended.plan.targets
    assert all(task.worktree is not None and not task.form_alone for task in target.tasks)
    outcome = target.ended
    judged = outcome.judgement
    assert judged.verified and judged.after == 1.0 and (judged.before or 0.0) < 0.5
    assert ended.proposal is not None and RULE in outcome.edits[-1].text
    assert (git(worked, "log", "--format=%H %s", "--all"), git(worked, "status", "--short")) == before


def test_a_lazy_commit_that_changes_nothing_is_refused(
    worked: Path, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    _, ended = asyncio.run(night(worked, tmp_path / "state", LAZY, machine_env))
    assert ended.proposal is None and not ended.plan.targets[0].ended.accepted


def test_with_the_repository_gone_the_wish_is_suggested_adopted_and_undone(
    worked: Path, tmp_path: Path, machine_env: Mapping[str, str]
) -> None:
    home = tmp_path / "home"
    shutil.copytree(worked, home, symlinks=True)
    for path in home.rglob("*.jsonl"):
        path.write_text(path.read_text().replace(str(worked), str(home)))
    shutil.rmtree(home / "shop")
    (home / "shop").mkdir()
    context, ended = asyncio.run(night(home, tmp_path / "state", RULE, machine_env))
    assert ended.plan.states == {"a suggestion": 6} and ended.proposal is not None
    wish = next(edit for edit in ended.proposal.edits if "conventional commits" in str(edit.evidence))
    adoption = context.adoption(utc_now)
    (written,) = adoption.adopt(edits=[wish.id]).change.written
    assert "we use conventional commits" in written.read_text()
    adoption.undo()
    assert not written.exists()


def git(home: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(home / "shop"), *words], check=True, capture_output=True, text=True
    )
    return done.stdout
