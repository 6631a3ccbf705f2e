"""Model providers, one file each, and the stack every call passes. The folder is the registry."""

from __future__ import annotations

from skillopt.registry import Registry

PROVIDERS = Registry("model provider", "skillopt.models.providers", group="skillopt.models")
