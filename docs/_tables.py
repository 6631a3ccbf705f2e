"""Tables of the documentation, from what the plug-ins say of themselves: the agent CLIs, and which benchmark runs
inside which harness.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from skillopt.agents import driven, driver
from skillopt.harnesses import harnesses, works_alone
from skillopt.programs.port import AgentDriver
from skillopt.tasks.benchmark import Benchmark

_END = "<!-- end -->"
SINGLE = "single"
"""The public word for a mode in which a task is worked on without an environment of ours."""


def support_table() -> str:
    """The agents as a Markdown table, from the drivers themselves."""
    head = (
        "Agent",
        "Tried with",
        "Install",
        "Models of",
        "Own login",
        "Skill in",
        "Forced by",
        "Proof of loading",
        "Images",
        "Tokens",
        "Network",
    )
    rows = [_row(driver(name)) for name in driven()]
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _row(one: AgentDriver) -> tuple[str, ...]:
    login = ", ".join(f"`{name}`" for name in one.credentials) or "none"
    return (
        f"`{one.name}`",
        one.tested,
        one.package if one.package.startswith("see") else f"`{one.package}`",
        ", ".join(f"`{name}`" for name in sorted(one.providers)) or "its own only",
        login,
        f"`{one.skills}`",
        one.forced_by,
        one.proven_by,
        "yes" if one.images else "no",
        "yes" if one.reports_usage else "unknown",
        one.network,
    )


def benchmark_table(plugins: Mapping[str, type[Benchmark]]) -> str:
    """A Markdown table of benchmarks and harnesses."""
    names = harnesses.names()
    head = ["Benchmark", *(f"`{name}`" for name in names)]
    rows = [
        [f"`{name}`", *(_cell(plugin, harness) for harness in names)]
        for name, plugin in sorted(plugins.items())
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)) + "\n"


def with_tables(page: str, plugins: Mapping[str, type[Benchmark]]) -> str:
    """The page with its two generated tables as the code has them now; they stand between comments that name
    them.
    """
    for name, table in (("agents", support_table()), ("benchmarks", benchmark_table(plugins))):
        before, mark, rest = page.partition(f"<!-- table: {name} -->\n")
        page = f"{before}{mark}{table}{rest[rest.index(_END) :]}" if mark else page
    return page


def _cell(plugin: type[Benchmark], harness: str) -> str:
    """An agent brings its own tools, so it needs documents or no environment at all; chat needs one that
    understands plain text.
    """
    if plugin.shows_images and harness in driven() and not driver(harness).images:
        return "no"
    if not plugin.has_environment:
        return "yes"
    if not works_alone(harness):
        return "yes" if harness == "tool_loop" else "by mode"
    if plugin.offers_documents:
        return "yes"
    mode = plugin.Settings.model_fields.get("mode")
    return f"`env.mode: {SINGLE}`" if mode is not None and SINGLE in get_args(mode.annotation) else "no"
