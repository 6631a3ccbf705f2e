"""Benchmarks, one file or small folder each. The folder is the registry."""

from skillopt.registry import Registry
from skillopt.tasks.benchmark import Benchmark, BenchmarkPlugin, Environment

__all__ = ["Benchmark", "BenchmarkPlugin", "Environment", "benchmarks"]

benchmarks = Registry("benchmark", "skillopt.benchmarks")
