"""What each agent CLI printed, recorded from the real programs, becomes a report - or the right kind of
fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from agents._places import PLACE, STREAMS, printed, said
from skillopt.agents import driver
from skillopt.errors import Fault
from skillopt.messages import Usage
from skillopt.programs.port import AgentPlace
from skillopt.programs.run import fresh_place


@pytest.fixture
def place() -> Iterator[AgentPlace]:
    with fresh_place() as fresh:
        yield replace(fresh, workspace=Path("/workspace"))


def transcript(name: str, target: Path) -> None:
    """What the CLI left in its home: the recorded line, in a file that names its workspace."""
    target.parent.mkdir(parents=True)
    target.write_text((STREAMS / f"{name}_transcript.jsonl").read_text())


def test_claude_code_tells_everything_and_its_transcript_proves_the_skill(place: AgentPlace) -> None:
    transcript("claude_code", place.home / ".claude" / "projects" / "-workspace" / "s.jsonl")
    report = driver("claude_code").report(printed("claude_code"), place, "house-style")
    assert [message.role for message in report.messages] == ["assistant", "tool", "assistant"]
    (call,) = report.messages[0].tool_calls
    assert (call.name, json.loads(call.arguments)["command"]) == (
        "Bash",
        "ls -la; cat notes.txt; echo done > out.txt",
    )
    assert "note one" in report.messages[1].content
    assert (report.answer, report.finish, report.calls) == ("<answer>Paris</answer>", "stop", 2)
    assert report.usage == Usage(input_tokens=210, output_tokens=14, cached_tokens=10, cache_write_tokens=0)
    assert report.usd == Fraction("0.000813")
    assert report.loaded == ("SKILL.md",)
    assert report.model == "claude-sonnet-4-6"


def test_a_transcript_of_another_workspace_proves_nothing(place: AgentPlace) -> None:
    transcript("claude_code", place.home / ".claude" / "projects" / "-workspace" / "s.jsonl")
    elsewhere = replace(place, workspace=Path("/elsewhere"))
    assert driver("claude_code").report(printed("claude_code"), elsewhere, "house-style").loaded == ()
    assert driver("claude_code").report(printed("claude_code"), place, "other-style").loaded == ()


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("claude_code", ".claude/projects/-workspace/s.jsonl"),
        ("codex", ".codex/sessions/2026/11/15/rollout-1.jsonl"),
    ],
)
def test_a_skill_of_the_same_name_elsewhere_proves_nothing(name: str, kept: str, place: AgentPlace) -> None:
    """In a home that is used in place the user's own skill of that name would be loaded before the one that
    is measured.
    """
    transcript(name, place.home / kept)
    text = (place.home / kept).read_text()
    assert text.count("/workspace/.") == 1
    (place.home / kept).write_text(text.replace("/workspace/.", "/home/me/agents/."))
    (place.home / kept).open("a").write(json.dumps({"cwd": "/workspace"}))
    assert driver(name).report(printed(name), place, "house-style").loaded == ()


def test_copilot_s_own_skill_of_that_name_proves_nothing(place: AgentPlace) -> None:
    theirs = (
        (STREAMS / "copilot.jsonl").read_text().replace('"skillSource":"project"', '"skillSource":"personal"')
    )
    assert driver("copilot").report(said(theirs), place, "house-style").loaded == ()


@pytest.mark.parametrize(
    ("command", "loaded"),
    [
        ("cat .claude/skills/house-style/SKILL.md", ("SKILL.md",)),
        ("cat ./.claude/skills/house-style/references/a.md", ("references/a.md",)),
        ("cat /workspace/.claude/skills/house-style/SKILL.md", ("SKILL.md",)),
        ("cat ~/.claude/skills/house-style/SKILL.md", ()),
        ("cat /home/me/.claude/skills/house-style/SKILL.md", ()),
    ],
)
def test_only_files_of_the_measured_skill_count_as_read(
    command: str, loaded: tuple[str, ...], place: AgentPlace
) -> None:
    use = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": command}}
    told = [
        {"type": "assistant", "message": {"content": [use]}},
        {"type": "result", "subtype": "success", "result": "x"},
    ]
    found = driver("claude_code").report(said("\n".join(map(json.dumps, told))), place, "house-style")
    assert found.loaded == loaded


def test_a_workspace_whose_path_is_not_ascii_proves_as_well(place: AgentPlace) -> None:
    named = replace(place, workspace=Path("/tmp/ein Ort für 日本/workspace"))
    record = {
        "type": "user",
        "message": {
            "content": [
                {
                    "type": "text",
                    "text": (
                        f"Base directory for this skill: {named.workspace}/.claude/skills/house-style\n\nB"
                    ),
                }
            ]
        },
    }
    for escaped in (True, False):
        kept = place.home / ".claude" / "projects" / f"p{escaped}" / "s.jsonl"
        kept.parent.mkdir(parents=True)
        kept.write_text(json.dumps(record, ensure_ascii=escaped), encoding="utf-8")
        assert driver("claude_code").report(printed("claude_code"), named, "house-style").loaded == (
            "SKILL.md",
        )
        kept.unlink()


@pytest.mark.parametrize("error", ["out of space", ["out of space"], None, 7])
def test_a_failed_turn_of_codex_is_a_fault_in_whatever_form_it_says_why(
    error: object, place: AgentPlace
) -> None:
    told = json.dumps({"type": "turn.failed", "error": error})
    with pytest.raises(Fault, match="the turn failed" if error is None else "out of space|7"):
        driver("codex").report(said(told + "\n"), place, None)


def test_codex_tells_its_commands_and_its_transcript_proves_the_skill(place: AgentPlace) -> None:
    transcript("codex", place.home / ".codex" / "sessions" / "2026" / "11" / "15" / "rollout-1.jsonl")
    report = driver("codex").report(printed("codex"), place, "house-style")
    assert [message.role for message in report.messages] == ["assistant", "tool", "assistant"]
    assert "cat notes.txt" in report.messages[0].tool_calls[0].arguments
    assert report.messages[1].content.endswith("[exit code 0]")
    assert (report.answer, report.calls, report.loaded) == ("<answer>Paris</answer>", 2, ("SKILL.md",))
    assert report.usage == Usage(input_tokens=200, output_tokens=14, cached_tokens=10, reasoning_tokens=4)
    assert report.usd is None


def test_copilot_proves_the_skill_by_its_tool_and_counts_in_a_file(place: AgentPlace) -> None:
    (place.root / "usage.json").write_text((STREAMS / "copilot_usage.json").read_text())
    report = driver("copilot").report(printed("copilot"), place, "house-style")
    assert [message.role for message in report.messages] == ["assistant", "tool", "assistant"]
    assert report.messages[0].tool_calls[0].name == "skill"
    assert (report.answer, report.loaded) == ("<answer>Paris</answer>", ("SKILL.md",))
    assert report.usage == Usage(input_tokens=200, output_tokens=14, cached_tokens=0)
    (place.root / "usage.json").unlink()
    assert driver("copilot").report(printed("copilot"), place, None).usage is None


def test_opencode_counts_every_step(place: AgentPlace) -> None:
    report = driver("opencode").report(printed("opencode"), place, "house-style")
    assert [message.role for message in report.messages] == ["assistant", "tool", "assistant"]
    assert (report.answer, report.calls, report.loaded) == ("<answer>Paris</answer>", 2, ())
    assert report.usage == Usage(
        input_tokens=200, output_tokens=14, cached_tokens=0, cache_write_tokens=0, reasoning_tokens=0
    )


def test_cursor_in_its_documented_form(place: AgentPlace) -> None:
    report = driver("cursor").report(printed("cursor"), place, "house-style")
    assert [message.role for message in report.messages] == [
        "assistant",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    assert [call.name for message in report.messages for call in message.tool_calls] == ["read", "list"]
    assert (report.answer, report.loaded, report.usage, report.model) == (
        "<answer>Paris</answer>",
        ("SKILL.md",),
        None,
        "Composer",
    )


@pytest.mark.parametrize(
    ("name", "stream", "kind"),
    [
        ("claude_code", "claude_code_401", "auth"),
        ("claude_code", "claude_code_logged_out", "auth"),
        ("claude_code", "claude_code_429", "rate_limit"),
        ("claude_code", "claude_code_529", "unavailable"),
        ("claude_code", "claude_code_404", "contract"),
        ("codex", "codex_401", "auth"),
        ("codex", "codex_429", "rate_limit"),
        ("codex", "codex_500", "unavailable"),
        ("codex", "codex_404", "contract"),
        ("codex", "codex_400", "contract"),
        ("codex", "codex_ignored_setting", "contract"),
        ("copilot", "copilot_401", "auth"),
        ("copilot", "copilot_400", "contract"),
        ("opencode", "opencode_401", "auth"),
    ],
)
def test_a_recorded_failure_is_a_fault_of_its_kind(name: str, stream: str, kind: str) -> None:
    with pytest.raises(Fault) as caught:
        driver(name).report(printed(stream, code=1), PLACE, None)
    assert caught.value.kind == kind
    assert caught.value.detail.startswith(f"{name}: ")


NAMES = ["claude_code", "codex", "copilot", "cursor", "opencode"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("stdout", "stderr", "code", "kind"),
    [
        ("", "Segmentation fault", 139, "spawn"),
        ("", "", -9, "spawn"),
        ("", "error: unknown option '--tools'", 1, "contract"),
        ("", "error: unexpected argument '--json' found", 2, "contract"),
        ("", "Error: No authentication information found.", 1, "auth"),
        ("", "Not logged in. Please run /login", 1, "auth"),
        ("\x00\x01garbage", "", 0, "parse"),
        ("<html>502</html>", "", 0, "parse"),
        ('{"type": "half', "", 0, "parse"),
        ("[1, 2]\nnull\n", "", 0, "parse"),
        ("", "", 0, "parse"),
        ("Not logged in · Please run /login", "", 0, "auth"),
    ],
)
def test_a_cli_without_a_result_is_never_a_score(
    name: str, stdout: str, stderr: str, code: int, kind: str
) -> None:
    with pytest.raises(Fault) as caught:
        driver(name).report(said(stdout, stderr=stderr, code=code), PLACE, None)
    assert caught.value.kind == kind, caught.value


ANSWERED = {
    "claude_code": '{"type":"result","subtype":"success","is_error":false,"result":"%s"}',
    "codex": (
        '{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"%s"}}\n{"type":"turn.completed"}'
    ),
    "copilot": '{"type":"assistant.message","data":{"content":"%s"}}\n{"type":"result"}',
    "cursor": '{"type":"result","subtype":"success","is_error":false,"result":"%s"}',
    "opencode": '{"type":"text","part":{"text":"%s"}}\n{"type":"step_finish","part":{"reason":"stop"}}',
}


@pytest.mark.parametrize("name", NAMES)
def test_not_logged_in_told_as_an_answer_is_a_dead_login(name: str) -> None:
    for text in ("Not logged in · Please run /login", "Invalid API key · Fix external API key"):
        with pytest.raises(Fault) as caught:
            driver(name).report(said(ANSWERED[name] % text), PLACE, None)
        assert caught.value.kind == "auth"
    answer = "A user who is not logged in sees this page."
    report = driver(name).report(said(ANSWERED[name] % answer), PLACE, None)
    assert (report.answer, report.usage) == (answer, None)


def test_output_that_was_cut_is_said_to_be() -> None:
    with pytest.raises(Fault, match="more than can be kept"):
        driver("codex").report(replace(said('{"type": "turn.started"}'), cut=True), PLACE, None)


def test_a_sandbox_that_does_not_start_is_no_measurement() -> None:
    result = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": "Sandbox is required but failed to initialize: no socat.",
    }
    lines = [
        {"type": "user", "message": {"content": [result]}},
        {"type": "result", "subtype": "success", "result": "hm"},
    ]
    with pytest.raises(Fault) as caught:
        driver("claude_code").report(said("\n".join(map(json.dumps, lines))), PLACE, None)
    assert caught.value.kind == "sandbox"


def test_an_error_never_quotes_a_credential() -> None:
    with pytest.raises(Fault) as caught:
        driver("codex").report(
            said(stderr="Incorrect API key provided: sk-proj-abcdefghijklmnopqrstuvwx", code=1), PLACE, None
        )
    assert "abcdefghijkl" not in caught.value.detail
