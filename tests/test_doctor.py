"""`skillopt doctor` says what is there, what is not, and what to do; one check never hides another, and
nothing is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from _loopback import Answer, Call, LoopbackProvider, Misbehaviour
from cli._commands import Command, Ran, run
from harnesses._stub import stub
from skillopt.agents import agent, driven, driver
from skillopt.config.load import load
from skillopt.doctor import Subject, examine
from skillopt.doctor._machine import extras
from skillopt.doctor._role import RoleCheck
from skillopt.messages import ToolCall
from skillopt.redact import Scrubber

WORLD = ("env.name=world", "env.train_cases=10", "env.val_cases=10", "env.test_cases=10")


@pytest.fixture
def skillopt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command in an empty folder, without agent programs on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return run


def answer(call: Call) -> str | Answer:
    """A model that can do everything it is asked for."""
    if call.tools:
        return Answer(tool_calls=(ToolCall(id="t", name="say", arguments='{"word": "ok"}'),))
    return '{"ok": true}' if "JSON" in call.text else "ok"


Serving = Callable[..., LoopbackProvider]


@pytest.fixture
def serving() -> Iterator[Serving]:
    """Providers on this machine that are closed afterwards."""
    with ExitStack() as stack:
        yield lambda answers=answer, **options: stack.enter_context(
            LoopbackProvider.in_thread(answers, **options)
        )


def asked(
    skillopt: Command, provider: LoopbackProvider | None, *options: str, words: tuple[str, ...] = ()
) -> tuple[Ran, dict[str, Any]]:
    """An examination of both roles behind one provider, as JSON."""
    models = (
        ()
        if provider is None
        else tuple(f"model.{role}=compatible:m@{provider.base_url}" for role in ("target", "optimizer"))
    )
    ran = skillopt("doctor --json", *words, "--cfg-options", *WORLD, *models, *options)
    return ran, ran.json


def states(found: dict[str, Any], area: str) -> dict[str, str]:
    return {check["name"]: check["state"] for check in found["checks"] if check["area"] == area}


def one(found: dict[str, Any], area: str, name: str) -> dict[str, Any]:
    (check,) = [check for check in found["checks"] if (check["area"], check["name"]) == (area, name)]
    return dict(check)


def test_a_configuration_that_works_is_fine_and_the_calls_and_their_cost_are_told(
    skillopt: Command, serving: Serving
) -> None:
    provider = serving()
    prices = [
        f"model.{role}.price.{kind}={price}"
        for role in ("target", "optimizer")
        for kind, price in (("input", 1), ("output", 2))
    ]
    ran, found = asked(skillopt, provider, *prices)
    assert (ran.code, ran.err, found["fine"]) == (0, "", True)
    base = dict.fromkeys(["configured", "price", "reachable", "logged in", "model", "call"], "fine")
    assert states(found, "target") == {**base, "harness": "fine"}
    assert states(found, "optimizer") == {**base, "structured output": "fine"}
    assert states(found, "data") == {"world": "fine", "skill": "fine"}
    assert states(found, "machine")["Python"] == "fine"
    billed = [(entry.input_tokens, entry.output_tokens) for entry in provider.log]
    assert found["spent"]["calls"] == len(billed) == 3
    assert found["spent"]["tokens"] == sum(map(sum, billed))
    assert found["spent"]["usd"] == pytest.approx(sum(read + 2 * written for read, written in billed) / 1e6)
    assert one(found, "target", "call")["facts"]["seconds"] > 0
    assert "configuration" in one(found, "target", "price")["text"]


def test_every_call_is_capped_at_a_few_tokens(skillopt: Command, serving: Serving) -> None:
    caps: list[int] = []

    def hear(call: Call) -> str | Answer:
        caps.append(call.body["max_tokens"])
        return answer(call)

    asked(skillopt, serving(hear))
    assert sorted(caps) == [16, 16, 64]


@pytest.mark.parametrize(
    ("wrong", "failed", "state", "word"),
    [
        (Misbehaviour.status(401), "logged in", "fix", "OPENAI_COMPATIBLE_API_KEY"),
        (
            Misbehaviour.status(404, body={"error": {"message": "The model `m` does not exist"}}),
            "model",
            "fix",
            "Name a model",
        ),
        (Misbehaviour.status(500), "call", "fix", "server is up"),
        (Misbehaviour.reset(), "reachable", "fix", "base_url"),
        (Misbehaviour.status(429), "call", "note", "a run waits"),
        (Misbehaviour.status(400), "call", "fix", "refuses the request"),
    ],
)
def test_a_call_that_fails_says_at_which_step_and_what_to_do(
    wrong: Misbehaviour, failed: str, state: str, word: str, skillopt: Command, serving: Serving
) -> None:
    ran, found = asked(
        skillopt, serving(behave=lambda call: wrong if "target" in (call.place or "") else None)
    )
    steps = ["reachable", "logged in", "model", "call"]
    at = steps.index(failed)
    assert [states(found, "target")[step] for step in steps] == ["fine"] * at + [state] + ["skipped"] * (
        3 - at
    )
    assert word in one(found, "target", failed)["remedy"]
    assert set(states(found, "optimizer").values()) <= {
        "fine",
        "note",
    }  # the other role is looked at all the same
    assert ran.code == (3 if state == "fix" else 0)


def test_an_endpoint_that_is_not_there_is_named_with_and_without_calls(
    skillopt: Command, serving: Serving
) -> None:
    gone = "model.target=compatible:m@http://127.0.0.1:9"
    provider = serving()
    ran, found = asked(skillopt, provider, gone)
    assert (ran.code, states(found, "target")["reachable"]) == (3, "fix")
    ran, found = asked(skillopt, provider, gone, words=("--no-calls",))
    assert (states(found, "target")["reachable"], states(found, "optimizer")["reachable"]) == ("note", "fine")


def test_without_calls_nothing_is_asked_and_what_only_a_call_tells_is_skipped(
    skillopt: Command, serving: Serving
) -> None:
    provider = serving()
    ran, found = asked(skillopt, provider, words=("--no-calls",))
    assert (ran.code, provider.calls, found["spent"]["calls"]) == (0, 0, 0)
    assert states(found, "optimizer") == {
        **dict.fromkeys(["configured", "reachable"], "fine"),
        **dict.fromkeys(["logged in", "model", "call"], "skipped"),
        "price": "note",
    }


def refuse_schemas(call: Call) -> Misbehaviour | None:
    if call.body.get("response_format", {}).get("type") != "json_schema":
        return None
    refused = {"message": "response_format json_schema is not supported", "type": "invalid", "code": None}
    return Misbehaviour.status(400, body={"error": refused})


JSON_TEXT = "JSON as asked after 1 form of asking was refused"


@pytest.mark.parametrize(
    ("speaks", "behave", "role", "name", "state", "told"),
    [
        (lambda call: "certainly!", None, "optimizer", "structured output", "fix", "no JSON object"),
        (lambda call: "certainly!", None, "optimizer", "structured output", "fix", "structured_output"),
        (answer, refuse_schemas, "optimizer", "structured output", "fine", JSON_TEXT),
        (answer, None, "target", "tools", "fine", "a tool is called when asked"),
        (lambda call: "ok", None, "target", "tools", "note", "should call them"),
    ],
)
def test_what_a_role_needs_beyond_text_is_tried(
    skillopt: Command, serving: Serving, speaks: Any, behave: Any, role: str, name: str, state: str, told: str
) -> None:
    provider = serving(speaks, behave=behave)
    target = f"model.target=tool_loop/compatible:m@{provider.base_url}"
    ran, found = asked(skillopt, provider, *([target] if role == "target" else []))
    check = one(found, role, name)
    assert check["state"] == state and told in f"{check['text']} {check.get('remedy', '')}"
    if role == "optimizer":
        assert ran.code == (3 if state == "fix" else 0)


async def test_images_are_tried_where_the_tasks_have_them(serving: Serving, tmp_path: Path) -> None:
    seen: list[str] = []

    def look(call: Call) -> str | Answer:
        seen.append(json.dumps(call.body["messages"][-1]["content"]))
        return answer(call)

    provider = serving(look)
    models = [f"model.{role}=compatible:m@{provider.base_url}" for role in ("target", "optimizer")]
    config = load(None, flags={}, options=[*WORLD, *models], environ={}, cwd=tmp_path).config
    trial = RoleCheck(config, "target", Scrubber(()))

    async def needs() -> list[str]:
        return ["vision"]

    found = await trial.run(needs, calls=True)
    assert {finding.name: finding.state for finding in found}["vision"] == "fine"
    assert "data:image/png;base64," in seen[-1]


def test_a_budget_in_dollars_needs_a_price(skillopt: Command, serving: Serving) -> None:
    provider = serving()
    assert one(asked(skillopt, provider)[1], "target", "price")["state"] == "note"
    ran, found = asked(skillopt, provider, "budget.usd=1")
    assert (ran.code, one(found, "target", "price")["state"]) == (3, "fix")
    assert "model.target.price" in one(found, "target", "price")["remedy"]
    assert found["spent"]["usd"] is None  # unknown, and not zero


def test_a_config_that_does_not_load_hides_nothing_of_the_machine(skillopt: Command) -> None:
    ran, found = asked(skillopt, None, "train.bacth_size=3")
    assert (ran.code, states(found, "configuration")) == (2, {"config": "fix"})
    assert "train.batch_size" in one(found, "configuration", "config")["text"]
    assert states(found, "machine")["Python"] == "fine"
    assert "claude_code" in states(found, "agents")


def test_a_missing_key_an_unreadable_skill_and_a_missing_program_are_told_at_once(
    skillopt: Command, tmp_path: Path
) -> None:
    options = (
        "env.skill_init=skill.md",
        "model.optimizer=openai:gpt-5.5",
        "model.target=codex/openai:gpt-5.5",
    )
    (tmp_path / "skill.md").write_bytes(b"\xff\xfe not text")
    ran, found = asked(skillopt, None, *options)
    assert ran.code == 2
    assert states(found, "data") == {"world": "fine", "skill": "fix"}
    assert "OPENAI_API_KEY" in one(found, "optimizer", "configured")["remedy"]
    assert "npm install" in one(found, "agents", "codex")["remedy"]


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script with a shebang")
def test_an_agent_program_is_tried_with_its_version_and_what_isolates_its_login(
    skillopt: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = stub(tmp_path)
    settings = (
        "model.target=claude_code/claude_cli:sonnet",
        f"model.target.agent.path={program}",
        "model.optimizer=world",
    )
    ran, found = asked(skillopt, None, *settings)
    claude = one(found, "agents", "claude_code")
    assert (claude["state"], claude["facts"]["version"], claude["facts"]["isolated_by"]) == (
        "fine",
        "9.9.9",
        None,
    )
    assert "cannot be isolated" in claude["text"]
    # its rollouts would have no login
    assert (ran.code, one(found, "target", "harness")["state"]) == (3, "fix")
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "oauth-token-1234567")
    ran, found = asked(skillopt, None, *settings)
    assert one(found, "agents", "claude_code")["facts"]["isolated_by"] == "CLAUDE_CODE_OAUTH_TOKEN"
    assert "oauth-token-1234567" not in ran.out + ran.err


LOGINS = [
    pytest.param(name, variable, id=f"{name}-{variable}")
    for name in driven()
    for variable in driver(name).credentials
]


def in_agent(tmp_path: Path, name: str) -> tuple[str, ...]:
    """Rollouts inside that program, here a stand-in, with the login it keeps itself."""
    program = stub(tmp_path, help=" ".join(driver(name).flags))
    return (
        f"model.target={name}/{agent(name).login}:m",
        f"model.target.agent.path={program}",
        "model.optimizer=world",
    )


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script with a shebang")
@pytest.mark.parametrize("name", driven())
def test_a_login_that_cannot_be_isolated_is_said_for_every_agent_with_what_would_do_it(
    name: str, skillopt: Command, tmp_path: Path
) -> None:
    ran, found = asked(skillopt, None, *in_agent(tmp_path, name))
    program, harness = one(found, "agents", name), one(found, "target", "harness")
    assert program["facts"]["isolated_by"] is None
    assert "its own login cannot be isolated" in program["text"]
    assert (ran.code, harness["state"]) == (3 if found["spent"]["tokens"] else 2, "fix")
    assert "a rollout runs in a home of its own" in harness["remedy"]
    for variable in driver(name).credentials or ("a provider",):
        assert variable in program["text"]
        assert variable in harness["remedy"]


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script with a shebang")
@pytest.mark.parametrize(("name", "variable"), LOGINS)
def test_every_variable_that_is_said_to_isolate_a_login_does(
    name: str, variable: str, skillopt: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "credential-1234567")
    ran, found = asked(skillopt, None, *in_agent(tmp_path, name), words=("--no-calls",))
    assert one(found, "agents", name)["facts"]["isolated_by"] == variable
    assert one(found, "target", "harness")["state"] == "fine", one(found, "target", "harness")
    assert "credential-1234567" not in ran.out + ran.err


def test_checks_run_side_by_side(skillopt: Command, serving: Serving) -> None:
    provider = serving(latency=lambda call: 0.3)
    asked(skillopt, provider)
    assert provider.max_in_flight == 2


def test_nothing_is_written(skillopt: Command, serving: Serving, tmp_path: Path) -> None:
    asked(skillopt, serving(), "model.target=handoff")
    assert list(tmp_path.rglob("*")) == []


def test_simulated_models_are_called_simulated_and_not_called(skillopt: Command) -> None:
    ran = skillopt("doctor quickstart")
    assert ran.code == 0
    assert "simulated: there is nothing to reach" in ran.out
    assert "Nothing must be fixed; no calls made." in ran.out


def test_few_tasks_are_told_as_they_will_be_used(skillopt: Command, tmp_path: Path) -> None:
    rows = [{"id": str(n), "prompt": f"How much is {n}?", "answer": str(n)} for n in range(20)]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("--env", "own", "--data_path", str(tmp_path / "tasks.jsonl"), "--target", "world", "--no-calls")
    ran = skillopt("doctor", *words)
    assert ran.code == 0 and "own: 20 cross-fitted tasks" in ran.out, ran.out
    assert "8 train, 8 val, 4 test" in skillopt("doctor", *words, "train.folds=1").out


def test_a_person_reads_marks_and_remedies(skillopt: Command, serving: Serving) -> None:
    provider = serving(behave=lambda call: Misbehaviour.status(401))
    ran = skillopt(
        "doctor --cfg-options",
        *WORLD,
        f"model.target=compatible:m@{provider.base_url}",
        "model.optimizer=world",
    )
    assert ran.code == 2
    assert "✗ logged in: compatible:m at" in ran.out
    assert "      Check OPENAI_COMPATIBLE_API_KEY or model.target.api_key." in ran.out
    assert "1 thing must be fixed" in ran.out


async def test_a_check_that_breaks_is_told_and_hides_nothing(tmp_path: Path) -> None:
    class Broken(dict[str, str]):
        def get(self, *_: Any) -> Any:
            raise RuntimeError("a broken environment")

    resolved = load("quickstart", flags={}, options=[], environ={}, cwd=tmp_path)
    told: list[str] = []
    found = await examine(
        Subject(resolved=resolved, environ=Broken()), news=lambda title, findings: told.append(title)
    )
    (broken,) = [one for one in found.findings if one.state == "fix"]
    assert (broken.area, "a broken environment" in broken.text) == ("agents", True)
    assert {one.area for one in found.findings} == {"target", "optimizer", "data", "agents", "machine"}
    assert sorted(told) == sorted([*set(told)] * 2)  # each began and ended


def test_extras_are_read_from_the_requirements() -> None:
    required = [
        "rich>=13",
        'azure-identity>=1.17; extra == "azure"',
        "openpyxl>=3 ; python_version > '3' and extra == 'spreadsheet'",
    ]
    assert extras(required) == {"azure": ["azure-identity"], "spreadsheet": ["openpyxl"]}
