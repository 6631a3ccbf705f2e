"""The pages about runs in a real browser: they follow a run without a reload, answer to mouse and keyboard,
and stay quick.
"""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from cli._commands import SMALL, run
from dashboard._browser import Server, serving, tab
from runs._big import big_run
from runs._log import baseline, fold, row, started, step
from skillopt.files import lock
from skillopt.models.world.rules import SEED_SKILL
from skillopt.money import Amount
from skillopt.runs.answers import stored_tasks
from skillopt.runs.database import Database
from skillopt.runs.reader import RunReader
from skillopt.runs.tasks import growth
from skillopt.runs.view import RunView
from skillopt_webui._runs import Roots
from skillopt_webui.report import page as report

SCRIPT = '<img src=x onerror="alert(1)">"\'&'

# From the press of a link to the other tasks on the screen, measured where it is seen.
TURN = """async () => {
  const shown = () => document.querySelector('.heat tbody th').textContent, before = shown(), began = performance.now();
  [...document.querySelectorAll('nav a')].find(link => link.textContent === 'Next').click();
  while (shown() === before && performance.now() - began < 20000) await new Promise(done => requestAnimationFrame(done));
  return performance.now() - began;
}"""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A dashboard with a finished run, one that is taken up bit by bit, and a long one."""

    server: Server
    root: Path
    facts: RunView

    def url(self, name: str, page: str = "") -> str:
        return f"{self.server.url}/run/{Roots([self.root]).id_of(self.root / name)}{page}"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    home = tmp_path_factory.mktemp("pages")
    root, skill = home / "runs", home / "SKILL.md"
    skill.write_text(SEED_SKILL)
    told = ("--quiet", "--out_root", str(root / "whole"), "--skill_init", str(skill))
    ended = run("train", "quickstart", *told, "--cfg-options", *SMALL)
    assert ended.code == 0, ended.err
    watcher = RunReader(root / "whole")
    watcher.read()
    facts = watcher.view()
    assert facts is not None
    big_run(root / "long")
    with serving(home / "work", home=Path.home(), roots=[root]) as server:
        yield Shown(server=server, root=root, facts=facts)


def test_a_run_is_followed_without_a_reload_and_test_stays_sealed(
    shown: Shown, browser: Browser, pictures: Path
) -> None:
    whole, folder = shown.root / "whole", shown.root / "growing"
    lines = (whole / "events.jsonl").read_text().splitlines(keepends=True)
    closed = next(number for number, line in enumerate(lines) if '"kind":"step"' in line)
    opened = (number for number, line in enumerate(lines) if '"type":"stage_opened"' in line)
    first = next(number for number in opened if number > closed) + 1
    folder.mkdir()
    for name in ("settings.json", "run.db", "tasks.jsonl"):
        shutil.copy(whole / name, folder / name)
    (folder / "events.jsonl").write_text("".join(lines[:first]))
    database = Database(folder / "run.db")
    with lock(folder / ".lock"), tab(browser, pictures) as desk:
        database.open("target", "rollout", "rollout/k.0/0", Amount(calls=1, tokens=10))
        page = desk.open(shown.url("growing"))
        page.evaluate("window.mine = 'still here'")
        expect(page.get_by_text("running", exact=True)).to_be_visible()
        now = page.get_by_role("list", name="Stages of this step").locator("[aria-current=step]")
        expect(now).to_contain_text("rollout")
        expect(page.get_by_role("rowheader", name="target").first).to_be_visible()  # a call in flight
        expect(page.get_by_text("not opened yet")).to_be_visible()
        assert page.locator(".stairs .test").count() == 0
        before = page.locator(".moment").count()
        # A question outlives whatever the run prints meanwhile.
        page.get_by_role("button", name="Stop").click()
        desk.picture("run-growing")
        for at in range(first, len(lines), 4):
            with (folder / "events.jsonl").open("a", encoding="utf-8") as log:
                log.write("".join(lines[at : at + 4]))
        expect(page.get_by_text("sealed test opened (look 1)")).to_be_visible()
        page.get_by_role("dialog", name="Stop this run?").get_by_role("button", name="Cancel").click()
        steps = f"{len(shown.facts.steps)} of {shown.facts.started.steps} steps"
        expect(page.get_by_text(steps, exact=True)).to_be_visible()
        assert page.locator(".moment").count() > before
        assert page.evaluate("window.mine") == "still here"
    database.shut()


def test_the_stairs_are_a_scrubber_for_skill_and_tasks(
    shown: Shown, browser: Browser, pictures: Path
) -> None:
    grown = growth(shown.facts)
    alive = [
        sum(one.first <= k and (one.gone is None or k < one.gone) for one in grown.lines) for k in (0, 1)
    ]
    with tab(browser, pictures) as desk:
        page = desk.open(shown.url("whole"))
        scrubber = page.get_by_role("slider")
        lines = page.locator(".skill li:visible")
        scrubber.focus()
        page.keyboard.press("Home")
        expect(page.locator("#moment")).to_have_text(f"the seed: val {shown.facts.baseline:.3f}")
        assert lines.count() == alive[0]
        marks = Counter(shown.facts.versions[0].marks.values())
        counted = f"{marks['pass']} of {len(shown.facts.tasks)} pass, {marks['partial']} partly"
        expect(page.locator("#passing")).to_have_text(counted)
        page.keyboard.press("ArrowRight")
        assert lines.count() == alive[1]
        one = grown.moments[1]
        expect(page.locator("#moment")).to_contain_text(f"{one.name}: ")
        assert page.locator(".wall .better").count() == len(grown.fixed[1])
        assert page.locator(".wall .worse").count() == len(grown.broke[1])
        for mark in page.locator(".moment").all():  # a pointer over the chart takes nothing away
            mark.hover()
        assert page.locator(".stairs .val").count() == 1
        page.locator(".moment").last.click()
        assert scrubber.input_value() == str(len(grown.moments) - 1)
        desk.picture("run-scrubbed")


def test_the_count_of_a_wall_that_does_not_show_all_tasks_follows_the_scrubber(
    browser: Browser, pictures: Path, tmp_path: Path
) -> None:
    rows = [
        [row(f"t{number:04d}", float(number % 3 == 0 or number < fixed)) for number in range(1200)]
        for fixed in (0, 300)
    ]
    facts = fold([started(), *baseline(rows[0]), *step(1, rows[1], score=0.5)])
    (tmp_path / "report.html").write_text(report(facts), encoding="utf-8")
    with tab(browser, pictures) as desk:
        desk.page.goto((tmp_path / "report.html").as_uri())
        count = desk.page.locator("#passing")
        expect(count).to_have_text("600 of 1,200 pass")
        desk.page.get_by_role("slider").focus()
        desk.page.keyboard.press("Home")
        expect(count).to_have_text("400 of 1,200 pass")
        assert desk.page.locator(".wall button").count() == 500
        desk.picture("report-large-wall")


def test_stairs_skill_and_wall_are_in_sight_together(shown: Shown, browser: Browser, pictures: Path) -> None:
    with tab(browser, pictures) as desk:
        page = desk.page
        page.set_viewport_size({"width": 1440, "height": 900})
        desk.open(shown.url("whole"))
        scrubber, wall = page.locator("#scrubber"), page.locator("#wall .wall button").first
        line = page.locator(".skill li:not([hidden])").nth(2)
        for seen in (scrubber, line, wall):
            expect(seen).to_be_in_viewport()
        line.evaluate("line => window.scrollBy(0, line.getBoundingClientRect().top - 400)")
        for seen in (scrubber, line, wall):
            expect(seen).to_be_in_viewport()
        stairs, squares = page.locator("#scores").bounding_box(), page.locator("#wall").bounding_box()
        assert stairs is not None and squares is not None
        assert stairs["y"] == 0 and stairs["height"] <= squares["y"]


def test_a_run_plays_by_itself_on_the_page_and_in_a_replay(
    shown: Shown, browser: Browser, pictures: Path, tmp_path: Path
) -> None:
    last = str(len(growth(shown.facts).moments) - 1)
    (tmp_path / "replay.html").write_text(report(shown.facts, play=1.0), encoding="utf-8")
    with tab(browser, pictures) as desk:
        desk.page.goto((tmp_path / "replay.html").as_uri())
        expect(desk.page.get_by_role("button", name="Pause")).to_be_visible()
        expect(desk.page.get_by_role("slider")).to_have_value(last)
        expect(desk.page.get_by_role("button", name="Play")).to_be_visible()
        page = desk.open(shown.url("whole"))
        scrubber = page.get_by_role("slider")
        scrubber.focus()
        page.keyboard.press("End")
        page.get_by_role("button", name="Play").click()
        expect(scrubber).to_have_value("0")  # at the end it begins anew
        expect(scrubber).to_have_value("1")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_a_square_opens_the_question_and_the_answers_of_two_versions(
    shown: Shown, browser: Browser, pictures: Path
) -> None:
    asked = {one.id: one for one in stored_tasks(shown.root / "whole")}
    version = next(one for one in shown.facts.measured if one.candidate == shown.facts.best)
    with tab(browser, pictures) as desk:
        page = desk.open(shown.url("whole"))
        page.locator(".wall button").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        task = page.locator("#task")
        name = shown.facts.tasks[1]
        expect(task.get_by_role("heading", name=name)).to_be_visible()
        expect(task.get_by_role("region", name="Question")).to_contain_text(asked[name].question[:40])
        expect(task).to_contain_text(f"Expected: {asked[name].expected}")
        for side in (shown.facts.versions[0].name, version.name):
            expect(task.get_by_role("region", name=re.compile(f", {side}$")).first).to_be_visible()
        assert page.locator(".wall :focus").get_attribute("data-task") == name  # the focus stays
        again = desk.open(page.url)  # the address leads to the task in this version
        expect(again.locator("#task").get_by_role("heading", name=name)).to_be_visible()
        desk.picture("run-task")


def test_the_best_skill_is_adopted_and_taken_back(shown: Shown, browser: Browser, pictures: Path) -> None:
    skill = shown.root.parent / "SKILL.md"
    before = skill.read_bytes()
    with tab(browser, pictures) as desk:
        page = desk.open(shown.url("whole"))
        for button, said, chips, text in (
            ("Adopt", "Adopted: ", 1, (shown.root / "whole" / "best_skill.md").read_bytes()),
            ("Undo the adoption", "Undone: ", 0, before),
        ):
            page.get_by_role("button", name=button, exact=True).click()
            assert skill.read_bytes() != text
            page.get_by_role("dialog").get_by_role("button", name=button, exact=True).click()
            page.get_by_role("status").get_by_text(said).wait_for()
            assert skill.read_bytes() == text
            expect(page.get_by_text("adopted", exact=True)).to_have_count(chips)
            with page.expect_download() as kept:
                page.get_by_role("link", name="Report").click()
            told = kept.value.path().read_text(encoding="utf-8")
            assert told.count('<span class="chip info">adopted</span>') == chips
            assert told.count("<template data-task=") == len(shown.facts.tasks)  # with the answers
            page = desk.open(f"{shown.server.url}/")
            expect(page.get_by_role("row", name=re.compile("whole")).get_by_text("adopted")).to_have_count(
                chips
            )
            page = desk.open(shown.url("whole"))


def test_the_list_is_filtered_sorted_and_runs_are_compared(
    shown: Shown, browser: Browser, pictures: Path
) -> None:
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
        assert page.get_by_label("Filter by name, benchmark or model").input_value() == "long openai"
        page.get_by_label("Filter by name, benchmark or model").fill("")
        expect(row).to_have_count(1)
        names = [one.inner_text() for one in table.locator("tbody th").all()]
        table.get_by_role("link", name="run", exact=True).click()
        expect(table.locator("[aria-sort]")).to_have_text("run")
        assert [one.inner_text() for one in table.locator("tbody th").all()] == sorted(names)
        desk.open(shown.url("whole"))
        page.get_by_role("link", name="Compare").click()
        expect(page.get_by_role("checkbox", name="Compare whole")).to_be_checked()
        expect(page.get_by_role("row").nth(1)).to_contain_text("whole")
        expect(page.get_by_text("Tick the runs to compare it with")).to_be_visible()
        page.get_by_role("checkbox", name="Compare long").check()
        page.get_by_role("button", name="Compare the chosen runs").click()
        side = page.get_by_role("region", name="Side by side")
        best = side.get_by_role("row", name=re.compile("^val best"))
        expect(best).to_contain_text(f"{shown.facts.best:.3f}")
        expect(side.get_by_text("their val scores cannot be compared")).to_be_visible()
        for line in side.locator(".chart .val").all():  # a pointer over the chart takes nothing away
            line.hover(force=True)
            assert side.locator(".chart .val").count() == 2
        assert page.url.count("run=") == 2  # the address leads to the same comparison
        desk.picture("runs-compared")


def test_a_version_is_read_inline_side_by_side_and_line_by_line(
    shown: Shown, browser: Browser, pictures: Path
) -> None:
    version = next(one for one in shown.facts.measured if one.is_taken and one.short.isdigit())
    added = next(
        line for line in version.text.split("\n") if line not in shown.facts.base_of(version).text.split("\n")
    )
    with tab(browser, pictures) as desk:
        page = desk.open(shown.url("whole", f"/skill?version={version.short}"))
        expect(page.get_by_role("region", name="Difference between")).to_contain_text(f"+{added}")
        page.get_by_label("Shown").select_option("sides")
        sides = page.get_by_role("region", name="before on the left")
        expect(sides.locator(".added").first).to_contain_text("+ ")
        page = desk.open(shown.url("whole"))
        rule = page.locator(".skill li", has_text=added).first
        expect(rule).to_contain_text(version.name)
        rule.locator("summary").press("Enter")  # by keyboard
        expect(rule.get_by_text("fixed on val")).to_be_visible()
        expect(rule.get_by_text("from failures").or_(rule.get_by_text("from successes"))).to_be_visible()
        desk.picture("skill-line")


def test_edits_are_found_by_their_state_and_tell_the_gates_numbers(
    shown: Shown, browser: Browser, pictures: Path
) -> None:
    edits = [(change, edit) for change in shown.facts.changes for edit in change.outcomes]
    applied = [one for one in edits if one[1].state == "applied"]
    with tab(browser, pictures) as desk:
        page = desk.open(shown.url("whole", "/edits"))
        expect(page.get_by_text(f"{len(edits)} edits in")).to_be_visible()
        page.get_by_label("State").select_option("applied")
        expect(page.get_by_text(f"{len(applied)} edits in")).to_be_visible()
        item = page.locator("details.step").first
        item.locator("summary").first.click()
        verdict = applied[-1][0].judged
        assert verdict is not None
        read = f"val rows read: {verdict.rows_used} of {verdict.rows_total}"
        expect(item.get_by_text(read, exact=False)).to_be_visible()
        desk.picture("edits-applied")


def test_a_cell_is_reached_by_keyboard_and_shows_its_rollout(
    shown: Shown, browser: Browser, pictures: Path
) -> None:
    with tab(browser, pictures) as desk:
        page = desk.open(shown.url("whole", "/tasks?show=all"))
        page.locator(".heat td a").first.focus()
        for key in ("ArrowRight", "ArrowDown"):
            page.keyboard.press(key)
        label = page.locator(":focus").get_attribute("aria-label") or ""
        assert label.startswith(page.locator(".heat tbody th").nth(1).inner_text())
        page.keyboard.press("Enter")
        task = label.partition(", ")[0]
        expect(page.locator("#task").get_by_role("heading", name=task)).to_be_visible()
        expect(page.get_by_role("region", name=re.compile("Message of assistant")).first).to_be_visible()
        assert "task=" in page.url and "version=" in page.url
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
            assert "line 5, is not an event" in page.get_by_role("alert").first.inner_text()
            assert page.get_by_text("Waiting for the run to begin").count() == 0
            (folder / "events.jsonl").write_text("".join(lines))
            page.get_by_text("finished", exact=True).first.wait_for()
            expect(page.get_by_role("alert")).to_have_count(0)
            shutil.rmtree(folder)
            page.get_by_role("alert").get_by_text("There is no run").wait_for()
            assert page.get_by_text("finished", exact=True).first.is_visible()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_cost_adds_up(shown: Shown, browser: Browser, pictures: Path) -> None:
    with tab(browser, pictures) as desk:
        page = desk.open(shown.url("whole"))
        last = page.locator("#spending tfoot tr")
        expect(last).to_contain_text(f"{shown.facts.spent.calls:,}")
        expect(last).to_contain_text(f"{shown.facts.spent.tokens:,}")
        expect(last).to_contain_text("$0.00")  # the simulated world costs nothing
        assert page.locator("#spending meter").count() == len(shown.facts.spending)
        page.keyboard.press("c")  # the configuration is one key away
        expect(page.locator("#configuration").get_by_text("train.batch_size")).to_be_visible()


@pytest.mark.parametrize("width", [390, 900, 1440])
def test_every_page_fits_in_the_dark_and_says_simulated(
    shown: Shown, browser: Browser, pictures: Path, width: int
) -> None:
    with tab(browser, pictures, dark=True, phone=width == 390) as desk:
        if width != 390:
            desk.page.set_viewport_size({"width": width, "height": 900})
        for page in ("", "/skill", "/edits", "/tasks"):
            opened = desk.open(shown.url("whole", page))
            if page == "":
                expect(opened.get_by_text("simulated", exact=True).first).to_be_visible()
            assert desk.fits(), page
            desk.picture(f"{width}{page.replace('/', '-')}")
        desk.open(f"{shown.server.url}/")
        assert desk.fits()


def test_a_long_run_stays_smooth(shown: Shown, browser: Browser, pictures: Path) -> None:
    with tab(browser, pictures) as desk:
        page = desk.open(shown.url("long"))  # the first reader reads the log for all
        page.locator(".stairs").wait_for()
        began = time.monotonic()
        page = desk.open(shown.url("long", "/tasks"))
        expect(page.get_by_text("1 to 50 of 5,000 tasks")).to_be_visible()
        opened = time.monotonic() - began
        assert page.locator(".heat td a").count() <= 50 * 24
        turned = float(page.evaluate(TURN)) / 1000
        expect(page.get_by_text("51 to 100 of 5,000 tasks")).to_be_visible()
        print(f"opened in {opened:.2f} s, the next part in {turned:.2f} s")
        assert opened < 10
        assert turned < 2
        page.get_by_label("Task id").fill("V04999")
        expect(page.get_by_text("1 to 1 of 1 tasks")).to_be_visible()
