"""`skillopt config show`: every key with its value, and where the value comes from."""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping

import typer

from skillopt.cli import _options
from skillopt.cli._console import open_console
from skillopt.cli._options import CfgOptions, ConfigArgument, ConfigOption, Json

PANEL, PLACE = "Look things up", 0


def add(app: typer.Typer, *, full: bool) -> None:
    """Add the command."""
    group = typer.Typer(help="Look at the configuration.", no_args_is_help=True)
    group.callback()(_group)
    _options.register(group, "show", show, panel=PANEL, full=full)
    app.add_typer(group, name="config", rich_help_panel=PANEL)


def show(
    flags: Mapping[str, str],
    config_argument: ConfigArgument = None,
    config: ConfigOption = None,
    cfg_options: CfgOptions = None,
    json: Json = False,
) -> None:
    """Print the configuration a command with these arguments would use: key, value, source. No credential is
    shown.
    """
    from rich.text import Text

    from skillopt.cli import _report, _run
    from skillopt.config import as_json, render

    resolved = _run.configure(_options.config_name(config_argument, config), flags, cfg_options)
    rows = render(resolved)
    if json:
        _report.print_json({"config": as_json(resolved), "sources": {key: source for key, _, source in rows}})
        return
    console = open_console()
    shown = [(key, json_format.dumps(value, ensure_ascii=False), source) for key, value, source in rows]
    key_width, value_width = (max(len(row[column]) for row in shown) for column in (0, 1))
    for key, value, source in shown:
        # Not a table: lines stay whole, for grep and for a narrow terminal.
        line = f"{key:<{key_width}}  {value:<{min(value_width, 40)}}  {source}"
        console.print(Text(line, style="dim" if source == "default" else ""), soft_wrap=True)


def _group() -> None:
    """Look at the configuration."""
