"""A look at a page without a server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from multidict import MultiDict

from skillopt_webui._launch import Launches
from skillopt_webui._page import AppState, Visit
from skillopt_webui._runs import Roots
from skillopt_webui.pages import PAGES


def visit(
    page: str,
    root: Path,
    query: Mapping[str, str] | MultiDict[str] | None = None,
    *,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Visit:
    """A look at a page of a dashboard over a root."""
    roots, cwd, environ = Roots([root]), cwd or root, environ or {}
    app = AppState(roots=roots, cwd=cwd, environ=environ, pages=PAGES, launches=Launches(roots, cwd, environ))
    return Visit(app=app, page=PAGES[page], query=MultiDict(query or {}))


def visit_of(folder: Path) -> Visit:
    """The overview of the run in a folder."""
    made = visit("run", folder.parent)
    place = next(one for one in made.app.roots.runs() if one.folder == folder)
    return Visit(app=made.app, page=made.page, place=place)


def text(markup: str) -> str:
    """What a person reads of it."""
    return " ".join(re.sub("<[^>]+>", " ", markup).split())
