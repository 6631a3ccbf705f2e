"""Claude Code (`claude`): Anthropic's agent, by key, by a token, or in chat by the login it keeps itself."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from skillopt.agents.claude_code import PLUGIN
from skillopt.errors import Fault, Kind
from skillopt.messages import Finish, Message
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
    refuse_sdk,
    text_setting,
)
from skillopt.transcripts.records import mapping, objects, string

_TOOLS = "Bash,Read,Edit,Write,Glob,Grep,Skill"
_RETRIES = "3"
"""Its own tries after a failed call; it would else spend minutes on a refused key."""
_KINDS: Mapping[str, Kind] = {
    "authentication_failed": "auth",
    "oauth_org_not_allowed": "auth",
    "billing_error": "auth",
    "rate_limit": "rate_limit",
    "overloaded": "unavailable",
    "server_error": "unavailable",
    "model_not_found": "contract",
    "invalid_request": "contract",
}
_FINISH: Mapping[str, Finish] = {
    **dict.fromkeys(("None", "end_turn", "stop_sequence", "tool_use"), "stop"),
    "max_tokens": "length",
    "refusal": "refusal",
    "model_context_window_exceeded": "length",
}
_NO_SANDBOX = "Sandbox is required but failed to initialize"
_HOME = ".claude"
_LOADED = "Base directory for this skill: "


class ClaudeCodeDriver(AgentDriver):
    """Driver of `claude -p --output-format stream-json`."""

    name = "claude_code"
    binary = "claude"
    package = "npm install -g @anthropic-ai/claude-code"
    tested = "2.1.197"
    skills = PLUGIN.skills
    providers = frozenset({"anthropic"})
    credentials = ("CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY")
    settings = frozenset(
        ("path", "profile", "home", "use_sdk", "effort", "max_thinking_tokens", "activation")
    )
    flags = (
        *("--print", "--output-format", "--input-format", "--verbose", "--model", "--tools"),
        *("--strict-mcp-config", "--setting-sources", "--allowedTools"),
    )
    forced_by = "`/name`"
    proven_by = "its transcript, or reading the file"

    def ask(self, ask: Ask) -> Launch:
        """No tools, skills or settings: the model alone. An own login is used at home, in safe mode."""
        system = ask.place.root / "system.md"
        own = ask.access.key is None
        arguments = [
            *self._common(ask),
            *("--system-prompt-file", str(system)),
            *("--tools", "", "--setting-sources", "", "--disable-slash-commands", "--no-session-persistence"),
            *(["--safe-mode"] if own else []),
            *(["--json-schema", json.dumps(ask.schema)] if ask.schema is not None else []),
            *(["--input-format", "stream-json"] if ask.images else []),
        ]
        env = self._env(ask) | {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(ask.max_tokens)}
        return Launch(
            arguments=tuple(arguments),
            env=env,
            stdin=_message(ask.prompt, ask.images) if ask.images else ask.prompt,
            files={system: ask.system or "Answer the question."},
            own_home=own,
        )

    def work(self, work: AgentWork) -> Launch:
        """In the workspace with file and shell tools; a forced skill is invoked as a slash command."""
        arguments = [
            *self._common(work),
            *("--permission-mode", "acceptEdits", "--tools", _TOOLS, "--allowedTools", _TOOLS),
            *("--setting-sources", "project"),
        ]
        prompt = work.prompt
        if work.images:  # at work it takes images by reading files
            paths = ", ".join(str(path.relative_to(work.place.workspace)) for path in work.images)
            prompt += f"\n\nImages that belong to this (read each of them first): {paths}"
        return Launch(
            arguments=tuple(arguments),
            env=self._env(work),
            stdin=f"/{work.skill} {prompt}" if work.is_forced else prompt,
        )

    def report(self, done: Finished, place: AgentPlace, skill: str | None) -> AgentReport:
        """Read the stream; a result that says it is an error is one, whatever its text."""
        told = events.read(done.stdout)
        result = events.last(told, "result")
        if result is None:
            raise events.no_result(self.name, done)
        answer = str(result.get("result") or "")
        subtype = str(result.get("subtype"))
        if result.get("is_error") and subtype != "error_max_turns":
            raise self._fault(result, told, answer)
        finish = "turns" if subtype == "error_max_turns" else _FINISH.get(str(result.get("stop_reason")))
        if finish is None:
            raise Fault("unavailable", f"{self.name}: its answer broke off with {result['stop_reason']!r}")
        events.refuse_login_text(self.name, answer)
        if isinstance(result.get("structured_output"), (dict, list)):
            answer = json.dumps(result["structured_output"], ensure_ascii=False)
        messages = tuple(_messages(told))
        for message in messages:
            if message.role == "tool" and message.content.startswith(_NO_SANDBOX):
                raise Fault("sandbox", f"{self.name}: {message.content}")
        usd = result.get("total_cost_usd")
        return AgentReport(
            messages=messages,
            answer=answer,
            finish=finish,
            calls=events.count(result.get("num_turns")) or 1,
            usage=events.usage_of(
                result.get("usage"),
                ("cache_read_input_tokens", "cache_creation_input_tokens"),
                cached="cache_read_input_tokens",
                cache_write="cache_creation_input_tokens",
            ),
            usd=Fraction(str(usd)) if isinstance(usd, (int, float)) and not isinstance(usd, bool) else None,
            model=events.model(told),
            loaded=() if skill is None else self._loaded(place, messages, skill),
        )

    def _common(self, run: AgentRun) -> list[str]:
        refuse_sdk(self.name, run.settings)
        model, profile = run.access.model, text_setting(run.settings, "profile")
        return [
            *("--print", "--output-format", "stream-json", "--verbose", "--strict-mcp-config"),
            *(["--model", model] if model else []),
            *(["--effort", run.effort] if run.effort else []),
            *(["--settings", profile] if profile else []),
        ]

    def _env(self, run: AgentRun) -> dict[str, str]:
        access, place = run.access, run.place
        env = {
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            # A stray CLAUDE.md, the skills it brings along and its memory are no part of the measurement.
            "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
            "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
            "CLAUDE_CODE_MAX_RETRIES": _RETRIES,
            "CLAUDE_CODE_TMPDIR": str(place.temp),
        }
        if place.config is not None or access.key is not None:
            env["CLAUDE_CONFIG_DIR"] = str(place.configured(_HOME))
        if access.key is not None:
            is_token = access.provider == OWN and access.key.startswith(PLUGIN.token_prefix)
            env["CLAUDE_CODE_OAUTH_TOKEN" if is_token else "ANTHROPIC_API_KEY"] = access.key
        if access.base_url is not None:
            env["ANTHROPIC_BASE_URL"] = access.base_url.rstrip("/").removesuffix("/v1")
        if (thinking := run.settings.get("max_thinking_tokens")) is not None:
            env["MAX_THINKING_TOKENS"] = str(thinking)
        return env

    def _fault(self, result: Mapping[str, Any], told: list[dict[str, Any]], answer: str) -> Fault:
        said = events.last([event for event in told if event.get("error")], "assistant") or {}
        kind = _KINDS.get(str(said.get("error"))) or events.kind_of_status(result.get("api_error_status"))
        return events.fault(
            self.name, answer or f"it ended with {result.get('subtype')}", otherwise="unavailable", kind=kind
        )

    def _loaded(self, place: AgentPlace, messages: tuple[Message, ...], skill: str) -> tuple[str, ...]:
        """Its transcript shows the skill's text where it was put before the model; so does reading it.

        A skill of this name in a home that is used in place goes first, and proves nothing.
        """
        found: list[str] = []
        ours = f"{_LOADED}{place.workspace / self.skills / skill}"
        for record in events.transcripts(place.configured(_HOME) / "projects", "*/*.jsonl", place.workspace):
            content = record.get("message", {}).get("content") if record.get("type") == "user" else None
            texts = (string(block.get("text")) for block in objects(content))
            found += ["SKILL.md" for text in texts if text.split("\n", 1)[0] == ours]
        return events.with_read_files(found, messages, place, self.skills, skill)


def _messages(told: list[dict[str, Any]]) -> list[Message]:
    messages: list[Message] = []
    for event in told:
        is_said = event.get("type") in ("assistant", "user")
        blocks = objects(mapping(event.get("message")).get("content")) if is_said else []
        if event.get("type") == "assistant":
            text = "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")
            calls = [
                (str(block.get("id")), str(block.get("name")), block.get("input", {}))
                for block in blocks
                if block.get("type") == "tool_use"
            ]
            if text or calls:
                messages.append(events.call_message(text, calls))
        for block in blocks:
            if block.get("type") == "tool_result":
                call, text = str(block.get("tool_use_id")), _text(block.get("content"))
                messages.append(events.tool_message(call, text))
    return messages


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text") or f"[{block.get('type')}]") for block in objects(content))
    return str(content or "")


def _message(prompt: str, images: tuple[Path, ...]) -> str:
    """A question with its images as one line of its input stream: without tools it can read no file."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": prompt}]
    for path in images:
        kind = f"image/{path.suffix.removeprefix('.').replace('jpg', 'jpeg')}"
        data = base64.b64encode(path.read_bytes()).decode()
        blocks.append({"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}})
    return json.dumps({"type": "user", "message": {"role": "user", "content": blocks}}) + "\n"


DRIVER = ClaudeCodeDriver()
