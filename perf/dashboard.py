"""Opens a run of 10,000 events and 5,000 tasks in a real Chromium and prints how long a person waits, and
what the server holds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Instead of this folder: a file here has the name of a folder there.
sys.path.pop(0)
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from playwright.sync_api import Browser

from dashboard._browser import CHROMIUM, Server, chromium, serving, tab
from runs._big import big_run, first_state, step_events
from skillopt.dashboard._runs import Roots

EVENTS_A_STEP = 8
UPDATES = 5
STEPS_SHOWN = """() => [...document.querySelectorAll('dt')].find(e => e.textContent === 'steps')?.nextElementSibling?.textContent"""


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
        print(f"{name:<32}{told} (again: {page['again_paint_ms']:.0f} ms, {page['again_content_ms']:.0f} ms)")
    print(
        f"{'a closed step is on the page':<32}after {figures['update_ms']:.0f} ms on average,"
        f" {figures['longest_update_ms']:.0f} at most"
    )
    print(
        f"{'memory of the server':<32}{figures['rss_mb_idle']:.0f} MB before the first visit,"
        f" {figures['rss_mb']:.0f} MB after all"
    )


def measure(events: int, tasks: int) -> dict[str, Any]:
    """Every figure."""
    with tempfile.TemporaryDirectory(prefix="skillopt-perf-") as place, chromium() as browser:
        folder = Path(place) / "outputs" / "big"
        steps = events // EVENTS_A_STEP
        count = big_run(folder, steps=steps, tasks=tasks)
        run = Roots([folder.parent]).id_of(folder)
        log = folder / "events.jsonl"
        with serving(Path(place)) as server:
            idle = resident(server)
            pages = {
                "overview": visited(
                    browser, server, f"/run/{run}", "document.querySelector('.so-chart svg path') !== null"
                ),
                "tasks": visited(
                    browser,
                    server,
                    f"/run/{run}/tasks",
                    "document.querySelectorAll('table.so-map button').length > 100",
                ),
                "runs": visited(browser, server, "/", "document.querySelector('table a') !== null"),
            }
            waits = updates(browser, server, f"/run/{run}", log, steps, tasks)
            return {
                "events": count,
                "log_mb": log.stat().st_size / 1e6,
                "pages": pages,
                "update_ms": 1000 * sum(waits) / len(waits),
                "longest_update_ms": 1000 * max(waits),
                "rss_mb_idle": idle,
                "rss_mb": resident(server),
            }


def visited(browser: Browser, server: Server, path: str, is_there: str) -> dict[str, float]:
    """First paint, and when the page's content is there: for the first visitor of the run, and for the next
    with an empty cache.
    """
    figures: dict[str, float] = {}
    for prefix in ("", "again_"):
        with tab(browser, Path("unused")) as desk:
            started = time.monotonic()
            desk.page.goto(f"{server.url}{path}", wait_until="commit")
            desk.page.wait_for_function(is_there, polling=20)
            figures[f"{prefix}content_ms"] = 1000 * (time.monotonic() - started)
            # The browser writes it down a moment after it painted.
            paint = (
                "performance.getEntriesByType('paint').find(e => e.name ==="
                " 'first-contentful-paint')?.startTime"
            )
            figures[f"{prefix}paint_ms"] = float(desk.page.wait_for_function(paint, polling=20).json_value())
    return figures


def updates(browser: Browser, server: Server, path: str, log: Path, steps: int, tasks: int) -> list[float]:
    """Seconds from the last byte of a closed step in the log until the page says so, without a reload."""
    state, waits = first_state(tasks), []
    with tab(browser, Path("unused")) as desk:
        page = desk.open(f"{server.url}{path}")
        page.wait_for_function(f"({STEPS_SHOWN})()?.startsWith('{steps} ')", polling=20)
        for number in range(steps + 1, steps + 1 + UPDATES):
            append(log, lambda number=number: step_events(number, state, tasks, accepted=number == steps + 1))  # type: ignore[misc]
            started = time.monotonic()
            page.wait_for_function(f"({STEPS_SHOWN})()?.startsWith('{number} ')", polling=20)
            waits.append(time.monotonic() - started)
    return waits


def append(log: Path, made: Callable[[], Any]) -> None:
    """Write the events of a step as a run does."""
    with log.open("a", encoding="utf-8") as file:
        for event in made():
            file.write(event.model_dump_json() + "\n")


def resident(server: Server) -> float:
    """Memory of the server in megabytes; not a number where the system does not say."""
    try:
        text = Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
    except OSError:
        return float("nan")
    return next(int(line.split()[1]) / 1000 for line in text.splitlines() if line.startswith("VmRSS:"))


if __name__ == "__main__":
    main()
