"""One llama.cpp server in this process: when it is loaded, who waits for it, when a call is given up."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
import re
import secrets
import struct
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from skillopt.errors import ConfigError, ModelError

MAGIC = b"GGUF"
_NO_QUESTION = "\x01"
"""Stands where a question would: no question begins with it."""
SAMPLES = 256
BLOCK = 4096
HEAD = 1 << 20
"""Bytes in which a file describes its model; the vocabulary comes after that."""
_UINT32 = 4
"""The type of a number in that description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What a server is loaded with; equal builds share one server."""

    path: Path
    n_ctx: int
    """Tokens of context, shared by the calls that are worked on at once."""
    threads: int
    parallel: int


class Llama:
    """A loaded model. Its calls wait in `parallel` threads of its own, never in the event loop."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._server: Any = None
        self._loading = threading.Lock()
        self._pool = ThreadPoolExecutor(build.parallel, thread_name_prefix="skillopt-local")
        self._held: Mapping[str, Any] | None = None
        """What begins the prompt that the server has in memory."""

    @classmethod
    def shared(cls, build: Build) -> Llama:
        """The server of this build: the one that somebody in this process still holds, or a new one."""
        with _TABLE:
            llama = _RUNNING.get(build)
            if llama is None:
                llama = _RUNNING[build] = cls(build)
            return llama

    async def chat(self, body: Mapping[str, Any], timeout: float) -> list[Mapping[str, Any]]:
        """Send a body and return the chunks of its answer. Time in line does not count.

        What stands before a last message of the user is kept in memory for the next call. The answer is the
        same with and without it: the memory is always cut exactly there, and filled anew for another.
        """
        call = _Call(body=body, timeout=timeout)
        try:
            return await asyncio.wrap_future(self._pool.submit(call.run, self))
        except asyncio.CancelledError:
            call.give_up()
            raise

    def begin(self, server: Any, body: Mapping[str, Any]) -> Literal["held", "read", "none"]:
        """See to it that the server has the beginning of this prompt in memory, and nothing behind it: it was
        held since the call before, or is read now. Without a beginning there is none.
        """
        beginning = _beginning(body) if self._build.parallel == 1 else None
        held, self._held = self._held, None
        if beginning is None:
            return "none"
        messages = [*beginning["messages"], {"role": "user", "content": _NO_QUESTION}]
        how = {"max_tokens": 1, "cache_prompt": beginning == held, "stream": True}
        server.handle_chat_completions({**beginning, "messages": messages, **how}, lambda chunk: False)
        self._held = beginning
        return "held" if beginning == held else "read"

    def loaded(self) -> Any:
        """The server; the first call loads it."""
        with self._loading:
            if self._server is None:
                self._server = _load(self._build)
            return self._server

    def __del__(self) -> None:
        self._pool.shutdown(wait=False)


# Who asks for an equal model while it is loaded gets the same one: two roles of a run, or two runs of one
# process, load it once.
_RUNNING: WeakValueDictionary[Build, Llama] = WeakValueDictionary()
_TABLE = threading.Lock()


class _Call:
    """One call in its thread. Between two tokens it looks whether it should go on."""

    def __init__(self, *, body: Mapping[str, Any], timeout: float) -> None:
        self._body = body
        self._timeout = timeout
        self._deadline = 0.0
        self._given_up = False
        self._chunks: list[Mapping[str, Any]] = []

    def run(self, llama: Llama) -> list[Mapping[str, Any]]:
        server = llama.loaded()
        self._deadline = time.monotonic() + self._timeout
        beginning = llama.begin(server, self._body)
        how = {"cache_prompt": beginning != "none", "stream": True}
        body = {**self._body, **how, "stream_options": {"include_usage": True}}
        server.handle_chat_completions(body, self._heard)
        if beginning == "read":  # by this very call, though the server found it in memory when asked
            self._chunks = [_without_cached(chunk) for chunk in self._chunks]
        # usage is the last thing that is said
        if self._late() and not (self._chunks and self._chunks[-1].get("usage")):
            raise ModelError("timeout", f"no complete answer within {self._timeout:g} s")
        return self._chunks

    def give_up(self) -> None:
        self._given_up = True

    def _heard(self, chunk: Mapping[str, Any]) -> bool:
        """Take a chunk; true stops the generation."""
        self._chunks.append(chunk)
        return self._given_up or self._late()

    def _late(self) -> bool:
        return time.monotonic() > self._deadline


def _beginning(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The request without its last message; None if this is the only message or not the user's."""
    *before, last = body["messages"]
    if not before or last["role"] != "user":
        return None
    return {"messages": before, **{key: body[key] for key in ("tools",) if key in body}}


def require_xllamacpp() -> None:
    """Refuse to go on without the library, before anything is loaded or paid."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError("A local model needs xllamacpp: pip install 'skillopt-trainer[local]'")


def _without_cached(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """A chunk whose usage, where it says so much, counts no token of the prompt as cached."""
    usage = chunk.get("usage") or {}
    if "prompt_tokens_details" not in usage:
        return chunk
    return {**chunk, "usage": {**usage, "prompt_tokens_details": {"cached_tokens": 0}}}


def require_gguf(path: Path) -> None:
    """Refuse a file that is missing or is no GGUF model."""
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
    except OSError as error:
        raise ConfigError(
            f"The model file {path} cannot be read: {error.strerror or error}. Name a .gguf file that is"
            " there."
        ) from None
    if head != MAGIC:
        raise ConfigError(
            f"{path} is no GGUF model: it does not begin with {MAGIC.decode()}. Download it again, or name"
            " another file."
        )


def own_context(path: Path) -> int | None:
    """The tokens of context that a file was made for: more are not used, whatever `n_ctx` is. None where its
    head does not say.
    """
    try:
        with path.open("rb") as file:
            found = re.search(
                rb"\.context_length" + struct.pack("<I", _UINT32) + b"(.{4})", file.read(HEAD), re.S
            )
    except OSError:  # said when the model is built
        return None
    return None if found is None else int.from_bytes(found[1], "little")


def digest(path: Path) -> str:
    """The identity of a model file by its size and samples of its content: reading it whole takes long."""
    size = path.stat().st_size
    seen = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for sample in range(SAMPLES):
            file.seek(sample * max(0, size - BLOCK) // (SAMPLES - 1))
            seen.update(file.read(BLOCK))
    return seen.hexdigest()[:16]


def _load(build: Build) -> Any:
    xllamacpp = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(build.path)
    params.n_parallel = build.parallel
    params.n_ctx = build.n_ctx
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = build.threads
    params.verbosity = -1
    params.warmup = False
    params.cache_ram_mib = 0  # one beginning is kept, and no older prompts
    params.hostnames = ["127.0.0.1"]
    params.api_keys = [secrets.token_hex()]  # it also listens on a port, and nobody is to use it
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise ModelError(
            "contract", f"the model cannot be loaded: {error} Is it damaged, or too large for this machine?"
        ) from None
