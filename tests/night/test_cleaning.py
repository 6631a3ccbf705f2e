"""Old nights are cleared away when asked: what is decided and over goes, what is open or could be undone
stays.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from _loopback import LoopbackProvider
from cli._commands import run
from night._nights import LEARNT, NOW, RULE, SKILL, Person, clock, scripted
from skillopt_sleep import Roles, clean, run_night
from skillopt_sleep.adoption import Adoption

LATER = NOW + timedelta(days=100)


async def night(person: Person, *rules: str) -> str:
    async with LoopbackProvider(scripted(*rules)) as provider:
        model = f"compatible:m@{provider.base_url}"
        ended = await run_night(
            person.around(llm_mine=False, slow_update_nights=0),
            Roles(target=model, optimizer=model),
            environ={},
            now=clock,
        )
    assert ended.proposal is not None
    return ended.proposal.id


def desk(person: Person, days: int = 0) -> Adoption:
    around = person.around()
    return Adoption(store=around.home.store, roots=around.roots(), now=lambda: NOW + timedelta(days=days))


@pytest.mark.slow
async def test_what_is_decided_goes_and_what_is_open_or_can_be_undone_stays(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write()
    kept = person.around().home.project(person.project)
    discarded = await night(person, RULE)
    desk(person).discard()
    adopted = await night(person, RULE)
    desk(person).adopt(edits=[1])
    person.skill.write_text(SKILL)
    waiting = await night(person, RULE)
    runs = sorted(path for number in (1, 2, 3) for path in kept.night(number).iterdir() if path.is_dir())
    assert clean(person.around(), before=NOW - timedelta(days=1)).bytes == 0, "nothing is that old"

    seen = clean(person.around(), before=LATER, dry=True)
    assert (seen.proposals, sorted(seen.folders)) == ((discarded,), runs) and seen.bytes > 1000
    assert all(path.is_dir() for path in runs), "a look takes nothing away"

    state = kept.load()
    kept.save(state.model_copy(update={"open": 3}))
    clean(person.around(), before=LATER)
    assert set(desk(person).store.ids()) == {adopted, waiting}
    assert [path.parent.name for path in runs if path.is_dir()] == ["0003"], "an open night goes on"
    assert all((kept.night(number) / "tonight.json").is_file() for number in (1, 2, 3))
    person.skill.write_text(LEARNT)
    desk(person).undo(adopted)
    assert person.skill.read_text() == SKILL


@pytest.mark.slow
async def test_an_adoption_goes_once_a_later_one_stands_on_it(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write()
    first = await night(person, RULE)
    desk(person).adopt(edits=[1])
    person.skill.write_text(SKILL)
    second = await night(person, RULE)
    desk(person, days=1).adopt(edits=[1])
    assert clean(person.around(), before=LATER).proposals == (first,)
    assert desk(person).store.ids() == [second]


async def test_a_project_whose_night_runs_is_left_alone_and_said_so(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write()
    await night(person, RULE)
    kept = person.around().home.project(person.project)
    with kept.alone():
        done = clean(person.around(), before=LATER)
    assert done.folders == () and "is left as it is" in done.notes[0]


def test_the_command_says_what_it_took_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run("sleep", "clean").out == "Took away 0 proposals and 0 run folders of nights, 0.0 MB.\n"
    ran = run("sleep", "clean", "--older-than", "soon")
    assert ran.code == 2 and "--older-than 'soon' is no time" in ran.err
