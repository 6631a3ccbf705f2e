"""Cursor CLI (`cursor-agent`), after its documented output; no binary could be tried (docs/agents.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skillopt.agents.cursor import PLUGIN
from skillopt.errors import ConfigError
from skillopt.messages import Message
from skillopt.process import Finished
from skillopt.programs import events
from skillopt.programs.port import (
    OWN,
    Access,
    AgentDriver,
    AgentPlace,
    AgentReport,
    AgentRun,
    AgentWork,
    Ask,
    Launch,
    choice,
)
from skillopt.transcripts.records import mapping, objects

_DENY_ALL = {
    "version": 1,
    "permissions": {"allow": [], "deny": ["Shell(*)", "Read(**)", "Write(**)", "Mcp(*:*)"]},
}


class CursorDriver(AgentDriver):
    """Driver of `cursor-agent -p --output-format stream-json`, the prompt on stdin."""

    name = "cursor"
    binary = "cursor-agent"
    package = "see cursor.com/cli; the npm package of that name is another program"
    tested = "documented events only"
    skills = PLUGIN.skills
    credentials = ("CURSOR_API_KEY",)
    settings = frozenset({"path", "sandbox", "activation"})
    flags = ("--print", "--output-format", "--model", "--workspace", "--trust", "--sandbox", "--force")
    images = False
    reports_usage = False
    forced_by = "asked for in words"
    proven_by = "reading the file"
    network = "as its sandbox says"

    def ask(self, ask: Ask) -> Launch:
        """In its mode that only answers, in an empty workspace, with every tool denied."""
        if ask.images or ask.schema is not None:
            raise ConfigError("cursor: the CLI takes neither images nor a reply schema.")
        folder = ask.place.home / ".cursor"
        arguments = [*self._common(ask), "--mode", "ask", "--sandbox", "enabled"]
        env = self._env(ask.access) | {"CURSOR_CONFIG_DIR": str(folder)}
        return Launch(
            arguments=tuple(arguments),
            env=env,
            stdin=ask.whole,
            files={folder / "cli-config.json": json.dumps(_DENY_ALL)},
        )

    def work(self, work: AgentWork) -> Launch:
        """In the workspace inside its sandbox. A forced skill is asked for in words."""
        if work.images:
            raise ConfigError("cursor: the CLI takes no images. Choose another harness for this benchmark.")
        if choice(work.settings, "sandbox", ("enabled", "disabled"), "enabled") == "disabled":
            raise ConfigError(
                "cursor: without its sandbox the CLI could edit anything here. Remove the setting."
            )
        arguments = [*self._common(work), "--force", "--sandbox", "enabled"]
        env = self._env(work.access) | {"CURSOR_CONFIG_DIR": str(work.place.home / ".cursor")}
        return Launch(arguments=tuple(arguments), env=env, stdin=work.demanding)

    def report(self, done: Finished, place: AgentPlace, skill: str | None) -> AgentReport:
        """Read the stream; it reports no usage, so that stays unknown."""
        told = events.read(done.stdout)
        result = events.last(told, "result")
        if result is None or done.code != 0:
            raise events.no_result(self.name, done)
        answer = str(result.get("result") or "")
        if result.get("is_error") or result.get("subtype") != "success":
            raise events.fault(self.name, answer or "the session failed", otherwise="unavailable")
        events.refuse_login_text(self.name, answer)
        messages = tuple(_messages(told))
        return AgentReport(
            messages=messages,
            answer=events.last_words(messages, answer),
            finish="stop",
            calls=1 + sum(bool(message.tool_calls) for message in messages),
            usage=None,
            model=events.model(told),
            loaded=() if skill is None else events.with_read_files((), messages, place, self.skills, skill),
        )

    def _common(self, run: AgentRun) -> list[str]:
        model = run.access.model
        return [
            *(
                "--print",
                "--output-format",
                "stream-json",
                "--trust",
                "--workspace",
                str(run.place.workspace),
            ),
            *(["--model", model] if model else []),
        ]

    def _env(self, access: Access) -> dict[str, str]:
        return {"CURSOR_API_KEY": access.key} if access.provider == OWN and access.key else {}


def _messages(told: list[dict[str, Any]]) -> list[Message]:
    messages: list[Message] = []
    for event in told:
        if event.get("type") == "assistant":
            blocks = objects(mapping(event.get("message")).get("content"))
            if text := "".join(str(block.get("text") or "") for block in blocks):
                messages.append(events.call_message(text, []))
        elif event.get("type") == "tool_call" and event.get("subtype") == "completed":
            name, call = _tool(event.get("tool_call"))
            number = str(event.get("call_id"))
            arguments = call.get("args") or call.get("arguments") or {}
            messages.append(events.call_message("", [(number, name, arguments)]))
            messages.append(events.tool_message(number, json.dumps(call.get("result"), ensure_ascii=False)))
    return messages


def _tool(data: Any) -> tuple[str, Mapping[str, Any]]:
    """Name and body: `{"readToolCall": {"args", "result"}}`, or `{"function": {"name", "arguments"}}`."""
    for name, body in data.items() if isinstance(data, dict) else ():
        if isinstance(body, dict):
            named = str(body.get("name") or name) if name == "function" else name.removesuffix("ToolCall")
            return named, body
    return "unknown", {}


DRIVER = CursorDriver()
