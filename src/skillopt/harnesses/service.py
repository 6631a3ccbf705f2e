"""A service of yours as the target: `http://host:port/path`, which is sent JSON and answers with JSON."""

from __future__ import annotations

import base64
from dataclasses import replace
from urllib.parse import urlsplit

from skillopt.errors import ConfigError
from skillopt.harnesses._own_agent import OwnAgent, OwnAgentWork
from skillopt.harnesses.port import Setup
from skillopt.messages import Request
from skillopt.models.port import ModelSpec
from skillopt.models.wires.http import Wire


class ServiceAgent(OwnAgent):
    """Posts one request a task.

    Sent: `{"task": {"id", "prompt", "instructions", "files", "images"}, "skill", "skill_files"}`, files as
    base64 by name, the files of the skill's folder as text by path. Wanted: `{"answer", "trace", "usage"}`.
    `model.target.api_key` is sent as a bearer token.
    """

    name = "service"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup, version=self.identity(setup.model))
        self._url = setup.model.name
        self._spec = replace(setup.model, provider="service", name=urlsplit(self._url).path or "/")
        try:
            self._wire()  # a bad address is told now
        except ConfigError as error:
            raise ConfigError(f"model.target: {error}") from None

    @staticmethod
    def identity(spec: ModelSpec) -> str:
        """What answers at an address cannot be known."""
        return "service"

    async def call(self, work: OwnAgentWork) -> object:
        """Post the task, and return what the service answered."""
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


PLUGIN = ServiceAgent
