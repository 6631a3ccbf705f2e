"""The page Sleep before the first night. In a file of its own: a browser would hold the event loop."""

from __future__ import annotations

from pathlib import Path

from skillopt_webui._launch import Launches
from skillopt_webui._page import Surroundings, Visit
from skillopt_webui._runs import Roots
from skillopt_webui.pages import sleep


async def test_commands_are_shown_as_code_where_no_night_was_yet(tmp_path: Path) -> None:
    roots, environ = Roots([tmp_path]), {"HOME": str(tmp_path)}
    launches = Launches(roots, tmp_path, environ)
    around = Surroundings(roots=roots, cwd=tmp_path, environ=environ, pages={}, launches=launches)
    shown = "".join((await sleep.build(Visit(around=around, page=sleep.PLUGIN))).values())
    assert "<code>skillopt sleep dry-run</code> says" in shown and "`" not in shown
