"""A description is trained on queries: what is measured, what is refused, what leaves the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from _loopback import Answer, Call, LoopbackProvider
from _router import SimulatedRouter
from claims.promises._runs import with_same_model
from skillopt.config.load import Resolved, load
from skillopt.errors import ConfigError, ReviewWanted, SkillError, TaskError
from skillopt.events import Judged
from skillopt.run import Job, Result, evaluate, open_run, prepare, train
from skillopt.run.description import draft_queries, wants_draft
from skillopt.run.estimation import estimate
from skillopt.runs.explain import find, replay
from skillopt.runs.log import read_events
from skillopt.runs.reader import read_run
from skillopt.skill.folder import load_skill
from skillopt.tasks.task import SPLITS

EXAMPLE = Path(__file__).parents[2] / "examples" / "triggers"
QUERIES = [json.loads(line) for line in (EXAMPLE / "triggers.jsonl").read_text().splitlines()]
NEVER, ALWAYS = "House rules of the data team.", "House rules of the data team. Use it for every request."
Say = Callable[[Call], "str | Answer"]


@pytest.fixture
def router() -> SimulatedRouter:
    return SimulatedRouter([row["prompt"] for row in QUERIES])


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    folder = tmp_path / "schema-migrations"
    folder.mkdir()
    (folder / "SKILL.md").write_text((EXAMPLE / "schema-migrations" / "SKILL.md").read_text())
    (folder / "references").mkdir()
    (folder / "references" / "locks.md").write_text("# Locks\n")
    return folder


def resolved(skill: Path, provider: LoopbackProvider | None = None, **flags: Any) -> Resolved:
    url = "http://127.0.0.1:9/v1" if provider is None else provider.base_url
    given = {
        "part": "description",
        "triggers": str(EXAMPLE / "triggers.jsonl"),
        "skill_init": str(skill),
        "out_root": str(skill.parent / "run"),
        "target_model": f"compatible:t@{url}",
        "optimizer_model": f"compatible:o@{url}",
        "failure_only": True,
        "minibatch_size": 16,
        "num_epochs": 1,
        "triggers.skills": str(EXAMPLE / "others"),
        **flags,
    }
    told = {name: value for name, value in given.items() if value is not None}
    return load(None, flags=told, options=[], environ={}, cwd=skill.parent)


async def trained(skill: Path, say: Say, **flags: Any) -> Result:
    async with LoopbackProvider(say) as provider:
        job = with_same_model(prepare(resolved(skill, provider, **flags)), skill.parent / "run")
        async with open_run(job, skill.parent / "run") as opened:
            return await train(opened)


def described(skill: Path, text: str) -> Path:
    file = skill / "SKILL.md"
    file.write_text(file.read_text().replace(NEVER, text))
    return skill


@pytest.mark.parametrize("seed", [NEVER, ALWAYS], ids=["never loads", "always loads"])
async def test_a_description_gets_better_and_nothing_else_changes(
    seed: str, skill: Path, router: SimulatedRouter
) -> None:
    before = described(skill, seed).joinpath("SKILL.md").read_text()
    result = await trained(skill, router)
    test = result.summary["test"]
    assert test["comparison"]["after"] > test["comparison"]["before"] == 0.5
    assert test["triggering"]["seed"] == {
        "recall": float(seed == ALWAYS),
        "precision": 0.5 if seed == ALWAYS else None,
    }
    assert "Recall" in result.claim and "precision" in result.claim
    # Byte for byte the same outside the description, in the file and in the folder.
    written = (result.folder / "best_skill.md").read_text()
    assert written == result.best_skill
    lines = [one for one in written.splitlines() if not one.startswith("description:")]
    assert lines == [one for one in before.splitlines() if not one.startswith("description:")]
    whole = load_skill(result.folder / "best_skill" / "schema-migrations")
    assert whole.document.text == written
    assert (
        result.folder / "best_skill" / "schema-migrations" / "references" / "locks.md"
    ).read_text() == "# Locks\n"
    assert skill.joinpath("SKILL.md").read_text() == before


async def test_every_query_is_measured_as_the_model_chose(skill: Path, router: SimulatedRouter) -> None:
    async with LoopbackProvider(router) as provider:
        job = prepare(
            resolved(described(skill, "Schema migrations: columns, indexes, constraints."), provider)
        )
        found = await evaluate(job, {"it": job.seed}, ["train", "val", "test"], skill.parent / "eval")
    rows = {row.task: row.hard for one in found for row in one.rows}
    system = job.benchmark.prompts["rollout"].replace("{skill}", job.skill.text)
    tasks = [task for split in ("train", "val", "test") for task in job.splits.of(split)]
    expected = {
        task.id: float(
            (router.choice(system, task.prompt) == "schema-migrations") is (task.kind == "should-load")
        )
        for task in tasks
    }
    assert len(rows) == 40 and rows == expected
    assert 0 < sum(rows.values()) < 40


async def test_the_target_sees_the_list_and_the_optimizer_the_body(
    skill: Path, router: SimulatedRouter
) -> None:
    asked: list[Call] = []

    def say(call: Call) -> str:
        asked.append(call)
        return router(call)

    await trained(skill, say)
    rollout = next(call for call in asked if call.place and call.place.startswith("rollout/"))
    assert f"- schema-migrations: {NEVER}\n" in rollout.text
    assert "- sql-queries: Writes, explains and tunes SQL SELECT queries." in rollout.text
    assert "lock_timeout" not in rollout.text and "Ask before you change" not in rollout.text
    analyst = next(call for call in asked if call.place and "analyst_failure" in call.place)
    assert "lock_timeout" in analyst.text and "- docker-compose:" in analyst.text
    assert "Ask before you change" not in analyst.text


async def test_an_outage_is_no_query_left_alone(skill: Path, router: SimulatedRouter) -> None:
    lost = next(row["prompt"] for row in QUERIES if not row["should_load"])

    def say(call: Call) -> str | Answer:
        return (
            "I cannot say."
            if lost in call.text and (call.place or "").startswith("rollout/")
            else router(call)
        )

    async with LoopbackProvider(say) as provider:
        job = prepare(resolved(skill, provider))
        found = await evaluate(job, {"it": job.seed}, ["train", "val", "test"], skill.parent / "eval")
    (task,) = [
        task for split in ("train", "val", "test") for task in job.splits.of(split) if task.prompt == lost
    ]
    (row,) = [row for one in found for row in one.rows if row.task == task.id]
    assert (row.hard, row.failure) == (0.0, "no choice")


async def test_a_description_that_breaks_a_rule_is_refused_before_it_is_measured(
    skill: Path, router: SimulatedRouter
) -> None:
    def say(call: Call) -> str:
        if (call.place or "").startswith("rollout/"):
            return router(call)
        edits = [{"op": "append", "content": "Use it for: <column> migration table."}]
        return json.dumps(
            {"batch_size": 1, "failure_summary": [], "patch": {"reasoning": "", "edits": edits}}
        )

    result = await trained(skill, say)
    (judged,) = [one for one in read_events(result.folder / "events.jsonl") if isinstance(one, Judged)]
    assert (judged.action, judged.decided_by, judged.rows_used) == ("reject", "rule", 0)
    assert "may not hold < or >" in judged.why
    run = read_run(result.folder)
    again = replay(run, find(run, "1"))
    assert again.agrees and "may not hold < or >" in again.reason


async def test_the_run_goes_on_where_it_stopped(skill: Path, router: SimulatedRouter) -> None:
    first = await trained(skill, router)

    def dead(call: Call) -> str:
        raise AssertionError(f"asked again at {call.place}")

    second = await trained(skill, dead)
    assert second.best_skill == first.best_skill and second.claim == first.claim


def test_other_skills_are_in_sight_before_anything_is_sent(skill: Path) -> None:
    job = prepare(resolved(skill), needs_key=False)
    told = " ".join(estimate(job).assumptions)
    names = sorted(path.name for path in (EXAMPLE / "others").iterdir())
    assert f"sent to the models by name and description alone: {', '.join(names)}" in told
    without = prepare(resolved(skill, **{"triggers.others": False}), needs_key=False)
    assert "No other skills are listed beside it" in " ".join(estimate(without).assumptions)
    assert job.identity() != without.identity()


def test_installed_skills_are_found_where_the_agent_looks(
    skill: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    for folder, name in (
        (home / ".claude/skills", "person"),
        (project / ".claude/skills", "own"),
        (home / ".claude/skills", "schema-migrations"),
        (home / ".agents/skills", "codex-only"),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does {name}.\n---\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)

    def others(**more: Any) -> list[str]:
        job = prepare(resolved(skill, **{"triggers.skills": None, **more}), needs_key=False)
        assert job.listing is not None
        return [one.name for one in job.listing.others]

    assert others() == ["own", "person"]
    assert others(**{"triggers.listed_as": "codex"}) == ["codex-only"]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"skill_init": None}, ConfigError, "changes the description of a skill of yours"),
        ({"triggers": "nowhere.jsonl"}, TaskError, "There are no queries at"),
        ({"target_model": "cmd: cat"}, ConfigError, "cannot say which skill it loaded"),
        ({"triggers.skills": "nowhere"}, ConfigError, "there is no folder"),
        ({"triggers.listed_as": "claud_code"}, Exception, "Did you mean 'claude_code'"),
    ],
)
def test_what_cannot_be_trained_is_said_before_anything_is_paid(
    skill: Path, change: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        prepare(resolved(skill, **{"triggers.skills": None, **change}), needs_key=False)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("", "has no description"),
        ("---\nname: a\ndescription: Use <it>.\n---\n", "may not hold < or >"),
        ("---\nname: A B\ndescription: Use it.\n---\n", "the name 'A B' may hold only"),
    ],
)
def test_a_skill_that_no_agent_would_list_is_refused(skill: Path, head: str, said: str) -> None:
    (skill / "SKILL.md").write_text(f"{head}# Body\n")
    with pytest.raises(SkillError, match=said):
        prepare(resolved(skill), needs_key=False)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"prompt": "a", "should_load": "maybe"}], "line 1: should_load is no true or false"),
        ([{"prompt": "a", "should_load": True}] * 2, "holds 1 queries that should load"),
        ([{"prompt": " ", "should_load": True}], "'prompt' is missing or empty"),
        (
            [{"drafted": "by m"}, *QUERIES],
            "line 1: these queries were drafted by a model and not reviewed yet",
        ),
    ],
)
def test_queries_that_cannot_be_used_are_named(skill: Path, rows: list[Any], said: str) -> None:
    file = skill.parent / "queries.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(TaskError, match=said):
        prepare(resolved(skill, triggers=str(file)), needs_key=False)


def test_every_split_holds_both_kinds_alike(skill: Path) -> None:
    for ratio, sizes in (("2:2:1", (8, 8, 4)), ("3:1:0", (15, 5, 0))):
        job = prepare(resolved(skill, **{"triggers.split_ratio": ratio}), needs_key=False)
        _check_kinds(job, sizes)


def _check_kinds(job: Job, sizes: tuple[int, int, int]) -> None:
    for split, each in zip(SPLITS, sizes, strict=True):
        kinds = [task.kind for task in job.splits.of(split)]
        assert kinds.count("should-load") == kinds.count("should-not-load") == each


@pytest.fixture
def drafts() -> Iterator[list[Call]]:
    yield []


async def test_queries_are_drafted_for_review_and_never_trained_on_unread(
    skill: Path, drafts: list[Call]
) -> None:
    tasks = skill.parent / "tasks.jsonl"
    tasks.write_text(
        "".join(json.dumps({"question": f"Task {n}: add a column", "answer": "x"}) + "\n" for n in range(10))
    )

    def say(call: Call) -> str:
        drafts.append(call)
        wanted = [f"add column {n} to orders" for n in range(4)]
        return json.dumps({"should_load": wanted, "should_not_load": [f"explain join {n}" for n in range(3)]})

    file = skill.parent / "new.jsonl"
    async with LoopbackProvider(say) as provider:
        more = {"env": "own", "data_path": str(tasks), "triggers.drafts": 12}
        config = resolved(skill, provider, triggers=str(file), **more)
        assert wants_draft(config.config)
        with pytest.raises(ReviewWanted, match="4 queries that should load the skill and 3 that should not"):
            await draft_queries(config, skill.parent / "drafts")
    first, *rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert "not reviewed" in first["drafted"] and len(drafts) == 1
    assert rows[0] == {"prompt": "add column 0 to orders", "should_load": True} and len(rows) == 7
    # Tasks of train alone, the body, and the other skills are what it was drafted from.
    shown = drafts[0].text
    assert "Write 6 requests that should load it" in shown
    assert "lock_timeout" in shown and "- sql-queries:" in shown and shown.count("<task>") == 4
    assert not wants_draft(config.config)
    with pytest.raises(TaskError, match="not reviewed yet"):
        prepare(config)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))  # the person deleted the first line
    assert len(prepare(config).splits.train) > 0


async def test_body_and_description_are_trained_in_turn(skill: Path, router: SimulatedRouter) -> None:
    body = await trained(skill, router)
    again = load_skill(body.folder / "best_skill" / "schema-migrations")
    assert again.folder is not None
    config = load(
        None,
        flags={
            "env": "world",
            "skill_init": str(again.folder),
            "target_model": "world",
            "out_root": str(skill.parent / "body"),
            "num_epochs": 1,
        },
        options=["env.train_cases=24", "env.val_cases=20", "env.test_cases=4"],
        environ={},
        cwd=skill.parent,
    )
    job = prepare(config)
    async with open_run(job, skill.parent / "body") as opened:
        result = await train(opened)
    head = again.document.frontmatter
    assert result.best_skill.startswith(head) and result.best_skill != again.document.text
