"""The pages in a real browser: the frame, Launch, Sleep, and a person's way through all of them."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from _loopback import LoopbackProvider, world_answers
from changes._adoption import FIRST, SKILL, THIRD
from dashboard._browser import Server, serving, tab
from dashboard._places import SCRIPT, hostile_run, staged
from skillopt.files import holder
from skillopt_webui._runs import Roots


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


SECRET = "sk-proj-4f1c09aa77d2e5b8"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("dashboard-launch"), env={"OPENAI_API_KEY": SECRET}) as started:
        yield started


@contextmanager
def ended(server: Server) -> Iterator[None]:
    """Whatever the test started has ended when it has."""
    try:
        yield
    finally:
        for lock in server.folder.glob("outputs/*/.lock"):
            if (pid := holder(lock)) is not None:
                os.kill(int(pid), signal.SIGKILL)


@contextmanager
def slow_models() -> Iterator[str]:
    """The simulated world behind a loopback provider that takes its time, so that there is something to
    watch.
    """
    with LoopbackProvider.in_thread(world_answers(), latency=lambda call: 0.25) as provider:
        yield f"compatible:m@{provider.base_url}"


def slow_run(model: str) -> list[str]:
    models = [f"model.target={model}", f"model.optimizer={model}"]
    return [*models, "train.batch_size=10", "env.val_cases=20", "env.test_cases=20"]


def fill(page: Page, *lines: str) -> None:
    box = page.get_by_label("Options, one key=value a line")
    box.fill("\n".join(lines))
    box.blur()


def start(page: Page) -> None:
    page.get_by_role("button", name="Start the run").click()
    page.get_by_role("dialog").get_by_role("button", name="Start", exact=True).click()
    page.get_by_text(re.compile(r"Started as process \d+")).wait_for()


def test_a_misspelt_key_is_named_with_its_near_miss_before_anything_starts(
    server: Server, browser: Browser, pictures: Path
) -> None:
    with tab(browser, pictures) as desk:
        page = desk.open(f"{server.url}/launch")
        fill(page, "train.num_epoch=2", "gate.policy=stict")
        said = page.get_by_role("alert")
        said.get_by_text("Did you mean 'train.num_epochs'?").wait_for()
        assert "Did you mean 'strict'?" in said.inner_text()
        assert page.get_by_role("button", name="Start the run").is_disabled()
        fill(page, "model.target.api_key=sk-abcdefghijkl")
        page.get_by_role("alert").get_by_text("Put it into the environment, or into .env").wait_for()
        assert "sk-abcdefghijkl" not in page.get_by_role("alert").inner_text()
        fill(page, f"env.out_root={server.folder / 'elsewhere'}")
        expect(page.get_by_role("button", name="Start the run")).to_be_enabled()
        page.get_by_role("button", name="Start the run").click()
        page.get_by_role("dialog").get_by_role("button", name="Start", exact=True).click()
        page.get_by_role("alert").get_by_text("lies outside of").wait_for()
        assert not (server.folder / "elsewhere").exists()


def test_a_key_of_the_environment_is_used_and_never_shown(
    server: Server, browser: Browser, pictures: Path
) -> None:
    with tab(browser, pictures) as desk:
        page = desk.open(f"{server.url}/launch")
        fill(page, "model.target=openai:gpt-5.4-mini", "train.batch_size=10")
        command = page.get_by_role("region", name="Command")
        command.get_by_text(
            "skillopt estimate --config quickstart --cfg-options model.target=openai"
        ).wait_for()
        desk.picture("launch")
        shown = page.locator(":not(textarea)").evaluate_all(
            "all => all.map(e => e.outerText + [...e.attributes].map(a => a.value)).join()"
        )
        assert SECRET not in shown


def test_a_run_is_started_watched_stopped_and_resumed_without_a_reload(
    server: Server, browser: Browser, pictures: Path
) -> None:
    with (
        slow_models() as model,
        ended(server),
        tab(browser, pictures) as desk,
        tab(browser, pictures) as watcher,
    ):
        page = desk.open(f"{server.url}/launch")
        fill(page, *slow_run(model))
        start(page)
        link = page.get_by_role("link", name=re.compile("Open quickstart-"))
        link.wait_for()
        seen = watcher.open(f"{server.url}{link.get_attribute('href')}")
        seen.evaluate("window.notReloaded = true")
        moments = seen.locator(".moment")
        moments.first.wait_for(state="attached")
        moments.nth(moments.count()).wait_for(state="attached")  # one more than there were
        assert seen.evaluate("window.notReloaded") is True
        seen.get_by_text("simulated", exact=True).first.wait_for()
        watcher.picture("run-live")

        page.get_by_role("button", name="Stop").click()
        page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
        page.get_by_text("stopped; resume goes on").wait_for()
        seen.get_by_text("stopped", exact=True).first.wait_for()
        folder = next((server.folder / "outputs").glob("quickstart-*"))
        decided = (folder / "events.jsonl").read_bytes()
        page.get_by_role("button", name="Resume").click()
        seen.get_by_text("running", exact=True).first.wait_for()
        page.get_by_role("article").first.get_by_text("running", exact=True).wait_for()
        desk.picture("launch-running")
        assert (folder / "events.jsonl").read_bytes().startswith(decided)


@pytest.mark.real
def test_a_run_outlives_the_dashboard_that_started_it(
    tmp_path: Path, browser: Browser, pictures: Path
) -> None:
    with slow_models() as model, serving(tmp_path) as server, ended(server):
        with tab(browser, pictures) as desk:
            page = desk.open(f"{server.url}/launch")
            fill(page, *slow_run(model))
            start(page)
            page.get_by_role("article").first.get_by_text("running", exact=True).wait_for()
        server.process.send_signal(signal.SIGINT)
        server.process.wait(10)
        lock = next((tmp_path / "outputs").glob("quickstart-*/.lock"))
        assert holder(lock) is not None


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
