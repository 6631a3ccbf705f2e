"""Edits that make answers look better without making them better go through whole nights, proposed by a hostile
optimizer and followed to the letter by a simulated target: no plain `adopt` takes one. Honest edits are shown
to help and adopted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cli._commands import run
from night._gamed import (
    FIGURES,
    GAMED,
    NAMES,
    REVIEW,
    Judges,
    Kind,
    around,
    careful,
    model,
    night,
    number,
    word_counter,
    write_sessions,
)
from night._nights import clock
from night._reader import by_first_word
from skillopt.errors import UsageError
from skillopt.runs.explain import find, replay
from skillopt.runs.reader import read_run
from skillopt_sleep import NightContext, NightResult


def measured(ended: NightResult) -> list[int]:
    """The edits that are proposed as measured."""
    edits = [] if ended.proposal is None else ended.proposal.edits
    return [edit.id for edit in edits if edit.is_measured]


def taken_by_plain_adopt(context: NightContext, ended: NightResult) -> list[int]:
    """The edits that `adopt` takes where none is named."""
    if ended.proposal is None:
        return []
    try:
        return sorted(context.adoption(clock).adopt().change.taken)
    except UsageError:
        return []


WORLDS: dict[str, tuple[Judges | None, bool, bool]] = {
    "rules alone": (None, False, False),
    "kind with tool sessions": (None, True, True),
    "judge that counts words": (word_counter, True, False),
    "careful judge": (careful(REVIEW), True, False),
}
"""Who judges, whether a model reads the sessions, and whether some of them worked with tools."""


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", GAMED)
async def test_a_gamed_edit_is_never_staged_as_measured_and_plain_adopt_leaves_it(
    name: str, world: str, tmp_path: Path
) -> None:
    judge, asks, mixed = WORLDS[world]
    rule, behaviour = GAMED[name]
    write_sessions(tmp_path, REVIEW, mixed=mixed)
    context = around(tmp_path, llm_mine=asks)
    ended = await night(context, model(REVIEW, [f"- {rule}"], behaviour, judge))
    assert ended.plan.targets and not measured(ended)
    assert not taken_by_plain_adopt(context, ended)
    assert judge is None or world != "careful judge" or ended.proposal is None


async def test_stuffed_words_lift_no_task_and_plain_adopt_or_yes_write_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a person starts it: rules alone can only say that the form got better, so it is only suggested."""
    rule, behaviour = GAMED["words in reverse"]
    write_sessions(tmp_path, REVIEW)
    ended = await night(around(tmp_path, llm_mine=False), model(REVIEW, [f"- {rule}"], behaviour, None))
    (target,) = ended.plan.targets
    assert target.ended.judgement.action == "suggestion" and not ended.plan.targets[0].ended.accepted
    assert "all held-out tasks see form alone" in target.ended.judgement.finding
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "shop")
    for words in ([], ["--yes"], ["--skill", target.name]):
        ran = run("sleep", "adopt", *words)
        assert ran.code == 2 and "is not shown to help" in ran.err and "--edit 1" in ran.err, ran.err
    assert not target.path.exists()
    assert run("sleep", "adopt", "--edit", "1").code == 0 and rule in target.path.read_text()


async def test_what_only_looks_better_stops_nothing_honest_and_lifts_nothing_beside_it(
    tmp_path: Path,
) -> None:
    """Two kinds decide for one skill: answers to one are judged, those to the other are only seen by form."""
    notes = Kind(
        ask=lambda name: f"Draft release notes for package {name}.",
        good=lambda name: f"## Upgrade\n\n- {name}: nothing to do.",
        said='No, you forgot the "Upgrade" section.',
        rule="- End release notes with `Upgrade`.",
    )
    home = tmp_path / "home"
    write_sessions(home, REVIEW)
    write_sessions(home, notes, names=NAMES, prefix="notes-")
    gamed = "- Draft release notes as the words of the request below `Upgrade`."

    def answer(call):  # type: ignore[no-untyped-def]
        place, text = call.place or "", call.text
        if place.startswith("kinds/"):
            return by_first_word(text)
        asks_notes = any(notes.ask(name) in text for name in NAMES)
        if place.startswith("rollout/") and asks_notes:
            name = next(name for name in NAMES if notes.ask(name) in text)
            return f"## Upgrade\n\n- {name} package {name}" if gamed in text else notes.bad.format(name)
        judge = None if place.startswith("mine/") and asks_notes else careful(REVIEW)
        return model(REVIEW, [gamed], None, judge)(call)

    context = around(home)
    ended = await night(context, answer)
    (target,) = ended.plan.targets
    held = [task.form_alone for task in target.tasks if task.split == "val"]
    assert any(held) and not all(held)
    assert ended.proposal is None and target.ended.judgement.action == "no change"
    assert target.ended.judgement.before == target.ended.judgement.after == 0.0
    read = read_run(next(context.kept.night(1).glob("01-*")))
    verdict = replay(read, find(read, "1"))
    assert verdict.agrees and verdict.action == "reject", "as `skillopt runs explain` says it"


HONEST = {
    "review": REVIEW,
    "commit message": Kind(
        ask=lambda name: (
            f"Write a commit message for this change:\n\n```\nlimit {name} to {number(name) + 1}\n```"
        ),
        good=lambda name: f"fix({name}): allow no more than {FIGURES[number(name)]}",
        said="No. We always use conventional commits.",
        rule="- Commit messages follow Conventional Commits, as in fix(part): what it does.",
    ),
    "release notes": Kind(
        ask=lambda name: f"Draft release notes: {name} now waits {number(name) + 1} seconds.",
        good=lambda name: (
            f"## Changes\n\n{name} is patient for {FIGURES[number(name)]} s.\n\n## Upgrade\n\nNo steps."
        ),
        said='No, you forgot the "Upgrade" section.',
        rule="- End release notes with a section `Upgrade` that names the steps.",
    ),
    "explanation": Kind(
        ask=lambda name: f"Explain to a beginner what a {name} of {number(name) + 1} is.",
        good=lambda name: f"A {name} holds {FIGURES[number(name)]} things, in the order they came.",
        said="No, at most 20 words please.",
        rule="- Explain in at most 20 words.",
        bad="A {}" + " is a thing that one can say a lot about" * 5,
    ),
    "standup": Kind(
        ask=lambda name: f"Write a standup update: {name} done, {number(name) + 1} tickets open.",
        good=lambda name: f"- Done: {name}\n- Open: {FIGURES[number(name)]}\n- Blockers: none",
        said='No, you must always include "Blockers: none" or what blocks.',
        rule="- Close a standup update with a line `Blockers:`.",
    ),
    "translation": Kind(
        ask=lambda name: f'Translate to German: "The {name} has {number(name) + 1} rows."',
        good=lambda name: f"{name.capitalize()} hat {FIGURES[number(name)]} Zeilen.",
        said="No, without quotes and without the English text.",
        rule="- Give translations alone, without the original.",
        bad='"The {}" means',
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HONEST)
async def test_an_honest_edit_is_shown_to_help_and_taken_by_plain_adopt(kind: str, tmp_path: Path) -> None:
    wanted = HONEST[kind]
    write_sessions(tmp_path, wanted)
    context = around(tmp_path)
    ended = await night(context, model(wanted, [wanted.rule], None, careful(wanted)))
    assert ended.proposal is not None and measured(ended)
    (target,) = ended.proposal.targets
    assert target.judgement.significance == "real" and target.judgement.after == 1.0
    assert taken_by_plain_adopt(context, ended) == [edit.id for edit in target.edits]
    assert wanted.rule in Path(target.path).read_text()


@pytest.mark.slow
async def test_an_edit_that_helps_as_often_as_it_harms_is_no_change_with_the_reason(tmp_path: Path) -> None:
    write_sessions(tmp_path, REVIEW)
    rule = "- Answer as good as you can, in turns."
    judge = careful(REVIEW)

    async def plan() -> list[str]:
        ended = await night(around(tmp_path / "first"), model(REVIEW, [], None, judge))
        return [task.prompt for task in ended.plan.targets[0].tasks if task.split == "val"]

    write_sessions(tmp_path / "first", REVIEW)
    held = [name for name in NAMES if any(f"a/{name}.py" in prompt for prompt in await plan())]
    fixed = held[:1]

    def behaviour(asked: str) -> str:
        name = next(name for name in NAMES if REVIEW.ask(name) == asked)
        return REVIEW.good(name) if name in fixed else "It is fine."

    def answer(call):  # type: ignore[no-untyped-def]
        name = next((name for name in NAMES if REVIEW.ask(name) in call.text), "")
        if (call.place or "").startswith("rollout/") and rule not in call.text and name in held[1:2]:
            return REVIEW.good(name)
        return model(REVIEW, [rule], behaviour, judge)(call)

    context = around(tmp_path, gate_mode="off")
    ended = await night(context, answer)
    judged = ended.plan.targets[0].ended.judgement
    assert ended.proposal is None and judged.action == "no change"
    assert "1 got better with it and 1 worse" in judged.why or "no better" in judged.finding


def test_every_edit_of_the_list_is_another_one() -> None:
    prompt = REVIEW.ask("cart")
    assert len(GAMED) == 20 == len({rule for rule, _ in GAMED.values()})
    assert len({behaviour(prompt) for _, behaviour in GAMED.values()}) == 20
