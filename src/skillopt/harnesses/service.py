"""A service of yours as the target: `http://host:port/path`, which is sent JSON and answers with JSON."""

from __future__ import annotations

import base64
from dataclasses import replace
from urllib.parse import urlsplit

from skillopt.errors import ConfigError
from skillopt.harnesses._own_agent import OwnAgent, OwnAgentWork
from skillopt.harnesses.port import Harness, Setup
from skillopt.messages import Request
from skillopt.models.port import ModelSpec
from skillopt.models.wires.http import Wire


class ServiceTarget:
    """Posts one request a task.

    Sent: `{"task": {"id", "prompt", "instructions", "files", "images"}, "skill", "skill_files"}`, files as
    base64 by name, the files of the skill's folder as text by path. Wanted: `{"answer", "trace", "usage"}`.
    `model.target.api_key` is sent as a bearer token.
    """

    asks_model = False

    def identity(self, spec: ModelSpec) -> str:
        """What answers at an address cannot be known."""
        return "service"

    def __call__(self, setup: Setup) -> Harness:
        call = _Post(setup.model)
        return OwnAgent("service", self.identity(setup.model), setup, call)


class _Post:
    def __init__(self, spec: ModelSpec) -> None:
        self._spec = replace(spec, provider="service", name=urlsplit(spec.name).path or "/")
        self._url = spec.name
        try:
            self._wire()  # a bad address is told now
        except ConfigError as error:
            raise ConfigError(f"model.target: {error}") from None

    async def __call__(self, work: OwnAgentWork) -> object:
        task = work.task
        body = work.told(
            {path.name: base64.b64encode(path.read_bytes()).decode() for path in task.files},
            [{"media_type": each.media_type, "data": each.data} for each in task.images],
        )
        body["skill_files"] = {
            path.relative_to(work.folder).as_posix(): path.read_text("utf-8", "replace")
            for path in sorted(work.folder.rglob("*"))
            if path.is_file()
        }
        wire = self._wire()
        try:
            asked = Request(
                messages=(), max_tokens=1, role="target", stage="rollout", place=f"task/{task.id}"
            )
            return await wire.post("", body, asked)
        finally:
            await wire.close()

    def _wire(self) -> Wire:
        return Wire(self._spec, base_url=self._url)


PLUGIN = ServiceTarget()
