"""Codex (`codex exec`): OpenAI's agent, by key, by an access token, or in chat by the login it keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from skillopt.agents.codex import PLUGIN
from skillopt.errors import ConfigError, Fault
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
    refuse_sdk,
    switch,
    text_setting,
)
from skillopt.transcripts.records import decoded, mapping, objects

KEY_VARIABLE = "SKILLOPT_AGENT_KEY"
_PROVIDER = "skillopt"
_HOME = ".codex"
_OFF = ("apps", "plugins", "remote_plugin", "multi_agent", "goals", "image_generation", "memories", "hooks")
"""Features that bring in what is no part of the measurement: other people's tools, helpers, notes."""
_NO_TOOLS = ("shell_tool", "unified_exec", "view_image")
_SECRETS = ["*KEY*", "*TOKEN*", "*SECRET*"]


class CodexDriver(AgentDriver):
    """Driver of `codex exec --json`."""

    name = "codex"
    binary = "codex"
    package = "npm install -g @openai/codex"
    tested = "0.166.0"
    skills = PLUGIN.skills
    providers = frozenset({"openai", "compatible"})
    credentials = ("CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_API_KEY")
    settings = frozenset(
        (
            *("path", "profile", "home", "sandbox", "network_access", "web_search", "approval_policy"),
            *("use_sdk", "reasoning_effort", "effort", "activation"),
        )
    )
    flags = (
        *("--json", "--skip-git-repo-check", "--sandbox", "--cd", "--model", "--config", "--disable"),
        *("--ignore-rules", "--image"),
    )
    help = ("exec", "--help")
    forced_by = "`$name`"
    proven_by = "its transcript, or reading the file"
    network = "off for commands"

    def ask(self, ask: Ask) -> Launch:
        """No shell, nothing to read: a prompt and an answer; the user's login, but not their settings."""
        schema = ask.place.root / "schema.json"
        arguments = [
            *self._common(ask, _OFF + _NO_TOOLS),
            *_images(ask.images),
            *("--sandbox", "read-only", "--ephemeral", "--ignore-user-config"),
            *_set("skills.include_instructions", False),
            *_set("project_doc_max_bytes", 0),
            *_set("web_search", "disabled"),
            *(["--output-schema", str(schema)] if ask.schema is not None else []),
            "-",
        ]
        files = _home_files(ask.place) | ({} if ask.schema is None else {schema: json.dumps(ask.schema)})
        return Launch(
            arguments=tuple(arguments),
            env=self._env(ask),
            stdin=ask.whole,
            files=files,
            own_home=ask.access.key is None,
        )

    def work(self, work: AgentWork) -> Launch:
        """In the workspace in its own sandbox, without network; a forced skill is named with a dollar."""
        settings = work.settings
        sandbox = choice(
            settings, "sandbox", ("read-only", "workspace-write", "danger-full-access"), "workspace-write"
        )
        network = switch(settings, "network_access", False)
        arguments = [
            *self._common(work, _OFF),
            *_images(work.images),
            *("--sandbox", sandbox),
            *_set("sandbox_workspace_write.network_access", network),
            *_set("sandbox_workspace_write.exclude_slash_tmp", True),
            *_set("web_search", "live" if switch(settings, "web_search", False) else "disabled"),
            *_set("skills.bundled.enabled", False),
            "-",
        ]
        return Launch(
            arguments=tuple(arguments),
            env=self._env(work),
            stdin=f"${work.skill} {work.prompt}" if work.is_forced else work.prompt,
            files=_home_files(work.place),
        )

    def report(self, done: Finished, place: AgentPlace, skill: str | None) -> AgentReport:
        """Read the events of the turn; an ignored setting is an error, as it is another measurement."""
        told = events.read(done.stdout)
        items = objects([event.get("item") for event in told if event.get("type") == "item.completed"])
        for item in items:
            if item.get("type") == "error" and "unrecognized configuration" in str(item.get("message")):
                raise events.fault(self.name, str(item["message"]), otherwise="contract", kind="contract")
        if (failed := events.last(told, "turn.failed")) is not None:
            error = failed.get("error")
            words = error.get("message") if isinstance(error, dict) else error
            raise self._fault(str(words or "the turn failed"))
        if (completed := events.last(told, "turn.completed")) is None:
            error = events.last(told, "error")
            raise (
                events.no_result(self.name, done) if error is None else self._fault(str(error.get("message")))
            )
        messages = tuple(_messages(items))
        answer = events.last_words(messages)
        events.refuse_login_text(self.name, answer)
        return AgentReport(
            messages=messages,
            answer=answer,
            finish="stop",
            calls=1 + sum(bool(message.tool_calls) for message in messages),
            usage=events.usage_of(
                completed.get("usage"), cached="cached_input_tokens", reasoning="reasoning_output_tokens"
            ),
            loaded=() if skill is None else self._loaded(place, messages, skill),
        )

    def _common(self, run: AgentRun, off: tuple[str, ...]) -> list[str]:
        access, settings = run.access, run.settings
        refuse_sdk(self.name, settings)
        effort = text_setting(settings, "reasoning_effort") or run.effort
        profile = text_setting(settings, "profile")
        if profile and not text_setting(settings, "home"):
            raise ConfigError(
                f"codex: the profile {profile!r} is a file in a Codex home, and a rollout has a fresh one."
                " Set home as well."
            )
        policy = choice(settings, "approval_policy", ("never", "untrusted", "on-request"), "never")
        return [
            *("exec", "--json", "--color", "never", "--skip-git-repo-check", "--ignore-rules"),
            *("--cd", str(run.place.workspace)),
            *(["--model", access.model] if access.model else []),
            *_set("approval_policy", policy),
            *_set("shell_environment_policy.exclude", _SECRETS),
            *(part for feature in off for part in ("--disable", feature)),
            *(_set("model_reasoning_effort", effort) if effort else []),
            *(["--profile", profile] if profile else []),
            *self._provider(access),
        ]

    def _provider(self, access: Access) -> list[str]:
        if access.provider == OWN:
            return []
        url = access.base_url or "https://api.openai.com/v1"
        # An inline table: TOML writes a quoted text as JSON does.
        fields = {"name": _PROVIDER, "base_url": url, "wire_api": "responses"} | (
            {"env_key": KEY_VARIABLE} if access.key else {}
        )
        table = ", ".join(f"{name}={json.dumps(value)}" for name, value in fields.items())
        return [*_set("model_provider", _PROVIDER), "--config", f"model_providers.{_PROVIDER}={{{table}}}"]

    def _env(self, run: AgentRun) -> dict[str, str]:
        access, place, env = run.access, run.place, {}
        if place.config is not None or access.key is not None or access.provider != OWN:
            env["CODEX_HOME"] = str(place.configured(_HOME))
        if access.key is not None:
            own = "CODEX_API_KEY" if access.key.startswith("sk-") else "CODEX_ACCESS_TOKEN"
            env[own if access.provider == OWN else KEY_VARIABLE] = access.key
        return env

    def _fault(self, message: str) -> Fault:
        told = mapping(decoded(message))  # a refusal is sometimes the endpoint's own JSON
        if "error" in told:
            error = mapping(told["error"])
            return events.fault(
                self.name,
                events.shown(str(error.get("message") or message)),
                otherwise="contract",
                kind="contract",
            )
        return events.fault(self.name, message, otherwise="unavailable")

    def _loaded(self, place: AgentPlace, messages: tuple[Message, ...], skill: str) -> tuple[str, ...]:
        """Its own transcript holds the skill it put before the model; reading the files is proof as well."""
        found: list[str] = []
        file = place.workspace / self.skills / skill / "SKILL.md"
        ours = f"<skill>\n<name>{skill}</name>\n<path>{file}</path>"
        for record in events.transcripts(place.configured(_HOME) / "sessions", "**/*.jsonl", place.workspace):
            payload = mapping(record.get("payload")) if record.get("type") == "response_item" else {}
            parts = objects(payload.get("content")) if payload.get("role") == "user" else []
            found += ["SKILL.md" for part in parts if str(part.get("text")).startswith(ours)]
        return events.with_read_files(found, messages, place, self.skills, skill)


def _home_files(place: AgentPlace) -> dict[Path, str]:
    """A fresh home must exist, so it holds settings that say nothing; one used in place stays as it is."""
    return {} if place.config is not None else {place.configured(_HOME) / "config.toml": ""}


def _messages(items: list[dict[str, Any]]) -> list[Message]:
    messages: list[Message] = []
    for item in items:
        number, kind = str(item.get("id")), item.get("type")
        if kind == "agent_message":
            messages.append(events.call_message(str(item.get("text") or ""), []))
        elif kind == "command_execution":
            messages.append(events.call_message("", [(number, "shell", {"command": item.get("command")})]))
            output = f"{item.get('aggregated_output') or ''}\n[exit code {item.get('exit_code')}]"
            messages.append(events.tool_message(number, output))
        elif kind in ("file_change", "mcp_tool_call", "web_search", "todo_list", "collab_tool_call"):
            outcome = {name: item[name] for name in ("status", "result", "error") if name in item}
            details = {name: item[name] for name in item if name not in ("id", "type", *outcome)}
            messages.append(events.call_message("", [(number, str(kind), details)]))
            messages.append(events.tool_message(number, json.dumps(outcome)))
    return messages


def _set(key: str, value: object) -> list[str]:
    """A configuration override; JSON is TOML for texts, numbers, truth values and lists of them."""
    return ["--config", f"{key}={json.dumps(value)}"]


def _images(paths: tuple[Path, ...]) -> list[str]:
    """Not last: the flag takes all up to the next flag, also the dash that stands for stdin."""
    return [part for path in paths for part in ("--image", str(path))]


DRIVER = CodexDriver()
