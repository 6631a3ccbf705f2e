"""Who proposes edits: one file each; the folder is the registry."""

from __future__ import annotations

from skillopt.registry import Registry

PROPOSERS = Registry("proposer", "skillopt.optimizer.proposers", "skillopt.proposers")
