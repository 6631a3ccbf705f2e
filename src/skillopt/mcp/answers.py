"""The end of a command as the result of a tool: a status, the command's own object, and no secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from skillopt.mcp.tools import CommandTool
from skillopt.process import Finished
from skillopt.redact import Scrubber, names_secret, redact_patterns

STATUSES = {
    0: "ok",
    2: "bad_input",
    3: "stopped",
    4: "budget_spent",
    5: "handoff_pending",
    130: "interrupted",
}
"""What an exit code means; any other is an error."""
_FAILURES = ("error", "bad_input", "stopped", "interrupted", "refused")
_ALL = (*STATUSES.values(), "error", "refused", "needs_fixing", "differs")
_MOST_MESSAGES = 20

OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": list(_ALL), "description": "How it ended."},
        "exit_code": {
            "type": ["integer", "null"],
            "description": "Exit code of the command; null where none was started.",
        },
        "result": {
            "description": (
                "What the command prints with --json; {text} for a command without it; null where there is"
                " none."
            )
        },
        "messages": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What the command said beside its result, at the end.",
        },
    },
    "required": ["status", "exit_code", "result", "messages"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """What a call gives back."""

    status: str
    exit_code: int | None
    result: Any
    messages: tuple[str, ...]

    @property
    def is_error(self) -> bool:
        """Whether the call failed; a spent budget and open questions are outcomes, not failures."""
        return self.status in _FAILURES

    def structured(self) -> dict[str, Any]:
        """As the output schema has it."""
        return {**asdict(self), "messages": list(self.messages)}

    def headline(self, name: str) -> str:
        """One short text."""
        claim = self.result.get("claim") if isinstance(self.result, dict) else None
        ended_badly = self.is_error or self.status == "handoff_pending"
        said = "\n".join(_last_words(self.messages)) if ended_badly else str(claim or "")
        return f"{name}: {self.status.replace('_', ' ')}. {said}".strip()


def refusal(reason: str, *, status: str = "bad_input") -> ToolAnswer:
    """The answer to a call that was not begun."""
    return ToolAnswer(status=status, exit_code=None, result=None, messages=(reason,))


def answer_of(tool: CommandTool, done: Finished, scrubber: Scrubber, *, speaks_json: bool) -> ToolAnswer:
    """How a command ended."""
    status = tool.statuses.get(done.code) or STATUSES.get(done.code, "error")
    lines = [
        redact_patterns(scrubber.scrub(line))
        for line in done.stderr.decode("utf-8", "replace").splitlines()
        if line.strip()
    ]
    text = done.stdout.decode("utf-8", "replace")
    result: Any = None
    if not speaks_json:
        result = {"text": text} if text else None
    elif text.strip():
        try:
            result = json.loads(text)
        except ValueError:
            status = "error"
            lines.append(
                "The command printed more than can be handed on."
                if done.cut
                else "The command printed no JSON object."
            )
    if tool.part is not None and isinstance(result, dict):
        result = {tool.part: result.get(tool.part)}
    return ToolAnswer(
        status=status,
        exit_code=done.code,
        result=scrubber.scrub_json(result),
        messages=tuple(lines[-_MOST_MESSAGES:]),
    )


def _last_words(lines: Sequence[str]) -> Sequence[str]:
    """What a command says when it fails: from the line on that names the error as the command line does."""
    starts = [number for number, line in enumerate(lines) if line.startswith(("error: ", "stopped: "))]
    return lines[starts[-1] :] if starts else lines[-5:]


def environment_scrubber(environ: Mapping[str, str], further: Sequence[str] = ()) -> Scrubber:
    """Takes out every value of the environment that has the name of a secret."""
    named = [value for name, value in environ.items() if names_secret(name) and not value.isdigit()]
    return Scrubber([*named, *further])
