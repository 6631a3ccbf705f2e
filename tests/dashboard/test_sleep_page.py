"""The page Sleep: a proposal is reviewed, adopted edit by edit and undone in a temporary HOME, and nothing in
it runs.
"""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page

from changes._adoption import FIRST, SKILL
from dashboard._browser import serving, tab
from dashboard._places import SCRIPT, staged


def decide(page: Page, button: str, yes: str) -> None:
    page.get_by_role("button", name=button).click()
    page.get_by_role("dialog").get_by_role("button", name=yes, exact=True).click()


def test_a_person_adopts_one_edit_takes_it_back_and_is_refused_over_a_text_of_theirs(
    tmp_path: Path, browser: Browser, pictures: Path
) -> None:
    world, proposal = staged(tmp_path / "home")
    before = world.files()
    with (
        serving(tmp_path / "home" / "project", home=tmp_path / "home") as server,
        tab(browser, pictures) as desk,
    ):
        page = desk.open(f"{server.url}/sleep")
        assert page.get_by_role("link", name=proposal.id).is_visible()
        assert (
            "+- Be short: three lines at most."
            in page.get_by_role("region", name="What edit 1 changes").inner_text()
        )
        desk.picture("sleep")
        for other in (2, 3):
            page.get_by_role("checkbox", name=f"Choose edit {other}").click()
        page.get_by_role("button", name="Adopt the chosen edits").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        page.get_by_role("dialog").wait_for(state="detached")
        assert world.files() == before
        decide(page, "Adopt the chosen edits", "Adopt")
        page.get_by_text("Adopted: edit 1.").wait_for()
        assert world.skill.read_text() == FIRST
        desk.picture("sleep-adopted")
        decide(page, "Undo the last adoption", "Undo")
        page.get_by_text("Undone: edit 1.").wait_for()
        assert world.skill.read_text() == SKILL
        page.get_by_role("checkbox", name="Choose edit 1").wait_for()
        world.skill.write_text(SKILL + "- Mine.\n")
        decide(page, "Adopt the chosen edits", "Adopt")
        assert (
            "was changed since this was decided and is not overwritten"
            in page.get_by_role("alert").inner_text()
        )
        assert world.skill.read_text() == SKILL + "- Mine.\n"
        world.skill.write_text(SKILL)
        page.get_by_role("dialog").wait_for(state="detached")
        decide(page, "Discard the chosen edits", "Discard")
        page.get_by_text("Discarded: edits 1, 2, 3.").wait_for()
        assert world.files() == before


def test_a_script_in_a_proposal_is_text(tmp_path: Path, browser: Browser, pictures: Path) -> None:
    staged(tmp_path / "home", hostile=True)
    with (
        serving(tmp_path / "home" / "project", home=tmp_path / "home") as server,
        tab(browser, pictures) as desk,
    ):
        page = desk.open(f"{server.url}/sleep")
        page.get_by_role("heading", name="Edit 1").wait_for()
        shown = page.get_by_role("main").inner_text()
        assert shown.count(SCRIPT) >= 3  # the outcome of the night, the note and the edit
        page.wait_for_timeout(300)
        assert page.locator("main img, main script").count() == 0
