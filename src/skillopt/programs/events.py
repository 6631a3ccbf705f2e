"""Reads what a CLI printed, and decides what a failure is: a dead login, a limit, an outage, a contract."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from skillopt.errors import Fault, Kind
from skillopt.messages import Message, ToolCall, Usage
from skillopt.process import Finished
from skillopt.programs.port import AgentPlace
from skillopt.redact import redact_patterns
from skillopt.transcripts.records import decoded, mapping, objects

_SHOWN = 500
# What CLIs say, in the order in which it is believed. A number counts only where it is called a status.
_SIGNS: tuple[tuple[Kind, str], ...] = (
    (
        "contract",
        r"unknown (?:option|argument|flag|command|configuration)|unexpected argument|invalid value .* for"
        r"|unrecognized (?:option|argument|configuration)|error: option .* invalid",
    ),
    (
        "auth",
        r"not logged in|(?:please|must|need to) (?:run /?)?(?:log ?in|sign in|authenticate)"
        r"|run .{0,30}\blogin\b|authentication (?:failed|required|error)|authentication_failed"
        r"|no authentication information|invalid (?:api|x-api) ?-?key|incorrect api key|unauthorized"
        r"|oauth token|token (?:has )?expired|missing environment variable|credit balance|billing"
        r"|insufficient.?quota|subscription",
    ),
    ("auth", r"(?:status|error|http)\D{0,12}40[13]\b"),
    ("rate_limit", r"rate.?limit|too many requests|usage limit|quota|(?:status|error|http)\D{0,12}429\b"),
    (
        "contract",
        r"(?:status|error|http)\D{0,12}(?:400|404|413|422)\b|model_not_found|invalid_request"
        r"|model .{0,80}(?:not exist|not found)",
    ),
    (
        "unavailable",
        r"overloaded|high demand|server.?error|unable to connect|connection"
        r" (?:failed|refused|reset|error)|error sending request|network"
        r"|stream disconnected|(?:status|error|http)\D{0,12}5\d\d\b|\beconnre|\benotfound|fetch failed",
    ),
)
_NO_PATH = re.compile(r"[^\w./~$:-]")
# A login that is gone, told as if it were the answer.
_LOGGED_OUT = re.compile(
    r"\W{0,4}(?:not logged in|invalid api key|please (?:run /login|log ?in)|authentication"
    r" (?:failed|required))",
    re.IGNORECASE,
)


def read(stdout: bytes) -> list[dict[str, Any]]:
    """The JSON objects among the lines; anything else a CLI prints between them is left out."""
    lines = (line.strip() for line in stdout.decode("utf-8", "replace").split("\n"))
    return objects([decoded(line) for line in lines if line.startswith("{")])


def kind_of(text: str) -> Kind | None:
    """Of what a message of a CLI is a sign, or None where it says nothing we know."""
    for kind, pattern in _SIGNS:
        if re.search(pattern, text, re.IGNORECASE):
            return kind
    return None


def fault(name: str, text: str, *, otherwise: Kind, kind: Kind | None = None) -> Fault:
    """The fault that a CLI's own error message shows, with a remedy where there is one."""
    kind = kind or kind_of(text) or otherwise
    return Fault(kind, f"{name}: {shown(text)}{_REMEDIES.get(kind, '')}")


def no_result(name: str, done: Finished) -> Fault:
    """Why there is nothing to read: arguments refused, login lost, a crash, or unreadable output."""
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
    if done.cut:
        return Fault("parse", f"{name}: it printed more than can be kept, and the end of it was lost")
    if done.code != 0:
        text = f"ended with code {done.code}: {said or 'it said nothing'}"
        return fault(name, text, otherwise="spawn")
    kind = kind_of(said) if _LOGGED_OUT.match(said) else None
    return fault(
        name,
        f"printed no result that can be read: {said or 'nothing at all'}",
        otherwise="parse",
        kind=kind or "parse",
    )


def refuse_login_text(name: str, answer: str) -> None:
    """An answer that is only the CLI's own complaint about its login is no answer."""
    if len(answer) < 200 and _LOGGED_OUT.match(answer):
        raise fault(name, answer, otherwise="auth", kind="auth")


def shown(text: str) -> str:
    """A message as it may stand in an error: one line, without credentials, not too long."""
    line = " ".join(redact_patterns(text).split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "..."


def transcripts(folder: Path, pattern: str, workspace: Path) -> Iterator[dict[str, Any]]:
    """The records of every transcript below a folder that is about this workspace."""
    about = [name.encode() for name in _written(str(workspace))]
    for file in sorted(folder.glob(pattern)):
        content = file.read_bytes()
        if any(name in content for name in about):
            yield from read(content)


def _written(text: str) -> set[str]:
    """A text as JSON has it, with letters beyond ASCII as they are or escaped."""
    return {json.dumps(text, ensure_ascii=escaped)[1:-1] for escaped in (True, False)}


def tool_message(call: str, content: str) -> Message:
    """What a tool answered."""
    return Message(role="tool", content=content, tool_call_id=call)


def call_message(text: str, calls: Iterable[tuple[str, str, Any]]) -> Message:
    """What the model said together with the calls (id, name, arguments) it asked for."""
    asked = tuple(
        ToolCall(
            id=number,
            name=name,
            arguments=arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False),
        )
        for number, name, arguments in calls
    )
    return Message(role="assistant", content=text, tool_calls=asked)


def kind_of_status(status: Any) -> Kind | None:
    """What an HTTP status that a CLI reports means, or None where it reports none."""
    if not isinstance(status, int):
        return None
    if status in (401, 403):
        return "auth"
    return "rate_limit" if status == 429 else "unavailable" if status >= 500 else "contract"


def last(told: Sequence[dict[str, Any]], *kinds: str) -> dict[str, Any] | None:
    """The last event of one of these types."""
    return next((event for event in reversed(told) if event.get("type") in kinds), None)


def model(told: Iterable[dict[str, Any]]) -> str:
    """The model that the first event of a session names."""
    return str(next((event.get("model") for event in told if event.get("subtype") == "init"), "") or "")


def last_words(messages: Sequence[Message], otherwise: str = "") -> str:
    """What the agent said last."""
    said = (one.content for one in reversed(messages) if one.role == "assistant" and one.content)
    return next(said, otherwise)


def with_read_files(
    found: Iterable[str], messages: Iterable[Message], place: AgentPlace, folder: str, name: str
) -> tuple[str, ...]:
    """Files of the installed skill that were found to be loaded, and those that tool calls name, relative to
    the skill: what the agent read by itself.

    One of the same name elsewhere, in a home that is used in place, is another skill.
    """
    pattern = re.compile(rf"{re.escape(folder)}/{re.escape(name)}/([\w./-]+)")
    roots = tuple(f"{written}/" for written in _written(place.workspace.as_posix()))
    files = list(found)
    for call in (call for message in messages for call in message.tool_calls):
        said = call.arguments.replace("\\\\", "/")
        for match in pattern.finditer(said):
            before = said[: match.start()]
            if before.endswith(roots) or _NO_PATH.split(before)[-1] in ("", "./", "$PWD/"):
                files.append(match[1].rstrip("."))
    return tuple(dict.fromkeys(files))


def count(value: Any) -> int | None:
    """A token count as reported, or None where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def usage_of(data: Any, more_input: tuple[str, ...] = (), **names: str) -> Usage | None:
    """Usage in fields of which a CLI names some in its own way; its input figure leaves `more_input` out."""
    given, written = (count(mapping(data).get(name)) for name in ("input_tokens", "output_tokens"))
    if given is None or written is None:
        return None
    return Usage(
        input_tokens=given + sum(count(data.get(name)) or 0 for name in more_input),
        output_tokens=written,
        cached_tokens=count(data.get(names.get("cached", ""))),
        cache_write_tokens=count(data.get(names.get("cache_write", ""))),
        reasoning_tokens=count(data.get(names.get("reasoning", ""))),
    )


_REMEDIES: Mapping[str, str] = {
    "auth": " (log in, or set a key or token for it; see docs/agents.md)",
    "contract": (
        " (the CLI or the endpoint does not take what it was given; check its version with the table in"
        " docs/agents.md)"
    ),
}
