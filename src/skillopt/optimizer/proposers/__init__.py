"""Who proposes edits: one file each; the folder is the registry."""

from __future__ import annotations

from skillopt.optimizer.proposers.port import Evidence, Proposer, ProposerSetup
from skillopt.registry import Registry

__all__ = ["PROPOSERS", "Evidence", "Proposer", "ProposerSetup"]

PROPOSERS = Registry("proposer", "skillopt.optimizer.proposers", "skillopt.proposers")
