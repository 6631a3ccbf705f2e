"""A look at a page of a run without a server."""

from __future__ import annotations

from pathlib import Path

from skillopt_webui._launch import Launches
from skillopt_webui._page import Surroundings, Visit
from skillopt_webui._runs import Roots
from skillopt_webui.pages import pages


def visit_of(folder: Path) -> Visit:
    """The overview of the run in a folder."""
    roots = Roots([folder.parent])
    around = Surroundings(
        roots=roots,
        cwd=folder.parent,
        environ={},
        pages={name: pages.get(name) for name in pages.names()},
        launches=Launches(roots, folder.parent, {}),
    )
    place = next(one for one in roots.runs() if one.folder == folder)
    return Visit(around=around, page=pages.get("run"), place=place)
