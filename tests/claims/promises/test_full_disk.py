"""A disk that is full is said in one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli._commands import SMALL

resource = pytest.importorskip("resource", reason="this system has no limits on the size of files")
_PROGRAM = """
import asyncio, os, resource, sys
from pathlib import Path
from skillopt.cli import main
from skillopt.models import PROVIDERS
from skillopt.models.port import Provider
from skillopt.testing import FunctionModel

class Filling(FunctionModel):
    async def complete(self, request):
        if self.requests:
            await asyncio.sleep(2.5)  # the time is noted every second meanwhile
        else:
            self.requests.append(request)
            # Of no file can more be written than it holds: not even its first bytes.
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            await asyncio.sleep(2.5)
        return await super().complete(request)

PROVIDERS.add("filling", Provider(open=lambda spec: Filling(lambda request: "<answer>x</answer>")))
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_full_disk_while_calls_are_out_is_one_sentence(tmp_path: Path) -> None:
    options = [part for one in SMALL for part in ("--cfg-options", one)]
    models = ["--target", "filling:x", "--optimizer", "world"]
    command = ["train", "--env", "world", *models, "--out_root", "run", "--quiet", *options]
    program = [sys.executable, "-c", _PROGRAM, *command]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stderr
    assert done.stderr.startswith("stopped: ") and "run.db cannot be used" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
