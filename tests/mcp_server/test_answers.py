"""How the end of a command reads as the result of a tool."""

from __future__ import annotations

import json

import pytest

from skillopt.mcp.answers import OUTPUT_SCHEMA, answer_of, environment_scrubber, refusal
from skillopt.mcp.tools import TOOLS, CommandTool
from skillopt.process import Finished
from skillopt.redact import Scrubber

BY_NAME = {tool.name: tool for tool in TOOLS}
NO_SECRETS = Scrubber([])


def ended(code: int, out: str = "", err: str = "") -> Finished:
    return Finished(code=code, stdout=out.encode(), stderr=err.encode())


@pytest.mark.parametrize(
    ("name", "code", "status", "is_error"),
    [
        ("skillopt_train", 0, "ok", False),
        ("skillopt_train", 1, "error", True),
        ("skillopt_train", 2, "bad_input", True),
        ("skillopt_train", 3, "stopped", True),
        ("skillopt_train", 4, "budget_spent", False),
        ("skillopt_train", 5, "handoff_pending", False),
        ("skillopt_train", 130, "interrupted", True),
        ("skillopt_train", -9, "error", True),
        ("skillopt_doctor", 2, "needs_fixing", False),
        ("skillopt_explain", 1, "differs", False),
    ],
)
def test_exit_codes_are_statuses_and_only_failures_are_errors(
    name: str, code: int, status: str, is_error: bool
) -> None:
    answer = answer_of(BY_NAME[name], ended(code, "{}"), NO_SECRETS, speaks_json=True)
    assert (answer.status, answer.exit_code, answer.is_error) == (status, code, is_error)
    assert answer.status in OUTPUT_SCHEMA["properties"]["status"]["enum"]


def test_the_short_text_of_a_failure_is_what_the_command_said_last() -> None:
    said = "0:01 step 1/4: accepted\nerror: There is no folder x.\nName another.\n"
    answer = answer_of(BY_NAME["skillopt_train"], ended(2, "", said), NO_SECRETS, speaks_json=True)
    assert (
        answer.headline("skillopt_train")
        == "skillopt_train: bad input. error: There is no folder x.\nName another."
    )
    assert answer.result is None and answer.messages[0] == "0:01 step 1/4: accepted"


def test_output_that_is_no_json_is_an_error_and_never_a_result() -> None:
    answer = answer_of(BY_NAME["skillopt_train"], ended(0, "half {"), NO_SECRETS, speaks_json=True)
    assert answer.is_error and answer.result is None and "no JSON" in answer.messages[-1]


def test_a_part_of_the_object_and_the_text_of_a_command_without_json() -> None:
    told = json.dumps({"proposals": [1], "night": 3})
    assert answer_of(BY_NAME["sleep_proposals"], ended(0, told), NO_SECRETS, speaks_json=True).result == {
        "proposals": [1]
    }
    assert answer_of(BY_NAME["skillopt_diff"], ended(0, "+ a\n"), NO_SECRETS, speaks_json=False).result == {
        "text": "+ a\n"
    }


def test_secrets_of_the_environment_are_in_no_part_of_an_answer() -> None:
    environ = {
        "OPENAI_API_KEY": "sk-abc123456789",
        "GITHUB_TOKEN": "ghx-987654321",
        "MAX_OUTPUT_TOKENS": "128000",
        "HOME": "/home/ann-123",
    }
    scrubber = environment_scrubber(environ, ["the-server-token-1"])
    out = json.dumps({"sk-abc123456789": ["ghx-987654321", "128000", "/home/ann-123", "the-server-token-1"]})
    err = "error: refused ghx-987654321\nkey AKIAIOSFODNN7EXAMPLE in a log"
    answer = answer_of(tool(), ended(0, out, err), scrubber, speaks_json=True)
    assert answer.result == {"[redacted]": ["[redacted]", "128000", "/home/ann-123", "[redacted]"]}
    assert "ghx" not in str(answer) and "AKIA" not in str(answer)


def tool() -> CommandTool:
    return BY_NAME["skillopt_runs"]


def test_a_call_that_was_not_begun_has_no_exit_code() -> None:
    assert refusal("No.").structured() == {
        "status": "bad_input",
        "exit_code": None,
        "result": None,
        "messages": ["No."],
    }
