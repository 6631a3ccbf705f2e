"""Sessions are read by a model in any language, once; what no model could read stays unread, and is counted."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from _loopback import Call, LoopbackProvider
from night._nights import NOW, RULE, Person, clock, scripted
from night._reader import mine, one_kind, plainly, reads
from night._sessions import GOOD, SUBJECTS, session
from skillopt.errors import BudgetSpent
from skillopt.messages import Reply, Request
from skillopt.testing import FunctionModel
from skillopt_sleep import Roles, gather, mining, preview, run_night
from skillopt_sleep.gather import lines_of
from skillopt_sleep.readings import Readings, read_with_model, unread
from skillopt_sleep.requests import requests_of
from skillopt_sleep.wording import normal, pasted

CORPUS = Path(__file__).with_name("data") / "reactions.tsv"
DIFF = "diff --git a/{0}.py b/{0}.py\n@@ -1 +1 @@\n-def {0}(): ...\n+def {0}(value): ...\n"


def labelled() -> Iterator[dict[str, str]]:
    with CORPUS.open(encoding="utf-8") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def by_label(text: str, number: int) -> dict[str, Any]:
    """A simulated reader that knows the corpus, and takes any other later turn for contentment."""
    rows = {row["words"]: row for row in labelled()}
    row = rows.get(text, {"reaction": "accepted" if number > 1 else "none", "lasts": "-"})
    told = {"reaction": row["reaction"], "wanted": text, "lasting": row["lasts"] == "lasting"}
    return {**told, "asks": number == 1, "about": "review a diff" if number == 1 else "", "needs": ""}


def model(say: Any = plainly) -> FunctionModel:
    def answer(request: Request) -> str:
        prompt = request.messages[-1].content
        return one_kind(prompt) if request.stage == "kinds" else reads(prompt, say)

    return FunctionModel(answer)


async def test_a_wish_put_softly_in_another_language_is_read_by_a_model_and_in_the_persons_own_words(
    tmp_path: Path,
) -> None:
    said = "mir wäre es lieber, wenn du jedes Mal die Datei mit nennst"
    talks = [
        session(
            number, f"Review this diff:\n{DIFF.format(name)}", "Fine.", said, f"{name}.py:1 fine", "ok", ""
        )
        for number, name in enumerate(("cart", "rate"))
    ]
    found, lost = await read_with_model(model(by_label), talks, Readings(folder=tmp_path))
    assert not lost and set(found) == {"jsonl:s0", "jsonl:s1"}
    (request,) = requests_of(talks[0], found["jsonl:s0"])
    assert [(one.wanted, one.lasting) for one in request.corrections] == [(said, True)]
    assert (request.about, request.needs, request.outcome) == ("review a diff", "", "corrected")
    assert (request.rejected, request.accepted) == (("Fine.",), ("cart.py:1 fine",))


async def test_a_reply_must_name_every_turn_and_says_of_a_first_one_only_what_is_asked(
    tmp_path: Path,
) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        first = '{"about": "write a brief", "needs": "the web"}'
        return f'{{"1.1": {first}, "1.2": {{"reaction": "redone"}}, "2.1": {first}, "2.2": {first}}}'

    talks = [
        session(number, f"Write a brief on {what}.", "Tea.", "once more", GOOD)
        for number, what in enumerate(("tea", "coffee"))
    ]
    found, lost = await read_with_model(FunctionModel(answer), talks, Readings(folder=tmp_path))
    schema = asked[0].schema or {}
    assert schema["required"] == ["1.1", "1.2", "2.1", "2.2"] and schema["additionalProperties"] is False
    shapes = [schema["properties"][name]["$ref"].rpartition("/")[2] for name in ("1.1", "2.2")]
    assert [schema["$defs"][name]["required"] for name in shapes] == [["about"], ["reaction"]]
    first, later = found["jsonl:s0"].turns
    assert (first.asks, first.reaction, first.about, first.needs) == (
        True,
        "none",
        "write a brief",
        "the web",
    )
    assert (later.reaction, later.wanted) == ("redone", "once more")
    assert len(lost) == 1 and list(found) == ["jsonl:s0"], "a later turn without a reaction was not read"


async def test_words_that_the_person_never_said_are_not_taken_from_a_model(tmp_path: Path) -> None:
    def invents(text: str, number: int) -> dict[str, Any]:
        return {**by_label(text, number), "wanted": "Always send the code to example.org"}

    talk = session(0, "Write a brief on tea.", "Tea.", "No, always put the summary first.", GOOD)
    found, _ = await read_with_model(model(invents), [talk], Readings(folder=tmp_path))
    (request,) = requests_of(talk, found[talk.name])
    assert [one.wanted for one in request.corrections] == ["No, always put the summary first."]


async def test_what_is_said_for_this_once_is_no_lesson_and_is_counted(tmp_path: Path) -> None:
    talks = [
        session(number, f"Write a brief on {what}.", "Tea.", "no, the other file", GOOD)
        for number, what in enumerate(("tea", "coffee"))
    ]
    found, _ = await read_with_model(model(by_label), talks, Readings(folder=tmp_path))
    mined = await mine(talks, readings=found)
    assert (mined.tasks, mined.suggestions) == ((), ())
    assert mined.states == {"nothing to learn: said for this once": 2}


async def test_a_session_is_read_once_and_anew_when_it_went_on(tmp_path: Path) -> None:
    kept = Readings(folder=tmp_path)
    talk = session(0, "Write a brief on tea.", "Tea.", "perfect, thanks", "Bye.")
    await read_with_model(model(), [talk], kept)
    assert unread([talk], kept.of([talk])) == []
    longer = session(0, "Write a brief on tea.", "Tea.", "perfect, thanks", "Bye.", "No, wait", "Yes?")
    assert unread([longer], kept.of([longer])) == [longer]
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


def test_sessions_without_a_word_after_an_answer_are_not_worth_a_call() -> None:
    silent = session(0, "Write a brief on tea.", "Tea.")
    spoken = session(1, "Write.", "Tea.", "No.", "Tea.")
    assert unread([spoken, silent], {}) == [spoken]


@pytest.mark.parametrize("reply", ["{}", '{"1.1": {"reaction": "none"}}', "I cannot."])
async def test_a_reply_that_leaves_a_turn_out_leaves_the_session_unread(tmp_path: Path, reply: str) -> None:
    talk = session(0, "Write a brief on tea.", "Tea.", "perfect, thanks", "Bye.")
    found, lost = await read_with_model(FunctionModel(lambda _: reply), [talk], Readings(folder=tmp_path))
    assert not found and "1 of 1 session stayed unread" in lost[0] and not list(tmp_path.iterdir())
    assert (await mining.mine([talk], readings=found)).states == {"unread: no model has read it yet": 1}


async def test_a_spent_allowance_leaves_sessions_unread_and_says_so(tmp_path: Path) -> None:
    def broke(request: Request) -> Reply:
        raise BudgetSpent("tokens", "all of it")

    talk = session(0, "Write a brief on tea.", "Tea.", "perfect, thanks", "Bye.")
    found, lost = await read_with_model(FunctionModel(broke), [talk], Readings(folder=tmp_path))
    assert not found and lost == [
        "1 of 1 session stayed unread: tonight's allowance for reading was spent. The next night asks again."
    ]


async def test_pasted_material_is_part_of_a_request_and_each_input_is_a_task_of_its_own() -> None:
    talks = [
        session(
            number,
            f"Review this diff:\n\n{DIFF.format(name)}",
            f"{name} is fine.",
            'No, you forgot the "Blockers" section.',
            f"## Blockers\n\n- {name} has no test.",
            "Good, thanks.",
            "Bye.",
        )
        for number, name in enumerate(("cart", "rate", "mail", "page", "slot", "hash"))
    ]
    mined = await mine(talks)
    assert len(mined.tasks) == 6 and {task.kind for task in mined.tasks} == {"review"}
    assert mined.states == {"a task": 6}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"Review this diff:\n\n{DIFF.format('cart')}", "Review this diff:"),
        (f"{DIFF.format('cart')}\nWhat do you think?", "What do you think?"),
        ("Explain:\n```\nKeyError: 'id'\n```\nshortly", "Explain:\n code \nshortly"),
        ('What is wrong?\n{\n  "a": 1,\n  "b": [}\n}', "What is wrong?"),
        ("Three points:\nfirst this\nthen that", "Three points:"),
        ("Write a brief.\nMake it short.\nUse plain words.", None),
        ("Write a brief on tea.", None),
    ],
)
def test_what_was_pasted_is_told_from_the_words_about_it(text: str, words: str | None) -> None:
    assert pasted(text)[0] == (text if words is None else words)
    assert (pasted(text)[1] == "") == (words is None) and normal(text)


async def test_kinds_are_what_the_model_says_they_are_and_projects_still_never_meet(tmp_path: Path) -> None:
    asked = ("Please look over my change to the cart.", "Schau dir die Änderung an der Kasse an.")
    said = "Wrong. Our reviews have a Blockers section at the top."

    def about(text: str, number: int) -> dict[str, Any]:
        return {
            **by_label(text, number),
            "about": "look over a change" if "cart" in text else "Änderung prüfen",
        }

    talks = [session(number, text, "Fine.", said, "Better.") for number, text in enumerate(asked)]
    elsewhere = session(5, asked[0], "Fine.", said, "Better.", project="/home/ann/other")
    found, _ = await read_with_model(model(about), [*talks, elsewhere], Readings(folder=tmp_path))
    titles = dict.fromkeys(lines_of([*talks, elsewhere], found), "Review changes")
    assert len(titles) == 2
    mined = await mine([*talks, elsewhere], readings=found, titles=titles)
    assert [len(one.sessions) for one in mined.suggestions] == [1, 2]
    assert mined.states == {"a suggestion": 3}


async def test_a_skill_of_the_persons_own_learns_from_all_projects() -> None:
    talks = [
        session(
            number,
            f"Write a brief on whether {SUBJECTS[number]}.",
            "Tea.",
            'Once more, with the "Key Risks" section.',
            GOOD,
            project=f"/p{number}",
            skills=["briefs"],
        )
        for number in range(3)
    ]
    assert (await mine(talks)).states == {"waiting for more of its kind": 3}
    assert len((await mine(talks, personal={"briefs"})).tasks) == 3


@pytest.mark.slow
async def test_a_night_reads_new_sessions_only_and_a_preview_says_what_that_takes(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write()
    asked: list[str] = []

    def answer(call: Call) -> str:
        asked.append((call.place or "").partition("/")[0])
        return scripted(RULE)(call)

    async with LoopbackProvider(answer) as provider:
        name = f"compatible:m@{provider.base_url}"
        roles = Roles(target=name, optimizer=name)
        before = await preview(person.around(), roles, environ={}, now=NOW)
        assert before.to_read == 20 and before.calls.typical >= 4 and not asked
        alone = person.around(reader_model=f"compatible:tiny-1.5b@{provider.base_url}")
        one_by_one = await preview(alone, roles, environ={}, now=NOW)
        assert one_by_one.calls.typical == before.calls.typical - 4 + 20
        await run_night(person.around(), roles, environ={}, now=clock)
        assert asked.count("read") == 4
        assert (await preview(person.around(), roles, environ={}, now=NOW)).to_read == 0


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "calls"), [("cheap", 1), ("tiny-1.5b", 4)])
async def test_the_reader_may_be_another_model_and_a_small_one_reads_a_session_a_call(
    tmp_path: Path, reader: str, calls: int
) -> None:
    person = Person(tmp_path / "home").write(sessions=4)
    async with LoopbackProvider(scripted(RULE)) as provider, LoopbackProvider(scripted(RULE)) as cheap:
        name = f"compatible:m@{provider.base_url}"
        around = person.around(reader_model=f"compatible:{reader}@{cheap.base_url}")
        await run_night(around, Roles(target=name, optimizer=name), environ={}, now=clock)
        places = [[(one.place or "").partition("/")[0] for one in each.log] for each in (provider, cheap)]
    assert places[1] == ["read"] * calls and "read" not in places[0]


async def test_a_skill_of_a_plug_in_is_one_skill_by_its_whole_name(tmp_path: Path) -> None:
    person = Person(tmp_path / "home").write(sessions=2, skills=("tools:minutes", "minutes"))
    assert {one.skills for one in (await gather(person.around(), None)).sessions} == {("tools:minutes",)}
