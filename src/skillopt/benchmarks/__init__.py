"""Benchmarks, one file or small folder each. The folder is the registry."""

from __future__ import annotations

from skillopt.registry import Registry

benchmarks = Registry("benchmark", "skillopt.benchmarks")
