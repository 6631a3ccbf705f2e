"""The pages about runs in a real browser: they follow a run without a reload, answer to mouse and keyboard,
and stay quick.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from cli._commands import SMALL, run
from dashboard._browser import Server, serving, tab
from runs._big import big_run
from skillopt.account import Amount
from skillopt.dashboard._charts import scores, spoken, together
from skillopt.dashboard._markup import joined, tag
from skillopt.dashboard._runs import Roots
from skillopt.dashboard._text import side_by_side
from skillopt.files import lock
from skillopt.runs.curves import Curves, curves
from skillopt.runs.database import Database
from skillopt.runs.provenance import skill_versions
from skillopt.runs.reader import RunReader
from skillopt.runs.values import Facts

SCRIPT = '<img src=x onerror="alert(1)">"\'&'

# From the press of a button to the other tasks on the screen, measured where it is seen.
TURN = """async () => {
  const shown = () => document.querySelector('.so-map tbody th').textContent, before = shown(), began = performance.now();
  document.querySelector('.so-pages').querySelectorAll('button')[1].click();
  while (shown() === before && performance.now() - began < 20000) await new Promise(done => requestAnimationFrame(done));
  return performance.now() - began;
}"""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A dashboard with a finished run, one that is taken up bit by bit, and a long one."""

    server: Server
    root: Path
    facts: Facts

    def url(self, name: str, page: str = "") -> str:
        return f"{self.server.url}/run/{Roots([self.root]).id_of(self.root / name)}{page}"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    home = tmp_path_factory.mktemp("pages")
    root = home / "runs"
    ended = run("train", "quickstart", "--quiet", "--out_root", str(root / "whole"), "--cfg-options", *SMALL)
    assert ended.code == 0, ended.err
    watcher = RunReader(root / "whole")
    watcher.read()
    facts = watcher.facts()
    assert facts is not None
    big_run(root / "long")
    with serving(home / "work", roots=[root]) as server:
        yield Shown(server=server, root=root, facts=facts)


def points(page: Page) -> int:
    """Marks that the chart has drawn."""
    return int(page.evaluate("document.querySelectorAll('.so-chart svg path').length"))


def test_a_run_is_followed_without_a_reload_and_test_stays_sealed(
    shown: Shown, browser: Browser, pictures: Path
) -> None:
    whole, folder = shown.root / "whole", shown.root / "growing"
    lines = (whole / "events.jsonl").read_text().splitlines(keepends=True)
    closed = next(number for number, line in enumerate(lines) if '"kind":"step"' in line)
    opened = (number for number, line in enumerate(lines) if '"type":"stage_opened"' in line)
    first = next(number for number in opened if number > closed) + 1
    folder.mkdir()
    for name in ("settings.json", "run.db"):
        shutil.copy(whole / name, folder / name)
    (folder / "events.jsonl").write_text("".join(lines[:first]))
    database = Database(folder / "run.db")
    with lock(folder / ".lock"), tab(browser, pictures) as desk:
        database.open("target", "rollout", "rollout/k.0/0", Amount(calls=1, tokens=10))
        page = desk.open(shown.url("growing"))
        page.evaluate("window.mine = 'still here'")
        expect(page.get_by_text("running", exact=True)).to_be_visible()
        expect(
            page.get_by_role("list", name="Stages of this step").locator("[aria-current=step]")
        ).to_contain_text("rollout")
        expect(page.get_by_role("cell", name="target")).to_be_visible()  # a call in flight
        expect(page.get_by_text("sealed until the end")).to_be_visible()
        page.locator(".so-chart svg").wait_for()
        before = points(page)
        desk.picture("run-growing")
        with (folder / "events.jsonl").open("a", encoding="utf-8") as log:
            log.write("".join(lines[first:]))
        expect(page.get_by_text("sealed test opened (look 1)")).to_be_visible()
        expect(
            page.get_by_text(f"{len(shown.facts.steps)} of {shown.facts.planned}", exact=True)
        ).to_be_visible()
        assert points(page) > before
        assert page.evaluate("window.mine") == "still here"
    database.shut()


def test_the_list_is_filtered_and_runs_are_compared(shown: Shown, browser: Browser, pictures: Path) -> None:
    with tab(browser, pictures) as desk:
        page = desk.open(f"{shown.server.url}/")
        table = page.get_by_role("region", name="Runs")
        row = table.get_by_role("row", name=re.compile("whole"))
        expect(row).to_contain_text("finished")
        expect(row).to_contain_text("simulated")
        expect(row).to_contain_text(f"{shown.facts.baseline:.3f} → {shown.facts.best:.3f}")
        page.get_by_label("Filter by name, benchmark or model").fill("long openai")
        expect(row).to_have_count(0)
        expect(table.get_by_role("link", name="long")).to_be_visible()
        page.get_by_label("Filter by name, benchmark or model").fill("")
        page.get_by_role("checkbox", name="Compare whole").click()
        expect(page.get_by_role("button", name="Compare 1")).to_be_disabled()
        page.get_by_role("checkbox", name="Compare long").click()
        page.get_by_role("button", name="Compare 2").click()
        side = page.get_by_role("region", name="Side by side")
        expect(side.get_by_role("row", name=re.compile("^val best"))).to_contain_text(
            f"{shown.facts.best:.3f}"
        )
        expect(side.get_by_text("their val scores cannot be compared")).to_be_visible()
        side.locator(".so-chart svg").wait_for()
        desk.picture("runs-compared")


def test_a_version_is_read_inline_side_by_side_and_line_by_line(
    shown: Shown, browser: Browser, pictures: Path
) -> None:
    version = next(one for one in skill_versions(shown.facts) if one.is_taken and one.short.isdigit())
    added = next(line for line in version.text.split("\n") if line not in version.base.split("\n"))
    with tab(browser, pictures) as desk:
        page = desk.open(shown.url("whole", f"/skill?version={version.short}"))
        expect(page.get_by_role("region", name="Difference between")).to_contain_text(f"+{added}")
        page.get_by_role("radio", name="Side by side").click()
        expect(
            page.get_by_role("region", name="before on the left").locator(".so-added").first
        ).to_contain_text("+ ")
        rule = page.locator(".so-rules li", has_text=added).first
        expect(rule).to_contain_text(version.name)
        rule.locator("summary").press("Enter")  # by keyboard
        expect(rule.get_by_text("fixed on val")).to_be_visible()
        expect(rule.get_by_text("from failures").or_(rule.get_by_text("from successes"))).to_be_visible()
        desk.picture("skill-sides")


def test_edits_are_found_by_their_state_and_tell_the_gates_numbers(
    shown: Shown, browser: Browser, pictures: Path
) -> None:
    edits = [(change, edit) for change in shown.facts.changes for edit in change.edits]
    applied = [one for one in edits if one[1].state == "applied"]
    with tab(browser, pictures) as desk:
        page = desk.open(shown.url("whole", "/edits"))
        expect(page.get_by_text(f"of {len(edits)} edits")).to_be_visible()
        page.get_by_role("combobox", name="State").click()
        page.get_by_role("option", name=re.compile("^applied")).click()
        expect(page.get_by_text(f"of {len(applied)} edits")).to_be_visible()
        item = page.locator(".so-rules li").first
        item.locator("summary").click()
        change = applied[-1][0]
        expect(
            item.get_by_text(re.compile(rf"on {change.rows_used} of {change.rows_total} rows"))
        ).to_be_visible()
        desk.picture("edits-applied")


def test_a_cell_is_reached_by_keyboard_and_shows_its_rollout(
    shown: Shown, browser: Browser, pictures: Path
) -> None:
    with tab(browser, pictures) as desk:
        page = desk.open(shown.url("whole", "/tasks"))
        first = page.locator(".so-map td button").first
        first.focus()
        for key in ("ArrowRight", "ArrowDown"):
            page.keyboard.press(key)
        task, version = shown.facts.tasks[1], shown.facts.versions[1]
        expect(page.locator(":focus")).to_have_attribute("data-task", task)
        page.keyboard.press("Enter")
        mark = version.cells[task].mark if task in version.cells else "not evaluated"
        expect(page.get_by_text(f"{task} with {version.name}: {mark}")).to_be_visible()
        expect(page.get_by_role("region", name=re.compile("Message of assistant")).first).to_be_visible()
        desk.picture("tasks-cell")


def test_a_damaged_run_is_said_so_first_and_one_that_is_deleted_keeps_its_last_figures(
    shown: Shown, browser: Browser, pictures: Path
) -> None:
    whole, folder = shown.root / "whole", shown.root / "gone"
    shutil.copytree(whole, folder)
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    (folder / "events.jsonl").write_text("".join([*lines[:4], "{\n"]))
    try:
        with tab(browser, pictures) as desk:
            page = desk.open(shown.url("gone"))
            assert "line 5, is not an event" in page.get_by_role("alert").inner_text()
            assert page.get_by_text("Waiting for the run to begin").count() == 0
            page.get_by_role("region", name="Now").wait_for()
            alert, section = (
                page.get_by_role("alert").bounding_box(),
                page.get_by_role("region", name="Now").bounding_box(),
            )
            assert alert is not None and section is not None and alert["y"] < section["y"]
            (folder / "events.jsonl").write_text("".join(lines))
            page.get_by_text("finished", exact=True).first.wait_for()
            assert page.get_by_role("alert").count() == 0
            shutil.rmtree(folder)
            page.get_by_role("alert").get_by_text("There is no run in").wait_for()
            assert "finished" in page.get_by_role("region", name="Now").inner_text()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_cost_adds_up(shown: Shown, browser: Browser, pictures: Path) -> None:
    with tab(browser, pictures) as desk:
        page = desk.open(shown.url("whole", "/cost"))
        last = page.locator("tfoot tr")
        expect(last).to_contain_text(f"{shown.facts.spent.calls:,}")
        expect(last).to_contain_text(f"{shown.facts.spent.tokens:,}")
        expect(last).to_contain_text("unknown")  # the simulated world has no price
        page.locator(".so-chart svg").wait_for()


def test_every_page_fits_a_phone_in_the_dark_and_says_simulated(
    shown: Shown, browser: Browser, pictures: Path
) -> None:
    with tab(browser, pictures, dark=True, phone=True) as desk:
        for page in ("", "/skill", "/edits", "/tasks", "/cost"):
            opened = desk.open(shown.url("whole", page))
            expect(opened.get_by_text("simulated", exact=True).first).to_be_visible()
            opened.wait_for_timeout(400)  # a chart is drawn after its page
            assert desk.fits(), page
            desk.picture(f"phone{page.replace('/', '-')}")


def test_a_long_run_stays_smooth(shown: Shown, browser: Browser, pictures: Path) -> None:
    with tab(browser, pictures) as desk:
        desk.open(shown.url("long"))  # the first reader reads the log for all
        began = time.monotonic()
        page = desk.open(shown.url("long", "/tasks"))
        expect(page.get_by_text("1 to 50 of 5,000 tasks")).to_be_visible()
        opened = time.monotonic() - began
        assert page.locator(".so-map td button").count() <= 50 * 24
        turned = float(page.evaluate(TURN)) / 1000
        expect(page.get_by_text("51 to 100 of 5,000 tasks")).to_be_visible()
        print(f"opened in {opened:.2f} s, the next part in {turned:.2f} s")
        assert opened < 10
        assert turned < 2
        page.get_by_label("Task id").fill("V04999")
        expect(page.get_by_text("1 to 1 of 1 tasks")).to_be_visible()


# Without a browser


def test_markup_escapes_every_text_and_attribute() -> None:
    made = tag("td", SCRIPT, tag("b", SCRIPT), title=SCRIPT, data_task=SCRIPT)
    assert "<img" not in made and made.count("<b>") == 1
    assert joined([tag("i", "<")]) == "<i>&lt;</i>"
    assert "\u202e" not in tag("span", "a\u202eb")
    with pytest.raises(AssertionError):
        tag("td", "x", **{'onclick="x" y': "1"})


def test_a_diff_side_by_side_has_signs_and_only_text() -> None:
    made = side_by_side("one\ntwo\n", f"one\n{SCRIPT}\n")
    assert "<img" not in made
    assert "- two" in made and "+ &lt;img" in made


def test_no_half_step_is_read_out() -> None:
    said = spoken(
        Curves(
            planned=8,
            metric="hard",
            val=[(at, 0.5) for at in (0, 8, 8.5)],
        )
    )
    assert said == "Score chart. Val: 0.500 with the seed, 0.500 after the slow update of step 8 of 8."


def test_charts_hold_no_point_of_the_test_before_it_was_opened(shown: Shown) -> None:
    drawn = scores(curves(shown.facts))
    sealed = scores(Curves(planned=4, metric="hard", val=curves(shown.facts).val))
    assert len(drawn["series"]) == len(sealed["series"])  # replaced in place, never rebuilt
    test = {one["name"]: one["data"] for one in drawn["series"] if one["name"].startswith("test")}
    assert all(test.values())
    assert not any(one["data"] for one in sealed["series"] if one["name"].startswith("test"))
    # names of runs are no markup
    assert drawn["tooltip"]["renderMode"] == together([])["tooltip"]["renderMode"] == "richText"
