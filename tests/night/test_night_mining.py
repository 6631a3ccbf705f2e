"""Mining with a model inside a night: asked through the ordinary stack, within its share of the allowance,
and never twice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from _loopback import Call, LoopbackProvider, Misbehaviour
from night._nights import NOW, RULE, Person, clock, scripted
from night._reader import answers, keep_readings
from night._sessions import SUBJECTS
from skillopt.errors import AnswersWanted, ConfigError, Stopped
from skillopt_sleep import NightResult, Roles, preview, run_night
from skillopt_sleep.gather import gather

RUBRIC = "There is a section on risks."
LABEL = {
    "title": "Briefs",
    "self_contained": True,
    "needs": "",
    "requests": [],
    "checks": [],
    "rubric": f"- {RUBRIC}",
}


def reading(label: Any = LABEL, judged: Callable[[Call], str] | None = None) -> Callable[[Call], str]:
    """A simulated model that reads requests like this, judges by the section on risks, and otherwise does as
    scripted.
    """

    def answer(call: Call) -> str:
        place = call.place or ""
        if (read := answers(place, call.text)) is not None:
            return read
        if place.startswith("mine/"):
            return label if isinstance(label, str) else json.dumps(label)
        if place.startswith("judge/"):
            if judged is not None:
                return judged(call)
            work = call.text.partition("<work>\n")[2].partition("\n</work>")[0]
            return json.dumps({"findings": [{"criterion": 1, "evidence": "", "met": "Key Risks" in work}]})
        return scripted(RULE)(call)

    return answer


@pytest.fixture
def vague(tmp_path: Path) -> Person:
    """A person who objects without saying what a rule could be made of."""
    return Person(tmp_path / "home", objection="No, that is not what I wanted at all.").write()


async def night(person: Person, provider: LoopbackProvider, **settings: object) -> NightResult:
    model = f"compatible:m@{provider.base_url}"
    return await run_night(
        person.around(**settings), Roles(target=model, optimizer=model), environ={}, now=clock
    )


@pytest.mark.slow
async def test_what_no_rule_can_say_is_learned_by_a_rubric_that_the_judge_applies(vague: Person) -> None:
    told: list[str] = []

    def answer(call: Call) -> str:
        told.extend([] if (call.place or "").startswith(("rollout/", "judge/", "read/")) else [call.text])
        return reading()(call)

    async with LoopbackProvider(answer) as provider:
        assert (await gather(vague.around(), None)).tasks == (), (
            "without a model there is nothing to measure by"
        )
        ended = await night(vague, provider)
        used = sum(one.input_tokens + one.output_tokens for one in provider.log)
    (target,) = ended.plan.targets
    assert {json.dumps(task.as_task().reference) for task in target.tasks if task.split == "val"} == {
        json.dumps({"checks": [], "rubric": f"- {RUBRIC}"})
    }
    assert ended.proposal is not None and target.outcome is not None
    assert (target.outcome.judgement.before, target.outcome.judgement.after) == (0.0, 1.0)
    mining = ended.plan.mining
    assert mining is not None and mining.calls == 12, (
        "four to read twenty sessions, one question, and a rubric tried on two good, two bad answers, a promise"
        " and two lazy ones"
    )
    assert mining.tokens and ended.plan.cost.tokens is not None and used <= ended.plan.cost.tokens
    held_out = [task.prompt for task in target.tasks if task.split != "train"]
    assert told and held_out and not [prompt for prompt in held_out if any(prompt in text for text in told)]


@pytest.mark.slow
async def test_a_judge_of_its_own_is_asked_where_one_is_named(vague: Person) -> None:
    async with LoopbackProvider(reading()) as provider, LoopbackProvider(reading()) as judge:
        model, other = (f"compatible:m@{one.base_url}" for one in (provider, judge))
        ended = await run_night(
            vague.around(judge_model=other),
            Roles(target=model, optimizer=model, judge=other),
            environ={},
            now=clock,
        )
        asked, judged = (
            {(one.place or "").partition("/")[0] for one in each.log} for each in (provider, judge)
        )
    assert ended.proposal is not None and judged == {"judge"} and "judge" not in asked


@pytest.mark.slow
async def test_a_judge_that_is_not_understood_is_no_score_and_stops_the_night(vague: Person) -> None:
    """Its rubric was tried when it still spoke; in training nothing of what it says can be used."""
    tried = Counter[str]()

    def judged(call: Call) -> str:
        tried["all"] += 1
        work = call.text.partition("<work>\n")[2].partition("\n</work>")[0]
        return (
            json.dumps({"findings": [{"criterion": 1, "evidence": "", "met": "Key Risks" in work}]})
            if tried["all"] <= 7
            else "fine"
        )

    async with LoopbackProvider(reading(judged=judged)) as provider:
        with pytest.raises(Stopped, match="judge: the judge's replies about task"):
            await night(vague, provider)
    assert vague.around().home.project(vague.project).load().open == 1


@pytest.mark.slow
async def test_a_night_stopped_while_it_mines_goes_on_with_the_same_sessions_and_asks_nothing_twice(
    vague: Person,
) -> None:
    dead = Counter({"judge": 1})

    def behave(call: Call) -> Misbehaviour | None:
        return Misbehaviour.status(401) if (call.place or "").startswith("judge/") and dead["judge"] else None

    async with LoopbackProvider(reading(), behave=behave) as provider:
        with pytest.raises(Stopped):
            await night(vague, provider)
        assert vague.around().home.project(vague.project).load().open is None, "nothing was begun yet"
        late = [
            line.replace('"s0"', '"late"').replace(SUBJECTS[0], "a circus should travel")
            for line in vague.lines(range(1))
        ]
        (vague.home / ".skillopt-sleep" / "sessions" / "late.jsonl").write_text("".join(late))
        dead.clear()
        ended = await night(vague, provider)
        sent = Counter(one.place for one in provider.log if one.status == 200)
    assert ended.plan.number == 1 and ended.plan.sessions == 20 and ended.proposal is not None
    assert max(sent.values()) == 1 and sum(place.startswith("mine/") for place in sent if place) == 1


async def test_mining_has_its_share_of_the_allowance_and_a_night_without_it_goes_by_the_persons_own_words(
    tmp_path: Path,
) -> None:
    person = Person(tmp_path / "home").write()
    keep_readings(person.around())
    caps = {"model.target.max_tokens": 200, "model.optimizer.max_tokens": 600}
    async with LoopbackProvider(reading()) as provider:
        ended = await night(person, provider, max_tokens_per_night=8_000, options=caps)
        used = sum(one.input_tokens + one.output_tokens for one in provider.log)
        assert not [one for one in provider.log if (one.place or "").startswith("mine/")], (
            "a question could take more than 2,000 tokens"
        )
    assert 0 < used <= 8_000 and ended.plan.tasks == 20
    assert any("tonight's allowance for mining was spent" in note for note in ended.plan.notes)


@pytest.mark.slow
async def test_a_reply_that_cannot_be_used_is_said_so_and_leaves_the_persons_own_words(
    tmp_path: Path,
) -> None:
    person = Person(tmp_path / "home").write()
    async with LoopbackProvider(reading("I would rather not.")) as provider:
        ended = await night(person, provider)
    assert ended.proposal is not None
    assert any("the model's replies about them could not be used" in note for note in ended.proposal.notes)


async def test_what_no_model_could_read_stays_unread_and_is_asked_again_the_next_night(
    tmp_path: Path,
) -> None:
    person = Person(tmp_path / "home").write(sessions=4)
    silent = True
    learning = scripted(RULE)
    async with LoopbackProvider(
        lambda call: "I cannot." if silent and (call.place or "").startswith("read/") else learning(call)
    ) as provider:
        first = await night(person, provider)
        assert first.plan.states == {"unread: no model has read it yet": 4} and not first.plan.targets
        assert any("4 of 4 sessions stayed unread" in note for note in first.plan.notes)
        silent = False
        second = await night(person, provider)
    assert second.plan.number == 2 and second.plan.tasks == 4


async def test_a_model_only_reads_where_mining_with_one_is_off_and_nobody_is_asked_in_a_preview(
    vague: Person,
) -> None:
    async with LoopbackProvider(reading()) as provider:
        model = f"compatible:m@{provider.base_url}"
        await preview(vague.around(), Roles(target=model, optimizer=model), environ={}, now=NOW)
        assert provider.log == []
        ended = await night(vague, provider, llm_mine=False)
        assert {(one.place or "").partition("/")[0] for one in provider.log} == {"read"}
    assert ended.plan.mining is not None and len(ended.plan.suggestions) == 1


@pytest.mark.slow
async def test_by_hand_rubrics_are_tried_and_applied_in_whole_rounds(vague: Person) -> None:
    folder = vague.around().home.project(vague.project).night(1)
    ended = None
    for _ in range(13):
        try:
            roles = Roles(target="handoff", optimizer="handoff")
            ended = await run_night(vague.around(), roles, environ={}, now=clock)
            break
        except AnswersWanted:
            for one in folder.glob("*/handoff/round-*"):
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
                    (one / question["answer"]).write_text(reading()(call))
    assert ended is not None and ended.proposal is not None
    assert len(list(folder.glob("mining-*/handoff/round-*"))) == 2, (
        "what is wanted, and whether the rubric tells"
    )
    assert len(list(folder.glob("01-*/handoff/round-*"))) <= 7, (
        "baseline, rollout and gate with a round of judging each, and reflection"
    )


async def test_what_would_stop_the_training_stops_the_night_before_a_question_is_paid(vague: Person) -> None:
    async with LoopbackProvider(reading()) as provider:
        with pytest.raises(ConfigError, match=r"budget\.tokens is decided by the night itself"):
            await night(vague, provider, options={"budget.tokens": 5})
        assert provider.log == []
