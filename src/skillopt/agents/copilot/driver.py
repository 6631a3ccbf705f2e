"""GitHub Copilot CLI (`copilot`): pointed at any provider by its own variables, or with a GitHub token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillopt.agents.copilot import PLUGIN
from skillopt.errors import ConfigError, Fault, Kind
from skillopt.messages import Message, Usage
from skillopt.process import Finished
from skillopt.programs import events
from skillopt.programs.port import (
    OWN,
    AgentDriver,
    AgentPlace,
    AgentReport,
    AgentRun,
    AgentWork,
    Ask,
    Launch,
    switch,
)
from skillopt.programs.run import UNPACKED, unpacked
from skillopt.transcripts.records import mapping, objects

_COMMON = (
    *("--output-format", "json", "--stream", "off", "--no-color", "--log-level", "none"),
    *("--disable-builtin-mcps", "--no-custom-instructions", "--no-ask-user"),
    *("--no-auto-update", "--no-remote"),
)
_NO_TOOL = "none"
"""The name of no tool: an empty list would mean all of them."""
_USAGE = "usage.json"
_PROGRAM = "program"
"""The link by which a run finds the unpacked program: its environment tells nothing of the user's home."""
_KINDS: Mapping[str, Kind] = {
    "authentication": "auth",
    "authorization": "auth",
    "quota": "auth",
    "rate_limit": "rate_limit",
}


class CopilotDriver(AgentDriver):
    """Driver of `copilot --output-format json`, the prompt on stdin."""

    name = "copilot"
    binary = "copilot"
    package = "npm install -g @github/copilot"
    tested = "1.0.102"
    skills = PLUGIN.skills
    providers = frozenset({"openai", "compatible", "anthropic"})
    # GH_TOKEN and GITHUB_TOKEN may do far more than this: they are not passed on by chance
    credentials = ("COPILOT_GITHUB_TOKEN",)
    settings = frozenset({"path", "home", "effort", "allow_all_tools", "activation"})
    flags = (
        "--output-format",
        "--stream",
        "--model",
        "--allow-all-tools",
        "--available-tools",
        "--usage-output-file",
        "--no-ask-user",
    )
    forced_by = "asked for in words"
    proven_by = "its `skill` tool, or reading the file"

    def ask(self, ask: Ask) -> Launch:
        """No tools and no instructions of the user's; with the user's own login in the user's home."""
        if ask.schema is not None:
            raise ConfigError(
                "copilot: the CLI takes no reply schema. Set structured_output to 'auto' or 'off'."
            )
        arguments = [*self._common(ask), f"--available-tools={_NO_TOOL}", *_attached(ask.images)]
        env = self._env(ask)
        if ask.access.provider != OWN:
            env["COPILOT_PROVIDER_MAX_OUTPUT_TOKENS"] = str(ask.max_tokens)
        return Launch(
            arguments=tuple(arguments),
            env=env,
            stdin=ask.whole,
            links={ask.place.root / _PROGRAM: unpacked()},
            own_home=ask.access.provider == OWN and ask.access.key is None,
        )

    def work(self, work: AgentWork) -> Launch:
        """In the workspace with its tools. A skill cannot be invoked from outside, only asked for."""
        if not switch(work.settings, "allow_all_tools", True):
            raise ConfigError(
                "copilot: without allow_all_tools the CLI refuses every tool. Remove the setting."
            )
        secret = "--secret-env-vars=COPILOT_PROVIDER_API_KEY,COPILOT_GITHUB_TOKEN"
        arguments = [*self._common(work), "--allow-all-tools", secret, *_attached(work.images)]
        env = self._env(work)
        links = {work.place.root / _PROGRAM: unpacked()}
        return Launch(arguments=tuple(arguments), env=env, stdin=work.demanding, links=links)

    def report(self, done: Finished, place: AgentPlace, skill: str | None) -> AgentReport:
        """Read the session's events and the usage file it wrote at the end."""
        told = events.read(done.stdout)
        if (error := events.last(told, "session.error", "abort")) is not None:
            raise self._fault(error.get("data"))
        if done.code != 0 or events.last(told, "result") is None:
            raise events.no_result(self.name, done)
        messages = tuple(_messages(told))
        answer = events.last_words(messages)
        events.refuse_login_text(self.name, answer)
        return AgentReport(
            messages=messages,
            answer=answer,
            finish="stop",
            calls=sum(event.get("type") == "assistant.turn_start" for event in told) or 1,
            usage=_usage(place.root / _USAGE),
            loaded=() if skill is None else self._loaded(told, messages, place, skill),
        )

    def _common(self, run: AgentRun) -> list[str]:
        model = run.access.model
        return [
            *_COMMON,
            *(["--model", model] if model else []),
            *("--usage-output-file", str(run.place.root / _USAGE)),
            *(["--reasoning-effort", run.effort] if run.effort else []),
        ]

    def _env(self, run: AgentRun) -> dict[str, str]:
        access, place = run.access, run.place
        env = {"COPILOT_AUTO_UPDATE": "false"}
        if place.config is not None or access.provider != OWN or access.key is not None:
            env["COPILOT_HOME"] = str(place.configured(".copilot"))
            env[UNPACKED] = str(place.root / _PROGRAM)
        if access.provider == OWN:
            return env | ({"COPILOT_GITHUB_TOKEN": access.key} if access.key else {})
        kind = "anthropic" if access.provider == "anthropic" else "openai"
        default = "https://api.anthropic.com" if kind == "anthropic" else "https://api.openai.com/v1"
        env |= {
            "COPILOT_PROVIDER_BASE_URL": access.base_url or default,
            "COPILOT_PROVIDER_TYPE": kind,
            "COPILOT_MODEL": access.model,
            "COPILOT_OFFLINE": "true",
        }
        return env | ({"COPILOT_PROVIDER_API_KEY": access.key} if access.key else {})

    def _fault(self, data: Any) -> Fault:
        error = mapping(data)
        kind = _KINDS.get(str(error.get("errorType"))) or events.kind_of_status(error.get("statusCode"))
        return events.fault(
            self.name, str(error.get("message") or "the session failed"), otherwise="unavailable", kind=kind
        )

    def _loaded(
        self, told: list[dict[str, Any]], messages: tuple[Message, ...], place: AgentPlace, skill: str
    ) -> tuple[str, ...]:
        """Its `skill` tool says that the skill was loaded, and from where; reading it is proof too."""
        refused = {
            message.tool_call_id
            for message in messages
            if message.role == "tool" and "loaded successfully" not in message.content
        }
        refused |= {
            str(mapping(event.get("data")).get("toolCallId"))
            for event in told
            if _source(event) not in ("", "project")
        }
        calls = [call for message in messages for call in message.tool_calls if call.id not in refused]
        loads = [json.loads(call.arguments).get("skill") for call in calls if call.name == "skill"]
        found = ["SKILL.md"] if skill in loads else []
        return events.with_read_files(found, messages, place, self.skills, skill)


def _source(event: Mapping[str, Any]) -> str:
    """Where a loaded skill lies: `project` is the workspace; empty for anything else that happened."""
    telemetry = mapping(mapping(event.get("data")).get("toolTelemetry"))
    return str(mapping(telemetry.get("properties")).get("skillSource") or "")


def _messages(told: list[dict[str, Any]]) -> list[Message]:
    messages: list[Message] = []
    for event in told:
        data = mapping(event.get("data"))
        if event.get("type") == "assistant.message":
            calls = [
                (str(one.get("toolCallId")), str(one.get("name")), one.get("arguments") or {})
                for one in objects(data.get("toolRequests"))
            ]
            if data.get("content") or calls:
                messages.append(events.call_message(str(data.get("content") or ""), calls))
        elif event.get("type") == "tool.execution_complete":
            result = data.get("result") or data.get("error") or {}
            text = mapping(result).get("content") or mapping(result).get("message") or ""
            messages.append(events.tool_message(str(data.get("toolCallId")), str(text)))
    return messages


def _usage(file: Path) -> Usage | None:
    try:
        metrics = json.loads(file.read_text(encoding="utf-8"))["modelMetrics"].values()
        used = [model["usage"] for model in metrics]
    # An older version writes none, or another form: unknown.
    except (OSError, ValueError, RecursionError, KeyError, AttributeError, TypeError):
        return None
    given, written, cached = (
        sum(events.count(one.get(name)) or 0 for one in used)
        for name in ("inputTokens", "outputTokens", "cacheReadTokens")
    )
    return Usage(input_tokens=given, output_tokens=written, cached_tokens=cached) if used else None


def _attached(images: tuple[Path, ...]) -> list[str]:
    return [f"--attachment={path}" for path in images]


DRIVER = CopilotDriver()
