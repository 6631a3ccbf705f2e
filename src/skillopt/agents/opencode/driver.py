"""OpenCode (`opencode run`): pointed at a provider by a configuration file of the run's own."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from skillopt.agents.opencode import PLUGIN
from skillopt.errors import ConfigError, Fault
from skillopt.messages import Finish, Message, Usage
from skillopt.process import Finished
from skillopt.programs import events
from skillopt.programs.port import Access, AgentDriver, AgentPlace, AgentReport, AgentWork, Ask, Launch
from skillopt.transcripts.records import mapping, objects

KEY_VARIABLE = "SKILLOPT_AGENT_KEY"
_PROVIDER = "skillopt"
_PLUGIN_PACKAGE = "@opencode-ai/plugin"
_PACKAGES = {
    "anthropic": "@ai-sdk/anthropic",
    "openai": "@ai-sdk/openai",
    "compatible": "@ai-sdk/openai-compatible",
}
_DENIED = {"webfetch": "deny", "websearch": "deny", "external_directory": "deny", "question": "deny"}
_COMMANDS = ("init", "review")
"""Commands of its own, which go before a skill of that name."""
_FINISH: Mapping[str, Finish] = {
    "stop": "stop",
    "tool-calls": "stop",  # the turns were used up, and its last words are the answer
    "length": "length",
    "content-filter": "refusal",
}
_LOADED = "Base directory for this skill: "


class OpenCodeDriver(AgentDriver):
    """Driver of `opencode run --format json`, the prompt on stdin."""

    name = "opencode"
    binary = "opencode"
    package = "npm install -g opencode-ai"
    tested = "1.18.33"
    skills = PLUGIN.skills
    providers = frozenset(_PACKAGES)
    settings = frozenset({"path", "effort", "activation"})
    flags = ("--format", "--model", "--pure", "--command", "--title", "--file")
    help = ("run", "--help")
    forced_by = "`--command name`; beside images asked for in words"
    proven_by = "its database, or reading the file"

    def ask(self, ask: Ask) -> Launch:
        """Not offered: this CLI has no service of its own, so the one behind it is the better door."""
        raise ConfigError(
            "opencode is no chat provider. Name the service behind it, such as 'anthropic:MODEL' or"
            " 'compatible:MODEL@URL'."
        )

    def work(self, work: AgentWork) -> Launch:
        """In the workspace with its tools; a forced skill is a command, beside images a request."""
        access, config = work.access, work.place.root / "opencode.json"
        if access.provider not in _PACKAGES:
            raise ConfigError(
                "opencode needs a provider, such as 'opencode/anthropic:MODEL' or"
                " 'opencode/compatible:MODEL@URL'."
            )
        is_command = work.is_forced and not work.images  # a command leaves out the files that come with it
        if is_command and work.skill in _COMMANDS:
            raise ConfigError(
                f"opencode has a command of its own named {work.skill!r}, so a skill of that name cannot be"
                " forced. Rename the skill, or set model.target.agent.activation to natural."
            )
        arguments = [
            *("run", "--pure", "--format", "json", "--title", "rollout"),
            *("--model", f"{_PROVIDER}/{access.model}"),
            *(["--variant", work.effort] if work.effort else []),
            *(["--command", str(work.skill)] if is_command else []),
            *(f"--file={path}" for path in work.images),
        ]
        off = ("AUTOUPDATE", "LSP_DOWNLOAD", "MODELS_FETCH", "CLAUDE_CODE")
        # Without these every start reads a catalogue of thousands of models and asks npm for a package that
        # only plug-ins use: a third of the CPU of a short rollout, and a registry that must be up.
        catalogue, home = work.place.root / "models.json", work.place.home / ".config" / "opencode"
        lock = {"packages": {"": {"dependencies": {_PLUGIN_PACKAGE: "*"}}}}
        env = {"OPENCODE_CONFIG": str(config), "OPENCODE_MODELS_PATH": str(catalogue)}
        env |= {f"OPENCODE_DISABLE_{name}": "1" for name in off}
        if access.key:
            env[KEY_VARIABLE] = access.key
        return Launch(
            arguments=tuple(arguments),
            env=env,
            stdin=work.prompt if is_command else work.demanding,
            files={
                config: json.dumps(_config(access, bool(work.images)), indent=1),
                catalogue: "{}",
                home / "package-lock.json": json.dumps(lock),
                home / "node_modules" / ".package-lock.json": json.dumps(lock),
            },
        )

    def report(self, done: Finished, place: AgentPlace, skill: str | None) -> AgentReport:
        """Read the parts it printed; an error among them is the end of the session."""
        told = events.read(done.stdout)
        error = next((event for event in told if event.get("type") == "error"), None)
        if error is not None:
            raise self._fault(error.get("error"))
        finished = objects([event.get("part") for event in told if event.get("type") == "step_finish"])
        if done.code != 0 or not finished:
            raise events.no_result(self.name, done)
        reason = finished[-1].get("reason")
        finish = _FINISH.get(str(reason))
        if finish is None:
            raise Fault("unavailable", f"{self.name}: its answer broke off with {reason!r}")
        messages = tuple(_messages(told))
        answer = events.last_words(messages)
        events.refuse_login_text(self.name, answer)
        return AgentReport(
            messages=messages,
            answer=answer,
            finish=finish,
            calls=len(finished),
            usage=_usage(finished),
            loaded=() if skill is None else self._loaded(place, messages, skill),
        )

    def _fault(self, error: Any) -> Fault:
        data = mapping(mapping(error).get("data"))
        return events.fault(
            self.name,
            str(data.get("message") or error),
            otherwise="unavailable",
            kind=events.kind_of_status(data.get("statusCode")),
        )

    def _loaded(self, place: AgentPlace, messages: tuple[Message, ...], skill: str) -> tuple[str, ...]:
        """Its database holds the prompt with the skill's text in it; reading the files is proof too."""
        database = place.home / ".local" / "share" / "opencode" / "opencode.db"
        wanted = f"{_LOADED}{place.workspace / self.skills / skill}"
        calls = [call for message in messages for call in message.tool_calls if call.name == "skill"]
        is_called = skill in [json.loads(call.arguments).get("name") for call in calls]
        is_loaded = is_called or any(wanted in text for text in _parts(database))
        return events.with_read_files(["SKILL.md"] if is_loaded else [], messages, place, self.skills, skill)


def _config(access: Access, has_images: bool) -> Mapping[str, Any]:
    """Its whole configuration. It drops images silently unless it is told that the model takes them."""
    options = {"baseURL": access.base_url} if access.base_url else {}
    if access.key:
        options["apiKey"] = f"{{env:{KEY_VARIABLE}}}"
    model: dict[str, Any] = {"name": access.model}
    if has_images:
        model |= {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
    provider = {
        "npm": _PACKAGES[access.provider],
        "name": _PROVIDER,
        "options": options,
        "models": {access.model: model},
    }
    return {
        "autoupdate": False,
        "share": "disabled",
        "permission": {"*": "allow", **_DENIED},
        "small_model": f"{_PROVIDER}/{access.model}",
        "provider": {_PROVIDER: provider},
    }


def _parts(database: Path) -> list[str]:
    """The texts of its messages; none where the database has another form, which is no error."""
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            rows = connection.execute("SELECT data FROM part")
            return [str(json.loads(data).get("text") or "") for (data,) in rows]
    except (sqlite3.Error, ValueError, RecursionError, AttributeError):
        return []


def _messages(told: list[dict[str, Any]]) -> list[Message]:
    messages: list[Message] = []
    for event in told:
        part = mapping(event.get("part"))
        if event.get("type") == "text" and part.get("text"):
            messages.append(events.call_message(str(part["text"]), []))
        elif event.get("type") == "tool_use":
            state = mapping(part.get("state"))
            number = str(part.get("callID"))
            messages.append(
                events.call_message("", [(number, str(part.get("tool")), state.get("input") or {})])
            )
            messages.append(events.tool_message(number, str(state.get("output") or state.get("error") or "")))
    return messages


def _usage(finished: list[dict[str, Any]]) -> Usage | None:
    steps = objects([part.get("tokens") for part in finished])
    if len(steps) != len(finished) or any(
        events.count(one.get("input")) is None or events.count(one.get("output")) is None for one in steps
    ):
        return None
    cached = sum(events.count(mapping(one.get("cache")).get("read")) or 0 for one in steps)
    written = sum(events.count(mapping(one.get("cache")).get("write")) or 0 for one in steps)
    reasoning = sum(events.count(one.get("reasoning")) or 0 for one in steps)
    return Usage(
        input_tokens=sum(one["input"] for one in steps) + cached + written,
        output_tokens=sum(one["output"] for one in steps) + reasoning,
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=reasoning,
    )


DRIVER = OpenCodeDriver()
