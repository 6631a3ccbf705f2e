"""The documentation points at things that exist."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE = re.compile(r"^ {0,3}(```+|~~~+).*?^ {0,3}\1[`~]*\s*?$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(\s*<?([^)>\s]+)|^\[[^\]]+\]:\s*<?(\S+?)>?\s*$|(?:href|src)=\"([^\"]+)\"", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert not list(dead_links(page))


def test_the_configuration_page_is_what_the_code_says() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == module.page(), "run: make docs"


def test_the_readme_is_there() -> None:
    assert ROOT / "README.md" in PAGES


def test_a_dead_link_is_named_and_code_is_not_read_as_links(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "[here](page.md#top) [gone](gone.md) ![picture](img/gone.png 'title') [web](https://example.com) [mail](mailto:a@example.com) "
        "`[code](code.md)` [`named`](gone-too.md) [section](#section)\n\n```md\n[fenced](fenced.md)\n```\n\n[label]: gone-label.md\n"
    )
    assert list(dead_links(page)) == ["gone.md", "img/gone.png", "gone-too.md", "gone-label.md"]


def dead_links(page: Path) -> Iterator[str]:
    """The relative links of a page that lead to no file or folder."""
    for match in LINK.finditer(CODE.sub("", page.read_text(encoding="utf-8"))):
        link = next(filter(None, match.groups()))
        path = unquote(link.partition("#")[0])
        if path and not re.match(r"[a-z][a-z0-9+.-]*:", path, re.IGNORECASE) and not (page.parent / path).exists():
            yield link
