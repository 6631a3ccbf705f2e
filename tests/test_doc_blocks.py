"""The blocks of the documentation do what the pages say: shell and Python are run, data is parsed.

Each page is read from top to bottom in a folder of its own. `OPENAI_API_KEY` and `ANTHROPIC_API_KEY` are set and
lead to a simulated world on this machine; a budget in dollars becomes one in tokens, as prices are those of the
vendors' own addresses. A block that cannot be run here says why in a comment above it
(`<!-- not run: ... -->`), and one that needs more than the folder has brings it (`<!-- first: command -->`).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from _api.batches import BatchProvider, BatchRules
from skillopt.cli.init import start
from skillopt.files import write_text
from skillopt.process import run_process
from skillopt.testing import Call, world_answers

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    if "```" in path.read_text(encoding="utf-8")
)
BLOCK = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
ABOVE = re.compile(r"<!-- (not run|first): ((?:(?!-->).)*) -->\s*\Z", re.DOTALL)
DATA = ("json", "yaml", "toml", "text", "console")
SECONDS = 300.0
HOME = "home"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: in which language, its text, why it is not run, and what has to be done before it."""

    language: str
    text: str
    not_run: str = ""
    first: str = ""


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page, in order."""
    for match in BLOCK.finditer(text):
        above = ABOVE.search(text[: match.start()])
        said = {above[1]: above[2]} if above else {}
        lines = match[3].splitlines(keepends=True)
        yield Block(
            language=match[2].strip(),
            text="".join(line.removeprefix(match[1]) for line in lines),
            not_run=said.get("not run", ""),
            first=said.get("first", ""),
        )


def test_a_block_is_found_with_what_stands_above_it() -> None:
    text = (
        "- a\n\n<!-- first: cd x -->\n  ```sh\n  ls\n  ```\n\n"
        "<!-- not run: needs a key -->\n```python\nx = 1\n```\n"
    )
    assert list(blocks(text)) == [
        Block(language="sh", text="ls\n", first="cd x"),
        Block(language="python", text="x = 1\n", not_run="needs a key"),
    ]


@pytest.mark.parametrize("page", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_data_in_blocks_can_be_read_and_every_block_says_what_it_is(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        assert block.language in ("sh", "python", *DATA), block.text
        if block.language == "yaml":
            yaml.safe_load(block.text)
        if block.language == "json":
            try:
                json.loads(block.text)
            except json.JSONDecodeError:  # one object a line
                assert all(json.loads(line) for line in block.text.splitlines())


RUN = [
    page
    for page in PAGES
    if any(
        block.language in ("sh", "python") and not block.not_run
        for block in blocks(page.read_text(encoding="utf-8"))
    )
]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(os.name == "nt", reason="the blocks are written for a Unix shell")
@pytest.mark.parametrize("page", RUN, ids=[path.relative_to(ROOT).as_posix() for path in RUN])
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    asyncio.run(run_page(page, tmp_path))


async def run_page(page: Path, folder: Path) -> None:
    """Run the blocks of a page one after another; the first that fails ends it with what it printed."""
    furnish(folder)
    async with BatchProvider(answers(), batches=BatchRules(looks=0), lenient=True) as provider:
        env = environment(folder, provider.url)
        for block in blocks(page.read_text(encoding="utf-8")):
            for words in () if block.not_run else commands(block):
                done = await run_process(words, input=b"", env=env, cwd=folder, timeout=SECONDS)
                said = (done.stdout + done.stderr).decode("utf-8", "replace")
                assert done.code == 0, f"exit {done.code}:\n{block.text}\n{said[-3000:]}"


def commands(block: Block) -> Iterator[list[str]]:
    """What runs a block."""
    if block.first:
        yield ["bash", "-ec", block.first]
    text = re.sub(r"""(["'])\$\d+\1""", r"\g<1>9000000 tokens\1", block.text)
    if block.language == "sh":
        yield ["bash", "-ec", text]
    if block.language == "python":
        yield [sys.executable, "-c", text]


def furnish(folder: Path) -> None:
    """What the pages speak of: the examples, and what `skillopt init my-skill` writes, with fewer tasks. The
    same skill, tasks and configuration also lie where a page means ones that were made by hand.
    """
    shutil.copytree(ROOT / "examples", folder / "examples")
    start(folder / "my-skill")
    skill = (folder / "my-skill" / "my-skill" / "SKILL.md").read_text(encoding="utf-8")
    write_text(folder / HOME / ".claude/skills/invoices/SKILL.md", skill.replace("my-skill", "invoices"))
    rows = (folder / "my-skill" / "tasks.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for path in (folder / "my-skill" / "tasks.jsonl", folder / "invoices.jsonl"):
        write_text(path, "".join(rows[:60]))
    config = (folder / "my-skill" / "train.yaml").read_text(encoding="utf-8")
    config = config.replace("num_epochs: 3", "num_epochs: 1")
    write_text(folder / "my-skill" / "train.yaml", config)
    by_hand = config.replace("./my-skill/", "./my-skill/my-skill/").replace("tasks.jsonl", "invoices.jsonl")
    for name in ("tasks.yaml", "my-task.yaml", "train.yaml"):
        write_text(folder / name, by_hand)


def answers() -> Callable[[Call], str]:
    """The simulated world; whoever else asks is told so."""
    world = world_answers()

    def say(call: Call) -> str:
        try:
            return world(call)
        except KeyError:
            return "Simulated."

    return say


def environment(folder: Path, url: str) -> Mapping[str, str]:
    """A home of its own, this environment's programs first, and keys that lead to this machine."""
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(folder / HOME),
        "LANG": "C.UTF-8",
        "COLUMNS": "100",
        "OPENAI_API_KEY": "sk-loopback",
        "OPENAI_BASE_URL": f"{url}/v1",
        "ANTHROPIC_API_KEY": "sk-loopback",
        "ANTHROPIC_BASE_URL": url,
    }
