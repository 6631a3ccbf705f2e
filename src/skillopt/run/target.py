"""A target by name, with what tells it from others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillopt.config.identity import run_identity
from skillopt.config.roles import RoleSpec, resolve_role
from skillopt.config.schema import Config
from skillopt.errors import ConfigError
from skillopt.harnesses import identity_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target to measure with."""

    model: str
    """Its model string."""
    settings: str
    """Hash of all that can change what it does: model, sampling, cap, harness; not address and key."""
    spec: RoleSpec
    has_namesake: bool = False
    """Whether the same model at another address is a target beside it."""

    @property
    def name(self) -> str:
        """The model string, with the address where that alone tells it from another target."""
        return f"{self.model}@{self.spec.model.address}" if self.has_namesake else self.model

    @property
    def digest(self) -> str:
        """Hash of all that can change what it does, the address among it."""
        address = self.spec.model.address
        return _digest(self.settings + address) if address else self.settings

    @classmethod
    def of(cls, config: Config, *, needs_key: bool = True) -> Target:
        """The target that a configuration names; raises `ConfigError` where key or endpoint is missing."""
        spec = resolve_role(config, "target", needs_key=needs_key)
        identity = json.dumps(run_identity(config)["model"]["target"], sort_keys=True)
        identity += identity_of(spec.harness, spec.model)
        return cls(model=config.model.target.name, settings=_digest(identity), spec=spec)


def told_apart(targets: Sequence[Target]) -> list[Target]:
    """The targets, each with a name of its own. Raises `ConfigError` where one of them is there twice."""
    digests = [target.digest for target in targets]
    twice = sorted({target.name for target in targets if digests.count(target.digest) > 1})
    if twice:
        raise ConfigError(
            f"The target {', '.join(twice)} is named more than once. Name it once; --repeats N draws each"
            " task N times."
        )
    places = {(target.model, target.spec.model.address) for target in targets}
    models = [model for model, _ in places]
    return [replace(target, has_namesake=models.count(target.model) > 1) for target in targets]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
