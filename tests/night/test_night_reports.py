"""Around training: Cursor rules as memory files, a row for every skill, constraints, decisions that come
back, few rounds by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from _loopback import Call, LoopbackProvider
from night._nights import HARM, LEARNT, NOW, RULE, SKILL, Person, clock, scripted
from night._sessions import BAD, SUBJECTS
from night.test_night import Ear, desk, night, with_memos
from skillopt.errors import AnswersWanted
from skillopt.events import Judged, Reflected, StageClosed
from skillopt.runs.log import EVENTS, read_events
from skillopt_sleep import NightContext, NightHome, Roles, run_night
from skillopt_sleep.adoption import Adoption
from skillopt_sleep.job import NightJobs, with_allowance
from skillopt_sleep.plan import NightPlan, NightTarget
from skillopt_sleep.state import ProjectState
from skillopt_sleep.targets import without_frontmatter
from skillopt_sleep.tasks import NightTask

RULES = "---\ndescription: House rules\nglobs:\nalwaysApply: true\n---\r\n\r\nBe kind.\n"
SCOPED = "---\nglobs: *.py\nalwaysApply: false\n---\nOnly for Python.\n"


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "home").write()


def with_rules(home: Path, **files: str) -> tuple[Person, Path]:
    person = Person(home).write(skill=False, skills=())
    folder = person.project / ".cursor" / "rules"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.mdc").write_bytes(text.encode())
    return person, folder


async def test_of_a_cursor_rule_that_always_applies_only_our_block_changes(tmp_path: Path) -> None:
    person, folder = with_rules(tmp_path / "home", a_python=SCOPED, b_house=RULES, c_more=RULES)
    asked: list[str] = []

    def answer(call: Call) -> str:
        asked.extend([call.text] if (call.place or "").startswith("rollout/") else [])
        return scripted(RULE)(call)

    async with LoopbackProvider(answer) as provider:
        ended = await night(person, provider, evolve_memory=True, llm_mine=False)
    assert ended.proposal is not None
    assert [(target.name, target.kind) for target in ended.proposal.targets] == [("b_house.mdc", "memory")]
    assert asked and all("Be kind." in text and "alwaysApply" not in text for text in asked), (
        "read as Cursor reads it"
    )
    desk(person).adopt(edits=[1])
    written = (folder / "b_house.mdc").read_bytes().decode()
    assert written.startswith(RULES) and RULE in written and (folder / "a_python.mdc").read_text() == SCOPED
    desk(person).undo()
    assert (folder / "b_house.mdc").read_bytes() == RULES.encode()


async def test_a_rule_for_certain_files_is_no_memory_file_unless_it_is_named(tmp_path: Path) -> None:
    person, folder = with_rules(tmp_path / "home", python=SCOPED)
    assert person.around().places.memory is None
    async with LoopbackProvider(scripted(RULE)) as provider:
        ended = await night(person, provider, target_skill_path=str(folder / "python.mdc"), llm_mine=False)
    assert ended.proposal is not None and ended.proposal.targets[0].kind == "memory"
    desk(person).adopt(edits=[1])
    assert (folder / "python.mdc").read_text().startswith(SCOPED)


@pytest.mark.parametrize(
    "text",
    ["", "no frontmatter\n---\nalwaysApply: true\n---\n", "---\nalwaysApply: true\n", "\ufeff---\n---\nx"],
)
def test_only_what_stands_in_front_is_taken_off(text: str) -> None:
    assert without_frontmatter(text) == ("x" if text.endswith("x") else text)


@pytest.mark.slow
async def test_every_skill_of_a_night_has_a_row(tmp_path: Path) -> None:
    person = with_memos(tmp_path / "home", LEARNT)
    async with LoopbackProvider(scripted(RULE, HARM, hard=SUBJECTS[::3])) as provider:
        ended = await night(person, provider, val_fraction=0.5)
    rows = {target.name: target for target in ended.plan.targets}
    assert set(rows) == {"brief-writer", "memo"}
    brief, memo = rows["brief-writer"], rows["memo"]
    best, judged = brief.ended, brief.ended.judgement
    assert (best.accepted, judged.action, len(best.edits), best.rejected, judged.after) == (
        True,
        "accept",
        1,
        1,
        1.0,
    )
    as_it_was, judged = memo.ended, memo.ended.judgement
    assert (as_it_was.accepted, judged.action, len(as_it_was.edits), judged.before) == (
        False,
        "no change",
        0,
        1.0,
    )
    assert len(memo.tasks) == 10
    assert ended.proposal is not None
    assert any(note.startswith("memo: nothing is proposed (") for note in ended.proposal.notes)
    (kept,) = person.around().kept.ended(5)
    assert kept == ended.plan, "status reads the same night"


async def test_several_tries_of_a_task_are_studied_best_against_worst(person: Person) -> None:
    ear = Ear()

    def answer(call: Call) -> str:
        lucky = (call.place or "").startswith("rollout/") and call.draw == 1
        return scripted(RULE, hard=())(call) if lucky else scripted(RULE)(call)

    async with LoopbackProvider(answer) as provider:
        ended = await night(person, provider, ear, dream_rollouts=2, llm_mine=False)
    contrasted = {
        task
        for event in ear.heard
        if isinstance(event, Reflected)
        for patch in event.patches
        for task in patch.contrasted
    }
    batch = {
        row.task
        for event in ear.heard
        if isinstance(event, StageClosed) and str(event.place) == "e1/s1"
        for row in event.rows
        if event.stage == "rollout"
    }
    assert contrasted == batch and ended.proposal is not None


@pytest.mark.slow
async def test_a_change_that_makes_answers_cost_more_than_allowed_is_not_proposed(person: Person) -> None:
    ear = Ear()
    async with LoopbackProvider(scripted(RULE)) as provider:
        strict = await night(person, provider, ear, max_tokens_increase=0.0, llm_mine=False)
        wide = await night(person, provider, max_tokens_increase=5.0, llm_mine=False)
    verdicts = {
        (event.action, event.decided_by, event.candidate) for event in ear.heard if isinstance(event, Judged)
    }
    assert strict.proposal is None and verdicts == {("reject", "tokens", 1.0)}
    assert "gate.max_tokens_increase" in strict.plan.targets[0].ended.judgement.why
    assert wide.proposal is not None


Decide = Callable[[Any], object]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decide", "said"),
    [
        (lambda desk: desk.adopt(edits=[1]), "agreed to adding"),
        pytest.param(lambda desk: desk.discard(), "decided against adding", marks=pytest.mark.real),
        (lambda desk: (desk.adopt(edits=[1]), desk.undo()), "decided against adding"),
    ],
    ids=["adopted", "discarded", "undone"],
)
async def test_what_a_person_decides_is_told_to_the_next_nights_optimizer_and_to_nobody_else(
    person: Person, decide: Decide, said: str
) -> None:
    asked: list[tuple[str, str]] = []

    def answer(call: Call) -> str:
        asked.append((call.place or "", call.text))
        # After the first night the rule is not enough any more, so that there is something to study whatever
        # was decided.
        return (
            BAD if len(asked) > after and (call.place or "").startswith("rollout/") else scripted(RULE)(call)
        )

    after = 10**9
    async with LoopbackProvider(answer) as provider:
        await night(person, provider, llm_mine=False)
        decide(desk(person))
        after = len(asked)
        # another text: nothing is read from the first night
        person.skill.write_text(person.skill.read_text() + "- Be kind.\n")
        await night(person, provider, llm_mine=False, edit_budget=3)
    told = f"- The person {said} this in brief-writer: {json.dumps(RULE)}"
    analysts = [text for place, text in asked[after:] if "/analyst_" in place]
    assert analysts and all(told in text for text in analysts)
    assert not [text for place, text in asked if place.startswith("rollout/") and "The person" in text]
    assert not [
        text for place, text in asked[:after] if "The person agreed" in text or "decided against" in text
    ], "there was nothing to tell yet"


@pytest.mark.slow
async def test_what_was_decided_in_one_project_is_not_told_in_another(person: Person, tmp_path: Path) -> None:
    other = Person(tmp_path / "elsewhere").write()
    advice: list[str] = []
    async with LoopbackProvider(scripted(RULE)) as provider:
        model = f"compatible:m@{provider.base_url}"
        for one in (person, other, person):
            around = one.around(state_dir=str(tmp_path / "state"), llm_mine=False)
            roles = Roles(target=model, optimizer=model)
            ended = await run_night(around, roles, environ={}, now=clock, restart=True)
            advice.append(ended.plan.advice)
            if ended.proposal is not None:
                Adoption(store=around.home.store, roots=around.roots(), now=clock).discard(ended.proposal.id)
    assert advice[:2] == ["", ""] and "decided against" in advice[2]


def rubric_task(number: int, split: str) -> NightTask:
    prompt = f"Write a brief on whether {SUBJECTS[number]}."
    return NightTask.model_validate(
        {
            "id": f"r{number}",
            "kind": "briefs",
            "prompt": prompt,
            "split": split,
            "rubric": "It has a section called Key Risks.",
            "sessions": ("s:1",),
        }
    )


@pytest.mark.slow
async def test_nine_rubric_tasks_by_hand_take_few_rounds(
    person: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    """The public system took 22 rounds for nine such tasks, a judge's question after each answer."""
    around = person.around(llm_mine=False)
    roles = Roles(target="handoff", optimizer="handoff")
    home = around.home.project(person.project)
    tasks = tuple(rubric_task(number, "val" if number % 3 == 0 else "train") for number in range(9))
    pin(
        around,
        roles,
        NightTarget(name="brief-writer", path=person.skill, before=SKILL, seed=SKILL, tasks=tasks),
    )
    rounds, questions, ended = 0, 0, None
    for _ in range(22):
        try:
            ended = await run_night(around, roles, environ={}, now=clock)
            break
        except AnswersWanted:
            rounds += 1
            questions += answered(home.night(1))
    assert (
        ended is not None
        and ended.resumed
        and ended.proposal is not None
        and ended.proposal.targets[0].text({1}) == LEARNT
    )
    rows = [
        row
        for event in read_events(home.night(1) / "01-brief-writer" / EVENTS)
        if isinstance(event, StageClosed)
        for row in event.rows
    ]
    assert rows and {(row.tokens, row.seconds) for row in rows} == {(None, None)}, (
        "who answers by hand reports neither"
    )
    with capsys.disabled():
        print(f"\n9 rubric tasks by hand: {rounds} rounds, {questions} questions")
    assert rounds <= 7, "baseline, its judging, rollout, its judging, reflection, gate, its judging"


def pin(around: NightContext, roles: Roles, target: NightTarget) -> None:
    """A night that was begun with these tasks."""
    settings = with_allowance(around.settings, roles)
    home = NightHome.of(settings, around.homes.home).project(around.project)
    jobs = NightJobs(settings=settings, roles=roles, rollouts=home.rollouts, environ={}, cwd=around.project)
    with home.alone():
        night_ = NightPlan(
            number=1, started=NOW, sessions=9, next_since=None, terms=jobs.terms, advice="", targets=(target,)
        )
        night_.save(home.night(1))
        home.save(ProjectState(project=str(around.project), night=1, open=1))


def answered(folder: Path) -> int:
    """Answer every open question as the scripted model would, judging by the section that is there or not;
    how many there were.
    """
    count = 0
    for one in sorted(folder.glob("*/handoff/round-*")):
        for question in json.loads((one / "questions.json").read_text())["questions"]:
            target = one / question["answer"]
            if target.exists():
                continue
            text = "\n".join(message["content"] for message in question["messages"])
            call = Call(
                index=0,
                attempt=0,
                api="chat",
                body={},
                place=question["place"],
                draw=0,
                text=text,
                headers={},
            )
            said = scripted(RULE)(call)
            if question["role"] == "judge":
                met = "## Key Risks" in text.partition("<work>")[2]
                said = json.dumps({"findings": [{"criterion": 1, "evidence": "", "met": met}]})
            target.write_text(said)
            count += 1
    return count
