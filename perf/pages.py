"""Opens a run of 10,000 events and 5,000 tasks in a real Chromium and prints how long a person waits, what
comes over the wire, and what the server holds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from playwright.sync_api import Browser, Page

from dashboard._browser import CHROMIUM, Server, chromium, serving, tab
from runs._big import big_run, keep_texts, step_events
from skillopt.events import Checkpoint
from skillopt.runs.log import read_events
from skillopt_webui._runs import Roots

EVENTS_A_STEP = 8
UPDATES = 5
PAINT = "performance.getEntriesByType('paint').find(e => e.name === 'first-contentful-paint')?.startTime"
PAGES = {
    "run": ("/run/{run}", ".stairs .val"),
    "tasks": ("/run/{run}/tasks", ".heat td a"),
    "runs": ("/", "table a"),
}
"""Address, and what is there when its content is."""
# Notes when a part was last replaced, where it is seen.
WATCHED = """() => { window.replaced = []; new MutationObserver(() => window.replaced.push(
  [Date.now() / 1000, [...document.querySelectorAll('dt')].find(e => e.textContent.endsWith(' steps'))?.textContent]))
  .observe(document.querySelector('#parts'), { childList: true, subtree: true }); }"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000, help="events of the run (default %(default)s)")
    parser.add_argument("--tasks", type=int, default=5_000, help="val tasks of the run (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    if CHROMIUM is None:
        print("no Chromium here (apt install chromium), so nothing was measured")
        return
    figures = measure(arguments.events, arguments.tasks)
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    print(
        f"{figures['events']} events, {arguments.tasks} val tasks, a log of {figures['log_mb']:.1f} MB"
        " (written, not run), real Chromium"
    )
    for name, page in figures["pages"].items():
        told = f"first paint {page['paint_ms']:.0f} ms, content {page['content_ms']:.0f} ms"
        again = f"again: {page['again_paint_ms']:.0f} ms, {page['again_content_ms']:.0f} ms"
        print(f"{name:<32}{told} ({again}; {page['again_kb']:.1f} kB cold)")
    print(
        f"{'a closed step is on the page':<32}after {figures['update_ms']:.0f} ms on average,"
        f" {figures['longest_update_ms']:.0f} at most, with {figures['update_kb']:.1f} kB,"
        f" {figures['accepted_kb']:.1f} kB where it was accepted"
    )
    print(
        f"{'memory of the server':<32}{figures['rss_mb_idle']:.0f} MB before the first visit,"
        f" {figures['rss_mb']:.0f} MB after all"
    )


def measure(events: int, tasks: int) -> dict[str, Any]:
    """Every figure."""
    with tempfile.TemporaryDirectory(prefix="skillopt-perf-") as place, chromium() as browser:
        folder = Path(place) / "outputs" / "big"
        count = big_run(folder, steps=events // EVENTS_A_STEP, tasks=tasks)
        run = str(Roots([folder.parent]).id_of(folder))
        with serving(Path(place)) as server:
            idle = resident(server)
            pages = {
                name: visited(browser, f"{server.url}{path.format(run=run)}", is_there)
                for name, (path, is_there) in PAGES.items()
            }
            steps = updates(browser, f"{server.url}/run/{run}", folder, tasks)
            waits, sizes = [1000 * wait for wait, _ in steps], [size for _, size in steps]
            return {
                "events": count,
                "log_mb": (folder / "events.jsonl").stat().st_size / 1e6,
                "pages": pages,
                "update_ms": sum(waits) / len(waits),
                "longest_update_ms": max(waits),
                "update_kb": max(sizes[1:]) / 1000,
                "accepted_kb": sizes[0] / 1000,
                "rss_mb_idle": idle,
                "rss_mb": resident(server),
            }


def visited(browser: Browser, url: str, is_there: str) -> dict[str, float]:
    """First paint, when the content is there, and what came over the wire: for the first visitor of the run,
    and for the next with an empty cache.
    """
    figures: dict[str, float] = {}
    for prefix in ("", "again_"):
        with tab(browser, Path("unused")) as desk:
            heard = wire(desk.page)
            started = time.monotonic()
            desk.page.goto(url, wait_until="commit")
            desk.page.locator(is_there).first.wait_for(state="attached")
            figures[f"{prefix}content_ms"] = 1000 * (time.monotonic() - started)
            # The browser writes it down a moment after it painted.
            figures[f"{prefix}paint_ms"] = awaited(desk.page, PAINT)
            figures[f"{prefix}kb"] = sum(heard) / 1000
    return figures


def updates(browser: Browser, url: str, folder: Path, tasks: int) -> list[tuple[float, float]]:
    """Of each step that closes while a page is open: seconds from its last byte in the log until the page
    says so, and the bytes that took. The first of them is accepted.
    """
    found = []
    with tab(browser, Path("unused")) as desk:
        heard = wire(desk.page)
        page = desk.open(url)
        page.locator(".stairs .val").wait_for()
        page.evaluate(WATCHED)
        state = next(
            one.state
            for one in reversed(list(read_events(folder / "events.jsonl")))
            if isinstance(one, Checkpoint)
        )
        for number in range(UPDATES):
            page.wait_for_timeout(1000 + 170 * number)  # anywhere between two looks of the server
            made = list(step_events(state, tasks, accepted=not number))
            state = made[-1].state
            keep_texts(folder)
            heard.clear()
            with (folder / "events.jsonl").open("a", encoding="utf-8") as log:
                log.writelines(event.model_dump_json() + "\n" for event in made)
            written = time.time()
            said = f"window.replaced.find(one => one[1]?.startsWith('{state.step} '))?.[0]"
            seen = awaited(page, said)
            page.wait_for_timeout(300)  # the browser tells the size after the fact
            found.append((seen - written, sum(heard)))
    return found


def awaited(page: Page, script: str) -> float:
    """A number that is there sooner or later; no page of ours lets a script of others wait for it."""
    while (found := page.evaluate(script)) is None:
        page.wait_for_timeout(20)
    return float(found)


def wire(page: Page) -> list[float]:
    """The bytes of every answer that comes from now on, as they were sent: compressed, with their heads."""
    heard: list[float] = []
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda told: heard.append(told["encodedDataLength"]))
    return heard


def resident(server: Server) -> float:
    """Memory of the server in megabytes; not a number where the system does not say."""
    try:
        text = Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
    except OSError:
        return float("nan")
    return next(int(line.split()[1]) / 1000 for line in text.splitlines() if line.startswith("VmRSS:"))


if __name__ == "__main__":
    main()
