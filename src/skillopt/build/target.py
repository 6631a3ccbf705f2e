"""A target by name, with what tells it from others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.config import Config, RoleSpec, resolve_role
from skillopt.errors import ConfigError
from skillopt.harnesses import identity_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target to measure with."""

    name: str
    digest: str
    """Of all that can change what it does: model, sampling, cap, harness; not endpoint and key."""
    spec: RoleSpec

    @classmethod
    def of(cls, config: Config, *, needs_key: bool = True) -> Target:
        """The target that a configuration names; raises `ConfigError` where key or endpoint is missing."""
        spec = resolve_role(config, "target", needs_key=needs_key)
        identity = json.dumps(config.identity()["model"]["target"], sort_keys=True)
        identity += identity_of(spec.harness, spec.model)
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        return cls(name=config.model.target.name, digest=digest, spec=spec)


def check_apart(targets: Sequence[Target]) -> None:
    """Raise `ConfigError` where one of the targets is there twice."""
    digests = [target.digest for target in targets]
    twice = sorted({target.name for target in targets if digests.count(target.digest) > 1})
    if twice:
        raise ConfigError(
            f"The target {', '.join(twice)} is named more than once. An endpoint makes no other target of the"
            " same model: measure it in another folder (--out_root)."
        )
