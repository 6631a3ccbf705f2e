"""How a target works on a task, one file each. The folder is the registry."""

from __future__ import annotations

from skillopt.harnesses.port import Harness, HarnessPlugin, Session, Setup
from skillopt.registry import Registry

__all__ = ["Harness", "HarnessPlugin", "Session", "Setup", "harnesses"]

harnesses = Registry("harness", "skillopt.harnesses")
