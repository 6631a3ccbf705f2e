"""The documentation points at things that exist."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import pytest
import typer.main

from skillopt.cli import app

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCED = re.compile(r"^ {0,3}(```+|~~~+).*?^ {0,3}\1[`~]*\s*?$", re.MULTILINE | re.DOTALL)
LINKED = sorted([*PAGES, *ROOT.glob("examples/**/*.md"), *ROOT.glob("perf/*.md")])
CODE = re.compile(FENCED.pattern + r"|`[^`\n]+`", FENCED.flags)
LINK = re.compile(
    r"\]\(\s*<?([^)>\s]+)|^\[[^\]]+\]:\s*<?(\S+?)>?\s*$|(?:href|src)=\"([^\"]+)\"", re.MULTILINE
)


@pytest.mark.parametrize("page", LINKED, ids=[str(page.relative_to(ROOT)) for page in LINKED])
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert not list(dead_links(page))


def test_the_pages_on_configuration_and_python_are_what_the_code_says() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == module.page(), "run: make docs"
    assert (ROOT / "docs" / "python.md").read_text(encoding="utf-8") == module.reference(), "run: make docs"


def test_a_page_that_a_program_names_is_there_with_its_heading() -> None:
    files = [path for folder in ("src", "perf", "examples") for path in (ROOT / folder).rglob("*.py")]
    for path in files:
        for page, heading in re.findall(
            r"(docs/[\w/-]+\.md)(?:#([\w-]+))?", path.read_text(encoding="utf-8")
        ):
            assert (ROOT / page).exists(), f"{path}: {page}"
            assert not heading or heading in headings(ROOT / page), f"{path}: {page}#{heading}"


def test_every_page_is_reached_from_the_readme() -> None:
    reached, to_read = set[Path](), [ROOT / "README.md"]
    while to_read:
        page = to_read.pop()
        if page not in reached:
            reached.add(page)
            to_read += [(page.parent / path).resolve() for path, _ in links(page) if path.endswith(".md")]
    assert not [str(page.relative_to(ROOT)) for page in PAGES if page not in reached]


def test_every_command_has_a_row_and_every_room_stands_on_the_page_on_the_architecture() -> None:
    commands = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    table = set(re.findall(r"^\| `skillopt (\w+)", commands, re.MULTILINE))
    assert table == set(cast(Any, typer.main.get_command(app())).commands)
    house = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## The house")[2]
    named = re.findall(r"\w+", " ".join(re.findall(r"^\| (`[^|]+) \|", house, re.MULTILINE)))
    rooms = {path.stem for path in (ROOT / "src/skillopt").iterdir() if path.suffix in ("", ".py")}
    assert not [room for room in rooms if room[0] != "_" and room not in named]


def test_the_front_door_is_short() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    architecture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 70 and len(readme.split()) <= 700
    assert len(architecture.split()) <= 900


def test_every_name_of_a_walk_stands_in_its_file() -> None:
    rows = re.findall(
        r"^\| (`\w+/[^|]+) \| (.+) \|$",
        (ROOT / "docs" / "walks.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(rows) > 25
    missing = []
    for files, text in rows:
        sources = [ROOT / "src" / path for path in re.findall(r"`([\w/]+\.py)`", files)]
        source = "".join(path.read_text(encoding="utf-8") for path in sources)
        for name in re.findall(r"`([A-Za-z_][\w.]*)`", text):
            *owner, last = name.split(".")
            if not all(
                re.search(rf"\b(?:class|def) {part}\b|import .*\b{part}\b", source) for part in (*owner, last)
            ):
                missing.append(f"{name} in {files}")
    assert not missing


def test_every_page_is_in_the_menu_of_the_site() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- ([\w/-]+\.md)$", settings, re.MULTILINE)
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert set(listed) == {page for page in pages if not re.match(r"decisions/\d", page)}


def test_every_decision_is_in_the_list_of_decisions() -> None:
    folder = ROOT / "docs" / "decisions"
    records = {page.name for page in folder.glob("[0-9]*.md")}
    assert {path for path, _ in links(folder / "README.md")} - {"../architecture.md"} == records


def test_a_dead_link_is_named_and_code_is_not_read_as_links(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Top\n\n## Section\n\n[here](page.md#top) [gone](gone.md) ![picture](img/gone.png 'title')"
        " [web](https://example.com) [mail](mailto:a@example.com) `[code](code.md)` [`named`](gone-too.md)"
        " [section](#section)\n\n```md\n[fenced](fenced.md)\n```\n\n[label]: gone-label.md\n"
    )
    assert list(dead_links(page)) == ["gone.md", "img/gone.png", "gone-too.md", "gone-label.md"]


def test_a_link_into_a_page_names_a_heading_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(
        "[own](#with-a-model) [other](other.md#the-gate-and-why) [gone](other.md#the-gate)\n\n## With a"
        " `model`\n"
    )
    (tmp_path / "other.md").write_text("# The gate, and why\n\n```\n# The gate\n```\n")
    assert list(dead_links(tmp_path / "page.md")) == ["other.md#the-gate"]


@pytest.mark.real
def test_every_command_line_of_the_pages_names_a_command_and_options_that_exist() -> None:
    examples = [
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / "src" / "skillopt" / "plugins" / "texts").rglob("*.md"),
    ]
    pages = [page for page in [*PAGES, *examples] if page.name != "CHANGELOG.md"]
    found = [
        (page.name, words) for page in pages for words in command_lines(page.read_text(encoding="utf-8"))
    ]
    assert len(found) > 100
    wrong = [(name, " ".join(words), word) for name, words in found for word in unknown_words(words)]
    assert not wrong


def test_an_option_that_a_command_does_not_have_is_found() -> None:
    (words,) = command_lines("```\nskillopt runs diff a \\\n    --colour red  # not there\n```\n")
    assert list(unknown_words(words)) == ["--colour"]
    assert list(unknown_words(("dif", "a"))) == ["dif"]


def command_lines(text: str) -> Iterator[tuple[str, ...]]:
    """The words behind `skillopt` wherever a line or a piece of code begins with it."""
    for match in re.finditer(r"(?:^|`|\$ )skillopt ([a-z][^`\n]*)", text.replace("\\\n", " "), re.MULTILINE):
        yield tuple(match[1].partition(" #")[0].split())


def unknown_words(words: tuple[str, ...]) -> Iterator[str]:
    """The first word if it is no command, else the options that the command does not have."""
    command: Any = the_command(words[0])
    if command is None:
        yield words[0]
        return
    for word in words[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    known = {"--help", *(name for one in command.params for name in (*one.opts, *one.secondary_opts))}
    yield from (
        word for word in words if word.startswith("--") and word.partition("=")[0].rstrip(",.;)") not in known
    )


@cache
def the_command(name: str) -> Any:
    """A command with all its options; None if there is none of that name."""
    return cast(Any, typer.main.get_command(app(name))).commands.get(name)


def links(page: Path) -> Iterator[tuple[str, str]]:
    """The relative links of a page: path (empty is the page itself) and heading."""
    for match in LINK.finditer(CODE.sub("", page.read_text(encoding="utf-8"))):
        link = next(filter(None, match.groups()))
        if not re.match(r"[a-z][a-z0-9+.-]*:", link, re.IGNORECASE):
            path, _, heading = link.partition("#")
            yield unquote(path), heading


def dead_links(page: Path) -> Iterator[str]:
    """The relative links of a page that lead to no file or folder, or to no heading of a page."""
    for path, heading in links(page):
        there = page.parent / path if path else page
        is_dead = not there.exists() or (heading and there.suffix == ".md" and heading not in headings(there))
        if is_dead:
            yield f"{path}#{heading}" if heading else path


def headings(page: Path) -> set[str]:
    """The headings of a page as links name them: small letters, no punctuation, dashes for spaces."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        for title in re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    }


def test_no_hint_fetches_the_program_that_has_our_name_on_a_package_index() -> None:
    files = [*PAGES, *(path for suffix in ("py", "yaml", "toml") for path in ROOT.glob(f"src/**/*.{suffix}"))]
    files += [ROOT / "pyproject.toml", *ROOT.glob("examples/**/*.toml"), *ROOT.glob("examples/**/*.md")]
    wrong = re.compile(r"install [^\n`]*['\" ]skillopt(\[|['\"`\s]|$)|(?<![\w.-])skillopt\[[a-z{]")
    assert not [
        f"{path.relative_to(ROOT)}: {line}"
        for path in files
        for line in path.read_text(encoding="utf-8").splitlines()
        if wrong.search(line)
    ]
