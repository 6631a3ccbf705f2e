"""The page Launch: the loader's own words, the same estimate, and a simulated run that is started, watched,
stopped and resumed.
"""

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
from dashboard._browser import Server, serving, tab
from skillopt.files import holder

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


def fill(page: Page, model: str) -> None:
    for role in ("Target", "Optimizer"):
        page.get_by_label(f"{role} model (model.{role.lower()})").fill(model)
    page.get_by_label("Batch size (train.batch_size)").fill("10")
    page.get_by_label("Further options, one key=value a line").fill("env.val_cases=20\nenv.test_cases=20\n")


def start(page: Page) -> None:
    page.get_by_role("button", name="Start the run").click()
    page.get_by_role("dialog").get_by_role("button", name="Start", exact=True).click()
    page.get_by_text(re.compile(r"Started as process \d+")).wait_for()


def test_a_misspelt_key_is_named_with_its_near_miss_before_anything_starts(
    server: Server, browser: Browser, pictures: Path
) -> None:
    with tab(browser, pictures) as desk:
        page = desk.open(f"{server.url}/launch")
        expect(page.get_by_label("Epochs (train.num_epochs)")).to_have_attribute("placeholder", "3")
        further = page.get_by_label("Further options, one key=value a line")
        further.fill("train.num_epoch=2\ngate.policy=stict")
        further.blur()
        said = page.get_by_role("alert")
        said.get_by_text("Did you mean 'train.num_epochs'?").wait_for()
        assert "Did you mean 'strict'?" in said.inner_text()
        assert page.get_by_role("button", name="Start the run").is_disabled()
        further.fill("model.target.api_key=sk-abcdefghijkl")
        further.blur()
        page.get_by_role("alert").get_by_text("Put it into the environment, or into .env").wait_for()
        assert "sk-abcdefghijkl" not in page.get_by_role("alert").inner_text()
        page.get_by_label("Epochs (train.num_epochs)").fill("5")
        further.fill("train.num_epochs=5")
        further.blur()
        page.get_by_role("alert").get_by_text("given twice").wait_for()
        further.fill(f"env.out_root={server.folder / 'elsewhere'}")
        page.get_by_label("Run folder (env.out_root)").blur()
        further.blur()
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
        page.get_by_label("Target model (model.target)").fill("openai:gpt-5.4-mini")
        page.get_by_label("Batch size (train.batch_size)").fill("10")
        page.get_by_label("Batch size (train.batch_size)").blur()
        page.get_by_role("region", name="Command").get_by_text("openai:gpt-5.4-mini").wait_for()
        page.get_by_role("button", name="Estimate the cost").click()
        page.get_by_role("rowheader", name="total").wait_for()
        shown = page.locator(":not(textarea)").evaluate_all(
            "all => all.map(e => e.outerText + [...e.attributes].map(a => a.value)).join()"
        )
        assert SECRET not in shown


def test_the_estimate_is_that_of_the_command_line(server: Server, browser: Browser, pictures: Path) -> None:
    with tab(browser, pictures) as desk:
        page = desk.open(f"{server.url}/launch")
        page.get_by_role("button", name="Estimate the cost").click()
        page.get_by_role("rowheader", name="total").wait_for()
        assert "12 steps" in page.get_by_role("main").inner_text()
        assert page.get_by_text("simulated", exact=True).count() == 1
        desk.picture("launch")


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
        fill(page, model)
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
            fill(page, model)
            start(page)
            page.get_by_role("article").first.get_by_text("running", exact=True).wait_for()
        server.process.send_signal(signal.SIGINT)
        server.process.wait(10)
        lock = next((tmp_path / "outputs").glob("quickstart-*/.lock"))
        assert holder(lock) is not None
