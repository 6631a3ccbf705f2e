"""Acme: a provider with its own key variable, option and price. Its models are the simulated world's."""

from typing import Literal

from pydantic import Field

from skillopt.config.service import Options
from skillopt.models import ModelSpec, Provider, per_million, provider


class AcmeOptions(Options):
    tier: Literal["silver", "gold"] | None = Field(default=None, description="How much attention is paid.")


class Acme:
    def __init__(self, spec: ModelSpec) -> None:
        noise = "noise=0" if spec.options.get("tier") == "gold" else "noise=0.02"
        self._world = provider("world")(ModelSpec(provider="world", name=noise))
        self.endpoint = "acme"
        self.fingerprint = {"provider": "acme", "model": spec.name, "tier": spec.options.get("tier")}

    async def complete(self, request):
        return await self._world.complete(request)

    async def close(self):
        await self._world.close()


PLUGIN = Provider(open=Acme, Options=AcmeOptions, needs_key=True, price=per_million(input=1, output=4))
