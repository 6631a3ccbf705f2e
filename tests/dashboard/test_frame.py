"""The frame around the pages: navigation, theme, phone width, keyboard, and a page for what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from dashboard._browser import Server, serving, tab
from dashboard._places import staged


def test_a_person_at_the_keyboard_skips_the_navigation(
    local: Server, browser: Browser, pictures: Path
) -> None:
    with tab(browser, pictures) as desk:
        page = desk.open(f"{local.url}/launch")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


def test_a_screen_reader_finds_landmarks_one_heading_and_the_current_page(
    local: Server, browser: Browser, pictures: Path
) -> None:
    with tab(browser, pictures) as desk:
        page = desk.open(f"{local.url}/launch")
        assert page.get_by_role("banner").count() == 1
        assert page.get_by_role("main").count() == 1
        assert page.get_by_role("heading", level=1).all_inner_texts() == ["Launch"]
        navigation = page.get_by_role("navigation", name="Main")
        assert navigation.locator("[aria-current=page]").inner_text().strip().endswith("Launch")
        assert page.locator("html").get_attribute("lang") == "en"
        # Everything one can press or fill in has a name.
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll('button, a[href], input, textarea, select, [role=button], [role=checkbox]')]
            .filter(e => !e.closest('[aria-hidden=true]') && !(e.innerText || '').trim() && !e.getAttribute('aria-label')
                && !(e.labels && e.labels.length) && !e.closest('label'))
            .map(e => e.outerHTML)"""
        )
        assert unnamed == []


def test_the_theme_is_the_systems_until_another_is_chosen_and_is_then_kept(
    local: Server, browser: Browser, pictures: Path
) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    with tab(browser, pictures, dark=True) as desk:
        page = desk.open(f"{local.url}/launch")
        dark = page.evaluate(back)
        page.get_by_role("button", name="Theme: system").click()
        light = page.evaluate(back)
        assert light != dark
        page = desk.open(f"{local.url}/sleep")
        assert page.evaluate(back) == light
        page.get_by_role("button", name="Theme: light").click()
        page.get_by_role("button", name="Theme: dark").wait_for()
        assert page.evaluate(back) == dark


@pytest.mark.parametrize("name", ["launch", "sleep"])
def test_every_page_fits_a_phone_in_the_dark(
    local: Server, browser: Browser, pictures: Path, name: str
) -> None:
    with tab(browser, pictures, dark=True, phone=True) as phone:
        phone.open(f"{local.url}/{name}")
        phone.picture(f"{name}-phone-dark")
        assert phone.fits()


def test_a_run_that_is_not_there_is_a_sentence_with_the_way_back(
    local: Server, browser: Browser, pictures: Path
) -> None:
    with tab(browser, pictures, complains=True) as desk:
        page = desk.open(f"{local.url}/run/0123456789abcdef")
        assert "There is no run '0123456789abcdef'" in page.get_by_role("alert").inner_text()
        page.get_by_role("link", name="All runs").wait_for()
        assert [one for one in desk.complaints if "404" not in one] == []


def test_an_address_that_is_no_page_has_the_way_back_and_is_printed_nowhere(
    local: Server, browser: Browser, pictures: Path
) -> None:
    with tab(browser, pictures, complains=True) as desk:
        page = desk.open(f"{local.url}/nowhere%1b%5b31m?x=1")
        assert page.get_by_role("alert").inner_text() == "There is no page at this address."
        page.get_by_role("navigation", name="Main").get_by_role("link", name="Launch").wait_for()
        assert [one for one in desk.complaints if "404" not in one] == []
    assert "nowhere" not in local.log.read_text()


def test_the_focus_is_seen_on_every_control(tmp_path: Path, browser: Browser, pictures: Path) -> None:
    world, _ = staged(tmp_path / "home")
    unseen, named = [], []
    with serving(world.project, home=world.home) as server, tab(browser, pictures) as desk:
        for path in ("/launch", "/sleep"):
            page = desk.open(f"{server.url}{path}")
            for _ in range(60):
                page.keyboard.press("Tab")
                if page.evaluate("document.activeElement === document.body"):
                    break  # past the last control
                seen, name = page.evaluate(
                    """async () => { const one = document.activeElement; let seen = false;
                    for (let frame = 0; frame < 120 && !seen; frame++) {  // a mark may fade in
                        await new Promise(done => requestAnimationFrame(done));
                        const style = getComputedStyle(one);
                        const mark = style.outlineStyle !== 'none' && style.outlineWidth !== '0px';
                        seen = mark; }
                    return [seen, one.getAttribute('aria-label') || (one.labels && one.labels.length ? one.labels[0].innerText : one.innerText)]; }"""
                )
                named.append(name)
                if not seen:
                    unseen.append(name)
    for control in ("Packaged config", "Options, one", "Start the run", "Choose edit 1"):
        assert any(control in name for name in named), (control, named)
    assert unseen == []
