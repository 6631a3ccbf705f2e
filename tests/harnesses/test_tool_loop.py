"""The tool loop does what the model calls, tells it what came of it, and never makes a crash of
a wrong call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from _loopback import Answer, Call, LoopbackProvider
from skillopt.benchmarks import benchmarks
from skillopt.config.load import load
from skillopt.config.record import run_identity
from skillopt.errors import Fault, ModelError
from skillopt.harnesses import harnesses
from skillopt.harnesses.chat import Chat
from skillopt.harnesses.port import Session
from skillopt.harnesses.tool_loop import PLUGIN, ToolLoop
from skillopt.messages import Finish, Image, Message, Reply, Request, Tool, ToolCall, Usage
from skillopt.models import PROVIDERS
from skillopt.models.port import ModelSpec
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import Task
from skillopt.testing import ScriptedModel

ADD = Tool(
    name="add",
    description="Add to the sum.",
    parameters={"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
)
TASK = Task(id="t", prompt="the question", images=(Image(media_type="image/png", data="aGk="),))
PROMPTS = {"rollout": "Rules. {skill}"}


class Sum:
    """An environment with one tool."""

    tools: Sequence[Tool] = (ADD,)

    def __init__(self, max_turns: int = 5) -> None:
        self.max_turns = max_turns
        self.total = 0

    async def step(self, name: str, arguments: Mapping[str, object]) -> str:
        number = arguments.get("number")
        if not isinstance(number, int):
            return "add needs a number."
        self.total += number
        return f"The sum is {self.total}."

    async def close(self) -> None:
        pass


class Ending(Sum):
    """One that is over at ten, well or badly, and understands plain text."""

    failure: str | None = None

    @property
    def done(self) -> bool:
        return self.total >= 10

    async def hear(self, reply: str) -> str | None:
        return None if "stop" in reply else "Add something."


def call(arguments: str = '{"number": 2}', name: str = "add", id: str = "c1") -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


def reply(text: str = "", *calls: ToolCall, finish: Finish | None = None) -> Reply:
    return Reply(
        text=text,
        finish=finish or ("tool_calls" if calls else "stop"),
        usage=Usage(input_tokens=3, output_tokens=2),
        tool_calls=tuple(calls),
    )


async def run(
    answers: Sequence[Reply], environment: Any, harness: Any = None
) -> tuple[Trajectory, list[Request]]:
    model = ScriptedModel(answers)
    session = Session(model, key="k", stage="rollout", draw=0, max_tokens=50)
    found = await (harness or ToolLoop()).run(TASK, environment, "the skill", PROMPTS, session)
    return found, model.requests


def observed(found: Trajectory) -> list[str]:
    return [message.content for message in found.messages if message.role in ("tool", "user")]


def test_it_is_registered() -> None:
    assert harnesses.get("tool_loop") is PLUGIN
    assert PLUGIN(None).asks_model


async def test_calls_are_done_in_order_and_a_reply_without_one_is_the_answer() -> None:
    first = reply("Let me see.", call(), call('{"number": 3}', id="c2"))
    found, requests = await run(
        [first, reply("", call('{"number": 4}', id="c3")), reply("<answer>9</answer>")], Sum()
    )
    assert found.answer == "<answer>9</answer>"
    assert (found.failure, found.calls) == (None, 3)
    assert found.usage == Usage(input_tokens=9, output_tokens=6)
    assert [message.role for message in found.messages] == [
        "assistant",
        "tool",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    assert observed(found) == ["The sum is 2.", "The sum is 5.", "The sum is 9."]
    assert [message.tool_call_id for message in found.messages if message.role == "tool"] == [
        "c1",
        "c2",
        "c3",
    ]
    assert [request.place for request in requests] == ["rollout/k.0/0", "rollout/k.0/1", "rollout/k.0/2"]
    assert all(request.tools == (ADD,) for request in requests)
    assert requests[0].messages[0] == Message(role="system", content="Rules. the skill")
    assert requests[0].messages[1].images == TASK.images
    assert requests[2].messages[2:] == found.messages[:5]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (call('{"number": 2'), "The arguments of add are not JSON"),
        (call("[2]"), "The arguments of add are not a JSON object. Nothing was done."),
        (call("null"), "are not a JSON object"),
        (call("[" * 100_000), "are not JSON"),
        (call(""), "add needs a number."),
        (call('{"number": "2"}'), "add needs a number."),
        (call(name="subtract"), "There is no tool 'subtract'. Known: add. Nothing was done."),
    ],
)
async def test_a_wrong_call_is_observed_and_the_rollout_goes_on(wrong: ToolCall, words: str) -> None:
    environment = Sum()
    found, _ = await run([reply("", wrong), reply("sorry")], environment)
    assert words in observed(found)[0]
    assert (found.answer, found.failure, environment.total) == ("sorry", None, 0)


@pytest.mark.parametrize("turns", [1, 3])
async def test_running_out_of_turns_is_the_target_s_failure_also_right_after_a_call(turns: int) -> None:
    found, _ = await run([reply("", call())] * turns, Sum(turns))
    assert (found.failure, found.calls) == ("turns", turns)
    assert found.messages[-1].role == "tool"  # what was called is still done


@pytest.mark.parametrize(
    ("last", "failure"),
    [
        (reply(""), "empty"),
        (reply("no", finish="refusal"), "refusal"),
        (reply("I was", finish="length"), "length"),
        (reply("", call('{"num'), finish="length"), "length"),
    ],
)
async def test_a_reply_that_ends_the_rollout_names_why(last: Reply, failure: str) -> None:
    environment = Sum()
    found, _ = await run([reply("", call()), last], environment)
    assert (found.failure, environment.total) == (failure, 2)


async def test_a_reply_cut_by_our_own_cap_is_no_measurement() -> None:
    cut = Reply(text="", finish="length", usage=Usage(input_tokens=1, output_tokens=50))
    with pytest.raises(Fault, match="truncated"):
        await run([cut], Sum())


async def test_a_model_that_fails_is_no_action() -> None:
    environment = Sum()

    class Dead(ScriptedModel):
        async def complete(self, request: Request) -> Reply:
            raise ModelError("unavailable", "gone")

    with pytest.raises(ModelError, match="gone"):
        session = Session(Dead([]), key="k", stage="rollout", draw=0, max_tokens=50)
        await ToolLoop().run(TASK, environment, "", PROMPTS, session)
    assert environment.total == 0


@pytest.mark.parametrize("failure", [None, "turns"])
async def test_an_environment_that_is_over_ends_the_rollout_without_another_call(failure: str | None) -> None:
    environment = Ending()
    environment.failure = failure
    found, requests = await run([reply("", call('{"number": 11}'), call(id="c2"))], environment)
    assert observed(found) == ["The sum is 11.", "It is over: this call was not done."]
    assert (found.failure, len(requests), environment.total) == (failure, 1, 11)


async def test_plain_text_is_heard_where_the_environment_understands_it() -> None:
    found, _ = await run([reply("hm"), reply("", call()), reply("stop")], Ending())
    assert observed(found) == ["Add something.", "The sum is 2."]
    assert (found.failure, found.answer) == (None, "stop")


async def test_chat_ends_with_the_environment_too() -> None:
    class Talking(Ending):
        async def hear(self, reply: str) -> str | None:
            return await self.step("add", {"number": int(reply)})

    found, _ = await run([reply("4"), reply("7")], Talking(), Chat())
    assert observed(found) == ["The sum is 4.", "The sum is 11."]
    assert (found.failure, found.answer) == (None, "7")
    with pytest.raises(Fault, match="only be worked on with tools"):
        await run([reply("4")], Sum(), Chat())


async def test_without_an_environment_it_is_one_question_and_one_answer() -> None:
    found, requests = await run([reply("42")], None)
    assert (found.answer, found.failure, found.messages) == (
        "42",
        None,
        (Message(role="assistant", content="42"),),
    )
    assert requests[0].tools == ()


async def test_a_call_that_is_no_json_is_kept_as_it_was_and_sent_back_as_json() -> None:
    """A server that renders the conversation through a template would refuse all of it for one malformed
    call.
    """
    found, requests = await run([reply("", call('{"number": 2')), reply("sorry")], Sum())
    assert found.messages[0].tool_calls[0].arguments == '{"number": 2'
    assert json.loads(requests[1].messages[2].tool_calls[0].arguments) == {"malformed": '{"number": 2'}


@pytest.mark.parametrize(("name", "wrong"), [("compatible", "{"), ("anthropic", '{"number": "two"}')])
async def test_the_loop_speaks_both_wires(name: str, wrong: str) -> None:
    """Against a provider that checks every request strictly: calls and results must pair up as each wire
    wants them.
    """

    def answer(seen: Call) -> Answer:
        if len(seen.results) < 3:
            calls = (call(id=f"a{len(seen.results)}"), call(wrong, id=f"b{len(seen.results)}"))
            return Answer(text="", tool_calls=calls)
        return Answer(text=json.dumps(seen.results))

    async with LoopbackProvider(answer) as provider:
        url = provider.base_url if name == "compatible" else provider.url
        model = PROVIDERS.get(name)(ModelSpec(provider=name, name="m", base_url=url, api_key="k"))
        try:
            session = Session(model, key="k", stage="rollout", draw=0, max_tokens=500)
            found = await ToolLoop().run(TASK, Sum(), "the skill", PROMPTS, session)
        finally:
            await model.close()
    assert json.loads(found.answer)[0] == "The sum is 2."
    assert json.loads(found.answer)[1].startswith(
        "The arguments of add are not JSON" if wrong == "{" else "add needs a number"
    )
    assert json.loads(found.answer)[2] == "The sum is 4."
    assert found.failure is None


@pytest.mark.parametrize(
    ("benchmark", "written", "name", "harness"),
    [
        ("officeqa", "world", "tool_loop/world", "tool_loop"),
        ("officeqa", "tool_loop/world", "tool_loop/world", "tool_loop"),
        ("officeqa", "chat/world", "chat/world", "chat"),
        ("officeqa", "codex/openai:m", "codex/openai:m", "codex"),
        ("searchqa", "world", "world", "chat"),
        ("searchqa", "chat/world", "world", "chat"),
        ("searchqa", "tool_loop/world", "tool_loop/world", "tool_loop"),
    ],
)
def test_a_target_without_a_harness_runs_in_the_benchmark_s_own(
    benchmark: str, written: str, name: str, harness: str, tmp_path: Path
) -> None:
    from skillopt.config.roles import resolve_role

    assert benchmark in benchmarks.names()
    environ = {"OPENAI_API_KEY": "k"}
    config = load(
        None, flags={"env": benchmark, "target_model": written}, options=[], environ=environ, cwd=tmp_path
    ).config
    assert config.model.target.name == name
    assert resolve_role(config, "target").harness == harness
    assert run_identity(config)["model"]["target"]["name"] == name


def test_one_reply_is_enough_where_there_are_no_tools(tmp_path: Path) -> None:
    flags = {"env": "officeqa", "target_model": "world", "use_local_tools": False}
    assert load(None, flags=flags, options=[], environ={}, cwd=tmp_path).config.model.target.name == "world"
