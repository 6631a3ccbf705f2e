"""Lazy edits are proposed, measured and refused: a constant, the request said back, bare headings; an honest
one is accepted. What sees form alone verifies nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from _loopback import Call, LoopbackProvider
from night._gamed import FIGURES, NAMES, REVIEW, careful, number
from night._nights import NOW, REPLY, clock, findings, task_of, work_of
from night._reader import answers, mine
from night._sessions import session
from skillopt.transcripts import Homes
from skillopt_sleep import NightContext, NightHome, NightResult, NightSettings, Roles, run_night
from skillopt_sleep.scorer import Guards, guards_of, has_empty_section, is_echo, lazy_answers

HONEST = "- Open every review with a section `Blockers` that names what must change, then the rest."
CONSTANT = "- Answer every review with `Blockers: ok`."
ECHO = "- Say the diff back below a line `Blockers:`."
EMPTY = "- Write the headings Blockers and Rest and nothing else."


def answered(skill: str, prompt: str, name: str) -> str:
    """What a target does that follows the skill to the letter (simulated)."""
    if HONEST in skill:
        return REVIEW.good(name)
    if CONSTANT in skill:
        return "## Blockers\n\nok\n\nBlockers: ok"
    if ECHO in skill:
        return f"## Blockers\n\n{prompt}"
    return "## Blockers\n\n## Rest" if EMPTY in skill else f"The change to {name} looks fine to me."


def lazy(*rules: str) -> Callable[[Call], str]:
    def answer(call: Call) -> str:
        place = call.place or ""
        if (read := answers(place, call.text)) is not None:
            return read
        if place.startswith("mine/"):
            rubric = "- It reviews this very change."
            return json.dumps({"title": "Reviews", "self_contained": True, "rubric": rubric})
        if place.startswith("judge/"):
            return findings(met=careful(REVIEW)(task_of(call.text), work_of(call.text)))
        if not place.startswith("rollout/"):
            edits = [{"op": "append", "content": rule, "rationale": "said so"} for rule in rules]
            wanted = "analyst_failure" in place
            return json.dumps({**REPLY, "patch": {"reasoning": "", "edits": edits if wanted else []}})
        name = next(name for name in NAMES if f"a/{name}.py" in call.text)
        return answered(call.text, REVIEW.ask(name), name)

    return answer


def talks(folder: Path, project: Path, turns: Mapping[str, Sequence[str]]) -> None:
    """Sessions in the plain form."""
    rows = []
    for name, said in turns.items():
        for place, text in enumerate(said):
            told = {"session": name, "project": str(project), "text": text, "time": NOW.isoformat()}
            rows.append(json.dumps({**told, "role": "assistant" if place % 2 else "user"}) + "\n")
    folder.mkdir(parents=True)
    (folder / "talks.jsonl").write_text("".join(rows))


async def reviewed(home: Path, *rules: str) -> NightResult:
    said = 'No, you forgot the "Blockers" section.'
    turns = {
        name: [
            REVIEW.ask(name),
            f"The change to {name} is fine.",
            said,
            REVIEW.good(name),
            "Good, thanks.",
            "Bye.",
        ]
        for name in NAMES
    }
    return await after_talks(home, turns, lazy(*rules))


async def after_talks(
    home: Path, turns: Mapping[str, Sequence[str]], model: Callable[[Call], str]
) -> NightResult:
    """A night over sessions with these turns."""
    project = home / "shop"
    project.mkdir(parents=True)
    talks(home / ".skillopt-sleep" / "sessions", project, turns)
    settings = NightSettings(val_fraction=0.5)
    context = NightContext(
        settings=settings,
        project=project,
        homes=Homes(home=home, platform="linux"),
        home=NightHome.of(settings, home),
    )
    async with LoopbackProvider(model) as provider:
        name = f"compatible:m@{provider.base_url}"
        return await run_night(context, Roles(target=name, optimizer=name), environ={}, now=clock)


@pytest.mark.slow
@pytest.mark.parametrize("rule", [CONSTANT, ECHO, EMPTY], ids=["constant", "echo", "empty"])
async def test_a_lazy_edit_is_measured_and_refused(tmp_path: Path, rule: str) -> None:
    ended = await reviewed(tmp_path, rule)
    (target,) = ended.plan.targets
    assert ended.proposal is None and ended.plan.targets[0].ended.rejected == 1
    assert (target.ended.judgement.before, target.ended.judgement.after) == (0.0, 0.0)


@pytest.mark.slow
async def test_the_honest_edit_is_accepted_verified_and_told_in_the_persons_words(tmp_path: Path) -> None:
    ended = await reviewed(tmp_path, HONEST)
    (target,) = ended.plan.targets
    assert ended.proposal is not None and target.ended.judgement.verified
    assert (target.ended.judgement.before, target.ended.judgement.after) == (0.0, 1.0)
    (edit,) = target.ended.edits
    assert edit.quotes == ('No, you forgot the "Blockers" section.',) and edit.sessions
    page = (
        NightHome(folder=tmp_path / ".skillopt-sleep").store.folder(ended.proposal.id) / "proposal.md"
    ).read_text()
    assert "you said: No, you forgot the" in page


async def test_an_answer_to_another_request_is_none_to_this_one() -> None:
    sessions = [
        session(
            number,
            REVIEW.ask(name),
            "Fine.",
            'No, you forgot the "Blockers" section.',
            REVIEW.good(name),
            "Good.",
            "",
        )
        for number, name in enumerate(NAMES)
    ]
    mined = await mine(sessions)
    assert len(mined.tasks) == 20 and all(task.guards.least for task in mined.tasks)
    assert all(
        not task.guards.failing(task.prompt, REVIEW.good(name))
        for task in mined.tasks
        for name in NAMES
        if f"/{name}." in task.prompt
    )
    other = next(task for task in mined.tasks if "/cart." in task.prompt)
    assert other.guards.failing(other.prompt, REVIEW.good("rate")) == "The answer is not about this request."


async def test_what_an_answer_to_anything_could_have_is_marked_and_cannot_verify() -> None:
    same = "## Blockers\n\n- none"
    sessions = [
        session(
            number, REVIEW.ask(name), "Fine.", 'No, you forgot the "Blockers" section.', same, "Good.", ""
        )
        for number, name in enumerate(NAMES)
    ]
    mined = await mine(sessions, settings=NightSettings(val_fraction=0.5))
    assert mined.tasks and all(task.form_alone for task in mined.tasks)
    assert mined.standing == "unverified" and "measured by form alone" in mined.note


def test_a_guard_that_an_accepted_answer_breaks_is_not_used() -> None:
    """Who asks for a text without its mistakes gets mostly the same text back, and a list may be bare."""
    asked = [
        (
            f"Mend the spelling: teh {name} is on teh table in the hall",
            [f"the {name} is on the table in the hall"],
        )
        for name in NAMES[:4]
    ]
    assert not is_echo(*("one two three four five", "five four three two one"))
    echoes = [(prompt, [prompt]) for prompt, _ in asked]
    assert not any(one.own_words for one in guards_of(echoes))
    assert not any(one.filled for one in guards_of([(prompt, ["## Bare"]) for prompt, _ in asked]))


@pytest.mark.parametrize(
    ("text", "is_empty"),
    [
        ("## A\n\n## B", True),
        ("## A\n\ntext\n\n## B", True),
        ("# Title\n\n## A\n\ntext", False),
        ("Blockers:\nRest:", True),
        ("Blockers: none\nRest: a name", False),
        ("**Blockers**\n\n- one", False),
        ("plain text", False),
        ("", False),
    ],
)
def test_a_section_without_text_is_seen(text: str, is_empty: bool) -> None:
    assert has_empty_section(text) is is_empty


def test_writing_without_spaces_has_subjects_too() -> None:
    asked = [
        (f"请评审{what}的改动", [f"{what}缺少测试"])
        for what in ("购物车模块", "汇率服务", "邮件发送", "页面渲染")
    ]
    guards = guards_of(asked)
    assert all(one.least for one in guards)
    assert guards[0].failing(asked[0][0], asked[1][1][0]) and not guards[0].failing(
        asked[0][0], asked[0][1][0]
    )
    assert Guards().failing("a", "b") == ""


def commit(name: str) -> str:
    return f"feat({name}): take {FIGURES[number(name)]}"


CONVENTIONAL = (
    "- Commit messages follow Conventional Commits: feat, fix or docs, the part in brackets, a colon."
)
VAGUE = "- Write good commit messages."
FORM = {"op": "regex", "arg": r"(?m)^(?:feat|fix|docs)\(\w+\): \S"}


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "after"), [(CONVENTIONAL, 1.0), (VAGUE, 0.0)], ids=["said", "vague"])
async def test_a_demand_of_conventional_commits_is_learned_and_not_met_without_it(
    tmp_path: Path, rule: str, after: float
) -> None:
    """The check is the optimizer's and was tried on what the person accepted and rejected."""

    def commits(call: Call) -> str:
        place = call.place or ""
        if (read := answers(place, call.text)) is not None:
            return read
        if place.startswith("mine/"):
            told = {"title": "Commit messages", "self_contained": True, "checks": [FORM]}
            return json.dumps({**told, "rubric": "- It says what the change does."})
        if place.startswith("judge/"):
            name = next(name for name in NAMES if f"a/{name}.py" in task_of(call.text))
            return findings(met=f"take {FIGURES[number(name)]}" in work_of(call.text))
        if not place.startswith("rollout/"):
            edits = [{"op": "append", "content": rule, "rationale": "said so"}]
            wanted = "analyst_failure" in place
            return json.dumps({**REPLY, "patch": {"reasoning": "", "edits": edits if wanted else []}})
        name = next(name for name in NAMES if f"a/{name}.py" in call.text)
        return commit(name) if CONVENTIONAL in call.text else f"added a value to {name}"

    turns = {
        name: [
            REVIEW.ask(name).replace("Review this diff", "Write a commit message for this diff"),
            f"added a value to {name}",
            "No. We always use conventional commits.",
            commit(name),
            "Good, thanks.",
            "Bye.",
        ]
        for name in NAMES
    }
    ended = await after_talks(tmp_path, turns, commits)
    (target,) = ended.plan.targets
    assert all(FORM in task.checks and not task.form_alone for task in target.tasks)
    assert (target.ended.judgement.before, target.ended.judgement.after) == (0.0, after)
    assert (ended.proposal is not None) == (rule == CONVENTIONAL)
    if ended.proposal is not None:
        assert CONVENTIONAL in (ended.proposal.targets[0].text({1}) or "")


def test_a_small_number_says_nothing_of_the_subject_where_a_name_does() -> None:
    """As a real target did: it copied the example of a skill, in which the same figure stood by accident."""
    names = ("hash_key", "load_cart", "refund", "page_of", "slugify")
    asked = [
        (
            f"Review this diff:\n\n@@ -1,2 +1,3 @@\n def {name}(value):\n+    return value[{number}]",
            [f"Blockers:\n- {name} indexes value[{number}] without a check."],
        )
        for number, name in enumerate(names, start=2)
    ]
    copied = "Blockers:\n- open_door reads keys[7] without a check.\n\nRest:\n- 5 annoyances, 9 more."
    for (prompt, accepted), guards in zip(asked, guards_of(asked), strict=True):
        assert guards.failing(prompt, accepted[0]) == ""
        assert guards.failing(prompt, copied) == "The answer is not about this request."


def test_where_only_a_number_tells_requests_apart_it_counts() -> None:
    asked = [(f"Write a note on release 2.{n}.", [f"2.{n}: you find things faster."]) for n in (3, 4, 5, 6)]
    for (prompt, accepted), guards in zip(asked, guards_of(asked), strict=True):
        assert guards.least and guards.failing(prompt, accepted[0]) == ""
        assert guards.failing(prompt, "7.8: you find things faster.") != ""


def test_an_accepted_answer_that_keeps_no_guard_switches_it_off_for_its_own_request_alone() -> None:
    """As sessions with tools have it, whose accepted answer names nothing and leaves a heading bare."""
    asked = [(REVIEW.ask(name), [REVIEW.good(name)]) for name in NAMES[:5]]
    asked += [(REVIEW.ask(name), ["Done:"]) for name in NAMES[5:7]]
    guards = guards_of(asked)
    assert all(one.least and one.filled and one.own_words for one in guards[:5])
    assert not any(one.least or one.filled for one in guards[5:])
    assert guards[0].failing(asked[0][0], "## Blockers\n\nok") == "The answer is not about this request."


def test_lazy_answers_are_made_of_the_requests_words_and_of_an_answer_to_another_one() -> None:
    asked = [(REVIEW.ask(name), REVIEW.good(name)) for name in NAMES[:3]]
    stuffed, filled = lazy_answers(asked)
    assert stuffed.startswith("## Blockers\n\n- ") and "mail" in stuffed
    assert filled == asked[1][1].replace("rate", "mail") != asked[2][1]
    assert lazy_answers(asked[:1]) == [] == lazy_answers([])
