"""Agents of one's own, killed: a function, a program and a service each end as if nobody had killed the run, and
no rollout that was kept is run again.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from claims._product import HARMFUL, SPLITS, WORLD, code_of, family_of, needs_of
from claims.promises._runs import assert_same_run, summary

pytestmark = pytest.mark.slow
FOUND = """
import json
known = json.load(open("cases.json"))
def solve(prompt, skill):
    with open("asked.txt", "a") as noted:
        noted.write(prompt[:12] + str(sum(map(ord, skill))) + "\\n")
    code, needed, harmful = known[prompt[5:12]]
    solved = all(rule in skill for rule in needed) and not any(rule in skill for rule in harmful)
    usage = {"input_tokens": len(skill), "output_tokens": 5}
    return {"answer": code if solved else "unknown", "usage": usage}
"""
FUNCTION = FOUND + "def run(task, skill): return solve(task.prompt, skill)\n"
PROGRAM = (
    "import sys\n" + FOUND + "asked = json.load(sys.stdin)\n"
    "print(json.dumps(solve(asked['task']['prompt'], asked['skill'])))\n"
)
SERVICE = (
    "from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer\n"
    + FOUND
    + "class Agent(BaseHTTPRequestHandler):\n"
    "    def do_POST(self):\n"
    "        asked = json.loads(self.rfile.read(int(self.headers['content-length'])))\n"
    "        body = json.dumps(solve(asked['task']['prompt'], asked['skill'])).encode()\n"
    "        self.send_response(200)\n"
    "        self.send_header('content-length', str(len(body)))\n"
    "        self.end_headers()\n"
    "        self.wfile.write(body)\n"
    "    def log_message(self, *args): pass\n"
    "server = ThreadingHTTPServer(('127.0.0.1', 0), Agent)\n"
    "print(server.server_address[1], flush=True)\n"
    "server.serve_forever()\n"
)
CASES = ("train_cases=8", "val_cases=8", "test_cases=6")


def train(folder: Path, target: str, out: str) -> subprocess.Popen[bytes]:
    options = [f"env.{each}" for each in CASES] + [
        "train.num_epochs=2",
        "train.batch_size=4",
        "env.workers=3",
    ]
    command = [
        sys.executable,
        "-m",
        "skillopt",
        "train",
        "--env",
        "world",
        "--target",
        target,
        "--out_root",
        out,
    ]
    return subprocess.Popen(
        [*command, "--optimizer", "world", "--cfg-options", *options, "evaluation.repeats=1"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def ended(process: subprocess.Popen[bytes]) -> None:
    told, _ = process.communicate(timeout=300)
    assert process.returncode == 0, told.decode()


def cases() -> dict[str, Any]:
    """What the simulated target knows of each case, for programs that start quickly."""
    tasks = WORLD(WORLD.Settings(train_cases=8, val_cases=8, test_cases=6))
    ids = [task.id for split in SPLITS for task in tasks.tasks(split)]
    return {
        case: [
            code_of(case),
            sorted(needs_of(case)),
            [rule for rule, hurts in HARMFUL.items() if family_of(case) in hurts],
        ]
        for case in ids
    }


@pytest.mark.parametrize("kind", ["function", "program", "service"])
def test_a_killed_run_goes_on_with_what_the_agent_did(tmp_path: Path, kind: str) -> None:
    (tmp_path / "cases.json").write_text(json.dumps(cases()))
    asked, server = tmp_path / "asked.txt", None
    if kind == "function":
        (tmp_path / "agent.py").write_text(FUNCTION)
        target = "agent.py:run"
    elif kind == "program":
        (tmp_path / "agent.py").write_text(PROGRAM)
        target = f"cmd: {shlex.quote(sys.executable)} -IS agent.py"
    else:
        (tmp_path / "agent.py").write_text(SERVICE)
        server = subprocess.Popen([sys.executable, "agent.py"], cwd=tmp_path, stdout=subprocess.PIPE)
        assert server.stdout is not None
        target = f"http://127.0.0.1:{int(server.stdout.readline())}/run"
    try:
        ended(train(tmp_path, target, "undisturbed"))
        asked.unlink()
        for wanted in (4, 14):
            process = train(tmp_path, target, "killed")
            while process.poll() is None and not (
                asked.exists() and len(asked.read_text().split("\n")) > wanted
            ):
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        ended(train(tmp_path, target, "killed"))
    finally:
        if server is not None:
            server.kill()
            server.communicate()
    assert_same_run(tmp_path / "killed", tmp_path / "undisturbed")
    assert json.dumps(summary(tmp_path / "killed")["test"]) == json.dumps(
        summary(tmp_path / "undisturbed")["test"]
    )
    times = Counter(asked.read_text().splitlines())
    assert sum(count - 1 for count in times.values()) <= 2 * 3, "only what was under way is asked again"
