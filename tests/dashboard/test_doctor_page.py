"""The page Doctor shows each check as it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from multidict import MultiDict

from skillopt.dashboard._launch import Launches
from skillopt.dashboard._page import Checkup, Surroundings, Visit
from skillopt.dashboard._runs import Roots
from skillopt.dashboard.pages import doctor
from skillopt.doctor import CheckResult, Examination
from skillopt.errors import UsageError


async def test_a_check_that_ended_is_shown_while_others_run(tmp_path: Path) -> None:
    goes_on = asyncio.Event()
    fine = CheckResult("machine", "Python", "fine", "it is there", "")

    async def examined() -> Examination:
        await goes_on.wait()
        return Examination(findings=(fine,), calls=0, tokens=0, usd=None)

    ended = asyncio.create_task(examined())
    roots = Roots([tmp_path])
    around = Surroundings(
        roots=roots,
        cwd=tmp_path,
        environ={},
        pages={},
        launches=Launches(roots, tmp_path, {}),
        checkup=Checkup(under_way=["sandbox"], found=[fine], ended=ended),
    )
    visit = Visit(around=around, page=doctor.PLUGIN)
    found = (await doctor.build(visit))["found"]
    assert "Checking: sandbox." in found and "it is there" in found
    with pytest.raises(UsageError, match="running already"):
        await doctor.act(visit, MultiDict())
    goes_on.set()
    await ended
    found = (await doctor.build(visit))["found"]
    assert "Checking" not in found and "Nothing must be fixed" in found and "it is there" in found
