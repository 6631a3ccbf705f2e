"""A real dashboard as a child process, and a real Chromium to look at it: what the tests of the pages start
from.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from _needs import CHROMIUM, NO_CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

PATIENCE = 60.0
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running dashboard."""

    url: str
    """Without a slash at its end, and without the token."""
    opened: str
    """As it was printed."""
    home: Path
    folder: Path
    """Its working folder."""
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def opening(self) -> str:
        """What the browser was started with."""
        deadline = time.monotonic() + PATIENCE
        while not (opened := self.home / "opened").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return opened.read_text().strip()


@contextmanager
def serving(
    folder: Path,
    *arguments: str,
    home: Path | None = None,
    roots: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    opens: bool = False,
    token: bool = False,
) -> Iterator[Server]:
    """Start the dashboard in a folder, with a HOME of its own; it ends, and must have complained of nothing,
    when the block ends. With `token` as it starts by default: it must first be visited as `opened`. The
    browser that it `opens` is a program that notes what it was started with.
    """
    home = home or folder / "home"
    for place in (folder, home):
        place.mkdir(parents=True, exist_ok=True)
    log = home / "dashboard.log"
    told = [part for root in roots for part in ("--root", str(root))]
    command = [
        sys.executable,
        "-m",
        "skillopt",
        "dashboard",
        "--port",
        "0",
        *([] if opens else ["--no-open"]),
        *([] if token else ["--no-token"]),
        *told,
        *arguments,
    ]
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    if opens:
        browser, noted = home / "browser", home / "noted"
        browser.write_text(f'#!/bin/sh\necho "$@" > "{noted}" && mv "{noted}" "{home / "opened"}"\n')
        browser.chmod(0o755)
        kept["BROWSER"] = f"{browser} %s"
    env = {"HOME": str(home), "COLUMNS": "200", **kept, **(env or {})}
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=out, stderr=subprocess.STDOUT)
    try:
        opened = _address(process, log)
        yield Server(
            url=opened.partition("/?")[0].rstrip("/"),
            opened=opened,
            home=home,
            folder=folder,
            process=process,
            log=log,
        )
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
    assert "Traceback" not in log.read_text(encoding="utf-8"), log.read_text(encoding="utf-8")


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := re.search(r"^Dashboard: (\S+)$", log.read_text(encoding="utf-8"), re.MULTILINE):
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise AssertionError(f"the dashboard did not start: {log.read_text(encoding='utf-8')}")


@dataclass(kw_only=True)
class Tab:
    """One browser tab that remembers everything that went wrong in it."""

    page: Page
    pictures: Path
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(f"script error: {error}"))
        self.page.on("request", self._asked)
        # A dialog would wait for an answer for ever; no page of ours opens one.
        self.page.on(
            "dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss())
        )

    def open(self, url: str) -> Page:
        """Go to an address and wait until the page is live: its stream is open."""
        self.page.goto(url, wait_until="load")
        self.page.locator("html[data-ready]").wait_for(state="attached")
        return self.page

    def picture(self, name: str, *, full: bool = True) -> Path:
        """Keep a screenshot as an artefact."""
        self.pictures.mkdir(parents=True, exist_ok=True)
        path = self.pictures / f"{name}.png"
        self.page.screenshot(path=path, full_page=full, animations="disabled")
        return path

    def fits(self) -> bool:
        """Whether nothing of the page stands out at the side."""
        return bool(
            self.page.evaluate(
                "document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1"
            )
        )

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def _asked(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in (
            "127.0.0.1",
            "localhost",
            "::1",
        ):
            self.complaints.append(f"left this machine: {request.url}")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, or any that is installed."""
    if CHROMIUM is None:
        pytest.skip(NO_CHROMIUM)
    from playwright.sync_api import expect, sync_playwright  # heavy, and only a browser needs it

    expect.set_options(timeout=PATIENCE * 1000)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(
    browser: Browser, pictures: Path, *, dark: bool = False, phone: bool = False, complains: bool = False
) -> Iterator[Tab]:
    """A tab of its own, without cookies of another. At its end nothing may have gone wrong in it, unless the
    test looks itself.
    """
    context: BrowserContext = browser.new_context(
        viewport=PHONE if phone else DESK,  # type: ignore[arg-type]
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        is_mobile=phone,
        has_touch=phone,
    )
    context.set_default_timeout(PATIENCE * 1000)
    opened = Tab(page=context.new_page(), pictures=pictures)
    try:
        yield opened
    finally:
        context.close()
    if not complains:
        assert opened.complaints == []
