"""Loads in the server what every command loads, so that a session begins with its own work."""

from __future__ import annotations

from pathlib import Path

from claims._product import load, prepare, skillopt

_WORLD = ["env.name=world", "model.target=world", "model.optimizer=world"]
prepare(load(None, flags={}, options=_WORLD, environ={}, cwd=Path.cwd()))
for _name in ("train", "check", "sleep"):
    skillopt.cli.app(_name)
