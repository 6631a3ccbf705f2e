"""Answers MCP requests: the tools a client sees, the project they work in, and what it hears meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, ValidationError

from skillopt import __version__
from skillopt.errors import SkillOptError, UsageError, suggest
from skillopt.mcp import resources
from skillopt.mcp.place import Denied, find_project, paths_of
from skillopt.mcp.tools import TOOLS, McpTool
from skillopt.mcp.work import CommandRunner
from skillopt.process import Finished
from skillopt.redact import Scrubber, names_secret, redact_patterns

Context = ServerRequestContext[Any, Any]
Status = Literal[
    "ok", "error", "bad_input", "stopped", "budget_spent", "handoff_pending", "interrupted", "refused"
]
_STATUSES: Mapping[int, Status] = {
    0: "ok",
    2: "bad_input",
    3: "stopped",
    4: "budget_spent",
    5: "handoff_pending",
    130: "interrupted",
}
"""What an exit code means; any other is an error."""
_OUTCOMES = ("ok", "budget_spent", "handoff_pending")
"""How a call ends that did not fail."""
INSTRUCTIONS = (
    "SkillOpt trains skills (the Markdown documents an agent loads before it works) on tasks with a score,"
    " behind a held-out gate. sleep_* tools learn from the person's own sessions and stage proposals;"
    " skillopt_* tools train and measure on tasks. Training and evaluation call models and cost money: ask"
    " skillopt_estimate or sleep_dry_run first and tell the person what it says. Calls may take long; they"
    " report progress, can be cancelled, and the same call goes on where it stopped. Live skills change only"
    " when the person adopts a proposal: show sleep_diff and let them decide."
)
_CLOSING = "The server is closing and has stopped this work; the same call goes on where it stopped."
_ROOTS = "roots"
_ROOTS_PATIENCE = 5.0
_ROUND_TRIPS = "2026-07-28"
"""From this version on a server asks its client by an incomplete result, not by a request of its own."""
_MOST_MESSAGES = 20


class ToolAnswer(BaseModel):
    """What a call gives back."""

    model_config = {"use_attribute_docstrings": True}

    status: Status
    """How it ended."""
    exit_code: int | None = None
    """Exit code of the command; null where none was started."""
    result: Any = None
    """What the command prints with --json; {text} for a command without it; null where there is none."""
    messages: list[str] = []
    """What the command said beside its result, at the end."""

    def shown(self, name: str) -> types.CallToolResult:
        """As a client wants it: structured, and the same as text."""
        claim = self.result.get("claim") if isinstance(self.result, dict) else None
        said = str(claim or "") if self.status in ("ok", "budget_spent") else _last_words(self.messages)
        texts = [f"{name}: {self.status.replace('_', ' ')}. {said}".strip()]
        if self.result is not None:
            texts.append(json.dumps(self.result, ensure_ascii=False, default=str))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text) for text in texts],
            structured_content=self.model_dump(mode="json"),
            is_error=self.status not in _OUTCOMES,
        )


def answer_of(tool: McpTool, done: Finished, scrubber: Scrubber) -> ToolAnswer:
    """How a command ended."""
    status: Status = _STATUSES.get(done.code, "error")
    lines = [
        redact_patterns(scrubber.scrub(line))
        for line in done.stderr.decode("utf-8", "replace").splitlines()
        if line.strip()
    ]
    text = done.stdout.decode("utf-8", "replace")
    result: Any = None
    if "--json" not in tool.command:
        result = {"text": text} if text else None
    elif text.strip():
        try:
            result = json.loads(text)
        except ValueError:
            status = "error"
            cut = "The command printed more than can be handed on."
            lines.append(cut if done.cut else "The command printed no JSON object.")
    return ToolAnswer(
        status=status,
        exit_code=done.code,
        result=scrubber.scrub_json(result),
        messages=lines[-_MOST_MESSAGES:],
    )


def _last_words(lines: Sequence[str]) -> str:
    """What a command says when it fails: from the line on that names the error as the command line does."""
    starts = [number for number, line in enumerate(lines) if line.startswith(("error: ", "stopped: "))]
    return "\n".join(lines[starts[-1] :] if starts else lines[-5:])


def environment_scrubber(environ: Mapping[str, str], further: Sequence[str] = ()) -> Scrubber:
    """Takes out every value of the environment that has the name of a secret."""
    named = [value for name, value in environ.items() if names_secret(name) and not value.isdigit()]
    return Scrubber([*named, *further])


@dataclass(slots=True)
class ToolServer:
    """Answers the requests of all clients of one server."""

    project: Path
    """Where to work for a client that names neither a project nor a root."""
    runner: CommandRunner
    allow: Collection[str] = ()
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    further_secrets: tuple[str, ...] = ()
    scrubber: Scrubber = field(init=False)

    def __post_init__(self) -> None:
        self.scrubber = environment_scrubber(self.environ, self.further_secrets)

    def server(self) -> Server[Any]:
        """The server, without its transport."""
        return Server(
            "skillopt",
            version=__version__,
            title="SkillOpt",
            instructions=INSTRUCTIONS,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
        )

    async def list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """The tools that are switched on."""
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.says,
                    input_schema=tool.schema,
                    output_schema=ToolAnswer.model_json_schema(),
                    annotations=types.ToolAnnotations(
                        read_only_hint=tool.reads_only,
                        destructive_hint=bool(tool.switch),
                        open_world_hint=tool.is_long,
                    ),
                )
                for tool in TOOLS
                if not tool.switch or tool.switch in self.allow
            ]
        )

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Do what a tool does, in the caller's project."""
        tool = next((one for one in TOOLS if one.name == params.name), None)
        if tool is None:
            near = suggest(params.name, [one.name for one in TOOLS])
            raise MCPError(code=types.INVALID_PARAMS, message=f"There is no tool {params.name!r}. {near}")
        roots = await self._roots(ctx, params)
        if isinstance(roots, types.InputRequiredResult):
            return roots
        try:
            answer = await self._answer(ctx, tool, params.arguments or {}, roots)
        except SkillOptError as error:
            is_input = isinstance(error, UsageError)
            status: Status = "refused" if isinstance(error, Denied) else "bad_input" if is_input else "error"
            answer = ToolAnswer(status=status, messages=[self.scrubber.scrub(str(error))])
        return answer.shown(tool.name)

    async def _answer(
        self, ctx: Context, tool: McpTool, given: Mapping[str, Any], roots: Sequence[Path]
    ) -> ToolAnswer:
        if tool.switch and tool.switch not in self.allow:
            raise Denied(
                f"{tool.name} is switched off. Only the person can switch it on: skillopt mcp --allow"
                f" {tool.switch}."
            )
        named = given.get("project")
        project = find_project(named if isinstance(named, str) else None, roots, self.project)
        arguments = tool.read(given, project)
        if tool.answer is not None:
            result = await asyncio.to_thread(tool.answer, arguments, project)
            return ToolAnswer(status="ok", result=self.scrubber.scrub_json(result))
        count = 0

        async def tell(line: str) -> None:
            nonlocal count
            count += 1
            await ctx.session.report_progress(count, None, redact_patterns(self.scrubber.scrub(line)))

        done = await self.runner.run(
            tool.line(arguments), project, is_long=tool.is_long, environ=self.environ, tell=tell
        )
        if done is None:
            return ToolAnswer(status="interrupted", messages=[_CLOSING])
        return answer_of(tool, done, self.scrubber)

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Runs and skills of the project."""
        roots = await self._roots(ctx, None)
        project = self._project([] if isinstance(roots, types.InputRequiredResult) else roots)
        found = await asyncio.to_thread(lambda: list(resources.listed(project)))
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=uri, name=name, mime_type=kind, description=about)
                for uri, name, kind, about in found
            ]
        )

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """How the addresses of runs and skills are made."""
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(uri_template=uri, name=name, mime_type=kind, description=about)
                for uri, (name, kind, about) in resources.TEMPLATES.items()
            ]
        )

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        """A run or a skill."""
        roots = await self._roots(ctx, params)
        if isinstance(roots, types.InputRequiredResult):
            return roots
        uri, project = str(params.uri), self._project(roots)
        try:
            kind, text = await asyncio.to_thread(resources.read, uri, project)
        except UsageError as error:
            raise self._invalid(error, uri) from error
        told = types.TextResourceContents(uri=uri, mime_type=kind, text=self.scrubber.scrub(text))
        return types.ReadResourceResult(contents=[told])

    def _project(self, roots: Sequence[Path]) -> Path:
        try:
            return find_project(None, roots, self.project)
        except UsageError as error:
            raise self._invalid(error) from error

    def _invalid(self, error: UsageError, uri: str = "") -> MCPError:
        return MCPError(
            code=types.INVALID_PARAMS,
            message=self.scrubber.scrub(str(error)),
            data={"uri": uri} if uri else None,
        )

    async def _roots(
        self, ctx: Context, params: types.InputResponseRequestParams | None
    ) -> list[Path] | types.InputRequiredResult:
        """The folders the client works in, none where it does not say; or the result that asks for them."""
        capabilities = ctx.session.client_capabilities
        if capabilities is None or capabilities.roots is None:
            return []
        if ctx.protocol_version >= _ROUND_TRIPS:
            if params is None:
                return []
            answered = (params.input_responses or {}).get(_ROOTS)
            if answered is None:
                return types.InputRequiredResult(input_requests={_ROOTS: types.ListRootsRequest()})
            listed = answered.roots if isinstance(answered, types.ListRootsResult) else []
            return paths_of(str(root.uri) for root in listed)
        try:
            found = await ctx.session.send_request(
                types.ListRootsRequest(),
                types.ListRootsResult,
                request_read_timeout_seconds=_ROOTS_PATIENCE,
                metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
            )
        except (MCPError, ValidationError):  # a client that offers roots and does not list them named none
            return []
        return paths_of(str(root.uri) for root in found.roots)
