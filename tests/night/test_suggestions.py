"""A wish that nobody could measure is suggested, adopted by its number alone, and taken back without a trace."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from _loopback import Call, LoopbackProvider
from cli._commands import run
from night._nights import NOW, RULE, SKILL, Person, clock, scripted
from night._reader import by_first_word
from skillopt.errors import SkillError, UsageError
from skillopt_sleep import NightContext, NightResult, Roles, run_night

WISH = "Wrong: we always use conventional commits, feat: or fix: in front."
OTHER = "And never commit without running the tests first."


def tool_work(person: Person, *wishes: str, skills: tuple[str, ...] = ()) -> None:
    """Sessions that changed files with tools, each corrected in the same way."""
    rows = []
    for number in range(6):
        said = [f"Add note{number}.txt and commit it.", f"Done with note{number}.", *wishes[:1], "Amended."]
        said += [*wishes[1:], "Ran them."] if wishes[1:] else []
        for place, text in enumerate(said):
            assistant = bool(place % 2)
            told = {"session": f"w{number}", "project": str(person.project), "text": text}
            told |= {
                "role": "assistant" if assistant else "user",
                "time": (NOW - timedelta(hours=9)).isoformat(),
            }
            more = {"tools": [{"name": "Bash", "about": "git commit"}], "skills": list(skills)}
            rows.append(json.dumps({**told, **(more if assistant else {})}) + "\n")
    (person.home / ".skillopt-sleep" / "sessions" / "work.jsonl").write_text("".join(rows))


async def night(context: NightContext) -> NightResult:
    def answer(call: Call) -> str:
        return by_first_word(call.text) if (call.place or "").startswith("kinds/") else scripted(RULE)(call)

    async with LoopbackProvider(answer) as provider:
        model = f"compatible:m@{provider.base_url}"
        return await run_night(
            context, Roles(target=model, optimizer=model), environ={}, now=clock, restart=True
        )


async def test_what_tools_did_is_suggested_in_the_persons_words_adopted_by_number_and_undone(
    tmp_path: Path,
) -> None:
    person = Person(tmp_path / "home").write(sessions=0, skill=False)
    tool_work(person, WISH, OTHER)
    ended = await night(person.around(llm_mine=False))
    assert {one.wish for one in ended.plan.suggestions} == {WISH, OTHER}
    assert all(len(one.sessions) == 6 for one in ended.plan.suggestions)
    assert ended.plan.states == {"a suggestion": 6} and ended.proposal is not None
    adoption = person.around().adoption(clock)
    with pytest.raises(UsageError, match=r"is not shown to help\. .*: --edit 1"):
        adoption.adopt()
    skill = person.project / ".agents" / "skills" / "skillopt-sleep-learned" / "SKILL.md"
    number = next(edit.id for edit in ended.proposal.edits if WISH in edit.evidence[0].quotes)
    (written,) = adoption.adopt(edits=[number]).change.written
    text = written.read_text()
    assert WISH in text and OTHER not in text and text.startswith("---\nname: skillopt-sleep-learned\n")
    adoption.undo()
    assert not written.exists() and not skill.exists()


async def test_suggestions_stand_beside_measured_edits_and_go_only_by_their_number(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write()
    tool_work(person, WISH, skills=("brief-writer",))
    ended = await night(person.around())
    assert ended.proposal is not None
    (target,) = ended.proposal.targets
    measured, suggested = target.edits
    assert measured.is_measured and not suggested.is_measured
    page = (person.around().home.store.folder(ended.proposal.id) / "proposal.md").read_text()
    assert "**Unmeasured suggestion**" in page and "you said: Wrong: we always use conventional" in page
    adoption = person.around().adoption(clock)
    assert adoption.adopt().change.taken == {measured.id}
    assert person.skill.read_text() == SKILL + RULE + "\n"
    assert adoption.adopt(edits=[suggested.id]).change.taken == {suggested.id}
    assert WISH in person.skill.read_text()


async def test_a_wish_that_was_decided_on_is_not_suggested_again(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write(sessions=0, skill=False)
    tool_work(person, WISH, OTHER)
    first = await night(person.around(llm_mine=False))
    assert first.proposal is not None
    refused = next(edit.id for edit in first.proposal.edits if WISH in edit.evidence[0].quotes)
    person.around().adoption(clock).discard(edits=[refused])
    second = await night(person.around(llm_mine=False))
    assert [one.wish for one in second.plan.suggestions] == [OTHER]


@pytest.mark.slow
async def test_a_newer_proposal_takes_the_place_of_an_open_older_one(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write()
    first, second = await night(person.around(llm_mine=False)), await night(person.around(llm_mine=False))
    assert first.proposal is not None and second.proposal is not None
    adoption = person.around().adoption(clock)
    states = {one.id: (one.state, one.note) for one in adoption.status().proposals}
    assert states[first.proposal.id] == ("replaced", f"by {second.proposal.id}")
    assert states[second.proposal.id][0] == "pending"
    with pytest.raises(UsageError, match="is replaced by proposal"):
        adoption.adopt(first.proposal.id, edits=[1])
    assert (
        adoption.adopt(edits=[1]).proposal == second.proposal.id and not adoption.store.decisions(None)[:-1]
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"target_skill_path": "SK3/SKILL.md"}, "agents would refuse a new skill there: The name 'SK3'"),
        ({"target_skill_path": "{home}/far/away/notes/SKILL.md"}, "there is no folder .*far/away. Make it"),
        ({"target_skill_path": "notes.txt"}, "A skill is a .md file"),
        ({"skill_roots": ["../far/skills"]}, "There is no folder .*far/skills, which --skill-root"),
    ],
)
async def test_places_that_nothing_could_be_proposed_for_are_refused_before_anybody_is_asked(
    settings: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(tmp_path / "home").write(sessions=0, skill=False)
    tool_work(person, WISH)
    monkeypatch.chdir(person.project)
    if isinstance(path := settings.get("target_skill_path"), str):
        settings = {"target_skill_path": path.format(home=tmp_path)}
    async with LoopbackProvider(scripted(RULE)) as provider:
        model = f"compatible:m@{provider.base_url}"
        with pytest.raises(UsageError, match=said):
            await run_night(
                person.around(**settings), Roles(target=model, optimizer=model), environ={}, now=clock
            )
        assert provider.calls == 0


async def test_a_named_skill_that_is_not_there_is_begun(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write(sessions=0, skill=False)
    tool_work(person, WISH)
    path = person.project / "notes" / "SKILL.md"
    ended = await night(person.around(target_skill_path=str(path), llm_mine=False))
    assert ended.proposal is not None and not path.exists()
    person.around().adoption(clock).adopt(edits=[edit.id for edit in ended.proposal.edits])
    assert WISH in path.read_text() and path.read_text().startswith("---\nname: notes\n")


async def test_a_suggestion_for_a_file_that_cannot_be_changed_ends_no_night(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write(sessions=0, skill=False)
    tool_work(person, WISH)
    skill = person.project / ".agents" / "skills" / "skillopt-sleep-learned" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_bytes(b"\xff is not UTF-8")
    with pytest.raises(SkillError, match="is not UTF-8"):  # nothing else could be proposed for
        await night(person.around(llm_mine=False))
    talks = person.home / ".skillopt-sleep" / "sessions" / "talks.jsonl"
    talks.write_text("".join(person.lines(range(1))))
    person.skill.parent.mkdir(parents=True)
    person.skill.write_text("# Briefs\n")
    ended = await night(person.around(llm_mine=False))
    assert ended.plan.suggestions and ended.proposal is None and "nothing to learn from" in ended.plan.outcome


async def test_the_sessions_of_a_suggestion_are_those_in_which_it_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count stands for what it says, and so does every id and every other count that is told beside it."""
    person = Person(tmp_path / "home").write(sessions=0, skill=False)
    tool_work(person, WISH)
    talks = person.home / ".skillopt-sleep" / "sessions" / "work.jsonl"
    once = "No, also in German please."
    talks.write_text(talks.read_text().replace(WISH, once, 1).replace(WISH, WISH.upper(), 1))
    ended = await night(person.around(llm_mine=False))
    said_in = {" ".join(one.wish.casefold().split()): one.sessions for one in ended.plan.suggestions}
    assert said_in == {
        once.casefold(): ("jsonl:w0",),
        WISH.casefold(): tuple(f"jsonl:w{number}" for number in range(1, 6)),
    }
    assert ended.proposal is not None
    page = (person.around().home.store.folder(ended.proposal.id) / "proposal.md").read_text()
    assert "(1 session (jsonl:w0))" in page and "tasks" not in page.partition("### Edit 1")[2]
    pending = len(ended.proposal.edits)
    assert ended.plan.outcome == f"suggests {pending} changes, and shows of none that it helps"
    assert not any("suggestions are for you" in note for note in ended.plan.notes)
    monkeypatch.setenv("HOME", str(person.home))
    monkeypatch.chdir(person.project)
    status = await asyncio.to_thread(run, "sleep", "status")
    assert f"({pending} pending; not measured: " in status.out


async def test_an_id_beside_a_quote_is_that_of_a_session_it_was_said_in(tmp_path: Path) -> None:
    """Also where the first tasks that failed were never corrected, and the same request came again."""
    person = Person(tmp_path / "home").write()
    ended = await night(person.around())
    assert ended.proposal is not None
    (evidence,) = ended.proposal.edits[0].evidence
    assert evidence.quotes
    by_task = {task.id: task for task in ended.plan.targets[0].tasks}
    assert set(evidence.sessions) == {name for id in evidence.tasks for name in by_task[id].sessions}
    assert any(
        evidence.sessions[0] in by_task[id].sessions and by_task[id].objections for id in evidence.tasks
    )
