"""A provider is one file: with it, configuration knows its key, variables, options, backend names and price; without
it, nothing of it is left.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SRC = Path(__file__).resolve().parents[2] / "src"
FILE = '''"""Zebra: a vendor that is one file."""

from pydantic import Field

from skillopt.config.service import ENDPOINT, PublicNames
from skillopt.models.port import Model, ModelSpec, Provider
from skillopt.money import per_million
from skillopt.models.wires.chat import ChatModel
from skillopt.models.wires.http import Wire
from skillopt.config.service import Options


class ZebraOptions(Options):
    stripes: int | None = Field(default=None, ge=1, description="How many.")


def build(spec: ModelSpec) -> Model:
    return ChatModel(spec, Wire(spec, base_url="https://zebra.example/v1"), cap_field="max_tokens")


PLUGIN = Provider(
    open=build,
    Options=ZebraOptions,
    needs_key=True,
    default_model="zebra-1",
    names=PublicNames(
        keys={**ENDPOINT, "stripes": "options.stripes"},
        variables={"ZEBRA_TOKEN": "api_key"},
        backends=("zebra_chat",),
    ),
    price=per_million(input=2, output=8),
)
'''
ASKED = """
import json, os, pathlib
from skillopt.run.models import known_price
from skillopt.config.load import load
from skillopt.config.roles import resolve_role
from skillopt.config.keys import flat_names
from skillopt.config.keys import describe
from skillopt.config.keys import declared
from skillopt.models import PROVIDERS, provider

def attempt(work):
    try:
        return work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def role(flags, options, environ):
    resolved = load(None, flags=flags, options=options, environ=environ, cwd=pathlib.Path.cwd())
    spec = resolve_role(resolved.config, "target")
    price = known_price(spec)
    return [spec.name, dict(spec.options), bool(spec.api_key), price and str(price.output)]

known = [*(row.key for row in describe()), *declared().keys]
print(json.dumps({
    "names": "zebra" in PROVIDERS.names(),
    "keys": [key for key in known if "zebra" in key or "stripes" in key],
    "flags": [name for name in flat_names() if "zebra" in name],
    "string": attempt(lambda: role({"target_model": "zebra:z"}, ["model.target.options.stripes=3"], {"ZEBRA_TOKEN": "zebra-key-1"})),
    "backend": attempt(lambda: role({"target_backend": "zebra_chat", "zebra_stripes": "4"}, [], {"ZEBRA_API_KEY": "zebra-key-1"})),
    "no key": attempt(lambda: role({"target_model": "zebra:z"}, [], {})),
}))
"""


def ask(package: Path) -> Any:
    env = {**os.environ, "PYTHONPATH": str(package)}
    ran = subprocess.run(
        [sys.executable, "-c", ASKED], cwd=package, env=env, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_provider_comes_and_goes_with_its_file(tmp_path: Path) -> None:
    shutil.copytree(SRC / "skillopt", tmp_path / "skillopt", ignore=shutil.ignore_patterns("__pycache__"))
    before = ask(tmp_path)
    file = tmp_path / "skillopt" / "models" / "providers" / "zebra.py"
    file.write_text(FILE, encoding="utf-8")
    with_it = ask(tmp_path)
    file.unlink()
    assert ask(tmp_path) == before
    assert (before["names"], before["keys"], before["flags"]) == (False, [], [])
    assert with_it["names"] is True
    assert {"model.target.options.stripes", "model.zebra_api_key", "model.target_zebra_base_url"} <= set(
        with_it["keys"]
    )
    assert "zebra_stripes" in with_it["flags"]
    assert with_it["string"] == ["z", {"stripes": 3}, True, "1/125000"]
    assert with_it["backend"] == ["zebra-1", {"stripes": 4}, True, "1/125000"]
    assert "set ZEBRA_API_KEY or model.target.api_key" in with_it["no key"]
