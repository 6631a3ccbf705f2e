"""The page on the MCP server says what the code does."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from skillopt.cli import app
from skillopt.mcp import RIGHTS, SWITCHES, Toolbox
from skillopt.mcp.answers import OUTPUT_SCHEMA
from skillopt.mcp.resources import RUNS, TEMPLATES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def page() -> str:
    return (DOCS / "mcp.md").read_text(encoding="utf-8")


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_table_of_tools_is_what_the_code_says(page: str) -> None:
    assert page == generator().mcp(page), "run: make docs"
    assert all(f"| `{spec.name}` |" in page for spec in Toolbox(app).specs(SWITCHES))


def test_every_status_resource_and_switch_is_on_the_page(page: str) -> None:
    assert [word for word in OUTPUT_SCHEMA["properties"]["status"]["enum"] if f"`{word}`" not in page] == []
    assert [uri for uri in (RUNS, *TEMPLATES) if f"`{uri}`" not in page] == []
    assert f"--allow {','.join(SWITCHES)}" in page
    assert [word for word in RIGHTS if f"| `{word}` |" not in page] == []


def test_the_examples_of_configuration_can_be_read(page: str) -> None:
    found = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert len(found) == 4
    for text in found:
        (servers,) = json.loads(text).values()
        assert servers["skillopt"]["command"] == "skillopt" and servers["skillopt"]["args"][0] == "mcp"
