"""An exported skill is found by the real agents: its description is in the request that the agent sends from
that project.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cli._commands import SMALL, run
from real._npm import cli
from real._recorder import recording

pytestmark = [
    pytest.mark.real,
    pytest.mark.xdist_group("exported skill"),  # one training for all of them
    pytest.mark.skipif(os.name == "nt", reason="the programs are started as on Unix"),
]

DESCRIPTION = "Answers the zebra cases with their code. Use it for cases."
Ask = Callable[[Path, str], str]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished simulated run whose skill has a name and a description."""
    folder = tmp_path_factory.mktemp("trained")
    seed = folder / "cases" / "SKILL.md"
    seed.parent.mkdir()
    seed.write_text(
        f"---\nname: cases\ndescription: {DESCRIPTION}\n---\n\n# Cases\n\nThe okapi rule comes first.\n"
    )
    words = (
        "train",
        "quickstart",
        "--quiet",
        "--out_root",
        str(folder / "run"),
        "--skill_init",
        str(seed.parent),
        "--num_epochs",
        "1",
    )
    assert run(*words, "--cfg-options", *SMALL).code == 0
    return folder / "run"


@pytest.fixture
def claude(tmp_path: Path, machine_env: Mapping[str, str]) -> Ask:
    """Claude Code, asked once in a folder: all that it sent."""
    program = cli("@anthropic-ai/claude-code", "2.1.197", "claude", env=machine_env)
    quiet = (
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "DISABLE_TELEMETRY",
        "DISABLE_ERROR_REPORTING",
    )

    def ask(project: Path, prompt: str) -> str:
        with recording() as (url, bodies):
            env = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "loopback", **dict.fromkeys(quiet, "1")}
            _run([str(program), "-p", prompt, "--output-format", "json"], project, tmp_path, env)
            return "\n".join(bodies)

    return ask


@pytest.fixture
def codex(tmp_path: Path, machine_env: Mapping[str, str]) -> Ask:
    """Codex, asked once in a folder: all that it sent."""
    program = cli("@openai/codex", "0.166.0", "codex", env=machine_env)

    def ask(project: Path, prompt: str) -> str:
        with recording() as (url, bodies):
            provider = f'{{name="s",base_url="{url}/v1",wire_api="responses",request_max_retries=0,stream_max_retries=0}}'
            settings = ("-c", 'model_provider="s"', "-c", f"model_providers.s={provider}")
            words = (
                "exec",
                "--skip-git-repo-check",
                "-C",
                str(project),
                "-s",
                "read-only",
                "-m",
                "m",
                *settings,
                prompt,
            )
            _run([str(program), *words], project, tmp_path, {})
            return "\n".join(bodies)

    return ask


@pytest.mark.parametrize(
    ("agent", "call"), [("claude-code", "/cases"), ("codex", "$cases"), ("agents", "$cases")]
)
def test_the_agent_offers_the_exported_skill_to_its_model_and_loads_it_when_called(
    agent: str, call: str, trained: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ask: Ask = request.getfixturevalue("claude" if agent == "claude-code" else "codex")
    project = tmp_path / "project"
    project.mkdir()
    assert DESCRIPTION not in _sent(ask(project, "hello"))
    assert run("adopt", str(trained), "--to", agent, "--into", str(project), "--yes", "--force").code == 0
    offered = _sent(ask(project, "hello"))
    assert DESCRIPTION in offered
    assert "okapi" not in offered  # the body costs nothing until it is called
    loaded = _sent(ask(project, f"{call} hello"))
    assert "The okapi rule comes first." in loaded


def _sent(bodies: str) -> str:
    assert bodies, "the agent sent nothing"
    return bodies


def _run(command: list[str], project: Path, aside: Path, env: Mapping[str, str]) -> None:
    """One turn of an agent with a home of its own and nothing of ours in its environment."""
    home = aside / "home"
    home.mkdir(exist_ok=True)
    whole = {"HOME": str(home), "PATH": os.environ["PATH"], **env}
    ran = subprocess.run(
        command,
        cwd=project,
        env=whole,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-1000:] + ran.stdout[-1000:]
