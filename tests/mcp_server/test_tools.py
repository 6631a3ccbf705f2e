"""What a client is told of the tools, what they take and refuse, and the command lines that calls become."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer

from cli._commands import SRC
from skillopt.cli import app
from skillopt.errors import UsageError
from skillopt.mcp import SWITCHES, TOOLS
from skillopt.mcp.place import Denied
from skillopt.mcp.resources import RUNS, TEMPLATES
from skillopt.mcp.server import ToolAnswer, answer_of, environment_scrubber
from skillopt.mcp.tools import McpTool
from skillopt.process import Finished
from skillopt.redact import Scrubber

BY_NAME = {tool.name: tool for tool in TOOLS}
PUBLIC = {
    *(f"sleep_{word}" for word in ("status", "dry_run", "run", "adopt", "harvest", "schedule", "unschedule")),
    *(f"skillopt_{word}" for word in ("list_configs", "train", "eval")),
}
PATHS = {
    "project",
    "config",
    "out_root",
    "folders",
    "skill",
    "against",
    "run",
    "tasks_file",
    "target_skill_path",
}
OTHER_TEXTS = {"budget", "proposal"}
COMMANDS = [tool for tool in TOOLS if tool.command]
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my project é"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    return folder


def words(project: Path, name: str, /, **given: Any) -> list[str]:
    """The command line of a call."""
    tool = BY_NAME[name]
    return tool.line(tool.read(given, project))


def test_there_are_at_most_fourteen_tools_and_the_public_ten_among_them() -> None:
    assert len(TOOLS) == len(BY_NAME) <= 14 and set(BY_NAME) >= PUBLIC
    assert SWITCHES == {
        "adopt": ("sleep_adopt",),
        "undo": ("sleep_undo",),
        "schedule": ("sleep_schedule", "sleep_unschedule"),
    }


@pytest.mark.parametrize("tool", TOOLS, ids=BY_NAME)
def test_every_argument_is_a_path_of_the_project_a_number_a_switch_or_a_choice(tool: McpTool) -> None:
    schema = tool.schema
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    for name, told in schema["properties"].items():
        one = told.get("items", told)
        is_text = one["type"] == "string" and "enum" not in one
        assert told["description"] and (not is_text or name in PATHS | OTHER_TEXTS), name
    assert len(json.dumps(schema)) < 3_500  # a client sends every schema to its model


def spelled(option: Any) -> str:
    return max(option.opts, key=len).lstrip("-").replace("-", "_")


@pytest.mark.parametrize("tool", COMMANDS, ids=[tool.name for tool in COMMANDS])
def test_what_a_tool_takes_and_leaves_to_the_person_are_options_of_its_command(tool: McpTool) -> None:
    path = [word for word in tool.command.split() if not word.startswith("-")]
    command: Any = typer.main.get_command(app(path[0]))
    for word in path:
        command = command.commands[word]
    options = {name.lstrip("-").replace("-", "_") for one in command.params for name in (*one.opts, one.name)}
    own = {one.name for one in command.params if one.rich_help_panel is None and not one.hidden}
    taken = set(tool.takes.model_fields) - {"project"}
    persons = {one.split()[0]: " " in one for one in tool.persons}
    flags = {spelled(one) for one in command.params if getattr(one, "is_flag", False)}
    assert not [name for name, takes_value in persons.items() if takes_value == (name in flags)]
    assert taken | set(persons) <= options
    assert {word.lstrip("-") for word in tool.command.split() if word.startswith("-")} <= options
    face = {"json", "quiet", "plain", "help", "config_argument", "cfg_options", "help_all", "proposal"}
    rest = {spelled(one) for one in command.params if one.name in own} - taken - set(persons) - face
    assert not rest, "decide in tools.py who may say it"


TRAIN = {"config": "quickstart"}


@pytest.mark.parametrize(
    ("name", "given", "command"),
    [
        (
            "skillopt_train",
            {"cfg_options": ["env.scorer=cmd: sh -c 'x'"]},
            "train CONFIG -o env.scorer=VALUE",
        ),
        ("skillopt_train", {**TRAIN, "cfg_options": "a=1"}, "train quickstart -o KEY=VALUE"),
        ("skillopt_train", {**TRAIN, "extra_args": ["--force"]}, "train quickstart -o --force=VALUE"),
        ("skillopt_train", {"config": "a b; rm", "force": True}, "train 'a b; rm' --force"),
        ("skillopt_train", {**TRAIN, "optimizer_model": "gpt"}, "train quickstart --optimizer_model VALUE"),
        ("skillopt_train", {**TRAIN, "target_model": "agent.py:run"}, "--target_model VALUE"),
        ("skillopt_train", {**TRAIN, "backend": "compatible:m@https://evil.example/v1"}, "--backend VALUE"),
        ("skillopt_train", {**TRAIN, "env": "own"}, "--env VALUE"),
        ("skillopt_train", {**TRAIN, "scorer": "os:system"}, "--scorer VALUE"),
        ("skillopt_train", {**TRAIN, "data_path": "../x"}, "--data_path VALUE"),
        ("skillopt_train", {**TRAIN, "codex_bin": "./evil"}, "--codex_bin VALUE"),
        ("skillopt_train", {**TRAIN, "openai_api_key": "sk-mine"}, "--openai_api_key VALUE"),
        ("skillopt_train", {**TRAIN, "scorer_options": {"sandbox": "off"}}, "--scorer_options VALUE"),
        ("skillopt_train", {**TRAIN, "env.scorer_options": "{}"}, "-o env.scorer_options=VALUE"),
        ("skillopt_train", {"model.proposer.agent.path": "/bin/sh"}, "-o model.proposer.agent.path=VALUE"),
        ("skillopt_train", {"model.target.base_url": "https://evil"}, "-o model.target.base_url=VALUE"),
        ("skillopt_eval", {"target": ["cmd: rm -rf ."]}, "eval CONFIG --target MODEL"),
        ("skillopt_estimate", {"measure": True}, "estimate CONFIG --measure"),
        ("sleep_run", {"model": "compatible:m@http://evil/v1"}, "sleep run --model MODEL"),
        ("sleep_run", {"reviewed": True}, "sleep run --reviewed"),
        ("sleep_schedule", {"scheduler": "cron"}, "sleep schedule --scheduler NAME"),
        ("sleep_adopt", {"edit": [3], "yes": True}, "sleep adopt --edit N --yes"),
        ("sleep_undo", {"force": True}, "sleep undo --force"),
        ("sleep_unschedule", {"all": True}, "sleep unschedule --all"),
    ],
)
def test_a_key_that_is_not_a_models_is_refused_with_the_command_of_a_person(
    project: Path, name: str, given: dict[str, Any], command: str
) -> None:
    with pytest.raises(Denied, match="a person's to say") as caught:
        words(project, name, **given)
    assert f"{command}`" in str(caught.value) and "`skillopt " in str(caught.value)


@pytest.mark.parametrize(
    "key", ["agent.path", "agent.allow_all_tools", "options.auth_mode", "base_url", "api_key"]
)
@pytest.mark.parametrize("role", ["target", "optimizer", "judge", "proposer"])
def test_no_tool_takes_what_a_role_starts_or_where_it_sends(project: Path, role: str, key: str) -> None:
    for tool in TOOLS:
        for given in ({f"model.{role}.{key}": "x"}, {"cfg_options": [f"model.{role}.{key}=x"]}):
            with pytest.raises(UsageError):
                words(project, tool.name, **given)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("skillopt_train", {"config": "/etc/passwd"}),
        ("skillopt_train", {**TRAIN, "out_root": "../run"}),
        ("skillopt_estimate", {"config": "~/.ssh/id_ed25519"}),
        ("skillopt_eval", {**TRAIN, "skill": ["fine", "link/skill"]}),
        ("skillopt_eval", {**TRAIN, "against": "~root/x"}),
        ("skillopt_eval", {**TRAIN, "run": ["/elsewhere/run"]}),
        ("skillopt_runs", {"folders": [".", "link/run"]}),
        ("sleep_run", {"tasks_file": "../tasks.json"}),
        ("sleep_schedule", {"target_skill_path": "~/.claude/skills/x/SKILL.md"}),
    ],
)
def test_no_argument_names_a_file_outside_of_the_project(
    project: Path, name: str, given: dict[str, Any]
) -> None:
    with pytest.raises(Denied, match=r"lies outside .* skillopt mcp --project DIR"):
        words(project, name, **given)


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        (
            "skillopt_train",
            {**TRAIN, "bacth_size": 3},
            "no argument 'bacth_size'. Did you mean 'batch_size'?",
        ),
        ("skillopt_train", {**TRAIN, "batch_size": "many"}, "batch_size: Input should be a valid integer"),
        ("skillopt_train", {**TRAIN, "batch_size": True}, "batch_size: Input should be a valid integer"),
        (
            "skillopt_train",
            {**TRAIN, "batch_size": 0},
            "batch_size: Input should be greater than or equal to 1",
        ),
        ("skillopt_train", {**TRAIN, "use_gate": "no"}, "use_gate: Input should be a valid boolean"),
        (
            "skillopt_train",
            {**TRAIN, "gate_metric": "sofd"},
            "gate_metric: Input should be 'hard', 'soft' or",
        ),
        ("skillopt_train", {**TRAIN, "budget": "some"}, "budget: "),
        ("skillopt_train", {**TRAIN, "json": True}, "no argument 'json'. Known: project, config"),
        ("skillopt_train", {"config": "a\0b"}, "NUL"),
        (
            "skillopt_train",
            {"config": "x" * 10_000_000},
            "config: String should have at most 4096 characters",
        ),
        ("skillopt_train", {"config": "\ud800"}, "config: Input should be a valid string"),
        ("skillopt_train", {**TRAIN, "project": 3}, "project: Input should be a valid string"),
        ("skillopt_train", {"num_epochs": 1}, "config: Field required"),
        ("skillopt_train", {**TRAIN, "x" * 10_000_000: 1}, "no argument 'xxx"),
        ("skillopt_estimate", {**TRAIN, "target_reply": 0}, "target_reply: "),
        ("skillopt_eval", {**TRAIN, "skill": "run"}, "skill: Input should be a valid list"),
        (
            "sleep_run",
            {"backend": "mock"},
            "backend: Input should be 'claude', 'codex', 'copilot' or 'handoff'",
        ),
        ("sleep_run", {"source": "cmd: x"}, "source: "),
        ("sleep_run", {"max_dollars": float("inf")}, "max_dollars: "),
        ("sleep_diff", {"proposal": "../../etc"}, "proposal: String should match pattern"),
        ("sleep_schedule", {"hour": 24}, "hour: Input should be less than or equal to 23"),
    ],
)
def test_an_argument_that_cannot_be_used_is_named(
    project: Path, name: str, given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        words(project, name, **given)
    assert complaint in str(caught.value) and len(str(caught.value)) < 600


def test_no_value_can_become_an_option_and_a_setting_is_said_in_the_words_of_the_command_line(
    project: Path,
) -> None:
    given: dict[str, Any] = {"config": "--version", "use_gate": False, "num_epochs": None, "budget": "$2"}
    assert words(project, "skillopt_train", **given) == [
        *("train", "--json", "--plain", "--config=--version", "--budget=$2", "--use_gate=false")
    ]
    diff = words(
        project, "sleep_diff", proposal="20260101-010203-0123abcd", skill=["-x", "$(id)"], edit=[1, 2]
    )
    named = ["--skill=-x", "--skill=$(id)", "--edit=1", "--edit=2", "--", "20260101-010203-0123abcd"]
    assert diff == ["sleep", "diff", *named]
    assert words(project, "sleep_run", restart=True, max_dollars=1)[-2:] == ["--max_dollars=1.0", "--restart"]
    assert words(project, "sleep_run", restart=False) == ["sleep", "run", "--json", "--plain"]


@pytest.mark.parametrize(
    ("code", "status", "is_error"),
    [
        (0, "ok", False),
        (1, "error", True),
        (2, "bad_input", True),
        (3, "stopped", True),
        (4, "budget_spent", False),
        (5, "handoff_pending", False),
        (130, "interrupted", True),
        (-9, "error", True),
    ],
)
def test_exit_codes_are_statuses_and_only_failures_are_errors(code: int, status: str, is_error: bool) -> None:
    answer = ended(code, "{}")
    assert (answer.status, answer.exit_code, answer.shown("x").is_error) == (status, code, is_error)


def ended(
    code: int, out: str = "", err: str = "", *, tool: str = "skillopt_train", scrubber: Scrubber | None = None
) -> ToolAnswer:
    done = Finished(code=code, stdout=out.encode(), stderr=err.encode())
    return answer_of(BY_NAME[tool], done, scrubber or Scrubber([]))


def test_the_short_text_of_a_failure_is_what_the_command_said_last() -> None:
    answer = ended(2, "", "0:01 step 1/4: accepted\nerror: There is no folder x.\nName another.\n")
    (text,) = answer.shown("skillopt_train").content
    said = "skillopt_train: bad input. error: There is no folder x.\nName another."
    assert text.text == said  # type: ignore[union-attr]
    assert answer.result is None and answer.messages[0] == "0:01 step 1/4: accepted"


def test_output_that_is_no_json_is_an_error_and_the_text_of_a_command_without_json_a_result() -> None:
    answer = ended(0, "half {")
    assert answer.status == "error" and answer.result is None and "no JSON" in answer.messages[-1]
    assert ended(0, "+ a\n", tool="sleep_diff").result == {"text": "+ a\n"}


def test_secrets_of_the_environment_are_in_no_part_of_an_answer() -> None:
    environ = {
        "OPENAI_API_KEY": "sk-abc123456789",
        "GITHUB_TOKEN": "ghx-987654321",
        "MAX_OUTPUT_TOKENS": "128000",
        "HOME": "/home/ann-123",
    }
    scrubber = environment_scrubber(environ, ["the-server-token-1"])
    out = json.dumps({"sk-abc123456789": ["ghx-987654321", "128000", "/home/ann-123", "the-server-token-1"]})
    answer = ended(
        0, out, "error: refused ghx-987654321\nkey AKIAIOSFODNN7EXAMPLE in a log", scrubber=scrubber
    )
    assert answer.result == {"[redacted]": ["[redacted]", "128000", "/home/ann-123", "[redacted]"]}
    assert "ghx" not in str(answer) and "AKIA" not in str(answer)


@pytest.mark.slow
def test_the_tools_are_known_without_the_mcp_package() -> None:
    program = (
        "import sys\nfor name in ('mcp', 'mcp_types', 'uvicorn', 'starlette'): sys.modules[name] = None\n"
        "from skillopt.mcp import TOOLS\nprint(TOOLS[0].name, TOOLS[0].schema['type'])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(SRC)})
    assert done.stdout == "sleep_status object\n", done.stderr


def test_the_page_says_what_the_code_does() -> None:
    page = (DOCS / "plugins.md").read_text(encoding="utf-8")
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert page == generator.mcp(page), "run: make docs"
    statuses = ToolAnswer.model_json_schema()["properties"]["status"]["enum"]
    assert [word for word in (*statuses, RUNS, *TEMPLATES) if f"`{word}`" not in page] == []
    assert f"--allow {','.join(SWITCHES)}" in page
    examples = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 4
    for text in examples:
        (servers,) = json.loads(text).values()
        assert servers["skillopt"]["command"] == "skillopt" and servers["skillopt"]["args"][0] == "mcp"
