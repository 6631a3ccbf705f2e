"""Answers MCP requests: the tools a client sees, the project they work in, and what it hears meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError

from skillopt import __version__
from skillopt.errors import Fault, UsageError, suggest
from skillopt.mcp import resources
from skillopt.mcp.answers import OUTPUT_SCHEMA, ToolAnswer, answer_of, environment_scrubber, refusal
from skillopt.mcp.rights import OUTSIDE, Denied, Rights, find_place, paths_of
from skillopt.mcp.tools import TOOLS, CommandTool, Toolbox, offered
from skillopt.mcp.work import CommandRunner, RunningCommand
from skillopt.process import Finished
from skillopt.redact import Scrubber, redact_patterns

Context = ServerRequestContext[Any, Any]
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


@dataclass(slots=True)
class ToolServer:
    """Answers the requests of all clients of one server."""

    project: Path
    """Where to work for a client that names neither a project nor a root."""
    tools: Toolbox
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
        by_name = {tool.name: tool for tool in offered(self.allow)}
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=spec.name,
                    description=spec.description,
                    input_schema=spec.schema,
                    output_schema=OUTPUT_SCHEMA,
                    annotations=types.ToolAnnotations(
                        read_only_hint=by_name[spec.name].reads_only,
                        destructive_hint=by_name[spec.name].switch is not None,
                        open_world_hint=by_name[spec.name].calls_models,
                    ),
                )
                for spec in self.tools.specs(self.allow)
            ]
        )

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Do what a tool does, in the caller's project."""
        tool = next((one for one in TOOLS if one.name == params.name), None)
        if tool is None:
            known = [one.name for one in offered(self.allow)]
            raise MCPError(
                code=types.INVALID_PARAMS,
                message=f"There is no tool {params.name!r}. {suggest(params.name, known)}",
            )
        if tool.switch is not None and tool.switch not in self.allow:
            reason = (
                f"{tool.name} is switched off. Only the person can switch it on: skillopt mcp --allow"
                f" {tool.switch}."
            )
            return self._told(tool, refusal(reason, status="refused"))
        roots = await self._roots(ctx, params)
        if isinstance(roots, types.InputRequiredResult):
            return roots
        given = params.arguments or {}
        try:
            arguments = self.tools.arguments[tool.name]
            arguments.check(given)
            place = find_place(given.get("project"), roots, self.project, anywhere=OUTSIDE in self.allow)
            # In a thread: to know what a setting means, every benchmark is looked at, the first time.
            await asyncio.to_thread(Rights(place=place, allow=self.allow).check, given)
            line = arguments.line(given, str(place.project), tool.fixed)
            work = self.runner.start(line, place.project, is_long=tool.is_long, environ=self.environ)
        except UsageError as error:
            status = "refused" if isinstance(error, Denied) else "bad_input"
            return self._told(tool, refusal(self.scrubber.scrub(str(error)), status=status))
        try:
            done = await self._watched(ctx, work)
        except Fault as error:
            return self._told(tool, refusal(self.scrubber.scrub(str(error)), status="error"))
        if done is None:
            return self._told(tool, refusal(_CLOSING, status="interrupted"))
        return self._told(
            tool, answer_of(tool, done, self.scrubber, speaks_json="--json" in arguments.speaks)
        )

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Runs and skills of the project."""
        found = await asyncio.to_thread(resources.listed, await self._default_project(ctx))
        return types.ListResourcesResult(resources=found)

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
        uri = str(params.uri)
        try:
            project = find_place(None, roots, self.project).project
            kind, text = await asyncio.to_thread(resources.read, uri, project)
        except UsageError as error:
            raise MCPError(
                code=types.INVALID_PARAMS, message=self.scrubber.scrub(str(error)), data={"uri": uri}
            ) from error
        told = types.TextResourceContents(uri=uri, mime_type=kind, text=self.scrubber.scrub(text))
        return types.ReadResourceResult(contents=[told])

    async def _watched(self, ctx: Context, work: RunningCommand) -> Finished | None:
        """Tell the client what is heard of a work until it ends; a client that gives up stops it."""
        count = 0
        try:
            async for line in work.news():
                count += 1
                await ctx.session.report_progress(count, None, redact_patterns(self.scrubber.scrub(line)))
        except BaseException:
            # Whatever ends the waiting - a cancelled call, a client that is gone - the work is stopped, so
            # that its run is closed.
            self.runner.stop(work)
            raise
        return work.finished

    def _told(self, tool: CommandTool, answer: ToolAnswer) -> types.CallToolResult:
        """The result as a client wants it: structured, and the same as text."""
        structured = answer.structured()
        texts = [answer.headline(tool.name)]
        if answer.result is not None:
            texts.append(json.dumps(answer.result, ensure_ascii=False))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text) for text in texts],
            structured_content=structured,
            is_error=answer.is_error,
        )

    async def _default_project(self, ctx: Context) -> Path:
        roots = await self._roots(ctx, None)
        try:
            return find_place(
                None, [] if isinstance(roots, types.InputRequiredResult) else roots, self.project
            ).project
        except UsageError as error:
            raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from error

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
