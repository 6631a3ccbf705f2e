"""Makes the pictures of docs/dashboard.md and README: a real dashboard, a real Chromium, a simulated run and a simulated
night.

make screenshots
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from PIL import Image
from playwright.sync_api import Page

from dashboard._browser import Server, Tab, chromium, serving, tab
from dashboard._places import staged
from skillopt.runs.reader import read_view
from skillopt.runs.tasks import growth
from skillopt_webui._runs import Roots
from skillopt_webui.report import page as report

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
LARGEST = 200_000
COLOURS = 48
RUNS = {
    "world": (),
    "careful": ("gate.policy=confirm",),
    "small-steps": ("optimizer.learning_rate=2", "train.num_epochs=4"),
}


def main() -> None:
    """Train, look, keep the pictures."""
    folder = Path(tempfile.gettempdir()) / "skillopt-demo"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        world, _ = staged(folder / "home")
        for name, options in RUNS.items():
            command = [
                sys.executable,
                "-m",
                "skillopt",
                "train",
                "--config=quickstart",
                "--quiet",
                f"--out_root=outputs/{name}",
            ]
            told = [f"--cfg-options={option}" for option in options]
            subprocess.run(
                [*command, *told], cwd=world.project, check=True, timeout=300, stdout=subprocess.DEVNULL
            )
        run = Roots([world.project / "outputs"]).id_of(world.project / "outputs" / "world")
        with chromium() as browser, serving(world.project, home=world.home, token=True) as server:
            with tab(browser, IMAGES) as desk:
                desk.open(server.opened)
                take(desk, server, str(run))
            with tab(browser, IMAGES, dark=True, phone=True) as phone:
                phone.open(server.opened)
                phone.open(f"{server.url}/run/{run}").wait_for_timeout(1500)
                keep(phone, "run-phone")
            with tab(browser, IMAGES) as desk:
                play(desk, world.project / "outputs" / "world", folder / "replay.html")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def take(desk: Tab, server: Server, run: str) -> None:
    """Every page as a person would leave it."""

    def shown(path: str, height: int = 900) -> Page:
        desk.page.set_viewport_size({"width": 1280, "height": height})
        page = desk.open(f"{server.url}{path}")
        page.wait_for_timeout(1500)
        return page

    shown("/", 560)
    keep(desk, "runs")
    shown(f"/run/{run}", 960).locator(".moment").nth(4).click()
    keep(desk, "run")
    shown(f"/run/{run}/skill", 700)
    keep(desk, "skill")
    shown(f"/run/{run}/tasks", 1000).get_by_role("link", name=re.compile(": fail$")).first.click()
    desk.page.wait_for_timeout(500)
    keep(desk, "tasks")
    shown("/launch", 1000).get_by_label("Options, one").fill("gate.policy=stict")
    desk.page.get_by_label("Options, one").blur()
    desk.page.get_by_role("alert").wait_for()
    keep(desk, "launch")
    shown("/sleep", 1150)
    keep(desk, "sleep")


def play(desk: Tab, run: Path, page: Path) -> None:
    """The page of `skillopt report --replay --page` at every moment, as one moving picture."""
    facts = read_view(run)
    page.write_text(report(facts), encoding="utf-8")
    desk.page.set_viewport_size({"width": 980, "height": 600})
    desk.page.goto(page.as_uri())
    desk.page.locator("#scores").evaluate("card => window.scrollTo(0, card.getBoundingClientRect().top - 12)")
    shots = []
    for moment in range(len(growth(facts).moments)):
        desk.page.evaluate("moment => window.skillopt.choose(moment)", moment)
        shots.append(Image.open(io.BytesIO(desk.page.screenshot(animations="disabled"))).convert("RGB"))
    # One palette for all: a colour that changed its shade would make every frame whole. Red and violet are rare
    # and must be in it.
    both = Image.new("RGB", (shots[0].width, 2 * shots[0].height))
    both.paste(shots[0])
    both.paste(shots[-1], (0, shots[0].height))
    colours = both.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, kmeans=1)
    first, *rest = (one.quantize(palette=colours, dither=Image.Dither.NONE) for one in shots)
    seconds = [*[1.2] * len(rest), 4.0]
    path = IMAGES / "replay.gif"
    first.save(path, save_all=True, append_images=rest, duration=[int(1000 * one) for one in seconds], loop=0)
    weigh(path)


def keep(desk: Tab, name: str) -> None:
    """Write a picture."""
    weigh(desk.picture(name, full=False))


def weigh(path: Path) -> None:
    """Refuse a picture that would make the repository heavy."""
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size / 1000:.0f} kB")
    if size > LARGEST:
        raise SystemExit(
            f"{path} has {size:,} bytes; pictures of the documentation have at most {LARGEST:,}."
        )


if __name__ == "__main__":
    main()
