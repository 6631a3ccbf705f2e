"""Writes `docs/configuration.md` from the code, so that the table cannot lag: `python docs/generate.py`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skillopt.benchmarks import benchmarks
from skillopt.config import describe, flags
from skillopt.config.show import Described

HEAD = """# Configuration

Made by `docs/generate.py`; `make docs` writes it anew and a test holds it.

Settings come from flags, `--cfg-options key=value`, a YAML file (`--config`, with `_base_`), the environment and `.env`, in that order;
`skillopt config show` prints every value with its origin. An unknown key is an error that names the near miss. A knob left unset sends
nothing; the output cap is the one knob with a default. `flag` is the public name of the same setting on the command line.
"""


def page() -> str:
    """The whole page."""
    common = describe()
    parts = [HEAD, "## Settings of every run\n", table(common)]
    for name in benchmarks.names():
        own = [row for row in describe(name) if row.key not in {shared.key for shared in common}]
        parts += [f"## Settings of `{name}`\n", table(own, name)]
    return "\n".join(parts)


def table(rows: Sequence[Described], benchmark: str | None = None) -> str:
    """One line a key."""
    names = {flag.key: flag.name for flag in flags(benchmark)}
    lines = ["| key | flag | type | default | meaning |", "|---|---|---|---|---|"]
    for row in rows:
        name = names.get(row.key) or names.get(row.key.removesuffix(".name"))
        flag = f"`--{name}`" if name else ""
        default = "" if row.default is None else f"`{row.default}`"
        cells = (f"`{row.key}`", flag, row.type, default, row.description)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("configuration.md").write_text(page(), encoding="utf-8")
