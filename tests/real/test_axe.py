"""No page of the dashboard, and no report, breaks a rule of axe, in light and in dark."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from cli._commands import SMALL
from dashboard._browser import PHONE, chromium, serving, tab
from dashboard._places import staged
from real._npm import installed
from skillopt.runs.reader import read_view
from skillopt.runs.tasks import compare_tasks
from skillopt_webui._runs import Roots
from skillopt_webui.report import page as report

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
VERSION = "4.14.0"
PAGES = ("/", "/launch", "/sleep")
OF_RUN = ("", "/skill", "/edits", "/tasks", "/tasks?show=all&task={task}&version=seed")
DARK = (2, 4, 6, -1)
"""Sleep, the run, its edits, one of its tasks."""
FOUND = """async rules => (await axe.run(document, { resultTypes: ["violations"], ...(rules ? { runOnly: rules } : {}) }))
  .violations.map(one => `${one.id} (${one.impact}): ${one.nodes.map(node => node.html).slice(0, 3).join(" ")}`)"""


def test_no_page_and_no_report_breaks_a_rule(tmp_path: Path, machine_env: Mapping[str, str]) -> None:
    axe = installed("axe-core", VERSION, "axe-core/axe.min.js", env=machine_env).read_text(encoding="utf-8")
    world, _ = staged(tmp_path / "home")
    root = world.project / "outputs"
    train = [sys.executable, "-m", "skillopt", "train", "quickstart", "--quiet", "--out_root", "outputs/run"]
    subprocess.run([*train, "--cfg-options", *SMALL], cwd=world.project, check=True, capture_output=True)
    shutil.copytree(root / "run", root / "again")
    facts = read_view(root / "run")
    (tmp_path / "report.html").write_text(report(facts, compare_tasks(facts)), encoding="utf-8")
    broken: dict[str, list[str]] = {}
    with chromium() as browser, serving(world.project, home=world.home) as server:
        run = f"/run/{Roots([root]).id_of(root / 'run')}"
        pages = [server.url + path for path in PAGES]
        pages += [f"{server.url}{run}{path}".format(task=facts.tasks[0]) for path in OF_RUN]
        both = (Roots([root]).id_of(root / name) for name in ("run", "again"))
        compared = f"{server.url}/compare?{'&'.join(f'run={id}' for id in both)}"
        pages.insert(len(PAGES), compared)
        with tab(browser, tmp_path) as desk:  # what is wider than a phone scrolls, also by keyboard
            desk.page.set_viewport_size(PHONE)
            for address in (compared, server.url + run):
                desk.open(address)
                desk.page.evaluate(axe)
                if found := desk.page.evaluate(FOUND, None):
                    broken[f"phone {address.removeprefix(server.url)}"] = found
        for dark in (False, True):
            with tab(browser, tmp_path, dark=dark) as desk:
                # Nothing but colours differs in the dark, and these four pages have all of them.
                shown = [pages[index] for index in DARK] if dark else pages
                for address in [*shown, (tmp_path / "report.html").as_uri()]:
                    if address.startswith("file:"):
                        desk.page.goto(address)
                        desk.page.locator(".wall button").first.click()
                    else:
                        desk.open(address)
                    desk.page.evaluate(axe)
                    if found := desk.page.evaluate(FOUND, ["color-contrast"] if dark else None):
                        broken[f"{'dark' if dark else 'light'} {address.removeprefix(server.url)}"] = found
    assert not broken, "\n".join(f"{page}: {told}" for page, told in broken.items())
