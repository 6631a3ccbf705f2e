"""The page Launch: the loader's own words, and a simulated run that is started, watched, stopped and resumed."""

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
