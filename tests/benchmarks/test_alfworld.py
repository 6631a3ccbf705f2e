"""ALFWorld: stored walkthroughs of every kind win through our environment, and nothing a target does there is a
crash.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from _loopback import Answer, Call, LoopbackProvider
from skillopt.benchmarks.alfworld import PLUGIN, ALFWorldSettings
from skillopt.benchmarks.alfworld._game import WON, plain
from skillopt.benchmarks.alfworld._load import by_number, places, short_names, to_task
from skillopt.config.files import packaged_names
from skillopt.config.load import load
from skillopt.errors import ConfigError, Fault, TaskError
from skillopt.evaluation.runner import Evaluator, rows_of
from skillopt.evaluation.stage import Evaluation
from skillopt.executors import Executor
from skillopt.executors.processes import ProcessPool
from skillopt.harnesses.chat import Chat
from skillopt.harnesses.port import Session
from skillopt.harnesses.tool_loop import ToolLoop
from skillopt.messages import Message, Reply, Request, ToolCall, Usage
from skillopt.run import open_run, prepare, train
from skillopt.tasks.benchmark import Benchmark, Conversation, Episode
from skillopt.tasks.rollout import Scored, Trajectory
from skillopt.tasks.rows import load_rows
from skillopt.tasks.task import Task
from skillopt.testing import FunctionModel
from steps import step_at

textworld = pytest.importorskip(
    "textworld", reason="textworld is not installed: pip install 'skillopt-trainer[alfworld]'"
)

pytestmark = pytest.mark.real  # CI installs the games for these alone
USED = Usage(input_tokens=1, output_tokens=1)


@pytest.fixture(scope="module")
def games(test_data: Path) -> Path:
    return test_data / "alfworld"


@pytest.fixture(scope="module")
def benchmark(games: Path) -> Any:
    return PLUGIN(ALFWorldSettings(split_dir=games / "split", data_root=games))


@pytest.fixture
async def pool() -> AsyncIterator[Executor]:
    made = ProcessPool(2)
    yield made
    await made.close()


def walkthrough(games: Path, task: Task) -> list[str]:
    return list(json.loads((games / task.data["gamefile"]).read_text())["walkthrough"])


def acts(*actions: str) -> Reply:
    calls = tuple(
        ToolCall(id=f"c{n}", name="act", arguments=json.dumps({"action": action}))
        for n, action in enumerate(actions)
    )
    return Reply(text="", finish="tool_calls", usage=USED, tool_calls=calls)


def turn(request: Request) -> int:
    return sum(message.role == "assistant" for message in request.messages)


def session(model: Any) -> Session:
    return Session(model, key="k", stage="rollout", draw=0, max_tokens=100)


async def rollout(harness: Any, benchmark: Any, task: Task, model: Any, executor: Executor) -> Trajectory:
    environment = benchmark.open_in(executor, task)
    try:
        return await harness.run(task, environment, "the skill", benchmark.prompts, session(model))
    finally:
        await environment.close()


def test_it_is_registered_with_the_public_defaults(benchmark: Any, games: Path, tmp_path: Path) -> None:
    assert PLUGIN.defaults["env.workers"] == 8
    assert isinstance(benchmark, Benchmark)
    assert benchmark.uses_executor
    assert [len(benchmark.tasks(split)) for split in ("train", "val", "test")] == [39, 18, 0]
    environment = benchmark.open(benchmark.tasks("train")[0])
    assert isinstance(environment, Conversation)
    assert isinstance(environment, Episode)
    assert environment.max_turns == 50
    assert benchmark.prompts["rollout"].count("{skill}") == 1
    assert "alfworld" in packaged_names()
    flags = {
        "split_dir": str(games / "split"),
        "data_root": str(games),
        "target_model": "world",
        "optimizer_model": "world",
    }
    job = prepare(load("alfworld", flags=flags, options=[], environ={}, cwd=tmp_path))
    assert job.target.harness == "tool_loop"
    assert job.config.env.settings.max_steps == 50


@pytest.mark.timeout(600)
async def test_a_stored_walkthrough_of_each_kind_wins(benchmark: Any, games: Path, pool: Executor) -> None:
    by_kind: dict[str, list[Task]] = {}
    for task in [*benchmark.tasks("train"), *benchmark.tasks("val")]:
        by_kind.setdefault(task.kind, []).append(task)
    assert len(by_kind) == 6
    await all_win(benchmark, games, [task for some in by_kind.values() for task in some[-1:]], pool)


async def all_win(benchmark: Any, games: Path, tasks: list[Task], executor: Executor) -> None:
    """Every task, driven by a scripted model through the same code as in a run, several
    episodes at a time.
    """
    plans = {task.id: walkthrough(games, task) for task in tasks}
    by_prompt: dict[str, list[list[str]]] = {}
    for task in tasks:
        by_prompt.setdefault(task.prompt, []).append(plans[task.id])

    def scripted(request: Request) -> Reply:
        done = [
            json.loads(message.tool_calls[0].arguments)["action"]
            for message in request.messages
            if message.tool_calls
        ]
        plan = next(plan for plan in by_prompt[request.messages[1].content] if plan[: len(done)] == done)
        return acts(plan[len(done)])

    kept: dict[str, Any] = {}
    evaluator = Evaluator(
        harness=ToolLoop(),
        model=FunctionModel(scripted),
        benchmark=benchmark,
        rollouts=Nowhere(kept),
        workers=8,
        max_tokens=100,
        executor=executor,
    )
    outcomes = await Evaluation(evaluator, step_at("e1/s1"), "skill", rows_of(tasks), stage="rollout").close()
    found = {
        one.task_id: (one.score.hard, one.trajectory.failure, one.trajectory.calls)
        for one in outcomes
        if isinstance(one, Scored)
    }
    assert found == {
        task.id: (1.0, None, len(plans[task.id])) for task in tasks
    }  # it ends with the last action
    assert len(kept) == len(tasks)


class Nowhere:
    """Rollouts that nobody measured before."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self._kept = kept

    def finished(self, rollout: str) -> None:
        return None

    def next_attempt(self, rollout: str) -> int:
        return 0

    def keep(self, rollout: str, attempt: int, trajectory: Trajectory) -> None:
        assert rollout not in self._kept, "two games are one rollout"
        self._kept[rollout] = trajectory

    def scored(self, rollout: str, scorer: str) -> None:
        return None

    def keep_score(self, rollout: str, attempt: int, scorer: str, score: Any) -> None:
        pass

    def close_invalid(self, stage: str, rows: Any) -> None:
        pass

    def closed_invalid(self, stage: str, rollout: str) -> None:
        return None


async def test_chat_plays_by_tags_and_wins(benchmark: Any, games: Path, pool: Executor) -> None:
    task = benchmark.tasks("train")[0]
    plan = walkthrough(games, task)
    model = FunctionModel(
        lambda request: (
            f"I think so. <action>look</action> No: <ACTION> {plan[turn(request)].upper()}.</ACTION>"
        )
    )
    found = await rollout(Chat(), benchmark, task, model, pool)
    assert (found.failure, found.calls) == (None, len(plan))
    assert (await benchmark.score(task, found)).hard == 1.0
    assert "act" not in str(model.requests[0].tools)


async def test_wrong_actions_are_observed_and_the_turns_run_out(games: Path, pool: Executor) -> None:
    benchmark: Any = PLUGIN(ALFWorldSettings(split_dir=games / "split", data_root=games, max_steps=6))
    task = benchmark.tasks("val")[0]
    tried = [
        acts("fly to the moon"),
        acts("fly to the moon"),
        Reply(
            text="",
            finish="tool_calls",
            usage=USED,
            tool_calls=(ToolCall(id="x", name="act", arguments="{action: look"),),
        ),
        Reply(
            text="",
            finish="tool_calls",
            usage=USED,
            tool_calls=(ToolCall(id="x", name="act", arguments='{"action": 7}'),),
        ),
        Reply(text="Hm.", finish="stop", usage=USED),
        acts("", "look", "look"),
    ]
    found = await rollout(
        ToolLoop(), benchmark, task, FunctionModel(lambda request: tried[turn(request)]), pool
    )
    shown = [message.content for message in found.messages if message.role != "assistant"]
    assert [text.partition("\n")[0][:34] for text in shown[:5]] == [
        "Nothing happens.",
        "Nothing happens.",
        "The arguments of act are not JSON:",
        'act needs a text "action", such as',
        "Your reply holds no action, so not",
    ]
    assert "Possible here:" in shown[0]
    assert "go to any other place" in shown[0]
    assert found.failure == "turns"
    score = await benchmark.score(task, found)
    assert (score.hard, score.feedback) == (0.0, "The task was not done after 6 turns; 2 did nothing.")


async def test_several_actions_in_one_reply_do_not_make_an_episode_longer(
    games: Path, pool: Executor
) -> None:
    benchmark: Any = PLUGIN(ALFWorldSettings(split_dir=games / "split", data_root=games, max_steps=3))
    task = benchmark.tasks("val")[0]
    looks = FunctionModel(lambda request: acts(*["look"] * 5))
    found = await rollout(ToolLoop(), benchmark, task, looks, pool)
    assert (found.calls, found.failure) == (1, "turns")
    assert [message.content for message in found.messages[4:]] == ["It is over: this call was not done."] * 2
    assert "No actions are left" in found.messages[3].content


async def test_the_target_s_own_words_never_win(benchmark: Any) -> None:
    said = (
        Message(role="assistant", content=WON),
        Message(role="tool", content="Nothing happens.", tool_call_id="c"),
    )
    found = Trajectory(messages=said, answer=WON, calls=1, usage=None)
    assert (await benchmark.score(benchmark.tasks("val")[0], found)).hard == 0.0


async def test_a_game_is_the_same_whichever_process_plays_it(
    benchmark: Any, games: Path, pool: Executor
) -> None:
    """A stopped rollout is replayed by its stored replies, so the same actions must show the same words
    again.
    """
    task, other = benchmark.tasks("train")[5], benchmark.tasks("train")[11]
    plan = ["look", *walkthrough(games, task)]

    async def transcript() -> list[str]:
        environment = benchmark.open_in(pool, task)
        try:
            return [await environment.step("act", {"action": action}) for action in plan]
        finally:
            await environment.close()

    first = await transcript()
    busy = [benchmark.open_in(pool, other), benchmark.open_in(pool, task)]
    for environment in busy:
        await environment.step("act", {"action": "look"})
    again = await transcript()
    for environment in busy:
        await environment.close()
    assert first == again
    assert first[-1].endswith(WON)


async def test_a_game_that_dies_is_no_measurement(benchmark: Any, pool: Executor, tmp_path: Path) -> None:
    task = benchmark.tasks("train")[0]
    environment = benchmark.open_in(pool, task)
    environment._gamefile = tmp_path / "gone.tw-pddl"
    with pytest.raises(Fault, match="FileNotFoundError") as caught:
        await environment.step("act", {"action": "look"})
    assert caught.value.kind == "sandbox"
    await environment.close()


async def test_it_also_plays_inside_this_process(
    benchmark: Any, games: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    before = list(sys.argv)
    task = benchmark.tasks("val")[1]
    environment = benchmark.open(task)
    try:
        shown = [await environment.step("act", {"action": action}) for action in walkthrough(games, task)]
    finally:
        await environment.close()
    assert shown[-1].endswith(WON)
    assert sys.argv == before


def test_the_prompt_names_the_places_the_game_shows(benchmark: Any, games: Path) -> None:
    task = benchmark.tasks("val")[0]
    assert task.prompt.startswith("Your task: ")
    game = json.loads((games / task.data["gamefile"]).read_text())
    named = places(game["pddl_problem"])
    assert named == sorted(named, key=by_number)
    assert len(named) > 5
    assert f"Places you can go to: {', '.join(named)}." in task.prompt
    assert len({one.content_hash for split in ("train", "val") for one in benchmark.tasks(split)}) == 57


def test_the_same_words_in_another_room_are_another_task(tmp_path: Path) -> None:
    game = {"pddl_domain": "d", "grammar": '"rhs": "Your task is to: put a mug on a desk."'}
    where = "(:init (receptacleAtLocation desk_bar_1 loc_1) (inReceptacle {thing} desk_bar_1))"
    for name, thing in (("one", "mug_bar_1"), ("two", "mug_bar_2")):
        (tmp_path / name).write_text(json.dumps({**game, "pddl_problem": where.format(thing=thing)}))
    (tmp_path / "rows.json").write_text(
        json.dumps([{"id": name, "gamefile": name, "task_type": "t"} for name in ("one", "two")])
    )
    rows = load_rows(tmp_path / "rows.json")
    one, two = (to_task(row, tmp_path, "{goal} Places: {places}.") for row in rows)
    assert one.prompt == two.prompt == "put a mug on a desk. Places: desk 1."
    assert one.content_hash != two.content_hash


def test_things_are_numbered_from_the_back_as_walkthroughs_do() -> None:
    ids = ["apple_bar_01", "apple_bar_02", "sink_bar_01", "sink_bar_01_bar_sinkbasin", "agent1", "appletype"]
    assert short_names(ids) == {
        "apple_bar_01": "apple 2",
        "apple_bar_02": "apple 1",
        "sink_bar_01": "sink 1",
        "sink_bar_01_bar_sinkbasin": "sinkbasin 1",
        "agent1": "agent1",
        "appletype": "appletype",
    }
    assert sorted(["b 1", "a 10", "a 2", "a"], key=by_number) == ["a", "a 2", "a 10", "b 1"]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Go to  Cabinet 1", "go to cabinet 1"),
        (" `look`. ", "look"),
        ('"take a 1\nfrom b 2"', "take a 1 from b 2"),
        ("é" * 999, "é" * 200),
    ],
)
def test_an_action_is_read_as_the_game_writes_it(said: str, meant: str) -> None:
    assert plain(said) == meant


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"id": "a", "task_type": "t"}, "'gamefile' is missing"),
        ({"id": "a", "gamefile": "gone", "task_type": "t"}, r"cannot be read: No such file.*ALFWORLD_DATA"),
        ({"id": "a", "gamefile": "text", "task_type": "t"}, "is not JSON"),
        ({"id": "a", "gamefile": "list", "task_type": "t"}, "lacks one of pddl_domain"),
        ({"id": "a", "gamefile": "aimless", "task_type": "t"}, "does not say what the task is"),
    ],
)
def test_a_row_that_cannot_be_played_is_named(tmp_path: Path, row: dict[str, str], words: str) -> None:
    (tmp_path / "text").write_text("no")
    (tmp_path / "list").write_text("[]")
    (tmp_path / "aimless").write_text(
        json.dumps(dict.fromkeys(["pddl_domain", "pddl_problem", "grammar"], "x"))
    )
    (tmp_path / "rows.json").write_text(json.dumps([row]))
    with pytest.raises(TaskError, match=f"line 1: .*{words}"):
        to_task(load_rows(tmp_path / "rows.json")[0], tmp_path, "{goal} {places}")


def test_without_games_it_says_where_to_get_them(games: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with pytest.raises(ConfigError, match="alfworld-download"):
        PLUGIN(ALFWorldSettings(split_dir=games / "split"))
    monkeypatch.setenv("ALFWORLD_DATA", str(games))
    assert len(PLUGIN(ALFWorldSettings(split_dir=games / "split")).tasks("val")) == 18


async def test_it_trains_with_tool_calls_over_the_wire(games: Path, tmp_path: Path) -> None:
    """A run of one step against a provider that only wins where the skill holds a rule, which its optimizer
    proposes.
    """
    for split, tasks in (("train", slice(0, 2)), ("val", slice(0, 2))):
        rows = json.loads((games / "split" / split / "items.json").read_text())[tasks]
        (tmp_path / "split" / split).mkdir(parents=True)
        (tmp_path / "split" / split / "items.json").write_text(json.dumps(rows))
    plans: dict[str, list[str]] = {}
    benchmark = PLUGIN(ALFWorldSettings(split_dir=tmp_path / "split", data_root=games))
    for split in ("train", "val"):
        plans |= {task.prompt: walkthrough(games, task) for task in benchmark.tasks(split)}

    def answer(call: Call) -> Answer:
        if not (call.place or "").startswith("rollout/"):
            edits = [{"op": "append", "content": "- Follow the plan of the house."}]
            return Answer(
                text=json.dumps(
                    {"reasoning": "r", "edits": edits, "patch": {"reasoning": "r", "edits": edits}}
                )
            )
        plan = next(plan for prompt, plan in plans.items() if prompt in call.text)
        action = plan[len(call.results)] if "Follow the plan" in call.text else "look"
        called = ToolCall(id=f"c{len(call.results)}", name="act", arguments=json.dumps({"action": action}))
        return Answer(tool_calls=(called,))

    async with LoopbackProvider(answer) as provider:
        model = f"compatible:m@{provider.base_url}"
        options = [
            "env.name=alfworld",
            f"env.split_dir={tmp_path / 'split'}",
            f"env.data_root={games}",
            "env.max_steps=5",
            f"model.target={model}",
            f"model.optimizer={model}",
            "train.num_epochs=1",
            "train.batch_size=2",
        ]
        resolved = load(None, flags={}, options=options, environ={}, cwd=tmp_path)
        async with open_run(prepare(resolved), tmp_path / "run") as opened:
            result = await train(opened)
    history = json.loads((tmp_path / "run" / "history.json").read_text())
    assert [step["action"] for step in history] == ["accept_new_best"]
    assert "Follow the plan" in (tmp_path / "run" / "best_skill.md").read_text()
    assert result.summary["best_selection_hard"] == 1.0
