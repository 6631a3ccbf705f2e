"""The blocks of the documentation do what the pages say: shell and Python are run, data is parsed.

Each page is read from top to bottom in a folder of its own. `OPENAI_API_KEY` and `ANTHROPIC_API_KEY` are set and
lead to simulated models on this machine; a budget in dollars becomes one in tokens, as prices are those of the
vendors' own addresses, and a fixed port a free one. Comments above a block say what goes with it:

- `<!-- not run: why -->`: it cannot be run here;
- `<!-- first: command -->`: what has to be done before it, as the folder has less than a reader's;
- `<!-- given: Python -->`: what the page leaves to the reader, in front of a block of Python;
- `<!-- ends with: 5 -->`: the exit code that the page tells, where it is not 0;
- `<!-- until: words -->`: the program stays open; it is interrupted once it has said these words.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from _doc_pages import HOME, ROOT, SURROUNDINGS, Surroundings, furnish, service
from _loopback import LoopbackProvider
from _needs import BUBBLEWRAP
from skillopt.files import write_text
from skillopt.process import run_process
from skillopt.process.sandbox import is_there

PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    if "```" in path.read_text(encoding="utf-8")
)
BLOCK = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
REMARK = r"<!-- (not run|first|given|ends with|until): ((?:(?!-->).)*?) -->\s*"
ABOVE = re.compile(rf"(?:{REMARK})+\Z", re.DOTALL)
DATA = ("json", "yaml", "toml", "text", "console")
SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: in which language, its text, and what the comments above it say."""

    language: str
    text: str
    not_run: str = ""
    first: str = ""
    given: str = ""
    ends_with: int = 0
    until: str = ""


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page, in order."""
    for match in BLOCK.finditer(text):
        above = ABOVE.search(text[: match.start()])
        said = dict(re.findall(REMARK, above[0], re.DOTALL)) if above else {}
        lines = match[3].splitlines(keepends=True)
        yield Block(
            language=match[2].strip(),
            text="".join(line.removeprefix(match[1]) for line in lines),
            not_run=said.get("not run", ""),
            first=said.get("first", ""),
            given=said.get("given", ""),
            ends_with=int(said.get("ends with", 0)),
            until=said.get("until", ""),
        )


def test_a_block_is_found_with_what_stands_above_it() -> None:
    text = (
        "- a\n\n<!-- first: cd x -->\n<!-- ends with: 5 -->\n  ```sh\n  ls\n  ```\n\n"
        "<!-- not run: needs a key -->\n```python\nx = 1\n```\n"
    )
    assert list(blocks(text)) == [
        Block(language="sh", text="ls\n", first="cd x", ends_with=5),
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
    around = SURROUNDINGS.get(page.relative_to(ROOT).as_posix(), Surroundings())
    if around.needs_sandbox and not is_there():
        pytest.skip(BUBBLEWRAP)
    furnish(folder)
    around.furnish(folder)
    with service({"answer": "7"}) as agent:
        async with LoopbackProvider(around.answers(), lenient=True) as provider:
            env, cwd = environment(folder, provider.url), folder / around.folder
            for block in blocks(page.read_text(encoding="utf-8")):
                if not block.not_run:
                    await run_block(block, agent, env, cwd)


async def run_block(block: Block, agent: str, env: Mapping[str, str], cwd: Path) -> None:
    """Run one block, and what has to be done before it."""
    if block.first:
        code, said = await ended(["bash", "-ec", block.first], env, cwd)
        assert code == 0, f"exit {code}:\n{block.first}\n{said}"
    text = re.sub(r"""(["'])\$\d+\1""", r"\g<1>9000000 tokens\1", block.text)
    text = text.replace("http://127.0.0.1:9000", agent).replace(
        "skillopt dashboard\n", "skillopt dashboard --port 0\n"
    )
    if block.language == "python":
        write_text(cwd / "block.py", f"{block.given}\n{text}")
    words = {"sh": ["bash", "-ec", text], "python": [sys.executable, "block.py"]}.get(block.language)
    if words and block.until:
        await interrupted(words, env, cwd, block.until)
    elif words:
        code, said = await ended(words, env, cwd)
        assert code == block.ends_with, f"exit {code}:\n{block.text}\n{said}"


async def ended(words: Sequence[str], env: Mapping[str, str], cwd: Path) -> tuple[int, str]:
    """How a program ended, and the last of what it printed."""
    done = await run_process(words, input=b"", env=env, cwd=cwd, timeout=SECONDS)
    return done.code, (done.stdout + done.stderr).decode("utf-8", "replace")[-3000:]


async def interrupted(words: Sequence[str], env: Mapping[str, str], cwd: Path, until: str) -> None:
    """Start a program, wait for what it has to say, and stop it as Control-C does."""
    pipe, both = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
    started = await asyncio.create_subprocess_exec(
        *words, env=env, cwd=cwd, stdout=pipe, stderr=both, start_new_session=True
    )
    assert started.stdout is not None
    said = b""
    try:
        while until.encode() not in said:
            more = await asyncio.wait_for(started.stdout.read(1000), SECONDS)
            said += more
            assert more, f"it ended without saying {until!r}:\n{said.decode()}"
        os.killpg(started.pid, signal.SIGINT)
        await asyncio.wait_for(started.wait(), SECONDS)
    finally:
        if started.returncode is None:
            os.killpg(started.pid, signal.SIGKILL)
    assert started.returncode in (0, -signal.SIGINT, 128 + signal.SIGINT), said.decode()


def environment(folder: Path, url: str) -> Mapping[str, str]:
    """A home of its own, this environment's programs first, and keys that lead to this machine."""
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(folder / HOME),
        "TMPDIR": str(folder),  # a second pytest would sweep the folders of this one
        "LANG": "C.UTF-8",
        "COLUMNS": "100",
        "BROWSER": "true",
        "OPENAI_API_KEY": "sk-loopback",
        "OPENAI_BASE_URL": f"{url}/v1",
        "ANTHROPIC_API_KEY": "sk-loopback",
        "ANTHROPIC_BASE_URL": url,
    }
