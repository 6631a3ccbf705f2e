"""The optimizer model's own analysts, one question a minibatch, with merging and ranking. The default."""

from __future__ import annotations

from skillopt.optimizer.proposers.port import ProposerSetup


def analysts(setup: ProposerSetup) -> None:
    """Nobody else proposes."""


PLUGIN = analysts
