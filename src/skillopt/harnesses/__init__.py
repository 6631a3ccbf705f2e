"""How a target works on a task, one file each. The folder is the registry."""

from __future__ import annotations

from skillopt.registry import Registry

harnesses = Registry("harness", "skillopt.harnesses")
