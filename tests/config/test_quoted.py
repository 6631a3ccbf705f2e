"""Numbers and truth values in quotes, as the public files have them, are read as such where the key wants one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from config._public_files import FILES
from skillopt.config.load import Resolved, load
from skillopt.config.record import render

AZURE = {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com", "AZURE_OPENAI_API_KEY": "azure-key-1"}
PLAIN = re.compile(r"^(\s*\w+: )(true|false|-?\d+(?:\.\d+)?)$", re.MULTILINE)


def loaded(folder: Path, name: str, quote: str) -> Resolved:
    for file, text in FILES.items():
        path = folder / "mine" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PLAIN.sub(rf"\g<1>{quote}\g<2>{quote}", text), encoding="utf-8")
    return load(f"mine/{name}", flags={}, options=[], environ=AZURE, cwd=folder)


@pytest.mark.parametrize("name", FILES)
def test_a_public_file_in_quotes_means_what_it_means_without(name: str, tmp_path: Path) -> None:
    assert len(FILES) == 8
    plain, single, double = (loaded(tmp_path, name, quote) for quote in ("", "'", '"'))
    assert render(single) == render(plain) == render(double)
    assert single.warnings == plain.warnings


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train: {batch_size: 'many'}", "expected a whole number, not 'many'"),
        ("train: {batch_size: '4.5'}", "expected a whole number, not '4.5'"),
        ("evaluation: {use_gate: 'maybe'}", "expected true or false, not 'maybe'"),
    ],
)
def test_other_text_is_still_no_number(text, said, fails, write):
    write("c.yaml", text + "\n")
    assert said in fails("c.yaml")


def test_text_that_looks_like_a_number_stays_text_where_text_is_wanted(run, write):
    write(
        "c.yaml", "model: {target: 'openai:4', azure_openai_api_version: '2024'}\ntracking: {project: '7'}\n"
    )
    config = run("c.yaml").config
    assert (config.model.target.name, config.tracking.project) == ("openai:4", "7")
    write(
        "d.yaml",
        "model: {target: 'qwen:m', qwen_chat_enable_thinking: 'true', qwen_chat_temperature: '0.5'}\n",
    )
    target = run("d.yaml").config.model.target
    assert (target.options, target.temperature) == ({"enable_thinking": True}, 0.5)
    write("e.yaml", "model: {target: {name: 'local:m', options: {n_ctx: '2048'}}}\n")
    assert run("e.yaml").config.model.target.options == {"n_ctx": 2048}
