"""One person's way through the whole dashboard, and a run full of scripts on which none of them runs."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser

from changes._adoption import SKILL, THIRD
from dashboard._browser import serving, tab
from dashboard._places import SCRIPT, hostile_run, staged
from skillopt_webui._runs import Roots

RUN_PAGES = ("Overview", "Versions", "Steps", "Tasks")


def test_launch_watch_read_a_diff_and_a_cell_then_adopt_and_undo(
    tmp_path: Path, browser: Browser, pictures: Path
) -> None:
    world, _ = staged(tmp_path / "home")
    with serving(world.project, home=world.home, token=True) as server, tab(browser, pictures) as desk:
        page = desk.open(server.opened)
        assert page.url == f"{server.url}/"
        desk.picture("runs-empty")
        page.get_by_role("link", name="Launch").click()
        page.get_by_role("button", name="Start the run").click()
        page.get_by_role("dialog").get_by_role("button", name="Start", exact=True).click()
        page.get_by_role("link", name=re.compile("Open quickstart-")).click()
        page.get_by_text("finished", exact=True).first.wait_for()
        tabs = page.get_by_role("navigation", name="Pages of this run")
        for name in RUN_PAGES:
            tabs.get_by_role("link", name=name).click()
            tabs.locator("[aria-current=page]").get_by_text(name).wait_for()
            if name == "Overview":
                page.get_by_text("simulated", exact=True).first.wait_for()
            if name == "Versions":
                difference = page.get_by_role("region", name=re.compile("Difference between"))
                assert re.search(r"^\+- ", difference.inner_text(), re.MULTILINE)
            if name == "Tasks":
                page.get_by_role("link", name=re.compile(": fail$")).first.click()
                page.get_by_role("region", name=re.compile("^(Message of assistant|Answer)")).first.wait_for()
            desk.picture(f"journey-{name.lower()}")
        page.get_by_role("link", name="Runs").click()
        page.get_by_text(re.compile("quickstart-")).first.wait_for()
        desk.picture("runs")
        page.get_by_role("link", name="Sleep").click()
        adopt, undo = (
            ("Adopt the chosen edits", "Adopt", "Adopted", THIRD),
            ("Undo the last adoption", "Undo", "Undone", SKILL),
        )
        for button, yes, done, text in (adopt, undo):
            page.get_by_role("button", name=button).click()
            page.get_by_role("dialog").get_by_role("button", name=yes, exact=True).click()
            page.get_by_role("status").get_by_text(f"{done}: edits 1, 2, 3.").wait_for()
            page.get_by_role("dialog").wait_for(state="detached")
            assert world.skill.read_text() == text


def test_the_browser_that_is_opened_is_let_in_and_keeps_no_token_in_its_address(
    tmp_path: Path, browser: Browser, pictures: Path
) -> None:
    with (
        serving(tmp_path, env={"TMPDIR": str(tmp_path)}, opens=True, token=True) as server,
        tab(browser, pictures) as desk,
    ):
        page, token = desk.page, server.opened.partition("token=")[2]
        referers: list[str] = []
        page.on("request", lambda request: referers.append(request.headers.get("referer", "")))
        page.goto(server.opening())
        page.get_by_role("heading", level=1, name="Runs").wait_for()
        page.get_by_role("link", name="Launch").click()
        page.get_by_role("heading", level=1, name="Launch").wait_for()
        assert page.url == f"{server.url}/launch"
        assert any(referers) and token not in page.content() + "".join(referers)
        (folder,) = tmp_path.glob("skillopt-dashboard-*")
    assert not folder.exists(), "the file that opened it goes with the dashboard"


def test_a_script_in_a_skill_a_task_a_transcript_an_edit_or_a_notice_is_text(
    tmp_path: Path, browser: Browser, pictures: Path
) -> None:
    folder = tmp_path / "outputs" / "hostile"
    folder.parent.mkdir()
    hostile_run(folder)
    run = Roots([tmp_path / "outputs"]).id_of(folder)
    with serving(tmp_path) as server, tab(browser, pictures) as desk:
        for path in ("", "/skill", "/edits", "/tasks"):
            page = desk.open(f"{server.url}/run/{run}{path}")
            page.get_by_role("navigation", name="Pages of this run").wait_for()
            if path == "":
                page.locator("#log").get_by_text(f"A notice. {SCRIPT}").wait_for()
            if path == "/skill":
                page.get_by_role("region", name=re.compile("Difference between")).get_by_text(
                    f"State the sum. {SCRIPT}"
                ).wait_for()
            if path == "/edits":
                page.locator("details.step summary").first.click()
                page.get_by_text("State the sum", exact=False).first.wait_for()
            if path == "/tasks":
                page.locator("main").get_by_role(
                    "link", name=re.compile("alert.*: (pass|fail)$")
                ).first.click()
                for name in ("Question", "^(Message of|Answer)"):
                    said = page.get_by_role("region", name=re.compile(name))
                    said.get_by_text(SCRIPT).first.wait_for()
            page.wait_for_timeout(200)
            assert page.locator("main img, main script, main iframe").count() == 0
        desk.open(f"{server.url}/").wait_for_timeout(300)
