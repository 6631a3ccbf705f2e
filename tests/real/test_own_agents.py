"""The agents of examples/agents, each in an environment of its own with the real library, against a provider on
this machine; the world behind it is simulated.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from _loopback import Call, LoopbackProvider
from claims.promises._runs import summary
from real._npm import cache_folder
from skillopt.models.world.rules import CASE, code_of, is_solved

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
EXAMPLES = Path(__file__).parents[2] / "examples" / "agents"
SRC = Path(__file__).parents[2] / "src"
PACKAGES = {
    "langgraph_agent": ("langgraph==1.2.20", "langchain-openai==1.7.3"),
    "openai_agent": ("openai-agents==0.24.0",),
    "dspy_program": ("dspy==3.4.1",),
    "inspect_solver": ("inspect-ai==0.3.285", "openai>=3.4"),
}


def environment(packages: tuple[str, ...], env: Mapping[str, str]) -> Path:
    """The interpreter of an environment with these packages and SkillOpt beside them; skips where they cannot be
    had.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    home = cache_folder(env, "pip") / f"{version}-{'-'.join(packages).replace('>', '')}"
    python = home / "bin" / "python"
    if not python.exists():
        made = Path(tempfile.mkdtemp(dir=home.parent))
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True, timeout=60)
        into = ("--python", str(made / "bin" / "python"))
        for tool in (("uv", "pip", "install", *into), ("pip", *into, "install")):  # uv is quicker where it is
            command = [sys.executable, "-m", *tool, "--quiet", *packages]
            ran = subprocess.run(command, env=dict(env), capture_output=True, text=True, timeout=600)
            if ran.returncode == 0:
                break
        else:
            shutil.rmtree(made)
            pytest.skip(f"{packages[0]} cannot be installed: {ran.stderr.strip()[-300:]}")
        made.rename(home)
    # Each time anew: another checkout may have made the environment.
    site = next((home / "lib").glob("python*")) / "site-packages"
    (site / "beside.pth").write_text(f"{SRC}\n{sysconfig.get_paths()['purelib']}\n")
    return python


def answer(call: Call) -> str:
    """The simulated target, whatever the library puts around the question and the skill."""
    text = json.dumps(call.body, ensure_ascii=False)
    found = CASE.findall(text)
    if not found:  # Inspect first asks a reasoning model to say hello
        return "hello, world"
    case = found[-1]
    said = code_of(case) if is_solved(case, text.replace("\\n", "\n")) else "unknown"
    return f"[[ ## answer ## ]]\n{said}\n\n[[ ## completed ## ]]" if "[[ ## answer" in text else said


@pytest.mark.parametrize("name", sorted(PACKAGES))
async def test_the_example_trains(name: str, tmp_path: Path, machine_env: Mapping[str, str]) -> None:
    file = EXAMPLES / f"{name}.py"
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 40
    python = environment(PACKAGES[name], machine_env)
    target = f"cmd: {python} {file}" if name == "inspect_solver" else f"{file}:agent"
    # The solver is a program: each of its rollouts imports Inspect, four seconds of CPU. Two for the seed, two to learn from, two for the candidate.
    small = ["env.train_cases=2", "env.val_cases=2", "env.test_cases=1", "train.num_epochs=1"]
    async with LoopbackProvider(answer, lenient=True) as provider:
        env = {
            **os.environ,
            "OPENAI_API_KEY": "sk-on-this-machine",
            "OPENAI_BASE_URL": provider.base_url,
            "AGENT_MODEL": "gpt-5.4-mini",
        }
        command = ["train", "--env", "world", "--target", target, "--optimizer", "world", "--out_root", "run"]
        options = [
            "--cfg-options",
            *small,
            "evaluation.repeats=1",
            "env.workers=4",
            "model.target.timeout=300",
        ]
        process = await asyncio.create_subprocess_exec(
            *(str(python), "-m", "skillopt", *command, *options),
            cwd=tmp_path,
            env=env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told, _ = await process.communicate()
    assert process.returncode == 0, told.decode()
    assert provider.calls >= 6, "every rollout asked the provider"
    used = summary(tmp_path / "run")["token_summary"]["selection"]
    assert used["prompt_tokens"], "the library's own count settles the budget"
