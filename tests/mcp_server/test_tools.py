"""What a client is told of the tools is what the commands take, no more and no less."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
import typer

from cli._commands import SRC
from skillopt.cli import app
from skillopt.errors import UsageError
from skillopt.mcp import SWITCHES, Toolbox
from skillopt.mcp.answers import OUTPUT_SCHEMA
from skillopt.mcp.schema import arguments_of
from skillopt.mcp.tools import TOOLS, CommandTool

TOOLBOX = Toolbox(app)
EVERYTHING = tuple(SWITCHES)
FACE = {"json", "quiet", "plain", "help_all"}
NOT_FOR_A_MODEL = {
    "sleep_adopt": {"yes"},
    "sleep_harvest": {"output"},
    "sleep_run": {"reviewed", "log"},
    "sleep_unschedule": {"all"},
    "skillopt_train": {"config_argument", "force", "target", "optimizer", "from", "effort", "same_model"},
    "skillopt_eval": {"config_argument", "force", "same_model"},
    "skillopt_estimate": {"config_argument", "force", "target", "optimizer", "measure", "effort"},
    "skillopt_noise": {"config_argument", "force", "target"},
    "skillopt_doctor": {"config_argument", "force", "target", "optimizer"},
    "skillopt_explain": {"all"},
    "skillopt_list_configs": {"kind"},
}
"""Options of its command that a tool leaves out: a person's word, or another way to say the same."""


def command_of(tool: CommandTool) -> Any:
    """The command as the command line itself builds it."""
    found: Any = typer.main.get_command(app(tool.command[0]))
    for word in tool.command:
        found = found.commands[word]
    return found


def spelled(option: Any) -> str:
    return (
        option.name
        if option.param_type_name == "argument"
        else max(option.opts, key=len).lstrip("-").replace("-", "_")
    )


@pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])
def test_the_schema_of_a_tool_is_made_of_the_options_of_its_command(tool: CommandTool) -> None:
    schema = {spec.name: spec.schema for spec in TOOLBOX.specs(EVERYTHING)}[tool.name]
    options = {spelled(option): option for option in command_of(tool).params}
    told = {name: value for name, value in schema["properties"].items() if name != "project"}
    for name, value in told.items():
        option = options[name]
        is_list = bool(getattr(option, "multiple", False)) or option.nargs == -1
        assert (value["type"] == "array") == is_list
        assert value["description"] == " ".join(option.help.split())
        assert (name in schema.get("required", [])) == option.required
    own = {name for name, option in options.items() if option.rich_help_panel is None and not option.hidden}
    without = NOT_FOR_A_MODEL.get(tool.name, set())
    assert own - set(told) - without - FACE - {"help"} == set(), (
        "decide in tools.py, or here, whether a model may use this option"
    )
    assert without <= own and not without & set(told)
    assert schema["additionalProperties"] is False
    jsonschema.Draft202012Validator.check_schema(schema)


def test_types_and_choices_are_those_of_the_configuration() -> None:
    train = {spec.name: spec.schema["properties"] for spec in TOOLBOX.specs()}["skillopt_train"]
    kinds = {
        name: train[name]["type"] for name in ("batch_size", "use_gate", "budget", "cfg_options", "seed")
    }
    assert kinds == {
        "batch_size": "integer",
        "use_gate": "boolean",
        "budget": "string",
        "cfg_options": "array",
        "seed": "integer",
    }
    assert train["gate_metric"]["enum"] == ["hard", "soft", "mixed"]
    run = {spec.name: spec.schema["properties"] for spec in TOOLBOX.specs()}["sleep_run"]
    assert run["scope"]["enum"] == ["invoked", "all"] and run["max_dollars"]["type"] == "number"


def test_what_changes_live_files_or_the_schedule_exists_only_when_it_was_switched_on() -> None:
    always = {spec.name for spec in TOOLBOX.specs()}
    assert always.isdisjoint(
        {"sleep_adopt", "sleep_discard", "sleep_undo", "sleep_schedule", "sleep_unschedule"}
    )
    assert {spec.name for spec in TOOLBOX.specs(["undo"])} - always == {"sleep_undo"}
    assert {spec.name for spec in TOOLBOX.specs(["adopt"])} - always == {"sleep_adopt", "sleep_discard"}
    assert {spec.name for spec in TOOLBOX.specs(["schedule"])} - always == {
        "sleep_schedule",
        "sleep_unschedule",
    }


def test_no_tool_takes_a_key_or_a_program_to_start() -> None:
    words = ("key", "secret", "_path", "home")
    taken = {name for spec in TOOLBOX.specs(EVERYTHING) for name in spec.schema["properties"]} - {
        "data_path",
        "target_skill_path",
    }
    assert [name for name in taken if any(word in name for word in words)] == []


def test_no_tool_can_say_what_only_a_person_can() -> None:
    taken = {name for spec in TOOLBOX.specs(EVERYTHING) for name in spec.schema["properties"]}
    assert taken.isdisjoint({"reviewed", "auto_adopt", "allow", "all"})


def test_all_schemas_together_cost_a_model_little() -> None:
    assert len(json.dumps(TOOLBOX.specs())) < 24_000


@pytest.mark.slow
def test_the_tools_are_known_without_the_mcp_package() -> None:
    program = (
        "import sys\nfor name in ('mcp', 'mcp_types', 'uvicorn', 'starlette'): sys.modules[name] = None\nfrom"
        " skillopt.cli import app\nfrom skillopt.mcp import Toolbox\n"
        "name, description, schema = Toolbox(app).specs()[0]\nprint(name,"
        " schema['type'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(SRC)},
    )
    assert done.stdout == "sleep_status object\n", done.stderr


def test_a_setting_that_its_command_does_not_have_is_found_when_the_tools_are_made() -> None:
    with pytest.raises(UsageError, match="Did you mean 'batch_size'"):
        arguments_of(app, ("train",), ("bacth_size",))


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("skillopt_train", {"bacth_size": 3}, "no argument 'bacth_size'. Did you mean 'batch_size'?"),
        ("skillopt_train", {"batch_size": "many"}, "batch_size takes integer, not 'many'"),
        ("skillopt_train", {"batch_size": True}, "batch_size takes integer, not True"),
        ("skillopt_train", {"gate_metric": "sofd"}, "Did you mean 'soft'?"),
        ("skillopt_train", {"cfg_options": "a=1"}, "cfg_options takes a list"),
        ("skillopt_train", {"cfg_options": [1]}, "cfg_options takes a list of string"),
        ("skillopt_train", {"config": "a\0b"}, "NUL"),
        (
            "skillopt_train",
            {"config": "x" * 10_000_000},
            "config is longer than a text may be (10,000,000 characters",
        ),
        ("skillopt_train", {"config": "\ud800"}, "half of a character"),
        ("skillopt_train", {"project": "x" * 10_000_000}, "project takes the path of a folder"),
        ("skillopt_train", {"project": 3}, "project takes the path of a folder"),
        ("skillopt_train", {"json": True}, "no argument 'json'"),
        ("skillopt_estimate", {"target_reply": 0}, "target_reply cannot be 0"),
        ("skillopt_explain", {"step": "1"}, "run must be given"),
    ],
)
def test_an_argument_that_cannot_be_used_is_named(name: str, given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        TOOLBOX.arguments[name].check(given)
    assert complaint in str(caught.value) and len(str(caught.value)) < 300


def test_no_value_can_become_an_option() -> None:
    hostile = ["--version", "-q", "--out_root=/etc", "; rm -rf /", "$(id)", "a\nb", "--"]
    train = TOOLBOX.arguments["skillopt_train"].line({"config": hostile[0], "cfg_options": hostile}, "/p")
    assert train == [
        "train",
        "--json",
        "--plain",
        "--config=--version",
        *(f"--cfg-options={one}" for one in hostile),
    ]
    diff = TOOLBOX.arguments["skillopt_diff"].line({"a": "--version", "b": "-h"}, "/p")
    assert diff == ["runs", "diff", "--json", "--", "--version", "-h"]
    adopt = TOOLBOX.arguments["sleep_adopt"].line(
        {"proposal": "--all", "skill": ["-x"], "edit": [1, 2]}, "/p"
    )
    assert adopt == [
        "sleep",
        "adopt",
        "--json",
        "--project=/p",
        "--skill=-x",
        "--edit=1",
        "--edit=2",
        "--",
        "--all",
    ]


def test_a_switch_is_said_when_it_is_on_and_a_setting_in_the_words_of_the_command_line() -> None:
    runs = TOOLBOX.arguments["skillopt_runs"]
    assert runs.line({"compare": True}, "/p") == ["runs", "list", "--json", "--compare"]
    assert runs.line({"compare": False, "folders": ["a", "b"]}, "/p") == [
        "runs",
        "list",
        "--json",
        "--",
        "a",
        "b",
    ]
    assert TOOLBOX.arguments["skillopt_train"].line({"use_gate": False}, "/p")[-1] == "--use_gate=false"
    configs = next(tool for tool in TOOLS if tool.name == "skillopt_list_configs")
    assert TOOLBOX.arguments[configs.name].line({}, "/p", configs.fixed) == [
        "config",
        "list",
        "--json",
        "--",
        "configs",
    ]


def test_the_output_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(OUTPUT_SCHEMA)
