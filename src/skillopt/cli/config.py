"""`skillopt config`: look at the configuration: every key with its value, and where the value comes from."""

from __future__ import annotations

import json as json_format

from skillopt.cli._console import echo, open_console, print_json
from skillopt.cli._flags import Given, flagged
from skillopt.cli._options import Json, group
from skillopt.config.record import as_json, render

PANEL, PLACE = "Look things up", 0


def show(given: Given, json: Json = False) -> None:
    """Print the configuration these arguments would give: key, value, source. No credential is shown."""
    resolved = given.load()
    for warning in resolved.warnings:
        echo(f"warning: {warning}", err=True)
    rows = render(resolved)
    if json:
        print_json({"config": as_json(resolved), "sources": {key: source for key, _, source in rows}})
        return
    console = open_console()
    shown = [(key, json_format.dumps(value, ensure_ascii=False), source) for key, value, source in rows]
    key_width, value_width = (max(len(row[column]) for row in shown) for column in (0, 1))
    for key, value, source in shown:  # not a table: lines stay whole, for grep and for a narrow terminal
        line = f"{key:<{key_width}}  {value:<{min(value_width, 40)}}  {source}"
        console.say(line, "dim" if source == "default" else "")


add = group("Look at the configuration.", {"show": flagged(show, short=("target", "optimizer"))})
