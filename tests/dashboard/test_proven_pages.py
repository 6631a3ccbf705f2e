"""The lists of runs, their comparison and the nights are green only where a gain is proven. In a file of its
own: a browser would hold the event loop.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from multidict import MultiDict

from changes._adoption import JUDGED, World
from cli._commands import run
from skillopt_sleep.judgement import Judgement
from skillopt_sleep.proposal_page import page as proposal_page
from skillopt_webui._launch import Launches
from skillopt_webui._page import Page, Surroundings, Visit
from skillopt_webui._runs import Roots
from skillopt_webui.pages import compare, runs, sleep
from skillopt_webui.pages import run as run_page

PAGES = {"runs": runs.PLUGIN, "run": run_page.PLUGIN, "compare": compare.PLUGIN}
CHANCE = '<span class="chip warn">could be chance</span>'
REAL = '<span class="chip good">real</span>'


def visit(folder: Path, page: Page, query: MultiDict[str]) -> Visit:
    roots, environ = Roots([folder]), {"HOME": str(folder)}
    launches = Launches(roots, folder, environ)
    around = Surroundings(roots=roots, cwd=folder, environ=environ, pages=PAGES, launches=launches)
    return Visit(around=around, page=page, query=query)


@pytest.fixture
def two_runs(tmp_path: Path) -> Path:
    """A folder with two runs of 8 test tasks."""
    few = ("env.train_cases=24", "env.val_cases=12", "env.test_cases=8", "train.num_epochs=1")
    for name in ("one", "two"):
        told = ("--quiet", "--out_root", str(tmp_path / name), "--cfg-options", *few)
        assert run("train", "quickstart", *told).code == 0
    return tmp_path


@pytest.mark.slow
async def test_runs_and_their_comparison_show_what_could_be_chance_in_amber(two_runs: Path) -> None:
    roots = Roots([two_runs])
    ids = MultiDict([("run", str(roots.id_of(two_runs / name))) for name in ("one", "two")])
    for page, query in ((runs, MultiDict[str]()), (compare, ids)):
        shown = "".join((await page.build(visit(two_runs, page.PLUGIN, query))).values())
        assert shown.count(CHANCE) == 2, page.__name__
        assert "chip good" not in shown


@pytest.mark.parametrize(("p", "chip"), [(0.01, REAL), (0.3, CHANCE)])
def test_a_night_says_and_colours_what_its_tasks_prove(p: float, chip: str, tmp_path: Path) -> None:
    judged: Judgement = JUDGED.model_copy(update={"p": p, "verified": p < 0.05})
    drawn = "".join(sleep.drawn_judgement(judged))
    assert chip in drawn and drawn.count("chip good") == drawn.count(REAL)
    world = World(tmp_path / "home").write()
    proposal = world.stage(world.skill_draft())
    (target,) = proposal.targets
    changed = proposal.model_copy(update={"targets": (target.model_copy(update={"judgement": judged}),)})
    word = "real" if p < 0.05 else "could be chance"
    assert f"**{word}: better on 1 of 2 held-out tasks" in proposal_page(changed)
    assert changed.findings([1])[0].startswith(f"notes: {word}: better on")
