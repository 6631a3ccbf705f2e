"""A night: a person's sessions become a proposal by way of the one engine, within its allowance, and the same
after any stop.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from _loopback import Call, LoopbackProvider
from night._nights import HARM, LEARNT, NOW, RULE, SKILL, Person, clock, scripted
from night._reader import keep_readings
from night._sessions import BAD, GOOD, SUBJECTS
from night._transcripts import WRITERS, Talk
from skillopt.errors import AnswersWanted, ConfigError, Interrupted, RunConflict, UsageError
from skillopt.events import Event, Judged, Sink, StageClosed, Updated
from skillopt.optimizer.ask import packaged
from skillopt.run import Job, OpenRun
from skillopt_sleep import REMEDY, NightResult, Roles, preview, roles_of, run_night
from skillopt_sleep.adoption import Adoption
from skillopt_sleep.gather import gather
from skillopt_sleep.job import advice_of, benchmark_of
from skillopt_sleep.state import earlier_nights


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "home").write()


async def night(
    person: Person, provider: LoopbackProvider, watcher: Ear | None = None, **settings: object
) -> NightResult:
    model = f"compatible:m@{provider.base_url}"
    roles = Roles(target=model, optimizer=model)
    return await run_night(person.around(**settings), roles, environ={}, now=clock, observer=watcher)


def desk(person: Person) -> Adoption:
    around = person.around()
    return Adoption(store=around.home.store, roots=around.roots(), now=clock)


class Ear:
    """Hears every event, and stops the run after some of them."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.heard: list[Event] = []
        self.said: list[str] = []
        self.stop_after = stop_after

    def say(self, doing: str) -> None:
        self.said.append(doing)

    def sinks(self, job: Job) -> Sequence[Sink]:
        return [self.heard.append]

    def during(self, opened: OpenRun) -> AbstractContextManager[None]:
        return self._during(opened)

    @contextmanager
    def _during(self, opened: OpenRun) -> Iterator[None]:
        def count(event: Event) -> None:
            if len([one for one in self.heard if one.id]) == self.stop_after:
                opened.stop(Interrupted("stopped by the test"))

        opened.run.watch(count)
        yield


async def test_a_night_ends_in_a_proposal_that_adopt_writes_and_undo_takes_back(person: Person) -> None:
    async with LoopbackProvider(scripted(RULE)) as provider:
        ended = await night(person, provider)
    assert ended.proposal is not None and person.skill.read_text() == SKILL, (
        "nothing changes before a person adopts"
    )
    (target,) = ended.proposal.targets
    assert (target.name, target.path, target.before) == ("brief-writer", str(person.skill), SKILL)
    assert (target.judgement.before, target.judgement.after, target.judgement.verified) == (0.0, 1.0, True)
    assert len(target.judgement.pairs) == 8 and all(
        (pair.before, pair.after) == (0.0, 1.0) for pair in target.judgement.pairs
    )
    ((evidence,),) = [change.evidence for change in target.edits]
    assert evidence.edit["content"] == RULE and evidence.tasks and evidence.sessions
    desk(person).adopt()
    assert person.skill.read_bytes() == LEARNT.encode()
    desk(person).undo()
    assert person.skill.read_bytes() == SKILL.encode()


async def test_each_edit_of_a_step_can_be_adopted_alone(person: Person) -> None:
    async with LoopbackProvider(scripted(RULE, "- Use plain words.")) as provider:
        ended = await night(person, provider)
    assert ended.proposal is not None
    told = [
        [evidence.edit["content"] for evidence in change.evidence]
        for change in ended.proposal.targets[0].edits
    ]
    assert told == [[RULE], ["- Use plain words."]]
    desk(person).adopt(edits=[2])
    assert person.skill.read_text() == SKILL + "- Use plain words.\n"


async def test_with_the_gate_off_the_proposal_says_so(person: Person) -> None:
    async with LoopbackProvider(scripted(RULE)) as provider:
        ended = await night(person, provider, gate_mode="off")
    assert ended.proposal is not None and ended.proposal.targets[0].judgement.gate_on is False
    assert "The gate was off" in " ".join(ended.proposal.notes)


async def test_transcripts_of_every_source_end_in_one_proposal(tmp_path: Path) -> None:
    person = Person(tmp_path / "home")
    person.skill.parent.mkdir(parents=True)
    person.skill.write_text(SKILL)
    for number, (subject, write) in enumerate(zip(SUBJECTS, WRITERS.values(), strict=False)):
        asked = f"Write a brief on whether {subject}."
        pairs = (
            (asked, BAD),
            ('No, you forgot the "Key Risks" section.', GOOD),
            ("Perfect, thanks", "Gladly."),
        )
        write(
            person.home,
            Talk(
                id=f"t{number}",
                pairs=pairs,
                tool=None,
                project=str(person.project),
                start=NOW - timedelta(hours=9 + number),
            ),
        )
    async with LoopbackProvider(scripted(RULE)) as provider:
        ended = await night(person, provider, val_fraction=0.5)
    assert ended.proposal is not None and ended.proposal.targets[0].text({1}) == LEARNT
    sources = {
        session.partition(":")[0]
        for target in ended.plan.targets
        for task in target.tasks
        for session in task.sessions
    }
    assert len(sources) == len(WRITERS)


async def test_a_skill_that_is_not_there_yet_is_made_by_adopting_and_gone_after_undo(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write(skill=False, skills=())
    async with LoopbackProvider(scripted(RULE)) as provider:
        ended = await night(person, provider)
    made = person.project / ".claude" / "skills" / "skillopt-sleep-learned" / "SKILL.md"
    assert ended.proposal is not None and not made.exists()
    desk(person).adopt()
    assert made.read_text().startswith("---\nname: skillopt-sleep-learned\n") and made.read_text().endswith(
        RULE + "\n"
    )
    desk(person).undo()
    assert not (person.project / ".claude").exists()


@pytest.mark.slow
async def test_of_a_memory_file_only_our_block_is_learned_and_changed(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write(skill=False, skills=())
    memory, house = person.project / "CLAUDE.md", "# House rules\r\n\r\nUse {skill} tabs.\n\n\n\nBe kind."
    memory.write_bytes(house.encode())
    asked: list[str] = []

    def answer(call: Call) -> str:
        if (call.place or "").startswith("rollout/"):
            asked.append(call.text)
        return scripted(RULE)(call)

    async with LoopbackProvider(answer) as provider:
        ended = await night(person, provider, evolve_memory=True)
    assert asked and all("Be kind." in text for text in asked), "it is measured among the person's own notes"
    assert ended.proposal is not None and [
        (target.name, target.kind) for target in ended.proposal.targets
    ] == [("CLAUDE.md", "memory")]
    desk(person).adopt()
    written = memory.read_bytes().decode()
    assert written.startswith(house) and RULE in written and written.count("SKILLOPT-SLEEP:LEARNED") == 2
    async with LoopbackProvider(scripted(RULE)) as provider:
        again = await night(person, provider, evolve_memory=True)
    assert again.proposal is None and again.plan.targets[0].seed == RULE, (
        "the next night starts from what was adopted"
    )
    desk(person).undo()
    assert memory.read_bytes() == house.encode()


@pytest.mark.slow
async def test_without_a_memory_file_none_is_made(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write(skill=False, skills=())
    async with LoopbackProvider(scripted(RULE)) as provider:
        ended = await night(person, provider, evolve_memory=True)
    assert ended.proposal is not None and [target.kind for target in ended.proposal.targets] == ["skill"]


def with_memos(home: Path, text: str) -> Person:
    """A person who uses two skills, each for half of the briefs."""
    person = Person(home).write(sessions=10)
    other = person.skill.parent.parent / "memo" / "SKILL.md"
    other.parent.mkdir()
    other.write_text(text.replace("brief-writer", "memo"))
    talks = person.home / ".skillopt-sleep" / "sessions" / "more.jsonl"
    talks.write_text("".join(person.lines(range(10, 20), ("memo",))))
    return person


@pytest.mark.slow
async def test_the_skills_of_a_night_share_one_allowance(tmp_path: Path) -> None:
    person = with_memos(tmp_path / "home", SKILL)
    caps = {"model.target.max_tokens": 200, "model.optimizer.max_tokens": 600}
    async with LoopbackProvider(scripted(RULE)) as provider:
        rich = await night(person, provider, val_fraction=0.5, options=caps)
        needed = sum(one.input_tokens + one.output_tokens for one in provider.log)
    assert rich.proposal is not None and len(rich.proposal.targets) == 2
    poor = with_memos(tmp_path / "other", SKILL)
    async with LoopbackProvider(scripted(RULE)) as provider:
        ended = await night(
            poor, provider, val_fraction=0.5, options=caps, max_tokens_per_night=int(needed * 0.7)
        )
        used = sum(one.input_tokens + one.output_tokens for one in provider.log)
    assert used <= int(needed * 0.7) and ended.proposal is not None and len(ended.proposal.targets) == 1


@pytest.mark.slow
async def test_each_skill_the_sessions_used_gets_its_own_verdict(tmp_path: Path) -> None:
    person = with_memos(tmp_path / "home", LEARNT)
    async with LoopbackProvider(scripted(RULE)) as provider:
        ended = await night(person, provider, val_fraction=0.5)
    outcomes = {target.name: target.outcome for target in ended.plan.targets}
    assert set(outcomes) == {"brief-writer", "memo"} and all(outcomes.values())
    assert ended.proposal is not None and [target.name for target in ended.proposal.targets] == [
        "brief-writer"
    ], "memo was perfect already"


@pytest.mark.slow
async def test_a_harmful_edit_is_proposed_measured_and_rejected_while_its_neighbour_stays(
    person: Person,
) -> None:
    ear = Ear()
    async with LoopbackProvider(scripted(RULE, HARM, hard=SUBJECTS[::3])) as provider:
        ended = await night(person, provider, ear)
    proposed = [
        edit.edit.content for event in ear.heard if isinstance(event, Updated) for edit in event.outcomes
    ]
    verdicts = [(str(event.place), event.action) for event in ear.heard if isinstance(event, Judged)]
    assert HARM in proposed and verdicts == [("e1/s1", "reject"), ("e1/s1/c1", "accept")]
    assert ended.proposal is not None and ended.proposal.targets[0].text(range(9)) == LEARNT


@pytest.mark.slow
async def test_nothing_better_is_nothing_proposed(person: Person) -> None:
    async with LoopbackProvider(scripted(HARM)) as provider:
        ended = await night(person, provider)
    assert ended.proposal is None and desk(person).status().proposals == ()
    assert ended.plan.outcome == "no change was found that the held-out tasks agree to"


@pytest.mark.slow
@pytest.mark.parametrize("events", [1, 3, 8])
async def test_a_stopped_night_goes_on_with_the_same_command_and_pays_nothing_twice(
    person: Person, events: int
) -> None:
    async with LoopbackProvider(scripted(RULE)) as provider:
        with pytest.raises(Interrupted):
            await night(person, provider, Ear(stop_after=events))
        kept = person.around().home.project(person.project)
        assert kept.load().open == 1
        (person.home / ".skillopt-sleep" / "sessions" / "late.jsonl").write_text(
            "".join(person.lines(range(3), ()))
        )
        ended = await night(person, provider)
        sent = Counter((one.place, one.draw) for one in provider.log)
    assert ended.resumed and ended.plan.number == 1 and kept.load().open is None
    assert max(sent.values()) == 1
    assert ended.proposal is not None and ended.proposal.targets[0].text({1}) == LEARNT


@pytest.mark.slow
async def test_an_open_night_about_a_text_that_is_gone_is_left_and_a_new_one_begun(person: Person) -> None:
    async with LoopbackProvider(scripted(RULE)) as provider:
        with pytest.raises(Interrupted):
            await night(person, provider, Ear(stop_after=3))
        person.skill.write_text(SKILL + "- Be kind.\n")
        ended = await night(person, provider)
    assert (ended.resumed, ended.plan.number) == (False, 2)
    assert ended.proposal is not None and ended.proposal.targets[0].before == SKILL + "- Be kind.\n"


@pytest.mark.slow
async def test_an_open_night_goes_on_with_a_larger_allowance_and_not_with_other_settings(
    person: Person,
) -> None:
    async with LoopbackProvider(scripted(RULE)) as provider:
        for events in (1, 3):
            with pytest.raises(Interrupted):
                await night(person, provider, Ear(stop_after=events), max_tokens_per_night=300_000 + events)
        assert person.around().home.project(person.project).load().open == 1
        ended = await night(person, provider, edit_budget=2)
    assert (ended.resumed, ended.plan.number) == (False, 2) and ended.proposal is not None


@pytest.mark.slow
async def test_of_four_nights_at_once_one_runs_and_no_record_is_lost(person: Person) -> None:
    async with LoopbackProvider(scripted(RULE)) as provider:
        ends = await asyncio.gather(*(night(person, provider) for _ in range(4)), return_exceptions=True)
    assert Counter(type(end) for end in ends) == {NightResult: 1, RunConflict: 3}
    assert sum("night.lock" in str(end) for end in ends) == 3, "they stop before they read anything"
    kept = person.around().kept
    assert (kept.load().night, len(kept.ended(5)), len(desk(person).status().proposals)) == (1, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("allowance", [3_000, 8_000])
async def test_the_allowance_of_a_night_holds(person: Person, allowance: int) -> None:
    caps = {"model.target.max_tokens": 200, "model.optimizer.max_tokens": 600}
    keep_readings(person.around())
    async with LoopbackProvider(scripted(RULE)) as provider:
        ended = await night(person, provider, max_tokens_per_night=allowance, options=caps)
        used = sum(one.input_tokens + one.output_tokens for one in provider.log)
    assert 0 < used <= allowance
    assert ended.plan.cost.tokens is not None and used <= ended.plan.cost.tokens <= allowance
    assert person.around().home.project(person.project).load().open is None, (
        "the next night is a night of its own"
    )


@pytest.mark.slow
async def test_what_a_poor_night_measured_is_not_paid_again_by_the_next(person: Person) -> None:
    caps = {"model.target.max_tokens": 200, "model.optimizer.max_tokens": 600}
    keep_readings(person.around())
    async with LoopbackProvider(scripted(RULE)) as provider:
        first = await night(person, provider, max_tokens_per_night=3_000, options=caps)
        assert first.proposal is None and "did not pay" in first.plan.targets[0].outcome.claim  # type: ignore[union-attr]
        measured = {one.place for one in provider.log}
        second = await night(person, provider, options=caps)
        again = [one.place for one in provider.log][len(measured) :]
    assert second.proposal is not None and len(measured) > 3
    assert not {place for place in again if place and place.startswith("rollout/")} & measured


@pytest.mark.slow
async def test_preferences_and_earlier_decisions_reach_the_optimizer_and_no_one_else(person: Person) -> None:
    asked: list[tuple[str, str]] = []

    def answer(call: Call) -> str:
        asked.append((call.place or "", call.text))
        return scripted(RULE)(call)

    async with LoopbackProvider(answer) as provider:
        await night(person, provider)
        desk(person).discard()
        asked.clear()
        await night(person, provider, preferences="Never use tables.")
    told = f"- The person decided against adding this in brief-writer: {json.dumps(RULE)}"
    analysts = [text for place, text in asked if "analyst" in place]
    assert analysts and all(told in text and "- Never use tables." in text for text in analysts)
    assert not [
        text
        for place, text in asked
        if place.startswith("rollout/") and ("decided against" in text or "tables" in text)
    ]


@pytest.mark.slow
async def test_without_a_test_split_nothing_is_claimed_and_with_one_the_claim_is_paired(
    person: Person, tmp_path: Path
) -> None:
    async with LoopbackProvider(scripted(RULE)) as provider:
        ended = await night(person, provider)
        sealed = await night(Person(tmp_path / "other").write(), provider, test_fraction=0.3)
    outcomes = [one.plan.targets[0].outcome for one in (ended, sealed)]
    assert outcomes[0] is not None and outcomes[0].claim.startswith("Test was not measured")
    assert outcomes[1] is not None and "sealed test tasks (mixed score): 0.000 to 1.000" in outcomes[1].claim


@pytest.mark.slow
async def test_few_held_out_tasks_show_nothing_and_that_is_said(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write(sessions=5)
    async with LoopbackProvider(scripted(RULE)) as provider:
        ended = await night(person, provider)
    assert ended.proposal is not None and ended.proposal.targets[0].judgement.verified is False
    assert ended.proposal.targets[0].judgement.finding == (
        "could be chance: better on 2 of 2 held-out tasks (p = 0.25)"
    )
    assert any("could be chance" in note for note in ended.proposal.notes)


@pytest.mark.slow
async def test_val_and_test_requests_reach_nobody_who_writes_the_skill_or_its_measure(person: Person) -> None:
    seen: list[str] = []

    def answer(call: Call) -> str:
        if not (call.place or "").startswith(("rollout/", "read/", "judge/")):
            seen.append(call.text)
        return scripted(RULE)(call)

    async with LoopbackProvider(answer) as provider:
        ended = await night(person, provider, test_fraction=0.2)
    held_out = [task.prompt for task in ended.plan.targets[0].tasks if task.split != "train"]
    assert seen and held_out and not [prompt for prompt in held_out if any(prompt in text for text in seen)]


async def test_a_skill_behind_a_link_is_refused_before_anything_is_paid(person: Person) -> None:
    elsewhere = person.home / "elsewhere.md"
    person.skill.rename(elsewhere)
    person.skill.symlink_to(elsewhere)
    async with LoopbackProvider(scripted(RULE)) as provider:
        with pytest.raises(UsageError, match="symbolic link"):
            await night(person, provider)
        assert not provider.log


async def test_a_night_without_sessions_says_that_there_is_nothing_to_learn_from(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write(sessions=0)
    async with LoopbackProvider(scripted(RULE)) as provider:
        ended = await night(person, provider)
        assert not provider.log
    assert ended.proposal is None and ended.plan.outcome.startswith(
        "nothing to learn from: No task can be replayed"
    )


async def test_sessions_written_down_by_way_of_a_link_belong_to_the_project(person: Person) -> None:
    link = person.home / "link"
    link.symlink_to(person.project)
    talks = person.home / ".skillopt-sleep" / "sessions" / "talks.jsonl"
    talks.write_text(talks.read_text().replace(str(person.project), str(link)))
    assert len((await gather(person.around(), None)).sessions) == 20


@pytest.mark.slow
async def test_what_a_night_writes_is_closed_to_others(person: Person) -> None:
    async with LoopbackProvider(scripted(RULE)) as provider:
        ended = await night(person, provider)
    home = person.around().home
    assert ended.proposal is not None
    for folder in (home.project(person.project).folder, home.store.folder(ended.proposal.id)):
        assert folder.stat().st_mode & 0o077 == 0
    assert not list(person.project.rglob("*skillopt-sleep*")), "nothing of it lies in the repository"


async def test_a_preview_sends_and_writes_nothing_and_names_cost_and_remedy(person: Person) -> None:
    before = sorted(person.home.rglob("*"))
    seen = await preview(person.around(), None, environ={}, now=NOW)
    assert sorted(person.home.rglob("*")) == before
    assert (len(seen.found.tasks), seen.to_read, seen.remedy, seen.usd) == (0, 20, REMEDY, None)
    assert seen.tokens.at_most is not None and 0 < seen.tokens.typical < seen.tokens.at_most
    keep_readings(person.around())
    read = await preview(person.around(), None, environ={}, now=NOW)
    assert (len(read.found.tasks), read.to_read) == (20, 0) and read.tokens.typical > seen.tokens.typical


async def test_a_preview_with_a_model_that_lacks_its_key_says_so_and_still_counts(person: Person) -> None:
    seen = await preview(
        person.around(), Roles(target="openai:gpt-5.4-mini", optimizer="handoff"), environ={}, now=NOW
    )
    assert "OPENAI_API_KEY" in seen.remedy and seen.tokens.typical > 0 and seen.usd is None


@pytest.mark.slow
async def test_a_night_without_a_key_is_answered_by_hand_in_few_rounds(person: Person) -> None:
    around = person.around()
    roles = Roles(target="handoff", optimizer="handoff")
    folder = around.home.project(person.project).night(1)
    ended = None
    for _ in range(12):
        try:
            ended = await run_night(around, roles, environ={}, now=clock)
            break
        except AnswersWanted:
            for asked in folder.glob("*/handoff"):
                answer_all(asked)
    assert len(list(folder.glob("reading-*/handoff/round-*"))) == 1, "all sessions in one round"
    assert len(list(folder.glob("mining-*/handoff/round-*"))) == 2, "the rubric, and all that it is tried on"
    rounds = len(list(folder.glob("01-brief-writer/handoff/round-*")))
    assert rounds <= 7, (
        "baseline, rollout, reflection, gate: a round each, and one to judge what was answered"
    )
    assert ended is not None
    assert ended.resumed and ended.proposal is not None and ended.proposal.targets[0].text({1}) == LEARNT
    assert ended.plan.cost.tokens is None and "tokens unknown" in str(ended.proposal.cost), (
        "nobody counted them"
    )


def answer_all(folder: Path) -> None:
    """Answer every open question as the scripted model would."""
    for one in sorted(folder.glob("round-*")):
        for question in json.loads((one / "questions.json").read_text())["questions"]:
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
            (one / question["answer"]).write_text(scripted(RULE)(call))


@pytest.mark.parametrize(
    "named", [{"backend": "mock"}, {"model": "world"}, {"target_model": "world:x", "model": "openai:m"}]
)
def test_the_simulated_world_is_no_model_of_a_night(person: Person, named: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="simulated"):
        roles_of(person.around(**named).settings)


async def test_the_simulated_world_behind_a_harness_is_refused_too(person: Person) -> None:
    with pytest.raises(ConfigError, match="simulated"):
        await run_night(person.around(), Roles(target="chat/world", optimizer="world"), environ={}, now=clock)


@pytest.mark.slow
async def test_a_project_knows_nothing_of_another_ones_nights(person: Person, tmp_path: Path) -> None:
    other = Person(tmp_path / "home").around().home.project(tmp_path / "elsewhere")
    async with LoopbackProvider(scripted(HARM)) as provider:
        await night(person, provider)
    assert earlier_nights(other, 9) == []
    assert earlier_nights(person.around().home.project(person.project), 2)


async def test_what_a_night_asks_reads_like_this(person: Person, snapshot: SnapshotAssertion) -> None:
    around = person.around(preferences="Never use tables.")
    keep_readings(around)
    gathered = await gather(around, None)
    benchmark = benchmark_of(gathered.targets[0], advice_of(around.settings, ()))
    assert benchmark.prompts["rollout"] == snapshot
    assert benchmark.prompts["analyst_failure"].removeprefix(packaged("analyst_failure")) == snapshot


@pytest.mark.slow
async def test_the_gate_reads_every_row_of_the_baseline(person: Person) -> None:
    ear = Ear()
    async with LoopbackProvider(scripted(RULE)) as provider:
        await night(person, provider, ear)
    (baseline,) = [
        event for event in ear.heard if isinstance(event, StageClosed) and str(event.place) == "baseline"
    ]
    assert len(baseline.rows) == 24, "eight tasks are few, so each is drawn three times"
